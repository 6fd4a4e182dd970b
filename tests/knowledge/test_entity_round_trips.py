import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone

import numpy
import pyoxigraph
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from knowledge_models import Named, Phase, SpecialThing, Thing, VeryNamed

from grafico.calculations import ArtifactRef
from grafico.errors import KnowledgeError
from grafico.knowledge import Entity, KnowledgeBase, describe, n_quads
from grafico.knowledge.arrays import decode_array, encode_array
from grafico.knowledge.fetch import Fetcher
from grafico.knowledge.plan import plan_of

GRAPH = "https://w3id.org/grafico/run/test"
QUICK = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
odd_offsets = st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.none() | offsets | odd_offsets)
dtypes = st.one_of(
    hnp.floating_dtypes(endianness="?"),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.boolean_dtypes(),
    hnp.unicode_string_dtypes(max_len=5),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
words = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
# Bytes of one digest have one size.
artifacts = st.builds(
    lambda digest, media_type: ArtifactRef(digest=digest, media_type=media_type, size=int(digest[:15], 16)),
    digest=st.text("0123456789abcdef", min_size=64, max_size=64),
    media_type=st.sampled_from(["application/x-npy", "text/plain; charset=utf-8"]),
)
fields = {
    "text": words,
    "count": st.integers(),
    "flag": st.booleans(),
    "energy": st.floats(),
    "maybe": st.none() | st.floats(),
    "sure_unless_none": st.none() | st.integers(),
    "moment": st.none() | moments,
    "day": st.none() | st.dates(),
    "blob": st.binary(max_size=20),
    "phase": st.none() | st.sampled_from(Phase),
    "choice": st.sampled_from(["a", "b"]),
    "mixed": st.integers() | words,
    "numbers": st.lists(st.floats(), max_size=4),
    "words": st.lists(words, max_size=4).map(tuple),
    "optional_words": st.none() | st.lists(words, max_size=2).map(tuple),
    "point": st.tuples(*[st.floats(allow_nan=False)] * 3),
    "tags": st.frozensets(words, max_size=4),
    "phases": st.lists(st.sampled_from(Phase), max_size=3),
    "settings": st.dictionaries(words, json_values, max_size=3),
    "link": st.none() | st.sampled_from(["https://example.org/ä?q=1#x", "urn:isbn:1"]),
    "spectrum": st.none() | arrays,
    "arrays": st.lists(arrays, max_size=2),
    "file": st.none() | artifacts,
    "label": st.none() | words,
}
things = st.builds(Thing, **fields) | st.builds(SpecialThing, special=st.none() | words, **fields)


@st.composite
def graphs(draw):
    """Things that refer to each other at will: shared objects, circles, themselves."""
    made = draw(st.lists(things, min_size=1, max_size=4))
    for thing in made:
        thing.other = draw(st.none() | st.sampled_from(made))
        thing.others = draw(st.lists(st.sampled_from(made), max_size=4))
        thing.friends = set(draw(st.lists(st.sampled_from(made), max_size=2)))
    return made


def store_of(*roots):
    store = pyoxigraph.Store()
    text = n_quads(describe(roots), GRAPH)
    store.load(input=text.encode(), format=pyoxigraph.RdfFormat.N_QUADS)
    return store


def fetch(store, iri, depth=None, identity=None):
    identity = {} if identity is None else identity

    def lazy(entity):
        Fetcher(store, identity, lazy=lazy).fill(entity)

    return Fetcher(store, identity, lazy=lazy).fetch(iri, depth)


def same_bits(a, b):
    if isinstance(a, numpy.ndarray):
        return isinstance(b, numpy.ndarray) and (a.dtype.str, a.shape, a.tobytes()) == (
            b.dtype.str,
            b.shape,
            b.tobytes(),
        )
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, Entity):
        return isinstance(b, Entity) and a.iri == b.iri
    if isinstance(a, datetime) and isinstance(b, datetime):
        return a == b and (a.tzinfo is None) == (b.tzinfo is None)
    return type(a) is type(b) and a == b


def assert_same(before, after):
    pending, seen = [(before, after)], set()
    while pending:
        a, b = pending.pop()
        assert type(a) is type(b)
        assert a.iri == b.iri
        if a.iri in seen:
            continue
        seen.add(a.iri)
        for plan in plan_of(type(a)):
            x, y = getattr(a, plan.name), getattr(b, plan.name)
            assert same_bits(x, y), (plan.name, x, y)
            if plan.kind == "entity" and x is not None:
                pairs = (
                    [(x, y)]
                    if plan.container == "one"
                    else zip(sorted(x, key=lambda e: e.iri), sorted(y, key=lambda e: e.iri), strict=True)
                )
                pending.extend(pairs)


@QUICK
@given(graphs(), st.sampled_from([0, 1, 2, None]))
def test_what_is_persisted_comes_back_to_the_bit(made, depth):
    store = store_of(*made)
    assert_same(made[0], fetch(store, made[0].iri, depth))


@QUICK
@given(graphs())
def test_describing_what_was_fetched_gives_the_same_triples(made):
    store = store_of(made[0])
    assert n_quads(describe([fetch(store, made[0].iri)]), GRAPH) == n_quads(describe([made[0]]), GRAPH)


@QUICK
@given(arrays)
def test_arrays_keep_dtype_shape_and_bits(array):
    assert same_bits(array, decode_array(encode_array(array)))


def test_not_a_number_keeps_its_payload():
    array = numpy.frombuffer(struct.pack("<Q", 0x7FF8DEADBEEF0001), dtype="<f8")
    assert decode_array(encode_array(array)).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<f8 2 AAAA",
        "<f8 1 !!!!",
        "O 1 AAAAAAAAAAA=",
        "<f8 -1 AAAA",
        "nonsense 1 AAAA",
        "<f8 99999999999999 AAAA",
        "V4 1 AAAAAA==",
    ],
)
def test_a_damaged_array_literal_is_refused(text):
    with pytest.raises(KnowledgeError):
        decode_array(text)


def test_an_array_that_is_too_large_names_the_alternative():
    with pytest.raises(KnowledgeError) as caught:
        encode_array(numpy.zeros(10**6))
    assert "artifact" in caught.value.hint


def test_lists_keep_order_and_repeats():
    a, b = Thing(text="a"), Thing(text="b")
    root = Thing(text="root", others=[b, a, b, b], words=("z", "a", "z"))
    back = fetch(store_of(root), root.iri)
    assert [other.text for other in back.others] == ["b", "a", "b", "b"]
    assert back.words == ("z", "a", "z")


def test_one_iri_is_one_object_and_circles_close():
    a = Thing(text="a")
    b = Thing(text="b", other=a, others=[a, a])
    a.other = b
    back = fetch(store_of(a), a.iri)
    assert back.other.other is back
    assert back.other.others[0] is back.other.others[1] is back


def test_depth_decides_what_is_loaded_and_the_rest_loads_when_looked_at():
    chain = Thing(text="0")
    for number in range(1, 5):
        chain = Thing(text=str(number), other=chain)
    store = store_of(chain)
    root = fetch(store, chain.iri, 1)
    assert root.loaded
    assert root.other.loaded
    third = root.other.other
    assert not third.loaded
    assert third.iri == chain.other.other.iri
    assert third.text == "2"
    assert third.loaded
    assert not third.other.loaded
    everything = fetch(store, chain.iri, None)
    assert everything.other.other.other.other.loaded


def test_the_deepest_known_class_is_built():
    special = SpecialThing(text="x", special="y")
    back = fetch(store_of(Thing(text="root", other=special)), special.iri)
    assert type(back) is SpecialThing
    assert back.special == "y"


def test_what_was_only_referred_to_is_not_described():
    inner = Thing(text="inner")
    outer = Thing(text="outer", other=inner)
    root = fetch(store_of(outer), outer.iri, 0)
    assert f"<{inner.iri}>" not in describe([root])


def test_a_natural_key_gives_the_same_iri_everywhere_and_another_key_another():
    assert Named(name="a", number=1).iri == Named(name="a", number=1, remark="later").iri
    iris = {Named(name=n, number=i).iri for n in ("a", "b", "a1", "1") for i in (0, 1, 2**60)}
    assert len(iris) == 12
    assert Thing(text="a").iri != Thing(text="a").iri


def test_natural_keys_are_golden():
    # Changing how they are derived would split every knowledge base in two.
    assert Named(name="water", number=2).iri == "https://w3id.org/grafico/id/Named/454449d5f98a61a6d54b93abaef0d344"


def test_a_subclass_that_inherits_the_key_is_the_same_thing():
    assert VeryNamed(name="a", number=1).iri == Named(name="a", number=1).iri


@QUICK
@given(words, st.integers(), words, st.integers())
def test_natural_keys_collide_only_when_they_are_equal(name, number, other, another):
    assert (Named(name=name, number=number).iri == Named(name=other, number=another).iri) == (
        (name, number) == (other, another)
    )


def test_the_iri_and_the_natural_key_cannot_be_changed():
    named = Named(name="a")
    for field, value in (("iri", "urn:x:y"), ("name", "b"), ("number", 2)):
        with pytest.raises(KnowledgeError):
            setattr(named, field, value)
    named.remark = "may change"


def test_two_descriptions_of_one_thing_are_a_conflict():
    root = Named(name="root", parts=[Named(name="a", remark="x"), Named(name="a", remark="y")])
    with pytest.raises(KnowledgeError, match=r"differently.*remark"):
        describe([root])
    same = Named(name="root", parts=[Named(name="a", remark="x"), Named(name="a", remark="x")])
    assert len(describe([same])) == 4  # root, part, two cells of the list


def test_text_that_is_no_unicode_is_refused_with_its_field():
    with pytest.raises(KnowledgeError, match="field text"):
        describe([Thing.model_construct(**{**dict(Thing(text="")), "text": "\ud800"})])


@pytest.mark.parametrize(
    "iri", ["", "relative", "http://a b", 'urn:"', "urn:x>", "urn:{x}", "urn:\n", "urn:%zz", "1:x"]
)
def test_what_is_no_iri_is_refused(iri):
    from grafico.errors import QueryError
    from grafico.knowledge import check_iri

    with pytest.raises(QueryError):
        check_iri(iri)


def test_a_type_without_a_form_is_refused_when_the_class_is_first_used(registry):
    class Bad(Entity):
        namespace = "https://example.org/bad#"
        matrix: list[list[float]]

    with pytest.raises(KnowledgeError, match=r"Bad\.matrix.*list of lists"):
        plan_of(Bad)


def test_one_property_has_one_unit(registry):
    class Clashing(Entity):
        namespace = "https://example.org/test#"
        energy: float = 0.0

    plan_of(Thing)
    with pytest.raises(KnowledgeError, match="different units"):
        plan_of(Clashing)


def test_an_entity_of_two_runs_is_read_from_the_one_committed_last(tmp_path):
    from grafico.knowledge import RunKnowledge

    store = KnowledgeBase(tmp_path / "kb")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        RunKnowledge(tmp_path / name, run_id=name, store=store).persist_now([Named(name="x", remark=name)])
    iri = Named(name="x").iri
    assert KnowledgeBase(tmp_path / "kb").fetch(iri).remark == "two"
    assert store.fetch(iri, run="https://w3id.org/grafico/run/one").remark == "one"


def test_fetching_what_is_not_there_says_so(knowledge):
    with pytest.raises(KnowledgeError, match="no entity"):
        knowledge.fetch("https://example.org/nothing")


def test_the_same_object_is_fetched_again(run, knowledge):
    run.persist_now([Named(name="x")])
    first = knowledge.fetch(Named(name="x").iri)
    assert knowledge.fetch(first.iri) is first


def test_times_are_instants_and_days_are_days():
    thing = Thing(text="t", moment=datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC), day=date(1, 2, 3))
    back = fetch(store_of(thing), thing.iri)
    assert (back.moment, back.day) == (thing.moment, thing.day)
