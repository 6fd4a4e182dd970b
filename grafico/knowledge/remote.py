"""A knowledge base behind a SPARQL 1.1 endpoint: the same door as the embedded one, over HTTP.

Each run is a named graph there. The run folders are the truth here as well: what is loaded is compared with what the
endpoint holds, and only the difference is sent, in one request that is made whole or not at all.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from grafico.calculations import ArtifactRef
from grafico.errors import Conflict, KnowledgeError
from grafico.knowledge.address import Address, read_address
from grafico.knowledge.endpoint import Endpoint, Uncertain
from grafico.knowledge.entity import Entity
from grafico.knowledge.fetch import COMMITTED
from grafico.knowledge.files import read_artifact
from grafico.knowledge.location import folder_beside
from grafico.knowledge.merge import as_stored, by_graph, held_alike, read_source
from grafico.knowledge.persist import DIRECT, Persisted, Statement, persist_into
from grafico.knowledge.query import QueryResult, run_query
from grafico.knowledge.reading import Reader
from grafico.knowledge.remote_graphs import BOOKKEEPING, MARKER, RemoteGraphs, unchanged
from grafico.knowledge.store import QUADS_FILE, Loaded, Rebuilt, run_folders
from grafico.knowledge.view import RemoteView
from grafico.knowledge.vocabulary import GRAFICO, SCHEMA, iri_term

__all__ = ["RemoteKnowledgeBase"]

ResultT = TypeVar("ResultT")
_ATTEMPTS = 8


class RemoteKnowledgeBase(Reader):
    """The knowledge base at an address.

    A user and password, or a token, are taken from ``GRAFICO_KB_USER`` and ``GRAFICO_KB_PASSWORD``, or
    ``GRAFICO_KB_TOKEN``, and sent to that server only; over plain http only to this machine itself.

    Parameters
    ----------
    address
        Where it is; see :mod:`~grafico.knowledge.address` for the forms.
    timeout_s
        Seconds that one request may take; queries have their own limit.
    max_bytes
        Size of one answer at most.

    Raises
    ------
    BadInput
        No address, or credentials that cannot be used with it.
    """

    def __init__(self, address: str | Address, *, timeout_s: float = 120.0, max_bytes: int = 1 << 30) -> None:
        super().__init__()
        self.address = read_address(address) if isinstance(address, str) else address
        self._endpoint = Endpoint(self.address, timeout_s=timeout_s, max_bytes=max_bytes)
        self._graphs = RemoteGraphs(self._endpoint)

    def __repr__(self) -> str:
        return f"RemoteKnowledgeBase({self.place!r})"

    @property
    def place(self) -> str:
        """The address."""
        return self.address.url

    def load_run(self, quads: Path) -> Loaded:
        """Load a run's N-Quads; what the store held of that run and the file does not is removed.

        Loading the same file again changes nothing. Each of its graphs is loaded whole or not at all.

        Raises
        ------
        KnowledgeError
            The file is missing or damaged, or the endpoint cannot be used; says whether anything may have been written.
        """
        wanted = read_source(quads).by_graph()
        added = removed = 0
        # Schemas come first: a run that is there has its own.
        for graph in sorted(wanted, key=lambda graph: (not graph.value.startswith(SCHEMA), graph.value)):
            came, went = self._load_graph(graph.value, as_stored(wanted[graph]))
            added, removed = added + came, removed + went
        return Loaded(added=added, removed=removed)

    @property
    def folder(self) -> Path:
        """Where files are kept on this machine that came with what was imported from here."""
        return folder_beside(self.address.query_url)

    def held(self, coming: Mapping[Any, set[Any]], source: str) -> frozenset[str]:
        """Return which graphs the store holds already; see :func:`~grafico.knowledge.merge.held_alike`."""
        return held_alike(coming, lambda graph: self._graphs.whole(graph.value)[0], source)

    def admit(self, coming: Mapping[Any, set[Any]], source: str, keep: Callable[[frozenset[str]], Path]) -> Loaded:
        """Load graphs from elsewhere, unless one of them says something else; see :meth:`.KnowledgeBase.admit`."""
        held = self.held(coming, source)
        wanted = read_source(keep(held)).by_graph()
        added = 0
        for graph in sorted((graph for graph in wanted if graph.value.startswith(SCHEMA)), key=str):
            added += self._load_graph(graph.value, as_stored(wanted[graph]))[0]
        new = {graph: quads for graph, quads in coming.items() if graph.value not in held}
        if new:
            try:
                self._graphs.add_new(new)
            except Uncertain:
                # What is there now tells whether it was made.
                if len(self.held(new, source)) < len(new):
                    raise
            if len(self.held(new, source)) < len(new):
                raise Conflict(
                    f"{self.place}: others wrote to the same graphs while {source} was imported; nothing was written",
                    hint="import it again",
                )
        return Loaded(added=added + sum(map(len, new.values())), removed=0)

    def query(
        self,
        query: str,
        *,
        bind: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        limit: int = 1000,
        memory_mib: int = 4096,
    ) -> QueryResult:
        """Answer a read-only SPARQL query; the gate reads it before it is sent, and keeps time, rows and size here."""
        return run_query(
            self.address, query, bind=bind, timeout_s=timeout_s, limit=limit, memory_mib=memory_mib, wait_s=0.0
        )

    def persist(self, *entities: Entity, into: str = DIRECT) -> Persisted:
        """Write entities, and all that they refer to, into a named graph of the store itself.

        The same promises as :meth:`KnowledgeBase.persist <grafico.knowledge.store.KnowledgeBase.persist>`.

        Raises
        ------
        Conflict
            Somebody else has changed the same field; nothing was written.
        KnowledgeError
            An entity has no form in the graph, or the endpoint cannot be used; says whether anything may have been
            written.
        """
        statement = Statement(entities, into)
        done = persist_into(self._graphs, statement)
        self._know(statement.objects())
        return done

    def runs(self) -> tuple[Path, ...]:
        """Return the folders of the runs that the store holds, as far as they are on this machine."""
        folder = iri_term(GRAFICO + "folder")
        rows = self._endpoint.select(f"SELECT DISTINCT ?g ?f {{ GRAPH ?g {{ ?g {folder} ?f }} }} ORDER BY ?g")
        return tuple(Path(f.value) for _, f in rows if (Path(f.value) / QUADS_FILE).is_file())

    def read_artifact(self, ref: ArtifactRef) -> bytes:
        """Return the bytes of a file of a run, if its folder or a crate of it was here; its digest is checked.

        Raises
        ------
        KnowledgeError
            No run folder here has it, nor has anything that was imported from here, or its content is another.
        """
        return read_artifact(ref, [*self.runs(), *self._imports()])

    def rebuild(self, folders: Iterable[Path] = ()) -> Rebuilt:
        """Load again the runs whose folders are on this machine, and those found in or under ``folders``.

        Others write to the same store: what is there of runs that are not here stays as it is.
        """
        known = dict.fromkeys([*map(str, self.runs()), *map(str, run_folders(folders))])
        loaded: list[str] = []
        problems: list[str] = []
        for folder in map(str, self._imports()):
            try:
                self._load_import(Path(folder) / QUADS_FILE)
                loaded.append(folder)
            except Conflict:
                continue  # others have loaded the run itself since, which is newer than a copy
            except KnowledgeError as error:
                problems.append(error.message)
        for folder in known:
            try:
                self.load_run(Path(folder) / QUADS_FILE)
                loaded.append(folder)
            except KnowledgeError as error:
                problems.append(error.message)
        if self._graphs.default_graph_is_apart():
            self._endpoint.update(
                f"INSERT {{ ?s ?p ?o }} WHERE {{ GRAPH ?g {{ ?s ?p ?o }} {_OWN} FILTER NOT EXISTS {{ ?s ?p ?o }} }}"
            )
        (triples,) = self._endpoint.select(f"SELECT (COUNT(*) AS ?n) {{ GRAPH ?g {{ ?s ?p ?o }} {_OWN} }}")[0]
        return Rebuilt(runs=tuple(loaded), triples=int(triples.value), problems=tuple(problems))

    def dump(self) -> str:
        """Return what the named graphs hold as sorted N-Quads, for comparison and exchange."""
        import pyoxigraph

        rows = self._endpoint.select(f"SELECT ?s ?p ?o ?g {{ GRAPH ?g {{ ?s ?p ?o }} {_OWN} }}")
        return "".join(sorted(f"{quad} .\n" for quad in as_stored(pyoxigraph.Quad(*row) for row in rows)))

    def _load_import(self, quads: Path) -> None:
        self.admit(by_graph(read_source(quads).quads()), str(quads), lambda _held: quads)

    def _imports(self) -> list[Path]:
        return sorted((found.parent for found in (self.folder / "imports").glob(f"[!.]*/{QUADS_FILE}")), key=_age)

    def _reading(self, use: Callable[[Any], ResultT]) -> ResultT:
        view = RemoteView(self._endpoint)
        try:
            return use(view)
        except KnowledgeError:
            # What was read in several requests may have been changed in between.
            if view.requests < 2:
                raise
            return use(RemoteView(self._endpoint))

    def _load_graph(self, graph: str, wanted: set[Any]) -> tuple[int, int]:
        stamp = next((quad.object for quad in wanted if quad.predicate.value == COMMITTED), None)
        counts, doubt = (0, 0), None
        for _ in range(_ATTEMPTS):
            try:
                held, raw = self._graphs.whole(graph)
            except KnowledgeError as error:
                raise (doubt or error) from error
            added, removed = wanted - held, set() if graph.startswith(SCHEMA) else held - wanted
            if not (added or removed):
                # Perhaps the request before was answered too late.
                return counts
            counts = len(added), len(removed)
            if any(_is_blank(quad) for quad in removed):
                raise KnowledgeError(f"{self.place}: <{graph}> holds blank nodes, which no run has written")
            before = next((raw.get(quad, quad).object for quad in held if quad.predicate.value == COMMITTED), None)
            condition = "" if stamp is None else unchanged(graph, COMMITTED, before)
            try:
                self._graphs.update(graph, added, [raw.get(quad, quad) for quad in removed], condition)
                doubt = None
                if stamp is None or self._endpoint.ask(f"{{ {unchanged(graph, COMMITTED, stamp)} }}"):
                    return counts
            except Uncertain as error:
                doubt = error
        raise doubt or KnowledgeError(
            f"{self.place}: others changed <{graph}> each of the {_ATTEMPTS} times that it was to be written",
            hint="is the run loaded by another program? try again later",
        )


_HIDDEN = ", ".join(map(iri_term, BOOKKEEPING))
_OWN = f"FILTER(?g != {iri_term(MARKER)} && ?p NOT IN ({_HIDDEN}))"


def _age(folder: Path) -> tuple[float, str]:
    return -folder.stat().st_mtime, folder.name


def _is_blank(quad: Any) -> bool:
    import pyoxigraph

    return any(isinstance(term, pyoxigraph.BlankNode) for term in (quad.subject, quad.object))
