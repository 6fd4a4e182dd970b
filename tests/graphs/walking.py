"""What the tests of graphs share: small calculations, a scripted router, a recorder that dies, and a runner."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grafico.calculations import (
    CalculationError,
    CalculationTask,
    Failure,
    FailureKind,
    Json,
    Model,
    Outcome,
    Resources,
    Rung,
    WorkContext,
    calculation,
)
from grafico.control import RuleRouter
from grafico.errors import StaleController
from grafico.graphs import Event, Graph, InlineCompute, Limits, MemoryRecorder, Record, RouteQuestion, run_graph


class Number(Model):
    x: float


class Square(Model):
    y: float


@calculation(version="1")
def square(value: Number, ctx: WorkContext) -> Square:
    ctx.used(arithmetic="1.0")
    return Square(y=value.x**2)


@calculation(version="1")
def refuse_negative(value: Number, ctx: WorkContext) -> Square:
    if value.x < 0:
        raise CalculationError(FailureKind.NOT_CONVERGED, f"{value.x} is negative", details={"x": value.x})
    return Square(y=value.x)


@calculation(
    version="1",
    resources=Resources(memory_mib=1000, walltime_s=10),
    ladder={
        FailureKind.SCF_NOT_CONVERGED: [
            Rung(note="more cycles", settings={"cycles": 200}),
            Rung(note="level shift", settings={"shift": 0.3}, scale_memory=2, scale_walltime=3),
        ]
    },
)
def stubborn(value: Number, ctx: WorkContext) -> Square:
    """Converges only when both rungs have been taken; `x` counts those it needs."""
    if len(ctx.settings) < value.x:
        raise CalculationError(FailureKind.SCF_NOT_CONVERGED, f"needs {value.x:g} changes")
    return Square(y=float(len(ctx.settings)))


class ScriptedRouter:
    """Answers with what it was given, in turn; keeps the questions."""

    name = "model"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[RouteQuestion] = []

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        self.questions.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class NoRouter:
    """Fails the test when it is asked."""

    name = "nobody"

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        raise AssertionError(f"a router was asked at {question.node}")


class MortalRecorder(MemoryRecorder):
    """Dies before it remembers record number `life`; what it remembered stays."""

    life = 10**9

    async def record(self, record: Record, *, durable: bool = True) -> None:
        if len(self.records) >= self.life:
            raise StaleController("another controller has taken over")
        await super().record(record, durable=durable)


class FlakyCompute:
    """Fails with the kinds it was given, in turn, then computes."""

    def __init__(self, inner: InlineCompute, *kinds: FailureKind) -> None:
        self.inner = inner
        self.kinds = list(kinds)
        self.tasks: list[CalculationTask] = []

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        self.tasks.append(task)
        if self.kinds:
            return Failure(kind=self.kinds.pop(0), message="flaky", signal=9)
        return await self.inner.run(task)


def walk(
    graph: Graph,
    state: Any,
    *,
    recorder: MemoryRecorder | None = None,
    router: Any = None,
    compute: Any = None,
    events: Callable[[Event], object] | Sequence[Callable[[Event], object]] | None = None,
    limits: Limits | None = None,
    persist: Any = None,
) -> Outcome[Any]:
    """Run a graph in memory with the rule router."""
    recorder = recorder if recorder is not None else MemoryRecorder()
    return asyncio.run(
        run_graph(
            graph,
            state,
            compute=compute or InlineCompute(recorder),
            router=router or RuleRouter(),
            recorder=recorder,
            events=events,
            limits=limits,
            persist=persist,
        )
    )


def path_of(recorder: MemoryRecorder, lane: str = "") -> list[str]:
    """Return the nodes that a lane entered."""
    return [r.data["node"] for r in recorder.records if r.kind == "enter" and r.position.lane == lane]


def routes_of(recorder: MemoryRecorder, lane: str = "") -> list[Mapping[str, Json]]:
    """Return the routes that a lane took."""
    return [r.data for r in recorder.records if r.kind == "route" and r.position.lane == lane]
