"""Sentences that ask for no calculation, with forms that nobody filled in: units, runs, and what is known already."""

import asyncio

import pytest

pytest.importorskip("litellm")
pytest.importorskip("rdkit")

from hypothesis import given
from hypothesis import strategies as st

from grafico.agent.answers import answer
from grafico.agent.ask import Asked, Reader
from grafico.agent.quantities import quantities_in
from grafico.agent.questions import runs_in
from grafico.agent.tool import Desk
from grafico.bench.sentences import GivenForms
from grafico.errors import RunNotFound


def read(sentence: str, **forms) -> Asked:
    """Return what gates make of a sentence, with forms as given or empty ones."""
    return asyncio.run(Reader(GivenForms(forms) if forms else None).read(sentence))


@pytest.mark.parametrize(
    ("said", "value"),
    [
        # CODATA 2018: 1 hartree is 27.211386245988 eV, 2625.4996394798254 kJ/mol, 219474.63136320 cm⁻¹; hc is
        # 1239.8419843320026 eV nm; 1 bohr is 0.529177210903 Å; e·bohr is 2.541746473 D; a calorie is 4.184 J.
        ("Convert 3.5 eV to nm", 1239.8419843320026 / 3.5),
        ("What is 250 nm in electronvolts?", 1239.8419843320026 / 250),
        ("0.5 Å in bohr", 0.5 / 0.529177210903),
        ("1.5 A in a0", 1.5 / 0.529177210903),
        ("How many kcal/mol are 27.2 kJ mol⁻¹?", 27.2 / 4.184),
        ("1e-3 Ha as wavenumbers please", 219.47463136320),
        ("express 1,200 cm-1 in meV", 1200 / 219474.63136320 * 27211.386245988),
        ("0,5 eV in kilojoules per mole", 0.5 / 27.211386245988 * 2625.4996394798254),
        ("2.5×10^-3 Eh → kJ/mol", 2.5e-3 * 2625.4996394798254),
        ("Give −76.4 hartree in eV", -76.4 * 27.211386245988),
        ("a dipole moment of 1.85 debye in atomic units", 1.85 / 2.541746473),
        ("how many nm does an excitation energy of 3.2 eV correspond to?", 1239.8419843320026 / 3.2),
        ("energy of 5 kcal/mol in hartree", 5 * 4.184 / 2625.4996394798254),
        ("How many cm-1 are there in a hartree?", 219474.63136320),
        ("2 D in e*bohr", 2 / 2.541746473),
        ("Convert an excitation energy of 4.45 eV into a wavelength", 1239.8419843320026 / 4.45),
    ],
)
def test_number_and_units_are_read_from_the_words(said, value):
    asked = read(said)
    assert asked.question == ""
    tool, told = asyncio.run(answer(asked, Desk()))
    assert tool == "convert_units"
    assert told["value"] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("5 eV in nm and cm-1", "into which unit: nm or cm-1"),
        ("1 eV and 2 eV in nm", "one number at a time"),
        ("3 and 4 eV in nm", "one number at a time"),
        ("5 eV in debye", "cannot be converted into debye"),
        ("0.3 nm in atomic units", "length (bohr) or of energy"),
        ("convert 5 eV", "into which unit"),
    ],
)
def test_a_conversion_that_is_not_clear_is_asked_about(said, asks):
    asked = read(said)
    assert asked.kind == "convert_units"
    assert asks in asked.question


def test_a_model_may_choose_among_what_the_sentence_says_and_nothing_else():
    kind = {"kind": "convert_units"}
    chosen = read("5 eV in nm and cm-1", Sentence=kind, Conversion={"value": 5, "unit": "eV", "to": "wavenumbers"})
    assert chosen.form.to == "cm-1"
    other = read("5 eV in nm", Sentence=kind, Conversion={"value": 6, "unit": "hartree", "to": "kJ/mol"})
    assert (other.form.value, other.form.unit, other.form.to) == (5.0, "eV", "nm")
    assert "the sentence says 5 eV in nm" in other.notes[-1]
    assert "in which unit" in read("convert 5 to eV", Sentence=kind).question


@pytest.mark.parametrize(
    "said",
    [
        "energy of water at 300 K in kJ/mol",
        "absorption spectrum of acetone between 200 nm and 6 eV",
        "Optimize ethanol until the energy changes by less than 0.001 hartree, and give it in kcal/mol",
    ],
)
def test_units_of_a_calculation_ask_for_no_conversion(said):
    assert read(said).kind == "compute"


@given(
    st.floats(min_value=1e-6, max_value=1e6).map(lambda x: float(f"{x:.6g}")),
    st.sampled_from(["eV", "hartree", "kcal/mol", "kJ/mol", "cm-1", "meV"]),
    st.sampled_from(["{} {} in nm", "convert {} {} to nm", "how many nm are {} {}?", "please, what is {} {} in nm?"]),
)
def test_any_number_is_read_as_it_is_written(number, unit, form):
    said = quantities_in(form.format(repr(number), unit))
    assert said.given == ((number, unit),)
    assert said.targets == ("nm",)
    assert said.linked


@pytest.mark.parametrize(
    ("said", "run", "about"),
    [
        ("show me run acetone-3", "acetone-3", "status"),
        ("How did the run water-opt-2 go?", "water-opt-2", "status"),
        ("What happened in benzene-spectrum-1?", "benzene-spectrum-1", "story"),
        ("Why did lane 3 of run pyridine-5 fail?", "pyridine-5", "failures"),
        ("is run 'hono' finished?", "hono", "status"),
        ("Is my acetone-spectrum run done?", "acetone-spectrum", "status"),
        ("How did job tiny go?", "tiny", "status"),
        ("status of tiny-20261130-182848-9d6677", "tiny-20261130-182848-9d6677", "status"),
        ("How did the benzene job end?", "benzene", "status"),
        ("why was lane conf-002 of the last run stopped?", "last", "status"),
        ("How is the run going?", "last", "status"),
        ("what's my run doing?", "last", "status"),
        ("Why did the last run fail?", "last", "failures"),
        ("why did my run stop at cm-1 and M06-2X?", "last", "failures"),
    ],
)
def test_a_run_is_the_one_that_is_named_else_the_last(said, run, about):
    asked = read(said)
    assert asked.kind == "inspect_run"
    assert (asked.form.run, asked.form.about) == (run, about)


def test_another_run_than_the_one_that_is_named_is_never_told_of(tmp_path):
    named = read("Why did run acetone-3 fail?", Sentence={"kind": "inspect_run"}, Looking={"run": "last"})
    with pytest.raises(RunNotFound, match="acetone-3"):
        asyncio.run(answer(named, Desk(runs=tmp_path)))
    assert "one run at a time" in read("compare run a-1 and run b-2: which failed?").question


@pytest.mark.parametrize(
    "said", ["run TD-DFT on water", "Please run acetone with PBE0/def2-SVP", "Can you run water until it is done?"]
)
def test_run_may_be_a_verb(said):
    assert runs_in(said) == []
    assert read(said).kind != "inspect_run"


@pytest.mark.parametrize(
    ("said", "about", "molecule"),
    [
        ("Have we already calculated acetone?", "molecules", "acetone"),
        ("Was pyridine already computed?", "molecules", "pyridine"),
        ("did we ever optimize C=CC=O?", "molecules", "C=CC=O"),
        ("Is there already a UV/Vis spectrum of benzene?", "spectra", "benzene"),
        ("Which spectra do we have?", "spectra", None),
        ("which calculations on water have been done before?", "calculations", "water"),
        ("Do we have results for ethanol yet?", "calculations", "ethanol"),
        ("What runs have there been so far?", "runs", None),
        ("list the molecules in the knowledge base", "molecules", None),
        ("Did anyone already do a TDDFT of pyrrole?", "molecules", "pyrrole"),
        ("list all runs on water", "runs", "water"),
    ],
)
def test_what_is_known_already_is_asked_of_the_knowledge_base(said, about, molecule):
    asked = read(said)
    assert asked.kind == "ask_knowledge"
    assert (asked.form.about, asked.form.molecule) == (about, molecule)


@pytest.mark.parametrize(
    "said",
    [
        "Take the previously optimized geometry of water and compute its frequencies",
        "Compute the vibrational frequencies of water, which was already optimized",
    ],
)
def test_an_order_is_no_question_whatever_was_done_before(said):
    assert read(said).kind == "compute"
