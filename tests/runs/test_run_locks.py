"""The courtesy lock: who is refused, who may take over, and what they are told."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run_children import Note

from grafico.errors import RunLocked
from grafico.runs import Run, RunRecorder, read_holder
from grafico.runs.lock import RunLock
from grafico.runs.paths import RunPaths
from grafico.runs.processes import this_process


def held_by(run: Run, **changes: object) -> None:
    """Let somebody hold the run."""
    lock = RunLock(run.paths, environ={})
    holder = replace(lock.holder, **changes)  # type: ignore[arg-type]
    run.paths.controller.write_text(json.dumps(holder.__dict__))


def ended_process() -> tuple[int, str]:
    """Return number and start of a process that has ended."""
    script = "from grafico.runs.processes import this_process as t; print(t().pid, t().start)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    pid, start = out.split()
    return int(pid), start


def test_a_second_controller_is_refused_and_told_by_whom(run: Run) -> None:
    held_by(run, host="elsewhere", pid=4711, slurm_job="99")
    with pytest.raises(RunLocked, match="process 4711 on elsewhere, Slurm job 99") as caught:
        RunLock(run.paths, environ={}).acquire()
    assert "--take-over" in str(caught.value.hint)


def test_the_same_process_does_not_run_a_run_twice(run: Run) -> None:
    first = RunLock(run.paths, environ={})
    assert first.acquire() is None
    with pytest.raises(RunLocked):
        RunLock(run.paths, environ={}).acquire()
    first.release()
    assert read_holder(run.paths) is None
    RunLock(run.paths, environ={}).acquire()


def test_a_holder_that_has_provably_ended_is_passed_over(run: Run) -> None:
    pid, start = ended_process()
    held_by(run, pid=pid, start=start)
    assert "has ended" in str(RunLock(run.paths, environ={}).acquire())


def test_a_number_that_was_given_out_again_is_not_taken_for_the_holder(run: Run) -> None:
    boot, namespace, _ = this_process().start.split(".")
    held_by(run, start=f"{boot}.{namespace}.1")
    assert "has ended" in str(RunLock(run.paths, environ={}).acquire())


def test_a_holder_from_before_the_host_was_started_again_is_passed_over(run: Run) -> None:
    held_by(run, start="0123456789ab.1.1")
    assert "has ended" in str(RunLock(run.paths, environ={}).acquire())


def test_a_holder_in_another_container_may_be_alive(run: Run) -> None:
    boot, _, ticks = this_process().start.split(".")
    held_by(run, start=f"{boot}.1.{ticks}")
    with pytest.raises(RunLocked):
        RunLock(run.paths, environ={}).acquire()


@pytest.mark.parametrize(
    ("job", "restart", "passes"), [("99", "1", True), ("99", "0", False), ("98", "1", False), ("", "", False)]
)
def test_a_requeued_slurm_job_takes_over_from_itself(run: Run, job: str, restart: str, passes: bool) -> None:
    held_by(run, host="node07", slurm_job="99", slurm_restart=0)
    lock = RunLock(run.paths, environ={"SLURM_JOB_ID": job, "SLURM_RESTART_COUNT": restart})
    if passes:
        assert "requeued (restart 1)" in str(lock.acquire())
    else:
        with pytest.raises(RunLocked):
            lock.acquire()


def test_taking_over_is_possible_when_told_to(run: Run) -> None:
    held_by(run, host="elsewhere")
    lock = RunLock(run.paths, environ={})
    assert "told to take over" in str(lock.acquire(take_over=True))
    assert read_holder(run.paths) == lock.holder


def test_a_lock_that_was_taken_over_is_not_given_back_by_the_first(run: Run) -> None:
    first = RunLock(run.paths, environ={})
    first.acquire()
    held_by(run, host="elsewhere")
    first.release()
    assert read_holder(run.paths) is not None


def test_a_lock_file_that_cannot_be_read_does_not_hold_the_run(run: Run) -> None:
    run.paths.controller.write_bytes(b'{"host": "a"')
    assert "could not be read" in str(RunLock(run.paths, environ={}).acquire())


def test_a_refused_recorder_opens_no_segment(run: Run, tmp_path: Path) -> None:
    import asyncio

    held_by(run, host="elsewhere")

    async def scene() -> None:
        async with RunRecorder(run, make_record=Note):
            pass

    with pytest.raises(RunLocked):
        asyncio.run(scene())
    assert run.paths.segments() == []
    assert read_holder(run.paths) is not None


def test_who_holds_a_run_holds_no_copy_of_its_folder(run: Run, tmp_path: Path) -> None:
    lock = RunLock(run.paths, environ={})
    lock.acquire()
    copy = RunPaths(shutil.copytree(run.paths.root, tmp_path / "copy"))
    assert read_holder(copy) is None
    assert read_holder(run.paths) == lock.holder
    assert "its lock was copied from" in str(RunLock(copy, environ={}).acquire())
    moved = RunPaths(run.paths.root.rename(tmp_path / "moved"))
    assert read_holder(moved) == lock.holder
