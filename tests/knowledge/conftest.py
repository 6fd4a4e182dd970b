import sys
from pathlib import Path

import pytest

from grafico.knowledge import KnowledgeBase, RemoteKnowledgeBase, RunKnowledge

sys.path.insert(0, str(Path(__file__).parent))

from real_runs import ensemble_run, hydrogen_run

__all__ = ["ensemble_run", "hydrogen_run"]


@pytest.fixture(scope="session")
def _oxigraph():
    from endpoints import Oxigraph

    server = Oxigraph()
    yield server
    server.close()


@pytest.fixture
def server(_oxigraph, monkeypatch):
    """A real SPARQL 1.1 server, empty."""
    for name in ("GRAFICO_KB_USER", "GRAFICO_KB_PASSWORD", "GRAFICO_KB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    _oxigraph.update("DROP ALL")
    return _oxigraph


@pytest.fixture
def knowledge(request, tmp_path):
    if getattr(request, "param", "folder") == "http":
        return RemoteKnowledgeBase(request.getfixturevalue("server").url, timeout_s=60)
    return KnowledgeBase(tmp_path / "kb", wait_s=20)


@pytest.fixture
def another(knowledge):
    """The same store, as another program sees it."""

    def open_again():
        if isinstance(knowledge, KnowledgeBase):
            return KnowledgeBase(knowledge.folder, wait_s=20)
        return RemoteKnowledgeBase(knowledge.place, timeout_s=60)

    return open_again


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


@pytest.fixture
def fresh_plan(registry, monkeypatch):
    """What is known of properties and enums is forgotten: tests define the same ones in other ways."""
    from grafico.knowledge import plan

    monkeypatch.setattr(plan, "_PROPERTIES", {})
    monkeypatch.setattr(plan, "_ENUMS", {})
