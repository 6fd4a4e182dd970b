"""Objects and classes that change: what identifies stays, and what an earlier class wrote is read or refused."""

import copy
import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, ClassVar

import numpy
import pytest
from models_of_silence import SPACE, Quiet, another
from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
)

from grafico.errors import KnowledgeError
from grafico.knowledge import Array, Entity, KnowledgeBase, Unit, describe, entity, validate

LARGE = 100_000

pytestmark = pytest.mark.usefixtures("fresh_plan")


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
