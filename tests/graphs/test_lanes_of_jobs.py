"""Fan-outs over very many members, each a job of its own: made one by one, folded, and with results apart."""

from dataclasses import dataclass, field
from typing import Any

from walking import Number, square, walk

from grafico.calculations import Failure, Outcome
from grafico.errors import BadInput
from grafico.graphs import Context, End, Graph, GraphState, Members, MemoryRecorder, Node


@dataclass(kw_only=True)
class Leaf(GraphState):
    x: float


class Inner(Node[Leaf, float]):
    """Publish, and say whether this is a job of its own."""

    async def run(self, ctx: Context[Leaf]) -> End[float]:
        await ctx.publish("inner.txt", f"{ctx.is_job}".encode())
        return End(ctx.state.x)


INNER = Graph(id="inner", version="1", state_type=Leaf, nodes=[Inner], start=Inner)


class Outer(Node[Leaf, float]):
    """Square a number; publish; open an ordinary lane below."""

    async def run(self, ctx: Context[Leaf]) -> End[float]:
        outcome = await ctx.compute(square, Number(x=ctx.state.x))
        assert outcome.ok
        await ctx.publish("outer.txt", f"{ctx.is_job}".encode())
        await ctx.fan_out(INNER, {"below": Leaf(x=1)})
        return End(outcome.output.y)


OUTER = Graph(id="outer", version="1", state_type=Leaf, nodes=[Outer], start=Outer)


@dataclass(kw_only=True)
class Root(GraphState):
    made: list[str] = field(default_factory=list)
    folded: dict[str, Any] = field(default_factory=dict)
    open_when_made: list[int] = field(default_factory=list)


class Many(Node[Root, int]):
    """Open a lane for each member, one after the other."""

    async def run(self, ctx: Context[Root]) -> End[int]:
        state = ctx.state

        def make(key: str) -> Leaf:
            state.open_when_made.append(len(state.made) - len(state.folded))
            state.made.append(key)
            if key == "none":
                raise BadInput("there is no such thing", hint="take another")
            return Leaf(x=float(key[1:]))

        async def fold(key: str, outcome: Outcome[Any]) -> str:
            text = f"failed: {outcome.message}" if isinstance(outcome, Failure) else f"{outcome.output:g}"
            state.folded[key] = text
            return text

        keys = ("n3", "none", "n1", "n2")
        kept: Any = await ctx.fan_out(OUTER, Members(keys, make), limit=1, folder="jobs", fold=fold)
        assert list(kept) == list(keys)
        assert kept == state.folded
        return End(len(kept))


MANY = Graph(id="many", version="1", state_type=Root, nodes=[Many], start=Many)


def test_members_are_made_when_their_lanes_start_and_only_what_is_folded_is_kept() -> None:
    recorder, state = MemoryRecorder(), Root()
    assert walk(MANY, state, recorder=recorder).ok
    assert state.made == ["n3", "none", "n1", "n2"]
    assert state.open_when_made == [0, 0, 0, 0]
    assert state.folded == {"n3": "9", "none": "failed: there is no such thing (take another)", "n1": "1", "n2": "4"}
    again = Root()
    assert walk(MANY, again, recorder=recorder).ok
    assert again.folded == state.folded


def test_each_member_publishes_in_a_folder_of_its_own_and_lanes_below_with_it() -> None:
    recorder = MemoryRecorder()
    assert walk(MANY, Root(), recorder=recorder).ok
    assert set(recorder.results) == {f"jobs/n{n}/{name}.txt" for n in (1, 2, 3) for name in ("inner", "outer")}
    assert recorder.results["jobs/n1/outer.txt"] == b"True"
    assert recorder.results["jobs/n1/inner.txt"] == b"False"
