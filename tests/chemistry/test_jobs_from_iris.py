"""Jobs that begin with a thing of the knowledge base."""

import json
import shutil

import pytest
from qc_support import Walked
from typer.testing import CliRunner

from grafico.atoms import ConceptualAtoms
from grafico.chemistry.identity import conformer_entity, molecule_entity
from grafico.chemistry.quantum_chemistry import QCRequest
from grafico.chemistry.request import Level, MoleculeInput
from grafico.cli.main import app
from grafico.graphs import MemoryRecorder
from grafico.jobs.load import load_job
from grafico.jobs.plan import foreseen_of
from grafico.knowledge import KnowledgeBase, RunKnowledge, using_store

HYDROGEN = ConceptualAtoms(symbols=("H", "H"), positions=((0.0, 0.0, 0.0), (0.0, 0.0, 0.7)))
NOTHING = "https://example.org/nothing"


@pytest.fixture
def conformer(tmp_path, monkeypatch):
    """A conformer in the store that a job names; the user's own store is empty."""
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "own"))
    entity = conformer_entity(HYDROGEN, molecule_entity(HYDROGEN))
    (tmp_path / "run").mkdir()
    RunKnowledge(tmp_path / "run", store=KnowledgeBase(tmp_path / "shared")).persist_now([entity])
    return entity


def job_file(tmp_path, iri):
    path = tmp_path / "job.yaml"
    path.write_text(
        f"graph: quantum-chemistry\nknowledge: {{store: shared}}\n"
        f"input:\n  molecule: {{iri: {json.dumps(iri)}}}\n  level: {{method: hf, basis: sto-3g}}\n"
    )
    return path


def test_a_job_finds_its_molecule_in_the_store_that_it_names(conformer, tmp_path):
    loaded = load_job(job_file(tmp_path, conformer.iri))
    assert loaded.request.molecule.iri == conformer.iri
    assert foreseen_of(type("Prepared", (), {"loaded": loaded}))


@pytest.mark.parametrize(("iri", "message"), [(NOTHING, "no entity"), (None, "no one geometry")])
def test_what_is_no_structure_is_refused_before_any_calculation(iri, message, conformer, tmp_path):
    path = job_file(tmp_path, iri or conformer.molecule.iri)
    for arguments in (["run", str(path)], ["run", str(path), "--dry-run"]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2
        assert message in done.stderr
        assert "line 4" in done.stderr
        assert "→" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_replay_does_not_ask_the_knowledge_base_again(conformer, tmp_path):
    request = QCRequest(molecule=MoleculeInput(iri=conformer.iri), level=Level(method="hf", basis="sto-3g"))
    recorder = MemoryRecorder()
    with using_store(tmp_path / "shared"):
        first = Walked(request, recorder=recorder)
    assert first.result.atoms.symbols == ("H", "H")
    shutil.rmtree(tmp_path / "shared")
    again = Walked(request, recorder=recorder)
    assert again.result == first.result
    assert not again.tasks
    # The user's own store, which is asked without it, has no such thing.
    assert "no entity" in Walked(request).failure.message
