"""What to write where others write too: a three-way comparison, field by field.

``ours`` is what an entity in memory says, ``base`` what it said when it was last read from or written to this graph,
``theirs`` what the graph says now. A field that we did not change is left as it is there; one that we alone changed is
written; one that both changed is a clash, even if to the same value (a counter that two increment would lose one),
unless it is a set: its items are merged. An entity that was made in memory, without having looked, states only what was
given for it, and takes nothing away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from grafico.calculations import Model
from grafico.errors import Conflict
from grafico.knowledge.entity import Entity, default_of
from grafico.knowledge.plan import plan_of
from grafico.knowledge.vocabulary import GRAFICO, RDF, shorten

__all__ = ["Clash", "Pairs", "Verdict", "conflict", "settle"]

Pairs: TypeAlias = frozenset[tuple[Any, Any]]
"""Predicates and objects of one subject, as pyoxigraph terms in the form in which a store keeps them."""

_TYPE, _UNSET = RDF + "type", GRAFICO + "unset"
_NOTHING: Pairs = frozenset()


class Clash(Model):
    """A field that was changed here and there."""

    entity: str
    property: str
    base: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        if self.theirs == self.ours:
            return f"{shorten(self.entity)}, {shorten(self.property)}: {self.ours} was written there meanwhile as well"
        return f"{shorten(self.entity)}, {shorten(self.property)}: theirs is {self.theirs}, ours is {self.ours}"


@dataclass(slots=True)
class Verdict:
    """What is to be added to and removed from an entity's description."""

    added: set[tuple[Any, Any]] = field(default_factory=set)
    removed: set[tuple[Any, Any]] = field(default_factory=set)
    clashes: list[Clash] = field(default_factory=list)


def settle(entity: Entity, ours: Pairs, base: Pairs | None, theirs: Pairs) -> Verdict:
    """Compare the three descriptions of an entity."""
    verdict = Verdict()
    if not any(predicate.value == _TYPE for predicate, _ in theirs):
        # Nothing is there that could be overwritten.
        verdict.added = set(ours - theirs)
        return verdict
    plans = {plan.name: plan for plan in plan_of(type(entity))}
    field_of = {iri: name for name, plan in plans.items() for iri in (plan.predicate, plan.order, _file(plan)) if iri}
    mine, before, there = (_by_field(pairs, field_of) for pairs in (ours, base or _NOTHING, theirs))
    for name in mine.keys() | before.keys():
        o, b, t = (found.get(name, _NOTHING) for found in (mine, before, there))
        changed = o != b if base is not None else bool(o) and (not t or name == _TYPE or _is_stated(entity, name))
        if not changed or (o == t and (base is None or b == t)):
            continue
        if name == _TYPE:
            # What it is known as elsewhere stays: a class that is not known here may be one of them.
            verdict.added |= o - t
        elif plans[name].container == "set":
            verdict.added |= (o - b) - t
            verdict.removed |= (b - o) & t
        elif t == b:
            verdict.added |= o - t
            verdict.removed |= t - o
        else:
            told = (_told(pairs, plans[name].order) for pairs in (b, t, o))
            verdict.clashes.append(_clash(entity.iri, plans[name].predicate, *told))
    return verdict


def conflict(clashes: list[Clash], graph: str) -> Conflict:
    """Return the error for clashes."""
    shown = "; ".join(map(str, clashes[:5]))
    more = f"; and {len(clashes) - 5} more" if len(clashes) > 5 else ""
    return Conflict(
        f"somebody else has changed what was to be written to {shorten(graph)}: {shown}{more}; nothing was written",
        hint=f"refresh(entity, run={graph!r}) reads what is there now; change it again and persist it",
        clashes=tuple(clashes),
    )


def _clash(entity: str, name: str, base: str, theirs: str, ours: str) -> Clash:
    return Clash(entity=entity, property=name, base=base, theirs=theirs, ours=ours)


def _file(plan: Any) -> str | None:
    return getattr(plan, "file", None)


def _by_field(pairs: Pairs, field_of: Mapping[str, str]) -> dict[str, Pairs]:
    """Return the pairs of each field; those of no field are nobody's here."""
    found: dict[str, set[tuple[Any, Any]]] = {}
    for predicate, value in pairs:
        if predicate.value == _TYPE:
            name: str | None = _TYPE
        else:
            name = field_of.get(value.value if predicate.value == _UNSET else predicate.value)
        if name is not None:
            found.setdefault(name, set()).add((predicate, value))
    return {name: frozenset(own) for name, own in found.items()}


def _is_stated(entity: Entity, name: str) -> bool:
    if name in entity.model_fields_set:
        return True
    # A list that is a default may have been appended to.
    default = default_of(type(entity), name, entity.__dict__)
    value = getattr(entity, name)
    return hasattr(value, "dtype") or type(value) is not type(default) or bool(value != default)


def _told(pairs: Pairs, order: str) -> str:
    values = sorted(str(value) for predicate, value in pairs if predicate.value != order)
    if not values:
        return "nothing" if not pairs else "an empty list"
    text = ", ".join(values[:4]) + (", …" if len(values) > 4 else "")
    return text if len(text) <= 200 else f"{text[:199]}…"
