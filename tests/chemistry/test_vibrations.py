"""Optimized geometries, frequencies, infrared intensities and thermochemistry."""

import json
import math

import numpy
import pytest
import yaml
from qc_support import DATA, structure_of

from grafico.atoms import ConceptualAtoms, read_xyz
from grafico.calculations import CalculationError, FailureKind
from grafico.chemistry import hessian
from grafico.chemistry.calculations.displacement import DisplacementInput, displacement
from grafico.chemistry.calculations.frequencies import FrequenciesInput, Mode, frequencies
from grafico.chemistry.calculations.optimization import OptimizationInput, optimization
from grafico.chemistry.calculations.tddft import TDDFTInput, tddft
from grafico.chemistry.request import ExcitedStates, Level, Solvent
from grafico.chemistry.thermochemistry import Rotor, thermochemistry

REFERENCE = yaml.safe_load((DATA / "water.yaml").read_text())
LEVELS = {
    "b3lyp_opt": Level(),
    "b3lyp_opt_density_fit": Level(density_fit=True),
    "b3lyp_opt_smd_water": Level(solvent=Solvent(name="water")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_optimized_water_agrees_with_the_references(name, water, work):
    reference, level = REFERENCE[name], LEVELS[name]
    relaxed = optimization.function(OptimizationInput(atoms=water, level=level), work())
    assert relaxed.converged
    assert relaxed.gradient_max < 4.5e-4
    assert relaxed.electronic.energy == pytest.approx(reference["energy"], abs=1e-5)
    ctx = work(hints={"density": relaxed.electronic.wavefunction})
    found = frequencies.function(FrequenciesInput(atoms=relaxed.atoms, level=level, gradient=False), ctx)
    assert ctx.reused_hints == ["density"]
    assert found.analytical
    assert found.electronic.energy == pytest.approx(relaxed.electronic.energy, abs=1e-8)
    assert found.wavenumbers == pytest.approx(reference["frequencies"], abs=2.0)
    if name == "b3lyp_opt":
        oxygen, first, second = (numpy.array(p) for p in relaxed.atoms.positions)
        a, b = first - oxygen, second - oxygen
        angle = math.degrees(math.acos(a @ b / numpy.linalg.norm(a) / numpy.linalg.norm(b)))
        assert numpy.linalg.norm(a) == pytest.approx(reference["r_OH_angstrom"], abs=1e-3)
        assert angle == pytest.approx(reference["angle_deg"], abs=0.2)
        thermal = thermochemistry(found.electronic.energy, found.wavenumbers, found.rotor)
        assert thermal.zero_point_energy == pytest.approx(reference["zpe"], abs=1e-5)
        assert thermal.enthalpy == pytest.approx(reference["enthalpy"], abs=1e-5)
        assert thermal.gibbs == pytest.approx(reference["gibbs_298"], abs=1e-5)
        excited = REFERENCE["tddft_10_singlets_at_opt"]
        states = tddft.function(
            TDDFTInput(atoms=relaxed.atoms, level=level, states=ExcitedStates(roots=10)), work(hints=ctx.hints)
        )
        energies = [state.energy_ev for state in states.excitations[:5]]
        assert energies == pytest.approx(excited["energies"], abs=5e-3)
        strengths = [state.oscillator_strength for state in states.excitations[:5]]
        assert strengths == pytest.approx(excited["oscillator"], abs=2e-3)


# Close to the minimum, so that the test spends its time on the frequencies.
ETHANOL = """9

C -0.842 -0.322 -0.181
C  0.363  0.548  0.156
O  1.460 -0.192  0.650
H -1.698  0.290 -0.511
H -0.607 -1.028 -0.996
H -1.153 -0.911  0.697
H  0.647  1.157 -0.728
H  0.098  1.263  0.953
H  1.736 -0.812 -0.038
"""


@pytest.mark.slow
def test_ethanol_agrees_with_the_reference(work):
    reference = json.loads((DATA / "single-points.json").read_text())["frequencies"]["ethanol"]
    level = Level(density_fit=True)
    relaxed = optimization.function(OptimizationInput(atoms=read_xyz(ETHANOL), level=level), work())
    assert relaxed.electronic.energy == pytest.approx(reference["energy"], abs=1e-5)
    value = FrequenciesInput(atoms=relaxed.atoms, level=level, gradient=False)
    found = frequencies.function(value, work(hints={"density": relaxed.electronic.wavefunction}))
    assert len(found.wavenumbers) == 21
    assert found.wavenumbers[0] == pytest.approx(reference["lowest"], abs=reference["tolerance"])
    assert found.wavenumbers[-1] == pytest.approx(reference["OH_stretch"], abs=reference["tolerance"])
    assert found.imaginary == ()


@pytest.mark.parametrize("name", ["water", "methyl_radical"])
def test_analytical_and_numerical_second_derivatives_agree(name, references, work, monkeypatch):
    atoms, level = structure_of(references[name]), Level(method="hf", basis="sto-3g")
    value = FrequenciesInput(atoms=atoms, level=level, gradient=False)
    analytical = frequencies.function(value, work())

    def unavailable(*_args, **_kwargs):
        raise NotImplementedError("for this test")

    monkeypatch.setattr(hessian, "_analytical", unavailable)
    numerical = frequencies.function(value, work())
    assert (analytical.analytical, numerical.analytical) == (True, False)
    assert numerical.wavenumbers == pytest.approx(analytical.wavenumbers, abs=1.0)
    assert numerical.intensities == pytest.approx(analytical.intensities, abs=0.5)


def test_a_restricted_open_shell_has_frequencies_by_differences(references, work):
    level = Level(method="hf", basis="sto-3g", restricted=True)
    found = frequencies.function(
        FrequenciesInput(atoms=structure_of(references["methyl_radical"]), level=level), work()
    )
    assert not found.analytical
    assert len(found.wavenumbers) == 6
    assert found.gradient_norm > 0


def test_a_linear_molecule_has_one_mode_more(work):
    acid = ConceptualAtoms(symbols=("H", "C", "N"), positions=((0, 0, -1.07), (0, 0, 0), (0, 0, 1.153)))
    level = Level(method="hf", basis="sto-3g")
    relaxed = optimization.function(OptimizationInput(atoms=acid, level=level), work())
    found = frequencies.function(FrequenciesInput(atoms=relaxed.atoms, level=level), work())
    assert len(found.wavenumbers) == 4
    assert found.wavenumbers[0] == pytest.approx(found.wavenumbers[1], abs=0.5)
    assert (found.rotor.point_group, found.rotor.symmetry_number) == ("C∞v", 1)
    assert len(found.rotor.rotational_constants) == 1
    assert found.gradient_max < 4.5e-4


def test_a_step_cap_is_a_failure_that_hands_on_the_last_geometry(work):
    stretched = ConceptualAtoms(symbols=("O", "H", "H"), positions=((0, 0, 0), (0, 0, 1.5), (0, 1.5, 0.4)))
    value = OptimizationInput(atoms=stretched, level=Level(method="hf", basis="sto-3g"), max_steps=3)
    with pytest.raises(CalculationError, match="did not converge in 3 steps") as caught:
        optimization.function(value, work())
    assert caught.value.kind is FailureKind.NOT_CONVERGED
    details = caught.value.details
    assert details["gradient_max"] > 4.5e-4
    restart = details["carry"]["restart"]
    assert restart != [list(row) for row in stretched.positions]
    # The next attempt goes on from there.
    rung = optimization.ladder[FailureKind.NOT_CONVERGED][0]
    again = optimization.function(value, work(settings={**rung.settings, "restart": restart, "steps_factor": 10}))
    assert again.converged
    assert again.gradient_max < 4.5e-4


def test_an_atom_is_optimized_without_a_step_and_has_no_modes(work):
    helium = ConceptualAtoms(symbols=("He",), positions=((0, 0, 0),))
    level = Level(method="hf", basis="def2-svp")
    relaxed = optimization.function(OptimizationInput(atoms=helium, level=level), work())
    found = frequencies.function(FrequenciesInput(atoms=relaxed.atoms, level=level), work())
    assert found.wavenumbers == ()
    thermal = thermochemistry(found.electronic.energy, found.wavenumbers, found.rotor)
    # Sackur-Tetrode: the entropy of helium is 126.15 J/(mol K) at 298.15 K and 1 bar.
    at_one_bar = thermochemistry(0.0, (), found.rotor, pressure=100000.0)
    assert at_one_bar.entropy == pytest.approx(126.15, abs=0.02)
    assert thermal.enthalpy - thermal.energy == pytest.approx(2.5 * 3.166811563e-6 * 298.15, abs=1e-8)


def test_thermochemistry_agrees_with_pyscf(water, work):
    from pyscf import gto, scf
    from pyscf.hessian import thermo

    mol = gto.M(atom=list(zip(water.symbols, water.positions, strict=True)), basis="sto-3g", verbose=0)
    mf = scf.RHF(mol).run()
    wavenumbers = thermo.harmonic_analysis(mol, mf.Hessian().kernel())
    expected = thermo.thermo(mf, wavenumbers["freq_au"], 350.0, 50000.0)
    found = frequencies.function(FrequenciesInput(atoms=water, level=Level(method="hf", basis="sto-3g")), work())
    thermal = thermochemistry(
        found.electronic.energy, found.wavenumbers, found.rotor, temperature=350.0, pressure=50000.0
    )
    assert thermal.zero_point_energy == pytest.approx(expected["ZPE"][0], abs=1e-7)
    assert thermal.enthalpy == pytest.approx(expected["H_tot"][0], abs=1e-7)
    assert thermal.gibbs == pytest.approx(expected["G_tot"][0], abs=1e-7)
    assert thermal.heat_capacity == pytest.approx(expected["Cv_tot"][0] * 2625499.6394798, rel=1e-5)


def test_low_modes_count_as_rotors_in_the_quasi_harmonic_entropy():
    rotor = Rotor(mass=88.1, rotational_constants=(5.0, 3.0, 2.0))
    stiff = thermochemistry(0.0, (1500.0, 3000.0), rotor)
    soft = thermochemistry(0.0, (10.0, 1500.0, 3000.0), rotor)
    assert stiff.gibbs_quasi_rrho == pytest.approx(stiff.gibbs, abs=1e-6)
    # Harmonic, 10 cm-1 holds 33.4 J/(mol K); as a free rotor of that frequency (inertia 2.8e-47 kg m²) 21.5.
    assert soft.entropy - stiff.entropy == pytest.approx(33.4, abs=0.5)
    assert soft.entropy_quasi_rrho - stiff.entropy_quasi_rrho == pytest.approx(21.5, abs=0.1)
    assert soft.modes_left_out == 0


def test_imaginary_modes_are_left_out_and_counted():
    rotor = Rotor(mass=18.0, rotational_constants=(800.0, 430.0, 280.0))
    with_one = thermochemistry(-76.0, (-500.0, 1600.0, 3700.0), rotor)
    without = thermochemistry(-76.0, (1600.0, 3700.0), rotor)
    assert with_one.gibbs == without.gibbs
    assert with_one.modes_left_out == 1


def test_a_displacement_moves_the_atom_that_moves_most_by_the_amplitude(water, work):
    modes = (
        Mode(wavenumber=-900.0, displacements=((0.1, 0, 0), (-1, 0, 0), (-1, 0, 0))),
        Mode(wavenumber=-100.0, displacements=((0, 0, 0), (0, 1, 0), (0, 0, 0))),
    )
    forward = displacement.function(DisplacementInput(atoms=water, modes=modes, amplitude=0.3), work()).atoms
    backward = displacement.function(DisplacementInput(atoms=water, modes=modes, amplitude=0.3, sign=-1), work()).atoms
    start = numpy.array(water.positions)
    moved = numpy.linalg.norm(numpy.array(forward.positions) - start, axis=1)
    assert moved.max() == pytest.approx(0.3)
    assert numpy.array(forward.positions) + numpy.array(backward.positions) == pytest.approx(2 * start)
