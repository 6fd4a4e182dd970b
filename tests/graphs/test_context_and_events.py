"""What a node is given beside calculations and routes, and what faces hear of a walk."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from walking import Number, refuse_negative, square, walk

from grafico.calculations import Failure, FailureKind
from grafico.errors import BadInput, GraphDefinitionError, KnowledgeError
from grafico.graphs import (
    CalculationEnded,
    Context,
    End,
    Event,
    Graph,
    GraphState,
    MemoryRecorder,
    Node,
    NodeEntered,
    Position,
    RouteChosen,
    WalkEnded,
)


@dataclass(kw_only=True)
class State(GraphState):
    made: Any = None
    seen: Any = None


def one(run: Any) -> Graph:
    """Return a graph of one node that runs `run`."""

    class Only(Node[State, Any]):
        async def run(self, ctx: Context[State]) -> End[Any]:
            return End(await run(ctx))

    return Graph(id="one", version="1", state_type=State, nodes=[Only], start=Only)


def test_a_terminal_node_publishes_and_persists_through_what_was_injected() -> None:
    class Store:
        def __init__(self) -> None:
            self.entities: list[Any] = []

        async def persist(self, entities: Sequence[Any]) -> Sequence[str]:
            self.entities += entities
            return [f"urn:{n}" for n in range(len(entities))]

    async def run(ctx: Context[State]) -> Any:
        await ctx.publish("result.json", b"{}")
        assert ctx.persist is not None
        return list(await ctx.persist.persist(["molecule", "spectrum"]))

    recorder, store = MemoryRecorder(), Store()
    outcome = walk(one(run), State(), recorder=recorder, persist=store)
    assert outcome.ok
    assert outcome.output == ["urn:0", "urn:1"]
    assert store.entities == ["molecule", "spectrum"]
    assert recorder.results == {"result.json": b"{}"}
    end = next(record for record in recorder.records if record.kind == "end")
    assert end.data == {"status": "success", "result": ["urn:0", "urn:1"]}


def test_without_a_knowledge_base_there_is_nothing_to_persist_to() -> None:
    async def run(ctx: Context[State]) -> Any:
        return ctx.persist

    outcome = walk(one(run), State())
    assert outcome.ok
    assert outcome.output is None


def test_work_in_a_thread_leaves_the_event_loop_alone() -> None:
    async def run(ctx: Context[State]) -> Any:
        return await ctx.thread(lambda a: (a, threading.current_thread() is threading.main_thread()), 7)

    outcome = walk(one(run), State())
    assert outcome.ok
    assert outcome.output == (7, False)


def test_a_value_that_is_no_json_is_refused() -> None:
    async def run(ctx: Context[State]) -> Any:
        return await ctx.value("thing", object)

    outcome = walk(one(run), State())
    assert isinstance(outcome, Failure)
    assert outcome.kind == "bad_input"
    assert "value 'thing'" in outcome.message


def test_calls_know_where_they_stand() -> None:
    async def run(ctx: Context[State]) -> Any:
        before = ctx.position
        ctx.now()
        return before, ctx.position, ctx.node.node_id

    outcome = walk(one(run), State())
    assert outcome.ok
    assert outcome.output == (Position("", 0, 0), Position("", 0, 1), "Only")


def test_a_position_is_read_as_it_is_written() -> None:
    for position in (Position("", 0, 0), Position("3.0:gas/1.0:conf-002", 12, 3), Position("0.0:a.b+c", 1, 0)):
        assert Position.parse(str(position)) == position


def test_instants_come_before_what_follows_them_in_the_journal() -> None:
    async def run(ctx: Context[State]) -> Any:
        ctx.now()
        return (await ctx.compute(square, Number(x=1))).ok

    recorder = MemoryRecorder()
    walk(one(run), State(), recorder=recorder)
    assert [record.kind for record in recorder.records] == ["enter", "value", "compute", "end"]


def test_a_failure_passed_on_keeps_its_kind_and_history_and_may_say_more() -> None:
    async def run(ctx: Context[State]) -> Any:
        outcome = await ctx.compute(refuse_negative, Number(x=-1))
        assert not outcome.ok
        raise ctx.fail(outcome, "after the scan")

    outcome = walk(one(run), State())
    assert isinstance(outcome, Failure)
    assert outcome.kind == "not_converged"
    assert outcome.message == "after the scan: -1.0 is negative"
    assert outcome.where == "refuse_negative"
    assert len(outcome.history) == 1


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (BadInput("no such solvent", hint="use water"), "bad_input", "no such solvent (use water)"),
        (KnowledgeError("the store is read-only"), "engine_error", "KnowledgeError: the store is read-only"),
        (RuntimeError("surprise"), "engine_error", "RuntimeError: surprise"),
    ],
)
def test_an_exception_in_a_node_is_the_outcome_of_its_walk(error: Exception, kind: str, said: str) -> None:
    async def run(ctx: Context[State]) -> Any:
        raise error

    outcome = walk(one(run), State())
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.message, outcome.where) == (kind, said, "Only")


def test_a_fault_in_the_definition_of_a_graph_ends_the_run() -> None:
    async def run(ctx: Context[State]) -> Any:
        raise GraphDefinitionError("two lanes share one state")

    with pytest.raises(GraphDefinitionError):
        walk(one(run), State())


def test_subscribers_hear_a_walk_in_order_and_know_a_replay() -> None:
    class Start(Node[State, bool]):
        async def run(self, ctx: Context[State]) -> "Compute":
            return await ctx.route()

    class Compute(Node[State, bool]):
        async def run(self, ctx: Context[State]) -> End[bool]:
            return End((await ctx.compute(square, Number(x=2))).ok)

    graph = Graph(id="g", version="1", state_type=State, nodes=[Start, Compute], start=Start)
    recorder = MemoryRecorder()
    first: list[Event] = []
    again: list[Event] = []
    walk(graph, State(), recorder=recorder, events=first.append)
    walk(graph, State(), recorder=recorder, events=[again.append])
    names = [type(event).__name__ for event in first]
    assert names == [
        "NodeEntered",
        "RouteChosen",
        "NodeEntered",
        "CalculationStarted",
        "CalculationEnded",
        "WalkEnded",
    ]
    assert not any(event.replayed for event in first)
    assert [type(event) for event in again] == [NodeEntered, RouteChosen, NodeEntered, CalculationEnded, WalkEnded]
    assert all(event.replayed for event in again[:-1])
    ended = again[-2]
    assert isinstance(ended, CalculationEnded)
    assert ended.reused


def test_a_subscriber_that_raises_is_logged_and_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def run(ctx: Context[State]) -> Any:
        return 1

    def broken(event: Event) -> None:
        raise OSError("the terminal is gone")

    seen: list[Event] = []
    outcome = walk(one(run), State(), events=[broken, seen.append])
    assert outcome.ok
    assert len(seen) == 2
    assert "the terminal is gone" in caplog.text


def test_a_failed_walk_says_so_in_its_last_event_and_record() -> None:
    async def run(ctx: Context[State]) -> Any:
        raise ValueError("no")

    recorder = MemoryRecorder()
    seen: list[Event] = []
    walk(one(run), State(), recorder=recorder, events=seen.append)
    last = seen[-1]
    assert isinstance(last, WalkEnded)
    assert last.failure is not None
    assert last.failure.kind is FailureKind.ENGINE_ERROR
    assert recorder.records[-1].data["failure"]["message"] == "ValueError: no"
