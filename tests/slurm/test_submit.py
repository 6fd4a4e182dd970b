"""`grafico submit`: a job on Slurm carries the run out; how it stands is told; what fails leaves nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.evidence import committed, faults, manifest, result, starts

ROOT = Path(__file__).parent.parent.parent


def hidden(slurm: Any, *programs: str) -> dict[str, str]:
    """An environment in which some of Slurm's commands are not there."""
    folder = slurm.files / "bin"
    folder.mkdir()
    for program in ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "srun", "bash"):
        if program not in programs:
            (folder / program).symlink_to(shutil.which(program, path=slurm.environ["PATH"]))
    return {"PATH": str(folder)}


@pytest.mark.slow
def test_the_smallest_job_of_real_chemistry_is_submitted_and_gets_hosts_as_it_needs_them(slurm: Any) -> None:
    slurm.job()
    elastic = (slurm.files / "elastic.yaml").read_text()
    larger = elastic.replace("memory_mib: 1200", "memory_mib: 3000").replace("00:20:00", "02:00:00")
    (slurm.files / "elastic.yaml").write_text(larger)
    order = (ROOT / "jobs" / "tiny.yaml", "--cluster", "elastic.yaml", "--set", "knowledge.persist=false")
    shown = slurm.grafico("submit", *order, "--dry-run").out
    assert "#SBATCH --signal=B:USR1@120" in shown
    assert not slurm.queue()
    assert not (slurm.files / "runs").exists()
    said = slurm.grafico("submit", *order, "--json").json
    number, (folder,) = said["job"], map(Path, said["folders"])
    assert (folder / "submit.sh").read_text().splitlines()[2:] != shown.splitlines()
    assert slurm.ended(number, 300)["ExitCode"] == "0:0", slurm.witness()
    assert manifest(folder)["status"] == "finished"
    assert (folder / "results" / "spectrum.png").is_file()
    workers = {started.slurm_job for started in starts(folder)}
    assert workers
    assert number not in workers
    assert not faults(folder)
    assert not slurm.queue()
    watched = slurm.grafico("watch", folder)
    assert "finished" in watched.out


def test_a_run_that_waits_says_so_and_can_be_taken_out_of_the_queue(slurm: Any) -> None:
    slurm.job()
    blocker = slurm.sbatch("--nodes=2", "--exclusive", "--wrap", "sleep 600")
    slurm.until(lambda: slurm.state(blocker) == "RUNNING")
    said = slurm.grafico("submit", "job.yaml")
    (number,) = set(slurm.queue()) - {blocker}
    assert f"submitted as Slurm job {number}" in said.out
    name = slurm.run_folder().name
    assert f"grafico watch {name}" in said.out
    slurm.until(lambda: slurm.facts(number)["Reason"] == "Resources")
    assert f"queued as Slurm job {number} (Resources)" in slurm.grafico("show", "last").out
    assert f"created, not started; queued as Slurm job {number}" in slurm.grafico("list").out
    assert slurm.grafico("show", "last", "--json").json["slurm"]["state"] == "PENDING"
    without = hidden(slurm, "squeue", "sacct")
    blind = slurm.grafico("show", "last", **without)
    assert f"submitted as Slurm job {number} (how that stands cannot be told: squeue is not there)" in blind.out
    assert slurm.grafico("list", "--json", **without).json[0]["slurm"]["problem"] == "squeue is not there"
    cancelled = slurm.grafico("cancel", "last", "--json").json
    assert cancelled["stopped"]
    assert f"Slurm job {number} was cancelled before it began" in cancelled["message"]
    assert set(slurm.queue()) == {blocker}
    assert f"its Slurm job {number} is over (cancelled)" in slurm.grafico("show", "last").out
    assert "is not running" in slurm.grafico("cancel", "last").out


def test_a_run_that_goes_is_cancelled_from_another_host(slurm: Any) -> None:
    slurm.job()
    slurm.grafico("submit", "job.yaml", "--cluster", "allocation.yaml")
    folder = slurm.run_folder()
    slurm.begun(folder, 4)
    assert "running" in slurm.grafico("show", "last").out
    (number,) = slurm.queue()
    assert slurm.grafico("cancel", "last", "--wait", "60", "--json").json["stopped"]
    assert slurm.ended(number)["ExitCode"] == "130:0", slurm.witness()
    assert slurm.facts(number)["Restarts"] == "0"
    assert not committed(folder)
    assert manifest(folder)["status"] == "interrupted"


def test_a_submitted_run_whose_node_dies_is_gone_on_with_on_another(slurm: Any) -> None:
    slurm.job()
    slurm.grafico("submit", "job.yaml")
    folder = slurm.run_folder()
    (number,) = slurm.queue()
    slurm.begun(folder, 4)
    node = slurm.facts(number)["NodeList"]
    slurm.kill_node(node)
    # As Slurm itself finds after a while (SlurmdTimeout).
    slurm.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=dead")
    slurm.until(lambda: slurm.facts(number)["Restarts"] == "1")
    slurm.open()
    assert slurm.ended(number)["ExitCode"] == "0:0", slurm.witness()
    assert result(folder)["total"] == 30
    assert not faults(folder)
    assert manifest(folder)["resumed"] == 1
    slurm.until(lambda: not slurm.queue())


def test_a_submitted_run_that_slurm_is_told_to_cancel_takes_its_hosts_along_and_can_be_resumed(slurm: Any) -> None:
    slurm.job((1, 2))
    slurm.grafico("submit", "job.yaml")
    folder = slurm.run_folder()
    (number,) = slurm.queue()
    slurm.begun(folder, 2)
    # A second host may have been asked for while the controller had not said yet that nothing waits.
    assert len(slurm.queue()) >= 2
    slurm.call("scancel", number)
    slurm.until(lambda: not slurm.queue())
    assert "is over (cancelled)" in slurm.grafico("show", folder).out
    said = (folder / "slurm.out").read_text()
    assert f"grafico resume {folder.name}" in said
    assert "once it is up again" not in said, "it is the run's own cluster, and nobody else brings it up"
    assert "Traceback" not in said
    slurm.open()
    again = slurm.grafico("resume", folder, "--quiet", "--json")
    assert again.json["result"]["total"] == 5
    assert not faults(folder)
    assert not slurm.queue()


def test_what_cannot_be_submitted_leaves_nothing(slurm: Any) -> None:
    slurm.job()
    elastic = (slurm.files / "elastic.yaml").read_text()
    (slurm.files / "wrong.yaml").write_text(elastic.replace('walltime: "00:20:00"', "partition: nowhere"))
    refused = slurm.grafico("submit", "job.yaml", "--cluster", "wrong.yaml", "--json", check=False)
    assert refused.code == 2
    assert "invalid partition specified: nowhere" in refused.json["error"]
    dry = slurm.grafico("submit", "job.yaml", "--cluster", "wrong.yaml", "--dry-run", check=False)
    assert dry.code == 2
    assert "--partition=nowhere" in dry.out
    assert "invalid partition" in dry.err
    (slurm.files / "short.yaml").write_text(elastic.replace("controller: {", "controller: {walltime: 00:05:00, "))
    short = slurm.grafico("submit", "job.yaml", "--cluster", "short.yaml", check=False)
    assert short.code == 2
    assert "squares may take 400 s, and the controller's own job has 300 s" in short.err
    here = slurm.grafico("submit", "job.yaml", "--cluster", "laptop", check=False)
    assert here.code == 2
    assert "only kind 'slurm' has a queue" in here.err
    missing = slurm.grafico("submit", "job.yaml", check=False, **hidden(slurm, "sbatch"))
    assert missing.code == 2
    assert "sbatch is not there" in missing.err
    assert "matrix" in slurm.grafico("submit", "job.yaml", "--array", "2", check=False).err
    # Slurm may also refuse only when it is asked in earnest.
    liar = slurm.files / "bin" / "sbatch"
    real = shutil.which("sbatch", path=slurm.environ["PATH"])
    liar.write_text(
        f'#!/bin/sh\n[ "$1" = --test-only ] && exec {real} "$@"\necho "sbatch: error: QOSMaxSubmitJob" >&2; exit 1\n'
    )
    liar.chmod(0o755)
    late = slurm.grafico("submit", "job.yaml", check=False, PATH=f"{liar.parent}:{slurm.environ['PATH']}")
    assert late.code == 2
    assert "QOSMaxSubmitJob" in late.err
    assert not slurm.queue()
    assert not (slurm.files / "runs").exists()


def test_a_sweep_is_submitted_as_an_array_of_runs(slurm: Any) -> None:
    path = slurm.job([1], gated=False)
    path.write_text(path.read_text() + "matrix: {input.numbers: [[1], [2], [3], [4], [5]]}\n")
    text = (slurm.files / "allocation.yaml").read_text().replace("hosts: 2", "hosts: 1")
    (slurm.files / "allocation.yaml").write_text(text)
    said = slurm.grafico("submit", "job.yaml", "--cluster", "allocation.yaml", "--array", "2", "--json").json
    folders = [Path(folder) for folder in said["folders"]]
    for task in (1, 2):
        assert slurm.ended(f"{said['job']}_{task}")["ExitCode"] == "0:0", slurm.witness()
    assert sorted(len(committed(folder)) for folder in folders) == [2, 3]
    assert [manifest(folder)["status"] for folder in folders] == ["finished", "finished"]
    assert all("finished" in (folder / "slurm.out").read_text() for folder in folders)
