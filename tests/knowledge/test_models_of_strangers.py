"""Entity classes as others write them: mixed in, generic, made at run time, with odd names; what has no form is refused."""

import enum
from typing import Annotated, Any, ClassVar, Generic, Literal, NewType, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, create_model

from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge import Array, Entity, Iri, KnowledgeBase, Property, check_iri, describe, validate
from grafico.knowledge.arrays import decode_array

pytestmark = pytest.mark.usefixtures("fresh")
SPACE = "https://example.org/strange#"
ItemT = TypeVar("ItemT")
Name = NewType("Name", str)


@pytest.fixture
def fresh(registry, monkeypatch):
    from grafico.knowledge import plan

    monkeypatch.setattr(plan, "_PROPERTIES", {})
    monkeypatch.setattr(plan, "_ENUMS", {})


class Strange(Entity):
    """Base of the classes here."""

    namespace: ClassVar[str] = SPACE


def fetched(entity, folder):
    KnowledgeBase(folder / "kb").persist(entity)
    knowledge = KnowledgeBase(folder / "kb")
    assert validate(knowledge).violations == ()
    found = knowledge.fetch(entity.iri, None)
    assert found is not entity
    assert type(found) is type(entity)
    return found


class Dated(BaseModel):
    """No entity."""

    when: int


def test_fields_of_a_plain_model_that_is_mixed_in(tmp_path):
    class First(Dated, Strange):
        x: int

    class Last(Strange, Dated):
        y: int = 2

    assert fetched(First(when=1, x=2), tmp_path).when == 1
    assert fetched(Last(when=3), tmp_path).when == 3


def test_classes_that_are_made_at_run_time(tmp_path):
    made = create_model("Made", __base__=Strange, x=(int, ...), y=(str | None, None))
    assert fetched(made(x=3), tmp_path).x == 3


def test_a_generic_class_is_one_class_for_each_choice_of_types(tmp_path):
    class Box(Strange, Generic[ItemT]):
        held: ItemT

    class Crate(Box[int]):
        pass

    box = Box[int](held=3)
    assert check_iri(box.iri)
    assert type(box).class_iri() == f"{SPACE}Box%5Bint%5D"
    assert fetched(box, tmp_path).held == 3
    assert fetched(Box[str](held="a"), tmp_path).held == "a"
    found = fetched(Crate(held=4), tmp_path)
    assert found.held == 4
    both = KnowledgeBase(tmp_path / "kb").query(f"SELECT ?b {{ ?b a <{SPACE}Box%5Bint%5D> }}")
    assert len(both) == 2
    with pytest.raises(KnowledgeError, match="has no form"):
        KnowledgeBase(tmp_path / "kb").persist(Box(held=1))


def test_a_class_that_has_no_form_is_no_hindrance_to_others(tmp_path):
    class Formless(Strange):
        x: Any

    class Fine(Strange):
        x2: int = 1

    fetched(Fine(), tmp_path)


def test_members_of_enums_may_have_any_names_and_other_names(tmp_path):
    odd = enum.Enum("odd", {"a b": 1, "<x>": 2, "é": 3, "same": 1})
    marked = create_model("Marked", __base__=Strange, marks=(list[odd], ...))
    assert fetched(marked(marks=[*odd, odd["same"]]), tmp_path).marks == [*odd, odd["a b"]]


def test_new_types_and_literals_with_none(tmp_path):
    class Aliased(Strange):
        name: Name
        choice: Literal["a", 1, None]
        plain: Literal["b", None] = None

    found = fetched(Aliased(name=Name("n"), choice=None), tmp_path)
    assert (found.name, found.choice, found.plain) == ("n", None, None)
    assert fetched(Aliased(name=Name("n"), choice=1), tmp_path).choice == 1


def test_defaults_that_follow_from_other_fields(tmp_path):
    class Following(Strange):
        x: int
        y: int | None = Field(default_factory=lambda data: data["x"] + 1)

    assert fetched(Following(x=1), tmp_path).y == 2
    assert fetched(Following(x=1, y=None), tmp_path).y is None
    knowledge = KnowledgeBase(tmp_path / "kb")
    first = Following(x=5, iri="https://example.org/five")
    knowledge.persist(first)
    again = Following(x=5, iri="https://example.org/five")
    assert KnowledgeBase(tmp_path / "kb").persist(again).added == 0


def test_what_a_class_does_after_it_was_made_is_not_done_to_what_is_fetched(tmp_path):
    class Careful(Strange):
        x: int
        _seen: int = PrivateAttr(default=1)

        def model_post_init(self, _context, /):
            self._seen = self.x + 1

    made = Careful(x=1)
    assert made.iri
    assert made._seen == 2
    assert fetched(made, tmp_path)._seen == 1


def test_what_is_frozen_stays_as_it_is():
    class Frozen(Strange):
        model_config = ConfigDict(frozen=True)

        x: int

    class Partly(Strange):
        x: int = Field(frozen=True)
        y: int = 0

    with pytest.raises(ValidationError, match="frozen"):
        Frozen(x=1).x = 2
    partly = Partly(x=1)
    with pytest.raises(ValidationError, match="frozen"):
        partly.x = 2
    partly.y = 2


CASES = {
    "two names in one style": ("would be one property", {"bond_order": (int, 1), "bondOrder": (int, 2)}, {}),
    "a list and what orders it": (
        "would be one property",
        {"a": (list[int], []), "b": (Iri, "urn:a")},
        {"b": f"{SPACE}a.order"},
    ),
    "an array and its file": (
        "would be one property",
        {"a": (Array, ...), "b": (Iri, "urn:a")},
        {"b": f"{SPACE}a.file"},
    ),
    "the class": (
        "says something else",
        {"kind": (Iri, "urn:a")},
        {"kind": "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"},
    ),
    "bookkeeping": ("says something else", {"r": (str, "a")}, {"r": "https://w3id.org/grafico/core#revision"}),
    "flags": ("may be put together", {"flag": (enum.Flag("Bits", "A B"), ...)}, {}),
    "nothing but None": ("has no form", {"one": (Literal[None], None)}, {}),
    "a member of an enum": ("has no form", {"one": (Literal[enum.Enum("E", "A").A], ...)}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_fields_that_the_graph_could_not_tell_apart_are_refused(case):
    message, fields, properties = CASES[case]
    fields = {
        name: (Annotated[kind, Property(properties[name])] if name in properties else kind, default)
        for name, (kind, default) in fields.items()
    }
    made = create_model("Refused", __base__=Strange, **fields)
    with pytest.raises(KnowledgeError, match=message):
        describe([made.model_construct(iri="urn:x:1")])


def test_two_enums_of_one_name_in_one_namespace_are_refused(tmp_path):
    one, other = (enum.Enum("Kind", {"A": value}, qualname=f"{value}.Kind") for value in "ab")
    first = create_model("First", __base__=Strange, one=(one, ...))
    second = create_model("Second", __base__=Strange, other=(other, ...))
    fetched(first(one=one.A), tmp_path)
    with pytest.raises(KnowledgeError, match="have one name"):
        KnowledgeBase(tmp_path / "kb").persist(second(other=other.A))


def test_a_class_that_takes_any_field_is_refused(tmp_path):
    class Open(Strange):
        model_config = ConfigDict(extra="allow")

        x: int

    with pytest.raises(KnowledgeError, match="allows any field"):
        KnowledgeBase(tmp_path / "kb").persist(Open(x=1, y=2))


@pytest.mark.parametrize(
    "iri",
    [
        "http://a/[",
        "http://[::1",
        "http://[zz]/",
        "http://a:b/",
        "http://a/##",
        "urn:[",
        "http://a@b@c/",
        "http://a/\ue000",
    ],
)
def test_an_iri_that_the_store_could_not_read_is_refused_when_it_is_given(iri):
    with pytest.raises(QueryError, match="not an absolute IRI"):
        check_iri(iri)


@pytest.mark.parametrize("iri", ["http://[::1]:80/a?b#c", "http://a:80", "urn:a:é", "mailto:a@b", "x:?", "http://a//b"])
def test_an_iri_that_the_store_can_read_is_taken(iri):
    assert check_iri(iri) == iri


@pytest.mark.parametrize(
    "text",
    ["<U0 3000000000 ", "<f8 0,9223372036854775807,9 ", f"<f8 {','.join('1' * 70)} AAAAAAAAAAA=", "<f8 ٣ AAAA"],
)
def test_literals_of_arrays_that_there_cannot_be_are_refused(text):
    with pytest.raises(KnowledgeError, match="array literal"):
        decode_array(text)
