"""What a stranger's model could lose without a word: each comes back as it was, or is refused with what to write instead."""

import collections
import copy
import enum
import threading
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy
import pytest
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
)

from grafico.errors import KnowledgeError
from grafico.knowledge import Array, Entity, KnowledgeBase, Unit, describe, entity, validate

SPACE = "https://example.org/silence#"
LARGE = 100_000


@pytest.fixture(autouse=True)
def _fresh(registry, monkeypatch):
    from grafico.knowledge import plan

    monkeypatch.setattr(plan, "_PROPERTIES", {})
    monkeypatch.setattr(plan, "_ENUMS", {})


class Quiet(Entity):
    """Base of the classes here."""

    namespace: ClassVar[str] = SPACE


class Point(BaseModel):
    """No entity."""

    x: int = 0


class Pair(NamedTuple):
    """A tuple of unlike things."""

    a: int
    b: str


def another(knowledge):
    return KnowledgeBase(knowledge.folder)


def made_of(hint, value, **more):
    return create_model("Made", __base__=Quiet, x=(hint, ...), **more)(x=value)


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


def test_what_identifies_cannot_be_changed_in_place(knowledge):
    class Placed(Quiet):
        natural_key: ClassVar[tuple[str, ...]] = ("where",)

        where: Array

    class Listed(Quiet):
        natural_key: ClassVar[tuple[str, ...]] = ("names",)

        names: list[str]

    given = numpy.zeros(LARGE)
    for array in (given, given[:3]):
        placed = Placed(where=array)
        knowledge.persist(placed)
        for one in (placed, another(knowledge).fetch(placed.iri)):
            with pytest.raises(ValueError, match="read-only"):
                one.where[0] = 1
    given[0] = 1
    assert placed.where[0] == 0
    with pytest.raises(KnowledgeError, match="changed in place"):
        describe([Listed(names=["a"])])


def test_equal_keys_are_one_thing(knowledge):
    class Reading(Quiet):
        natural_key: ClassVar[tuple[str, ...]] = ("at", "value", "place")

        at: datetime
        value: float
        place: tuple[float, float] = (0.0, 0.0)

    one = Reading(at=datetime(2026, 1, 1, 12, tzinfo=UTC), value=0.0)
    same = Reading(at=datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))), value=-0.0, place=(-0.0, 0.0))
    assert one.iri == same.iri
    knowledge.persist(one, same)
    assert another(knowledge).persist(same).added == 0


def test_validators_of_assignments_run_where_the_model_asks_for_it():
    class Careful(Quiet):
        model_config = ConfigDict(validate_assignment=True, alias_generator=str.upper)

        x: int
        me: "Careful | None" = None

        @field_validator("x")
        @classmethod
        def _positive(cls, value):
            if value < 0:
                raise ValueError("below zero")
            return value

    careful = Careful(X=1)
    careful.me = careful
    with pytest.raises(ValidationError, match="below zero"):
        careful.x = -1
    assert (careful.x, careful.me) == (1, careful)
    careful.x = 2
    assert careful.x == 2
    assert copy.copy(careful).x == 2


def test_aliases_are_no_hindrance_to_assignments():
    class Aliased(Quiet):
        x: int = Field(alias="ex")

    aliased = Aliased(ex=1)
    aliased.x = 2
    assert aliased.x == 2


def test_a_class_may_allow_less_than_the_class_above_it_and_no_more(knowledge):
    class Wide(Quiet):
        x: int | str = 1
        one: int

    class Narrow(Wide):
        x: int = 1
        label: str

    narrow = Narrow(one=1, label="n", iri="urn:n:1")
    knowledge.persist(narrow)
    assert knowledge.query("SELECT ?l { <urn:n:1> rdfs:label ?l }").values() == [{"l": "n"}]
    assert validate(knowledge).violations == ()
    folder = knowledge.folder / "spoilt"
    folder.mkdir()
    (folder / "knowledge.nq").write_text(
        '<urn:n:1> <https://example.org/silence#x> "a" <urn:run> .\n'
        + "".join(
            f"<urn:n:1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{SPACE}{name}> <urn:run> .\n"
            for name in ("Wide", "Narrow")
        )
    )
    spoilt = KnowledgeBase(folder / "kb")
    spoilt.load_run(folder / "knowledge.nq")
    assert any("another datatype" in found.message for found in validate(spoilt).violations)
    for more in ((list[int], [1]), (float, 1.0), (int | None, None)):
        with pytest.raises(KnowledgeError, match=r"may be what Wide\.one|may be what .*Wide\.one"):
            describe([create_model("Wider", __base__=Wide, one=more)()])


def test_what_an_earlier_class_wrote_is_read_or_refused_and_never_replaced(knowledge):
    def version(**fields):
        entity._REGISTRY.pop(f"{SPACE}Kept", None)
        return create_model("Kept", __base__=Quiet, **fields)

    first = version(name=(str, ...), gone=(str, "x"), num=(int, 1), words=(list[str], []))
    knowledge.persist(first(iri="urn:k:1", name="n", gone="keep me", num=7, words=["a", "b"]))

    version(name=(list[str], ...), num=(list[int], [1]))
    found = another(knowledge).fetch("urn:k:1")
    assert (found.name, found.num) == (["n"], [7])
    version(name=(str, ...), more=(int, 5))
    assert validate(knowledge).violations == ()
    writer = another(knowledge)
    found = writer.fetch("urn:k:1")
    assert found.more == 5
    found.name = "m"
    writer.persist(found)
    first = version(name=(str, ...), gone=(str, "x"), num=(int, 1), words=(list[str], []))
    found = another(knowledge).fetch("urn:k:1")
    assert (found.name, found.gone, found.num, found.words) == ("m", "keep me", 7, ["a", "b"])
    for fields in ({"other": (str, ...)}, {"words": (str, "x")}, {"name": (int, 1)}):
        version(**fields)
        with pytest.raises(KnowledgeError) as refused:
            another(knowledge).fetch("urn:k:1")
        assert "another version of the class" in refused.value.hint


def test_a_class_that_keeps_its_iri_may_have_another_name(knowledge):
    class Person(Quiet):
        natural_key: ClassVar[tuple[str, ...]] = ("email",)

        email: str

    ada = Person(email="ada@example.org")
    knowledge.persist(ada)
    entity._REGISTRY.pop(Person.class_iri())

    class Human(Quiet):
        natural_key: ClassVar[tuple[str, ...]] = ("email",)

        email: str

        @classmethod
        def class_iri(cls) -> str:
            return f"{SPACE}Person"

    found = another(knowledge).fetch(ada.iri)
    assert (type(found), found.email) == (Human, "ada@example.org")
    assert Human(email="ada@example.org").iri == ada.iri
    assert validate(knowledge).unknown == ()


def test_values_without_an_order_are_no_list(knowledge):
    made = create_model("Unordered", __base__=Quiet, x=(set[int], ...))(x={1, 2}, iri="urn:u:1")
    knowledge.persist(made)
    entity._REGISTRY.pop(f"{SPACE}Unordered")
    create_model("Unordered", __base__=Quiet, x=(list[int], []))
    with pytest.raises(KnowledgeError, match="nothing that says their order"):
        another(knowledge).fetch("urn:u:1")


def test_a_class_that_is_defined_anew_may_gain_a_unit():
    def version(hint):
        return type("Cell", (Quiet,), {"__module__": __name__, "__annotations__": {"e": hint}, "e": 1.0})

    describe([version(float)()])
    describe([version(Annotated[float, Unit("eV")])()])


def test_what_is_persisted_is_the_object_that_is_fetched(knowledge):
    class Held(Quiet):
        parts: list["Held"] = Field(default_factory=list)

    part = Held()
    whole = Held(parts=[part])
    knowledge.persist(whole)
    assert knowledge.fetch(part.iri) is part
    assert knowledge.fetch(whole.iri).parts[0] is part


def test_threads_share_their_objects(knowledge):
    class Node(Quiet):
        number: int
        following: list["Node"] = Field(default_factory=list)

    nodes = [Node(number=number) for number in range(30)]
    for number, node in enumerate(nodes):
        node.following = [nodes[(number + 1) % 30], nodes[(number * 7) % 30]]
    knowledge.persist(*nodes)
    iris = [node.iri for node in nodes]
    shared = another(knowledge)
    seen: list[dict[str, Entity]] = []
    barrier = threading.Barrier(4)

    def walk(start):
        found = {}
        barrier.wait()
        for number in range(start, start + 15):
            node = shared.fetch(iris[number % 30])
            for other in (node, *node.following):
                assert other.number == iris.index(other.iri)
                found[other.iri] = other
        seen.append(found)

    threads = [threading.Thread(target=walk, args=(start,)) for start in (0, 0, 3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    for iri in iris:
        assert len({id(found[iri]) for found in seen if iri in found}) <= 1
