"""Twenty sentences that a chemist would write: how often a form becomes the right job, or a question where one is due.

Three ways are compared: the form as the model filled it in, the same after the gates, and the gates with an empty form,
which is what they can do without any model. A job is right when every particular is what the sentence means and nothing
else was put in: tasks, molecule, charge, spin, method, dispersion, basis, solvent, states, temperature.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.agent.answers import answer
from grafico.agent.ask import Asked, Forms, Reader, resolve
from grafico.agent.running import prepared
from grafico.agent.tool import Desk
from grafico.agent.wanted import Conversion, Knowing, Looking, Wanted, compose
from grafico.calculations import Json
from grafico.chemistry.level import resolve as resolve_level
from grafico.chemistry.molecules import resolve_molecule, smiles_of_name
from grafico.chemistry.request import ExcitedStates, MoleculeInput
from grafico.control import AuditLog, Ledger, ModelClient, ModelSettings
from grafico.control.ledger import total
from grafico.control.local import serving
from grafico.errors import BadInput, ModelError
from grafico.units import convert

__all__ = ["GivenForms", "bench", "is_right", "meaning_of", "read_sentences"]

TEMPERATURE = 298.15
TIMES = {"timeout_s": 240.0, "patience_s": 600.0, "tries": 2, "corrections": 1, "max_tokens": 200}
FORMS = {form.__name__: form for form in (Wanted, Conversion, Looking, Knowing)}
EMPTY: Mapping[str, Mapping[str, Json]] = {
    "Sentence": {"kind": "unclear"},
    "Wanted": {"tasks": [], "molecule": ""},
    "Conversion": {"value": 0, "unit": "", "to": ""},
    "Looking": {},
    "Knowing": {"about": "molecules"},
}


class GivenForms:
    """Forms that were filled in before: by nobody, or by a model whose answers were kept.

    Parameters
    ----------
    answers
        By the form's name; a form that is not among them comes back empty.
    """

    def __init__(self, answers: Mapping[str, Mapping[str, Json]]) -> None:
        self.settings = ModelSettings(model="given", corrections=0)
        self.answers = answers

    async def ask(self, _: Sequence[Any], schema: Mapping[str, Json], **__: Any) -> dict[str, Json]:
        """Return the form that a schema describes."""
        name = str(schema["title"])
        return dict(self.answers.get(name, EMPTY[name]))


class Keeping:
    """Asks a model, and keeps what it answered."""

    def __init__(self, client: ModelClient) -> None:
        self.client = client
        self.settings = client.settings
        self.answers: dict[str, Mapping[str, Json]] = {}

    async def ask(self, messages: Sequence[Any], schema: Mapping[str, Json], **about: Any) -> dict[str, Json]:
        """Ask."""
        found = await self.client.ask(messages, schema, **about)
        self.answers[str(schema["title"])] = found
        return found


def read_sentences() -> list[dict[str, Any]]:
    """Return the sentences with what they mean."""
    found: list[dict[str, Any]] = json.loads(
        files("grafico.bench").joinpath("sentences.json").read_text(encoding="utf-8")
    )
    return found


def bench(models: Sequence[str], api_base: str | None, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure rules alone, then each model with and without gates.

    Returns
    -------
    dict
        Shares; for each model, under ``sentences``, which sentences came out right.
    """
    sentences = read_sentences()
    alone = [is_right(asyncio.run(_read(item["say"], None)), item["want"]) for item in sentences]
    found: dict[str, Any] = {"sentences": len(sentences), "gates with an empty form": _share(alone)}
    for name in models:
        with serving(name, api_base) as which:
            settings = ModelSettings.model_validate({**TIMES, **which})
            found[Path(name).name] = asyncio.run(_model(settings, sentences, tell))
    return found


async def _model(
    settings: ModelSettings, sentences: Sequence[Mapping[str, Any]], tell: Callable[[str], None]
) -> dict[str, Any]:
    ledger = Ledger()
    client = ModelClient(settings, ledger)
    bare, gated, details = [], [], {}
    try:
        for item in sentences:
            forms = Keeping(client)
            try:
                meant = await _read(item["say"], forms)
            except ModelError as error:
                if ledger.calls and all(call.status == "failed" for call in ledger.calls):
                    raise
                meant = {"kind": "no form", "why": error.message}
            gated.append(is_right(meant, item["want"]))
            bare.append(is_right(await without_gates(forms.answers), item["want"]))
            tell(f"{len(gated)} of {len(sentences)} sentences read")
            words = {True: "right", False: "wrong"}
            details[item["say"][:60]] = f"{words[bare[-1]]} as filled in, {words[gated[-1]]} with gates"
    finally:
        await client.close()
    spent = total(ledger.calls)
    return {
        "as the model filled it in": _share(bare),
        "with gates": _share(gated),
        "requests a sentence": round(spent.calls / len(sentences), 2),
        "tokens a sentence": round(spent.all_tokens / len(sentences)),
        "sentences": details,
    }


async def _read(sentence: str, forms: Forms | None) -> dict[str, Json]:
    return await meaning_of(await Reader(forms, AuditLog()).read(sentence))


async def without_gates(answers: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    """Return what forms mean as they were filled in."""
    kind = answers.get("Sentence", {}).get("kind")
    form = {"compute": "Wanted", "convert_units": "Conversion", "inspect_run": "Looking", "ask_knowledge": "Knowing"}
    name = form.get(str(kind))
    if name is None:
        return {"kind": "question"}
    if name not in answers:
        return {"kind": str(kind), "why": "the gates asked for another form"}
    try:
        filled = FORMS[name].model_validate(answers[name])
        if not isinstance(filled, Wanted):
            return await meaning_of(Asked(kind, form=filled))  # type: ignore[arg-type]
        molecule, question = resolve(filled.molecule)
        if question:
            return {"kind": "question"}
        return await meaning_of(Asked("compute", compose(filled, molecule), filled))
    except (ValidationError, IndexError) as error:
        return {"kind": "invalid", "why": str(error)[:200]}


async def meaning_of(asked: Asked) -> dict[str, Json]:
    """Return what a sentence came to, in words that can be compared; a job that does not validate is ``invalid``."""
    if asked.question:
        return {"kind": "question", "question": asked.question}
    if asked.job is None:
        said = asked.form.model_dump(mode="json") if asked.form is not None else {}
        found: dict[str, Json] = {"kind": asked.kind, **said}
        if isinstance(asked.form, Conversion):
            try:
                found["answer"] = (await answer(asked, Desk()))[1]["value"]
            except BadInput as error:
                found["why"] = error.message
        return found
    try:
        with prepared(asked.job, Desk()) as ready:
            return _particulars(asked.job["graph"] == "ensemble-spectrum", ready.loaded.request)
    except BadInput as error:
        return {"kind": "invalid", "why": error.message}


def _particulars(ensemble: bool, request: Any) -> dict[str, Json]:
    molecule: MoleculeInput = request.molecule
    atoms = resolve_molecule(molecule)
    solvents = [item.solvent for item in request.environments] if ensemble else []
    solvent = request.level.solvent
    tasks = ["spectrum"] if ensemble else list(request.tasks)
    return {
        "kind": "compute",
        "tasks": sorted(tasks),
        "molecule": _identity(molecule.smiles or smiles_of_name(molecule.name or "")),
        "charge": atoms.charge,
        "multiplicity": atoms.multiplicity,
        "method": str(resolve_level(request.level.method, request.level.dispersion)),
        "basis": _basis(request.level.basis),
        "solvent": (solvents[0] if len(solvents) == 1 else str(solvents)) if ensemble else solvent and solvent.name,
        "roots": request.excited_states.roots if {"spectrum", "tddft"} & set(tasks) else None,
        "triplets": request.excited_states.triplets,
        "temperature": request.temperature,
    }


def is_right(meant: Mapping[str, Json], want: Mapping[str, Any]) -> bool:
    """Return whether a sentence came to what it means."""
    if "any" in want:
        return any(is_right(meant, one) for one in want["any"])
    if meant["kind"] != want["kind"]:
        return False
    if want["kind"] == "question":
        return True
    if want["kind"] == "convert_units":
        right = convert(want["value"], want["unit"], want["to"])
        found = meant.get("answer")
        return found is not None and abs(found - right) <= 1e-9 * abs(right)
    if want["kind"] != "compute":
        return all(meant.get(name) == value for name, value in want.items())
    return any(meant == {**_expected(want, tasks)} for tasks in _alternatives(want["tasks"]))


def _alternatives(given: Any) -> Sequence[Sequence[str]]:
    return given["any"] if isinstance(given, Mapping) else [given]


def _expected(want: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, Json]:
    """Return the particulars of a label; what it does not name is not stated, and must be the default."""
    which = MoleculeInput(smiles=want["molecule"], charge=want.get("charge"), multiplicity=want.get("multiplicity"))
    atoms = resolve_molecule(which)
    excited = bool({"spectrum", "tddft"} & set(tasks))
    return {
        "kind": "compute",
        "tasks": sorted(tasks),
        "molecule": _identity(want["molecule"]),
        "charge": atoms.charge,
        "multiplicity": atoms.multiplicity,
        "method": str(resolve_level(want.get("method", "b3lyp"), want.get("dispersion"))),
        "basis": _basis(want.get("basis", "def2-svp")),
        "solvent": want.get("solvent"),
        "roots": want.get("roots", ExcitedStates().roots) if excited else None,
        "triplets": want.get("triplets", False),
        "temperature": want.get("temperature", TEMPERATURE),
    }


def _basis(name: str) -> str:
    return name.lower().replace("(d,p)", "**").replace("(d)", "*")


def _identity(smiles: str) -> str:
    """Return the InChIKey, which does not mind how a structure is written."""
    from grafico.atoms.optional import require

    chem = require("rdkit.Chem", purpose="to compare molecules")
    return str(chem.MolToInchiKey(chem.MolFromSmiles(smiles)))


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)} ({100 * sum(right) / len(right):.0f} %)"
