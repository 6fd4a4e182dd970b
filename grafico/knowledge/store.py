"""The embedded store: an index on a local disk of what the run folders hold.

``<folder>/current`` names the Oxigraph database in use, ``<folder>/merged`` the one whose default graph is known to be
the merge of its named graphs, ``<folder>/runs.jsonl`` the run folders that were loaded, ``<folder>/graphs.jsonl`` the
graphs that were persisted without a run. The database is opened under a
short lock, used and closed; nothing keeps it open.
"""

import contextlib
import json
import os
import shutil
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from grafico.calculations import ArtifactRef, Model
from grafico.errors import KnowledgeError
from grafico.knowledge.disk import (
    QUADS_FILE,
    clear_away,
    is_torn,
    opened,
    run_folders,
    sync,
    tidy,
    used,
    write_file,
)
from grafico.knowledge.embedded import EmbeddedGraphs
from grafico.knowledge.entity import Entity
from grafico.knowledge.files import ArtifactFolder, read_artifact
from grafico.knowledge.location import damaged, database, default_folder, prepare
from grafico.knowledge.lock import DEFAULT_WAIT_S, locked
from grafico.knowledge.merge import change, held_alike, load, merge_anew, named_quads, read_source
from grafico.knowledge.persist import DIRECT, Persisted, Statement, persist_into
from grafico.knowledge.query import QueryResult, run_query
from grafico.knowledge.reading import Reader
from grafico.knowledge.vocabulary import SCHEMA

__all__ = ["QUADS_FILE", "KnowledgeBase", "Loaded", "Rebuilt", "run_folders"]

ResultT = TypeVar("ResultT")


class Loaded(Model):
    """What loading a run changed in the store."""

    added: int = Field(ge=0, description="triples")
    removed: int = Field(ge=0, description="triples")


class Rebuilt(Model):
    """What a rebuild found."""

    runs: tuple[str, ...] = Field(description="run folders that were loaded")
    triples: int = Field(ge=0)
    problems: tuple[str, ...] = Field(default=(), description="run folders that were not loaded, and why")


class KnowledgeBase(Reader):
    """The knowledge base in a folder.

    Parameters
    ----------
    folder
        Default: ``$GRAFICO_KB``, else the user's data folder.
    wait_s
        Seconds to wait for the lock at most.
    """

    def __init__(self, folder: Path | None = None, *, wait_s: float = DEFAULT_WAIT_S) -> None:
        super().__init__()
        self.folder = (folder or default_folder()).absolute()
        self.wait_s = wait_s

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def load_run(self, quads: Path) -> Loaded:
        """Load a run's N-Quads; what the store held of that run and the file does not is removed.

        Loading the same file again changes nothing. It is loaded whole or not at all, but for a first load of much:
        should a kill leave that half done, the next use of the store mends it.

        Raises
        ------
        KnowledgeError
            The file is missing or damaged, or the store is locked or damaged.
        """
        source = read_source(quads)

        def use(store: Any) -> tuple[int, int]:
            self._remember(str(quads.parent.resolve()))
            return load(store, source, in_bulk=self._unmerged)

        added, removed = self._writing(use)
        return Loaded(added=added, removed=removed)

    def held(self, coming: Mapping[Any, set[Any]], source: str) -> frozenset[str]:
        """Return which graphs the store holds already; see :func:`~grafico.knowledge.merge.held_alike`."""
        return self._reading(lambda store: held_alike(coming, _graph_of(store), source))

    def admit(self, coming: Mapping[Any, set[Any]], source: str, keep: Callable[[frozenset[str]], Path]) -> Loaded:
        """Load graphs from elsewhere, unless one of them says something else here; nobody comes in between.

        Parameters
        ----------
        coming
            What :func:`~grafico.knowledge.merge.by_graph` returns.
        source
            Where it comes from.
        keep
            Given the graphs that are held already, writes the N-Quads to load, and returns their path.

        Raises
        ------
        Conflict
            The store says something else in one of the graphs; nothing was loaded.
        """

        def use(store: Any) -> tuple[int, int]:
            quads = keep(held_alike(coming, _graph_of(store), source))
            folder = str(quads.parent.resolve())
            known = folder in self._remembered()
            self._remember(folder)
            try:
                return load(store, read_source(quads), in_bulk=self._unmerged)
            except Exception:
                if not known:
                    with contextlib.suppress(OSError):
                        self._write_runs(other for other in self._remembered() if other != folder)
                raise

        added, removed = self._writing(use)
        return Loaded(added=added, removed=removed)

    def query(
        self,
        query: str,
        *,
        bind: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        limit: int = 1000,
        memory_mib: int = 4096,
    ) -> QueryResult:
        """Answer a read-only SPARQL query over all runs; see :func:`~grafico.knowledge.query.run_query`."""
        prepare(self.folder)
        path = database(self.folder)
        if path is not None and not self._is_merged(path):
            # A load in bulk was killed, or is under way: then this waits for its end.
            self._writing(lambda _: None)
        return run_query(
            self.folder, query, bind=bind, timeout_s=timeout_s, limit=limit, memory_mib=memory_mib, wait_s=self.wait_s
        )

    def persist(self, *entities: Entity, into: str = DIRECT) -> Persisted:
        """Write entities, and all that they refer to, into a named graph of the store itself.

        Only what is new or changed is written, all of it or nothing. A field that somebody else has changed since the
        entity was read is not overwritten, unless both mean the same; sets are merged item by item. An entity that
        was made anew, and is there already, adds what was given for it. No run folder stands behind such a graph.

        Parameters
        ----------
        entities
            What to write.
        into
            IRI of the graph; no graph of a run.

        Raises
        ------
        Conflict
            Somebody else has changed the same field; nothing was written.
        KnowledgeError
            An entity has no form in the graph, or the store is locked or damaged.
        """
        prepare(self.folder)
        statement = Statement(entities, into, keep=ArtifactFolder(self.folder).keep)

        def use(store: Any) -> Persisted:
            self._remember(statement.graph, "graph")
            return persist_into(EmbeddedGraphs(self.place, store), statement)

        done = self._writing(use)
        self._know(statement.objects())
        return done

    def runs(self) -> tuple[Path, ...]:
        """Return the run folders that were loaded, oldest first."""
        return tuple(Path(folder) for folder in self._remembered())

    def read_artifact(self, ref: ArtifactRef) -> bytes:
        """Return the bytes of a file of a run that was loaded, or of the store itself; its digest is checked.

        Raises
        ------
        KnowledgeError
            No run folder that the knowledge base knows has it, or its content is another.
        """
        return read_artifact(ref, [*reversed(self.runs()), self.folder])

    def rebuild(self, folders: Iterable[Path] = ()) -> Rebuilt:
        """Make the store anew from the run folders that it knows and those found in or under ``folders``.

        Graphs that were persisted directly have no folder, and are copied. The old database stays in use until the
        new one is complete.
        """
        prepare(self.folder)
        with locked(self.folder, write=True, wait_s=self.wait_s):
            known = list(dict.fromkeys([*self._remembered(), *map(str, run_folders(folders))]))
            # A run that went on after a copy of it was imported knows more than the copy.
            known.sort(key=lambda folder: not self._is_import(folder))
            with contextlib.suppress(KnowledgeError):
                clear_away(self.folder, database(self.folder))
            fresh = self.folder / f"oxigraph-{uuid.uuid4().hex[:12]}"
            try:
                loaded, triples, problems = self._made_anew(fresh, known)
                self._switch(fresh)
                # An import that is gone has been told of, and will not come back.
                self._write_runs(folder for folder in known if folder in loaded or not self._is_import(folder))
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)
                if not self._is_named("current", fresh):
                    shutil.rmtree(fresh, ignore_errors=True)
                if isinstance(error, OSError):
                    raise damaged(self.folder, error) from error
                raise
        return Rebuilt(runs=tuple(loaded), triples=triples, problems=tuple(problems))

    def _made_anew(self, fresh: Path, known: list[str]) -> tuple[list[str], int, list[str]]:
        loaded: list[str] = []
        problems: list[str] = []
        triples = 0
        store = opened(self.folder, fresh)
        for folder in known:
            try:
                triples += load(store, read_source(Path(folder) / QUADS_FILE))[0]
                loaded.append(folder)
            except KnowledgeError as error:
                problems.append(error.message)
        triples += self._carry_over(store, problems)
        store.flush()
        return loaded, triples, problems

    def dump(self) -> str:
        """Return what the runs' graphs hold as sorted N-Quads, for comparison and exchange."""
        return self._reading(lambda store: "".join(sorted(f"{quad} .\n" for quad in named_quads(store))))

    def _reading(self, use: Callable[[Any], ResultT]) -> ResultT:
        import pyoxigraph

        prepare(self.folder)
        with locked(self.folder, write=False, wait_s=self.wait_s) as turnstile:
            path = database(self.folder)
            try:
                store = pyoxigraph.Store() if path is None else pyoxigraph.Store.read_only(str(path))
            except (OSError, RuntimeError) as error:
                raise damaged(self.folder, error) from error
            turnstile.open()
            try:
                return use(store)
            except OSError as error:
                raise damaged(self.folder, error) from error

    def _writing(self, use: Callable[[Any], ResultT]) -> ResultT:
        prepare(self.folder)
        with locked(self.folder, write=True, wait_s=self.wait_s):
            path = database(self.folder)
            try:
                if path is None:
                    clear_away(self.folder, None)
                    path = self.folder / f"oxigraph-{uuid.uuid4().hex[:12]}"
                    result = used(self.folder, path, use)
                    self._mark_merged(path)
                    write_file(self.folder / "current", path.name + "\n")
                elif self._is_merged(path):
                    result = used(self.folder, path, use)
                else:
                    used(self.folder, path, merge_anew)
                    self._mark_merged(path)
                    result = used(self.folder, path, use)
            except BaseException as error:
                # The database closes when its last reference goes, which must be before the lock does.
                traceback.clear_frames(error.__traceback__)
                if isinstance(error, OSError):
                    raise damaged(self.folder, error) from error
                raise
            tidy(path)
            return result

    def _is_merged(self, path: Path) -> bool:
        return self._is_named("merged", path)

    def _is_named(self, mark: str, path: Path) -> bool:
        try:
            return (self.folder / mark).read_text(encoding="utf-8").strip() == path.name
        except (OSError, UnicodeDecodeError):
            return False

    def _mark_merged(self, path: Path) -> None:
        write_file(self.folder / "merged", path.name + "\n")

    @contextlib.contextmanager
    def _unmerged(self) -> Iterator[None]:
        mark = self.folder / "merged"
        name = mark.read_text(encoding="utf-8") if mark.exists() else None
        mark.unlink(missing_ok=True)
        sync(self.folder)
        yield
        # A new database is marked by who made it.
        if name is not None:
            write_file(mark, name)

    def _switch(self, fresh: Path) -> None:
        self._mark_merged(fresh)
        write_file(self.folder / "current", fresh.name + "\n")
        clear_away(self.folder, fresh)

    def _carry_over(self, fresh: Any, problems: list[str]) -> int:
        graphs = self._remembered("graph")
        if not graphs:
            return 0
        import pyoxigraph

        names = {pyoxigraph.NamedNode(graph) for graph in graphs}
        try:
            path = database(self.folder)
            old = pyoxigraph.Store() if path is None else pyoxigraph.Store.read_only(str(path))
            # The classes and properties come along.
            kept = {q for q in named_quads(old) if q.graph_name in names or q.graph_name.value.startswith(SCHEMA)}
        except (OSError, RuntimeError, KnowledgeError) as error:
            problems.append(f"what was persisted directly into {', '.join(graphs)} cannot be read any more: {error}")
            return 0
        change(fresh, kept, set())
        return len(kept)

    def _remembered(self, kind: str = "folder") -> list[str]:
        try:
            lines = (self.folder / _LISTS[kind]).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        found: dict[str, None] = {}
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found[str(json.loads(line)[kind])] = None
        return list(found)

    def _is_import(self, folder: str) -> bool:
        return Path(folder).parent == self.folder.resolve() / "imports"

    def _write_runs(self, folders: Iterable[str]) -> None:
        lines = (json.dumps({"folder": folder}) + "\n" for folder in folders)
        write_file(self.folder / "runs.jsonl", "".join(lines))

    def _remember(self, name: str, kind: str = "folder") -> None:
        if name in self._remembered(kind):
            return
        path = self.folder / _LISTS[kind]
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * is_torn(path) + json.dumps({kind: name}) + "\n")
            file.flush()
            os.fsync(file.fileno())


_LISTS = {"folder": "runs.jsonl", "graph": "graphs.jsonl"}


def _graph_of(store: Any) -> Callable[[Any], set[Any]]:
    return lambda graph: set(store.quads_for_pattern(None, None, None, graph))
