"""The end of a controller's allocation: it stops in time, goes back into the queue, and goes on with the same run."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.evidence import committed, failures, faults, manifest, result, starts

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "slurm" / "run.sbatch"
SMALL = ("--nodes=1", "--cpus-per-task=2", "--mem=1500")
ALLOCATION = ("job.yaml", "--cluster", "allocation.yaml")
NUMBERS = [1, 2, 3, 4, 5, 6]
TOTAL = 91


def console(slurm: Any, number: str) -> str:
    return (slurm.files / f"grafico-{number}.out").read_text()  # type: ignore[no-any-return]


@pytest.mark.slow
def test_before_its_time_is_over_a_job_is_warned_requeues_itself_and_goes_on(slurm: Any) -> None:
    # 54 seconds for two CPUs do not fit into a minute that begins with starting up and ends with the warning.
    slurm.job(numbers=NUMBERS, sleep_s=18)
    number = slurm.sbatch(*SMALL, "--time=00:01:00", "--signal=B:USR1@20", SCRIPT, *ALLOCATION)
    slurm.until(lambda: int(slurm.facts(number)["Restarts"]) >= 1, 150)
    folder = slurm.run_folder()
    before, done = len(starts(folder)), committed(folder)
    assert len(done) < len(NUMBERS)
    slurm.call("scontrol", "update", f"JobId={number}", "TimeLimit=10")
    assert slurm.ended(number, 200)["ExitCode"] == "0:0", slurm.witness()
    gone_on_with(folder, before, done)
    assert "SIGUSR1: the time of this Slurm job is nearly over" in console(slurm, number)
    assert "back into the queue" in console(slurm, number)


def gone_on_with(folder: Path, before: int, done: dict[str, str]) -> None:
    """The result is there, and nothing was computed again that had been committed before."""
    assert result(folder)["total"] == TOTAL
    assert not faults(folder)
    again = {started.key for started in starts(folder)[before:]}
    assert not again & set(done), "what was committed was computed again"
    assert {key: committed(folder)[key] for key in done} == done
    assert not failures(folder)
    assert manifest(folder)["resumed"] >= 1


def test_what_can_end_in_time_ends_and_the_rest_is_done_after_the_requeue(slurm: Any) -> None:
    slurm.job(numbers=NUMBERS, sleep_s=3)
    number = slurm.sbatch(*SMALL, "--time=00:10:00", SCRIPT, *ALLOCATION)
    folder = slurm.run_folder()
    slurm.until(lambda: len(committed(folder)) >= 2)
    slurm.signal(number)
    slurm.until(lambda: slurm.facts(number)["Restarts"] == "1")
    before, done = len(starts(folder)), committed(folder)
    assert all(started.status == "success" for started in starts(folder))
    assert 2 <= len(done) < len(NUMBERS)
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    gone_on_with(folder, before, done)
    assert len(starts(folder)) == len(NUMBERS)
    assert "s are left for what runs" in console(slurm, number)


def test_calculations_that_the_end_cuts_off_begin_again_as_if_for_the_first_time(slurm: Any) -> None:
    slurm.job(numbers=[1, 2], sleep_s=25)
    number = slurm.sbatch(*SMALL, "--time=00:10:00", SCRIPT, *ALLOCATION)
    folder = slurm.run_folder()
    slurm.until(lambda: len(starts(folder)) == 2)
    # As little time as a warning that comes late leaves.
    slurm.call("scontrol", "update", f"JobId={number}", "TimeLimit=1")
    slurm.signal(number)
    slurm.until(lambda: slurm.facts(number)["Restarts"] == "1", 90)
    slurm.call("scontrol", "update", f"JobId={number}", "TimeLimit=10")
    assert not committed(folder)
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    assert result(folder)["total"] == 5
    assert not faults(folder)
    assert not failures(folder)
    assert {started.attempt for started in starts(folder)} == {1}
    assert len(starts(folder)) == 4


def test_a_job_that_may_not_be_requeued_says_so_and_can_be_resumed(slurm: Any) -> None:
    slurm.job(numbers=[1, 2, 3], sleep_s=2)
    number = slurm.sbatch(*SMALL, "--no-requeue", SCRIPT, *ALLOCATION)
    folder = slurm.run_folder()
    slurm.until(lambda: starts(folder))
    slurm.signal(number)
    assert slurm.ended(number)["ExitCode"] == "130:0", slurm.witness()
    assert "could not be put back into the queue" in console(slurm, number)
    said = slurm.grafico("resume", folder, "--cluster", "laptop", "--quiet", "--json")
    assert said.json["result"]["total"] == 14
    assert not faults(folder)


def test_outside_of_slurm_the_signal_stops_a_run_like_ctrl_c(slurm: Any) -> None:
    slurm.job(numbers=[1, 2, 3, 4], sleep_s=2)
    process = slurm.spawn("run", "job.yaml", "--cluster", "laptop", "--requeue")
    folder = slurm.run_folder()
    slurm.until(lambda: starts(folder))
    os.kill(process.pid, signal.SIGUSR1)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "nothing can be put back into a queue" in err
    assert "go on: grafico resume" in out
    assert all(started.status == "success" for started in starts(folder))


def test_a_run_in_an_exact_folder_is_begun_once_and_gone_on_with_after_that(slurm: Any) -> None:
    slurm.job(numbers=[1, 2, 3], fail=[2])
    order = ("run", "job.yaml", "--cluster", "laptop", "--folder", "runs/mine", "--quiet", "--json")
    first = slurm.grafico(*order, check=False)
    assert first.code == 3, first
    assert first.json["run"] == "mine"
    refused = slurm.grafico(*order, check=False)
    assert refused.code == 2
    assert "is a run already" in refused.err
    (slurm.files / "job.yaml").write_text((slurm.files / "job.yaml").read_text() + "# changed\n")
    again = slurm.grafico(*order, "--or-resume", check=False)
    assert again.code == 3
    assert again.json["nothing_to_do"], "the failures of a run that is over stand"
    assert "has changed since" in again.err
    assert json.loads(first.out)["created"] == again.json["created"]
    assert slurm.grafico("run", "job.yaml", "--or-resume", check=False).code == 2
