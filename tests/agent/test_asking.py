"""Sentences into jobs: what a model says counts only as far as the sentence does."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "control"))

pytest.importorskip("litellm")
pytest.importorskip("rdkit")

from scripted_server import ScriptedServer, fails, says

from grafico.agent.answers import answer
from grafico.agent.ask import Reader, prompts_for
from grafico.agent.tool import Desk
from grafico.cli.main import app
from grafico.control import AuditLog, Ledger, ModelClient, ModelSettings
from grafico.errors import BadInput, ModelUnavailable

NOTHING = dict.fromkeys(("charge", "multiplicity", "method", "basis", "dispersion", "solvent", "states", "temperature"))


def read(sentence: str, *answers, tmp_path: Path | None = None):
    steps = [says(json.dumps(a)) if isinstance(a, dict) else a for a in answers]
    with ScriptedServer(*steps) as server:
        settings = ModelSettings(model="openai/local", api_base=server.base, tries=2, timeout_s=5)

        async def sleep(_: float) -> None:
            pass

        async def run():
            client = ModelClient(settings, Ledger(), sleep=sleep)
            try:
                audit = AuditLog(tmp_path / "audit.jsonl" if tmp_path else None)
                return await Reader(client, audit).read(sentence)
            finally:
                await client.close()

        return asyncio.run(run()), server.requests


def test_a_sentence_becomes_the_job_that_it_states():
    wanted = {**NOTHING, "tasks": ["ensemble_spectrum"], "molecule": "acetone", "method": "PBE0", "basis": "def2-TZVP",
              "solvent": "water", "states": 8}  # fmt: skip
    asked, requests = read("UV/Vis spectrum of acetone in water, PBE0/def2-TZVP, 8 states", {"kind": "compute"}, wanted)
    assert len(requests) == 2
    assert asked.question == ""
    assert asked.job["graph"] == "ensemble-spectrum"
    assert asked.job["input"] == {
        "molecule": {"name": "acetone"},
        "level": {"method": "PBE0", "basis": "def2-TZVP", "density_fit": True},
        "environments": [{"name": "water", "solvent": "water"}],
        "excited_states": {"roots": 8},
    }


def test_what_a_model_invents_does_not_count(tmp_path):
    invented = {"tasks": ["optimize", "excited_states"], "molecule": "benzene", "charge": 1, "multiplicity": 2,
                "method": "M06-2X", "basis": "cc-pVTZ", "dispersion": "D4", "solvent": "ethanol", "states": 20,
                "temperature": 400}  # fmt: skip
    asked, _ = read("Please optimize formaldehyde", {"kind": "compute"}, invented, tmp_path=tmp_path)
    assert asked.job["input"] == {
        "molecule": {"name": "formaldehyde"},
        "tasks": ["optimize"],
        "level": {"method": "b3lyp", "basis": "def2-svp", "density_fit": True},
    }
    assert any("does not say 'M06-2X'" in note for note in asked.notes)
    assert "method is not stated: b3lyp" in asked.notes
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert lines[1]["proposed"]["charge"] == 1
    assert {fired["gate"] for fired in lines[1]["fired"]} >= {"tasks", "molecule", "charge", "states", "temperature"}


def test_what_is_missing_is_asked_for():
    asked, _ = read("optimize it with B3LYP", {"kind": "compute"}, {**NOTHING, "tasks": ["optimize"], "molecule": "it"})
    assert asked.job is None
    assert "do not know a molecule called 'it'" in asked.question


@pytest.mark.parametrize("taken", ["C", "N", "it geo", "Geo"])
def test_letters_of_other_words_are_no_molecule(taken):
    said = "Please optimize its geometry and give me the frequencies"
    asked, _ = read(said, {"kind": "compute"}, {**NOTHING, "tasks": ["optimize"], "molecule": taken})
    assert asked.job is None
    assert "which molecule?" in asked.question


def test_letters_of_other_words_are_no_method():
    asked, _ = read(
        "optimize water with frequencies",
        {"kind": "compute"},
        {**NOTHING, "tasks": [], "molecule": "water", "method": "HF"},
    )
    assert asked.job["input"]["level"]["method"] == "b3lyp"
    said = "relax water, not with PBE or PBE0 but with r2-SCAN"
    asked, _ = read(said, {"kind": "compute"}, {**NOTHING, "tasks": [], "molecule": "water", "method": "r2SCAN"})
    assert asked.job["input"]["level"]["method"] == "r2SCAN"


@pytest.mark.parametrize("taken", ["PBE0/6-31G*", "its harmonic frequencies", "6-31G*"])
def test_a_level_or_a_task_is_no_molecule(taken):
    said = "Optimise formaldehyde at PBE0/6-31G* and compute its harmonic frequencies."
    asked, _ = read(said, {"kind": "compute"}, {**NOTHING, "tasks": ["optimize"], "molecule": taken})
    assert asked.job["input"]["molecule"] == {"name": "formaldehyde"}
    asked, _ = read("optimize it at PBE0/6-31G*", {"kind": "compute"}, {**NOTHING, "tasks": [], "molecule": "PBE0"})
    assert "which molecule?" in asked.question


def test_ions_states_and_temperatures_are_read_from_the_words():
    filled = {**NOTHING, "tasks": ["optimize"], "molecule": "pyridine radical cation"}
    asked, _ = read("relax the pyridine radical cation and its frequencies at 77 K", {"kind": "compute"}, filled)
    assert asked.job["input"]["molecule"] == {"name": "pyridine", "charge": 1}
    assert asked.job["input"]["tasks"] == ["optimize", "frequencies"]
    assert asked.job["input"]["temperature"] == 77.0


def empty(sentence: str):
    """Return what gates alone make of a sentence."""
    filled = {**NOTHING, "tasks": [], "molecule": ""}
    return read(sentence, {"kind": "unclear"}, filled)[0].job["input"]


@pytest.mark.parametrize(
    ("said", "method", "basis"),
    [
        ("optimize water with UPBE0/def2-TZVP", "pbe0", "def2-tzvp"),
        ("excited states of water, TD-PBE0/aug-cc-pVDZ", "pbe0", "aug-cc-pvdz"),
        ("optimize water with MN15/6-311++G(d,p)", "mn15", "6-311++g(d,p)"),
        ("optimize water, rpbe / pcseg-1", "rpbe", "pcseg-1"),
        ("optimize water, UHF/6-31+G(d)", "hf", "6-31+g(d)"),
        ("relaxed water at r2SCAN/ma-def2-SVP", "r2scan", "ma-def2-svp"),
    ],
)
def test_a_level_that_is_stated_is_never_replaced_by_the_default(said, method, basis):
    level = empty(said)["level"]
    assert (level["method"], level["basis"]) == (method, basis)


def test_no_level_is_read_out_of_what_is_none():
    level = empty("optimize water and give me the energy in kcal/mol and/or 6 states")["level"]
    assert (level["method"], level["basis"]) == ("b3lyp", "def2-svp")


@pytest.mark.parametrize(
    ("said", "states"),
    [
        ("the lowest five vertical excitation energies of water", {"roots": 5}),
        ("3 triplet states of water", {"roots": 3, "triplets": True, "singlets": False}),
        ("ten singlet and triplet excitations of water", {"roots": 10, "triplets": True, "singlets": True}),
        ("excited states of water at 300 K", None),
    ],
)
def test_number_and_spin_of_excited_states_are_read_from_the_words(said, states):
    assert empty(said).get("excited_states") == states


def test_thermochemistry_is_that_of_a_minimum_unless_the_geometry_is_to_stay():
    assert empty("Gibbs free energy of water")["tasks"] == ["optimize", "frequencies"]
    assert empty("zero-point energy of water at the geometry given")["tasks"] == ["frequencies"]
    assert empty("vibrational frequencies of water")["tasks"] == ["frequencies"]


def test_a_model_that_fills_in_nothing_leaves_what_the_words_mean():
    asked, requests = read("relax formaldehyde with PBE0/def2-TZVP", says("I am afraid I cannot do that."))
    assert asked.job["input"]["molecule"] == {"name": "formaldehyde"}
    assert asked.job["input"]["level"]["method"] == "pbe0"
    assert any("the sentence's own words count" in note for note in asked.notes)
    assert len(requests) == 6
    asked, _ = read("what about it?", says("I am afraid I cannot do that."))
    assert "I can do" in asked.question


def test_a_conversion_is_computed_and_never_written_by_the_model(tmp_path):
    form = {"value": 3.3, "unit": "eV", "to": "nm"}
    asked, _ = read("how many nm are 3.2 eV?", {"kind": "compute"}, form)
    tool, said = asyncio.run(answer(asked, Desk(runs=tmp_path)))
    assert tool == "convert_units"
    assert said["value"] == pytest.approx(387.4506, abs=1e-3)


def test_nonsense_is_answered_with_what_can_be_done():
    asked, _ = read("make me a sandwich", {"kind": "unclear"})
    assert "I can do" in asked.question


def test_prompts_hold_the_sentence_and_forms_and_nothing_else():
    for prompt in prompts_for("optimize water"):
        assert len(prompt) == 2
        assert '"optimize water"' in prompt[1]["content"]


@pytest.mark.parametrize("sentence", ["", "   ", "x" * 5000])
def test_sentences_that_are_none_are_refused(sentence):
    with pytest.raises(BadInput):
        read(sentence, {"kind": "compute"})


def test_a_model_that_is_down_is_said():
    with pytest.raises(ModelUnavailable, match="2 tries"):
        read("optimize water", fails(503))


def test_a_sentence_is_read_by_rules_where_there_is_no_model(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAFICO_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["ask", "optimize formaldehyde with PBE0/def2-TZVP", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["job"]["input"]["molecule"] == {"name": "formaldehyde"}
    assert (found["job"]["input"]["level"]["method"], found["job"]["input"]["tasks"]) == ("pbe0", ["optimize"])
    assert found["notes"][0].startswith("no language model")
    assert not any("corrected" in note for note in found["notes"])
    unclear = CliRunner().invoke(app, ["ask", "make me a sandwich"])
    assert (unclear.exit_code, "I can do" in unclear.output) == (2, True)
    lost = CliRunner().invoke(app, ["ask", "optimize water", "--api-base", "http://127.0.0.1:1/v1"])
    assert lost.exit_code == 2
