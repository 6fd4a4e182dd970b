"""Successors from types: every form of annotation, resolved once, and what is refused."""
# ruff: noqa: UP007, UP045, F821 - the old forms of annotations, and names that mean nothing, are what is tested

import sys
import typing
from dataclasses import dataclass
from typing import Annotated, Any, ForwardRef, Optional, TypeAlias, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypeAliasType, TypeVar

from grafico.errors import GraphDefinitionError
from grafico.graphs import Context, Edge, End, GraphState, Node, successors_of


@dataclass(kw_only=True)
class State(GraphState):
    pass


class Alpha(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


class Beta(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


class Gamma(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


class Delta(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


class Epsilon(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


LEAVES = (Alpha, Beta, Gamma, Delta, Epsilon)
Explicit: TypeAlias = Alpha | Beta
Quoted: TypeAlias = "Gamma | End[int]"
ItemT = TypeVar("ItemT")
Modern = TypeAliasType("Modern", Union[Alpha, "Later"])
Generic1 = TypeAliasType("Generic1", ItemT | Beta, type_params=(ItemT,))
Loop: TypeAlias = "Loop"


class Later(Node[State, int]):
    async def run(self, ctx: Context[State]) -> End[int]:
        return End(1)


def node_with(annotation: Any, *, name: str = "Asker") -> type[Node[State, int]]:
    async def run(self: Any, ctx: Any) -> Any:
        return None

    if annotation is None:
        run.__annotations__.pop("return")
    else:
        run.__annotations__["return"] = annotation
    return type(Node)(name, (Node[State, int],), {"run": run, "__module__": __name__})


def names(annotation: Any) -> tuple[set[str], bool]:
    found = successors_of(node_with(annotation))
    return {cls.node_id for cls in found.nodes}, found.ends


@pytest.mark.parametrize(
    ("annotation", "nodes", "ends"),
    [
        (Alpha, {"Alpha"}, False),
        (End[int], set(), True),
        (Alpha | Beta, {"Alpha", "Beta"}, False),
        (Union[Alpha, End[int]], {"Alpha"}, True),
        (Optional[Alpha], {"Alpha"}, False),
        ("Alpha | Later | End[int]", {"Alpha", "Later"}, True),
        (Union["Later", Alpha], {"Alpha", "Later"}, False),
        (Optional["Later"], {"Later"}, False),
        (ForwardRef("Later"), {"Later"}, False),
        (Explicit, {"Alpha", "Beta"}, False),
        (Quoted, {"Gamma"}, True),
        ("Quoted", {"Gamma"}, True),
        ("Explicit | Quoted", {"Alpha", "Beta", "Gamma"}, True),
        (Modern, {"Alpha", "Later"}, False),
        (Union[Modern, Beta], {"Alpha", "Later", "Beta"}, False),
        (Generic1[Gamma], {"Gamma", "Beta"}, False),
        (Annotated[Alpha, "a note"], {"Alpha"}, False),
        (Annotated[Union[Alpha, "Later"], Edge(label="x")], {"Alpha", "Later"}, False),
        ("Annotated[Alpha, 'note'] | Union[Beta, Optional[Gamma]]", {"Alpha", "Beta", "Gamma"}, False),
        (Union[Alpha | Beta, Gamma | Delta | End[int]], {"Alpha", "Beta", "Gamma", "Delta"}, True),
    ],
)
def test_every_form_of_annotation_resolves(annotation: Any, nodes: set[str], ends: bool) -> None:
    assert names(annotation) == (nodes, ends)


def test_order_and_labels_follow_the_annotation() -> None:
    found = successors_of(node_with(Union[Gamma, Annotated[Alpha, Edge(label="after all")], Beta]))
    assert [cls.node_id for cls in found.nodes] == ["Gamma", "Alpha", "Beta"]
    assert found.labels == {"Alpha": "after all"}


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (None, "no return annotation"),
        ("Nowhere", "Nowhere"),
        (Union[Alpha, "Nowhere"], "Nowhere"),
        (int, "int is no node"),
        (Alpha | str, "str is no node"),
        (Node, "Node is no node"),
        (Node[State, int], "is no node"),
        (list[Alpha], "is no node"),
        (type[Alpha], "is no node"),
        (Any, "is no node"),
        (type(None), "no successor"),
        (Union[Modern, Alpha], "Alpha is declared twice"),
        (Union[Annotated[Alpha, 1], Annotated[Alpha, 2]], "Alpha is declared twice"),
        (Union[Annotated[End[int], 1], End[int]], "End is declared twice"),
        (End[str], "End[str] does not match"),
        ("Alpha |", "cannot be read"),
        (Loop, "refers to itself"),
    ],
)
def test_what_is_no_successor_is_refused_by_node_and_annotation(annotation: Any, said: str) -> None:
    with pytest.raises(GraphDefinitionError) as caught:
        successors_of(node_with(annotation))
    assert "node Asker" in caught.value.message
    assert said in caught.value.message


def test_classes_made_inside_a_function_resolve_among_the_nodes_of_the_graph() -> None:
    class Inner(Node[State, int]):
        async def run(self, ctx: Context[State]) -> "Outer | End[int]":
            return End(1)

    class Outer(Node[State, int]):
        async def run(self, ctx: Context[State]) -> End[int]:
            return End(1)

    with pytest.raises(GraphDefinitionError, match="Outer"):
        successors_of(Inner)
    assert successors_of(Inner, known=(Inner, Outer)).nodes == (Outer,)


def test_resolution_happens_once_for_a_class() -> None:
    asker = node_with("Alpha | Beta")
    assert successors_of(asker) is successors_of(asker, known=LEAVES)


def test_next_nodes_take_the_place_of_the_annotation() -> None:
    class Decider(Node[State, int]):
        next_nodes = (Alpha, "Later", End[int])

        async def run(self, ctx: Context[State]) -> Node[State, int]:
            raise AssertionError

    found = successors_of(Decider)
    assert [cls.node_id for cls in found.nodes] == ["Alpha", "Later"]
    assert found.ends


Wrapper = st.sampled_from(["union", "typing", "optional", "annotated", "string", "reference", "alias", "generic"])


@st.composite
def annotations(draw: st.DrawFn, members: tuple[Any, ...]) -> Any:
    """Draw an annotation that means exactly ``members``, nested and wrapped at random."""
    if len(members) == 1:
        hint: Any = members[0]
    else:
        cut = draw(st.integers(1, len(members) - 1))
        left, right = draw(annotations(members[:cut])), draw(annotations(members[cut:]))
        hint = Union[left, right]
    for wrapper in draw(st.lists(Wrapper, max_size=3)):
        if wrapper == "union" and len(members) == 1 and isinstance(hint, type):
            hint = hint | None
        elif wrapper == "typing":
            hint = Union[hint, None]
        elif wrapper == "optional":
            hint = Optional[hint]
        elif wrapper == "annotated":
            hint = Annotated[hint, draw(st.sampled_from(["note", Edge(label="why"), 7]))]
        elif wrapper == "string" and len(members) == 1:
            hint = _name(members[0])
        elif wrapper == "reference" and len(members) == 1:
            hint = ForwardRef(_name(members[0]))
        elif wrapper == "alias":
            hint = TypeAliasType("Alias", hint)
        elif wrapper == "generic":
            hint = TypeAliasType("Wrapped", ItemT | None, type_params=(ItemT,))[hint]
    return hint


def _name(member: Any) -> str:
    return "End[int]" if typing.get_origin(member) is End else member.__name__


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_generated_annotation_resolves_to_exactly_its_members(data: st.DataObject) -> None:
    members = tuple(data.draw(st.permutations((*LEAVES, End[int])))[: data.draw(st.integers(1, 6))])
    hint = data.draw(annotations(members))
    found = successors_of(node_with(hint))
    assert set(found.nodes) == {member for member in members if member in LEAVES}
    assert found.ends == (End[int] in members)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_generated_annotation_with_a_member_twice_is_refused(data: st.DataObject) -> None:
    members = tuple(data.draw(st.permutations(LEAVES))[: data.draw(st.integers(1, 5))])
    hint = Union[TypeAliasType("First", data.draw(annotations(members))), Annotated[members[0], "again"]]
    with pytest.raises(GraphDefinitionError, match=f"{members[0].node_id} is declared twice"):
        successors_of(node_with(hint))


if sys.version_info >= (3, 12):

    def test_type_statements_resolve() -> None:
        written = """
type Plain = Alpha | Beta
type Forward = Alpha | Later
type Either[T] = T | Gamma
type Ending = Plain | End[int]
"""
        scope = dict(globals())
        exec(written, scope)
        assert names(scope["Plain"]) == ({"Alpha", "Beta"}, False)
        assert names(scope["Forward"]) == ({"Alpha", "Later"}, False)
        assert names(scope["Either"][Alpha]) == ({"Alpha", "Gamma"}, False)
        assert names(Optional[scope["Ending"]]) == ({"Alpha", "Beta"}, True)
