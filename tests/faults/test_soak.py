"""A short soak: lanes on four pretended GPUs while workers are killed; `grafico bench soak` walks thousands.

And that its judges would see a broken promise.
"""

import json
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from grafico.bench.deaths import Deaths
from grafico.bench.naps import NapInput, Rested, nap
from grafico.bench.soak import crowded, most_at_once, repeated
from grafico.calculations import Provenance, Success
from grafico.cli.main import app
from grafico.runs import OutcomeStore, Run, Started, StartLog, read_starts
from grafico.runs.processes import ProcessId


@pytest.mark.slow
def test_lanes_survive_killed_workers_and_slots_are_never_overfilled():
    done = CliRunner().invoke(app, ["bench", "soak", "--lanes", "300", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["lanes done"] + found["lanes failed"] == 300
    assert found["workers killed"] >= 5
    assert found["most on one GPU at once"]["value"] == 3


def start(number: int, began: float, ended: float | None, slot: str = "0", pid: int = 1) -> Started:
    return Started(
        id=f"{number}", key=f"{number:064x}", attempt=1, lane="", label="", process=ProcessId("host", pid, "1"),
        worker="gpu-0", gpu="GPU-0", slot=slot, started=began, ended=ended, status="success" if ended else "",
    )  # fmt: skip


def test_the_judge_counts_slots_at_every_instant():
    with Deaths() as deaths:
        three = [start(number, 0.0, 2.0) for number in range(3)]
        assert crowded(three, deaths) == []
        after = start(3, 2.0, 3.0)  # takes the place of one that ends at that instant
        assert most_at_once([*three, after], deaths) == 3
        assert "4 slots" in crowded([*three, start(4, 1.9, 3.0)], deaths)[0]
        whole = start(5, 0.5, 0.6, slot="0,1,2")
        assert most_at_once([three[0], whole], deaths) == 4


def test_the_judge_knows_when_a_killed_process_died():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Deaths() as deaths:
        began = time.time()
        cut = start(1, began, None, pid=process.pid)
        assert "nobody killed" in " ".join(crowded([cut], deaths))
        deaths.watch([process.pid])
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while deaths.unknown(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert crowded([cut], deaths) == []
        assert began <= deaths.of(process.pid, began) <= time.time()


def test_the_judge_sees_what_was_started_again_after_its_commit(tmp_path):
    run = Run.create(tmp_path, "soak", job_source=b"", job={}, graph="g", graph_version="1")
    value = NapInput(number=1)
    key, log = nap.key(value), StartLog(run.paths)
    started = log.start(key, 1)
    OutcomeStore(run.paths).commit(key, Success[Rested](output=Rested(number=1), provenance=Provenance(pid=1)))
    log.end(started, "success")
    assert repeated(run, [value], read_starts(run.paths)) == []
    time.sleep(0.05)
    log.end(log.start(key, 2), "success")
    assert repeated(run, [value], read_starts(run.paths)) == [
        "1 calculations succeeded twice",
        "1 calculations were started after their outcome had been committed",
    ]
