"""Vertical excitations: reference values, spin, solvent, and what has no meaning."""

import pytest
from qc_support import structure_of

from grafico.atoms import ConceptualAtoms
from grafico.calculations import CalculationError, FailureKind
from grafico.chemistry.calculations.tddft import TDDFTInput, tddft
from grafico.chemistry.request import ExcitedStates, Level, Solvent


def excite(atoms, work, level=None, **states):
    value = TDDFTInput(atoms=atoms, level=level or Level(), states=ExcitedStates(**states))
    return tddft.function(value, work())


@pytest.mark.parametrize("name", ["water", "formaldehyde"])
def test_singlets_agree_with_the_references(name, references, work):
    found = excite(structure_of(references[name]), work, roots=5)
    assert [state.energy_ev for state in found.excitations] == pytest.approx(
        references[name]["tddft_singlet_ev"], abs=2e-3
    )
    strengths = [state.oscillator_strength for state in found.excitations]
    assert strengths == pytest.approx(references[name]["tddft_f"], abs=5e-4)
    assert found.complete
    first = found.excitations[0]
    assert first.wavelength_nm == pytest.approx(1239.84198 / first.energy_ev, abs=1e-3)


@pytest.mark.parametrize("name", ["water", "formaldehyde"])
def test_tamm_dancoff_singlets_and_triplets_agree_with_the_references(name, references, work):
    found = excite(structure_of(references[name]), work, roots=5, tda=True, triplets=True)
    singlets = [state.energy_ev for state in found.excitations if state.kind == "singlet"]
    triplets = [state for state in found.excitations if state.kind == "triplet"]
    assert singlets == pytest.approx(references[name]["tda_singlet_ev"], abs=2e-3)
    assert [state.energy_ev for state in triplets[:3]] == pytest.approx(references[name]["tda_triplet_ev"], abs=2e-3)
    assert all(state.oscillator_strength == 0 for state in triplets)
    energies = [state.energy_ev for state in found.excitations]
    assert energies == sorted(energies)


def test_the_first_excitation_of_formaldehyde_is_from_lone_pair_to_pi_star(references, work):
    level = Level(method="hf", basis="sto-3g")
    first = excite(structure_of(references["formaldehyde"]), work, level, roots=2).excitations[0]
    promotion = first.promotions[0]
    assert (promotion.occupied, promotion.empty) == (8, 9)
    assert promotion.weight > 0.9
    assert first.oscillator_strength == pytest.approx(0.0, abs=1e-8)


def test_open_shells_conserve_their_spin(references, work):
    level = Level(method="pbe", basis="sto-3g")
    found = excite(structure_of(references["methyl_radical"]), work, level, roots=3)
    assert {state.kind for state in found.excitations} == {"spin-conserving"}
    assert {promotion.spin for state in found.excitations for promotion in state.promotions} <= {"alpha", "beta"}


def test_a_restricted_open_shell_is_refused(references, work):
    level = Level(method="hf", basis="sto-3g", restricted=True)
    with pytest.raises(CalculationError, match="restricted open shell") as caught:
        excite(structure_of(references["methyl_radical"]), work, level)
    assert caught.value.kind is FailureKind.BAD_INPUT


def test_in_a_solvent_only_its_fast_polarization_follows_unless_asked(work):
    from pyscf import gto, scf

    fluoride = ConceptualAtoms(symbols=("H", "F"), positions=((0, 0, 0), (0, 0, 0.92)))
    level = Level(method="hf", basis="sto-3g", solvent=Solvent(name="water"))
    vertical = excite(fluoride, work, level, roots=2).excitations[0].energy_ev
    relaxed = excite(fluoride, work, level, roots=2, equilibrium_solvation=True).excitations[0].energy_ev
    mol = gto.M(atom=list(zip(fluoride.symbols, fluoride.positions, strict=True)), basis="sto-3g", verbose=0)
    mf = scf.RHF(mol).SMD()
    mf.with_solvent.solvent = "water"
    solver = mf.run().TDHF()
    solver.nstates = 2
    assert vertical == pytest.approx(float(solver.kernel()[0][0]) * 27.211386, abs=1e-4)
    assert relaxed < vertical - 0.001


def test_no_more_roots_are_sought_than_the_basis_has_room_for(work):
    hydrogen = ConceptualAtoms(symbols=("H", "H"), positions=((0, 0, 0), (0, 0, 0.74)))
    found = excite(hydrogen, work, Level(method="hf", basis="sto-3g"), roots=10)
    assert len(found.excitations) == 1
    assert not found.complete


def test_roots_that_do_not_converge_are_a_failure(water, work):
    value = TDDFTInput(
        atoms=water, level=Level(method="hf", basis="def2-svp"), states=ExcitedStates(roots=3, convergence=1e-8)
    )
    with pytest.raises(CalculationError, match="did not converge") as caught:
        tddft.function(value, work(settings={"tddft_cycles": 1}))
    assert caught.value.kind is FailureKind.NOT_CONVERGED
    assert tddft.ladder[FailureKind.NOT_CONVERGED]
    # The ladder's own settings are enough.
    rung = tddft.ladder[FailureKind.NOT_CONVERGED][0]
    assert tddft.function(value, work(settings=dict(rung.settings))).complete
