"""The ensemble graph in memory, on real chemistry of four atoms: cis and trans nitrous acid."""

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from grafico.atoms import read_frames
from grafico.calculations import Failure, FailureKind
from grafico.chemistry.calculations.report import ReportInput, ensemble_report
from grafico.chemistry.ensemble import GRAPH, EnsembleRequest
from grafico.control.rules import RuleRouter
from grafico.errors import BadInput
from grafico.graphs import InlineCompute, Limits, MemoryRecorder, run_graph

JOBS = Path(__file__).parents[2] / "jobs"
TINY = yaml.safe_load((JOBS / "tiny.yaml").read_text())["input"]


class Compute(InlineCompute):
    """Real calculations, of which some fail by their label, as a lost worker would make them."""

    def __init__(self, store, failing=()):
        super().__init__(store)
        self.failing = failing

    async def run(self, task):
        if any(part in task.label for part in self.failing):
            return Failure(kind=FailureKind.ENGINE_ERROR, message="the engine broke")
        return await super().run(task)


class Base:
    """A knowledge base that keeps what it is given."""

    def __init__(self):
        self.kept = []

    async def persist(self, entities):
        self.kept += entities
        return [str(entity.iri) for entity in entities]


def walk(recorder, request, *, failing=(), persist=None):
    compute = Compute(recorder, failing)
    outcome = asyncio.run(
        run_graph(
            GRAPH,
            GRAPH.begin(request),
            compute=compute,
            router=RuleRouter(),
            recorder=recorder,
            persist=persist,
            limits=Limits(lanes=1),
        )
    )
    return outcome, compute


def request(**changes) -> EnsembleRequest:
    return EnsembleRequest.model_validate({**TINY, **changes})


@pytest.fixture(scope="module")
def finished():
    """One whole run; the tests below replay it or take it further."""
    recorder = MemoryRecorder()
    outcome, compute = walk(recorder, request(), persist=(base := Base()))
    assert outcome.ok, outcome
    return recorder, outcome.output, compute, base


def file_of(compute, result, name) -> bytes:
    return compute.artifacts.path(result.files[name]).read_bytes()


def test_both_environments_have_both_conformers_weighed(finished):
    _, result, _, _ = finished
    assert result.search.conformers == 2
    assert result.failed_lanes == 0
    for name in ("gas", "water"):
        environment = result.environment(name)
        assert sorted(member.id for member in environment.members) == ["conf-001", "conf-002"]
        weights = [member.population.weight for member in environment.members]
        assert sum(weights) == pytest.approx(1.0)
        assert environment.members[0].population.relative == 0.0
        assert environment.main == environment.members[0].id
        assert environment.ensemble.maximum_energy_axis is not None


def test_water_takes_the_geometries_of_the_gas_phase(finished):
    _, result, compute, _ = finished
    for member in result.environment("water").members:
        source = result.environment("gas").member(member.id)
        assert member.atoms == source.atoms
        assert member.energy < source.energy
    names = [task.name for task in compute.tasks]
    assert names.count("optimization") == 2
    assert names.count("tddft") == 4
    assert "C-PCM(water)" in result.environment("water").level_label


def test_lanes_are_environments_and_conformers_within(finished):
    recorder, _, _, _ = finished
    lanes = {record.position.lane for record in recorder.records if record.kind == "enter"}
    assert {"2.0:gas", "2.0:gas/0.0:conf-001", "3.0:water/0.0:conf-002"} <= lanes


def test_a_second_walk_replays_the_first_without_computing(finished):
    recorder, result, _, _ = finished
    again, compute = walk(recorder, request())
    assert compute.tasks == []
    assert again.output == result.model_copy(update={"persisted": ()})


def test_files_hold_the_spectra_tables_and_structures(finished):
    recorder, result, compute, _ = finished
    names = {"spectrum.png", "spectrum.svg", "spectrum.csv", "ensemble.csv", "ensemble.json", "ensemble.xyz"}
    assert set(result.files) == names
    assert names <= set(recorder.results)
    assert file_of(compute, result, "spectrum.png").startswith(b"\x89PNG")
    svg = file_of(compute, result, "spectrum.svg").decode()
    assert "gas, ensemble" in svg
    assert "water, ensemble" in svg
    rows = list(csv.DictReader(io.StringIO(file_of(compute, result, "ensemble.csv").decode())))
    assert [(row["environment"], row["degeneracy"]) for row in rows] == [("gas", "1")] * 2 + [("water", "1")] * 2
    points = list(csv.DictReader(io.StringIO(file_of(compute, result, "spectrum.csv").decode())))
    assert {point["environment"] for point in points} == {"gas", "water"}
    assert max(float(point["normalized_energy_ensemble"]) for point in points) == pytest.approx(1.0)
    frames = read_frames(file_of(compute, result, "ensemble.xyz").decode())
    assert len(frames) == 4
    assert sum(float(info["weight"]) for _, info in frames) == pytest.approx(2.0)
    assert json.loads(file_of(compute, result, "ensemble.json"))["formula"] == "HNO2"


def test_the_csv_peaks_where_the_result_says(finished):
    _, result, compute, _ = finished
    points = csv.DictReader(io.StringIO(file_of(compute, result, "spectrum.csv").decode()))
    gas = [point for point in points if point["environment"] == "gas"]
    top = max(gas, key=lambda point: float(point["epsilon_ensemble_l_mol_cm"]))
    expected = result.environment("gas").ensemble.maximum_energy_axis
    assert float(top["energy_ev"]) == pytest.approx(expected.energy_ev, abs=0.01)
    assert float(top["epsilon_ensemble_l_mol_cm"]) == pytest.approx(expected.absorptivity, rel=1e-3)


def test_the_report_is_the_same_bytes_every_time(finished):
    _, result, compute, _ = finished
    value = ReportInput(result=result.model_copy(update={"files": {}, "persisted": ()}))
    key = ensemble_report.key(value)
    assert key == ensemble_report.key(ReportInput.model_validate_json(value.model_dump_json()))
    again = compute._run(next(task for task in compute.tasks if task.name == "ensemble_report"))
    assert again.output.files == result.files


def test_the_result_shows_itself_as_tables(finished):
    _, result, _, _ = finished
    conformers, spectra = result.tables()
    assert len(conformers["rows"]) == 4
    assert all(len(row) == len(conformers["columns"]) for row in conformers["rows"])
    assert spectra["rows"][0][2] == "ensemble"


def test_the_result_goes_to_the_knowledge_base(finished):
    _, result, _, base = finished
    assert base.kept
    assert len(result.persisted) == len(base.kept)


def without(recorder, *outputs) -> MemoryRecorder:
    """A run that has yet to be walked, whose calculations are done but for those with these outputs."""
    fresh = MemoryRecorder()
    fresh.outcomes = {k: o for k, o in recorder.outcomes.items() if type(o.output).__name__ not in outputs}
    return fresh


def test_free_energies_weigh_verified_minima(finished):
    recorder, electronic, _, _ = finished
    changes = {"frequencies": True, "energy": "free", "environments": [{"name": "gas"}], "use_degeneracy": False}
    outcome, _ = walk(without(recorder), request(**changes))
    assert outcome.ok, outcome
    for member in outcome.output.environment("gas").members:
        assert member.verified
        assert member.lowest_frequency > 0
        assert member.population.energy == member.free_energy
        # Zero-point energy and entropy of four atoms: some 0.01 hartree below zero at most.
        assert -0.02 < member.free_energy - member.energy < 0.03
        assert member.energy == electronic.environment("gas").member(member.id).energy


def test_a_failed_lane_is_reported_and_fails_no_other(finished):
    recorder, _, _, _ = finished
    fresh = without(recorder, "TDDFTOutput")
    outcome, _ = walk(fresh, request(), failing=("tddft · water · conf-001",))
    assert outcome.ok
    result = outcome.output
    water = result.environment("water")
    assert [member.id for member in water.members] == ["conf-002"]
    assert water.failures["conf-001"].message == "the engine broke"
    assert result.failed_lanes == 1
    assert len(result.environment("gas").members) == 2


def test_a_join_that_needs_all_fails_its_environment_and_keeps_the_other(finished):
    recorder, _, _, _ = finished
    fresh = without(recorder, "TDDFTOutput")
    outcome, _ = walk(fresh, request(need="all"), failing=("tddft · water · conf-001",))
    assert outcome.ok
    assert [result.environment.name for result in outcome.output.environments] == ["gas"]
    assert "all of 2 lanes" in outcome.output.failed_environments["water"].message


def test_a_source_that_fails_takes_its_dependents_along_and_ends_the_job(finished):
    recorder, _, _, _ = finished
    fresh = without(recorder, "TDDFTOutput", "OptimizationOutput")
    outcome, compute = walk(fresh, request(), failing=("optimization · gas",))
    assert not outcome.ok
    assert "at least one environment" in outcome.message
    assert "water: refused, environment gas, whose geometries it takes, failed" in outcome.message
    assert all("water" not in task.label for task in compute.tasks)


def test_a_missing_packmol_fails_the_shell_alone(finished, monkeypatch):
    recorder, _, _, _ = finished
    monkeypatch.setenv("PATH", "")
    fresh = without(recorder)
    environments = [{"name": "gas"}, {"name": "shell", "shell": {"molecules": 2, "engine": "packmol"}}]
    outcome, _ = walk(fresh, request(environments=environments))
    assert outcome.ok, outcome
    assert "packmol" in outcome.output.failed_environments["shell"].message
    assert len(outcome.output.environment("gas").members) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"molecule": {"smiles": "CC1OC1CO"}}, "any of 4 isomers"),
        ({"molecule": {"smiles": "C1CC"}}, "SMILES"),
        ({"molecule": {"smiles": "ON=O", "multiplicity": 2}}, "multiplicity 2"),
        ({"level": {"method": "b3lpy", "basis": "sto-3g"}}, "environment gas: .*b3lpy"),
        ({"level": {"method": "hf", "basis": "def2-svpp-x"}}, "basis"),
        ({"environments": [{"name": "x", "solvent": "watre"}]}, "environment x: .*watre"),
        ({"search": {"engine": "rdkit", "solvent": "n-heptane"}}, "search.solvent: ALPB has no solvent"),
        ({"environments": [{"name": "x", "shell": {"molecules": 2, "implicit": "wine"}}]}, "shell.implicit: ALPB"),
        ({"environments": [{"name": "x", "shell": {"molecules": 2, "solvent": {"name": "wetness"}}}]}, "wetness"),
        ({"molecule": {"name": "unobtainium"}}, "unobtainium"),
        ({"molecule": {"file": "/nowhere.xyz"}}, "does not exist"),
    ],
)
def test_what_cannot_be_computed_is_refused_beforehand(changes, message):
    with pytest.raises(BadInput, match=message):
        GRAPH.check(request(**changes))


def test_crest_is_refused_beforehand_where_it_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInput, match="crest is not on PATH"):
        GRAPH.check(request(search={"engine": "crest"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environments": []}, "at least 1"),
        ({"environments": [{"name": "gas"}, {"name": "gas"}]}, "two environments are called 'gas'"),
        ({"environments": [{"name": "a", "geometries": "b"}]}, "takes the geometries of 'b', which is none of a"),
        ({"environments": [{"name": "a", "geometries": "a"}]}, "cannot take its own geometries"),
        (
            {"environments": [{"name": n, "geometries": g} for n, g in (("a", None), ("b", "a"), ("c", "b"))]},
            "which itself takes those of a",
        ),
        ({"energy": "free"}, "free needs frequencies: true"),
        ({"energy": "free", "frequencies": True}, "free needs geometries optimized in each environment"),
        ({"level": {"method": "hf", "solvent": {"name": "water"}}}, "set by the environments"),
        ({"need": 0}, "need"),
        ({"need": "most"}, "need"),
        ({"temperature": 0}, "greater than 0"),
        ({"temprature": 300}, "Extra inputs"),
        ({"cumulative_weight": 1.5}, "less than or equal to 1"),
        ({"environments": [{"name": "a b"}]}, "pattern"),
        ({"environments": [{"name": "a", "geometries": "b", "shell": {"molecules": 2}}, {"name": "b"}]}, "no shell"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        request(**changes)


@pytest.mark.parametrize("name", ["quickstart", "epoxybutanol", "merocyanine", "tiny"])
def test_the_jobs_that_come_with_grafico_are_sound_and_planned(name):
    job = EnsembleRequest.model_validate(yaml.safe_load((JOBS / f"{name}.yaml").read_text())["input"])
    GRAPH.check(job)
    foreseen = GRAPH.foresee(job)
    lanes = [item for item in foreseen if item.calculation.name == "tddft"]
    assert len(lanes) == len(job.environments) == 2
    assert {item.resources.gpu for item in lanes} == {"slot" if name in {"epoxybutanol", "merocyanine"} else "none"}
