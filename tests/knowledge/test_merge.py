"""The merge: what several runs hold, queries see once."""

import os
import shutil
import signal
import subprocess
import sys

import pyoxigraph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge_models import NAMESPACE, Named, Thing

from grafico.errors import KnowledgeError
from grafico.knowledge import KnowledgeBase, RunKnowledge
from grafico.knowledge.merge import load, merge_anew, named_quads, read_source

DEFAULT = pyoxigraph.DefaultGraph()


def run_named(tmp_path, knowledge, name):
    folder = tmp_path / "runs" / name
    folder.mkdir(parents=True)
    return RunKnowledge(folder, run_id=name, store=knowledge)


def many(start=0, count=600):
    return [Named(name="many", number=number) for number in range(start, start + count)]


def counted(knowledge, pattern):
    return knowledge.query(f"SELECT (COUNT(*) AS ?n) {{ {pattern} }}").values()[0]["n"]


def triples(quads):
    return sorted(f"{quad.subject} {quad.predicate} {quad.object}" for quad in quads)


def merge_of(store):
    return triples(store.quads_for_pattern(None, None, None, DEFAULT))


def union_of(store):
    return sorted(set(triples(named_quads(store))))


def assert_merged(knowledge):
    knowledge.query("ASK {}")
    assert knowledge._reading(lambda store: merge_of(store) == union_of(store))


@pytest.mark.parametrize("things", [[Named(name="shared")], [Named(name="shared"), *many()]], ids=["few", "in bulk"])
def test_what_two_runs_share_counts_once(tmp_path, knowledge, things):
    for name in ("one", "two"):
        run_named(tmp_path, knowledge, name).persist_now(things)
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'shared'") == 1
    assert counted(knowledge, f"GRAPH ?g {{ ?x <{NAMESPACE}name> 'shared' }}") == 2
    assert counted(knowledge, f"<{NAMESPACE}Named> a owl:Class") == 1
    assert counted(knowledge, "?run grafico:committedAt ?when") == 2
    assert_merged(knowledge)


def test_a_query_may_choose_its_runs(tmp_path, knowledge):
    one, two = (run_named(tmp_path, knowledge, name) for name in ("one", "two"))
    one.persist_now([Named(name="shared", remark="1")])
    two.persist_now([Named(name="shared", remark="2")])
    name, remark = f"<{NAMESPACE}name>", f"<{NAMESPACE}remark>"
    assert counted(knowledge, f"?x {name} 'shared' ; {remark} ?r") == 2
    found = knowledge.query(f"SELECT ?g ?r {{ GRAPH ?g {{ ?x {name} 'shared' ; {remark} ?r }} }} ORDER BY ?r").values()
    assert found == [{"g": one.graph, "r": "1"}, {"g": two.graph, "r": "2"}]
    only = knowledge.query(f"SELECT ?r FROM <{two.graph}> {{ ?x {remark} ?r }}").values()
    assert only == [{"r": "2"}]
    named = f"SELECT ?r FROM NAMED <{one.graph}> {{ GRAPH ?g {{ ?x {remark} ?r }} }}"
    assert knowledge.query(named).values() == [{"r": "1"}]


def test_what_a_run_gives_up_stays_as_long_as_another_holds_it(tmp_path, knowledge):
    one, two = (run_named(tmp_path, knowledge, name) for name in ("one", "two"))
    one.persist_now([Named(name="thing", remark="same"), Thing(text="alone", iri="urn:x:alone")])
    two.persist_now([Named(name="thing", remark="same")])
    remarks = f"SELECT ?r {{ ?x <{NAMESPACE}remark> ?r }} ORDER BY ?r"
    one.persist_now([Named(name="thing", remark="other")])
    assert [row["r"] for row in knowledge.query(remarks).values()] == ["other", "same"]
    two.persist_now([Named(name="thing", remark="other")])
    assert [row["r"] for row in knowledge.query(remarks).values()] == ["other"]
    RunKnowledge(one.folder, run_id="one", store=knowledge)._commit({})
    assert counted(knowledge, f"?x <{NAMESPACE}text> ?t") == 0
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'thing'") == 1
    assert_merged(knowledge)


def test_a_rebuild_without_a_run_takes_what_only_it_held(tmp_path, knowledge):
    one, two = (run_named(tmp_path, knowledge, name) for name in ("one", "two"))
    one.persist_now([*many(), Named(name="alone")])
    two.persist_now(many())
    shutil.rmtree(one.folder)
    assert len(knowledge.rebuild().problems) == 1
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'alone'") == 0
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'many'") == 600
    assert_merged(knowledge)


# Where in a load in bulk the process is killed: text that is loaded before.
KILLS = {
    "before anything": "",
    "in the merge": "store.bulk_load(input=source.triples()[: len(half)].rpartition(b'\\n')[0], format=NT)",
    "between merge and graph": "store.bulk_load(input=source.triples(), format=NT)",
    "in the graph": "store.bulk_load(input=half, format=NQ)",
    "after all": "real(store, source); store.flush()",
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_kill_in_the_middle_of_a_load_is_mended(moment, tmp_path, knowledge):
    run_named(tmp_path, knowledge, "first").persist_now([Named(name="many", number=7), Named(name="mine")])
    killed = tmp_path / "runs" / "killed"
    killed.mkdir()
    RunKnowledge(killed, run_id="killed").persist_now(many())
    code = f"""
import os, signal, sys, pathlib
from pyoxigraph import RdfFormat
from grafico.knowledge import KnowledgeBase, merge
NT, NQ = RdfFormat.N_TRIPLES, RdfFormat.N_QUADS
real = merge._load_in_bulk
def fatal(store, source):
    half = b"".join(source.text.splitlines(keepends=True)[: source.text.count(b"\\n") // 2])
    {KILLS[moment]}
    os.kill(os.getpid(), signal.SIGKILL)
merge._load_in_bulk = fatal
KnowledgeBase(pathlib.Path(sys.argv[1])).load_run(pathlib.Path(sys.argv[2]) / "knowledge.nq")
"""
    done = subprocess.run([sys.executable, "-c", code, str(knowledge.folder), str(killed)], check=False)
    assert done.returncode == -signal.SIGKILL
    # Whatever of it is there, queries see what the graphs hold, once.
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'mine'") == 1
    assert_merged(knowledge)
    knowledge.load_run(killed / "knowledge.nq")
    assert counted(knowledge, f"?x <{NAMESPACE}name> 'many'") == 600
    assert_merged(knowledge)
    before = knowledge.dump()
    knowledge.rebuild()
    assert knowledge.dump() == before


def test_a_store_of_which_nobody_knows_whether_it_is_merged_is_merged_at_the_next_load(tmp_path, knowledge):
    run_named(tmp_path, knowledge, "one").persist_now([Named(name="a")])
    (knowledge.folder / "merged").unlink()
    database = next(knowledge.folder.glob("oxigraph-*"))
    store = pyoxigraph.Store(str(database))
    store.clear_graph(DEFAULT)
    store.add(pyoxigraph.Quad(*[pyoxigraph.NamedNode("urn:x:orphan")] * 3))
    store.flush()
    del store
    run_named(tmp_path, knowledge, "two").persist_now([Named(name="b")])
    assert counted(knowledge, f"?x <{NAMESPACE}name> ?n") == 2
    assert_merged(knowledge)


def test_a_load_that_fails_leaves_the_store_as_it_was(run, knowledge, tmp_path):
    run.persist_now([Named(name="a")])
    before = knowledge.dump()
    torn = tmp_path / "torn" / "knowledge.nq"
    torn.parent.mkdir()
    for number in range(3):
        torn.write_text(
            "".join(f'<urn:x:{i}> <urn:p:p> "{i}" <urn:g:g> .\n' for i in range(4000))
            + ("<urn:x:x> <urn:p:p>", "<urn:x:x> <urn:p:p> <urn:o:o> .\n", "<urn:a b> <urn:p:p> 1 <urn:g:g> .\n")[
                number
            ]
        )
        with pytest.raises(KnowledgeError):
            knowledge.load_run(torn)
    assert knowledge.dump() == before
    assert_merged(knowledge)


def test_quads_with_other_spaces_and_comments_are_loaded_in_bulk_as_well(knowledge, tmp_path):
    file = tmp_path / "other" / "knowledge.nq"
    file.parent.mkdir()
    file.write_text("".join(f'<urn:x:{i}>  <urn:p:p>\t"_:{i}"  <urn:g:g>  .  # {i}\n' for i in range(3000)))
    assert knowledge.load_run(file).added == 3000
    assert counted(knowledge, "?x <urn:p:p> ?o") == 3000
    assert_merged(knowledge)
    assert knowledge.load_run(file).model_dump() == {"added": 0, "removed": 0}


@pytest.mark.parametrize("line", ["_:a <urn:p:p> 'x' <urn:g:g> .", "<urn:s:s> <urn:p:p> _:a <urn:g:g> ."])
def test_blank_nodes_are_refused(line, knowledge, tmp_path):
    file = tmp_path / "knowledge.nq"
    file.write_text(line.replace("'", '"') + "\n")
    with pytest.raises(KnowledgeError, match="blank nodes"):
        knowledge.load_run(file)


GRAPHS = ("urn:g:one", "urn:g:two", "https://w3id.org/grafico/schema/abc")
STATEMENTS = st.sets(st.tuples(*[st.sampled_from("abc")] * 2, st.sampled_from(['"1"', '"x"', "<urn:o:o>"])), max_size=6)


@settings(max_examples=60, deadline=None)
@given(loads=st.lists(st.dictionaries(st.sampled_from(GRAPHS), STATEMENTS, min_size=1), min_size=1, max_size=6))
def test_the_merge_is_the_union_whatever_is_loaded_and_replaced(loads, tmp_path_factory):
    store = pyoxigraph.Store()
    file = tmp_path_factory.mktemp("loads") / "knowledge.nq"
    for graphs in loads:
        lines = [f"<urn:s:{s}> <urn:p:{p}> {o} <{g}> .\n" for g, found in graphs.items() for s, p, o in found]
        file.write_text("".join(lines))
        load(store, read_source(file))
        assert merge_of(store) == union_of(store)
    before = merge_of(store)
    merge_anew(store)
    assert merge_of(store) == before


def test_the_mark_is_gone_only_while_a_load_in_bulk_is_under_way(tmp_path, knowledge, monkeypatch):
    from grafico.knowledge import merge

    run_named(tmp_path, knowledge, "one").persist_now([Named(name="a")])
    mark, seen, real = knowledge.folder / "merged", [], merge._load_in_bulk

    def watched(store, source):
        seen.append(mark.exists())
        real(store, source)

    monkeypatch.setattr(merge, "_load_in_bulk", watched)
    run_named(tmp_path, knowledge, "two").persist_now(many())
    assert seen == [False]
    assert mark.read_text().strip() == next(knowledge.folder.glob("oxigraph-*")).name
    assert isinstance(KnowledgeBase(knowledge.folder).fetch(Named(name="a").iri), Named)


def test_the_schema_of_many_runs_is_listed_at_once(tmp_path, knowledge):
    # With a union made while the query is answered, this took longer than its time-out.
    for number in range(12):
        run_named(tmp_path, knowledge, f"run{number}").persist_now([Named(name=str(number)), Thing(text="t")])
    environment = {**os.environ, "GRAFICO_KB": str(knowledge.folder)}
    command = [sys.executable, "-m", "grafico.cli.main", "kb", "schema", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert f'"{NAMESPACE}Thing"' in done.stdout
