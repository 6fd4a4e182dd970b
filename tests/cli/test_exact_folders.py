"""A run in exactly the folder that was asked for, as batch scripts want it; and the signal that Slurm warns with."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_it_is_begun_once_and_gone_on_with_after_that(grafico: Callable[..., Any], bench: Path) -> None:
    order = ("run", "job.yaml", "--set", "input.fail=[2]", "--folder", "runs/mine", "--quiet", "--json")
    first = grafico(*order)
    assert first.code == 3, first
    assert first.json["run"] == "mine"
    refused = grafico(*order)
    assert refused.code == 2
    assert "is a run already" in refused.err
    again = grafico(*order, "--or-resume")
    assert again.code == 3
    assert again.json["nothing_to_do"], "the failures of a run that is over stand"
    assert again.json["created"] == first.json["created"]
    assert "has changed" not in again.err
    (bench / "job.yaml").write_text((bench / "job.yaml").read_text() + "# changed\n")
    assert "has changed since" in grafico(*order, "--or-resume").err


def test_what_does_not_fit_together_is_refused(grafico: Callable[..., Any], bench: Path) -> None:
    assert "needs to know which run" in grafico("run", "job.yaml", "--or-resume").err
    said = grafico("run", "job.yaml", "--folder", "here/mine", "--runs-dir", "there")
    assert said.code == 2
    assert "is not in --runs-dir" in said.err
    (bench / "full").mkdir()
    (bench / "full" / "file").touch()
    said = grafico("run", "job.yaml", "--folder", "full")
    assert said.code == 2
    assert "it is no run" in said.err


def test_the_signal_before_the_end_of_a_job_lets_finish_what_runs(spawn: Any, bench: Path) -> None:
    process = spawn("run", "job.yaml", "--set", "input.sleep_s=2", "--folder", "runs/mine", "--requeue")
    deadline = time.monotonic() + 120
    while not list((bench / "runs" / "mine" / "starts").glob("*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGUSR1)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "SIGUSR1: the time of this Slurm job is nearly over" in err
    assert "nothing can be put back into a queue" in err
    assert "go on: grafico resume mine" in out
    assert list((bench / "runs" / "mine" / "outcomes").glob("??/*.json"))
