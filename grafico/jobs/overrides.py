"""``--set key.sub=value``: one value of a job file, given on the command line."""

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grafico.calculations import Json
from grafico.errors import JobError
from grafico.jobs.document import Document, Place, parse_yaml
from grafico.jobs.problems import dotted, shortened
from grafico.jobs.tables import plain_text

__all__ = ["apply_overrides", "parse_override", "parse_place", "put"]

_KEY = re.compile(r"(?P<key>[^.\[\]\s=]+)(?P<indices>(\[\d+\])*)")


def parse_place(key: str) -> Place | None:
    """Read a dotted path as people write it, ``input.levels[0].basis``; ``None`` if it is none."""
    place: list[str | int] = []
    for part in key.strip().split("."):
        match = _KEY.fullmatch(part)
        if match is None:
            return None
        name = match["key"]
        place.append(int(name) if name.isdigit() and place else name)
        place += [int(index) for index in re.findall(r"\d+", match["indices"])]
    return tuple(place)


def parse_override(text: str) -> tuple[Place, Json]:
    """Read ``input.levels[0].basis=def2-SVP``; the value is YAML.

    What the matrix of a sweep varies has a dotted path for a key: ``matrix.input.level.basis=[def2-svp, def2-tzvp]``;
    so has what a member that is added or left out says: ``include[0].input.level.basis=def2-svp``.

    Raises
    ------
    JobError
        There is no ``=``, the key is malformed, or the value is not plain YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise JobError(
            f"--set {shortened(text)}: expected KEY=VALUE", hint="for example --set input.level.basis=def2-SVP"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise JobError(f"--set {shortened(plain_text(text))}: not UTF-8 text") from None
    place = parse_place(key)
    if place is None:
        raise JobError(
            f"--set {shortened(text)}: '{shortened(key)}' is no key", hint="write keys as input.levels[0].basis"
        )
    if place[0] == "matrix" and len(place) > 1:
        place = ("matrix", dotted(place[1:]))
    elif place[0] in {"include", "exclude"} and len(place) > 2:
        place = (*place[:2], dotted(place[2:]))
    where = f"--set {shortened(key.strip())}"
    try:
        return place, parse_yaml(value, where)[0]
    except JobError as error:
        if "\n" in value:
            raise
        # It is one line; which one need not be said.
        message = re.sub(f"^{re.escape(where)}, line \\d+(, column \\d+)?", f"--set {shortened(text)}", error.message)
        hint = "quote it for the shell, as in --set 'input.numbers=[1, 2]'" if "not YAML" in message else error.hint
        raise JobError(message, hint=hint) from None


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return the document with each override put in; validation comes later, as for the rest.

    Raises
    ------
    JobError
        An override goes through something that is no mapping, or an index that is not there.
    """
    data: Any = copy.deepcopy(dict(document.data))
    given = dict(document.overridden)
    for text in overrides:
        place, value = parse_override(text)
        put(data, place, value, f"--set {shortened(text)}")
        given[place] = f"--set {shortened(text)}"
    return replace(document, data=data, overridden=given)


def put(data: Any, place: Place, value: Json, what: str) -> None:
    """Put a value into nested mappings and lists; mappings that are missing on the way are made.

    Parameters
    ----------
    what
        Who puts it, for messages.

    Raises
    ------
    JobError
        The way leads through something that is no mapping, or an index that is not there.
    """
    current = data
    for depth, given in enumerate(place):
        part = str(given) if isinstance(current, dict) else given
        before = dotted(place[:depth]) or "the job"
        last = depth == len(place) - 1
        if isinstance(current, list):
            if not isinstance(part, int) or part >= len(current):
                raise JobError(f"{what}: {before} is a list of {len(current)}", hint="indices start at 0")
        elif isinstance(current, dict):
            if not last and current.get(part) is None:
                current[part] = {}
        else:
            raise JobError(f"{what}: {before} is {current!r}, not a mapping", hint=f"set {before} itself")
        if last:
            current[part] = value
        else:
            current = current[part]
