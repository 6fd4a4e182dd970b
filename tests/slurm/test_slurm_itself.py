"""The Slurm that the other tests here stand on: several at once, nodes that die and come back."""

from typing import Any


def test_jobs_run_on_every_node_with_the_gpus_that_they_asked_for(slurm: Any) -> None:
    said = slurm.call("srun", "--nodes=2", "--mem=10", "--gpus-per-node=2", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert said.out.split() == ["0,1", "0,1"]


def test_a_node_that_dies_takes_its_processes_along_and_comes_back(slurm: Any) -> None:
    number = slurm.sbatch("--mem=10", "--wrap", "sleep 613")
    slurm.until(lambda: slurm.state(number) == "RUNNING")
    slurm.kill_node(slurm.facts(number)["NodeList"])
    assert "sleep 613" not in slurm.call("ps", "-eo", "args").out
    slurm.repair()
    assert slurm.call("srun", "--nodes=2", "--mem=10", "hostname").code == 0
