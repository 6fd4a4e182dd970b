"""What every entity must satisfy, as SHACL, generated from the models; and the check of a store against it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from grafico.calculations import Model
from grafico.errors import MissingExtra
from grafico.knowledge.entity import Entity, entity_classes
from grafico.knowledge.mapper import TYPE, Description, n_quads
from grafico.knowledge.plan import FieldPlan, plan_of
from grafico.knowledge.vocabulary import GRAFICO, RDF, SCHEMA, SH, XSD, iri_term, literal_term, shorten

if TYPE_CHECKING:
    from grafico.knowledge.store import KnowledgeBase

__all__ = ["Validation", "Violation", "shapes_of", "validate"]


class Violation(Model):
    """One thing that is not as its class says."""

    run: str = Field(description="IRI of the run's graph")
    entity: str = Field(description="IRI")
    property: str | None = Field(description="IRI")
    message: str


class Validation(Model):
    """What a check of the store found."""

    runs: int = Field(ge=0, description="graphs that were checked")
    entities: int = Field(ge=0, description="entities whose class is known here")
    unknown: tuple[str, ...] = Field(default=(), description="classes in the store that no module here defines")
    violations: tuple[Violation, ...] = ()


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
            if plan.declared_by in (cls, Entity):
                _property(plan, f"{name}.{plan.name}", shape, found)
    return {subject: frozenset(pairs) for subject, pairs in found.items()}


def _property(plan: FieldPlan, name: str, shape: set[tuple[str, str]], found: dict[str, set[tuple[str, str]]]) -> None:
    shape.add((iri_term(SH + "property"), iri_term(name)))
    pairs = found.setdefault(iri_term(name), set())
    pairs |= {(TYPE, iri_term(SH + "PropertyShape")), (iri_term(SH + "path"), iri_term(plan.predicate))}
    if plan.refers:
        pairs.add((iri_term(SH + "nodeKind"), iri_term(SH + "IRI")))
    elif plan.datatype is not None:
        pairs.add((iri_term(SH + "datatype"), iri_term(plan.datatype)))
    else:
        pairs.add((iri_term(SH + "nodeKind"), iri_term(SH + "Literal")))
    if plan.kind == "entity" and len(plan.types) == 1 and plan.types[0] is not Entity:
        (cls,) = plan.types
        assert issubclass(cls, Entity)
        pairs.add((iri_term(SH + "class"), iri_term(cls.class_iri())))
    if plan.kind == "array":
        _file(plan, name, shape, found)
    if plan.container == "one":
        # An array stands either in a literal or in a file.
        _count(pairs, least=0 if plan.optional or plan.kind == "array" else 1)
    elif plan.container == "list":
        order = f"{name}.order"
        shape.add((iri_term(SH + "property"), iri_term(order)))
        ordered = found.setdefault(iri_term(order), set())
        ordered |= {(TYPE, iri_term(SH + "PropertyShape")), (iri_term(SH + "path"), iri_term(plan.order))}
        ordered.add((iri_term(SH + "nodeKind"), iri_term(SH + "IRI")))
        _count(ordered, least=0 if plan.optional else 1)


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
    if plan.optional:
        return
    for part, predicate in ((inline, plan.predicate), (filed, plan.file)):
        found[iri_term(part)] = {(iri_term(SH + "path"), iri_term(predicate))}
        _count(found[iri_term(part)], least=1)
    last, first = iri_term(f"{name}.choice.2"), iri_term(f"{name}.choice.1")
    found[first] = {(iri_term(RDF + "first"), iri_term(inline)), (iri_term(RDF + "rest"), last)}
    found[last] = {(iri_term(RDF + "first"), iri_term(filed)), (iri_term(RDF + "rest"), iri_term(RDF + "nil"))}
    shape.add((iri_term(SH + "xone"), first))


def _count(pairs: set[tuple[str, str]], *, least: int) -> None:
    pairs.add((iri_term(SH + "maxCount"), literal_term("1", XSD + "integer")))
    if least:
        pairs.add((iri_term(SH + "minCount"), literal_term("1", XSD + "integer")))


def validate(knowledge: "KnowledgeBase") -> Validation:
    """Check every run in a store against the shapes of the classes that are loaded.

    Raises
    ------
    MissingExtra
        pyshacl is not installed.
    """
    try:
        import pyshacl
    except ImportError as error:
        raise MissingExtra("pyshacl is needed to validate the knowledge base", hint="pip install pyshacl") from error
    import rdflib

    (shapes,) = _graphs(n_quads(shapes_of(), "urn:shapes")).values()
    known = {cls.class_iri() for cls in entity_classes()}
    graphs = _graphs(knowledge.dump())
    violations: list[Violation] = []
    entities: set[Any] = set()
    unknown: set[str] = set()
    for name, graph in sorted(graphs.items()):
        # Every class of a lineage is stated, so no inference is needed.
        _, report, _ = pyshacl.validate(graph, shacl_graph=shapes, inference="none", advanced=False)
        violations += _violations(name, report)
        for subject, _, kind in graph.triples((None, rdflib.RDF.type, None)):
            if str(kind) in known:
                entities.add(subject)
            else:
                unknown.add(str(kind))
    foreign = tuple(sorted(iri for iri in unknown if not iri.startswith(_OTHERS)))
    return Validation(runs=len(graphs), entities=len(entities), unknown=foreign, violations=tuple(violations))


_OTHERS = ("http://www.w3.org/", "https://w3id.org/grafico/core#Artifact")


def _graphs(quads: str) -> dict[str, Any]:
    import rdflib

    lines: dict[str, list[str]] = {}
    for line in quads.splitlines():
        triple, _, graph = line.removesuffix(" .").rpartition(" ")
        if not graph.startswith(f"<{SCHEMA}"):
            lines.setdefault(graph[1:-1], []).append(f"{triple} .\n")
    graphs = {}
    for name, found in lines.items():
        graphs[name] = rdflib.Graph()
        graphs[name].parse(data="".join(found), format="nt")
    return graphs


def _violations(run: str, report: Any) -> Iterable[Violation]:
    import rdflib

    sh = rdflib.Namespace(SH)
    for result in sorted(report.subjects(rdflib.RDF.type, sh.ValidationResult)):
        path = report.value(result, sh.resultPath)
        value = report.value(result, sh.value)
        constraint = str(report.value(result, sh.sourceConstraintComponent)).removeprefix(SH)
        shown = "" if value is None else f" ({str(value)[:80]})"
        where = "" if path is None else f"{shorten(str(path))}: "
        yield Violation(
            run=run,
            entity=str(report.value(result, sh.focusNode)),
            property=None if path is None else str(path),
            message=f"{where}{_WORDS.get(constraint, constraint)}{shown}",
        )


_WORDS = {
    "MinCountConstraintComponent": "a value is missing",
    "MaxCountConstraintComponent": "there is more than one value",
    "DatatypeConstraintComponent": "a value has another datatype",
    "NodeKindConstraintComponent": "a value is of another kind",
    "ClassConstraintComponent": "a value is of another class",
    "XoneConstraintComponent": "an array is missing, or stands both in a literal and in a file",
    "InConstraintComponent": "a value is none of those that may be",
}
