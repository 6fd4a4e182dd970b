"""The check of a store against the shapes of its classes."""

import logging
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from grafico.calculations import Model
from grafico.errors import MissingExtra
from grafico.knowledge.entity import entity_classes
from grafico.knowledge.mapper import n_quads
from grafico.knowledge.shapes import shapes_of
from grafico.knowledge.vocabulary import SCHEMA, SH, shorten

if TYPE_CHECKING:
    from grafico.knowledge.opening import Store

__all__ = ["Validation", "Violation", "validate"]


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


def validate(knowledge: "Store") -> Validation:
    """Check every run in a store against the shapes of the classes that are loaded.

    Raises
    ------
    MissingExtra
        pyshacl is not installed.
    """
    try:
        import pyshacl  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "pyshacl is needed to validate the knowledge base", hint='pip install "grafico[shacl]"'
        ) from error
    # A literal that is no value of its datatype is reported as a violation, and need not be logged as well.
    log = logging.getLogger("rdflib.term")
    disabled, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"rdflib\.term")
            return _checked(knowledge)
    finally:
        log.disabled = disabled


def _checked(knowledge: "Store") -> Validation:
    import pyshacl
    import rdflib

    graphs = _graphs(knowledge.dump())
    used = {str(kind) for graph in graphs.values() for kind in graph.objects(None, rdflib.RDF.type)}
    # A class that has no form, and that nothing here is of, is no business of this store.
    classes = [cls for cls in entity_classes() if cls.class_iri() in used]
    shapes = rdflib.Graph()
    for graph in _graphs(n_quads(shapes_of(classes), "urn:shapes")).values():
        shapes += graph
    known = {cls.class_iri() for cls in entity_classes()}
    stated: dict[Any, set[Any]] = {}
    for graph in graphs.values():
        for subject, _, kind in graph.triples((None, rdflib.RDF.type, None)):
            stated.setdefault(subject, set()).add(kind)
    violations: list[Violation] = []
    entities: set[Any] = set()
    unknown: set[str] = set()
    for name, graph in sorted(graphs.items()):
        # Every class of a lineage is stated, so no inference is needed.
        _, report, _ = pyshacl.validate(graph, shacl_graph=shapes, inference="none", advanced=False)
        violations += _violations(name, report, shapes, stated)
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
    for line in quads.split("\n"):
        if not line:
            continue
        triple, _, graph = line.removesuffix(" .").rpartition(" ")
        if not graph.startswith(f"<{SCHEMA}"):
            lines.setdefault(graph[1:-1], []).append(f"{triple} .\n")
    graphs = {}
    for name, found in lines.items():
        graphs[name] = rdflib.Graph()
        graphs[name].parse(data="".join(found), format="nt")
    return graphs


def _violations(run: str, report: Any, shapes: Any, stated: dict[Any, set[Any]]) -> Iterable[Violation]:
    import rdflib

    sh = rdflib.Namespace(SH)
    for result in sorted(report.subjects(rdflib.RDF.type, sh.ValidationResult)):
        path = report.value(result, sh.resultPath)
        value = report.value(result, sh.value)
        constraint = str(report.value(result, sh.sourceConstraintComponent)).removeprefix(SH)
        wanted = shapes.value(report.value(result, sh.sourceShape), sh["class"])
        if constraint == "ClassConstraintComponent" and wanted in stated.get(value, ()):
            continue  # another run describes what this one only refers to
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
    "OrConstraintComponent": "a value has none of the types that it may have",
    "MinInclusiveConstraintComponent": "a value is below its limit",
    "MinExclusiveConstraintComponent": "a value is below its limit",
    "MaxInclusiveConstraintComponent": "a value is above its limit",
    "MaxExclusiveConstraintComponent": "a value is above its limit",
    "MinLengthConstraintComponent": "a text is too short",
    "MaxLengthConstraintComponent": "a text is too long",
    "InConstraintComponent": "a value is none of those that may be",
}
