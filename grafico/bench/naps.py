"""Lanes that do nothing or sleep: what the benchmarks of the cluster and the soak walk."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from grafico.calculations import Model, Outcome, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node

__all__ = ["CROWD", "LANE", "CrowdState", "NapInput", "NapState", "Rested", "nap"]


class NapInput(Model):
    """What a lane does."""

    number: int
    seconds: float = Field(default=0.0, ge=0, description="how long it sleeps, s")
    gpu: Literal["none", "slot", "exclusive"] = "none"
    walltime_s: float = Field(default=60.0, gt=0, description="what the scheduler is told, s")


class Rested(Model):
    """What it returns."""

    number: int


def _resources(value: NapInput) -> Resources:
    return Resources(gpu=value.gpu, memory_mib=256, walltime_s=value.walltime_s)


@calculation(version="1", resources=_resources, family="nap")
def nap(value: NapInput, ctx: WorkContext) -> Rested:
    """Sleep."""
    ctx.used(nap="1")
    if value.seconds:
        time.sleep(value.seconds)
    return Rested(number=value.number)


@dataclass(kw_only=True)
class NapState(GraphState):
    """State of a lane."""

    value: NapInput


class Nap(Node[NapState, Rested]):
    """One calculation."""

    async def run(self, ctx: Context[NapState]) -> End[Rested]:
        """Compute."""
        outcome = await ctx.compute(nap, ctx.state.value, label=f"nap · {ctx.state.value.number}")
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output)


LANE = Graph(id="bench-lane", version="1", state_type=NapState, nodes=[Nap], start=Nap)


class Tallied(Model):
    """What is left of all lanes."""

    done: int
    failed: int


async def _went_well(_: str, outcome: Outcome[Any]) -> bool:
    return outcome.ok


Around = Callable[[int], AbstractAsyncContextManager[None]]


def _nothing_around(_: int) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(kw_only=True)
class CrowdState(GraphState):
    """State of a walk that opens lanes."""

    batches: Sequence[Sequence[NapInput]] = ()
    """One fan-out after the other."""
    limit: int | None = None
    last: NapInput | None = None
    around: Around = _nothing_around
    """Entered around each fan-out, to measure it."""
    done: int = 0
    failed: int = 0


class Crowd(Node[CrowdState, Tallied]):
    """Opens the lanes, and keeps nothing of them but their number."""

    async def run(self, ctx: Context[CrowdState]) -> "Last":
        """Walk all lanes."""
        for index, values in enumerate(ctx.state.batches):
            async with ctx.state.around(index):
                members = {f"{value.number}": NapState(value=value) for value in values}
                outcomes = await ctx.fan_out(LANE, members, limit=ctx.state.limit, fold=_went_well)
            done = sum(bool(outcome) for outcome in outcomes.values())
            ctx.state.done += done
            ctx.state.failed += len(outcomes) - done
        return await ctx.route()


class Last(Node[CrowdState, Tallied]):
    """One more calculation, where that is asked for."""

    async def run(self, ctx: Context[CrowdState]) -> End[Tallied]:
        """Compute."""
        if ctx.state.last is not None:
            outcome = await ctx.compute(nap, ctx.state.last, label="last")
            if not outcome.ok:
                raise ctx.fail(outcome)
        return End(Tallied(done=ctx.state.done, failed=ctx.state.failed))


CROWD = Graph(id="bench-crowd", version="1", state_type=CrowdState, nodes=[Crowd, Last], start=Crowd)
