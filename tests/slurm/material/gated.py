"""A small science for tests on Slurm: squares numbers, and each waits at a gate until a test opens it."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from grafico.calculations import CalculationError, FailureKind, Model, Outcome, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Foreseen, Graph, GraphState, Node

LONGEST_S = 300.0
RESOURCES = Resources(memory_mib=200, walltime_s=400)


class SquareInput(Model):
    number: int
    gate: str = Field(default="", description="a folder: it waits until this has a file `all`, or one of its number")


class Square(Model):
    square: int


@calculation(version="1", resources=RESOURCES)
def square(value: SquareInput, ctx: WorkContext) -> Square:
    deadline = time.monotonic() + LONGEST_S
    while value.gate and not any((Path(value.gate) / name).exists() for name in ("all", str(value.number))):
        if time.monotonic() > deadline:
            raise CalculationError(FailureKind.NOT_CONVERGED, "nobody opened the gate")
        time.sleep(0.05)
    return Square(square=value.number**2)


class Request(Model):
    numbers: tuple[int, ...]
    gate: str = ""


class Total(Model):
    total: int


@dataclass(kw_only=True)
class State(GraphState):
    request: Request
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Spread(Node[State, Total]):
    """Square all numbers."""

    async def run(self, ctx: Context[State]) -> "Add":
        request = ctx.state.request
        members = {f"n{number}": SquareInput(number=number, gate=request.gate) for number in request.numbers}
        ctx.state.outcomes = await ctx.fan_out(square, members)
        return await ctx.route()


class Add(Node[State, Total]):
    """Add the squares."""

    async def run(self, ctx: Context[State]) -> End[Total]:
        return End(Total(total=sum(outcome.output.square for outcome in ctx.state.outcomes.values() if outcome.ok)))


def _foresee(request: Request) -> list[Foreseen]:
    return [Foreseen(calculation=square, resources=RESOURCES, count=len(request.numbers), label="squares")]


GRAPH = Graph(
    id="gated",
    version="1",
    state_type=State,
    nodes=[Spread, Add],
    start=Spread,
    request_type=Request,
    begin=lambda request: State(request=request),
    foresee=_foresee,
)
