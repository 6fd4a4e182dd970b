"""What Pydantic found wrong with a file, as one message: each problem with its place, what came and what was expected."""

import json
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from grafico.calculations import Json
from grafico.errors import JobError
from grafico.jobs.document import Document, Place

__all__ = ["did_you_mean", "dotted", "explain_errors", "lines_of", "shortened"]

MAX_PROBLEMS = 12

_QUOTABLE = {"string_type", "string_sub_type"}
_LIST = re.compile(r"must be a valid (tuple|list|set|frozenset)")
_SHOULD = re.compile(r"^(Input|String|List|Dictionary|Tuple|Value|Set|Data|Number|Decimal) should ")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known word, or nothing."""
    by_folded = {item.casefold(): item for item in known}
    close = get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"; did you mean '{by_folded[close[0]]}'?" if close else ""


def shortened(text: str, most: int = 80) -> str:
    """Return a text that a message can hold."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def explain_errors(error: ValidationError, document: Document, model: type[BaseModel], prefix: Place = ()) -> JobError:
    """Turn a validation error into one message.

    Parameters
    ----------
    error
        What validating the part of ``document`` under ``prefix`` raised.
    document
        Where the data came from.
    model
        The model that it was validated against.
    prefix
        Place of that part.
    """
    found: dict[Place, list[str]] = {}
    kinds: dict[Place, str] = {}
    for item in error.errors(include_url=False):
        place = (*prefix, *_place(item["loc"], _at(document.data, prefix), item["type"]))
        text = _describe(item, model)
        texts = found.setdefault(place, [])
        kinds[place] = item["type"]
        if text not in texts:
            texts.append(text)
    # Of a list that is too short because of what is wrong in it, or of keys where a word would do, only the latter is news.
    for place in [place for place, kind in kinds.items() if kind in {"too_short", "literal_error"}]:
        if any(other[: len(place)] == place and other != place for other in found):
            del found[place]
    lines = []
    for place, texts in sorted(found.items(), key=lambda item: document.lines.get(item[0], 0)):
        spot = [part for part in (document.position(place), shortened(dotted(place))) if part]
        # Several texts for one place are the members of a union: any of them would do.
        lines.append(f"{', '.join(spot)}: {', or '.join(texts)}" if spot else ", or ".join(texts))
    if len(lines) == 1:
        return JobError(f"{document.where}, {lines[0]}" if found else document.where)
    more = [f"  … and {len(lines) - MAX_PROBLEMS} more"] if len(lines) > MAX_PROBLEMS else []
    listed = "\n".join([*(f"  {line}" for line in lines[:MAX_PROBLEMS]), *more])
    return JobError(f"{document.where} has {len(lines)} problems:\n{listed}")


def lines_of(message: str, where: str) -> list[str]:
    """Return the problems in a message that speaks of the document ``where``, each without its name."""
    told = message.removeprefix(where)
    if told == message:
        return [message]
    heading, _, listed = told.partition(":\n")
    if re.fullmatch(r" has \d+ problems", heading):
        return [line.strip() for line in listed.split("\n")]
    return [told.removeprefix(",").removeprefix(":").strip()]


def dotted(place: Place) -> str:
    """Write a place as people do: ``input.levels[0].basis``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _at(data: Json, place: Place) -> Json:
    for part in place:
        data = data[part]
    return data


def _place(loc: Sequence[str | int], data: Json, kind: str) -> Place:
    """Drop what is not in the file from a location: tags of unions and names of validators."""
    place: list[str | int] = []
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        listed = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if listed or (isinstance(data, Mapping) and part in data):
            data = data[part]
        elif not (last and kind == "missing"):
            continue
        place.append(part)
    return tuple(place)


def _describe(item: Any, model: type[BaseModel]) -> str:
    kind, loc, came = item["type"], item["loc"], item["input"]
    context = item.get("ctx") or {}
    if kind == "extra_forbidden":
        known = sorted({name for owner in _types_at(model, loc[:-1]) for name in _names(owner)})
        listed = f" (known: {', '.join(known)})" if known else ""
        return f"unknown key{did_you_mean(str(loc[-1]), known)}{listed}"
    about = _about(model, loc)
    if kind == "missing":
        return f"missing{f': {about}' if about else ''}"
    if kind in {"literal_error", "enum"}:
        expected = str(context.get("expected", ""))
        choices = re.findall(r"'([^']*)'", expected)
        meant = did_you_mean(came, choices) if isinstance(came, str) else ""
        return f"must be {expected}, came {_show(came)}{meant}"
    if kind == "value_error":
        return f"{item['msg'].removeprefix('Value error, ')}"
    if kind in {"model_type", "model_attributes_type", "dict_type", "mapping_type"}:
        known = sorted({name for owner in _types_at(model, loc) for name in _names(owner)})
        listed = f" ({', '.join(known)})" if known else ""
        return f"must be keys with values{listed}, came {_show(came)}"
    if kind == "string_pattern_mismatch" and about:
        return f"cannot be {_show(came)}: {about}"
    text = _LIST.sub("must be a list", _SHOULD.sub("must ", item["msg"])).replace(" after validation", "")
    text = text.replace(", unable to parse string as a number", "").replace(
        ", unable to parse string as an integer", ""
    )
    quotes = "; put it in quotes" if kind in _QUOTABLE and isinstance(came, (int, float, bool, list, dict)) else ""
    return f"{text}, came {_show(came)}{quotes}{f' ({about})' if about else ''}"


def _show(value: object) -> str:
    if value is None:
        return "nothing (null)"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _names(owner: object) -> list[str]:
    if not (isinstance(owner, type) and issubclass(owner, BaseModel)):
        return []
    return [field.alias or name for name, field in owner.model_fields.items()]


def _about(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    for owner in _types_at(model, loc[:-1]):
        field = _field(owner, loc[-1]) if loc else None
        if field is not None and field.description:
            return field.description
    return ""


def _field(owner: object, part: str | int) -> FieldInfo | None:
    if not (isinstance(owner, type) and issubclass(owner, BaseModel)):
        return None
    return next((field for name, field in owner.model_fields.items() if part in {name, field.alias}), None)


def _types_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[object]:
    """Return the types that may stand at a location, following fields, items, values and unions."""
    current: list[object] = [model]
    for part in loc:
        following: list[object] = []
        for owner in current:
            field = _field(owner, part)
            if field is not None:
                following += _members(field.annotation)
            else:
                arguments = get_args(owner)
                if isinstance(part, int) and arguments:
                    following += _members(arguments[0])
                elif len(arguments) == 2:
                    following += _members(arguments[1])
        # Nothing matches: a tag of a union, which stays where it is.
        current = following or current
    return current


def _members(annotation: object) -> list[object]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        return [member for part in get_args(annotation) for member in _members(part)]
    return [annotation]
