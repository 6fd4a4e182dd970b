"""A graph is checked when it is built, before anything runs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError
from walking import path_of, walk

from grafico.errors import BadInput, GraphDefinitionError
from grafico.graphs import Context, End, Graph, GraphState, Guard, MemoryRecorder, Node


@dataclass(kw_only=True)
class State(GraphState):
    turn: int = 0


@dataclass(kw_only=True)
class Special(State):
    pass


@dataclass(kw_only=True)
class Foreign(GraphState):
    pass


class First(Node[State, int]):
    async def run(self, ctx: Context[State]) -> "Second | Last":
        return Second() if ctx.state.turn == 0 else Last()


class Second(Node[State, int]):
    async def run(self, ctx: Context[State]) -> "First":
        ctx.state.turn += 1
        return First()


class Last(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(ctx.state.turn)


class Orphan(Node[State, int]):
    async def run(self, ctx: Context[State]) -> Last:
        return Last()


class Trap(Node[State, int]):
    async def run(self, ctx: Context[State]) -> "Trap":
        return Trap()


class IntoTrap(Node[State, int]):
    async def run(self, ctx: Context[State]) -> Trap | Last:
        return Last()


class Stranger(Node[Foreign, int]):
    async def run(self, ctx: Context[Foreign]) -> End[int]:
        return End(1)


class IntoStranger(Node[State, int]):
    async def run(self, ctx: Context[State]) -> Stranger | End[int]:
        return End(1)


class Impostor(Node[State, int]):
    node_id: ClassVar[str] = "Last"

    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


class Unannotated(Node[State, int]):
    async def run(self, ctx):  # type: ignore[no-untyped-def]
        return End(1)


class Needy(Node[State, int]):
    count: int

    async def run(self, ctx: Context[State]) -> End[int]:
        return End(self.count)


def build(*nodes: Any, start: Any = None, guards: Any = (), **more: Any) -> Graph:
    return Graph(id="g", version="1", state_type=State, nodes=nodes, start=start or nodes[0], guards=guards, **more)


def test_a_sound_graph_is_walked_from_its_start() -> None:
    recorder = MemoryRecorder()
    outcome = walk(build(First, Second, Last), State(), recorder=recorder)
    assert outcome.ok
    assert outcome.output == 1
    assert path_of(recorder) == ["First", "Second", "First", "Last"]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((First, Second), "node First: successor Last in `Second | Last` is not in the graph"),
        ((First, Second, Last, Orphan), "node Orphan cannot be reached from First"),
        ((IntoTrap, Trap, Last), "no path leads from node Trap"),
        ((First, Second, Last, Impostor), "node id Last is used by Last and Impostor"),
        ((First, Second, Last, Last), "node id Last is used by Last and Last"),
        ((Stranger,), "node Stranger walks on Foreign"),
        ((IntoStranger,), "successor of IntoStranger"),
        ((Unannotated,), "node Unannotated: run() has no return annotation"),
        ((First, int), "is listed as a node and is none"),
        ((Needy,), "start Needy needs count"),
    ],
)
def test_nodes_that_do_not_fit_together_are_refused(nodes: Any, said: str) -> None:
    with pytest.raises(GraphDefinitionError) as caught:
        build(*nodes)
    assert said in caught.value.message


def test_a_graph_needs_nodes_an_id_and_a_start_of_its_own() -> None:
    with pytest.raises(GraphDefinitionError, match="no nodes"):
        build(start=Last)
    with pytest.raises(GraphDefinitionError, match="id and version"):
        Graph(id="two words", version="1", state_type=State, nodes=[Last], start=Last)
    with pytest.raises(GraphDefinitionError, match="start First is not in the graph"):
        build(Last, start=First)


def test_a_guard_over_a_node_outside_the_graph_is_refused() -> None:
    guard = Guard(name="odd", removes=(Orphan,), when=lambda state: True, reason="because")
    with pytest.raises(GraphDefinitionError, match="guard 'odd' names Orphan"):
        build(First, Second, Last, guards=[guard])
    with pytest.raises(GraphDefinitionError, match="removes nothing"):
        build(Last, guards=[Guard(name="idle", removes=(), when=lambda state: True, reason="because")])


def test_nodes_of_a_base_state_serve_a_graph_of_its_subclass() -> None:
    graph = Graph(id="g", version="1", state_type=Special, nodes=[Last], start=Last)
    assert walk(graph, Special()).ok
    with pytest.raises(BadInput, match="walks on Special, and was given State"):
        walk(graph, State())


def test_a_start_function_may_return_what_it_declares() -> None:
    def start(state: State) -> Second | Last:
        return Last() if state.turn else Second()

    graph = build(First, Second, Last, start=start)
    recorder = MemoryRecorder()
    walk(graph, State(turn=3), recorder=recorder)
    assert path_of(recorder) == ["Last"]
    listed = build(First, Second, Last, start=lambda state: Second(), starts=(Second,))
    assert walk(listed, State()).ok
    with pytest.raises(GraphDefinitionError, match="not among its declared starts"):
        walk(build(First, Second, Last, start=lambda state: Last()), State())


def test_a_start_may_be_an_instance_with_parameters() -> None:
    outcome = walk(build(Needy, start=Needy(count=4)), State())
    assert outcome.ok
    assert outcome.output == 4


def test_a_successor_that_was_not_declared_stops_the_walk() -> None:
    class Liar(Node[State, int]):
        async def run(self, ctx: Context[State]) -> First | End[int]:
            return Last()  # type: ignore[return-value]

    outcome = walk(build(Liar, First, Second, Last), State())
    assert not outcome.ok
    assert outcome.kind == "refused"
    assert "node Liar returned Last, and declares" in outcome.message


@pytest.mark.parametrize("value", [None, 7, "Last", End(1)])
def test_something_else_than_a_declared_successor_stops_the_walk(value: Any) -> None:
    class Odd(Node[State, int]):
        async def run(self, ctx: Context[State]) -> Last | None:
            return value  # type: ignore[no-any-return]

    outcome = walk(build(Odd, Last), State())
    assert not outcome.ok
    assert outcome.kind == "refused"
    assert "node Odd returned" in outcome.message


def test_a_walk_without_end_is_stopped_at_its_limit() -> None:
    class Round(Node[State, int]):
        async def run(self, ctx: Context[State]) -> "Round | End[int]":
            return Round()

    outcome = walk(build(Round, max_steps=25), State())
    assert not outcome.ok
    assert "25 steps" in outcome.message


def test_nodes_are_frozen_and_know_no_other_parameters() -> None:
    with pytest.raises(ValidationError):
        Needy(count=1).count = 2  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Needy(count=1, colour="red")  # type: ignore[call-arg]


def test_pydantic_graph_underneath_has_the_same_edges() -> None:
    drawn = build(First, Second, Last).engine.render()
    for edge in ("[*] --> First", "from.First --> Second", "from.First --> Last", "Second --> First", "Last --> [*]"):
        assert edge in drawn
