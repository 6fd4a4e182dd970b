"""What a stranger's model could lose without a word: each comes back as it was, or is refused with what to write instead."""

import collections
import enum
import uuid
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy
import pytest
from models_of_silence import SPACE, Quiet, another, made_of
from pydantic import (
    AnyUrl,
    BaseModel,
    JsonValue,
    PrivateAttr,
    ValidationError,
    create_model,
)

from grafico.errors import KnowledgeError
from grafico.knowledge import Array, describe

LARGE = 100_000

pytestmark = pytest.mark.usefixtures("fresh_plan")


class Point(BaseModel):
    """No entity."""

    x: int = 0


class Pair(NamedTuple):
    """A tuple of unlike things."""

    a: int
    b: str


Letter = enum.StrEnum("Letter", "A")

REFUSED = {
    "a mapping by numbers": (dict[int, str], {1: "a"}, "use dict"),
    "a mapping of tuples": (dict[str, tuple[int, int]], {"a": (1, 2)}, "use dict"),
    "a mapping of members": (dict[str, Letter], {"a": Letter.A}, "use dict"),
    "a mapping of times": (dict[str, datetime], {}, "use dict"),
    "a mapping of arrays": (dict[str, Array], {}, "an Entity"),
    "a mapping of models": (dict[str, Point], {}, "an Entity"),
    "a sequence": (Sequence[int], [1], "which of them comes back"),
    "a counter": (collections.Counter[str], {}, "use dict"),
    "a queue": (collections.deque[int], [1], "use list"),
    "lists of lists": (list[list[int]], [[1]], "use Array"),
    "lists with holes": (list[int | None], [None], "leave it out"),
    "a tuple of unlike things": (tuple[int, str], (1, "a"), "a field for each"),
    "a named tuple": (Pair, Pair(1, "a"), "one field for each"),
    "a complex number": (complex, 1j, "use Array"),
    "a duration": (timedelta, timedelta(1), 'Unit("s")'),
    "a path": (Path, Path("a"), "use str"),
    "a UUID": (uuid.UUID, uuid.uuid4(), "use str"),
    "an address": (AnyUrl, AnyUrl("https://a.b/"), "use Iri"),
    "a fraction": (Fraction, Fraction(1, 3), "use two fields"),
    "a plain model": (Point, Point(), "make it an Entity"),
    "a member of an enum": (Literal[Letter.A], Letter.A, "use an Enum"),
    "unlike things": (int | Array, 1, "one field for each"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_type_without_a_form_says_what_to_write_instead(case):
    hint, value, told = REFUSED[case]
    with pytest.raises(KnowledgeError) as refused:
        describe([made_of(hint, value)])
    assert "Made.x" in refused.value.message
    assert told in refused.value.hint


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dict[str, Any], {"a": [1, 2.0, None, {"x": True}], "b": 10**30, "c": -0.0}),
        (dict[str, float], {"a": 1.0}),
        (dict[str, list[dict[str, int | None]]], {"a": [{"b": None}]}),
        (dict[Literal["a"], JsonValue], {"a": [1]}),
        (dict, {"a": 1}),
    ],
)
def test_mappings_that_are_json_come_back(knowledge, hint, value):
    made = made_of(hint, value)
    knowledge.persist(made)
    assert repr(another(knowledge).fetch(made.iri).x) == repr(value)


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {"deep": {2: 3}}, float("nan"), date(2026, 1, 1), {1}])
def test_what_json_would_turn_into_something_else_is_refused(value):
    with pytest.raises(KnowledgeError, match=r"Made.*field x") as refused:
        describe([made_of(dict[str, Any], {"a": value})])
    assert refused.value.hint


def test_a_mapping_that_holds_itself_is_refused():
    circle: dict[str, Any] = {}
    made = made_of(dict[str, Any], {})
    circle["a"] = circle
    made.x = circle
    with pytest.raises(KnowledgeError, match="or itself"):
        describe([made])


@pytest.mark.parametrize(
    ("hint", "item"),
    [
        (list[float], "1"),
        (list[float], True),
        (list[int], 1.5),
        (list[date], datetime(2026, 1, 1)),
        (list[str], b"a"),
        (list[Quiet], "a"),
        (list[Literal["a"]], "b"),
        (list[Letter], "A"),
    ],
)
def test_what_a_list_was_given_later_is_checked_before_it_is_written(hint, item):
    made = made_of(hint, [])
    made.x.append(item)
    with pytest.raises(KnowledgeError, match=r"field x: .* was expected"):
        describe([made])


def test_whole_numbers_in_a_list_of_floats_are_floats(knowledge):
    made = made_of(list[float], [])
    made.x += [3, numpy.float64(0.5)]
    knowledge.persist(made)
    assert [(type(x), x) for x in another(knowledge).fetch(made.iri).x] == [(float, 3.0), (float, 0.5)]


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, 10**5000), (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=15))))],
    ids=["a very large number", "a time before all times"],
)
def test_values_that_no_literal_holds_are_refused(hint, value):
    with pytest.raises(KnowledgeError, match="field x"):
        describe([made_of(hint, value)])


def test_a_field_without_a_value_is_refused():
    with pytest.raises(KnowledgeError, match="it has no value"):
        describe([create_model("Bare", __base__=Quiet, x=(int, ...)).model_construct()])


def test_a_mask_is_not_dropped():
    with pytest.raises(ValidationError, match="lose its mask"):
        made_of(Array, numpy.ma.array([1, 2], mask=[0, 1]))


def test_what_is_set_before_it_is_looked_at_stays(knowledge):
    class Link(Quiet):
        name: str
        to: "Link | None" = None

    first = Link(name="first", to=Link(name="second"))
    knowledge.persist(first)
    found = another(knowledge).fetch(first.iri)
    found.to.name = "changed"
    assert found.to.to is None
    assert found.to.name == "changed"
    assert another(knowledge).fetch(first.iri).to.model_copy(update={"name": "other"}).name == "other"
    assert another(knowledge).fetch(first.iri).to.model_dump()["name"] == "second"
    other = another(knowledge)
    changed = other.fetch(first.iri)
    changed.to.name = "third"
    other.persist(changed)
    assert another(knowledge).fetch(first.iri).to.name == "third"


def test_arrays_in_files_are_part_of_what_is_dumped(knowledge):
    made = made_of(Array, numpy.zeros(LARGE), inner=(Quiet | None, None))
    outer = create_model("Outer", __base__=Quiet, inner=(Quiet, ...))(inner=made)
    knowledge.persist(outer)
    assert another(knowledge).fetch(made.iri).model_dump()["x"].shape == (LARGE,)
    assert another(knowledge).fetch(outer.iri, None).inner.model_dump()["x"].shape == (LARGE,)
    assert "x" in type(made).model_json_schema(mode="serialization")["properties"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"namespace": (str, SPACE)}, "write namespace: ClassVar"),
        ({"natural_key": (tuple[str, ...], ("x",))}, "write natural_key: ClassVar"),
        ({"loaded": (bool, False)}, "another name"),
    ],
)
@pytest.mark.filterwarnings("ignore:Field name")
def test_what_every_class_has_cannot_be_a_field(fields, told):
    with pytest.raises(KnowledgeError) as refused:
        create_model("Shadowing", __base__=Quiet, **fields)
    assert told in refused.value.hint


def test_what_every_entity_has_cannot_be_a_private_attribute_and_a_key_is_a_tuple():
    with pytest.raises(KnowledgeError, match="_source"):

        class Hiding(Quiet):
            _source: str = PrivateAttr(default="web")

    with pytest.raises(KnowledgeError, match="no tuple"):

        class Lettered(Quiet):
            natural_key: ClassVar = "email"

            email: str
