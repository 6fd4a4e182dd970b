"""The journal: what is torn is tolerated, what is damaged is reported, what is acknowledged is there."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_children import Note, child, said

from grafico.errors import JournalDamaged, RunBroken, RunError, StaleController
from grafico.runs import Run, RunRecorder, read_run
from grafico.runs.journal import Journal
from grafico.runs.paths import RunPaths
from grafico.runs.segments import JournalRead, encode, frame, read_journal

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.text(max_size=8).filter(lambda key: key != "segment")  # which is what headers are told by
bodies = st.lists(st.dictionaries(keys, json_values, max_size=3), min_size=1, max_size=6)
quick = settings(max_examples=100, deadline=None)


def make_run(folder: str) -> Run:
    return Run.create(folder, "j", job_source=b"", job={}, graph="g", graph_version="1")


def lay(folder: str, segments: list[list[dict[str, object]]], torn: bytes = b"") -> RunPaths:
    """Write a journal as ``Journal`` does, but with a header that is always the same, and without waiting for a disk."""
    paths = RunPaths(folder)
    paths.journal.mkdir()
    size = 0
    for epoch, records in enumerate(segments, start=1):
        header = {"segment": {"epoch": epoch, "previous": epoch - 1, "continues": size, "host": "h", "pid": 7}}
        data = b"".join(frame(number, encode(body)) for number, body in enumerate([header, *records]))
        paths.segment(epoch).write_bytes(data + torn)
        size = len(data)
    return paths


def write(run: Run, records: list[dict[str, object]]) -> Path:
    journal = Journal(run.paths, {"host": "h", "pid": 1})
    journal.open()
    for record in records:
        journal.append(record)
    journal.close()
    return run.paths.segment(journal.epoch)


def read(run: Run | RunPaths) -> list[object]:
    """Return the records that count, without the headers."""
    paths = run.paths if isinstance(run, Run) else run
    return [entry.body for entry in read_journal(paths).entries if "segment" not in entry.body]


@quick
@given(st.lists(bodies, min_size=1, max_size=4), st.integers(0, 40))
def test_what_is_written_is_read_back_over_segments_and_past_torn_lines(
    parts: list[list[dict[str, object]]], torn: int
) -> None:
    with TemporaryDirectory() as folder:
        paths = lay(folder, parts, torn=b'{"n":99,"crc":"00000000","is":{"torn'[:torn])
        assert read(paths) == [record for records in parts for record in records]
        assert len(read_journal(paths).problems) == (len(parts) if torn else 0)


@quick
@given(bodies, st.data())
def test_any_truncation_of_the_last_line_is_tolerated(records: list[dict[str, object]], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        paths = lay(folder, [records])
        path = paths.segment(1)
        whole = path.read_bytes()
        start = whole[:-1].rfind(b"\n") + 1
        cut = data.draw(st.integers(start, len(whole) - 1))
        path.write_bytes(whole[:cut])
        found = read_journal(paths)
        assert read(paths) == records[:-1]
        assert found.tail.size == start
        assert ("torn last line" in "".join(found.problems)) == (cut > start)


@quick
@given(bodies, st.data())
def test_any_flipped_byte_elsewhere_is_reported_with_its_line(
    records: list[dict[str, object]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        paths = lay(folder, [records])
        path = paths.segment(1)
        whole = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(whole) - 2))
        line = whole[:place].count(b"\n") + 1
        whole[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
        with pytest.raises(JournalDamaged, match=rf"{path.name}, line {line}:"):
            read_journal(paths)


def test_a_journal_goes_on_behind_a_torn_line_and_overwrites_nothing(run: Run) -> None:
    path = write(run, [{"a": 1}, {"b": 2}])
    torn = path.read_bytes()[:-4]
    path.write_bytes(torn)
    write(run, [{"after": 1}])
    assert read(run) == [{"a": 1}, {"after": 1}]
    assert path.read_bytes() == torn


def test_a_damaged_journal_is_left_alone_and_its_run_can_still_be_looked_at(run: Run) -> None:
    path = write(run, [{"a": 1}, {"b": 2}])
    damaged = path.read_bytes().replace(b'"a":1', b'"a":2')
    path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="line 2: its checksum does not match"):
            Journal(run.paths, {}).open()
    assert path.read_bytes() == damaged
    assert any("line 2" in problem for problem in read_run(run.paths.root).problems)


def test_a_line_that_went_missing_is_damage(run: Run) -> None:
    path = write(run, [{"a": 1}, {"b": 2}, {"c": 3}])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(JournalDamaged, match="line 3: it has the number 3, expected 2"):
        read_journal(run.paths)


def test_a_segment_that_was_cut_off_or_lost_later_is_damage(run: Run) -> None:
    first = write(run, [{"a": 1}, {"b": 2}])
    write(run, [{"c": 3}])
    whole = first.read_bytes()
    first.write_bytes(whole[:-5])
    with pytest.raises(JournalDamaged, match="cut off"):
        read_journal(run.paths)
    first.unlink()
    with pytest.raises(JournalDamaged, match="is missing"):
        read_journal(run.paths)


def test_a_segment_whose_controller_died_at_once_is_passed_over(run: Run) -> None:
    write(run, [{"a": 1}])
    run.paths.segment(2).touch()
    write(run, [{"b": 2}])
    found = read_journal(run.paths)
    assert read(run) == [{"a": 1}, {"b": 2}]
    assert any("segment 2" in problem for problem in found.problems)
    assert [segment.epoch for segment in found.segments] == [1, 3]


def test_a_stale_controller_is_stopped_and_what_it_wrote_is_ignored_and_reported(run: Run) -> None:
    async def scene() -> None:
        old, new = Journal(run.paths, {}), Journal(run.paths, {})
        old.open()
        await old.commit({"who": "old"})
        new.open()
        with pytest.raises(StaleController, match="taken over"):
            await old.commit({"who": "too late"})
        with pytest.raises(StaleController):
            old.append({"who": "still too late"})
        await new.commit({"who": "new"})
        with pytest.raises(StaleController):
            old.close()
        new.close()

    asyncio.run(scene())
    assert read(run) == [{"who": "old"}, {"who": "new"}]
    assert any("segment 1: 1 line that a stale controller wrote" in p for p in read_journal(run.paths).problems)


def test_of_two_controllers_that_open_at_once_the_later_one_has_the_run_whoever_writes_first(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(run, [{"who": "before"}])
    slow, fast = Journal(run.paths, {}), Journal(run.paths, {})

    def overtaken(paths: RunPaths, *, below: int) -> JournalRead:
        found = read_journal(paths, below=below)
        if below == 2:  # the slow one has created its segment, and has no header in it yet
            fast.open()
        return found

    async def scene() -> None:
        monkeypatch.setattr("grafico.runs.journal.read_journal", overtaken)
        with pytest.raises(StaleController, match="taken over"):
            slow.open()
        await fast.commit({"who": "fast"})
        fast.close()

    asyncio.run(scene())
    monkeypatch.undo()
    assert read(run) == [{"who": "before"}, {"who": "fast"}]
    found = read_journal(run.paths)
    assert [segment.epoch for segment in found.segments] == [1, 3]
    assert any("segment 2" in problem and "ignored" in problem for problem in found.problems)
    write(run, [{"who": "after"}])
    assert read(run)[-1] == {"who": "after"}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_kill_while_the_header_is_written_costs_nothing(run: Run, share: float) -> None:
    write(run, [{"a": 1}])
    write(run, [{"never": "written"}])
    path = run.paths.segment(2)
    header = path.read_bytes().split(b"\n")[0] + b"\n"
    path.write_bytes(header[: int(len(header) * share)])
    write(run, [{"b": 2}])
    assert read(run) == [{"a": 1}, {"b": 2}]
    assert [segment.epoch for segment in read_journal(run.paths).segments] == [1, 3]


def test_a_record_that_is_no_json_is_refused_and_leaves_no_trace(run: Run) -> None:
    async def scene() -> None:
        journal = Journal(run.paths, {})
        journal.open()
        for value in (float("nan"), {1, 2}, object()):
            with pytest.raises(RunError, match="cannot be written to the journal"):
                journal.append({"value": value})
        await journal.commit({"fine": "\ud800 and ω"})
        journal.close()

    asyncio.run(scene())
    assert read(run) == [{"fine": "\ud800 and ω"}]


def test_everything_acknowledged_before_a_kill_is_there(new_run: Callable[[], Run]) -> None:
    for wait in (0.05, 0.2, 0.35):
        run = new_run()
        process = child("journal", run.paths.root, 8)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        acknowledged = {f"{name}@{number}.0" for name, number in said(output)}
        kept = {body["at"] for body in read(run) if "record" in body}  # type: ignore[index, operator]
        assert acknowledged
        assert acknowledged <= kept


def test_a_controller_in_another_process_is_fenced_off(run: Run) -> None:
    process = child("obedient", run.paths.root, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    for number in range(2):
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"%d\n" % number

    async def take_over() -> list[str]:
        async with RunRecorder(run, make_record=Note, take_over=True) as recorder:
            assert recorder.recall("old@1.0", "value") is not None
            output, _ = await asyncio.to_thread(process.communicate, b"\n", timeout=30)
            assert said(output)[-1]["error"] == "StaleController"
            await recorder.record(Note("value", "new@0.0"))
            return recorder.problems

    assert any("told to take over from process" in problem for problem in asyncio.run(take_over()))
    assert process.returncode == 0
    assert [body["at"] for body in read(run) if "record" in body] == ["old@0.0", "old@1.0", "new@0.0"]  # type: ignore[index, operator]
    problem = (
        "segment 1: 1 line that a stale controller wrote after the controller of segment 2 had taken over: ignored"
    )
    assert problem in read_journal(run.paths).problems
    assert problem in read_run(run.paths.root).problems


def test_a_busy_controller_that_is_taken_over_acknowledges_nothing_that_is_lost(run: Run) -> None:
    process = child("journal", run.paths.root, 4)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)

    async def take_over() -> None:
        async with RunRecorder(run, make_record=Note, take_over=True) as recorder:
            output, _ = await asyncio.to_thread(process.communicate, timeout=30)
            *acknowledged, last = said(output)
            assert last["error"] == "StaleController"
            assert acknowledged
            for name, number in acknowledged:
                assert recorder.recall(f"{name}@{number}.0", "value") is not None

    asyncio.run(take_over())
    assert read_run(run.paths.root).status == "interrupted"


@pytest.mark.parametrize("moved", [True, False])
def test_a_controller_whose_run_folder_is_taken_from_under_it_stops(run: Run, tmp_path: Path, moved: bool) -> None:
    elsewhere = tmp_path / "elsewhere"

    async def scene() -> None:
        async with RunRecorder(run, make_record=Note) as recorder:
            await recorder.record(Note("value", "kept@0.0"))
            run.paths.root.rename(elsewhere)
            if not moved:
                shutil.rmtree(elsewhere)
            with pytest.raises(RunBroken):
                recorder.check_fence()
            await recorder.record(Note("value", "lost@0.0"))

    with pytest.raises(RunBroken, match="the run's folder was deleted or moved while it was carried out") as stop:
        asyncio.run(scene())
    assert "grafico resume NEW_PATH" in (stop.value.hint or "")
    assert not run.paths.root.exists()

    async def again() -> None:
        async with RunRecorder(Run.open(elsewhere), make_record=Note, take_over=True) as recorder:
            assert recorder.recall("kept@0.0", "value") is not None

    if moved:
        asyncio.run(again())


def test_a_full_disk_is_a_clear_error_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(small)], capture_output=True, check=False
        ).returncode
        == 0
    )
    try:
        run = make_run(str(small))
        process = child("journal", run.paths.root) if mounted else child("cramped", run.paths.root, 100_000)
        output, errors = process.communicate(timeout=60)
        _, *acknowledged, last = said(output)
        assert last["error"] == "RunBroken", errors.decode()
        assert "the journal could not be written: the disk or the quota is full" in last["message"]
        assert "grafico resume" in last["hint"]
        kept = {body["at"] for body in read(run)}  # type: ignore[index, call-overload]
        assert {f"{name}@{number}.0" for name, number in acknowledged} <= kept
        assert len(acknowledged) > 50
    finally:
        if mounted:
            subprocess.run(["umount", str(small)], check=True)


def test_a_file_size_limit_is_reported_like_a_full_disk(run: Run) -> None:
    process = child("cramped", run.paths.root, 60_000)
    output, errors = process.communicate(timeout=60)
    last = said(output)[-1]
    assert last["error"] == "RunBroken", errors.decode()
    assert "full" in last["message"]
