"""Runs inside one allocation, as `slurm/run.sbatch` and `slurm/sweep.sbatch` start them."""

from pathlib import Path
from typing import Any

import pytest

from tests.slurm.evidence import committed, faults, manifest, result, starts

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "slurm" / "run.sbatch"
GPUS = """\
kind: slurm
workers: allocation
pools:
  - {name: gpu, gpus: 1, simulated: true, cpus: 1, memory_mib: 500, hosts: 2}
  - {name: cpu, cpus: 1, memory_mib: 500, hosts: 2}
"""
SMALL = ("--cpus-per-task=2", "--mem=1500", "--time=00:20:00")


@pytest.mark.slow
def test_the_smallest_job_of_real_chemistry_runs_on_every_node_of_an_allocation(slurm: Any) -> None:
    number = slurm.sbatch(
        "--nodes=2", "--cpus-per-task=2", "--mem=6000", SCRIPT, ROOT / "jobs" / "tiny.yaml",
        "--set", "knowledge.persist=false",
    )  # fmt: skip
    assert slurm.ended(number, 300)["ExitCode"] == "0:0", slurm.witness()
    folder = slurm.files / "runs" / f"tiny-slurm-{number}"
    assert manifest(folder)["status"] == "finished"
    assert (folder / "results" / "spectrum.png").is_file()
    assert {started.slurm_job for started in starts(folder)} == {number}
    assert {started.worker for started in starts(folder)} == {"cpu-n1-0", "cpu-n2-0"}
    assert not faults(folder)
    assert "finished" in (slurm.files / f"grafico-{number}.out").read_text()
    assert not slurm.queue()


def test_a_node_that_dies_takes_its_lanes_along_and_the_others_do_them_again(slurm: Any) -> None:
    slurm.job()
    number = slurm.sbatch("--nodes=2", *SMALL, SCRIPT, "job.yaml", "--cluster", "allocation.yaml")
    folder = slurm.run_folder()
    dead = {started.key for started in slurm.begun(folder, 4) if started.worker == "cpu-n2-0"}
    slurm.kill_node("n2")
    slurm.open()
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    assert result(folder)["total"] == 30
    assert not faults(folder)
    assert len(committed(folder)) == 4
    again = starts(folder)[4:]
    assert {started.key for started in again} == dead
    assert len(dead) == 2
    assert {started.worker for started in again} == {"cpu-n1-0"}
    console = (slurm.files / f"grafico-{number}.out").read_text()
    assert "worker_lost" in console
    assert "Traceback" not in console


def test_a_sweep_is_shared_out_among_the_jobs_of_an_array(slurm: Any) -> None:
    path = slurm.job([1], gated=False)
    path.write_text(path.read_text() + "matrix: {input.numbers: [[1], [2], [3], [4], [5]]}\n")
    script = ROOT / "slurm" / "sweep.sbatch"
    order = ("--nodes=1", *SMALL, script, "job.yaml", "--cluster", "allocation.yaml", "--quiet")
    number = slurm.sbatch("--array=1-2", *order)
    wrong = slurm.sbatch("--array=2-3", *order)
    for task in (f"{number}_1", f"{number}_2"):
        assert slurm.ended(task)["ExitCode"] == "0:0", slurm.witness()
    folders = [slurm.files / "runs" / f"job-slurm-{number}-{task}" for task in ("1", "2")]
    assert sorted(len(committed(folder)) for folder in folders) == [2, 3]
    assert all(manifest(folder)["status"] == "finished" for folder in folders)
    assert slurm.ended(f"{wrong}_2")["ExitCode"] == "2:0"
    assert "without gaps" in (slurm.files / f"grafico-{wrong}-2.out").read_text()


def test_gpus_that_were_asked_for_of_the_whole_job_reach_the_hosts_of_each_node(slurm: Any) -> None:
    slurm.job([1], gated=False)
    (slurm.files / "gpus.yaml").write_text(GPUS)
    script = slurm.files / "up.sh"
    script.write_text("#!/bin/bash\nexec grafico cluster up gpus.yaml --name inside --foreground\n")
    # Slurm shares them out as it likes: three to the one node and one to the other.
    number = slurm.sbatch("--nodes=2", "--ntasks-per-node=1", *SMALL, "--gpus=4", script)

    def workers() -> set[str]:
        said = slurm.grafico("cluster", "status", "inside", "--json", check=False)
        return {worker["name"] for worker in said.json.get("workers", ())} if said.code == 0 else set()

    everybody = {f"{pool}-{node}-0" for pool in ("gpu", "cpu") for node in ("n1", "n2")}
    slurm.until(lambda: workers() == everybody)
    slurm.grafico("run", "job.yaml", "--cluster", "connect:inside", "--quiet")
    slurm.grafico("cluster", "down", "inside")
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    assert {started.slurm_job for started in starts(slurm.run_folder())} == {number}


def test_outside_of_an_allocation_it_says_so(slurm: Any) -> None:
    slurm.job()
    said = slurm.grafico("run", "job.yaml", "--cluster", "allocation.yaml", check=False)
    assert said.code == 2, said
    assert "we are in none" in said.err
    assert "sbatch slurm/run.sbatch" in said.err
    assert not slurm.queue()
