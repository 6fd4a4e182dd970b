"""From a sentence to something that can be done: a model reads, if there is one, gates dispose, code composes and checks.

The model is asked for two small objects at most: what kind of thing is wanted, and its particulars. It never sees a
coordinate, a file or a result, and nothing that it writes is shown as an answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from grafico.agent.grounding import wanted_gates
from grafico.agent.quantities import conversion_gates
from grafico.agent.questions import kind_gates, knowing_gates, looking_gates
from grafico.agent.wanted import KINDS, Conversion, Kind, Knowing, Looking, Molecule, Sentence, Wanted, compose
from grafico.calculations import Json, Model
from grafico.control.audit import AuditLog
from grafico.control.prompt import Message, corrections
from grafico.control.schemas import describe_schema
from grafico.control.settings import ModelSettings
from grafico.errors import BadAnswer, BadInput
from grafico.gates import Decision, Gate, Ruling

__all__ = ["Asked", "Forms", "Reader", "prompts_for", "resolve"]

LONGEST = 4000
SYSTEM = """You read requests of a computational chemist and fill in a form. Copy names, numbers and SMILES exactly as the
request has them. Use null for what the request does not state. Never compute or invent anything."""


@dataclass
class Asked:
    """What became of a sentence."""

    kind: Kind
    job: Mapping[str, Json] | None = None
    form: Model | None = None
    """What the model filled in, after the gates."""
    question: str = ""
    """What the user has to say first; empty when all is clear."""
    notes: list[str] = field(default_factory=list)
    """What gates changed, and what was assumed."""


BLANK: Mapping[type[Model], Model] = {
    Sentence: Sentence(kind="unclear"),
    Wanted: Wanted(tasks=(), molecule=""),
    Conversion: Conversion(value=0.0, unit="", to=""),
    Looking: Looking(),
    Knowing: Knowing(about="molecules"),
}
"""Forms that gates can work on although nobody filled them in."""


class Forms(Protocol):
    """Who fills forms in: a :class:`~grafico.control.ModelClient`, or answers that were kept."""

    settings: ModelSettings

    async def ask(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Json],
        /,
        *,
        purpose: str,
        lane: str = "",
        where: str = "",
        repaired: bool = False,
    ) -> dict[str, Json]:
        """Return the form that a schema describes, filled in."""
        ...


class Reader:
    """Reads sentences.

    Parameters
    ----------
    client
        The model; none: the words of a sentence that have one meaning are all that counts.
    audit
        Where proposals and what gates made of them are logged.
    """

    def __init__(self, client: Forms | None, audit: AuditLog | None = None) -> None:
        self.client = client
        self.audit = audit or AuditLog()

    async def read(self, sentence: str, *, cluster: str = "laptop") -> Asked:
        """Return what a sentence asks for, or the question that has to be answered first.

        Raises
        ------
        BadInput
            The sentence is empty or too long.
        ModelError
            The model cannot be asked.
        """
        sentence = _checked(sentence)
        kind = await self._form(sentence, Sentence, kind_gates(sentence), "kind")
        found = kind.form.kind if isinstance(kind.form, Sentence) else "unclear"
        if found == "unclear" or kind.question:
            listed = "; ".join(f"{words}" for name, words in KINDS.items() if name != "unclear")
            return Asked("unclear", question=f"I cannot tell what you want. I can do: {listed}.", notes=kind.notes)
        if found == "compute":
            return await self._compute(sentence, kind.notes, cluster)
        forms: Mapping[str, type[Model]] = {
            "convert_units": Conversion,
            "inspect_run": Looking,
            "ask_knowledge": Knowing,
        }
        asked = await self._form(sentence, forms[found], _gates_of(found, sentence), found)
        return Asked(found, form=asked.form, question=asked.question, notes=kind.notes + asked.notes)

    async def _compute(self, sentence: str, notes: list[str], cluster: str) -> Asked:
        from grafico.chemistry.level import solvent_names
        from grafico.chemistry.names import ALIASES, NAMES

        gates = wanted_gates(sentence, [*NAMES, *ALIASES], solvent_names())
        asked = await self._form(sentence, Wanted, gates, "calculation")
        notes = notes + asked.notes
        if asked.question or not isinstance(asked.form, Wanted):
            return Asked("compute", form=asked.form, question=asked.question, notes=notes)
        molecule, question = resolve(asked.form.molecule)
        if question:
            return Asked("compute", form=asked.form, question=question, notes=notes)
        assumed = [
            f"{name} is not stated: {value}"
            for name, value in (("method", "b3lyp"), ("basis", "def2-svp"))
            if getattr(asked.form, name) is None
        ]
        return Asked("compute", compose(asked.form, molecule, cluster=cluster), asked.form, notes=notes + assumed)

    async def _form(self, sentence: str, form: type[Model], gates: Sequence[Gate[Any]], what: str) -> Asked:
        """Have a form filled in; it goes back when it does not validate."""
        value, agent, notes = BLANK[form], "rules", list[str]()
        if self.client is not None:
            agent = self.client.settings.model
            filled, why = await self._filled(self.client, sentence, form, what)
            if filled is None:
                # What the words of the sentence mean to the gates does not need the model.
                notes = [f"the model filled in no {what} ({why}); the sentence's own words count"]
            value = filled or value
        disposed, decisions = self.audit.dispose(
            gates, value, agent=agent, asked=f"{what}: {sentence[:200]}", shown=value.model_dump(mode="json")
        )
        notes += _notes(decisions, corrected="corrected" if self.client is not None else "read")
        return Asked("unclear", form=disposed, question=_question(decisions), notes=notes)

    async def _filled(self, client: Forms, sentence: str, form: type[Model], what: str) -> tuple[Model | None, str]:
        """Return the form as the model filled it in, or nothing and why."""
        messages = prompt_of(sentence, form)
        schema = form.model_json_schema()
        errors: tuple[str, ...] = ()
        for _ in range(1 + client.settings.corrections):
            try:
                answer = await client.ask(
                    [*messages, *corrections(errors)], schema, purpose="ask", where=what, repaired=bool(errors)
                )
                return form.model_validate(_tidied(answer, form)), ""
            except BadAnswer as error:
                return None, error.message
            except ValidationError as error:
                errors = tuple(
                    f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
                    for item in error.errors(include_url=False, include_context=False)[:5]
                )
        return None, errors[0]


def prompts_for(sentence: str) -> list[list[Message]]:
    """Return every prompt that a sentence may lead to: all that may leave the machine."""
    sentence = _checked(sentence)
    return [prompt_of(sentence, form) for form in (Sentence, Wanted, Conversion, Looking, Knowing)]


def prompt_of(sentence: str, form: type[Model]) -> list[Message]:
    """Return the conversation that asks for one form."""
    lines = "\n".join(f"- {line}" for line in describe_schema(form.model_json_schema()))
    asked = f"Request: {json.dumps(sentence, ensure_ascii=False)}\nFill in this form as one JSON object:\n{lines}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]


def resolve(text: str) -> tuple[Molecule, str]:
    """Return the molecule that a name or a SMILES means, or a question."""
    from grafico.chemistry.names import ALIASES, NAMES

    name = " ".join(text.lower().split())
    name = ALIASES.get(name, name)
    if name in NAMES:
        return Molecule(name=name), ""
    if _is_smiles(text.strip()):
        return Molecule(smiles=text.strip()), ""
    from grafico.chemistry.level import closest

    near = closest(name, [*NAMES, *ALIASES])
    return (
        Molecule(),
        f"I do not know a molecule called {text.strip()!r} ({near or 'the table of names is small'}): give its SMILES.",
    )


def _is_smiles(text: str) -> bool:
    if not text or " " in text:
        return False
    from grafico.atoms.optional import require

    chem = require("rdkit.Chem", purpose="to read SMILES")
    require("rdkit.RDLogger", purpose="to read SMILES").DisableLog("rdApp.*")
    return chem.MolFromSmiles(text) is not None


def _tidied(answer: Mapping[str, Json], form: type[Model]) -> dict[str, Json]:
    """Leave out what says nothing, such as an empty text for something optional, and what the form does not have."""
    required = {name for name, info in form.model_fields.items() if info.is_required()}
    return {
        name: value
        for name, value in answer.items()
        if name in form.model_fields and not (value in ("", "null", "none", "None") and name not in required)
    }


def _gates_of(kind: str, sentence: str) -> tuple[Gate[Any], ...]:
    if kind == "convert_units":
        return conversion_gates(sentence)
    if kind == "inspect_run":
        return looking_gates(sentence)
    from grafico.chemistry.names import ALIASES, NAMES

    return knowing_gates(sentence, [*NAMES, *ALIASES])


def _question(decisions: Sequence[Decision[Any]]) -> str:
    return next((decision.reason for decision in decisions if decision.ruling is Ruling.REFUSE), "")


def _notes(decisions: Sequence[Decision[Any]], *, corrected: str) -> list[str]:
    words = {Ruling.CORRECT: corrected, Ruling.FLAG: "unsure"}
    return [f"{words[d.ruling]}: {d.gate}: {d.reason}" for d in decisions if d.ruling in words]


def _checked(sentence: str) -> str:
    sentence = " ".join(sentence.split())
    if not sentence:
        raise BadInput("the sentence is empty", hint='as in: grafico ask "UV/Vis spectrum of acetone in water"')
    if len(sentence) > LONGEST:
        raise BadInput(f"the sentence has {len(sentence)} characters; {LONGEST} are read at most")
    return sentence
