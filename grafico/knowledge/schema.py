"""The classes and properties of the models, as OWL."""

import enum
import inspect
from collections.abc import Iterable

from grafico.knowledge.entity import Entity, entity_classes, is_open, known_class, lineage, local_name
from grafico.knowledge.mapper import TYPE, Description, enum_iri
from grafico.knowledge.plan import FieldPlan, plan_of
from grafico.knowledge.vocabulary import GRAFICO, OWL, QUDT, RDFS, iri_term, literal_term

__all__ = ["OF_CLASS", "OF_PROPERTY", "USED_BY", "schema_of"]

LABEL, COMMENT = iri_term(RDFS + "label"), iri_term(RDFS + "comment")
SUBCLASS, DOMAIN, RANGE = iri_term(RDFS + "subClassOf"), iri_term(RDFS + "domain"), iri_term(RDFS + "range")
USED_BY = GRAFICO + "usedBy"
"""From a property to each class whose entities have it; ``rdfs:domain`` holds where there is exactly one."""
OF_CLASS, OF_PROPERTY = GRAFICO + "ofClass", GRAFICO + "ofProperty"
"""What a property means for one class is a thing of its own, with these two and a comment."""
HAS_UNIT = QUDT + "hasUnit"


def schema_of(class_iris: Iterable[str] | None = None) -> Description:
    """Return the OWL description of the classes with these IRIs, of those above them and of what they refer to.

    Parameters
    ----------
    class_iris
        IRIs that belong to no class that is loaded are passed over; default: all classes that are loaded.
    """
    if class_iris is None:
        pending = entity_classes()
    else:
        pending = [cls for cls in map(known_class, sorted(class_iris)) if cls is not None]
    classes: dict[type[Entity], None] = {}
    while pending:
        cls = pending.pop()
        if cls in classes or cls is Entity:
            continue
        classes[cls] = None
        pending.extend(lineage(cls))
        pending.extend(t for plan in plan_of(cls) if plan.kind == "entity" for t in plan.types)
    found: dict[str, set[tuple[str, str]]] = {}
    for cls in classes:
        _class(cls, found)
        for plan in plan_of(cls):
            _property(plan, cls, found)
    _domains(classes, found)
    return {subject: frozenset(pairs) for subject, pairs in found.items()}


def _class(cls: type[Entity], found: dict[str, set[tuple[str, str]]]) -> None:
    pairs = found.setdefault(iri_term(cls.class_iri()), set())
    pairs |= {(TYPE, iri_term(OWL + "Class")), (LABEL, literal_term(cls.__name__))}
    if text := description_of(cls):
        pairs.add((COMMENT, literal_term(text)))
    above = [base for base in _above(cls) if issubclass(base, Entity) and base is not Entity]
    pairs |= {(SUBCLASS, iri_term(base.class_iri())) for base in above}
    pairs |= {(SUBCLASS, iri_term(iri)) for iri in vars(cls).get("also", ())}


def _above(cls: type) -> Iterable[type]:
    for base in cls.__bases__:
        # A generic class without its types is none; what is above it is.
        if issubclass(base, Entity) and is_open(base):
            yield from _above(base)
        else:
            yield base


def description_of(cls: type) -> str:
    """Return the first paragraph of a class's docstring."""
    return " ".join((inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]).split())


def _property(plan: FieldPlan, cls: type[Entity], found: dict[str, set[tuple[str, str]]]) -> None:
    pairs = found.setdefault(iri_term(plan.predicate), set())
    kind = OWL + ("ObjectProperty" if plan.refers else "DatatypeProperty")
    pairs |= {(TYPE, iri_term(kind)), (LABEL, literal_term(plan.name.replace("_", " ")))}
    if plan.description and plan.declared_by is cls:
        pairs.add((COMMENT, literal_term(plan.description)))
        # Classes that share a property describe it each in its own words.
        found[iri_term(f"{cls.class_iri()}.{plan.name}")] = {
            (iri_term(OF_CLASS), iri_term(cls.class_iri())),
            (iri_term(OF_PROPERTY), iri_term(plan.predicate)),
            (COMMENT, literal_term(plan.description)),
        }
    pairs.add((iri_term(USED_BY), iri_term(plan.declared_by.class_iri())))
    pairs |= {(RANGE, iri_term(iri)) for iri in _range(plan)}
    if plan.unit is not None:
        pairs.add((iri_term(HAS_UNIT), iri_term(plan.unit.iri)))
    if plan.container == "list":
        order = found.setdefault(iri_term(plan.order), set())
        order |= {
            (TYPE, iri_term(OWL + "ObjectProperty")),
            (LABEL, literal_term(plan.name.replace("_", " ") + ", in order")),
            (RANGE, iri_term("http://www.w3.org/1999/02/22-rdf-syntax-ns#List")),
        }
    if plan.kind == "array":
        file = found.setdefault(iri_term(plan.file), set())
        file |= {
            (TYPE, iri_term(OWL + "ObjectProperty")),
            (LABEL, literal_term(plan.name.replace("_", " ") + ", in a file of the run")),
            (RANGE, iri_term(GRAFICO + "Artifact")),
        }
        if plan.unit is not None:
            file.add((iri_term(HAS_UNIT), iri_term(plan.unit.iri)))
    if plan.kind == "enum":
        _members(plan, found)


def _range(plan: FieldPlan) -> list[str]:
    if plan.kind == "entity":
        known = [cls.class_iri() for cls in plan.types if issubclass(cls, Entity) and cls is not Entity]
        # Several ranges would mean their intersection.
        return known if len(plan.types) == 1 else []
    if plan.kind == "enum":
        return [_enum_class(plan)]
    if plan.kind == "artifact":
        return [GRAFICO + "Artifact"]
    return [plan.datatype] if plan.datatype else []


def _enum_class(plan: FieldPlan) -> str:
    return f"{plan.declared_by.namespace}{local_name(plan.types[0].__name__)}"


def _members(plan: FieldPlan, found: dict[str, set[tuple[str, str]]]) -> None:
    members = plan.types[0]
    assert issubclass(members, enum.Enum)
    found.setdefault(iri_term(_enum_class(plan)), set()).update(
        {(TYPE, iri_term(OWL + "Class")), (LABEL, literal_term(members.__name__))}
        | ({(COMMENT, literal_term(description_of(members)))} if members.__doc__ else set())
    )
    for member in members:
        found.setdefault(iri_term(enum_iri(member, plan)), set()).update(
            {
                (TYPE, iri_term(OWL + "NamedIndividual")),
                (TYPE, iri_term(_enum_class(plan))),
                (LABEL, literal_term(str(member.value))),
            }
        )


def _domains(classes: Iterable[type[Entity]], found: dict[str, set[tuple[str, str]]]) -> None:
    for cls in classes:
        for plan in plan_of(cls):
            pairs = found[iri_term(plan.predicate)]
            users = {o for p, o in pairs if p == iri_term(USED_BY)}
            if len(users) == 1 and plan.declared_by is not Entity:
                pairs.add((DOMAIN, next(iter(users))))
