"""What waits in the queue when both a run's controller and its server are killed is taken out by whoever comes next."""

import json
import os
import signal
from typing import Any

import pytest

HELD = """\
kind: slurm
slurm: {walltime: "00:20:00", directives: ["--hold"]}
pools:
  - {name: cpu, cpus: 1, memory_mib: 600, hosts: {min: 0, max: 2}}
"""


@pytest.mark.parametrize("words", [("cancel",), ("resume", "--cluster", "laptop")], ids=lambda words: words[0])
def test_jobs_that_would_wait_for_ever_leave_the_queue(slurm: Any, words: tuple[str, ...]) -> None:
    slurm.job(gated=False)
    (slurm.files / "elastic.yaml").write_text(HELD)
    run = slurm.spawn("run", "job.yaml")
    folder = slurm.run_folder()
    slurm.until(lambda: set(slurm.queue().values()) == {"PENDING"})
    server = json.loads((folder / "cluster" / "cluster.json").read_text())["server"]["pid"]
    run.kill()
    run.communicate()
    os.kill(server, signal.SIGKILL)
    assert slurm.queue()
    command, *more = words
    slurm.grafico(command, folder, *more)
    assert not slurm.queue()
