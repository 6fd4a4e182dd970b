"""What became of jobs that the queue has forgotten: sacct knows, from a real database."""

from pathlib import Path
from typing import Any

import pytest

from grafico.cluster.slurm.records import look_up


def test_what_the_queue_has_forgotten_is_told_from_the_database(
    accounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = accounted
    slurm.job((1, 2))
    text = (slurm.files / "allocation.yaml").read_text().replace("hosts: 2", "hosts: 1")
    more = {
        "lost": "controller: {requeue: false}",
        "ended": "setup: ['exit 7']",
        "cancelled": "slurm: {walltime: '00:20:00', directives: ['--hold']}",
    }
    jobs: dict[str, str] = {}
    folders: dict[str, Path] = {}
    for name, line in more.items():
        kept = [known for known in text.splitlines() if known.split(":")[0] != line.split(":")[0]]
        (slurm.files / f"{name}.yaml").write_text("\n".join([*kept, line, ""]))
        said = slurm.grafico("submit", "job.yaml", "--cluster", f"{name}.yaml", "--json").json
        jobs[name], folders[name] = said["job"], Path(said["folders"][0])
    slurm.begun(folders["lost"], 2)
    node = slurm.facts(jobs["lost"])["NodeList"]
    slurm.kill_node(node)
    # As Slurm itself finds after a while (SlurmdTimeout).
    slurm.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=dead")
    slurm.call("scancel", jobs["cancelled"])
    # squeue and scontrol know none of them any more.
    slurm.until(lambda: not slurm.call("squeue", "--noheader", "--states=all").out.strip())
    expected = {"ended": "failed", "cancelled": "cancelled", "lost": "node fail"}
    for name, how in expected.items():
        slurm.until(
            lambda n=name, h=how: f"its Slurm job {jobs[n]} is over ({h})" in slurm.grafico("show", folders[n]).out
        )
    listed = {row["run"]: row["slurm"]["state"] for row in slurm.grafico("list", "--json").json}
    assert listed == {folders[name].name: how.upper().replace(" ", "_") for name, how in expected.items()}
    assert "is not running" in slurm.grafico("cancel", folders["lost"]).out
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environ[name])
    states, problem = look_up(jobs.values())
    assert problem == ""
    assert {name: states[job].state for name, job in jobs.items()} == {
        "lost": "NODE_FAIL", "ended": "FAILED", "cancelled": "CANCELLED"
    }  # fmt: skip
    assert (states[jobs["ended"]].reason, states[jobs["cancelled"]].reason) == ("exit code 7:0", "by 0")
