"""A few kills of the long kill test, and that its judge would see a broken promise."""

import os
import time
from pathlib import Path

import pytest

from grafico.calculations import Provenance, Success
from grafico.runs import OutcomeStore, RunPaths, StartLog
from tests.faults.judging import Kill, energies, judge
from tests.faults.kill_test import main
from tests.test_calculations import Doubled

KEY = "ab" * 32


@pytest.mark.slow
def test_kills_of_controller_worker_and_calculation_lose_and_repeat_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "5", "--per-run", "5", "--seed", "20261130"]) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_kills_on_a_cluster_that_two_runs_share_lose_and_repeat_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAFICO_LEASES", str(tmp_path / "leases"))
    (tmp_path / "leases").mkdir(mode=0o700)
    profile = tmp_path / "profile.yaml"
    profile.write_text(
        "pools: [{name: gpu, gpus: 1, simulated: true, gpu_memory_mib: 8000, cpus: 3, memory_mib: 8000}, "
        "{name: cpu, cpus: 2, memory_mib: 8000}]"
    )
    words = ["--kills", "4", "--per-run", "4", "--within", "4", "--controllers", "2", "--seed", "20261130"]
    job = str(Path(__file__).parent / "short.yaml")
    assert main([*words, "--job", job, "--cluster", str(profile)]) == 0, capsys.readouterr().out


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


def test_the_judge_excuses_no_second_start_by_a_controller_that_died_on_a_cluster_that_stays(paths: RunPaths) -> None:
    log = StartLog(paths)
    log.start(KEY, 1)
    time.sleep(0.02)
    died = Kill(at=time.time(), victim="controller", pid=1, run=paths.name)
    time.sleep(0.02)
    log.end(log.start(KEY, 1), "success")
    assert judge(paths, [died]) == []
    assert "started twice without a kill between" in judge(paths, [died], standing=True)[0]
    assert judge(paths, [Kill(at=died.at, victim="worker", pid=1)], standing=True) == []
    assert judge(paths, [Kill(at=died.at, victim="calculation", pid=1, run="another")], standing=True) != []
