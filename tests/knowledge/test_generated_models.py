"""Any class that can be written as a Pydantic model: its instances come back, and satisfy its shapes."""

import enum
import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowledge_models import Thing
from pydantic import Field, create_model
from test_entity_round_trips import arrays, artifacts, fetch, json_values, moments, same_bits, store_of, words

from grafico.calculations import ArtifactRef, Json
from grafico.errors import KnowledgeError
from grafico.knowledge import Array, Entity, Iri, Unit, describe, entity, n_quads, schema_of, shapes_of
from grafico.knowledge.plan import plan_of

COUNTER = itertools.count()
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30) | st.decimals(
    allow_nan=False, allow_infinity=False, places=12, min_value=-5, max_value=5
)


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


SCALARS: list[tuple[Any, Any]] = [
    (str, words),
    (int, st.integers()),
    (float, st.floats()),
    (bool, st.booleans()),
    (Decimal, decimals),
    (datetime, moments),
    (date, st.dates()),
    (bytes, st.binary(max_size=9)),
    (Color, st.sampled_from(Color)),
    (Literal["a", 2], st.sampled_from(["a", 2])),
    (Annotated[float, Unit("eV")], st.floats()),
    (Annotated[int, Field(ge=0, le=9)], st.integers(0, 9)),
    (Iri, st.sampled_from(["urn:a:b", "https://example.org/é"])),
    (ArtifactRef, artifacts),
    (int | str, st.integers() | words),
]
SINGLE = [*SCALARS, (Array, arrays), (dict[str, Json], st.dictionaries(words, json_values, max_size=2))]


def is_itself(value):
    return not (isinstance(value, float) and math.isnan(value))


@st.composite
def annotations(draw):
    """Return an annotation, a strategy of its values, and a default or ``...``."""
    hint, values = draw(st.sampled_from(SINGLE))
    shape = draw(st.sampled_from(["plain", "optional", "list", "tuple", "optional list", "set", "frozenset"]))
    if shape in ("set", "frozenset"):
        hint, values = draw(st.sampled_from([pair for pair in SCALARS if pair[0] is not float]))
    if shape == "optional":
        hint, values = hint | None, st.none() | values
    elif shape == "list":
        hint, values = list[hint], st.lists(values, max_size=3)
    elif shape == "optional list":
        hint, values = list[hint] | None, st.none() | st.lists(values, max_size=3)
    elif shape == "tuple":
        hint, values = tuple[hint, ...], st.lists(values, max_size=3).map(tuple)
    elif shape == "set":
        hint, values = set[hint], st.sets(values.filter(is_itself), max_size=3)
    elif shape == "frozenset":
        hint, values = frozenset[hint], st.frozensets(values.filter(is_itself), max_size=3)
    default = ... if draw(st.booleans()) else draw(values)
    return hint, values, default


@st.composite
def models(draw):
    """Return a class with its instances; some of its fields are in a class above it."""
    number = next(COUNTER)
    drawn = draw(st.lists(annotations(), min_size=1, max_size=6))
    fields = {
        f"field_{i}": (hint, ... if default is ... else Field(default=default))
        for i, (hint, _, default) in enumerate(drawn)
    }
    split = draw(st.integers(0, len(fields)))
    names = list(fields)
    space = {"namespace": f"https://example.org/generated/{number}#"}
    base = type(f"Spaced{number}", (Entity,), {**space, "__module__": __name__, "__annotations__": {}})
    above = create_model(f"Above{number}", __base__=base, **{name: fields[name] for name in names[:split]})
    cls = create_model(f"Model{number}", __base__=above, **{name: fields[name] for name in names[split:]})
    made = st.fixed_dictionaries({}, optional={f"field_{i}": values for i, (_, values, _) in enumerate(drawn)})
    instances = []
    for given_fields in draw(st.lists(made, min_size=1, max_size=3)):
        missing = {
            f"field_{i}": draw(values)
            for i, (_, values, default) in enumerate(drawn)
            if default is ... and f"field_{i}" not in given_fields
        }
        instances.append(cls(**given_fields, **missing))
    return cls, instances


@pytest.fixture(autouse=True, scope="module")
def _forget():
    before = dict(entity._REGISTRY)
    yield
    entity._REGISTRY.clear()
    entity._REGISTRY.update(before)


def same(a, b):
    if isinstance(a, Decimal):
        return isinstance(b, Decimal) and a == b
    if isinstance(a, set | frozenset):
        return type(a) is type(b) and a == b
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return same_bits(a, b)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(models())
def test_instances_of_any_model_come_back(drawn):
    cls, instances = drawn
    store = store_of(*instances)
    for made in instances:
        back = fetch(store, made.iri)
        assert type(back) is cls
        for plan in plan_of(cls):
            x, y = getattr(made, plan.name), getattr(back, plan.name)
            assert same(x, y), (plan.name, x, y)
        assert n_quads(describe([back]), "urn:g") == n_quads(describe([made]), "urn:g")


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(models())
def test_instances_of_any_model_satisfy_its_shapes(drawn):
    import pyshacl
    import rdflib

    cls, instances = drawn
    data, shapes = rdflib.Graph(), rdflib.Graph()
    for graph, found in ((data, describe(instances)), (shapes, shapes_of([cls, *cls.__bases__]))):
        graph.parse(data=n_quads(found, "urn:g").replace(" <urn:g> .\n", " .\n"), format="nt")
    conforms, _, text = pyshacl.validate(data, shacl_graph=shapes, inference="none")
    assert conforms, text
    assert f"<{cls.class_iri()}>" in schema_of([cls.class_iri()])


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(0x20))),
        "\x7f\x80\x85\xa0\u2028\u2029\ufeff\ufffe\uffff",
        "a\r\nb\rc\n",
        "\u202eright to left\u202c",
        "e\u0301 is not é",
        "𝔘 👩‍🔬 \U0010ffff",
        '"""\\u0041\\" <b> {?x} . # ^^<urn:x> @en',
        " leading and trailing ",
        "",
    ],
)
def test_every_character_survives_the_file_and_the_store(run, knowledge, text):
    from grafico.knowledge import KnowledgeBase, validate

    thing = Thing(text=text, words=(text, "x"), tags=frozenset({text}), settings={text: text})
    run.persist_now([thing])
    again = KnowledgeBase(knowledge.folder)
    again.rebuild()
    back = again.fetch(thing.iri)
    assert (back.text, back.words, back.tags, back.settings) == (text, (text, "x"), {text}, {text: text})
    assert validate(again).violations == ()


@pytest.mark.parametrize(
    "value",
    ["0", "-0", "1.50", "1E+30", "1E-40", "0.1234567890123456789012345", "123456789012345678901234567890.5", "-7"],
)
def test_decimals_keep_their_value(registry, run, knowledge, value):
    class Priced(Entity):
        namespace = "https://example.org/priced#"
        natural_key = ("price",)
        price: Decimal

    priced = Priced(price=Decimal(value))
    run.persist_now([priced])
    assert knowledge.fetch(priced.iri).price == Decimal(value)
    fresh = type(knowledge)(knowledge.folder).fetch(priced.iri)
    assert fresh.price == Decimal(value)
    assert (
        Priced(price=Decimal(f"{Decimal(value):f}" + ("" if "." in f"{Decimal(value):f}" else ".") + "00")).iri
        == priced.iri
    )


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1E+99999"])
def test_a_decimal_without_a_literal_is_refused(registry, value):
    class Odd(Entity):
        namespace = "https://example.org/odd#"
        price: Decimal

    with pytest.raises(KnowledgeError, match=r"field price: the decimal .* has no literal"):
        describe([Odd.model_construct(iri="urn:odd:1", price=Decimal(value))])


def test_floats_keep_every_value_that_has_a_name(run, knowledge):
    numbers = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 2**53 + 0.0]
    thing = Thing(text="x", numbers=numbers)
    run.persist_now([thing])
    assert same_bits(type(knowledge)(knowledge.folder).fetch(thing.iri).numbers, numbers)


def test_the_numbers_of_an_array_are_bits_and_not_values(run, knowledge):
    payloads = numpy.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0x8000000000000000], dtype="<u8").view("<f8")
    for array in (payloads, payloads.byteswap().view(">f8"), payloads[0], payloads[:0].reshape(0, 3)):
        thing = Thing(text="x", spectrum=array, moment=datetime(2026, 1, 2, tzinfo=UTC))
        run.persist_now([thing])
        back = type(knowledge)(knowledge.folder).fetch(thing.iri).spectrum
        assert (back.dtype.str, back.shape, back.tobytes()) == (
            numpy.asarray(array).dtype.str,
            numpy.asarray(array).shape,
            numpy.asarray(array).tobytes(),
        )
