"""Runs from a login node, whose hosts are Slurm jobs of their own: a job that is cancelled, a controller that is killed."""

from typing import Any

from tests.slurm.evidence import attempts_lost, faults, result, starts


def test_a_worker_job_that_is_cancelled_is_replaced_and_its_lanes_burn_no_attempt(slurm: Any) -> None:
    slurm.job()
    run = slurm.spawn("run", "job.yaml")
    folder = slurm.run_folder()
    victim = slurm.begun(folder, 4)[0].slurm_job
    assert len(slurm.queue()) == 2
    slurm.call("scancel", victim)
    assert victim not in {started.slurm_job for started in slurm.begun(folder, 6)[4:]}
    slurm.open()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, out + err
    assert result(folder)["total"] == 30
    assert not faults(folder)
    assert not attempts_lost(folder)
    assert {started.attempt for started in starts(folder)} == {1}
    assert not slurm.queue()


def test_lanes_go_on_without_their_controller_and_a_resume_finds_them_at_work(slurm: Any) -> None:
    slurm.job()
    run = slurm.spawn("run", "job.yaml")
    folder = slurm.run_folder()
    slurm.begun(folder, 4)
    run.kill()
    run.communicate()
    said = slurm.files / "resume.err"
    again = slurm.spawn("resume", folder, err=said)
    slurm.until(lambda: "4 calculations of this run still go on in the cluster" in said.read_text())
    slurm.open()
    again.communicate(timeout=120)
    assert again.returncode == 0, said.read_text()
    assert result(folder)["total"] == 30
    assert len(starts(folder)) == 4, "nothing was begun a second time"
    assert not faults(folder)
    assert not slurm.queue()
