"""Structures with reference values, and a place for artifacts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qc_support import DATA, structure_of

from grafico.atoms import ConceptualAtoms
from grafico.calculations import WorkContext
from grafico.graphs import FolderArtifacts


@pytest.fixture(scope="session")
def references() -> dict[str, Any]:
    """Reference values at given geometries, by molecule."""
    return json.loads((DATA / "single-points.json").read_text())["molecules"]


@pytest.fixture(scope="session")
def water(references: dict[str, Any]) -> ConceptualAtoms:
    return structure_of(references["water"])


@pytest.fixture
def work(tmp_path: Path) -> Callable[..., WorkContext]:
    """Make a WorkContext; all of one test share their artifacts."""
    artifacts = FolderArtifacts(tmp_path)

    def make(**fields: Any) -> WorkContext:
        return WorkContext(artifacts=artifacts, scratch=tmp_path, memory_mib=3000, **fields)

    return make
