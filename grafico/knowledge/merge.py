"""The merge: a store's default graph holds every triple of its named graphs, once.

Queries read it. A union of the named graphs that is made while a query is answered would not do: it matches a triple
that N runs hold N times, so counts are wrong and joins grow with the runs. A triple leaves the merge with the last named
graph that holds it. All but a load in bulk changes named graph and merge in one transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from grafico.errors import Conflict, KnowledgeError
from grafico.knowledge.vocabulary import SCHEMA, shorten

__all__ = [
    "BULK",
    "Source",
    "as_stored",
    "by_graph",
    "change",
    "data",
    "held_alike",
    "load",
    "merge_anew",
    "named_quads",
    "read_source",
]

BULK = 2000
"""Triples of new graphs from which on they are loaded in bulk."""


class Source:
    """The N-Quads of a run, checked: they parse, all are in named graphs, and every node has a name."""

    def __init__(self, text: bytes, counts: dict[Any, int]) -> None:
        self.text = text
        self.counts = counts
        """Statements of each graph."""

    def quads(self) -> Iterator[Any]:
        """Yield the quads."""
        import pyoxigraph

        yield from pyoxigraph.parse(input=self.text, format=pyoxigraph.RdfFormat.N_QUADS)

    def by_graph(self) -> dict[Any, set[Any]]:
        """Return the quads of each graph."""
        found: dict[Any, set[Any]] = {graph: set() for graph in self.counts}
        for quad in self.quads():
            found[quad.graph_name].add(quad)
        return found

    def triples(self) -> bytes:
        """Return N-Triples; those of a text with other spaces than grafico's do not parse."""
        text = self.text
        for graph in self.counts:
            text = text.replace(f" {graph} .\n".encode(), b" .\n")
        return text


def read_source(path: Path) -> Source:
    """Return a run's N-Quads.

    Raises
    ------
    KnowledgeError
        The file is missing or damaged.
    """
    import pyoxigraph

    counts: dict[Any, int] = {}
    try:
        text = path.read_bytes()
        for quad in pyoxigraph.parse(input=text, format=pyoxigraph.RdfFormat.N_QUADS):
            graph = quad.graph_name
            counts[graph] = counts.get(graph, 0) + 1
    except FileNotFoundError as error:
        raise KnowledgeError(f"{path} does not exist", hint="this run has persisted nothing, or was moved") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise KnowledgeError(
            f"{path} cannot be read: {error}", hint="resume the run: it writes the file anew"
        ) from error
    if pyoxigraph.DefaultGraph() in counts:
        raise KnowledgeError(f"{path} holds triples outside a named graph", hint="resume the run: it writes it anew")
    if b"_:" in text and any(_is_blank(quad) for quad in Source(text, counts).quads()):
        # Their names mean nothing outside the file, so what they say could neither be merged nor replaced.
        raise KnowledgeError(f"{path} holds blank nodes", hint="resume the run: it writes it anew, with IRIs only")
    return Source(text, counts)


def load(
    store: Any, source: Source, *, in_bulk: Callable[[], AbstractContextManager[object]] = nullcontext
) -> tuple[int, int]:
    """Replace the graphs of a source in a store, and keep the merge; return how many triples came and went.

    Parameters
    ----------
    store
        A :class:`pyoxigraph.Store`, open for writing, whose merge is whole.
    source
        What its graphs are to hold.
    in_bulk
        Entered for a load that a kill may leave half done. Loading again completes the graphs, and
        :func:`merge_anew` the merge.
    """
    # Graphs of schemas are named by their content and shared by runs: nothing in them is ever wrong.
    shared = {graph for graph in source.counts if graph.value.startswith(SCHEMA)}
    new = {graph for graph in source.counts if not _holds(store, graph)}
    coming = sum(source.counts[graph] for graph in new)
    if coming >= BULK and new >= source.counts.keys() - shared:
        with in_bulk():
            _load_in_bulk(store, source)
            store.flush()
        return coming, 0
    return _change(store, source.by_graph(), shared)


def by_graph(quads: Iterable[Any]) -> dict[Any, set[Any]]:
    """Return quads as a store keeps them, by graph; those of classes and properties are left out."""
    found: dict[Any, set[Any]] = {}
    for quad in as_stored(quad for quad in quads if not quad.graph_name.value.startswith(SCHEMA)):
        found.setdefault(quad.graph_name, set()).add(quad)
    return found


def held_alike(coming: Mapping[Any, set[Any]], read: Callable[[Any], set[Any]], source: str) -> frozenset[str]:
    """Return the graphs that a store holds already, all of them with what comes.

    Parameters
    ----------
    coming
        What :func:`by_graph` returns.
    read
        Returns what the store holds of a graph.
    source
        Where it comes from.

    Raises
    ------
    Conflict
        The store says something else in one of them.
    """
    held = set()
    for graph in sorted(coming, key=str):
        there = read(graph)
        if there and there != coming[graph]:
            raise Conflict(
                f"the knowledge base holds {shorten(graph.value)} already, and {source} says something else of it "
                f"({len(coming[graph] - there)} triples more, {len(there - coming[graph])} fewer)",
                hint="import it into a store of its own with --store; `grafico kb rebuild` loads run folders anew",
            )
        if there:
            held.add(str(graph.value))
    return frozenset(held)


def merge_anew(store: Any) -> None:
    """Make the merge from the named graphs alone."""
    import pyoxigraph

    store.clear_graph(pyoxigraph.DefaultGraph())
    store.bulk_extend(_merged(named_quads(store)))
    store.flush()


def named_quads(store: Any) -> Iterator[Any]:
    """Yield what the named graphs of a store hold."""
    import pyoxigraph

    default = pyoxigraph.DefaultGraph()
    return (quad for quad in store if quad.graph_name != default)


def _is_blank(quad: Any) -> bool:
    import pyoxigraph

    return any(isinstance(term, pyoxigraph.BlankNode) for term in (quad.subject, quad.object, quad.graph_name))


def _holds(store: Any, graph: Any) -> bool:
    return next(iter(store.quads_for_pattern(None, None, None, graph)), None) is not None


def _load_in_bulk(store: Any, source: Source) -> None:
    import pyoxigraph

    try:
        store.bulk_load(input=source.triples(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    except SyntaxError:
        # Half as fast.
        store.bulk_extend(_merged(source.quads()))
    store.bulk_load(input=source.text, format=pyoxigraph.RdfFormat.N_QUADS)


def _merged(quads: Iterable[Any]) -> Iterator[Any]:
    import pyoxigraph

    return (pyoxigraph.Quad(quad.subject, quad.predicate, quad.object) for quad in quads)


def _change(store: Any, wanted: dict[Any, set[Any]], shared: set[Any]) -> tuple[int, int]:
    added: set[Any] = set()
    removed: set[Any] = set()
    for graph, quads in wanted.items():
        held = set(store.quads_for_pattern(None, None, None, graph))
        stored = as_stored(quads) if held else quads
        added |= stored - held
        removed |= set() if graph in shared else held - stored
    change(store, added, removed)
    return len(added), len(removed)


def change(store: Any, added: set[Any], removed: set[Any]) -> None:
    """Add quads to named graphs and remove others, and keep the merge, in one transaction."""
    if removed:
        gone = _merged(quad for quad in removed if _is_last(store, quad, removed))
        store.update(
            f"DELETE DATA {{ {data([*removed, *gone])} }}; INSERT DATA {{ {data([*added, *_merged(added)])} }}"
        )
    elif added:
        store.extend([*added, *_merged(added)])


def _is_last(store: Any, quad: Any, removed: set[Any]) -> bool:
    """Return whether no named graph keeps the triple of a quad."""
    import pyoxigraph

    default = pyoxigraph.DefaultGraph()
    held = store.quads_for_pattern(quad.subject, quad.predicate, quad.object, None)
    return all(other.graph_name == default or other in removed for other in held)


def as_stored(quads: Iterable[Any]) -> set[Any]:
    """Return quads in the form in which a store keeps them: numbers and times as values, so that "1.0" is "1"."""
    import pyoxigraph

    store = pyoxigraph.Store()
    store.bulk_extend(quads)
    return set(store)


def data(quads: Iterable[Any]) -> str:
    """Return quads as SPARQL's QuadData; terms print themselves escaped, as N-Triples."""
    import pyoxigraph

    default = pyoxigraph.DefaultGraph()
    blocks: dict[Any, list[str]] = {}
    for quad in quads:
        blocks.setdefault(quad.graph_name, []).append(f"{quad.subject} {quad.predicate} {quad.object} .")
    return " ".join(
        " ".join(lines) if graph == default else f"GRAPH {graph} {{ {' '.join(lines)} }}"
        for graph, lines in blocks.items()
    )
