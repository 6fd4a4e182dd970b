"""Walks through the quantum chemistry graph: what may follow what, and what a result may say."""

import json

import pytest
from pydantic import ValidationError
from qc_support import PLANAR_AMMONIA, Walked, structure_of

from grafico.atoms import ConceptualAtoms
from grafico.calculations import FailureKind
from grafico.chemistry.quantum_chemistry import GRAPH, QCRequest, QCResult, QCState
from grafico.chemistry.request import ExcitedStates, Level, MoleculeInput, Solvent
from grafico.graphs import successors_of

STO = Level(method="hf", basis="sto-3g")
WATER = MoleculeInput(name="water")


class Contrary:
    """A router that takes the successor of its choice wherever it may."""

    name = "model"

    def __init__(self, *wishes):
        self.wishes = wishes
        self.questions = []

    async def choose(self, question):
        self.questions.append(question)
        options = [option.successor for option in question.options]
        wish = next((wish for wish in self.wishes if wish in options), options[-1])
        return {"successor": wish, "parameters": {}, "reasoning": "wished", "confidence": 0.9}


def vetoes(walked, node):
    """Return what guards removed at a node, by successor."""
    for record in walked.recorder.records:
        if record.kind == "route" and walked.path[record.position.step] == node:
            return record.data.get("vetoes", {})
    return {}


def test_the_successors_are_those_of_the_paper():
    declared = {
        cls.node_id: {node.node_id for node in successors_of(cls, known=GRAPH.nodes).nodes} for cls in GRAPH.nodes
    }
    assert declared["FrequencyCalculation"] == {"TDDFT", "MolecularAnalysis", "ImaginaryModeRemoval", "End"}
    assert set(declared) == {
        "SinglePoint",
        "GeometryOptimization",
        "FrequencyCalculation",
        "ImaginaryModeRemoval",
        "MolecularAnalysis",
        "TDDFT",
        "End",
    }
    assert all("End" in successors for node, successors in declared.items() if node != "End")


def test_a_job_is_done_from_optimization_to_analysis():
    tasks = ("optimize", "frequencies", "tddft", "analysis")
    walked = Walked(QCRequest(molecule=WATER, level=STO, tasks=tasks, excited_states=ExcitedStates(roots=3)))
    assert walked.path == ["GeometryOptimization", "FrequencyCalculation", "TDDFT", "MolecularAnalysis", "End"]
    result = walked.result
    assert result.optimized
    assert result.verified
    assert len(result.excitations) == 3
    assert result.thermochemistry.gibbs < result.energy + result.thermochemistry.zero_point_energy
    assert (result.thermochemistry.point_group, result.thermochemistry.symmetry_number) == ("C2v", 2)
    assert len(result.vibrations.wavenumbers) == len(result.vibrations.intensities) == 3
    assert not result.bond_changes
    assert result.notes == ()
    assert QCResult.model_validate_json(result.model_dump_json()) == result
    # Every later step began from the orbitals of the one before.
    assert all(task.hints["density"] for task in walked.tasks[1:])
    assert json.loads(walked.recorder.results["result.json"])["energy"] == result.energy
    assert walked.recorder.results["geometry.xyz"].startswith(b"3\n")


def test_what_is_not_asked_for_is_not_computed():
    assert Walked(QCRequest(molecule=WATER, level=STO, tasks=("single_point",))).path == ["SinglePoint", "End"]
    assert Walked(QCRequest(molecule=WATER, level=STO, tasks=("analysis",))).path == ["MolecularAnalysis", "End"]
    walked = Walked(QCRequest(molecule=WATER, level=STO, tasks=("tddft",), excited_states=ExcitedStates(roots=2)))
    assert walked.path == ["TDDFT", "End"]
    assert [task.name for task in walked.tasks] == ["tddft"]
    assert walked.result.energy == walked.result.excited_electronic.energy


def test_a_walk_replays_without_computing_again():
    request = QCRequest(molecule=WATER, level=STO)
    first = Walked(request)
    again = Walked(request, recorder=first.recorder)
    assert again.tasks == []
    assert again.result == first.result


def test_an_imaginary_mode_is_removed_and_the_result_verified():
    walked = Walked(QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO))
    assert walked.path == [
        "GeometryOptimization",
        "FrequencyCalculation",
        "ImaginaryModeRemoval",
        "GeometryOptimization",
        "FrequencyCalculation",
        "End",
    ]
    result = walked.result
    assert (result.removals, result.verified, result.vibrations.imaginary) == (1, True, 0)
    assert result.thermochemistry.point_group == "C3v"
    assert "displaced" in result.notes[0]
    assert not any("no thermochemistry" in note for note in result.notes)
    planar, pyramid = walked.tasks[0], walked.tasks[3]
    assert (planar.name, pyramid.name) == ("optimization", "optimization")
    energies = [walked.recorder.outcomes[task.key].output.electronic.energy for task in (planar, pyramid)]
    assert energies[1] < energies[0] - 0.005


def test_no_router_can_leave_a_displaced_or_unverified_geometry():
    # In the paper's transcript a router ended a lane after a removal, without new frequencies.
    router = Contrary("End", "TDDFT", "MolecularAnalysis")
    walked = Walked(QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO), router=router)
    assert walked.path[2:6] == ["ImaginaryModeRemoval", "GeometryOptimization", "FrequencyCalculation", "End"]
    assert walked.result.verified
    assert "optimized" in vetoes(walked, "ImaginaryModeRemoval")["End"]
    forced = [taken for taken in walked.state.routes if taken.node != "FrequencyCalculation"]
    assert all(taken.by == "forced" for taken in forced)


def test_no_router_can_end_before_the_job_is_done_unless_an_exit_is_set():
    request = QCRequest(
        molecule=WATER,
        level=STO,
        tasks=("optimize", "frequencies", "analysis", "tddft"),
        excited_states=ExcitedStates(roots=2),
    )
    walked = Walked(request, router=Contrary("End"))
    assert walked.state.outstanding == ()
    assert {"MolecularAnalysis", "TDDFT"} < set(walked.path)
    state = GRAPH.begin(request)
    state.exit = "FrequencyCalculation"
    early = Walked(state, router=Contrary("TDDFT"))
    assert early.path == ["GeometryOptimization", "FrequencyCalculation", "End"]
    assert early.result.excitations is None


def test_a_router_may_ask_for_more_than_the_job_does():
    router = Contrary("TDDFT", "MolecularAnalysis")
    walked = Walked(QCRequest(molecule=WATER, level=STO, excited_states=ExcitedStates(roots=2)), router=router)
    assert walked.path == ["GeometryOptimization", "FrequencyCalculation", "TDDFT", "MolecularAnalysis", "End"]
    question = router.questions[0]
    assert question.scalars["verified"] is True
    assert all(not isinstance(value, dict | list) for value in question.scalars.values())


def test_a_router_meets_no_dead_end():
    tasks = ("single_point", "frequencies", "tddft", "analysis")
    for wishes in (("TDDFT",), ("MolecularAnalysis",), ("End",), ("GeometryOptimization",)):
        request = QCRequest(molecule=WATER, level=STO, tasks=tasks, excited_states=ExcitedStates(roots=2))
        walked = Walked(request, router=Contrary(*wishes))
        assert walked.outcome.ok, wishes
        assert walked.state.outstanding == ()


def test_after_the_last_removal_comes_a_failure_that_keeps_everything():
    walked = Walked(QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO, max_removals=0))
    failure = walked.failure
    assert failure.kind is FailureKind.IMAGINARY_MODE
    assert failure.where == "FrequencyCalculation"
    kept = QCResult.model_validate(failure.details["result"])
    assert kept.optimized
    assert not kept.verified
    assert kept.thermochemistry is None
    assert kept.vibrations.imaginary == 1
    assert kept.energy == pytest.approx(-55.4375, abs=1e-3)


def test_three_removals_are_the_most():
    request = QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO)
    state = GRAPH.begin(request)
    state.removals = 3
    walked = Walked(state)
    assert walked.path == ["GeometryOptimization", "FrequencyCalculation"]
    assert walked.failure.kind is FailureKind.IMAGINARY_MODE
    assert "remain after 3 removals" in walked.failure.message


def test_each_removal_goes_further_and_to_the_other_side():
    request = QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO)
    displaced = {}
    for removals in (0, 1, 2):
        state = GRAPH.begin(request)
        state.removals = removals
        walked = Walked(state)
        assert walked.result.verified
        task = next(task for task in walked.tasks if task.name == "displacement")
        displaced[removals] = (task.input["sign"], task.input["amplitude"])
    assert displaced == {0: (1, 0.2), 1: (-1, pytest.approx(0.3)), 2: (1, pytest.approx(0.4))}


def test_a_geometry_taken_as_it_is_keeps_its_imaginary_modes():
    walked = Walked(QCRequest(molecule=MoleculeInput(xyz=PLANAR_AMMONIA), level=STO, tasks=("frequencies",)))
    result = walked.result
    assert walked.path == ["FrequencyCalculation", "End"]
    assert result.vibrations.imaginary == 1
    assert result.thermochemistry is None
    assert not result.verified
    assert "no stationary point" in result.notes[0]


def test_frequencies_of_a_geometry_optimized_before_are_verified(references):
    first = Walked(QCRequest(molecule=WATER, level=STO, tasks=("optimize",))).result
    assert first.optimized
    assert not first.verified
    lane = QCState.for_lane(first.atoms, STO, ("frequencies",), optimized=True, label="conf-1")
    assert Walked(lane).result.verified
    # The gradient itself shows it where nobody says so.
    unsaid = QCState.for_lane(first.atoms, STO, ("frequencies",))
    assert Walked(unsaid).result.thermochemistry is not None
    rough = QCState.for_lane(structure_of(references["water"]), STO, ("frequencies",))
    assert Walked(rough).result.thermochemistry is None


def test_a_result_cannot_hold_thermochemistry_of_an_unverified_geometry():
    good = Walked(QCRequest(molecule=WATER, level=STO)).result
    with pytest.raises(ValidationError, match="minimum"):
        QCResult.model_validate({**good.model_dump(), "verified": False})


def test_solution_excitations_may_use_a_gas_geometry():
    solvated = STO.model_copy(update={"solvent": Solvent(name="water")})
    lane = QCState.for_lane(
        ConceptualAtoms(symbols=("H", "F"), positions=((0, 0, 0), (0, 0, 0.95))),
        STO,
        ("optimize", "tddft"),
        excited_level=solvated,
        excited_states=ExcitedStates(roots=2),
    )
    result = Walked(lane).result
    assert result.level == STO
    assert result.excited_level == solvated
    assert result.excited_electronic.energy < result.energy - 1e-3


BREAKING = "O 0 0 0\nH 0 0 0.97\nH 0 1.32 -0.3"
"""A water cation-like start with one bond at 1.35 Å: above the limit for a bond, and the optimization closes it."""


def test_bonds_made_are_reported_and_fail_a_molecule_that_must_survive():
    request = QCRequest(molecule=MoleculeInput(xyz=BREAKING), level=STO, tasks=("optimize",))
    walked = Walked(request)
    assert walked.result.bond_changes.made == ((0, 2),)
    assert "made O1-H3" in walked.result.notes[0]
    must = Walked(request.model_copy(update={"must_survive": True}))
    assert must.failure.kind is FailureKind.REFUSED
    assert "did not survive" in must.failure.message
    assert QCResult.model_validate(must.failure.details["result"]).optimized


def test_a_failed_calculation_ends_the_walk_with_its_kind():
    level = Level(method="hf", basis="sto-3g", scf_cycles=1, scf_convergence=1e-13)
    walked = Walked(QCRequest(molecule=MoleculeInput(name="formaldehyde"), level=level, tasks=("tddft",)))
    assert walked.failure.kind is FailureKind.SCF_NOT_CONVERGED
    assert len(walked.failure.history) == 3


def test_a_dry_run_foresees_the_calculations_and_their_resources():
    request = QCRequest(molecule=WATER, tasks=("optimize", "frequencies", "tddft"), cpus=2)
    foreseen = GRAPH.foresee(request)
    assert [item.calculation.name for item in foreseen] == ["optimization", "frequencies", "tddft"]
    assert all(item.resources.gpu == "none" and item.resources.cpus == 2 for item in foreseen)
    large = QCRequest(molecule=MoleculeInput(name="diphenyl disulfide"), tasks=("optimize",))
    assert GRAPH.foresee(large)[0].resources.gpu == "slot"
    assert GRAPH.foresee(large)[0].resources.gpu_memory_mib > 0
    on_cpus = large.model_copy(update={"gpu": "none"})
    assert GRAPH.foresee(on_cpus)[0].resources.gpu == "none"
    walked = Walked(QCRequest(molecule=WATER, level=STO, tasks=("single_point",), cpus=3))
    assert walked.tasks[0].resources.cpus == 3


def test_the_cavity_of_a_solvent_counts_in_the_memory():
    from grafico.chemistry.molecules import resolve_molecule
    from grafico.chemistry.resources import dft_resources

    benzene = resolve_molecule(MoleculeInput(name="benzene"))
    solvated = Level(density_fit=True, solvent=Solvent(name="water"))
    # Measured: 2270 MiB resident for energy and gradient of benzene in SMD water, of them 1890 for the cavity.
    assert 2300 < dft_resources(benzene, solvated, "single_point").memory_mib < 4500
    assert dft_resources(benzene, Level(density_fit=True), "single_point").memory_mib == 2048


def test_a_gpu_is_given_less_time_than_cpus():
    from grafico.chemistry.molecules import resolve_molecule
    from grafico.chemistry.resources import dft_resources

    azobenzene = resolve_molecule(MoleculeInput(smiles="c1ccccc1N=Nc1ccccc1"))
    on_gpu, on_cpus = (dft_resources(azobenzene, Level(), "frequencies", gpu=gpu) for gpu in ("slot", "none"))
    assert on_gpu.walltime_s == pytest.approx(on_cpus.walltime_s / 10)
    assert on_gpu.without_gpu().walltime_s == on_cpus.walltime_s
    assert on_cpus.walltime_without_gpu_s == 0


def test_resources_are_no_part_of_a_key():
    keys = {
        Walked(QCRequest(molecule=WATER, level=STO, tasks=("single_point",), cpus=cpus)).tasks[0].key for cpus in (1, 2)
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("name", "basis", "exact"),
    [("water", "def2-svp", 24), ("benzene", "def2-svp", 114), ("ethanol", "def2-tzvp", 129), ("methane", "sto-3g", 9)],
)
def test_basis_functions_are_estimated_to_a_third(name, basis, exact):
    from grafico.chemistry.molecules import resolve_molecule
    from grafico.chemistry.resources import basis_functions

    assert basis_functions(resolve_molecule(MoleculeInput(name=name)), basis) == pytest.approx(exact, rel=1 / 3)
