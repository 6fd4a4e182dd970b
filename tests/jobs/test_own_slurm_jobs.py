"""What a controller knows of the Slurm job that it runs in, and how a run's job is spoken of."""

import time
from pathlib import Path

import pytest

from grafico.errors import RunError
from grafico.jobs.queue import Submission, read_submission, standing, take_out, words, write_submission
from grafico.jobs.requeue import SPARE_S, OwnJob, own_job
from grafico.runs import RunPaths


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Slurm's commands as the test writes them; no others are there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "date", "cat"):
        (folder / name).symlink_to(next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists()))
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "12"}, OwnJob("12")),
        ({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "3"}, OwnJob("12", 3)),
        ({"SLURM_JOB_ID": "15", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}, OwnJob("12_3")),
        ({"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": "1796000000"}, OwnJob("12", 0, 1796000000.0)),
        ({"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": "UNLIMITED"}, OwnJob("12")),
    ],
)
def test_a_controller_knows_its_job(environ: dict[str, str], found: OwnJob | None) -> None:
    assert own_job(environ) == found


def test_what_is_left_of_its_time_leaves_room_for_the_end(programs: Path) -> None:
    assert OwnJob("12", ends=time.time() + 100).seconds_left() == pytest.approx(100 - SPARE_S, abs=5)
    assert OwnJob("12").seconds_left() is None, "without squeue"
    program(programs, "squeue", "date -d '+100 seconds' +%Y-%m-%dT%H:%M:%S")
    assert OwnJob("12").seconds_left() == pytest.approx(100 - SPARE_S, abs=30)
    changed = OwnJob("12", ends=time.time() + 9000).seconds_left()
    assert changed == pytest.approx(100 - SPARE_S, abs=30), "somebody has changed its limit since it began"
    program(programs, "squeue", "echo N/A")
    assert OwnJob("12").seconds_left() is None, "without a limit"
    program(programs, "squeue", "exit 1")
    assert OwnJob("12").seconds_left() is None


def test_a_requeue_that_is_refused_is_told_in_slurms_words(programs: Path) -> None:
    assert "scontrol is not there" in OwnJob("12").requeue()
    program(programs, "scontrol", 'echo "Requested operation is presently disabled for job $2" >&2; exit 1')
    assert OwnJob("12").requeue() == "scontrol: Requested operation is presently disabled for job 12"
    program(programs, "scontrol", "exit 0")
    assert OwnJob("12").requeue() == ""


def test_what_the_queue_has_forgotten_accounting_tells_and_what_it_still_calls_running_is_over(programs: Path) -> None:
    program(programs, "squeue", "echo '13|RUNNING|None|N/A'")
    program(
        programs, "sacct", "echo '12_3|NODE_FAIL|n1|0:0'; echo '14|CANCELLED by 0|n1|0:15'; echo '15|RUNNING|n1|0:0'"
    )
    found = standing(["12_3", "13", "14", "15"])
    assert [words(found[job], begun=True) for job in found] == [
        "its Slurm job 12_3 is over (node fail)",
        "Slurm job 13 is running",
        "its Slurm job 14 is over (cancelled)",
        "its Slurm job 15 is over",
    ]
    program(programs, "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    found = standing(["14", "15", "16"])
    assert words(found["14"], begun=True) == "its Slurm job 14 is over (cancelled)"
    assert words(found["15"], begun=True) == "Slurm job 15 is running"
    assert found["16"].problem == "squeue: Unable to contact slurm controller"


def test_a_job_that_waits_for_ever_is_told_from_one_that_waits(programs: Path) -> None:
    program(programs, "squeue", "echo '1|PENDING|PartitionTimeLimit|N/A'; echo '2|PENDING|Priority|N/A'")
    found = standing(["1", "2"])
    assert words(found["1"], begun=False).endswith("(PartitionTimeLimit, which does not pass by itself)")
    assert words(found["2"], begun=False).endswith("(Priority)")


def test_jobs_are_looked_up_in_one_call(programs: Path) -> None:
    program(programs, "squeue", "echo 12_3'|PENDING|Priority|2026-12-01T08:00:00'; echo '13|RUNNING|None|N/A'; echo x")
    found = standing(["12_3", "13", "14"])
    assert [words(found[job], begun=False) for job in found] == [
        "queued as Slurm job 12_3 (Priority), expected to start at 2026-12-01 08:00:00",
        "Slurm job 13 is running",
        "its Slurm job 14 is over",
    ]
    assert words(found["12_3"], begun=True).startswith("queued again as Slurm job 12_3")
    assert (found["12_3"].waits, found["13"].waits, found["14"].over) == (True, False, True)


def test_where_the_queue_cannot_be_read_it_says_so(programs: Path) -> None:
    (found,) = standing(["12"]).values()
    assert (
        words(found, begun=False) == "submitted as Slurm job 12 (how that stands cannot be told: squeue is not there)"
    )
    assert not found.over
    assert standing([]) == {}


def test_taking_a_job_out_that_is_gone_is_no_problem(programs: Path) -> None:
    with pytest.raises(RunError, match="scancel is not there"):
        take_out("12")
    program(
        programs, "scancel", "echo 'scancel: error: Kill job error on job id 12: Invalid job id specified' >&2; exit 1"
    )
    take_out("12")
    program(programs, "scancel", "echo 'scancel: error: Access denied' >&2; exit 1")
    with pytest.raises(RunError, match="Access denied"):
        take_out("12")


def test_a_submission_is_remembered(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert read_submission(paths) is None
    submission = Submission(job="12_3", submitted="2026-12-01T08:00:00.000Z", host="login1")
    write_submission(paths, submission)
    assert read_submission(paths) == submission
    paths.submission.write_text("{")
    assert read_submission(paths) is None
