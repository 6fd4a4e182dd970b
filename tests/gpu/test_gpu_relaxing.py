"""Frameworks relaxed on a GPU and on the CPU: the same minima. Unverified (no GPU here)."""

from typing import Any

import numpy
import pytest

from grafico.bench.frameworks import small_frameworks
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.calculations.relax_batch import relax_batch
from grafico.frameworks.steps import RelaxationSettings, RelaxBatchInput, RelaxInput

torch = pytest.importorskip("torch")
pytest.importorskip("sevenn")

SETTINGS = RelaxationSettings(fmax=0.05)


@pytest.fixture(autouse=True)
def sees_the_card() -> None:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch sees no GPU: it may be a build for CPUs")


def lengths(found: Any) -> list[float]:
    return [float(numpy.linalg.norm(vector)) for vector in found.structure.cell]


def test_one_framework_has_the_same_minimum(work: Any) -> None:
    value = RelaxInput(structure=small_frameworks()["Zn80"], settings=SETTINGS)
    on_gpu = work("gpu")
    ours = relax.function(value, on_gpu)
    assert "torch" in on_gpu.versions  # by that name the outcome says that a GPU was used
    theirs = relax.function(value, work("cpu"))
    assert ours.energy == pytest.approx(theirs.energy, abs=1e-3 * 80)
    assert lengths(ours) == pytest.approx(lengths(theirs), rel=5e-3)
    assert ours.force <= SETTINGS.fmax


def test_many_at_once_are_as_one_by_one(work: Any) -> None:
    pytest.importorskip("torch_sim")
    structures = small_frameworks()
    found = relax_batch.function(RelaxBatchInput(structures=structures, settings=SETTINGS), work("gpu"))
    assert found.failed == {}
    for name, atoms in structures.items():
        alone = relax.function(RelaxInput(structure=atoms, settings=SETTINGS), work("gpu"))
        assert found.relaxed[name].energy == pytest.approx(alone.energy, abs=1e-3 * len(atoms))
        assert lengths(found.relaxed[name]) == pytest.approx(lengths(alone), rel=5e-3)
