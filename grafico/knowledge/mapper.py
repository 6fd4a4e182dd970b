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
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import quote

from grafico.calculations import ArtifactRef
from grafico.errors import BadInput, KnowledgeError
from grafico.knowledge.arrays import encode_array
from grafico.knowledge.entity import Entity, lineage
from grafico.knowledge.plan import DATATYPES, FieldPlan, plan_of
from grafico.knowledge.vocabulary import GRAFICO, ID, RDF, XSD, check_iri, iri_term, literal_term

__all__ = ["Description", "artifact_iri", "describe", "enum_iri", "n_quads", "scalar_term"]

Description: TypeAlias = dict[str, frozenset[tuple[str, str]]]

TYPE = iri_term(RDF + "type")
FIRST, REST, NIL = iri_term(RDF + "first"), iri_term(RDF + "rest"), iri_term(RDF + "nil")
UNSET = iri_term(GRAFICO + "unset")
ARTIFACT = iri_term(GRAFICO + "Artifact")
MEDIA_TYPE, SIZE = iri_term(GRAFICO + "mediaType"), iri_term(GRAFICO + "size")
DIGEST = iri_term(GRAFICO + "sha256")


def describe(roots: Iterable[Entity]) -> Description:
    """Return the description of entities and of everything that they refer to.

    Entities that have only been referred to, and never loaded, are left as references.

    Raises
    ------
    KnowledgeError
        A value has no form in the graph, or two objects describe one IRI differently.
    """
    found: Description = {}
    pending = list(roots)
    seen: dict[int, Entity] = {}
    while pending:
        entity = pending.pop()
        if not isinstance(entity, Entity):
            raise KnowledgeError(f"an entity was expected, not {type(entity).__name__}")
        if id(entity) in seen or not entity.loaded:
            continue
        seen[id(entity)] = entity
        _describe_one(entity, found, pending)
    return found


def _describe_one(entity: Entity, found: Description, pending: list[Entity]) -> None:
    pairs = {(TYPE, iri_term(class_iri)) for class_iri in _types(type(entity))}
    for plan in plan_of(type(entity)):
        try:
            _describe_field(getattr(entity, plan.name), plan, pairs, found, pending)
        except (KnowledgeError, BadInput) as error:
            raise KnowledgeError(f"{entity!r}, field {plan.name}: {error.message}", hint=error.hint) from error
    _state(found, iri_term(entity.iri), frozenset(pairs))


def _state(found: Description, subject: str, pairs: frozenset[tuple[str, str]]) -> None:
    known = found.setdefault(subject, pairs)
    if known != pairs:
        differing = sorted({predicate for predicate, _ in known ^ pairs})
        raise KnowledgeError(
            f"two objects describe {subject} differently: {', '.join(differing)}",
            hint="use one object for one thing, or put what differs into the natural key",
        )


@cache
def _types(cls: type[Entity]) -> tuple[str, ...]:
    return tuple(iri for base in lineage(cls) for iri in (base.class_iri(), *vars(base).get("also", ())))


def _describe_field(
    value: Any, plan: FieldPlan, pairs: set[tuple[str, str]], found: Description, pending: list[Entity]
) -> None:
    if value is None:
        if not plan.null_default:
            pairs.add((UNSET, iri_term(plan.predicate)))
        return
    predicate = iri_term(plan.predicate)
    if plan.container == "one":
        pairs.add((predicate, _term(value, plan, found, pending)))
        return
    terms = [_term(item, plan, found, pending) for item in value]
    pairs.update((predicate, term) for term in terms)
    if plan.container == "list":
        pairs.add((iri_term(plan.order), _list(terms, found)))


def _list(terms: list[str], found: Description) -> str:
    rest = NIL
    for term in reversed(terms):
        digest = hashlib.sha256(f"{term} {rest}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        cell = iri_term(f"{ID}list/{digest}")
        found.setdefault(cell, frozenset({(FIRST, term), (REST, rest)}))
        rest = cell
    return rest


def _term(value: Any, plan: FieldPlan, found: Description, pending: list[Entity]) -> str:
    if plan.kind == "entity":
        pending.append(value)
        return iri_term(value.iri)
    if plan.kind == "enum":
        return iri_term(enum_iri(value, plan))
    if plan.kind == "iri":
        return iri_term(check_iri(value))
    if plan.kind == "artifact":
        return _artifact(value, found)
    if plan.kind == "array":
        return literal_term(encode_array(value), plan.datatype)
    if plan.kind == "json":
        return literal_term(_json(value), plan.datatype)
    return scalar_term(value)


def _json(value: Any) -> str:
    # Not RFC 8785: that writes 1.0 as 1, which would come back as an integer.
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError) as error:
        raise KnowledgeError(f"not a JSON value: {error}") from error
    return text


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
        return literal_term(str(value))
    if isinstance(value, bool):
        return literal_term("true" if value else "false", XSD + "boolean")
    if isinstance(value, int):
        return literal_term(str(int(value)), XSD + "integer")
    if isinstance(value, float):
        return literal_term(_double(float(value)), XSD + "double")
    if isinstance(value, datetime):
        return literal_term(_moment(value), XSD + "dateTime")
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


def _moment(value: datetime) -> str:
    # XSD knows offsets in whole minutes up to 14 hours; the instant is what counts.
    offset = value.utcoffset()
    if offset is not None and (offset.total_seconds() % 60 or abs(offset.total_seconds()) > 14 * 3600):
        value = value.astimezone(UTC)
    return value.isoformat()


def enum_iri(member: enum.Enum, plan: FieldPlan) -> str:
    """Return the IRI of an enum's member: an individual in the namespace of the class that uses it."""
    return f"{plan.declared_by.namespace}{type(member).__name__}.{member.name}"


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
