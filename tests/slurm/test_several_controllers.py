"""Two controllers: on one cluster they share its places; on one run, the second is refused or the first is fenced off."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.slurm.evidence import committed, faults, manifest, result, starts

ROOT = Path(__file__).parent.parent.parent


def test_two_controllers_share_one_cluster_and_never_use_more_than_it_has(slurm: Any) -> None:
    slurm.job((1, 2, 3, 4), name="one")
    slurm.job((5, 6, 7, 8), name="two")
    slurm.grafico("cluster", "up", "elastic.yaml", "--name", "shared")
    runs = [slurm.spawn("run", f"{name}.yaml", "--cluster", "connect:shared") for name in ("one", "two")]
    folders = [slurm.until(lambda n=name: next((slurm.files / "runs").glob(f"{n}-*"), None)) for name in ("one", "two")]
    begun = slurm.until(lambda: len(both := [s for f in folders for s in starts(f)]) >= 4 and both)
    assert len(begun) == 4, "two hosts of two processors"
    slurm.open()
    for run in runs:
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, out + err
    assert [result(folder)["total"] for folder in folders] == [30, 174]
    assert not [fault for folder in folders for fault in faults(folder)]
    everything = [started for folder in folders for started in starts(folder)]
    for moment in (started.started for started in everything):
        at_once = [s for s in everything if s.started <= moment < (s.ended or float("inf"))]
        assert max(sum(s.worker == worker for s in at_once) for worker in {s.worker for s in at_once}) <= 2
    slurm.grafico("cluster", "down", "shared")
    assert not slurm.queue()


def test_a_second_controller_of_a_run_is_refused_while_the_first_one_is_there(slurm: Any) -> None:
    slurm.job()
    order = ("--nodes=1", "--cpus-per-task=2", "--mem=1500", ROOT / "slurm" / "run.sbatch", "job.yaml")
    more = ("--cluster", "allocation.yaml", "--folder", "runs/mine")
    first = slurm.sbatch(*order, *more)
    slurm.begun(slurm.files / "runs" / "mine", 2)
    second = slurm.sbatch(*order, *more)
    assert slurm.ended(second)["ExitCode"] == "2:0", slurm.witness()
    assert f"Slurm job {first}" in (slurm.files / f"grafico-{second}.out").read_text()
    said = slurm.grafico("resume", "runs/mine", check=False)
    assert said.code == 2
    assert "is being run by" in said.err
    assert "--take-over" in said.err
    slurm.open()
    assert slurm.ended(first)["ExitCode"] == "0:0", slurm.witness()
    assert not faults(slurm.files / "runs" / "mine")


def test_the_old_copy_of_a_job_whose_node_was_taken_for_dead_is_fenced_off(slurm: Any) -> None:
    slurm.job()
    order = ("--nodes=1", "--cpus-per-task=2", "--mem=1500", ROOT / "slurm" / "run.sbatch", "job.yaml")
    number = slurm.sbatch(*order, "--cluster", "allocation.yaml")
    folder = slurm.run_folder()
    slurm.begun(folder, 2)
    node = slurm.facts(number)["NodeList"]
    old = json.loads((folder / "controller.json").read_text())["pid"]
    # Only Slurm's own daemon dies: the job's processes live on, and Slurm cannot know.
    os.kill(int((slurm.root / "run" / f"slurmd.{node}.pid").read_text()), signal.SIGKILL)
    slurm.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=silent")
    slurm.until(lambda: slurm.facts(number)["Restarts"] == "1" and slurm.state(number) == "RUNNING")
    slurm.until(lambda: len(list((folder / "journal").glob("*.jsonl"))) >= 2)
    slurm.open()
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    slurm.until(lambda: not Path(f"/proc/{old}").exists())
    assert result(folder)["total"] == 30
    assert manifest(folder)["status"] == "finished"
    assert len(committed(folder)) == 4
    console = (slurm.files / f"grafico-{number}.out").read_text()
    assert f"took over the run: Slurm job {number} was requeued (restart 1)" in console
    assert "another controller has taken over" in console
    by_key = [started.key for started in starts(folder) if started.status == "success"]
    assert len(by_key) - len(set(by_key)) <= 2, "only what ran at the takeover may have run twice"
