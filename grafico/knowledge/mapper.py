"""From entities to triples.

A description is a mapping from a subject to its predicate-object pairs, all of them N-Triples terms. Every class of an
entity's lineage is stated, so that a query for a superclass finds it without inference. A list is stated twice: each
item directly under the property, for queries, and in order under ``<property>.order`` as an RDF list. The cells of a
list are named by their content, so equal lists are one and no two runs can contradict each other about one.
"""

import base64
import enum
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import quote

from grafico.calculations import ArtifactRef
from grafico.errors import BadInput, KnowledgeError
from grafico.knowledge.arrays import ARRAY_KINDS, MAX_INLINE_BYTES, encode_array
from grafico.knowledge.entity import Entity, deferred, lineage, local_name
from grafico.knowledge.files import StoredArray, StoredArrays
from grafico.knowledge.plan import DATATYPES, FieldPlan, plan_of
from grafico.knowledge.vocabulary import (
    GRAFICO,
    ID,
    RDF,
    XSD,
    check_iri,
    decimal_text,
    integer_text,
    iri_term,
    literal_term,
)

__all__ = ["Description", "KeepArray", "artifact_iri", "describe", "enum_iri", "n_quads", "scalar_term"]

Description: TypeAlias = dict[str, frozenset[tuple[str, str]]]

TYPE = iri_term(RDF + "type")
FIRST, REST, NIL = iri_term(RDF + "first"), iri_term(RDF + "rest"), iri_term(RDF + "nil")
UNSET = iri_term(GRAFICO + "unset")
ARTIFACT = iri_term(GRAFICO + "Artifact")
MEDIA_TYPE, SIZE = iri_term(GRAFICO + "mediaType"), iri_term(GRAFICO + "size")
DIGEST = iri_term(GRAFICO + "sha256")


KeepArray: TypeAlias = Callable[[Any], ArtifactRef]
"""Stores an array as a file and returns what names it."""
MAX_DECIMAL_CHARACTERS = 10_000
MAX_JSON_VALUES = 1_000_000


@dataclass(slots=True)
class _Writing:
    """What has been described so far, and what is still to be."""

    pending: list[Entity]
    keep: KeepArray | None
    found: Description = field(default_factory=dict)


def describe(roots: Iterable[Entity], *, keep: KeepArray | None = None) -> Description:
    """Return the description of entities and of everything that they refer to.

    Entities that have only been referred to, and never loaded, are left as references.

    Parameters
    ----------
    roots
        Where to begin.
    keep
        Stores an array that is too large for a literal, such as
        :meth:`ArtifactFolder.keep <grafico.knowledge.files.ArtifactFolder.keep>`; without it, one is refused.

    Raises
    ------
    KnowledgeError
        A value has no form in the graph, or two objects describe one IRI differently.
    """
    out = _Writing(list(roots), keep)
    seen: dict[int, Entity] = {}
    while out.pending:
        entity = out.pending.pop()
        if not isinstance(entity, Entity):
            raise KnowledgeError(f"an entity was expected, not {type(entity).__name__}")
        if id(entity) in seen or not entity.loaded:
            continue
        seen[id(entity)] = entity
        _describe_one(entity, out)
    return out.found


def _describe_one(entity: Entity, out: _Writing) -> None:
    pairs = {(TYPE, iri_term(class_iri)) for class_iri in _types(type(entity))}
    for plan in plan_of(type(entity)):
        try:
            # An array that was not looked at is described without reading it.
            waiting = deferred(entity, plan.name) if plan.kind == "array" else None
            value = getattr(entity, plan.name, _MISSING) if waiting is None else waiting
            _describe_field(value, plan, pairs, out)
        except (KnowledgeError, BadInput) as error:
            raise KnowledgeError(f"{entity!r}, field {plan.name}: {error.message}", hint=error.hint) from error
    _state(out.found, iri_term(entity.iri), frozenset(pairs))


def _state(found: Description, subject: str, pairs: frozenset[tuple[str, str]]) -> None:
    known = found.setdefault(subject, pairs)
    if known != pairs:
        differing = sorted({predicate for predicate, _ in known ^ pairs})
        raise KnowledgeError(
            f"two objects describe {subject} differently: {', '.join(differing)}",
            hint="use one object for one thing, or put what differs into the natural key",
        )


_MISSING = object()


@cache
def _types(cls: type[Entity]) -> tuple[str, ...]:
    return tuple(iri for base in lineage(cls) for iri in (base.class_iri(), *vars(base).get("also", ())))


def _describe_field(value: Any, plan: FieldPlan, pairs: set[tuple[str, str]], out: _Writing) -> None:
    if value is _MISSING:
        raise KnowledgeError("it has no value", hint="set it; model_construct() does not ask for it")
    if value is None:
        if not plan.null_default:
            pairs.add((UNSET, iri_term(plan.predicate)))
        return
    predicate = iri_term(plan.predicate)
    if plan.container == "one":
        term = _term(value, plan, out)
        pairs.add((iri_term(plan.file) if plan.kind == "array" and term.startswith("<") else predicate, term))
        return
    terms = [_term(item, plan, out) for item in (value.items if isinstance(value, StoredArrays) else value)]
    if plan.kind == "array":
        pairs.update((iri_term(plan.file) if term.startswith("<") else predicate, term) for term in terms)
    else:
        pairs.update((predicate, term) for term in terms)
    if plan.container == "list":
        pairs.add((iri_term(plan.order), _list(terms, out.found)))


def _list(terms: list[str], found: Description) -> str:
    rest = NIL
    for term in reversed(terms):
        digest = hashlib.sha256(f"{term} {rest}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        cell = iri_term(f"{ID}list/{digest}")
        found.setdefault(cell, frozenset({(FIRST, term), (REST, rest)}))
        rest = cell
    return rest


def _term(value: Any, plan: FieldPlan, out: _Writing) -> str:
    if not isinstance(value, plan.types) and plan.kind != "array":
        # What is put into a list later was not validated.
        value = _converted(value, plan)
    if plan.kind == "entity":
        out.pending.append(value)
        return iri_term(value.iri)
    if plan.kind == "enum":
        return iri_term(enum_iri(value, plan))
    if plan.kind == "iri":
        return iri_term(check_iri(value))
    if plan.kind == "artifact":
        return _artifact(value, out.found)
    if plan.kind == "array":
        return _array(value, plan, out)
    if plan.kind == "json":
        return literal_term(_json(value), plan.datatype)
    if any(isinstance(value, kind) and kind not in plan.types for kind in (bool, datetime)):
        value = _converted(value, plan)  # though Python says that they are int and date
    if plan.choices and value not in plan.choices:
        raise KnowledgeError(f"one of {', '.join(map(repr, plan.choices))} was expected, not {value!r:.60}")
    return scalar_term(value)


def _converted(value: Any, plan: FieldPlan) -> Any:
    if float in plan.types and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise KnowledgeError(f"{integer_text(value):.60}… is too large for a float") from error
    expected = " or ".join(kind.__name__ for kind in plan.types)
    raise KnowledgeError(
        f"{expected} was expected, not {value!r:.60} of type {type(value).__name__}",
        hint="a list is not checked when something is put into it; assign a new one, which is",
    )


def _array(value: Any, plan: FieldPlan, out: _Writing) -> str:
    if isinstance(value, StoredArray):
        return _artifact(value.ref, out.found)
    if out.keep is not None and getattr(value, "nbytes", 0) > MAX_INLINE_BYTES and value.dtype.kind in ARRAY_KINDS:
        return _artifact(out.keep(value), out.found)
    return literal_term(encode_array(value), plan.datatype)


def _json(value: Any) -> str:
    # Not RFC 8785: that writes 1.0 as 1, which would come back as an integer.
    _check_json(value)
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError) as error:
        raise KnowledgeError(f"not a JSON value: {error}", hint=_JSON) from error
    except RecursionError as error:
        raise KnowledgeError("a mapping is too deep, or holds itself", hint=_JSON) from error
    return text


_JSON = "a mapping holds text, bool, whole and finite numbers, None, and lists and mappings of these, by names that are text"


def _check_json(value: Any) -> None:
    """Refuse what JSON would turn into something else without a word."""
    pending, seen = [value], 0
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            if odd := [name for name in one if not isinstance(name, str)]:
                raise KnowledgeError(f"a mapping's name {odd[0]!r:.60} is no text", hint=_JSON)
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, tuple):
            raise KnowledgeError(f"{one!r:.60} in a mapping would come back as a list", hint="use a list there")
        seen += 1
        if seen > MAX_JSON_VALUES:
            raise KnowledgeError(f"a mapping holds more than {MAX_JSON_VALUES} values, or itself", hint="use Array")


def scalar_term(value: Any) -> str:
    """Return the literal of a Python scalar.

    Raises
    ------
    KnowledgeError
        The value has no literal, such as text with half a surrogate pair.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise KnowledgeError(f"text that is not valid Unicode: {value[:60]!r}") from error
        return literal_term(str.__str__(value))
    if isinstance(value, bool):
        return literal_term("true" if value else "false", XSD + "boolean")
    if isinstance(value, int):
        return literal_term(integer_text(value), XSD + "integer")
    if isinstance(value, float):
        return literal_term(_double(float(value)), XSD + "double")
    if isinstance(value, datetime):
        return literal_term(_moment(value), XSD + "dateTime")
    if isinstance(value, Decimal):
        return literal_term(_decimal(value), XSD + "decimal")
    if isinstance(value, bytes):
        return literal_term(base64.b64encode(value).decode(), XSD + "base64Binary")
    datatype = DATATYPES.get(type(value))
    if datatype is None:
        raise KnowledgeError(f"a value of type {type(value).__name__} has no literal")
    return literal_term(value.isoformat(), datatype)


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"


def _decimal(value: Decimal) -> str:
    # XSD has neither exponents nor NaN and infinities here; trailing zeros are no part of the value.
    if not value.is_finite() or abs(value.adjusted()) > MAX_DECIMAL_CHARACTERS:
        raise KnowledgeError(
            f"the decimal {str(value)[:60]} has no literal", hint="use a finite one, or float, which knows infinities"
        )
    return decimal_text(value)


def _moment(value: datetime) -> str:
    # XSD knows offsets in whole minutes up to 14 hours; the instant is what counts.
    offset = value.utcoffset()
    if offset is not None and (offset.total_seconds() % 60 or abs(offset.total_seconds()) > 14 * 3600):
        try:
            value = value.astimezone(UTC)
        except OverflowError as error:
            raise KnowledgeError(
                f"the time {value.isoformat()} has no literal: its offset is none of XSD's, and in UTC it is no year"
            ) from error
    return value.isoformat()


def enum_iri(member: enum.Enum, plan: FieldPlan) -> str:
    """Return the IRI of an enum's member: an individual in the namespace of the class that uses it."""
    return f"{plan.declared_by.namespace}{local_name(type(member).__name__)}.{local_name(member.name)}"


def artifact_iri(ref: ArtifactRef) -> str:
    """Return the IRI of an artifact: its digest, and how its bytes are read."""
    return f"{ID}artifact/{ref.digest}/{quote(ref.media_type, safe='')}"


def _artifact(ref: ArtifactRef, found: Description) -> str:
    term = iri_term(artifact_iri(ref))
    pairs = (
        (TYPE, ARTIFACT),
        (DIGEST, literal_term(ref.digest)),
        (SIZE, literal_term(str(ref.size), XSD + "integer")),
        (MEDIA_TYPE, literal_term(ref.media_type)),
    )
    _state(found, term, frozenset(pairs))
    return term


def n_quads(description: Mapping[str, frozenset[tuple[str, str]]], graph: str) -> str:
    """Return sorted N-Quads of a description in the named graph ``graph``."""
    name = iri_term(graph)
    lines = [f"{subject} {p} {o} {name} .\n" for subject, pairs in description.items() for p, o in pairs]
    lines.sort()
    return "".join(lines)
