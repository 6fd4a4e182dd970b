"""What every entity must satisfy, as SHACL, generated from the models."""

import enum
from collections.abc import Iterable

from grafico.knowledge.entity import Entity, entity_classes, lineage
from grafico.knowledge.mapper import TYPE, Description, enum_iri, scalar_term
from grafico.knowledge.plan import DATATYPES, FieldPlan, plan_of
from grafico.knowledge.vocabulary import GRAFICO, RDF, SH, XSD, iri_term, literal_term

__all__ = ["shapes_of"]


def shapes_of(classes: Iterable[type[Entity]] | None = None) -> Description:
    """Return the SHACL shapes of classes; default all that are loaded."""
    found: dict[str, set[tuple[str, str]]] = {}
    for cls in classes if classes is not None else entity_classes():
        if cls is Entity:
            continue
        name = f"{cls.class_iri()}.shape"
        shape = found.setdefault(iri_term(name), set())
        shape |= {(TYPE, iri_term(SH + "NodeShape")), (iri_term(SH + "targetClass"), iri_term(cls.class_iri()))}
        for plan in plan_of(cls):
            if plan.declared_by in (cls, Entity) or _is_narrowed(cls, plan):
                _property(plan, f"{name}.{plan.name}", shape, found)
    return {subject: frozenset(pairs) for subject, pairs in found.items()}


def _is_narrowed(cls: type[Entity], plan: FieldPlan) -> bool:
    """Return whether a field that a class above has is declared anew, as something else."""
    return all(plan not in plan_of(base) for base in list(lineage(cls))[1:])


def _property(plan: FieldPlan, name: str, shape: set[tuple[str, str]], found: dict[str, set[tuple[str, str]]]) -> None:
    shape.add((iri_term(SH + "property"), iri_term(name)))
    pairs = found.setdefault(iri_term(name), set())
    pairs |= {(TYPE, iri_term(SH + "PropertyShape")), (iri_term(SH + "path"), iri_term(plan.predicate))}
    if plan.refers:
        pairs.add((iri_term(SH + "nodeKind"), iri_term(SH + "IRI")))
    elif plan.datatype is not None:
        pairs.add((iri_term(SH + "datatype"), iri_term(plan.datatype)))
    else:
        datatypes = [DATATYPES[kind] for kind in plan.types]
        _one_of(pairs, found, name, [{(iri_term(SH + "datatype"), iri_term(iri))} for iri in datatypes])
    if plan.kind == "entity" and Entity not in plan.types:
        classes = [cls.class_iri() for cls in plan.types if issubclass(cls, Entity)]
        if len(classes) == 1:
            pairs.add((iri_term(SH + "class"), iri_term(classes[0])))
        else:
            _one_of(pairs, found, name, [{(iri_term(SH + "class"), iri_term(iri))} for iri in classes])
    pairs |= {(iri_term(SH + _LIMITS[limit]), scalar_term(value)) for limit, value in plan.limits}
    if plan.kind == "enum":
        members = plan.types[0]
        assert issubclass(members, enum.Enum)
        pairs.add((iri_term(SH + "in"), _list([iri_term(enum_iri(member, plan)) for member in members], name, found)))
    elif plan.choices:
        pairs.add((iri_term(SH + "in"), _list([scalar_term(value) for value in plan.choices], name, found)))
    if plan.kind == "array":
        _file(plan, name, shape, found)
    if plan.container == "one":
        # An array stands either in a literal or in a file.
        _count(pairs, least=0 if plan.optional or not plan.required or plan.kind == "array" else 1)
    elif plan.container == "list":
        order = f"{name}.order"
        shape.add((iri_term(SH + "property"), iri_term(order)))
        ordered = found.setdefault(iri_term(order), set())
        ordered |= {(TYPE, iri_term(SH + "PropertyShape")), (iri_term(SH + "path"), iri_term(plan.order))}
        ordered.add((iri_term(SH + "nodeKind"), iri_term(SH + "IRI")))
        _count(ordered, least=0 if plan.optional or not plan.required else 1)


def _file(plan: FieldPlan, name: str, shape: set[tuple[str, str]], found: dict[str, set[tuple[str, str]]]) -> None:
    file, inline, filed = f"{name}.file", f"{name}.inline", f"{name}.filed"
    shape.add((iri_term(SH + "property"), iri_term(file)))
    found[iri_term(file)] = {
        (TYPE, iri_term(SH + "PropertyShape")),
        (iri_term(SH + "path"), iri_term(plan.file)),
        (iri_term(SH + "class"), iri_term(GRAFICO + "Artifact")),
    }
    if plan.container != "one":
        return
    _count(found[iri_term(file)], least=0)
    if plan.optional or not plan.required:
        return
    for part, predicate in ((inline, plan.predicate), (filed, plan.file)):
        found[iri_term(part)] = {(iri_term(SH + "path"), iri_term(predicate))}
        _count(found[iri_term(part)], least=1)
    shape.add((iri_term(SH + "xone"), _list([iri_term(inline), iri_term(filed)], name, found)))


def _list(terms: list[str], name: str, found: dict[str, set[tuple[str, str]]]) -> str:
    rest = iri_term(RDF + "nil")
    for number, term in reversed(list(enumerate(terms, start=1))):
        cell = iri_term(f"{name}.list.{number}")
        found[cell] = {(iri_term(RDF + "first"), term), (iri_term(RDF + "rest"), rest)}
        rest = cell
    return rest


def _one_of(
    pairs: set[tuple[str, str]],
    found: dict[str, set[tuple[str, str]]],
    name: str,
    alternatives: list[set[tuple[str, str]]],
) -> None:
    names = []
    for number, alternative in enumerate(alternatives, start=1):
        names.append(iri_term(f"{name}.alternative.{number}"))
        found[names[-1]] = alternative
    pairs.add((iri_term(SH + "or"), _list(names, name, found)))


_LIMITS = {
    "ge": "minInclusive",
    "gt": "minExclusive",
    "le": "maxInclusive",
    "lt": "maxExclusive",
    "min_length": "minLength",
    "max_length": "maxLength",
}


def _count(pairs: set[tuple[str, str]], *, least: int) -> None:
    pairs.add((iri_term(SH + "maxCount"), literal_term("1", XSD + "integer")))
    if least:
        pairs.add((iri_term(SH + "minCount"), literal_term("1", XSD + "integer")))
