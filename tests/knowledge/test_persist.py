"""Persisting without a run, where others persist too; in a folder and over HTTP."""

import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from endpoints import BOTH
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge_models import NAMESPACE, Named, Phase, SpecialThing, Thing, VeryNamed
from persisting import COUNTER, ROUNDS

from grafico.calculations import ArtifactRef
from grafico.errors import Conflict, KnowledgeError, QueryError
from grafico.knowledge import DIRECT, KnowledgeBase, RunKnowledge, run_iri, validate

SCRIPT = Path(__file__).with_name("persisting.py")


def lines_of(dump, *, graph=DIRECT):
    return {line for line in dump.splitlines() if line.endswith(f"<{graph}> .") and "committedAt" not in line}


@BOTH
def test_persisting_again_writes_nothing_and_a_change_writes_only_itself(knowledge):
    thing = Thing(text="t", numbers=[1.0, 2.5], phase=Phase.GAS, file=ArtifactRef(digest="0" * 64, size=1), maybe=1.0)
    first = knowledge.persist(thing, Named(name="n", parts=[Named(name="m")]))
    assert first.iris == (thing.iri, Named(name="n").iri)
    before = knowledge.dump()
    assert (knowledge.persist(thing).added, knowledge.persist(Named(name="m")).added) == (0, 0)
    assert knowledge.dump() == before
    thing.count = 3
    assert knowledge.persist(thing).model_dump() == {"iris": (thing.iri,), "added": 1, "removed": 1}
    assert lines_of(knowledge.dump()) - lines_of(before) == {
        f'<{thing.iri}> <{NAMESPACE}count> "3"^^<http://www.w3.org/2001/XMLSchema#integer> <{DIRECT}> .'
    }


@BOTH
def test_what_was_persisted_is_fetched_by_others(knowledge, another):
    root = Thing(text="root", others=[SpecialThing(text="x", special="y"), Thing(text="z")], settings={"a": [1, 2.0]})
    root.other = root
    knowledge.persist(root)
    assert knowledge.fetch(root.iri) is root
    found = another().fetch(root.iri, None)
    assert [(type(other), other.text) for other in found.others] == [(SpecialThing, "x"), (Thing, "z")]
    assert (found.settings, found.other is found) == ({"a": [1, 2.0]}, True)
    assert validate(knowledge).violations == ()


@BOTH
def test_a_field_that_another_changed_is_not_overwritten(knowledge, another):
    knowledge.persist(Named(name="a", remark="first"))
    elsewhere = another()
    ours, theirs = (store.fetch(Named(name="a").iri) for store in (knowledge, elsewhere))
    theirs.remark = "theirs"
    elsewhere.persist(theirs)
    ours.remark = "ours"
    before = knowledge.dump()
    with pytest.raises(Conflict) as caught:
        knowledge.persist(ours, Named(name="comes along"))
    (clash,) = caught.value.clashes
    assert clash.model_dump() == {
        "entity": ours.iri,
        "property": f"{NAMESPACE}remark",
        "base": '"first"',
        "theirs": '"theirs"',
        "ours": '"ours"',
    }
    assert all(part in caught.value.message for part in ("remark", '"theirs"', '"ours"', "nothing was written"))
    assert pickle.loads(pickle.dumps(caught.value)).clashes == caught.value.clashes
    assert knowledge.dump() == before
    knowledge.refresh(ours)
    assert ours.remark == "theirs"
    ours.remark = "ours"
    knowledge.persist(ours)
    assert another().fetch(ours.iri).remark == "ours"


@BOTH
def test_different_fields_of_one_thing_are_changed_at_once(knowledge, another):
    knowledge.persist(Thing(iri="urn:x:t", text="t", tags={"a", "b"}, numbers=[1.0]))
    elsewhere = another()
    ours, theirs = (store.fetch("urn:x:t") for store in (knowledge, elsewhere))
    theirs.count, theirs.tags = 7, {"b", "theirs"}
    ours.numbers, ours.tags = [2.0, 3.0], {"a", "b", "ours"}
    elsewhere.persist(theirs)
    knowledge.persist(ours)
    found = another().fetch("urn:x:t")
    assert (found.count, found.numbers, found.tags) == (7, [2.0, 3.0], {"b", "theirs", "ours"})
    # What was merged in is not taken back by who has not looked.
    ours.flag = True
    knowledge.persist(ours)
    found = another().fetch("urn:x:t")
    assert (found.count, found.flag, found.tags) == (7, True, {"b", "theirs", "ours"})


@BOTH
def test_a_thing_that_is_made_anew_says_only_what_was_given(knowledge, another):
    knowledge.persist(VeryNamed(name="a", number=1, remark="known", parts=[Named(name="p")], detail=0.5))
    another().persist(Named(name="a", number=1))
    found = another().fetch(Named(name="a", number=1).iri)
    assert (type(found), found.remark, found.detail, len(found.parts)) == (VeryNamed, "known", 0.5, 1)
    with pytest.raises(Conflict, match="parts"):
        another().persist(Named(name="a", number=1, parts=[]))
    appended = Named(name="a", number=1)
    appended.parts.append(Named(name="q"))
    with pytest.raises(Conflict, match="parts"):
        another().persist(appended)


@BOTH
def test_a_stale_copy_cannot_take_back_what_was_read_later(knowledge, another):
    knowledge.persist(Thing(iri="urn:x:t", text="t"))
    stale = knowledge.fetch("urn:x:t").model_copy()
    elsewhere = another()
    changed = elsewhere.fetch("urn:x:t")
    changed.count = 9
    elsewhere.persist(changed)
    knowledge.refresh(knowledge.fetch("urn:x:t"))
    stale.flag = True
    knowledge.persist(stale)
    found = another().fetch("urn:x:t")
    assert (found.count, found.flag) == (9, True)


@BOTH
def test_lists_that_are_replaced_leave_no_cells_behind(knowledge, another):
    a = Thing(iri="urn:x:a", text="a", words=("1", "2", "3"), numbers=[1.0, 2.0])
    b = Thing(iri="urn:x:b", text="b", words=("0", "2", "3"))
    knowledge.persist(a, b)
    a.words, a.numbers = ("9",), []
    knowledge.persist(a)
    b.words = ()
    knowledge.persist(b)
    assert another().fetch("urn:x:a").words == ("9",)
    assert another().fetch("urn:x:b").words == ()
    cells = {line.split()[0] for line in lines_of(knowledge.dump()) if "/id/list/" in line.split()[0]}
    # The point of each is a list of three, and the same.
    assert len(cells) == 1 + 3


@BOTH
def test_the_graph_of_a_run_is_not_for_persisting(knowledge):
    with pytest.raises(KnowledgeError, match="graph of a run"):
        knowledge.persist(Named(name="a"), into=run_iri("first"))
    with pytest.raises(QueryError, match="not an absolute IRI"):
        knowledge.persist(Named(name="a"), into="urn:x> { } ; DROP ALL #")
    assert knowledge.dump() == ""


@BOTH
def test_graphs_are_apart_and_queries_see_all(knowledge, another, tmp_path):
    (tmp_path / "run").mkdir()
    RunKnowledge(tmp_path / "run", run_id="r", store=knowledge).persist_now([Named(name="a", remark="of the run")])
    knowledge.persist(Named(name="a", remark="mine"), into="urn:x:mine")
    remarks = knowledge.query(f"SELECT ?g ?r {{ GRAPH ?g {{ ?x <{NAMESPACE}remark> ?r }} }} ORDER BY ?r").values()
    assert remarks == [{"g": "urn:x:mine", "r": "mine"}, {"g": run_iri("r"), "r": "of the run"}]
    count = f"SELECT (COUNT(*) AS ?n) {{ ?x <{NAMESPACE}name> 'a' }}"
    assert knowledge.query(count).values() == [{"n": 1}]
    assert another().fetch(Named(name="a").iri).remark == "mine"
    assert another().fetch(Named(name="a").iri, run=run_iri("r")).remark == "of the run"


@BOTH
def test_an_entity_that_is_gone_is_left_as_it_was(knowledge):
    thing = Thing(text="only here")
    with pytest.raises(KnowledgeError):
        knowledge.refresh(thing)
    assert thing.text == "only here"
    assert thing.loaded


def test_a_rebuild_keeps_what_was_persisted_directly(knowledge, run):
    run.persist_now([Named(name="a")])
    knowledge.persist(Named(name="b", parts=[Named(name="c")]))
    before = knowledge.dump()
    assert knowledge.rebuild().problems == ()
    assert knowledge.dump() == before
    for path in knowledge.folder.glob("oxigraph-*/*"):
        if path.name.startswith(("CURRENT", "MANIFEST")):
            path.write_bytes(b"garbage")
    (problem,) = knowledge.rebuild().problems
    assert DIRECT in problem
    assert knowledge.query("ASK { ?x <https://example.org/test#name> 'a' }").boolean


@BOTH
def test_eight_processes_persist_overlapping_sets_and_nothing_is_lost(knowledge, another):
    knowledge.persist(Thing(iri=COUNTER, text="counter"))
    names = [f"p{number}" for number in range(8)]
    workers = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), knowledge.place, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    told = []
    for worker in workers:
        out, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        told.append(json.loads(out))
    fresh = another()
    assert fresh.fetch(COUNTER).count == 8 * ROUNDS
    # One of them has written the contested field; each of the others was told, and by whom.
    winner = fresh.fetch(Named(name="contested").iri).remark
    losers = [(name, one["lost"]) for name, one in zip(names, told, strict=True) if one["lost"]]
    assert len(losers) == 7
    assert winner not in dict(losers)
    assert all((lost["theirs"], lost["ours"]) == (f'"{winner}"', f'"{name}"') for name, lost in losers)
    assert fresh.fetch("urn:test:all").tags == set(names)
    things = fresh.query(f"SELECT ?n (COUNT(*) AS ?c) {{ ?x <{NAMESPACE}name> ?n }} GROUP BY ?n", limit=100).values()
    assert {row["n"]: row["c"] for row in things} == {"shared": 5, "contested": 1, **dict.fromkeys(names, 5)}
    assert validate(fresh).violations == ()


@BOTH
def test_a_kill_in_the_middle_leaves_whole_what_was_written(knowledge, another):
    for attempt in range(3):
        command = [sys.executable, str(SCRIPT), knowledge.place, f"n{attempt}", "--until-killed"]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = [worker.stdout.readline() for _ in range(2 + attempt)]
        time.sleep(0.005 * attempt)
        worker.kill()
        lines += worker.communicate()[0].splitlines()
        last = max(int(line) for line in lines if line.strip())
        fresh = another()
        # What was told to be written is there, and perhaps one more; nothing is there by halves.
        assert int(fresh.fetch(Named(name=f"n{attempt}").iri).remark) in (last, last + 1)
        for number in (0, last):
            assert len(fresh.fetch(Named(name=f"whole n{attempt}", number=number).iri, None).parts) == 20
        fresh.persist(Named(name=f"after kill {attempt}"))
    assert validate(another()).violations == ()


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(0, 2),
        "maybe": st.none() | st.sampled_from([0.0, 1.0]),
        "tags": st.frozensets(st.sampled_from("abc")),
        "numbers": st.lists(st.sampled_from([1.0, 2.0]), max_size=2),
        "sure_unless_none": st.none() | st.integers(7, 8),
        "phase": st.none() | st.sampled_from(Phase),
    },
)


@settings(max_examples=25, deadline=None)
@given(before=VALUES, ours=VALUES, theirs=VALUES)
def test_two_who_change_one_thing_both_get_their_way_or_the_second_is_told(before, ours, theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kb")
    first, second = KnowledgeBase(folder), KnowledgeBase(folder)
    first.persist(Thing(iri="urn:x:t", text="t", **before))
    mine, other = first.fetch("urn:x:t"), second.fetch("urn:x:t")
    start = {name: getattr(mine, name) for name in {*ours, *theirs}}
    for entity, values in ((mine, ours), (other, theirs)):
        for name, value in values.items():
            setattr(entity, name, value)
    changed = [{n for n, v in values.items() if v != start[n]} for values in (ours, theirs)]
    both = {n for n in changed[0] & changed[1] if n != "tags"}
    second.persist(other)
    if both:
        with pytest.raises(Conflict) as caught:
            first.persist(mine)
        assert len(caught.value.clashes) == len(both)
        return
    first.persist(mine)
    found = KnowledgeBase(folder).fetch("urn:x:t")
    for name, value in start.items():
        if name == "tags":
            said = [values.get("tags", value) for values in (ours, theirs)]
            added, removed = (set().union(*sets) for sets in ([s - value for s in said], [value - s for s in said]))
            assert found.tags == (value | added) - removed
        else:
            expected = ours[name] if name in changed[0] else theirs[name] if name in changed[1] else value
            assert getattr(found, name) == expected
