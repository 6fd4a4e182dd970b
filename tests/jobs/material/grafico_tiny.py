"""A small science for tests: squares numbers in lanes and adds them up; numbers may be slow or fail."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from grafico.calculations import CalculationError, FailureKind, Model, Outcome, Resources, WorkContext, calculation
from grafico.errors import MoleculeError
from grafico.graphs import Context, End, Foreseen, Graph, GraphState, Node


class SquareInput(Model):
    number: int
    sleep_s: float = 0.0
    fail: bool = False
    flag: str = Field(default="", description="a file: the calculation fails as long as it is there")


class Square(Model):
    square: int


def _resources(value: SquareInput) -> Resources:
    return Resources(memory_mib=200, walltime_s=60 + value.sleep_s)


@calculation(version="1", resources=_resources)
def square(value: SquareInput, ctx: WorkContext) -> Square:
    ctx.used(tiny="1.0")
    print(f"squaring {value.number}")
    time.sleep(value.sleep_s)
    if value.fail or (value.flag and Path(value.flag).exists()):
        raise CalculationError(FailureKind.NOT_CONVERGED, f"{value.number} would not be squared")
    return Square(square=value.number**2)


class Part(Model):
    """One of the parts of a request."""

    method: Literal["square", "cube"] = "square"
    temperature: float = Field(default=298.15, gt=0, description="temperature, K")


class TinyRequest(Model):
    numbers: tuple[int, ...] = Field(min_length=1, max_length=100, description="what is squared")
    sleep_s: float = Field(default=0.0, ge=0, le=100, description="seconds that each takes")
    fail: tuple[int, ...] = Field(default=(), description="numbers that fail")
    flag: str = Field(default="", description="file that makes the first number fail")
    need_all: bool = Field(default=False, description="the run fails when a lane does")
    part: Part = Part()
    table: str | None = Field(default=None, description="a file", json_schema_extra={"format": "path"})


class Total(Model):
    total: int
    squares: dict[str, int]
    text: str = ""

    def tables(self) -> list[dict[str, object]]:
        rows = [(number, square) for number, square in self.squares.items()]
        return [{"title": "squares", "columns": ("number", "square"), "rows": rows}]


@dataclass(kw_only=True)
class LaneState(GraphState):
    value: SquareInput


class SquareOne(Node[LaneState, Square]):
    """Square one number."""

    async def run(self, ctx: Context[LaneState]) -> End[Square]:
        outcome = await ctx.compute(square, ctx.state.value, label=f"square · {ctx.state.value.number}")
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output)


LANE = Graph(id="tiny-lane", version="1", state_type=LaneState, nodes=[SquareOne], start=SquareOne)


@dataclass(kw_only=True)
class TinyState(GraphState):
    request: TinyRequest
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Spread(Node[TinyState, Total]):
    """Square all numbers."""

    async def run(self, ctx: Context[TinyState]) -> "Add":
        request = ctx.state.request
        members = {
            f"n{number}": LaneState(
                value=SquareInput(
                    number=number,
                    sleep_s=request.sleep_s,
                    fail=number in request.fail,
                    flag=request.flag if number == request.numbers[0] else "",
                )
            )
            for number in request.numbers
        }
        ctx.state.outcomes = await ctx.fan_out(LANE, members, label="squares")
        ctx.summarize(f"{len(members)} numbers squared")
        return await ctx.route()


class Add(Node[TinyState, Total]):
    """Add the squares."""

    async def run(self, ctx: Context[TinyState]) -> End[Total]:
        done = {key: outcome.output.square for key, outcome in ctx.state.outcomes.items() if outcome.ok}
        if not done or (ctx.state.request.need_all and len(done) < len(ctx.state.outcomes)):
            raise CalculationError(FailureKind.REFUSED, "too few numbers were squared")
        table = ctx.state.request.table
        text = ""
        if table is not None:
            text = str(await ctx.value("table", Path(table).read_text))
        await ctx.publish("sum.txt", str(sum(done.values())).encode())
        return End(Total(total=sum(done.values()), squares=done, text=text))


def _check(request: TinyRequest) -> None:
    if 13 in request.numbers:
        raise MoleculeError("13 cannot be squared, it brings bad luck", hint="take 12")


def _foresee(request: TinyRequest) -> list[Foreseen]:
    example = SquareInput(number=1, sleep_s=request.sleep_s)
    return [
        Foreseen(calculation=square, resources=square.resources(example), count=len(request.numbers), label="squares")
    ]


GRAPH = Graph(
    id="tiny",
    version="1",
    state_type=TinyState,
    nodes=[Spread, Add],
    start=Spread,
    request_type=TinyRequest,
    begin=lambda request: TinyState(request=request),
    check=_check,
    foresee=_foresee,
    description="squares numbers",
)
NOT_A_GRAPH = 3
