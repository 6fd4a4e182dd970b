"""A graph for the page: lanes on GPU slots that wait until a file lets them go on; some fail."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from grafico.calculations import CalculationError, FailureKind, Model, Outcome, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node


class WaitInput(Model):
    number: int
    gate: str = ""
    fail: bool = False


class Waited(Model):
    number: int


@calculation(version="1", resources=Resources(gpu="slot", gpu_memory_mib=100, memory_mib=200, walltime_s=120))
def wait_for(value: WaitInput, ctx: WorkContext) -> Waited:
    if value.fail:
        raise CalculationError(FailureKind.NOT_CONVERGED, f"{value.number} <b>&amp; would not</b> converge")
    while value.gate and not Path(value.gate).exists():
        time.sleep(0.05)
    return Waited(number=value.number)


class Request(Model):
    gate: str = Field(description="the file that those which wait are waiting for")
    quick: int = 3
    slow: int = 7
    failing: int = 1


class Total(Model):
    done: int


@dataclass(kw_only=True)
class LaneState(GraphState):
    value: WaitInput


class Compute(Node[LaneState, Waited]):
    """Wait."""

    async def run(self, ctx: Context[LaneState]) -> "Check":
        number = ctx.state.value.number
        outcome = await ctx.compute(wait_for, ctx.state.value, label=f"tddft · conformer {number}")
        if not outcome.ok:
            raise ctx.fail(outcome)
        return await ctx.route()


class Check(Node[LaneState, Waited]):
    """Done."""

    async def run(self, ctx: Context[LaneState]) -> End[Waited]:
        return End(Waited(number=ctx.state.value.number))


LANE = Graph(id="shown-lane", version="1", state_type=LaneState, nodes=[Compute, Check], start=Compute)


@dataclass(kw_only=True)
class State(GraphState):
    request: Request
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Spread(Node[State, Total]):
    """Open the lanes."""

    async def run(self, ctx: Context[State]) -> "Finish":
        request = ctx.state.request
        kinds = ["quick"] * request.quick + ["fail"] * request.failing + ["slow"] * request.slow
        members = {
            f"conformer-{number}": LaneState(
                value=WaitInput(number=number, gate=request.gate if kind == "slow" else "", fail=kind == "fail")
            )
            for number, kind in enumerate(kinds)
        }
        ctx.state.outcomes = await ctx.fan_out(LANE, members, label="conformers")
        return await ctx.route()


class Finish(Node[State, Total]):
    """Count."""

    async def run(self, ctx: Context[State]) -> End[Total]:
        return End(Total(done=sum(outcome.ok for outcome in ctx.state.outcomes.values())))


GRAPH = Graph(
    id="shown",
    version="1",
    state_type=State,
    nodes=[Spread, Finish],
    start=Spread,
    request_type=Request,
    begin=lambda request: State(request=request),
)
