"""A folder with a small science of its own, and job files in it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MATERIAL = Path(__file__).parent.parent / "material"

JOB = """\
name: tiny
graph: grafico_tiny:GRAPH
cluster: small.yaml
knowledge: {persist: false}
input:
  numbers: [1, 2, 3]
"""

PROFILE = """\
name: small
pools:
  - name: cpu
    cpus: 2
    memory_mib: 1000
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which the tiny science, its profile and a job lie; the current folder, too."""
    shutil.copy(MATERIAL / "grafico_tiny.py", tmp_path)
    (tmp_path / "small.yaml").write_text(PROFILE)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("GRAFICO_DEBUG", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path
    sys.modules.pop("grafico_tiny", None)


@pytest.fixture
def job(bench: Path) -> Callable[..., Path]:
    """Write a job file: the tiny one with lines put in, or a text of one's own."""

    def write(text: str | bytes = JOB, *, extra: str = "", name: str = "job.yaml") -> Path:
        path = bench / name
        data = text if isinstance(text, bytes) else (text + extra).encode()
        path.write_bytes(data)
        return path

    return write
