"""From results of the chemistry graphs to the knowledge base and back, with a question answered at the end."""

import asyncio

import numpy
import pytest
from qc_support import Walked

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef
from grafico.chemistry.boltzmann import Population
from grafico.chemistry.calculations.tddft import Excitation
from grafico.chemistry.ensemble_request import Environment
from grafico.chemistry.ensemble_result import (
    EnsembleMember,
    EnsembleResult,
    EnvironmentResult,
    SearchReport,
    SpectrumSummary,
    Stick,
)
from grafico.chemistry.entities import (
    CHEMISTRY,
    Conformer,
    Ensemble,
    atoms_of,
    ensemble_entities,
    level_entity,
    molecule_entity,
    quantum_chemistry_entities,
)
from grafico.chemistry.identity import hill_formula, identify
from grafico.chemistry.molecules import from_smiles
from grafico.chemistry.properties import Electronic, Orbitals
from grafico.chemistry.quantum_chemistry.request import QCRequest, QCResult, Vibrations
from grafico.chemistry.request import Level, MoleculeInput, Solvent
from grafico.chemistry.spectrum import Broadening, maximum_on_energy_axis, maximum_on_wavelength_axis
from grafico.errors import MoleculeError
from grafico.knowledge import Execution, KnowledgeBase, Run, RunKnowledge, describe, grafico_agent, schema_of, software

WATER = ConceptualAtoms(
    symbols=("O", "H", "H"), positions=((0.0, 0.0, 0.1173), (0.0, 0.7572, -0.4692), (0.0, -0.7572, -0.4692))
)
REF = ArtifactRef(digest="ab" * 32, media_type="application/x-npy", size=128)
BROADENING = Broadening(points=101)


def electronic(energy):
    return Electronic(
        energy=energy,
        converged=True,
        orbitals=Orbitals(homo_ev=-10.0, lumo_ev=1.0),
        gap_ev=11.0,
        dipole=(0.0, 0.0, 1.85),
        mulliken=(-0.6, 0.3, 0.3),
        s_squared=0.0,
        wavefunction=REF,
    )


def member(name, shift, weight, *, energy=-76.0):
    atoms = WATER.moved(tuple((x + shift, y, z) for x, y, z in WATER.positions))
    population = Population(
        id=name,
        energy=energy,
        relative=shift,
        degeneracy=1,
        weight=weight,
        weight_with_degeneracy=weight,
        weight_without_degeneracy=weight,
    )
    sticks = (
        Stick(root=1, energy_ev=7.5 + shift, oscillator_strength=0.05),
        Stick(root=2, energy_ev=9.0, oscillator_strength=0.1),
    )
    return EnsembleMember(
        id=name, merged=(name,), atoms=atoms, energy=energy, population=population, sticks=sticks, wavefunction=REF
    )


def environment(name, level, members, **choice):
    energies = [stick.energy_ev for m in members for stick in m.sticks]
    strengths = [m.population.weight * stick.oscillator_strength for m in members for stick in m.sticks]
    summary = SpectrumSummary(
        broadening=BROADENING,
        maximum_energy_axis=maximum_on_energy_axis(energies, strengths, BROADENING),
        maximum_wavelength_axis=maximum_on_wavelength_axis(energies, strengths, BROADENING),
    )
    return EnvironmentResult(
        environment=Environment(name=name, **choice),
        level=level,
        level_label=level.label,
        members=members,
        main=members[0].id,
        ensemble=summary,
        main_conformer=summary,
        lanes=len(members),
    )


def ensemble_result():
    gas = Level()
    wet = Level(solvent=Solvent(name="water"))
    members = (member("conf-001", 0.0, 0.75), member("conf-002", 0.5, 0.25, energy=-75.999))
    return EnsembleResult(
        label="water",
        smiles="O",
        formula="H2O",
        charge=0,
        multiplicity=1,
        temperature=298.15,
        energy="electronic",
        use_degeneracy=True,
        search=SearchReport(
            engine="RDKit ETKDGv3 + GFN2-xTB", candidates=3, duplicates=1, above_window=0, conformers=2, converged=True
        ),
        environments=(
            environment("gas", gas, members),
            environment("water", wet, members, solvent="water", geometries="gas"),
            # The same place under another name: nothing of it may contradict the other.
            environment("again", wet, members, solvent="water", geometries="gas"),
        ),
    )


def qc_result(**changes):
    fields = {
        "label": "water",
        "atoms": WATER,
        "level": Level(),
        "energy": -76.0,
        "electronic": electronic(-76.0),
        "optimized": True,
        "verified": True,
        "vibrations": Vibrations(
            wavenumbers=(1600.5, 3700.25, 3800.125),
            intensities=(60.0, 5.0, 40.0),
            analytical=True,
            modes=REF,
            hessian=REF,
        ),
        "excitations": (
            Excitation(
                kind="singlet",
                energy_ev=7.5,
                wavelength_nm=165.3,
                oscillator_strength=0.05,
                transition_dipole=(0.1, 0.2, 0.3),
                promotions=(),
            ),
        ),
        "excited_level": Level(),
        "excited_electronic": electronic(-76.0),
    }
    return QCResult(**fields | changes)


@pytest.fixture
def knowledge(tmp_path):
    return KnowledgeBase(tmp_path / "kb", wait_s=30)


def run_of(tmp_path, knowledge, name="first"):
    (tmp_path / name).mkdir(exist_ok=True)
    return RunKnowledge(tmp_path / name, run_id=name, store=knowledge)


def test_an_ensemble_is_persisted_asked_for_and_fetched(tmp_path, knowledge):
    run = run_of(tmp_path, knowledge)
    iris = asyncio.run(run.persist(ensemble_entities(ensemble_result())))
    assert len(set(iris)) == 3
    assert run.problems == []
    rows = knowledge.query(
        """
        SELECT ?environment ?name ?weight ?energy WHERE {
          ?ensemble a chem:Ensemble ; chem:environmentName ?environment ; chem:members ?member .
          ?member chem:name ?name ; chem:weight ?weight ; chem:calculation/chem:energy ?energy .
          ?ensemble chem:molecule/chem:smiles "O"
        } ORDER BY ?environment ?name
        """
    ).values()
    assert [(r["environment"], r["name"], r["weight"], r["energy"]) for r in rows if r["environment"] == "gas"] == [
        ("gas", "conf-001", 0.75, -76.0),
        ("gas", "conf-002", 0.25, -75.999),
    ]
    assert len(rows) == 6
    ensemble = KnowledgeBase(knowledge.folder).fetch(iris[1], None)
    assert isinstance(ensemble, Ensemble)
    assert [m.name for m in ensemble.members] == ["conf-001", "conf-002"]
    assert ensemble.main is ensemble.members[0]
    assert ensemble.environment.solvent == "water"
    assert ensemble.members[0].calculation.wavefunction == REF
    assert ensemble.members[1].calculation.excited_states[0].excitation_energy == 8.0


def test_the_spectrum_in_the_knowledge_base_has_the_maximum_of_the_result(tmp_path, knowledge):
    result = ensemble_result()
    iris = run_of(tmp_path, knowledge).persist_now(ensemble_entities(result))
    spectra = {spectrum.kind: spectrum for spectrum in knowledge.fetch(iris[0], 1).spectra}
    whole = spectra["ensemble"]
    assert whole.energies.shape == whole.absorptivities.shape == (101,)
    top = whole.energies[whole.absorptivities.argmax()]
    assert abs(top - whole.maximum_energy) <= whole.energies[1] - whole.energies[0]
    assert whole.maximum_energy == result.environments[0].ensemble.maximum_energy_axis.energy_ev
    # The heaviest conformer alone counts fully, whatever its weight in the ensemble.
    assert spectra["main conformer"].absorptivities.max() > whole.absorptivities.max() / 2


def test_persisting_the_same_result_again_changes_nothing(tmp_path, knowledge):
    run = run_of(tmp_path, knowledge)
    first = run.persist_now(ensemble_entities(ensemble_result()))
    before = knowledge.dump()
    assert run.persist_now(ensemble_entities(ensemble_result())) == first
    assert knowledge.dump() == before


def test_two_runs_share_molecule_level_and_geometry(tmp_path, knowledge):
    for name in ("first", "second"):
        run_of(tmp_path, knowledge, name).persist_now(quantum_chemistry_entities(qc_result()))
    count = "SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x a ?class }"
    for name in ("Molecule", "LevelOfTheory", "Conformer", "DFTCalculation", "QuantumCalculation"):
        from grafico.knowledge import Term

        found = knowledge.query(count, bind={"class": Term(type="uri", value=CHEMISTRY + name)})
        assert found.values() == [{"n": 1}], name


def test_a_quantum_chemistry_result_comes_back_to_the_bit(tmp_path, knowledge):
    iris = run_of(tmp_path, knowledge).persist_now(quantum_chemistry_entities(qc_result()))
    calculation = KnowledgeBase(knowledge.folder).fetch(iris[0])
    assert (calculation.energy, calculation.gap, calculation.verified) == (-76.0, 11.0, True)
    assert calculation.dipole == (0.0, 0.0, 1.85)
    assert calculation.wavenumbers.tolist() == [1600.5, 3700.25, 3800.125]
    assert calculation.charges.tobytes() == numpy.array([-0.6, 0.3, 0.3]).tobytes()
    assert calculation.excited_states[0].transition_dipole == (0.1, 0.2, 0.3)
    assert calculation.level.label == Level().label
    assert atoms_of(calculation) == WATER


def test_a_geometry_whose_frequencies_were_not_computed_is_neither_a_minimum_nor_none():
    (calculation,) = quantum_chemistry_entities(qc_result(verified=False, vibrations=None))
    assert calculation.verified is None
    (calculation,) = quantum_chemistry_entities(qc_result(verified=False))
    assert calculation.verified is False
    assert ensemble_entities(ensemble_result())[0].main.calculation.verified is None


def test_quantities_have_the_units_that_they_are_told_in(tmp_path, knowledge):
    run_of(tmp_path, knowledge).persist_now(quantum_chemistry_entities(qc_result()))
    units = knowledge.query("SELECT ?p ?unit { ?p qudt:hasUnit ?unit }").values()
    told = {row["p"].removeprefix(CHEMISTRY): row["unit"].rsplit("/", 1)[-1] for row in units}
    assert {name: told[name] for name in ("energy", "charge", "charges", "gap", "wavelength", "dipole", "entropy")} == {
        "energy": "E_h",  # https://qudt.org/vocab/unit/
        "charge": "E",
        "charges": "E",
        "gap": "EV",
        "wavelength": "NanoM",
        "dipole": "DEBYE",
        "entropy": "J-PER-MOL-K",
    }
    assert told["infrared"] == "core#KilometerPerMole"


def test_excited_states_at_another_level_are_a_calculation_of_their_own():
    other = Level(method="cam-b3lyp")
    found = quantum_chemistry_entities(qc_result(excited_level=other, excited_electronic=electronic(-75.9)))
    assert [calculation.energy for calculation in found] == [-76.0, -75.9]
    assert [len(calculation.excited_states) for calculation in found] == [0, 1]
    only = quantum_chemistry_entities(qc_result(energy=None, electronic=None, vibrations=None, excited_level=other))
    assert [calculation.level.method for calculation in only] == ["cam-b3lyp"]


def test_a_structure_can_be_taken_from_what_has_one_geometry():
    ensemble = ensemble_entities(ensemble_result())[0]
    assert atoms_of(ensemble) == ensemble_result().environments[0].members[0].atoms
    with pytest.raises(MoleculeError, match="Molecule, which has no one geometry"):
        atoms_of(ensemble.molecule)


def test_the_run_is_linked_to_what_it_generated(tmp_path, knowledge):
    run = run_of(tmp_path, knowledge)
    calculations = quantum_chemistry_entities(qc_result())
    iris = run.persist_now(calculations)
    activity = Run(iri=run.graph, name="first", agents=frozenset({grafico_agent()}))
    execution = Execution(
        run=activity,
        key="cd" * 32,
        calculation="tddft",
        agents=software({"pyscf": "2.14"}),
        produced=frozenset({REF}),
    )
    asyncio.run(run.finish([activity, execution]))
    rows = knowledge.query(
        "SELECT ?made { ?run a grafico:Run ; prov:generated ?made ; prov:wasAssociatedWith/grafico:name 'grafico' }"
    )
    assert [row["made"] for row in rows.values()] == iris
    made = knowledge.query(
        "SELECT ?made { ?e a grafico:Execution ; prov:generated ?made . ?made a chem:DFTCalculation }"
    )
    assert [row["made"] for row in made.values()] == iris
    used = "ASK { ?e a grafico:Execution ; dcterms:isPartOf ?run ; prov:wasAssociatedWith/rdfs:label 'pyscf 2.14' }"
    assert knowledge.query(used, bind={"run": activity}).boolean


def test_executions_are_linked_to_what_they_generated_by_their_keys(tmp_path, knowledge):
    keys = {name: f"{number:064x}" for number, name in enumerate(("optimization", "frequencies", "tddft"))}
    run = run_of(tmp_path, knowledge)
    run.persist_now(quantum_chemistry_entities(qc_result(keys=keys, excited_level=Level(method="cam-b3lyp"))))
    activity = Run(iri=run.graph, name="first")
    executions = [Execution(run=activity, key=key, calculation=name) for name, key in keys.items()]
    asyncio.run(run.finish([activity, *executions]))
    rows = knowledge.query(
        "SELECT ?name ?method { ?e grafico:calculation ?name ; prov:generated ?made . "
        "?made a chem:DFTCalculation ; chem:level/chem:method ?method } ORDER BY ?name"
    ).values()
    own = Level().method
    assert [(r["name"], r["method"]) for r in rows] == [
        ("frequencies", own),
        ("optimization", own),
        ("tddft", "cam-b3lyp"),
    ]
    state = "ASK { ?e grafico:calculation 'tddft' ; prov:generated/a chem:ExcitedState }"
    assert knowledge.query(state).boolean


def test_a_walk_keeps_the_keys_of_the_final_geometry():
    tasks = ("single_point", "optimize", "frequencies")
    walked = Walked(
        QCRequest(
            molecule=MoleculeInput(xyz="H 0 0 0\nH 0 0 0.7"), level=Level(method="hf", basis="sto-3g"), tasks=tasks
        )
    )
    # The single point was of the geometry before.
    assert set(walked.result.keys) == {"optimization", "frequencies"}
    used = {record.data["key"] for record in walked.recorder.records if record.kind == "compute"}
    assert set(walked.result.keys.values()) < used


def test_the_files_of_an_outcome_are_found(tmp_path):
    from grafico.calculations import Success
    from grafico.chemistry.calculations.single_point import SinglePointOutput
    from grafico.runs import OutcomeStore, RunPaths

    outcomes = OutcomeStore(RunPaths(tmp_path))
    outcomes.commit("ab" * 32, Success[SinglePointOutput](output=SinglePointOutput(electronic=electronic(-76.0))))
    assert outcomes.artifacts("ab" * 32) == (REF,)
    assert outcomes.artifacts("cd" * 32) == ()


def test_a_run_that_is_given_is_marked_as_the_origin():
    run = Run(name="x")
    entities = ensemble_entities(ensemble_result(), run)
    assert entities[-1] is run
    assert run.generated == frozenset(entities[:-1])


def test_levels_are_told_apart_by_everything_that_changes_an_energy():
    levels = [
        Level(),
        Level(grid=4),
        Level(basis="def2-tzvp"),
        Level(dispersion="d4"),
        Level(solvent=Solvent(name="water")),
        Level(solvent=Solvent(name="water", model="c-pcm")),
        Level(density_fit=True),
        Level(restricted=False),
        Level(scf_convergence=1e-8),
    ]
    assert len({level_entity(level).iri for level in levels}) == len(levels)
    assert level_entity(Level()).iri == level_entity(Level()).iri


def test_a_molecule_is_the_same_from_smiles_and_from_any_geometry():
    pytest.importorskip("rdkit")
    turned = ConceptualAtoms(symbols=("H", "O", "H"), positions=tuple(WATER.positions[i] for i in (1, 0, 2)))
    assert molecule_entity(WATER).iri == molecule_entity(turned).iri == molecule_entity(WATER, smiles="[H]O[H]").iri
    for smiles in ("OCC=O", "C[C@@H]1O[C@H]1CO", "CC(=O)[O-]", "c1ccccc1O", "C/C=C/C", "ON=O"):
        built = from_smiles(smiles)
        assert molecule_entity(built).iri == molecule_entity(built, smiles=smiles).iri, smiles
    assert molecule_entity(WATER).inchikey == "XLYOFNOQVPJJNP-UHFFFAOYSA-N"
    assert molecule_entity(WATER).formula == "H2O"


def test_tautomers_stereoisomers_and_spin_states_are_different_molecules():
    pytest.importorskip("rdkit")
    names = [identify(smiles=s).identifier for s in ("O=c1cccc[nH]1", "Oc1ccccn1", "C[C@H](O)F", "C[C@@H](O)F")]
    assert len(set(names)) == 4
    triplet = WATER.model_copy(update={"multiplicity": 3})
    assert molecule_entity(triplet, smiles="O").iri != molecule_entity(WATER, smiles="O").iri


def test_without_a_bonding_pattern_connectivity_is_the_identity():
    cluster = ConceptualAtoms(symbols=("Ar", "Ar"), positions=((0.0, 0.0, 0.0), (0.0, 0.0, 3.8)), multiplicity=3)
    longer = ConceptualAtoms(symbols=("Ar", "Ar"), positions=((0.0, 0.0, 0.0), (0.0, 0.0, 3.9)), multiplicity=3)
    assert identify(cluster).identifier.startswith("connectivity:")
    assert identify(cluster) == identify(longer)
    radical = WATER.model_copy(update={"multiplicity": 3})
    assert identify(radical).identifier != identify(cluster).identifier


@pytest.mark.parametrize(
    ("symbols", "formula"),
    [(("H", "O", "H"), "H2O"), (("H", "C", "H"), "CH2"), (("Br", "C", "O", "H", "N"), "CHBrNO"), (("Br", "H"), "BrH")],
)
def test_formulas_are_in_the_order_of_hill(symbols, formula):
    assert hill_formula(symbols) == formula


def test_the_schema_has_units_and_descriptions():
    schema = schema_of([CHEMISTRY + "DFTCalculation"])
    energy = schema[f"<{CHEMISTRY}energy>"]
    assert ("<http://qudt.org/schema/qudt/hasUnit>", "<http://qudt.org/vocab/unit/E_h>") in energy
    assert any(p.endswith("#comment>") and "electronic energy" in o for p, o in energy)
    assert f"<{CHEMISTRY}Molecule>" in schema
    assert f"<{CHEMISTRY}Conformer>" in schema


def test_shells_and_geometries_are_kept_with_the_molecule():
    conformer = quantum_chemistry_entities(qc_result(energy=None, electronic=None, excitations=None))[0]
    assert isinstance(conformer, Conformer)
    assert f"<{conformer.molecule.iri}>" in describe([conformer])
