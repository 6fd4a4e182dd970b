"""Small real graphs with lanes, for runs that fail, die and resume."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from grafico.calculations import CalculationError, FailureKind, Json, Model, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node, RouteQuestion, need_all, need_at_least

BROKEN: set[float] = set()
"""Inputs at which the calculation fails now."""


class Number(Model):
    x: float


@calculation(version="1")
def square(value: Number, ctx: WorkContext) -> Number:
    """A quick real calculation, which can be made to fail."""
    ctx.used(arithmetic="1")
    if value.x in BROKEN:
        raise CalculationError(FailureKind.NOT_CONVERGED, f"no square for {value.x}")
    return Number(x=value.x * value.x)


@dataclass(kw_only=True)
class LaneState(GraphState):
    x: float = 0.0
    first: float = 0.0


class First(Node[LaneState, float]):
    """Squares the lane's number."""

    async def run(self, ctx: Context[LaneState]) -> "Second":
        outcome = await ctx.compute(square, Number(x=ctx.state.x))
        if not outcome.ok:
            raise ctx.fail(outcome)
        ctx.state.first = outcome.output.x
        return await ctx.route()


class Second(Node[LaneState, float]):
    """Squares two more numbers side by side, in lanes of their own."""

    async def run(self, ctx: Context[LaneState]) -> End[float]:
        members = {f"part{i}": Number(x=ctx.state.x * 10 + i) for i in range(2)}
        parts = need_all(await ctx.fan_out(square, members))
        return End(ctx.state.first + sum(part.x for part in parts.values()))


LANE = Graph(id="lane", version="1", state_type=LaneState, nodes=[First, Second], start=First)


@dataclass(kw_only=True)
class StudyState(GraphState):
    numbers: Mapping[str, float] = field(default_factory=dict)
    found: dict[str, float] = field(default_factory=dict)
    total: float = 0.0


class Open(Node[StudyState, float]):
    """Opens a lane for each number and joins what succeeded."""

    async def run(self, ctx: Context[StudyState]) -> "Report | Stop":
        lanes = await ctx.fan_out(LANE, {key: LaneState(x=x) for key, x in ctx.state.numbers.items()})
        ctx.state.found = need_at_least(lanes, 1)
        return await ctx.route()


class Watch(Node[StudyState, float]):
    """Opens the same lanes, and works on each outcome as it comes."""

    async def run(self, ctx: Context[StudyState]) -> "Report | Stop":
        lanes = ctx.fan_out(LANE, {key: LaneState(x=x) for key, x in ctx.state.numbers.items()})
        async for key, outcome in lanes.as_completed():
            if outcome.ok:
                ctx.state.found[key] = outcome.output
                await ctx.compute(square, Number(x=outcome.output))
        return await ctx.route()


class Gather(Node[StudyState, float]):
    """Opens the same lanes beside two calculations, all at once."""

    async def run(self, ctx: Context[StudyState]) -> "Report | Stop":
        before = ctx.compute(square, Number(x=-5.0))
        members = {key: LaneState(x=x) for key, x in ctx.state.numbers.items()}
        one, lanes, two = await asyncio.gather(before, ctx.fan_out(LANE, members), ctx.compute(square, Number(x=-6.0)))
        for outcome in (one, two):
            if not outcome.ok:
                raise ctx.fail(outcome)
        ctx.state.found = need_at_least(lanes, 1)
        return await ctx.route()


class Report(Node[StudyState, float]):
    """Squares the sum of what was found."""

    async def run(self, ctx: Context[StudyState]) -> "Finish":
        outcome = await ctx.compute(square, Number(x=sum(ctx.state.found.values())))
        if not outcome.ok:
            raise ctx.fail(outcome)
        ctx.state.total = outcome.output.x
        await ctx.publish("total.txt", f"{ctx.state.total}\n".encode())
        return await ctx.route()


class Stop(Node[StudyState, float]):
    """Ends without a report."""

    async def run(self, ctx: Context[StudyState]) -> End[float]:
        return End(-1.0)


class Finish(Node[StudyState, float]):
    """Ends with the total."""

    node_id: ClassVar[str] = "End"

    async def run(self, ctx: Context[StudyState]) -> End[float]:
        return End(ctx.state.total)


STUDY = Graph(id="study", version="1", state_type=StudyState, nodes=[Open, Report, Stop, Finish], start=Open)
WATCHED = Graph(id="watched", version="1", state_type=StudyState, nodes=[Watch, Report, Stop, Finish], start=Watch)

GATHERED = Graph(id="gathered", version="1", state_type=StudyState, nodes=[Gather, Report, Stop, Finish], start=Gather)


class Asked:
    """A router that takes the first option and counts how often it was asked."""

    name = "model"

    def __init__(self) -> None:
        self.questions = 0

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        self.questions += 1
        return {"successor": question.options[0].successor, "reasoning": f"asked {self.questions} times"}
