"""Walks through the frameworks graph in this process, for tests."""

import asyncio
from collections.abc import Mapping
from typing import Any

from grafico.calculations import CalculationTask, Failure, FailureKind, Json, Outcome
from grafico.control import RuleRouter
from grafico.frameworks.graph import GRAPH
from grafico.frameworks.request import FrameworkRequest
from grafico.frameworks.result import FrameworkResult
from grafico.graphs import InlineCompute, Limits, MemoryRecorder, RouteQuestion, run_graph

QUICK = {"samples": 50, "volume_samples": 100}
"""Analyses that are quick and rough."""


class NobodyAsked(RuleRouter):
    """A router that must not be asked: guards leave one way at each step."""

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        raise AssertionError(f"asked at {question.node}: {[option.successor for option in question.options]}")


class Compute(InlineCompute):
    """Real calculations, of which some fail by their name, as a broken engine would make them."""

    def __init__(self, store: MemoryRecorder, failing: tuple[str, ...] = ()) -> None:
        super().__init__(store)
        self.failing = failing

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        if task.name in self.failing:
            self.tasks.append(task)
            return Failure(kind=FailureKind.ENGINE_ERROR, message=f"{task.name} broke")
        return await super().run(task)


class Base:
    """A knowledge base that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    async def persist(self, entities: Any) -> list[str]:
        self.kept += entities
        return [str(entity.iri) for entity in entities]

    def of(self, kind: str) -> list[Any]:
        """Entities of a class, by its name."""
        return [entity for entity in self.kept if type(entity).__name__ == kind]


class Walked:
    """One walk: its outcome, the nodes it visited, and what was computed."""

    def __init__(
        self,
        *,
        recorder: MemoryRecorder | None = None,
        failing: tuple[str, ...] = (),
        persist: Any = None,
        gpus: int = 0,
        **request: Any,
    ) -> None:
        self.recorder = recorder or MemoryRecorder()
        self.compute = Compute(self.recorder, failing)
        value = FrameworkRequest.model_validate({"analysis": QUICK, **request})
        assert GRAPH.check is not None
        GRAPH.check(value)
        self.state = GRAPH.begin(value) if GRAPH.begin else None
        self.outcome: Outcome[Any] = asyncio.run(
            run_graph(
                GRAPH,
                self.state,
                compute=self.compute,
                router=NobodyAsked(),
                recorder=self.recorder,
                persist=persist,
                gpus=gpus,
                # One at a time: libraries that have to be kept quiet share standard output in one process.
                limits=Limits(lanes=1),
            )
        )

    @property
    def path(self) -> list[str]:
        """Ids of the nodes visited, the last one included."""
        routes = self.state.routes
        return [taken.node for taken in routes] + [routes[-1].successor or ""]

    @property
    def computed(self) -> list[str]:
        """Names of the calculations that were really run."""
        return [task.name for task in self.compute.tasks]

    @property
    def result(self) -> FrameworkResult:
        assert self.outcome.ok, self.outcome
        return self.outcome.output

    @property
    def failure(self) -> Failure:
        assert isinstance(self.outcome, Failure), self.outcome
        return self.outcome
