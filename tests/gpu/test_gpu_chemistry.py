"""The same calculations on a GPU and on the CPU: the same numbers."""

from typing import Any

import pytest

from grafico.chemistry.calculations.frequencies import FrequenciesInput, frequencies
from grafico.chemistry.calculations.optimization import OptimizationInput, optimization
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.calculations.tddft import TDDFTInput, tddft
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.request import ExcitedStates, Level, MoleculeInput, Solvent

WATER = MoleculeInput(name="water")
# Fitted on both sides, so that they use the same integrals.
FITTED = Level(density_fit=True)


def both(calculation: Any, value: Any, work: Any) -> tuple[Any, Any]:
    on_gpu = work("gpu")
    found = calculation.function(value, on_gpu)
    assert "gpu4pyscf" in on_gpu.versions
    return found, calculation.function(value, work("cpu"))


@pytest.mark.parametrize("level", [FITTED, Level(method="wb97x-d4", density_fit=True)], ids=["b3lyp", "wb97x-d4"])
def test_energies_agree(level: Level, work: Any) -> None:
    gpu, cpu = both(single_point, SinglePointInput(atoms=resolve_molecule(WATER), level=level), work)
    assert gpu.electronic.energy == pytest.approx(cpu.electronic.energy, abs=1e-6)


def test_solvated_energies_agree(work: Any) -> None:
    level = FITTED.model_copy(update={"solvent": Solvent(name="water")})
    gpu, cpu = both(single_point, SinglePointInput(atoms=resolve_molecule(WATER), level=level), work)
    assert gpu.electronic.energy == pytest.approx(cpu.electronic.energy, abs=1e-5)


def test_optimized_geometries_and_frequencies_agree(work: Any) -> None:
    gpu, cpu = both(optimization, OptimizationInput(atoms=resolve_molecule(WATER), level=FITTED), work)
    assert gpu.electronic.energy == pytest.approx(cpu.electronic.energy, abs=1e-5)
    ours, theirs = both(frequencies, FrequenciesInput(atoms=cpu.atoms, level=FITTED), work)
    assert ours.wavenumbers == pytest.approx(theirs.wavenumbers, abs=2.0)


def test_excitations_agree(work: Any) -> None:
    value = TDDFTInput(atoms=resolve_molecule(WATER), level=FITTED, states=ExcitedStates(roots=4))
    gpu, cpu = both(tddft, value, work)
    for ours, theirs in zip(gpu.excitations, cpu.excitations, strict=True):
        assert ours.energy_ev == pytest.approx(theirs.energy_ev, abs=0.005)
        assert ours.oscillator_strength == pytest.approx(theirs.oscillator_strength, abs=0.002)
