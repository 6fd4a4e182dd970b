"""A screen of frameworks whose controller is killed: resumed, it ends with the table of a screen that was left alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Two nets and two linkers; hex has no cube, so N625 does not fit there (RMSD 0.319), which is a row as well.
JOB = """\
name: screen
graph: framework-design
input:
  tasks: [build, analyze]
  build: {node: N625}
  analysis: {samples: 50, volume_samples: 100}
matrix:
  input.build.topology: [bcu, hex]
  input.build.linker: [E14, E44]
"""


def start(*arguments: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Start the command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "grafico.cli.main", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "said.txt").open("ab"),
        start_new_session=True,
        env={**os.environ, "GRAFICO_KB": str(folder / "kb"), "OMP_NUM_THREADS": "1"},
    )


def outcomes(base: Path) -> list[Path]:
    return list(base.glob("runs/*/outcomes/*/*.json"))


@pytest.mark.slow
def test_the_table_is_the_same(tmp_path: Path) -> None:
    tables = {}
    for name in ("alone", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "job.yaml").write_text(JOB)
        process = start("run", "job.yaml", "-q", folder=folder)
        if name == "killed":
            deadline = time.monotonic() + 300
            while not outcomes(folder) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert process.poll() is None, (folder / "said.txt").read_text()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            before = {path: path.stat().st_mtime_ns for path in outcomes(folder)}
            (run,) = (folder / "runs").iterdir()
            assert not (run / "results" / "table.csv").exists()
            process = start("resume", "last", "-q", folder=folder)
        assert process.wait(timeout=500) == 3, (folder / "said.txt").read_text()
        (run,) = (folder / "runs").iterdir()
        tables[name] = (run / "results" / "table.csv").read_text()
        assert (run / "results" / "pores.png").read_bytes().startswith(b"\x89PNG")
    assert before
    # What was committed before the kill was not computed again.
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert tables["killed"] == tables["alone"]
    lines = tables["alone"].splitlines()
    assert len(lines) == 5
    assert sum(",success," in line for line in lines) == 2
    assert sum(",refused," in line and "0.319" in line for line in lines) == 2
