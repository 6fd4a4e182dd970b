"""A few kills of the long kill test, and that its judge would see a broken promise."""

import os
import time
from pathlib import Path

import pytest

from grafico.calculations import Provenance, Success
from grafico.runs import OutcomeStore, RunPaths, StartLog
from tests.faults.kill_test import Kill, energies, judge, main
from tests.test_calculations import Doubled

KEY = "ab" * 32


@pytest.mark.slow
def test_kills_of_controller_worker_and_calculation_lose_and_repeat_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "5", "--per-run", "5", "--seed", "20261130"]) == 0, capsys.readouterr().out


def commit(paths: RunPaths) -> None:
    OutcomeStore(paths).commit(
        KEY, Success[Doubled](output=Doubled(energy=1.0), provenance=Provenance(pid=os.getpid()))
    )


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "run")
    found.starts.mkdir(parents=True)
    return found


def test_the_judge_passes_one_start_and_one_commit(paths: RunPaths) -> None:
    log = StartLog(paths)
    started = log.start(KEY, 1)
    commit(paths)
    log.end(started, "success")
    assert judge(paths, []) == []


def test_the_judge_sees_a_start_after_the_commit(paths: RunPaths) -> None:
    log = StartLog(paths)
    started = log.start(KEY, 1)
    commit(paths)
    log.end(started, "success")
    time.sleep(0.05)
    log.end(log.start(KEY, 2), "success")
    assert {"started again after it was committed", "was finished more than once"} <= {
        fault.partition(") ")[2] for fault in judge(paths, [])
    }


def test_the_judge_sees_a_second_start_that_no_kill_explains(paths: RunPaths) -> None:
    log = StartLog(paths)
    first = log.start(KEY, 1)
    log.start(KEY, 2)
    assert any("without a kill" in fault for fault in judge(paths, []))
    between = Kill(at=first.started + 1e-9, victim="worker", pid=1)
    assert judge(paths, [between]) == []


def test_energies_are_found_wherever_they_stand_in_a_result() -> None:
    result = {"a": [{"energy_hartree": -1.0, "energy_ev": 2.0}], "energy": -3.0, "relative_energy_kcal_mol": 1.0}
    assert energies(result) == [-1.0, -3.0]
