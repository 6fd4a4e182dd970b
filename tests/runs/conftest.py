"""Runs to test with."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grafico.runs import Run

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[[], Run]:
    """Return a maker of fresh runs."""

    def make() -> Run:
        return Run.create(
            tmp_path / "runs", "test", job_source=b"name: test\n", job={"name": "test"}, graph="g", graph_version="1"
        )

    return make


@pytest.fixture
def run(new_run: Callable[[], Run]) -> Run:
    """A fresh run."""
    return new_run()
