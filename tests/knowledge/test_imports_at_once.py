"""What is imported is checked and loaded in one step, its files are found again, and a rebuild prefers the run itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from endpoints import BOTH
from knowledge_models import Named, Thing

from grafico.errors import Conflict, KnowledgeError, QueryError
from grafico.knowledge import KnowledgeBase, RunKnowledge, importing
from grafico.knowledge.crate import METADATA
from grafico.knowledge.importing import import_file

GRAPH = "https://example.org/graph"


@pytest.fixture(autouse=True)
def _data(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("GRAFICO_KB", raising=False)


def quads(path, *values, graph=GRAPH):
    path.write_text("".join(f'<urn:a:b> <urn:b:c> "{value}" <{graph}> .\n' for value in values))
    return path


@BOTH
def test_of_two_imports_at_once_that_differ_one_is_refused(knowledge, another, tmp_path, monkeypatch):
    first, second = quads(tmp_path / "1.nq", "one"), quads(tmp_path / "2.nq", "two")
    settled = importing._settled
    came = []

    def meanwhile(draft, folder, text):
        # The embedded store is locked by now; a server is not, so there somebody may come in between.
        if not came and not isinstance(knowledge, KnowledgeBase):
            came.append(second)
            import_file(another(), second)
        return settled(draft, folder, text)

    monkeypatch.setattr(importing, "_settled", meanwhile)
    if isinstance(knowledge, KnowledgeBase):
        import_file(another(), second)
    with pytest.raises(Conflict):
        import_file(knowledge, first)
    assert '"two"' in knowledge.dump()
    assert '"one"' not in knowledge.dump()
    assert len(list((Path(knowledge.folder) / "imports").iterdir())) == 1


@BOTH
def test_many_processes_that_import_the_same_and_other_things_lose_nothing(knowledge, tmp_path):
    shared = quads(tmp_path / "shared.nq", *range(300), graph=f"{GRAPH}/shared")
    commands = []
    for number in range(4):
        own = quads(tmp_path / f"own{number}.nq", number, graph=f"{GRAPH}/{number}")
        either = quads(tmp_path / f"either{number}.nq", number, graph=f"{GRAPH}/either")
        code = (
            "import sys; from pathlib import Path; from grafico.errors import Conflict\n"
            "from grafico.knowledge import open_store; from grafico.knowledge.importing import import_file\n"
            "for name in sys.argv[2:]:\n"
            "    try: import_file(open_store(sys.argv[1]), Path(name))\n"
            "    except Conflict: print('refused')\n"
        )
        commands.append([sys.executable, "-c", code, knowledge.place, str(shared), str(own), str(either)])
    running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    ended = [process.communicate(timeout=240) for process in running]
    assert [error for _, error in ended if "Traceback" in error] == []
    assert sum("refused" in said for said, _ in ended) == 3
    lines = knowledge.dump().splitlines()
    assert sum(f"<{GRAPH}/shared>" in line for line in lines) == 300
    assert sum(f"<{GRAPH}/either>" in line for line in lines) == 1
    assert all(any(f"<{GRAPH}/{number}>" in line for line in lines) for number in range(4))
    counted = knowledge.query("SELECT (COUNT(*) AS ?n) { <urn:a:b> ?p ?o }").values()
    assert counted == [{"n": 300}]


@BOTH
def test_files_of_a_crate_are_found_after_it_was_imported(knowledge, another, tmp_path):
    import json

    import numpy

    from grafico.knowledge.crate import import_crate

    folder = tmp_path / "run"
    folder.mkdir()
    run = RunKnowledge(folder, run_id="far", store=KnowledgeBase(tmp_path / "far"))
    thing = Thing(text="large", spectrum=numpy.arange(50_000.0))
    run.persist_now([thing])
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    parts = [{"@id": name, "@type": "File"} for name in names if name.startswith(("artifacts/", "knowledge.nq"))]
    said = {"@id": METADATA, "@type": "CreativeWork", "conformsTo": "https://w3id.org/ro/crate/1.1"}
    (folder / METADATA).write_text(json.dumps({"@context": "x", "@graph": [said, *parts]}))
    assert import_crate(knowledge, folder).artifacts == 1
    shutil.rmtree(folder)
    found = another().fetch(thing.iri)
    assert found.spectrum.tobytes() == thing.spectrum.tobytes()
    before = knowledge.dump()
    assert knowledge.rebuild().problems == ()
    assert knowledge.dump() == before
    assert another().fetch(thing.iri).spectrum.shape == (50_000,)


def test_a_rebuild_prefers_the_run_to_an_older_copy_of_it(tmp_path):
    knowledge = KnowledgeBase(tmp_path / "kb")
    folder = tmp_path / "run"
    folder.mkdir()
    run = RunKnowledge(folder, run_id="first", store=knowledge)
    run.persist_now([Named(name="early")])
    shutil.copy(folder / "knowledge.nq", tmp_path / "copy.nq")
    other = KnowledgeBase(tmp_path / "other")
    import_file(other, tmp_path / "copy.nq")
    other.load_run(folder / "knowledge.nq")
    run.persist_now([Named(name="late")])
    other.load_run(folder / "knowledge.nq")
    # As if the run had been known before the copy was imported.
    list_ = other.folder / "runs.jsonl"
    list_.write_text("".join(reversed(list_.read_text().splitlines(keepends=True))))
    other.rebuild()
    assert other.query("ASK { ?x ?p 'late' }").boolean


@BOTH
def test_notes_of_a_server_for_itself_are_not_imported(knowledge, tmp_path):
    core = "https://w3id.org/grafico/core#"
    file = tmp_path / "raw.nq"
    file.write_text(
        f'<{GRAPH}> <{core}revision> "3 abc" <{GRAPH}> .\n<urn:a:b> <urn:b:c> "x" <{GRAPH}> .\n'
        f"<https://w3id.org/grafico/store> <urn:b:c> <urn:c:d> <https://w3id.org/grafico/store> .\n"
    )
    assert import_file(knowledge, file).triples == 1
    assert import_file(knowledge, file).added == 0


def test_what_could_not_be_imported_is_forgotten(tmp_path, monkeypatch):
    knowledge = KnowledgeBase(tmp_path / "kb")
    from grafico.knowledge import store

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "load", full)
        with pytest.raises(KnowledgeError, match="no room left"):
            import_file(knowledge, quads(tmp_path / "1.nq", "one"))
    assert list((knowledge.folder / "imports").iterdir()) == []
    assert knowledge.rebuild().problems == ()
    assert knowledge.runs() == ()


def test_a_rebuild_without_room_leaves_the_store_as_it_was(tmp_path, monkeypatch):
    from grafico.knowledge import store

    knowledge = KnowledgeBase(tmp_path / "kb")
    import_file(knowledge, quads(tmp_path / "1.nq", "one"))
    before = sorted(path.name for path in knowledge.folder.iterdir())

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "load", full)
        with pytest.raises(KnowledgeError, match="no room left"):
            knowledge.rebuild()
    assert sorted(path.name for path in knowledge.folder.iterdir()) == before
    assert '"one"' in knowledge.dump()


def test_databases_that_killed_processes_left_behind_are_removed(tmp_path):
    knowledge = KnowledgeBase(tmp_path / "kb")
    (knowledge.folder / "oxigraph-000000000000").mkdir(parents=True)
    import_file(knowledge, quads(tmp_path / "1.nq", "one"))
    assert len(list(knowledge.folder.glob("oxigraph-*"))) == 1
    (knowledge.folder / "oxigraph-000000000000").mkdir()
    knowledge.rebuild()
    assert len(list(knowledge.folder.glob("oxigraph-*"))) == 1


def test_a_store_without_a_name_is_none():
    from grafico.knowledge import open_store

    with pytest.raises(Exception, match="its name is empty") as caught:
        open_store(" ")
    assert not isinstance(caught.value, QueryError)


def test_a_store_that_may_only_be_read_is_read(tmp_path, monkeypatch):
    from grafico.knowledge import lock

    knowledge = KnowledgeBase(tmp_path / "kb")
    import_file(knowledge, quads(tmp_path / "1.nq", "one"))
    opened = lock.os.open

    def read_only(path, flags, *more):
        # A file system that is mounted read-only refuses the superuser as well.
        if flags & (lock.os.O_RDWR | lock.os.O_CREAT):
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *more)

    with monkeypatch.context() as patch:
        patch.setattr(lock.os, "open", read_only)
        assert '"one"' in knowledge.dump()
        with pytest.raises(KnowledgeError, match="Read-only file system"):
            import_file(knowledge, quads(tmp_path / "2.nq", "two", graph=f"{GRAPH}/2"))
