"""From triples back to entities.

An entity may be described in the graphs of several runs. Its fields are then taken from the run that was committed
last (or from the one that is asked for), never mixed.
"""

import base64
import binascii
import threading
from collections.abc import Callable, MutableMapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from grafico.calculations import ArtifactRef
from grafico.errors import KnowledgeError
from grafico.knowledge.arrays import decode_array
from grafico.knowledge.entity import Entity, default_of, known_class, reference, sealed
from grafico.knowledge.files import StoredArray, StoredArrays
from grafico.knowledge.mapper import enum_iri
from grafico.knowledge.plan import DATATYPES, FieldPlan, plan_of
from grafico.knowledge.vocabulary import GRAFICO, RDF, check_iri

__all__ = ["COMMITTED", "Fetcher"]

COMMITTED = GRAFICO + "committedAt"
"""Property of a run's graph: when it was last changed."""

Filler = Callable[[Entity], None]
_CHANGING = threading.Lock()
"""Held while an object is made known or filled: threads share them."""


class Fetcher:
    """Builds entities from an open store.

    Parameters
    ----------
    store
        A :class:`pyoxigraph.Store`, open as long as the fetcher is used.
    identity
        The entities that exist already: one IRI is one object.
    lazy
        What fills in, later, an entity beyond the depth.
    graph
        IRI of the only run to read.
    files
        Reads a file of a run, when an array in one is looked at.
    """

    def __init__(
        self,
        store: Any,
        identity: MutableMapping[str, Entity],
        *,
        lazy: Filler,
        graph: str | None = None,
        files: Callable[[ArtifactRef], bytes] | None = None,
    ) -> None:
        import pyoxigraph

        self._rdf = pyoxigraph
        self._merge = pyoxigraph.DefaultGraph()
        self._store = store
        self._identity = identity
        self._lazy = lazy
        self._graph = None if graph is None else pyoxigraph.NamedNode(check_iri(graph))
        self._files = files or _no_files
        self._ages: dict[str, str] = {}
        self._read: dict[str, dict[str, list[Any]]] = {}

    def fetch(self, iri: str, depth: int | None = 0) -> Entity:
        """Return an entity.

        Parameters
        ----------
        iri
            Which.
        depth
            How many references to follow: 0 the entity's own fields, n, or None for all.

        Raises
        ------
        KnowledgeError
            There is no such entity, its class is not known here, or a field is missing or damaged.
        """
        root = self._reference(check_iri(iri))
        level, seen, remaining = [root], {root.iri}, depth
        while level:
            following: list[Entity] = []
            for entity in level:
                self._fill(entity)
                for other in _references(entity):
                    if other.iri not in seen:
                        seen.add(other.iri)
                        following.append(other)
            if remaining is not None:
                if remaining == 0:
                    break
                remaining -= 1
            level = following
        return root

    def fill(self, entity: Entity) -> None:
        """Load the fields of an entity that has only been referred to."""
        self._fill(entity)

    def _fill(self, entity: Entity) -> bool:
        """Load the fields unless they are here; return whether it was this call that did."""
        if entity.loaded:
            return False
        values = self._read.pop(entity.iri, None) or self._pairs(entity.iri)
        filled: dict[str, Any] = {"iri": entity.iri}
        waiting: dict[str, Any] = {}
        for plan in plan_of(type(entity)):
            try:
                value = self._field(plan, type(entity), values, filled)
            except (KnowledgeError, ValueError, OverflowError, binascii.Error) as error:
                raise KnowledgeError(
                    f"{type(entity).__name__} <{entity.iri}>, field {plan.name}: {getattr(error, 'message', error)}",
                    hint=getattr(error, "hint", None) or _OTHER_CLASS,
                ) from error
            kept = sealed(value) if plan.name in entity.natural_key else value
            (waiting if isinstance(value, StoredArray | StoredArrays) else filled)[plan.name] = kept
        with _CHANGING:
            if "label" in entity.__dict__:  # loaded by another thread meanwhile
                return False
            entity.__dict__.update(filled)
            entity.__pydantic_fields_set__.update(filled, waiting)
            _set_private(entity, _source=None, _deferred=waiting or None)
        return True

    def _reference(self, iri: str) -> Entity:
        known = self._identity.get(iri)
        if known is not None:
            return known
        cls = self._class(iri)
        entity = reference(cls, iri, self._lazy)
        with _CHANGING:
            return self._identity.setdefault(iri, entity)

    def _class(self, iri: str) -> type[Entity]:
        pairs = self._pairs(iri)
        stated = {term.value for term in pairs.get(RDF + "type", [])}
        if not stated:
            raise KnowledgeError(f"the knowledge base has no entity <{iri}>", hint="look with `grafico kb query`")
        known = [cls for cls in map(known_class, sorted(stated)) if cls is not None]
        if not known:
            raise KnowledgeError(
                f"<{iri}> is of a class that is not known here: {', '.join(sorted(stated))}",
                hint="import the module that defines it",
            )
        self._read[iri] = pairs
        return max(known, key=lambda cls: len(cls.__mro__))

    def _pairs(self, iri: str, sign: str = RDF + "type") -> dict[str, list[Any]]:
        """Return what the run that was committed last says of a thing; ``sign`` is in every description of it."""
        node = self._rdf.NamedNode(iri)
        graph = self._graph
        if graph is None:
            signs = self._store.quads_for_pattern(node, self._rdf.NamedNode(sign), None, None)
            graphs = {quad.graph_name for quad in signs} - {self._merge}
            if not graphs:
                return {}
            graph = graphs.pop() if len(graphs) == 1 else max(graphs, key=lambda g: (self._age(g.value), g.value))
        pairs: dict[str, list[Any]] = {}
        for quad in self._store.quads_for_pattern(node, None, None, graph):
            pairs.setdefault(quad.predicate.value, []).append(quad.object)
        return pairs if sign in pairs else {}

    def _age(self, graph: str) -> str:
        if graph not in self._ages:
            node, when = self._rdf.NamedNode(graph), self._rdf.NamedNode(COMMITTED)
            found = [quad.object.value for quad in self._store.quads_for_pattern(node, when, None, node)]
            self._ages[graph] = max(found, default="")
        return self._ages[graph]

    def _field(self, plan: FieldPlan, cls: type[Entity], values: dict[str, list[Any]], before: dict[str, Any]) -> Any:
        terms = values.get(plan.predicate, [])
        if plan.kind == "array":
            terms = [*terms, *values.get(plan.file, [])]
        if plan.container == "list" and plan.order in values:
            items = [self._value(term, plan) for term in self._list(values[plan.order])]
            stored = plan.kind == "array" and any(isinstance(item, StoredArray) for item in items)
            return StoredArrays(plan.build, items) if stored else plan.build(items)
        if plan.container == "set":
            return plan.build(self._value(term, plan) for term in terms)
        if terms:
            if len(terms) > 1:
                if plan.container == "list":
                    raise KnowledgeError(f"{len(terms)} values were found, and nothing that says their order")
                raise KnowledgeError(f"one value was expected, {len(terms)} were found")
            value = self._value(terms[0], plan)
            if plan.container == "one":
                return value
            return StoredArrays(plan.build, [value]) if isinstance(value, StoredArray) else plan.build([value])
        if any(term.value == plan.predicate for term in values.get(GRAFICO + "unset", [])) or plan.null_default:
            return None
        if plan.required:
            if plan.optional:
                return None
            raise KnowledgeError("a value is missing")
        return default_of(cls, plan.name, before)

    def _list(self, heads: list[Any]) -> list[Any]:
        if len(heads) != 1:
            raise KnowledgeError("the list has several beginnings")
        cell, terms, seen = heads[0].value, [], set()
        while cell != RDF + "nil":
            pairs = self._pairs(cell, RDF + "first")
            if cell in seen or len(pairs.get(RDF + "first", [])) != 1 or len(pairs.get(RDF + "rest", [])) != 1:
                raise KnowledgeError("the list is damaged")
            seen.add(cell)
            terms.append(pairs[RDF + "first"][0])
            cell = pairs[RDF + "rest"][0].value
        return terms

    def _value(self, term: Any, plan: FieldPlan) -> Any:
        if plan.kind == "entity":
            entity = self._reference(self._iri(term))
            if not isinstance(entity, plan.types):
                expected = " or ".join(cls.__name__ for cls in plan.types)
                raise KnowledgeError(f"{expected} was expected, {entity!r} was found")
            return entity
        if plan.kind == "iri":
            return self._iri(term)
        if plan.kind == "artifact":
            return self._artifact(self._iri(term))
        if plan.kind == "enum":
            return self._member(self._iri(term), plan)
        if plan.kind == "array" and isinstance(term, self._rdf.NamedNode):
            return StoredArray(self._artifact(term.value), self._files)
        if not isinstance(term, self._rdf.Literal):
            raise KnowledgeError(f"a literal was expected, {term} was found")
        if plan.kind == "array":
            return decode_array(term.value)
        if plan.kind == "json":
            import json

            return json.loads(term.value)
        return _scalar(term.value, term.datatype.value, plan)

    def _iri(self, term: Any) -> str:
        if not isinstance(term, self._rdf.NamedNode):
            raise KnowledgeError(f"an IRI was expected, {term} was found")
        return str(term.value)

    def _member(self, iri: str, plan: FieldPlan) -> Any:
        for member in plan.types[0]:  # type: ignore[attr-defined]
            if enum_iri(member, plan) == iri:
                return member
        raise KnowledgeError(f"<{iri}> is no member of {plan.types[0].__name__}")

    def _artifact(self, iri: str) -> ArtifactRef:
        pairs = self._pairs(iri)
        try:
            digest, media_type, size = (pairs[GRAFICO + name][0].value for name in ("sha256", "mediaType", "size"))
        except (KeyError, IndexError) as error:
            raise KnowledgeError(f"the artifact <{iri}> is not described") from error
        return ArtifactRef(digest=digest, media_type=media_type, size=int(size))


_OTHER_CLASS = (
    "what is there may be from another version of the class: see what it says with `grafico kb show`, and give the field "
    "a default, a wider type, or the Property that it had"
)


def _set_private(entity: Entity, **attributes: Any) -> None:
    private = entity.__pydantic_private__
    assert private is not None
    private.update(attributes)


def _no_files(ref: ArtifactRef) -> bytes:
    raise KnowledgeError(f"the artifact {ref.digest[:12]} cannot be read here: no run folder is known")


def _references(entity: Entity) -> list[Entity]:
    found: list[Entity] = []
    for plan in plan_of(type(entity)):
        value = entity.__dict__[plan.name] if plan.kind == "entity" else None
        if value is not None:
            found.extend([value] if plan.container == "one" else value)
    return found


_READERS: dict[str, Callable[[str], Any]] = {
    DATATYPES[str]: str,
    DATATYPES[bool]: lambda text: text in ("true", "1"),
    DATATYPES[int]: int,
    DATATYPES[float]: lambda text: float(text.replace("INF", "inf")),
    DATATYPES[datetime]: datetime.fromisoformat,
    DATATYPES[date]: date.fromisoformat,
    DATATYPES[bytes]: lambda text: base64.b64decode(text, validate=True),
    DATATYPES[Decimal]: Decimal,
}


def _scalar(text: str, datatype: str, plan: FieldPlan) -> Any:
    reader = _READERS.get(datatype)
    if reader is None:
        raise KnowledgeError(f"a literal of type <{datatype}> was not expected")
    value = reader(text)
    if type(value) in plan.types:
        return value
    if float in plan.types and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return float(value)
    if Decimal in plan.types and isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    expected = " or ".join(single.__name__ for single in plan.types)
    raise KnowledgeError(f"{expected} was expected, {text[:60]!r} of type <{datatype}> was found")
