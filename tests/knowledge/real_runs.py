"""Real runs through the command line, made once for all tests of a worker that look at one; nothing may change them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafico.knowledge import KnowledgeBase

__all__ = ["HYDROGEN", "Finished", "ensemble_run", "finished", "hydrogen_run"]

HYDROGEN = """
name: hydrogen
graph: quantum-chemistry
input:
  molecule: {xyz: "H 0 0 0\\nH 0 0 0.72"}
  level: {method: hf, basis: sto-3g}
  tasks: [optimize, frequencies, tddft]
  excited_states: {roots: 1}
"""
ENSEMBLE = """
name: tiny
graph: ensemble-spectrum
input:
  molecule: {smiles: ON=O}
  search: {engine: rdkit, seeds: 8, batches: 2}
  level: {method: hf, basis: sto-3g}
  excited_states: {roots: 2, tda: true}
  environments: [{name: gas}]
"""


@dataclass(frozen=True)
class Finished:
    """A run that has ended, and the store that it was indexed in."""

    folder: Path
    knowledge: KnowledgeBase

    @property
    def iri(self) -> str:
        """IRI of the run and of its graph."""
        return f"https://w3id.org/grafico/run/{self.folder.name}"


def finished(base: Path, job: str) -> Finished:
    """Run a job in a folder of its own, with a knowledge base beside it."""
    (base / "job.yaml").write_text(job)
    done = subprocess.run(
        [sys.executable, "-m", "grafico.cli.main", "run", "job.yaml", "--runs-dir", "runs", "--quiet"],
        cwd=base,
        env={**os.environ, "GRAFICO_KB": str(base / "kb"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (path for path in (base / "runs").iterdir() if not path.name.startswith("."))
    return Finished(folder, KnowledgeBase(base / "kb"))


@pytest.fixture(scope="session")
def hydrogen_run(tmp_path_factory):
    """Geometry, frequencies and an excited state of the hydrogen molecule."""
    return finished(tmp_path_factory.mktemp("hydrogen"), HYDROGEN)


@pytest.fixture(scope="session")
def ensemble_run(tmp_path_factory):
    """The conformers of nitrous acid and their spectrum."""
    return finished(tmp_path_factory.mktemp("ensemble"), ENSEMBLE)
