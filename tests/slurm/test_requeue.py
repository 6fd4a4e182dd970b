"""The end of a controller's allocation: it stops in time, goes back into the queue, and goes on with the same run."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.evidence import attempts_lost, committed, faults, manifest, result, starts

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "slurm" / "run.sbatch"
SMALL = ("--nodes=1", "--cpus-per-task=2", "--mem=1500", "--time=00:20:00")
ALLOCATION = ("job.yaml", "--cluster", "allocation.yaml")
NUMBERS, TOTAL = (1, 2, 3, 4), 30
BEGUN = 3
"""Of them, what two processors have begun once the first is done."""

SLOW_S = 2.5
"""What takes less than two seconds is sent to workers ahead of its time."""


def console(slurm: Any, number: str) -> str:
    return (slurm.files / f"grafico-{number}.out").read_text()  # type: ignore[no-any-return]


def restarted(slurm: Any, number: str, within: float = 120) -> None:
    """Wait until a job is back in the queue, or has begun again."""
    slurm.until(lambda: slurm.facts(number)["Restarts"] == "1", within)


def begun(slurm: Any) -> Path:
    """Wait until one calculation of a run is done and two more have begun; return its folder."""
    folder = slurm.run_folder()
    slurm.begun(folder, 2)
    time.sleep(SLOW_S)
    slurm.open(1)
    slurm.begun(folder, BEGUN)
    slurm.until(lambda: committed(folder))
    return folder  # type: ignore[no-any-return]


def gone_on_with(slurm: Any, number: str, folder: Path, before: int, done: dict[str, str]) -> None:
    """The job ends well, the result is there, and nothing was computed again that had been committed before."""
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    assert result(folder)["total"] == TOTAL
    assert not faults(folder)
    again = {started.key for started in starts(folder)[before:]}
    assert not again & set(done), "what was committed was computed again"
    assert {key: committed(folder)[key] for key in done} == done
    assert not attempts_lost(folder)
    assert manifest(folder)["resumed"] == 1
    assert not slurm.queue()


@pytest.mark.slow
def test_before_its_time_is_over_a_job_is_warned_requeues_itself_and_goes_on(slurm: Any) -> None:
    slurm.job(NUMBERS)
    number = slurm.sbatch(*SMALL, "--signal=B:USR1@20", SCRIPT, *ALLOCATION)
    folder = begun(slurm)
    # Slurm looks at the time twice a minute, and warns up to a minute early: the first look may be the one.
    *hours, minutes, _ = (int(part) for part in slurm.facts(number)["RunTime"].replace("-", ":").split(":"))
    assert not any(hours)
    slurm.call("scontrol", "update", f"JobId={number}", f"TimeLimit={minutes + 2}")
    slurm.until(lambda: "SIGUSR1" in console(slurm, number), 240)
    # For the job that goes on, which keeps the limit.
    slurm.call("scontrol", "update", f"JobId={number}", "TimeLimit=20")
    slurm.open(2)
    slurm.open(3)
    restarted(slurm, number)
    done = committed(folder)
    slurm.open()
    gone_on_with(slurm, number, folder, BEGUN, done)
    assert "SIGUSR1: the time of this Slurm job is nearly over" in console(slurm, number)
    assert "back into the queue" in console(slurm, number)


def test_what_can_end_in_time_ends_and_the_rest_is_done_after_the_requeue(slurm: Any) -> None:
    slurm.job(NUMBERS)
    number = slurm.sbatch(*SMALL, SCRIPT, *ALLOCATION)
    folder = begun(slurm)
    slurm.warn(number)
    slurm.until(lambda: "s are left for what runs" in console(slurm, number))
    # Not the fourth, which may have begun by the time that somebody looks again here.
    slurm.open(2)
    slurm.open(3)
    restarted(slurm, number)
    done = committed(folder)
    assert len(done) == BEGUN, "no fourth was begun, and those that ran ended"
    slurm.open()
    gone_on_with(slurm, number, folder, BEGUN, done)
    assert len(starts(folder)) == len(NUMBERS)


def test_calculations_that_the_end_cuts_off_begin_again_as_if_for_the_first_time(slurm: Any) -> None:
    slurm.job(NUMBERS)
    number = slurm.sbatch(*SMALL, SCRIPT, *ALLOCATION)
    folder = begun(slurm)
    slurm.warn(number)
    slurm.until(lambda: "may finish" in console(slurm, number))
    slurm.call("scancel", "--batch", "--signal=TERM", number)  # there is no more time
    restarted(slurm, number)
    done = committed(folder)
    assert len(done) == 1
    slurm.open()
    gone_on_with(slurm, number, folder, BEGUN, done)
    assert {started.attempt for started in starts(folder)} == {1}
    assert len(starts(folder)) == BEGUN + 3


def test_a_job_that_may_not_be_requeued_says_so_and_its_run_can_be_resumed(slurm: Any) -> None:
    slurm.job(NUMBERS)
    number = slurm.sbatch(*SMALL, "--no-requeue", SCRIPT, *ALLOCATION)
    folder = slurm.run_folder()
    slurm.begun(folder, 2)
    slurm.warn(number)
    slurm.until(lambda: "may finish" in console(slurm, number))
    slurm.open()
    assert slurm.ended(number)["ExitCode"] == "130:0", slurm.witness()
    assert "could not be put back into the queue" in console(slurm, number)
    said = slurm.grafico("resume", folder, "--cluster", "laptop", "--quiet", "--json")
    assert said.json["result"]["total"] == TOTAL
    assert not faults(folder)
