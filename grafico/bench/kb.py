"""Speed of the knowledge base: persisting, a three-hop query over a million triples, fetching an ensemble."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from grafico.calculations import Json
from grafico.knowledge import Entity, KnowledgeBase, RunKnowledge, Unit
from grafico.knowledge.merge import merge_anew

__all__ = ["bench"]

NAMESPACE = "https://w3id.org/grafico/bench#"
ENTITIES = 5_000
ENSEMBLE = 1_000
TRIPLES = 1_000_000
ValueT = TypeVar("ValueT")


class BenchItem(Entity):
    """An entity of ten properties."""

    namespace: ClassVar[str] = NAMESPACE
    natural_key: ClassVar[tuple[str, ...]] = ("number",)

    number: int
    energy: Annotated[float, Unit("eV")]
    weight: float
    count: int
    flag: bool
    name: str
    remark: str
    shift: float
    width: float
    parent: "BenchItem | None" = None


class BenchGroup(Entity):
    """An ensemble of entities."""

    namespace: ClassVar[str] = NAMESPACE
    natural_key: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    items: list[BenchItem] = Field(default_factory=list)


def bench() -> dict[str, Json]:
    """Measure, in a temporary folder; takes about half a minute."""
    with tempfile.TemporaryDirectory(prefix="grafico-bench-kb-") as folder:
        return {**_persist_and_fetch(Path(folder)), **_three_hops(Path(folder))}


def _items(count: int) -> list[BenchItem]:
    items = [
        BenchItem(
            number=i,
            energy=0.1 * i,
            weight=1.0 / (i + 1),
            count=i,
            flag=i % 2 == 0,
            name=f"item {i}",
            remark="as usual",
            shift=-0.5 * i,
            width=0.15,
        )
        for i in range(count)
    ]
    for i in range(1, count):
        items[i].parent = items[i // 2]
    return items


def _timed(action: Callable[[], ValueT]) -> tuple[ValueT, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = action()
    return value, time.perf_counter() - wall, time.process_time() - cpu


def _persist_and_fetch(folder: Path) -> dict[str, Json]:
    store = KnowledgeBase(folder / "kb")
    runs = [folder / "runs" / name for name in ("warm", "many", "group")]
    for run in runs:
        run.mkdir(parents=True)
    RunKnowledge(runs[0], store=store).persist_now(_items(10))
    items = _items(ENTITIES)
    _, wall, cpu = _timed(lambda: RunKnowledge(runs[1], store=store).persist_now(items))
    reference = _rdflib_seconds(runs[1] / "knowledge.nq")
    group = BenchGroup(name="group", items=items[:ENSEMBLE])
    # The parents of the first thousand are among them.
    RunKnowledge(runs[2], store=store).persist_now([group])
    fetches = [_timed(lambda: KnowledgeBase(store.folder).fetch(group.iri, None)) for _ in range(3)]
    fetched = fetches[0][0]
    assert isinstance(fetched, BenchGroup)
    assert len(fetched.items) == ENSEMBLE
    _, query, _ = _timed(lambda: store.query("SELECT ?x { ?x <https://w3id.org/grafico/bench#number> 17 }"))
    return {
        "entities persisted a second of one core": _value(ENTITIES / cpu, 5000, "1/s", at_least=True),
        "entities persisted a second, as seen": _value(ENTITIES / wall, None, "1/s"),
        "persisting, over rdflib's memory store alone": _value(cpu / reference, None, "×"),
        f"fetch of an ensemble of {ENSEMBLE}, on one core": _value(min(cpu for _, _, cpu in fetches), 0.5, "s"),
        f"fetch of an ensemble of {ENSEMBLE}, as seen": _value(min(wall for _, wall, _ in fetches), None, "s"),
        "a query as `kb query` answers it": _value(query, None, "s"),
    }


def _rdflib_seconds(quads: Path) -> float:
    import pyoxigraph
    import rdflib

    terms = []
    for quad in pyoxigraph.parse(path=str(quads), format=pyoxigraph.RdfFormat.N_QUADS):
        value = quad.object.value
        object_ = rdflib.URIRef(value) if isinstance(quad.object, pyoxigraph.NamedNode) else rdflib.Literal(value)
        terms.append((rdflib.URIRef(quad.subject.value), rdflib.URIRef(quad.predicate.value), object_))
    graph = rdflib.Graph()

    def add() -> None:
        for triple in terms:
            graph.add(triple)

    return _timed(add)[2]


def _three_hops(folder: Path) -> dict[str, Json]:
    import pyoxigraph as rdf

    parent, count = rdf.NamedNode(NAMESPACE + "parent"), rdf.NamedNode(NAMESPACE + "count")
    graph = rdf.NamedNode("https://w3id.org/grafico/run/bench")
    nodes = TRIPLES // 2

    def node(number: int) -> Any:
        return rdf.NamedNode(f"https://w3id.org/grafico/id/BenchItem/{number:032x}")

    def quads() -> Iterator[Any]:
        for i in range(nodes):
            yield rdf.Quad(node(i), parent, node(i // 2), graph)
            yield rdf.Quad(node(i), count, rdf.Literal(i), graph)

    store = rdf.Store(str(folder / "million"))
    store.bulk_extend(quads())
    merge_anew(store)
    text = f"SELECT ?n {{ ?start <{parent.value}> ?a . ?a <{parent.value}> ?b . ?b <{count.value}> ?n }}"
    seconds = []
    for i in range(1, nodes, nodes // 200):
        query = text.replace("?start", str(node(i)))

        def ask(query: str = query) -> list[Any]:
            found: Any = store.query(query)
            return list(found)

        seconds.append(_timed(ask)[1])
    return {
        "triples": TRIPLES,
        "three hops from one node, median": _value(1000 * statistics.median(seconds), 5.0, "ms"),
        "three hops from one node, slowest of 200": _value(1000 * max(seconds), None, "ms"),
    }


def _value(value: float, limit: float | None, unit: str, *, at_least: bool = False) -> dict[str, Json]:
    found: dict[str, Json] = {"value": round(value, 4), "unit": unit}
    if limit is not None:
        found |= {"limit": limit, "at_least": at_least}
    return found
