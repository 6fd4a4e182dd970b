"""The Slurm that the other tests here stand on: several at once, nodes that die and come back."""

from typing import Any


def test_jobs_run_on_every_node_with_the_gpus_that_they_asked_for(slurm: Any) -> None:
    said = slurm.call("srun", "--nodes=2", "--mem=10", "--gpus-per-node=2", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert said.out.split() == ["0,1", "0,1"]


def test_a_node_that_dies_takes_its_job_along_and_comes_back(slurm: Any) -> None:
    number = slurm.call("sbatch", "--parsable", "--mem=10", "--no-requeue", "--wrap", "sleep 600").out.strip()
    slurm.until(lambda: slurm.state(number) == "RUNNING")
    slurm.kill_node(slurm.job(number)["NodeList"])
    assert slurm.ended(number)["JobState"] == "NODE_FAIL"
    slurm.repair()
    assert slurm.call("srun", "--nodes=2", "--mem=10", "hostname").code == 0
