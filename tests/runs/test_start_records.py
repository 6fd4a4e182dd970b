"""What workers say of their starts, and what is done about those that an earlier controller left behind."""

import asyncio
import shutil
import signal
from pathlib import Path

from run_children import child

from grafico.runs import Run, RunPaths, StartLog, end_orphans, orphans, read_starts, start_ids

KEY = "ab" * 32


def test_starts_and_ends_are_kept_by_the_processes_themselves(run: Run) -> None:
    log = StartLog(run.paths)
    started = log.start(KEY, 2, lane="0.0:a", label="tddft · a", gpu="0", slot="1", worker="w1")
    assert orphans(run.paths) == [started]
    log.end(started, "success")
    assert orphans(run.paths) == []
    [found] = read_starts(run.paths)
    assert (found.key, found.attempt, found.lane, found.gpu, found.slot) == (KEY, 2, "0.0:a", "0", "1")
    assert found.status == "success"
    assert found.ended is not None
    assert found.ended >= found.started


def test_the_starts_of_one_attempt_are_found_among_those_of_others(run: Run) -> None:
    log = StartLog(run.paths)
    first, again = log.start(KEY, 1), log.start(KEY, 1)
    log.start(KEY, 2)
    log.start("cd" * 32, 1, label=f"mentions {KEY}")
    log.end(first, "crash")
    assert start_ids(run.paths, KEY, 1) == {first.id, again.id}
    assert start_ids(run.paths, "ef" * 32, 1) == set()
    with next(run.paths.starts.glob("*.jsonl")).open("ab") as file:
        file.write(b'{"start": "torn", "key": "' + KEY.encode())
    assert start_ids(run.paths, KEY, 1) == {s.id for s in read_starts(run.paths) if (s.key, s.attempt) == (KEY, 1)}


def test_a_calculation_that_outlives_its_controller_is_found_and_ended(run: Run) -> None:
    process = child("calculate", run.paths.root, KEY, 60)
    assert process.stdout is not None
    assert process.stdout.readline() == b'"started"\n'
    [orphan] = orphans(run.paths)
    assert orphan.process.pid == process.pid
    ended = asyncio.run(end_orphans(run.paths))
    assert [started.id for started in ended] == [orphan.id]
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert orphans(run.paths) == []


def test_a_copy_of_a_run_folder_leaves_the_calculations_of_the_run_alone(run: Run, tmp_path: Path) -> None:
    process = child("calculate", run.paths.root, KEY, 60)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        copy = RunPaths(shutil.copytree(run.paths.root, tmp_path / "copy"))
        assert asyncio.run(end_orphans(copy)) == []
        assert process.poll() is None
        moved = RunPaths(run.paths.root.rename(tmp_path / "moved"))
        assert [orphan.process.pid for orphan in orphans(moved)] == [process.pid]
    finally:
        process.kill()
        process.communicate()


def test_a_calculation_that_finishes_in_time_is_waited_for(run: Run) -> None:
    process = child("calculate", run.paths.root, KEY, 0.4)
    assert process.stdout is not None
    process.stdout.readline()
    assert asyncio.run(end_orphans(run.paths, patience=20)) == []
    process.communicate(timeout=10)
    assert process.returncode == 0
    assert [started.status for started in read_starts(run.paths)] == ["success"]


def test_a_killed_calculation_is_no_orphan(run: Run) -> None:
    process = child("calculate", run.paths.root, KEY, 60)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    assert orphans(run.paths) == []
    assert [started.ended for started in read_starts(run.paths)] == [None]


def test_a_torn_line_hides_neither_its_neighbours_nor_what_comes_after(run: Run) -> None:
    log = StartLog(run.paths)
    first = log.start(KEY, 1)
    path = run.paths.starts_of(first.process.host, first.process.pid)
    with path.open("ab") as file:
        file.write(b'{"end":"')
    log.end(first, "crash")
    log.start(KEY, 2)
    assert [(started.attempt, started.status) for started in read_starts(run.paths)] == [(1, "crash"), (2, "")]
