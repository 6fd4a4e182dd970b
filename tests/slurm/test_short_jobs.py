"""Jobs of Slurm that are too short for what waits: said at once, not requeued or replaced for ever."""

from pathlib import Path
from typing import Any

from tests.slurm.evidence import manifest, starts

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "slurm" / "run.sbatch"


def test_what_no_job_lasts_for_ends_the_run_with_the_times_and_can_be_resumed_in_a_longer_one(slurm: Any) -> None:
    slurm.job((1, 2))
    elastic = (slurm.files / "elastic.yaml").read_text()
    # The site's limit, of which the profile knows nothing.
    slurm.call("scontrol", "create", "PartitionName=brief", "Nodes=ALL", "MaxTime=5", "DefaultTime=5", "State=UP")
    (slurm.files / "brief.yaml").write_text(elastic.replace('walltime: "00:20:00"', "partition: brief"))
    number = slurm.sbatch(
        "--nodes=1", "--cpus-per-task=2", "--mem=1500", "--time=00:05:00", SCRIPT, "job.yaml",
        "--cluster", "allocation.yaml", "--folder", "runs/allocation",
    )  # fmt: skip
    said = slurm.grafico("run", "job.yaml", "--cluster", "brief.yaml", "--folder", "runs/elastic", check=False)
    assert said.code == 2, said
    assert "may take 400 s, and no host lasts so long: a host of pool cpu has 2" in said.err
    assert slurm.ended(number)["ExitCode"] == "2:0", slurm.witness()
    assert slurm.facts(number)["Restarts"] == "0"
    told = (slurm.files / f"grafico-{number}.out").read_text()
    assert f"may take 400 s, and no host lasts so long: Slurm job {number}, whose nodes these are, has 2" in told
    slurm.until(lambda: not slurm.queue())
    every = slurm.call("squeue", "--noheader", "--states=all", "--format=%j").out.split()
    assert sum(name.endswith("-cpu-1") for name in every) == 1
    assert len(every) == 2, "one host was enough to know"
    slurm.open()
    for name in ("allocation", "elastic"):
        folder = slurm.files / "runs" / name
        assert (manifest(folder)["status"], starts(folder)) == ("interrupted", [])
        assert slurm.grafico("resume", folder, "--cluster", "laptop", "--quiet", "--json").json["result"]["total"] == 5
