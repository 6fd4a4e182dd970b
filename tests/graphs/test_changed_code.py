"""Code that is not what it was when the journal was written: reported, recoverable, never used in silence."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from walking import Number, square

from grafico.calculations import Outcome
from grafico.control import RuleRouter
from grafico.errors import ReplayMismatch
from grafico.graphs import (
    Context,
    End,
    Event,
    Graph,
    GraphState,
    InlineCompute,
    Node,
    NodeChanged,
    Record,
    need_all,
    run_graph,
)
from grafico.graphs.node import source_of
from grafico.runs import Run, RunRecorder, read_run


@dataclass(kw_only=True)
class Lane(GraphState):
    x: float
    first: float = 0.0


@dataclass(kw_only=True)
class Main(GraphState):
    found: dict[str, float] = field(default_factory=dict)


class Start(Node[Lane, float]):
    async def run(self, ctx: Context[Lane]) -> "Refine":
        outcome = await ctx.compute(square, Number(x=ctx.state.x))
        assert outcome.ok
        ctx.state.first = outcome.output.y
        return await ctx.route()


class Refine(Node[Lane, float]):
    async def run(self, ctx: Context[Lane]) -> End[float]:
        outcome = await ctx.compute(square, Number(x=ctx.state.first + 0.5))
        assert outcome.ok
        return End(outcome.output.y)


def with_refine(cls: type[Node[Lane, float]]) -> Graph:
    """The study as it is after somebody has edited Refine."""
    cls.node_id = "Refine"

    class Begin(Start):
        node_id = "Start"
        next_nodes = (cls,)

    lanes = Graph(id="lane", version="1", state_type=Lane, nodes=[Begin, cls], start=Begin)
    return study(lanes)


def study(lanes: Graph) -> Graph:
    class Open(Node[Main, float]):
        async def run(self, ctx: Context[Main]) -> End[float]:
            outcomes = await ctx.fan_out(lanes, {f"m{n}": Lane(x=float(n)) for n in range(3)})
            return End(sum(need_all(outcomes).values()))

    return Graph(id="study", version="1", state_type=Main, nodes=[Open], start=Open)


LANES = Graph(id="lane", version="1", state_type=Lane, nodes=[Start, Refine], start=Start)
STUDY = study(LANES)


class Edited(Node[Lane, float]):
    """Refine with another input."""

    async def run(self, ctx: Context[Lane]) -> End[float]:
        outcome = await ctx.compute(square, Number(x=ctx.state.first + 0.25))
        assert outcome.ok
        return End(outcome.output.y)


class Harmless(Node[Lane, float]):
    """Refine with another shape: it asks for the same."""

    async def run(self, ctx: Context[Lane]) -> End[float]:
        asked = Number(x=ctx.state.first + 0.5)
        outcome = await ctx.compute(square, asked)
        assert outcome.ok
        return End(outcome.output.y)


class Shorter(Node[Lane, float]):
    """Refine that asks for nothing any more."""

    async def run(self, ctx: Context[Lane]) -> End[float]:
        return End(ctx.state.first)


@dataclass
class Walked:
    outcome: Outcome[Any]
    computed: list[float]
    events: list[Event]
    plan: list[str]


def walk_run(run: Run, graph: Graph, **resume: Any) -> Walked:
    events: list[Event] = []

    async def main() -> Walked:
        async with RunRecorder(run, make_record=Record) as recorder:
            plan = recorder.plan(**resume)
            await recorder.invalidate(plan)
            compute = InlineCompute(recorder.outcomes, artifacts=recorder.artifacts)
            outcome = await run_graph(
                graph, Main(), compute=compute, router=RuleRouter(), recorder=recorder, events=events.append
            )
            return Walked(outcome, sorted(task.input["x"] for task in compute.tasks), events, plan.describe())

    return asyncio.run(main())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path, "study", job_source=b"{}", job={}, graph="study", graph_version="1")
    assert walk_run(made, STUDY).computed == [0.0, 0.5, 1.0, 1.5, 2.0, 4.5]
    return made


def test_a_changed_input_is_reported_by_the_first_difference_and_what_to_do(run: Run) -> None:
    with pytest.raises(ReplayMismatch) as caught:
        walk_run(run, with_refine(Edited))
    assert "at node Refine (lane 0.0:m0, step 1, call 0)" in caught.value.message
    assert "a calculation with key" in caught.value.message
    assert caught.value.hint == "restore the code, or recompute from there: grafico resume RUN --from Refine"


def test_from_the_changed_node_on_it_is_computed_anew_and_the_rest_is_reused(run: Run) -> None:
    again = walk_run(run, with_refine(Edited), from_node="Refine")
    assert again.outcome.ok
    assert again.outcome.output == 0.25**2 + 1.25**2 + 4.25**2
    assert again.computed == [0.25, 1.25, 4.25]
    assert not [event for event in again.events if isinstance(event, NodeChanged) and event.node == "Refine"]
    third = walk_run(run, with_refine(Edited))
    assert third.computed == []


def test_from_an_earlier_node_on_outcomes_with_unchanged_keys_are_reused(run: Run) -> None:
    again = walk_run(run, with_refine(Harmless), from_node="Start")
    assert again.outcome.ok
    assert again.computed == []


def test_a_change_that_alters_no_record_is_told_once_and_stands_in_the_story_of_each_lane(run: Run) -> None:
    again = walk_run(run, with_refine(Harmless))
    assert again.outcome.ok
    assert again.computed == []
    told = [str(event) for event in again.events if isinstance(event, NodeChanged) and event.node == "Refine"]
    assert told == [
        "node Refine has changed since: its journalled decisions are kept; `grafico resume RUN --from Refine` walks it again"
    ]
    view = read_run(run.paths.root)
    assert any("node Refine has changed since" in event.text for event in view.story())
    for lane in ("m0", "m1", "m2"):
        (entered,) = [event.text for event in view.story(lane) if event.text.startswith("entered Refine")]
        assert entered == "entered Refine; its code has changed since"


def test_code_that_is_what_it_was_is_told_nowhere(run: Run) -> None:
    again = walk_run(run, STUDY)
    assert not [event for event in again.events if isinstance(event, NodeChanged)]
    assert not [event for event in read_run(run.paths.root).story() if "changed" in event.text]


def test_a_call_that_was_deleted_is_noticed(run: Run) -> None:
    with pytest.raises(ReplayMismatch, match="the journal has compute square, the code asks for nothing more"):
        walk_run(run, with_refine(Shorter))


def test_a_call_that_was_deleted_behind_the_route_is_noticed(tmp_path: Path) -> None:
    class Late(Node[Main, float]):
        calls: int = 2

        async def run(self, ctx: Context[Main]) -> "Last":
            successor = await ctx.route()
            for n in range(self.calls):
                await ctx.compute(square, Number(x=float(n)))
            return successor

    class Later(Late):
        node_id = "Late"

        async def run(self, ctx: Context[Main]) -> "Last":
            return await ctx.route()

    class Last(Node[Main, float]):
        async def run(self, ctx: Context[Main]) -> End[float]:
            return End(0.0)

    run = Run.create(tmp_path, "late", job_source=b"{}", job={}, graph="g", graph_version="1")
    graphs = [Graph(id="g", version="1", state_type=Main, nodes=[first, Last], start=first) for first in (Late, Later)]
    assert walk_run(run, graphs[0]).outcome.ok
    assert walk_run(run, graphs[0]).computed == []
    with pytest.raises(
        ReplayMismatch, match=r"node Late .step 0, call 1.: the journal has compute square.*nothing more"
    ):
        walk_run(run, graphs[1])


def test_comments_and_blank_lines_are_no_change_of_code_and_what_is_inherited_is(tmp_path: Path) -> None:
    assert source_of(Refine) == source_of(Refine)
    assert len(source_of(Refine)) == 16
    assert source_of(Refine) != source_of(Edited)

    class Child(Refine):
        """Says nothing itself."""

    assert source_of(Child) not in {source_of(Refine), ""}


def test_a_node_without_source_has_no_digest() -> None:
    space: dict[str, Any] = {"Node": Node, "Lane": Lane, "Context": Context, "End": End, "__name__": "nowhere"}
    exec("class Typed(Node[Lane, float]):\n    async def run(self, ctx: Context[Lane]) -> End[float]: ...", space)
    assert source_of(space["Typed"]) == ""
