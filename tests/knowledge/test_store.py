import asyncio
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyoxigraph
import pytest
from endpoints import BOTH
from knowledge_models import Named, Thing

from grafico.errors import KnowledgeError
from grafico.knowledge import KnowledgeBase, KnowledgeWarning, RunKnowledge, default_folder

SCRIPT = Path(__file__).with_name("knowledge_models.py")
COUNT = "SELECT (COUNT(DISTINCT ?x) AS ?n) WHERE { ?x a <https://example.org/test#Named> }"


def persisting(tmp_path, knowledge, name, first=0, count=12):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "runs" / name), knowledge.place, str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def count(knowledge):
    return knowledge.query(COUNT).values()[0]["n"]


def snapshot(folder):
    return {p.relative_to(folder): (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*.nq")}


def test_what_a_run_persisted_is_asked_for_in_a_later_process(run, knowledge):
    iris = asyncio.run(run.persist([Named(name="water", number=1, parts=[Named(name="oxygen")])]))
    assert iris == [Named(name="water", number=1).iri]
    code = (
        "import sys, pathlib; from grafico.knowledge import KnowledgeBase; "
        "print(KnowledgeBase(pathlib.Path(sys.argv[1])).query("
        "'SELECT ?n { ?w <https://example.org/test#parts> ?p . ?p <https://example.org/test#name> ?n }').values())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(knowledge.folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[{'n': 'oxygen'}]"


@BOTH
def test_persisting_again_writes_nothing(run, knowledge):
    things = [Named(name="a", parts=[Named(name='b\x01\t"é')]), Thing(text="x")]
    run.persist_now(things)
    before, text = snapshot(run.folder), knowledge.dump()
    run.persist_now(things)
    again = RunKnowledge(run.folder, run_id="first", store=knowledge)
    again.persist_now(things)
    assert snapshot(run.folder) == before
    assert knowledge.dump() == text
    assert knowledge.load_run(run.path).model_dump() == {"added": 0, "removed": 0}


@BOTH
def test_a_later_description_replaces_the_earlier_one(run, knowledge, another):
    run.persist_now([Named(name="a", remark="old", parts=[Named(name="b")])])
    run.persist_now([Named(name="a", remark="new")])
    fetched = another().fetch(Named(name="a").iri)
    assert (fetched.remark, fetched.parts) == ("new", [])
    assert "old" not in knowledge.dump()


@BOTH
def test_what_an_invalidated_walk_had_persisted_goes_when_the_run_finishes(run, knowledge):
    run.persist_now([Named(name="stale"), Named(name="kept")])
    resumed = RunKnowledge(run.folder, store=knowledge)
    assert resumed.graph == run.graph
    resumed.persist_now([Named(name="kept")])
    assert count(knowledge) == 2
    asyncio.run(resumed.finish([Named(name="last")]))
    assert [
        r["n"] for r in knowledge.query("SELECT ?n { ?x <https://example.org/test#name> ?n } ORDER BY ?n").values()
    ] == [
        "kept",
        "last",
    ]


def test_a_rebuild_gives_the_same_triples(run, knowledge, tmp_path):
    run.persist_now([Thing(text="x", others=[Thing(text="y")]), Named(name="a", remark="1")])
    run.persist_now([Named(name="a", remark="2")])
    (tmp_path / "runs" / "second").mkdir()
    RunKnowledge(tmp_path / "runs" / "second", store=knowledge).persist_now([Named(name="a", remark="3")])
    before = knowledge.dump()
    assert knowledge.rebuild().problems == ()
    assert knowledge.dump() == before
    other = KnowledgeBase(tmp_path / "elsewhere")
    assert len(other.rebuild([tmp_path / "runs"]).runs) == 2
    assert other.dump() == before
    assert len([p for p in knowledge.folder.iterdir() if p.name.startswith("oxigraph-")]) == 1


@BOTH
def test_an_empty_store_is_filled_from_the_run_folders(knowledge, another, tmp_path):
    elsewhere = KnowledgeBase(tmp_path / "elsewhere")
    for number in range(3):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        persisted = RunKnowledge(tmp_path / "runs" / str(number), run_id=str(number), store=elsewhere)
        persisted.persist_now([Thing(text="x", others=[Thing(text="y")]), Named(name="a", remark=str(number))])
    assert len(knowledge.rebuild([tmp_path / "runs"]).runs) == 3
    assert knowledge.dump() == elsewhere.dump()
    assert another().rebuild([tmp_path / "runs"]).problems == ()
    assert knowledge.dump() == elsewhere.dump()
    (tmp_path / "runs" / "1" / "knowledge.nq").write_text("nonsense")
    done = knowledge.rebuild([tmp_path / "runs"])
    assert (len(done.runs), len(done.problems)) == (2, 1)


def test_a_rebuild_reports_what_it_could_not_load(run, knowledge, tmp_path):
    run.persist_now([Named(name="a")])
    gone = tmp_path / "runs" / "gone"
    gone.mkdir()
    RunKnowledge(gone, store=knowledge).persist_now([Named(name="b")])
    shutil.rmtree(gone)
    torn = tmp_path / "runs" / "torn"
    torn.mkdir()
    (torn / "knowledge.nq").write_text(run.path.read_text()[:-20])
    done = knowledge.rebuild([tmp_path / "runs"])
    assert len(done.problems) == 2
    assert count(knowledge) == 1


@BOTH
def test_four_runs_persist_at_once_while_others_read_and_nothing_is_lost(tmp_path, knowledge, another):
    # Each describes "shared" things that the others describe as well.
    workers = [persisting(tmp_path, knowledge, name) for name in ("one", "two", "three", "four")]
    for worker in workers:
        assert worker.stdout.readline() == "0\n", worker.communicate()[1]
    reader, seen, read = another(), [], 0
    while any(worker.poll() is None for worker in workers):
        seen.append(reader.fetch(Named(name="shared").iri).number)
        read = max(read, count(reader))
        assert read <= 4 * 12 + 3
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    assert set(seen) == {0}
    assert count(knowledge) == 4 * 12 + 3
    before = knowledge.dump()
    knowledge.rebuild([tmp_path / "runs"])
    assert knowledge.dump() == before
    elsewhere = KnowledgeBase(tmp_path / "elsewhere")
    elsewhere.rebuild([tmp_path / "runs"])
    assert elsewhere.dump() == before


def test_a_reader_that_has_begun_is_not_kept_waiting_and_sees_one_state(run, knowledge):
    run.persist_now([Named(name="n", number=number) for number in range(50)])
    with knowledge_open_for_reading(knowledge) as store:
        writer = threading.Thread(target=run.persist_now, args=([Named(name="n", number=50)],))
        writer.start()
        assert len(list(store.quads_for_pattern(None, None, pyoxigraph.Literal("n"), None))) == 100
    writer.join(60)
    assert count(knowledge) == 51


@contextlib.contextmanager
def knowledge_open_for_reading(knowledge):
    inside, outside = queue.Queue(), threading.Event()
    reader = threading.Thread(target=knowledge._reading, args=(lambda s: (inside.put(s), outside.wait(60)),))
    reader.start()
    try:
        yield inside.get(timeout=60)
    finally:
        outside.set()
        reader.join(60)


@BOTH
def test_a_kill_in_the_middle_leaves_the_store_readable_and_a_resume_completes_it(tmp_path, knowledge):
    for attempt in range(3):
        worker = persisting(tmp_path, knowledge, "killed", count=200)
        for _ in range(4 + 3 * attempt):
            worker.stdout.readline()
        time.sleep(0.004 * attempt)
        os.kill(worker.pid, signal.SIGKILL)
        worker.communicate()
        assert knowledge.query("ASK { ?x a <https://example.org/test#Named> }").boolean
        # Every line that was printed had been persisted.
        assert count(knowledge) >= 3 + 4 + 3 * attempt
    worker = persisting(tmp_path, knowledge, "killed", count=20)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 0, errors
    before = knowledge.dump()
    knowledge.rebuild([tmp_path / "runs"])
    assert knowledge.dump() == before


def test_a_damaged_store_says_how_to_rebuild_and_rebuilds(run, knowledge):
    run.persist_now([Named(name="a")])
    before = knowledge.dump()
    for path in knowledge.folder.glob("oxigraph-*/*"):
        if path.name.startswith(("CURRENT", "MANIFEST")):
            path.write_bytes(b"\x00garbage")
    for use in (lambda: count(knowledge), knowledge.dump, lambda: knowledge.load_run(run.path)):
        with pytest.raises(KnowledgeError) as caught:
            use()
        assert "kb rebuild" in caught.value.hint
    knowledge.rebuild()
    assert knowledge.dump() == before


def test_a_rebuild_that_finds_no_room_leaves_all_as_it_was(run, knowledge):
    run.persist_now([Named(name="a")])
    before, files = knowledge.dump(), sorted(knowledge.folder.iterdir())
    code = (
        "import pathlib, resource, sys\n"
        "from grafico.errors import KnowledgeError\n"
        "from grafico.knowledge import KnowledgeBase\n"
        "knowledge = KnowledgeBase(pathlib.Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "try:\n    knowledge.rebuild()\nexcept KnowledgeError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, knowledge.folder], capture_output=True, text=True, check=False, timeout=120
    )
    assert "knowledge base" in done.stdout, done.stderr
    assert sorted(knowledge.folder.iterdir()) == files
    assert knowledge.dump() == before


def test_a_missing_database_says_how_to_rebuild(run, knowledge):
    run.persist_now([Named(name="a")])
    shutil.rmtree(next(knowledge.folder.glob("oxigraph-*")))
    with pytest.raises(KnowledgeError) as caught:
        count(knowledge)
    assert "kb rebuild" in caught.value.hint
    knowledge.rebuild()
    assert count(knowledge) == 1


def test_the_run_goes_on_when_the_store_cannot_be_reached(tmp_path):
    (tmp_path / "kb").write_text("a file where the folder should be")
    (tmp_path / "run").mkdir()
    run = RunKnowledge(tmp_path / "run", store=KnowledgeBase(tmp_path / "kb"))
    run.persist_now([Named(name="a")])
    assert "safe" in run.problems[0]
    (tmp_path / "kb").unlink()
    again = KnowledgeBase(tmp_path / "kb")
    again.rebuild([tmp_path / "run"])
    assert count(again) == 1


def test_the_wait_for_the_lock_is_bounded_and_names_the_holder(run, knowledge):
    run.persist_now([Named(name="a")])
    code = (
        "import sys, pathlib; from grafico.knowledge.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1]), write=True):\n    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(knowledge.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        impatient = KnowledgeBase(knowledge.folder, wait_s=0.2)
        for use in (lambda: count(impatient), impatient.dump, lambda: impatient.load_run(run.path)):
            with pytest.raises(KnowledgeError, match=f"in use.*process {holder.pid}"):
                use()
    finally:
        holder.communicate("")
    assert count(knowledge) == 1


def test_a_reader_that_fails_does_not_keep_the_database_open(run, knowledge):
    run.persist_now([Named(name="a")])
    errors = []
    for _ in range(3):
        try:
            knowledge._writing(lambda store: [store, 1 / 0])
        except ZeroDivisionError as error:
            errors.append(error)
        assert knowledge.load_run(run.path).added == 0
    assert len(errors) == 3


def test_the_store_is_in_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAFICO_KB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "grafico" / "kb"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == Path.home() / ".local" / "share" / "grafico" / "kb"
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "mine"))
    assert KnowledgeBase().folder == tmp_path / "mine"


def test_the_folder_belongs_to_its_owner_alone(run, knowledge):
    run.persist_now([Named(name="a")])
    assert knowledge.folder.stat().st_mode & 0o777 == 0o700
    assert run.path.stat().st_mode & 0o777 == 0o600


def test_a_network_file_system_warns(monkeypatch, tmp_path):
    from grafico.knowledge import location

    monkeypatch.setattr(location, "_NETWORK", location._NETWORK | {_kind_of(tmp_path)})
    with pytest.warns(KnowledgeWarning, match="network file system"):
        location.prepare(tmp_path / "kb")


def _kind_of(path):
    done = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, check=True)
    names = {"ext2/ext3": "ext4", "tmpfs": "tmpfs", "overlayfs": "overlay", "xfs": "xfs", "btrfs": "btrfs"}
    return names[done.stdout.strip()]


@BOTH
def test_an_empty_knowledge_base_answers(knowledge):
    assert count(knowledge) == 0
    assert knowledge.dump() == ""
    assert knowledge.rebuild().runs == ()
