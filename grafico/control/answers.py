"""Reading what a model wrote: one JSON object, perhaps in prose, or the reason why there is none."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from grafico.calculations import Json
from grafico.errors import BadAnswer

__all__ = ["placeholders", "read_object"]

FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)
THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
PLACEHOLDER = re.compile(
    r"^\s*(\.\.\.|…|string|todo|tbd|n/a|placeholder|<[^<>]*>|\{[^{}]*\})\s*$",
    re.IGNORECASE,
)
LONGEST = 200_000
MOST_STARTS = 50


def read_object(text: str | None, *, cut: bool = False) -> dict[str, Json]:
    """Return the JSON object in an answer.

    Parameters
    ----------
    text
        What the model wrote: JSON, JSON in a code block, or JSON with prose around it.
    cut
        The server says that the answer reached its largest length.

    Raises
    ------
    BadAnswer
        There is none, it is empty, or it is cut off; says which.
    """
    text = THINKING.sub("", (text or "")[:LONGEST]).strip()
    if not text:
        raise BadAnswer("the answer is empty")
    for candidate in _candidates(text):
        try:
            value = json.loads(candidate, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            if not value:
                raise BadAnswer("the answer is an empty object")
            return value
    if cut:
        raise BadAnswer("the answer is cut off at its largest length; answer more briefly")
    raise BadAnswer("the answer holds no JSON object")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _candidates(text: str) -> Iterator[str]:
    yield text
    for match in FENCE.finditer(text):
        yield match.group(1).strip()
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(MOST_STARTS):
        at = text.find("{", at + 1)
        if at < 0:
            return
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        yield text[at:end]


def placeholders(value: Mapping[str, Json]) -> list[str]:
    """Return where an object holds filler instead of content: ``...``, ``string``, ``<value>``, a field's own name."""
    return list(_placeholders(value, ""))


def _placeholders(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _placeholders(inner, f"{where}.{name}" if where else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _placeholders(inner, f"{where}.{number}")
    elif isinstance(value, str) and (PLACEHOLDER.match(value) or value.strip().lower() == where.rpartition(".")[2]):
        yield where
