"""Zeo++ may hang, abort, exit or talk nonsense: each ends in a typed failure, and no process outlives the calculation."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grafico.atoms import ConceptualAtoms
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.errors import MissingExtra
from grafico.frameworks.calculations.analyze import analyze
from grafico.frameworks.steps import AnalysisSettings, AnalyzeInput
from grafico.frameworks.zeo import cssr, run_zeo
from grafico.graphs import FolderArtifacts

FAKE = Path(__file__).parent / "fake_zeo"
CRYSTAL = ConceptualAtoms(symbols=("C",), positions=((1.0, 2.0, 3.0),), cell=((10, 0, 0), (0, 10, 0), (0, 0, 10)))


class Engine:
    """The stand-in for Zeo++, and what is known of the processes that it ran in."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.notes = folder / "pids"
        monkeypatch.setenv("ZEO_PIDS", str(self.notes))
        monkeypatch.setenv("PYTHONPATH", str(FAKE))

    def does(self, fault, when=""):
        self.monkeypatch.setenv("ZEO_FAULT", fault)
        self.monkeypatch.setenv("ZEO_WHEN", when)

    @property
    def ran(self):
        """Task and high accuracy of each process, in order."""
        return [tuple(line.split()[1:]) for line in self.notes.read_text().splitlines()]

    @property
    def alive(self):
        """Processes that it noted, or that are in the session of one of these, and have not ended."""
        noted = {int(line.split()[0]) for line in self.notes.read_text().splitlines()}
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, (state, _, _, session, *_) = int(path.parent.name), path.read_text().rpartition(")")[2].split()
                if state not in "ZX" and noted & {pid, int(session)}:
                    found.append(pid)
        return found

    def is_gone(self):
        """Wait until the kernel has ended what it was told to end."""
        _until(lambda: not self.alive)


@pytest.fixture
def engine(tmp_path, monkeypatch):
    return Engine(tmp_path, monkeypatch)


def work(folder):
    (folder / "scratch").mkdir(exist_ok=True)
    return WorkContext(artifacts=FolderArtifacts(folder), scratch=folder / "scratch", memory_mib=1500)


def settings(seconds=60.0, **fields):
    return AnalysisSettings(timeout_s=seconds, **fields)


def run(engine, task="area", seconds=60.0):
    return run_zeo(task, cssr(CRYSTAL), settings(seconds), engine.folder / "zeo", memory_mib=600)


@pytest.mark.parametrize("fault", ["hang", "hang_with_a_helper", "hang_and_ignore_signals", "spin"])
def test_what_does_not_end_is_ended(engine, fault):
    engine.does(fault)
    with pytest.raises(CalculationError, match=r"did not finish the surface area within 2 s") as caught:
        run(engine, seconds=2.0)
    assert caught.value.kind is FailureKind.TIMEOUT
    assert caught.value.details["step"] == "area"
    engine.is_gone()


@pytest.mark.parametrize(
    ("fault", "name"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV"), ("killed", "SIGKILL"), ("flood", "SIGXFSZ")]
)
def test_a_signal_is_a_crash_that_is_named(engine, fault, name):
    engine.does(fault)
    with pytest.raises(CalculationError, match=f"ended by {name} over the surface area") as caught:
        run(engine)
    assert caught.value.kind is FailureKind.CRASH
    assert caught.value.details["signal"] == name
    engine.is_gone()


def test_output_is_bounded_on_disk_and_in_the_message(engine):
    engine.does("flood")
    with pytest.raises(CalculationError) as caught:
        run(engine)
    assert (engine.folder / "zeo" / "output.log").stat().st_size <= 64 * 2**20
    assert len(caught.value.message) < 600
    assert "\x1b" not in caught.value.message
    assert len(caught.value.details["said"]) <= 2000


def test_what_zeo_says_when_it_gives_up_is_told(engine):
    engine.does("exit")
    with pytest.raises(CalculationError, match=r"gave up over the surface area .*Illogical result") as caught:
        run(engine)
    assert caught.value.kind is FailureKind.ENGINE_ERROR


@pytest.mark.parametrize(("fault", "said"), [("raise", "ValueError"), ("leave_without_a_word", "left no result")])
def test_other_ends_without_a_result(engine, fault, said):
    engine.does(fault)
    with pytest.raises(CalculationError, match=said) as caught:
        run(engine)
    assert caught.value.kind is FailureKind.ENGINE_ERROR


def test_memory_is_bounded(engine):
    engine.does("hoard")
    with pytest.raises(CalculationError, match="ran out of memory over the volume") as caught:
        run(engine, task="volume")
    assert caught.value.kind is FailureKind.OUT_OF_MEMORY


def test_nothing_is_left_of_what_ended_well(engine):
    engine.does("leave_a_helper")
    assert run(engine).text == "done"
    engine.is_gone()


def test_an_old_result_is_not_taken_for_a_new_one(engine):
    engine.does("none")
    first = analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))
    assert first.area.accessible == 50.0
    engine.does("leave_without_a_word")
    with pytest.raises(CalculationError, match="left no result"):
        analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))


@pytest.mark.parametrize(
    ("fault", "said"),
    [("abort", "SIGABRT"), ("exit", "Illogical"), ("garbage", "cannot be read"), ("empty", "cannot be read")],
)
def test_one_retry_without_high_accuracy_and_the_output_says_so(engine, fault, said):
    engine.does(fault, "area/high")
    found = analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))
    assert found.settings == settings(high_accuracy=False)
    assert "the surface area" in found.retried
    assert said in found.retried
    first = [(task, "True") for task in ("diameters", "network", "area")]
    assert engine.ran == first + [(task, "False") for task in ("diameters", "network", "area", "volume")]


def test_a_time_out_is_followed_by_the_retry(engine):
    engine.does("hang", "volume/high")
    found = analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings(6.0)), work(engine.folder))
    assert found.settings.high_accuracy is False
    assert "did not finish the volume within 6 s" in found.retried
    assert engine.ran[3:5] == [("volume", "True"), ("diameters", "False")]
    engine.is_gone()


def test_without_a_fault_there_is_one_try(engine):
    engine.does("none")
    found = analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))
    assert (found.retried, found.settings) == ("", settings())
    assert [task for task, _ in engine.ran] == ["diameters", "network", "area", "volume"]


@pytest.mark.parametrize(
    ("fault", "step", "kind"),
    [
        ("abort", "diameters", FailureKind.CRASH),
        ("exit", "network", FailureKind.ENGINE_ERROR),
        ("garbage", "volume", FailureKind.ENGINE_ERROR),
        ("hoard", "area", FailureKind.OUT_OF_MEMORY),
    ],
)
def test_after_the_second_try_it_fails_and_tells_of_both(engine, fault, step, kind):
    engine.does(fault, step)
    with pytest.raises(CalculationError, match="second try, without high accuracy; the first: ") as caught:
        analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))
    assert caught.value.kind is kind
    assert caught.value.details["step"] == step
    assert caught.value.details["first"]["kind"] == kind.value
    assert engine.ran.count((step, "True")) == engine.ran.count((step, "False")) == 1
    engine.is_gone()


def test_an_element_without_a_radius_is_refused_by_name_and_not_tried_again(engine):
    engine.does("no_radius")
    with pytest.raises(CalculationError, match="no radius for the element Og") as caught:
        analyze.function(AnalyzeInput(structure=CRYSTAL, settings=settings()), work(engine.folder))
    assert caught.value.kind is FailureKind.BAD_INPUT
    assert len(engine.ran) == 1


def test_where_pyzeo_is_missing_it_says_what_to_install(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyzeo", None)
    with pytest.raises(MissingExtra, match="pyzeo is needed to measure pores"):
        analyze.function(AnalyzeInput(structure=CRYSTAL), work(engine.folder))


def test_time_for_both_tries_is_asked_for():
    value = AnalyzeInput(structure=CRYSTAL, settings=settings(50.0))
    assert analyze.resources(value).walltime_s > 2 * 4 * 50.0


def test_a_calculation_that_is_killed_takes_zeo_with_it(engine):
    engine.does("hang")
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.frameworks.test_zeo_process import CRYSTAL, settings\n"
        "from grafico.frameworks.zeo import cssr, run_zeo\n"
        "run_zeo('area', cssr(CRYSTAL), settings(600.0), Path(sys.argv[1]), memory_mib=600)\n"
    )
    calculation = subprocess.Popen(
        [sys.executable, "-c", script, str(engine.folder / "zeo")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(FAKE), str(Path(__file__).parents[2])])},
    )
    try:
        _until(lambda: engine.notes.is_file() and engine.alive)
        calculation.send_signal(signal.SIGKILL)
    finally:
        calculation.kill()
        calculation.wait()
    engine.is_gone()


def _until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
