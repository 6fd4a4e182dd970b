"""What happens when an SCF or an optimization does not converge, and what hints are for."""

import pytest
from qc_support import Walked, structure_of

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef, CalculationError, FailureKind, Resources
from grafico.chemistry.calculations.optimization import OptimizationInput, optimization
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.quantum_chemistry import QCRequest
from grafico.chemistry.request import Level, MoleculeInput, Solvent
from grafico.chemistry.resources import LADDER, dft_resources

FORMALDEHYDE = "C 0 0 -0.53\nO 0 0 0.676\nH 0 0.937 -1.115\nH 0 -0.937 -1.115"
STO = Level(method="hf", basis="sto-3g")


def energy(atoms, level, ctx):
    return single_point.function(SinglePointInput(atoms=atoms, level=level), ctx).electronic.energy


def rungs(kind):
    """Return the settings of each rung, merged as the engine merges them."""
    merged, found = {}, []
    for rung in LADDER[kind]:
        merged = {**merged, **rung.settings}
        found.append(dict(merged))
    return found


def test_every_rung_of_the_ladder_finds_the_same_energy(references, work):
    for name in ("water", "methyl_radical"):
        atoms = structure_of(references[name])
        plain = energy(atoms, STO, work())
        for settings in rungs(FailureKind.SCF_NOT_CONVERGED):
            assert energy(atoms, STO, work(settings=settings)) == pytest.approx(plain, abs=1e-8)


@pytest.mark.parametrize("fields", [{"density_fit": True}, {"restricted": True}, {"method": "pbe0-d4"}])
def test_second_order_scf_goes_with_every_kind_of_level(fields, references, work):
    atoms = structure_of(references["methyl_radical"])
    level = Level(**{"method": "hf", "basis": "sto-3g", **fields})
    newton = rungs(FailureKind.SCF_NOT_CONVERGED)[-1]
    value = SinglePointInput(atoms=atoms, level=level, gradient=True)
    plain = single_point.function(value, work())
    solved = single_point.function(value, work(settings=newton))
    assert solved.electronic.energy == pytest.approx(plain.electronic.energy, abs=1e-8)
    assert solved.gradient_norm == pytest.approx(plain.gradient_norm, abs=1e-5)


@pytest.mark.slow
def test_a_chromium_atom_needs_second_order_scf(work):
    # Its 3d and 4s orbitals lie so close that the default SCF swaps them for ever; so does the shifted one.
    chromium = ConceptualAtoms(symbols=("Cr",), positions=((0, 0, 0),), multiplicity=7)
    level = Level(method="pbe", basis="sto-3g", grid=1, scf_cycles=40)
    plain, shifted, newton = {}, *rungs(FailureKind.SCF_NOT_CONVERGED)
    for settings in (plain, shifted):
        with pytest.raises(CalculationError) as caught:
            energy(chromium, level, work(settings=settings))
        assert caught.value.kind is FailureKind.SCF_NOT_CONVERGED
    assert energy(chromium, level, work(settings=newton)) == pytest.approx(-1032.6765, abs=0.01)


def test_an_scf_out_of_cycles_is_a_failure_of_its_kind(water, work):
    level = Level(method="hf", basis="sto-3g", scf_cycles=2)
    with pytest.raises(CalculationError, match="did not converge to 1e-09 hartree in 2 cycles") as caught:
        energy(water, level, work())
    assert caught.value.kind is FailureKind.SCF_NOT_CONVERGED


def test_a_walk_climbs_the_ladder_until_the_scf_converges():
    request = QCRequest(
        molecule=MoleculeInput(name="water"),
        tasks=("single_point",),
        level=Level(method="pbe", basis="sto-3g", scf_cycles=3),
    )
    walked = Walked(request)
    assert [task.attempt for task in walked.tasks] == [1, 2, 3]
    assert walked.tasks[2].settings["newton"] is True
    reference = Walked(request.model_copy(update={"level": Level(method="pbe", basis="sto-3g")}))
    assert walked.result.energy == pytest.approx(reference.result.energy, abs=1e-8)


def test_a_hopeless_scf_fails_after_the_last_rung_with_its_history():
    request = QCRequest(
        molecule=MoleculeInput(xyz=FORMALDEHYDE),
        tasks=("single_point",),
        level=Level(method="hf", basis="sto-3g", scf_cycles=1, scf_convergence=1e-13),
    )
    walked = Walked(request)
    assert walked.failure.kind is FailureKind.SCF_NOT_CONVERGED
    assert [attempt.number for attempt in walked.failure.history] == [1, 2, 3]
    assert walked.failure.where == "single_point"


def test_an_optimization_goes_on_from_its_last_geometry():
    request = QCRequest(molecule=MoleculeInput(name="methanol"), tasks=("optimize",), level=STO, max_steps=2)
    walked = Walked(request)
    first, second = walked.tasks[:2]
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.settings["hessian"] == "first"
    assert second.settings["restart"] != [list(p) for p in first.input["atoms"]["positions"]]
    assert walked.result.optimized
    assert second.key == first.key


def test_an_optimization_that_never_converges_is_never_called_done():
    request = QCRequest(
        molecule=MoleculeInput(xyz="O 0 0 0\nO 0 0 1.9\nH 0.9 0.5 -0.6\nH -0.9 0.6 2.6"),
        tasks=("optimize",),
        level=STO,
        max_steps=1,
        thresholds={"gradient_max": 1e-7, "gradient_rms": 1e-7, "energy": 1e-9},
    )
    walked = Walked(request)
    assert walked.failure.kind is FailureKind.NOT_CONVERGED
    assert len(walked.failure.history) == 3
    assert walked.state.geometry == "given"


def test_an_scf_failure_inside_an_optimization_is_of_its_own_kind(water, work):
    value = OptimizationInput(atoms=water, level=Level(method="hf", basis="sto-3g", scf_cycles=1))
    with pytest.raises(CalculationError) as caught:
        optimization.function(value, work())
    assert caught.value.kind is FailureKind.SCF_NOT_CONVERGED


def test_memory_and_time_have_rungs_too():
    memory = LADDER[FailureKind.OUT_OF_MEMORY]
    first = memory[0].apply(Resources(gpu="slot", gpu_memory_mib=4000, memory_mib=2000))
    second = memory[1].apply(first)
    # A whole GPU gives all that it has; to ask for twice a share could be more than any card has.
    assert (first.gpu, first.gpu_memory_mib, first.memory_mib) == ("exclusive", 4000, 4000)
    assert (second.gpu, second.gpu_memory_mib, second.memory_mib) == ("none", 0, 4000)
    longer = LADDER[FailureKind.TIMEOUT][0].apply(Resources(walltime_s=100.0))
    assert longer.walltime_s == 300.0


def test_a_wavefunction_is_a_hint_that_changes_no_energy(water, work):
    moved = water.moved(tuple((x, y, z + 0.02 * i) for i, (x, y, z) in enumerate(water.positions)))
    plain = energy(moved, STO, work())
    first = single_point.function(SinglePointInput(atoms=water, level=STO), work())
    for level in (STO, Level(method="hf", basis="def2-svp"), Level(method="hf", basis="sto-3g", restricted=False)):
        ctx = work(hints={"density": first.electronic.wavefunction})
        found = energy(moved, level, ctx)
        assert ctx.reused_hints == ["density"]
        assert found == pytest.approx(energy(moved, level, work()), abs=1e-8)
    assert plain != first.electronic.energy


def test_a_wavefunction_of_another_molecule_or_a_damaged_one_is_passed_over(water, references, work):
    other = single_point.function(SinglePointInput(atoms=structure_of(references["formaldehyde"]), level=STO), work())
    damaged = work().artifacts.put(b"no archive", "application/x-npz")
    gone = ArtifactRef(digest="0" * 64, size=1)
    for hint in (other.electronic.wavefunction, damaged, gone):
        ctx = work(hints={"density": hint})
        assert energy(water, STO, ctx) == pytest.approx(energy(water, STO, work()), abs=1e-8)
        assert ctx.reused_hints == []


def test_a_wavefunction_of_another_spin_is_passed_over(work):
    stretched = ConceptualAtoms(symbols=("H", "H"), positions=((0, 0, 0), (0, 0, 0.74)), multiplicity=3)
    triplet = single_point.function(SinglePointInput(atoms=stretched, level=STO), work())
    ctx = work(hints={"density": triplet.electronic.wavefunction})
    singlet = stretched.model_copy(update={"multiplicity": 1})
    energy(singlet, STO, ctx)
    assert ctx.reused_hints == []


def test_a_gpu_is_asked_for_where_it_pays_and_can_do_it():
    atoms = ConceptualAtoms(symbols=("C",) * 6, positions=tuple((1.5 * n, 0.0, 0.0) for n in range(6)))
    large = Level(basis="def2-tzvp", density_fit=True)
    assert dft_resources(atoms, large, "single_point").gpu == "slot"
    assert dft_resources(atoms, Level(basis="sto-3g"), "single_point").gpu == "none"
    for model, gpu in (("smd", "slot"), ("ddcosmo", "none")):
        solvated = large.model_copy(update={"solvent": Solvent(name="water", model=model)})
        assert dft_resources(atoms, solvated, "single_point").gpu == gpu
