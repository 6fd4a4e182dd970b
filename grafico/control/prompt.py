"""What a model is told of a routing question: summaries, marked scalars, options. Never objects, arrays or files."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grafico.calculations import Json
from grafico.control.schemas import describe_schema
from grafico.graphs.protocols import RouteQuestion

__all__ = ["REASONING", "SYSTEM", "Message", "corrections", "route_messages"]

Message = dict[str, str]

SYSTEM = """You choose the next step of a computational chemistry workflow.
Choose exactly one of the admissible steps, by the user's intent and by what was found so far.
Answer with one JSON object and nothing else. Use step names exactly as they are given. Give a parameter only if the
step has it, and only values that the intent or the findings state. Never invent results."""

REASONING = "why, in one sentence"
"""Stands where the reasoning belongs in the form; a model that copies it has given none."""

STEP = "name of the step"
"""Stands where the successor belongs in the form."""

LONGEST_SUMMARY = 600
MOST_SUMMARIES = 40


def route_messages(question: RouteQuestion) -> list[Message]:
    """Return the conversation that asks a routing question.

    The descriptions of the schema are repeated in words, because servers that compile a schema into a grammar lose them.
    """
    lines = [f"Workflow: {question.graph}. Present step: {question.node}."]
    lines.append(f"User's intent: {question.intent or 'not stated beyond the job itself'}")
    if question.summaries:
        told = question.summaries[-MOST_SUMMARIES:]
        left = len(question.summaries) - len(told)
        lines.append(f"Steps so far{f' (the first {left} are left out)' if left else ''}:")
        lines += [f"- {_short(text)}" for text in told]
    if question.scalars:
        lines.append(f"Values: {json.dumps(dict(question.scalars), sort_keys=True)}")
    lines.append("Admissible steps:")
    for option in question.options:
        lines.append(f"- {option.successor}: {option.description or 'no description'}")
        lines += [f"    parameter {line}" for line in describe_schema(option.parameters)]
    if question.vetoed:
        lines.append("Steps that are forbidden now:")
        lines += [f"- {name}: {reason}" for name, reason in question.vetoed.items()]
    if question.suggestion is not None:
        lines.append(f"The workflow's own rule would take: {question.suggestion.successor}")
    if question.task is not None:
        lines.append("Besides the route you write a task output, with these fields:")
        lines += [f"    {line}" for line in describe_schema(question.task)]
    lines.append(_form(question))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(lines)}]
    return messages + corrections(question.errors)


def corrections(errors: Sequence[str]) -> list[Message]:
    """Return what is added when earlier answers were refused."""
    if not errors:
        return []
    said = "\n".join(f"- {_short(error)}" for error in errors)
    return [{"role": "user", "content": f"Your last answer was refused:\n{said}\nAnswer again, correctly."}]


def _form(question: RouteQuestion) -> str:
    # Small models copy the step that is named last: no step stands here, so that is the rule's suggestion.
    route: Mapping[str, Any] = {
        "successor": STEP,
        "parameters": {},
        "reasoning": REASONING,
        "confidence": 0.9,
    }
    form: Mapping[str, Json] = route if question.task is None else {"output": {}, "route": route}
    return f"Form of the answer: {json.dumps(form)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SUMMARY else f"{line[: LONGEST_SUMMARY - 1]}…"
