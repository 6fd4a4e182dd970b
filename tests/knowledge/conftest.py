import sys
from pathlib import Path

import pytest

from grafico.knowledge import KnowledgeBase, RunKnowledge

sys.path.insert(0, str(Path(__file__).parent))

from real_runs import ensemble_run, hydrogen_run

__all__ = ["ensemble_run", "hydrogen_run"]


@pytest.fixture
def knowledge(tmp_path):
    return KnowledgeBase(tmp_path / "kb", wait_s=20)


@pytest.fixture
def registry(monkeypatch):
    """Entity classes that a test defines are forgotten after it."""
    from grafico.knowledge import entity

    monkeypatch.setattr(entity, "_REGISTRY", dict(entity._REGISTRY))


@pytest.fixture
def run(tmp_path, knowledge):
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    return RunKnowledge(folder, run_id="first", store=knowledge)
