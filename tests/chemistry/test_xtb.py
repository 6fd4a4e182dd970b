"""xTB energies, optimizations, and how they fail."""

import re
import subprocess
from types import SimpleNamespace

import numpy
import pytest

from grafico.atoms import ConceptualAtoms, from_ase, write_xyz
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.chemistry.calculations.xtb import (
    ALPB_SOLVENTS,
    XTBInput,
    XTBLevel,
    XTBOptimizationInput,
    xtb_optimization,
    xtb_single_point,
)
from grafico.graphs import FolderArtifacts
from tests.programs import need


@pytest.fixture
def ctx(tmp_path):
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "scratch").mkdir()
    return WorkContext(artifacts=FolderArtifacts(tmp_path / "artifacts"), scratch=tmp_path / "scratch")


@pytest.fixture
def water():
    from ase.build import molecule

    return from_ase(molecule("H2O"))


# Computed with tblite 0.8.0 and xtb 6.5.1, which agree to 1e-6 hartree.
@pytest.mark.parametrize(("solvent", "energy"), [(None, -5.070222), ("water", -5.084802)])
def test_reference_energies_of_water(ctx, water, solvent, energy):
    found = xtb_single_point.function(XTBInput(atoms=water, level=XTBLevel(solvent=solvent)), ctx)
    assert found.energy == pytest.approx(energy, abs=1e-6)
    assert ctx.versions["tblite"]


def test_energies_and_gradients_agree_with_the_xtb_library(ctx, water):
    from xtb.interface import Calculator
    from xtb.utils import get_method

    calculator = Calculator(
        get_method("GFN2-xTB"), numpy.array([8, 1, 1]), numpy.array(water.positions) / 0.529177210903
    )
    calculator.set_verbosity(0)
    calculator.set_accuracy(0.1)
    theirs = calculator.singlepoint()
    ours = xtb_single_point.function(XTBInput(atoms=water), ctx)
    assert ours.energy == pytest.approx(theirs.get_energy(), abs=1e-6)
    assert ours.gradient_norm == pytest.approx(numpy.linalg.norm(theirs.get_gradient()), abs=1e-5)


@pytest.mark.parametrize("solvent", [None, "water", "benzene"])
def test_energies_agree_with_the_xtb_program(ctx, water, solvent, tmp_path):
    program = need("xtb")
    (tmp_path / "water.xyz").write_text(write_xyz(water))
    options = ["--gfn", "2", "--sp", "--acc", "0.1", *(["--alpb", solvent] if solvent else [])]
    done = subprocess.run(
        [program, "water.xyz", *options], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    (said,) = re.findall(r"TOTAL ENERGY\s+(-?\d+\.\d+) Eh", done.stdout)
    ours = xtb_single_point.function(XTBInput(atoms=water, level=XTBLevel(solvent=solvent)), ctx)
    assert ours.energy == pytest.approx(float(said), abs=1e-6)


def test_charge_and_multiplicity_are_used(ctx, water):
    cation = ConceptualAtoms(**{**water.model_dump(), "charge": 1, "multiplicity": 2})
    ionized = xtb_single_point.function(XTBInput(atoms=cation), ctx).energy
    assert ionized - xtb_single_point.function(XTBInput(atoms=water), ctx).energy > 0.3


def test_an_optimization_ends_at_a_minimum(ctx, water):
    found = xtb_optimization.function(XTBOptimizationInput(atoms=water), ctx)
    again = xtb_single_point.function(XTBInput(atoms=found.atoms), ctx)
    assert found.energy == pytest.approx(again.energy, abs=1e-8)
    assert found.energy < -5.0705
    assert found.force < 0.005
    assert not found.bonds


def test_a_step_limit_is_a_failure_and_never_a_result(ctx, water):
    stretched = water.moved(tuple((x * 1.2, y * 1.2, z * 1.2) for x, y, z in water.positions))
    with pytest.raises(CalculationError, match="after 1 steps the largest force is") as caught:
        xtb_optimization.function(XTBOptimizationInput(atoms=stretched, steps=1), ctx)
    assert caught.value.kind is FailureKind.NOT_CONVERGED
    ladder = xtb_optimization.ladder[FailureKind.NOT_CONVERGED]
    ctx.settings = {**ladder[0].settings, "scale_steps": 300}
    assert xtb_optimization.function(XTBOptimizationInput(atoms=stretched, steps=1), ctx).force < 0.005


def test_an_scf_that_does_not_converge_is_told_apart(ctx, water):
    ctx.settings = {"max_iterations": 1}
    with pytest.raises(CalculationError, match="not converged") as caught:
        xtb_single_point.function(XTBInput(atoms=water), ctx)
    assert caught.value.kind is FailureKind.SCF_NOT_CONVERGED
    assert xtb_single_point.ladder[FailureKind.SCF_NOT_CONVERGED]


def test_an_unknown_solvent_is_bad_input(ctx, water):
    with pytest.raises(CalculationError) as caught:
        xtb_single_point.function(XTBInput(atoms=water, level=XTBLevel(solvent="n-heptane")), ctx)
    assert caught.value.kind is FailureKind.BAD_INPUT


@pytest.mark.parametrize("solvent", ALPB_SOLVENTS)
def test_every_listed_solvent_is_known_to_tblite(ctx, water, solvent):
    assert xtb_single_point.function(XTBInput(atoms=water, level=XTBLevel(solvent=solvent)), ctx).energy < -5.07


def test_a_bond_that_breaks_on_the_way_is_reported(ctx):
    # H3 in a row falls apart into H2 and H.
    row = ConceptualAtoms(symbols=("H", "H", "H"), positions=((0, 0, 0), (0, 0, 0.7), (0, 0, 1.45)), multiplicity=2)
    found = xtb_optimization.function(XTBOptimizationInput(atoms=row), ctx)
    assert isinstance(found.bonds.broken, tuple)


def test_walltime_grows_with_the_molecule(water):
    small = xtb_single_point.resources(XTBInput(atoms=water))
    many = SimpleNamespace(atoms=[None] * 300)
    assert xtb_single_point.resources(many).walltime_s > 10 * small.walltime_s
