"""Fetching that remembers what it saw, so that a later ``persist`` can tell who changed what."""

import abc
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

from grafico.calculations import ArtifactRef
from grafico.knowledge.conflicts import Pairs
from grafico.knowledge.entity import Entity
from grafico.knowledge.fetch import Fetcher

__all__ = ["AttentiveFetcher", "Reader", "base_of", "note_base", "note_sent", "sent_of"]

ResultT = TypeVar("ResultT")

BASES = "_bases"
"""Private attribute of :class:`Entity`."""


class AttentiveFetcher(Fetcher):
    """A :class:`~grafico.knowledge.fetch.Fetcher` that leaves with each entity what its graph said of it.

    Parameters
    ----------
    place
        Name of the store.
    store
        What answers ``quads_for_pattern``.
    """

    def __init__(
        self,
        place: str,
        store: Any,
        identity: MutableMapping[str, Entity],
        *,
        lazy: Callable[[Entity], None],
        **more: Any,
    ) -> None:
        self._place = place
        self._watched = _Watched(store)
        super().__init__(self._watched, identity, lazy=lazy, **more)

    def _fill(self, entity: Entity) -> bool:
        filled = super()._fill(entity)
        seen = self._watched.seen.pop(entity.iri, None) if filled else None
        if seen is not None:
            graph, quads = seen
            note_base(entity, self._place, graph, frozenset((quad.predicate, quad.object) for quad in quads))
        return filled


class _Watched:
    """A store of which the descriptions that are read are remembered."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.seen: dict[str, tuple[str, list[Any]]] = {}

    def quads_for_pattern(self, subject: Any, predicate: Any, value: Any, graph: Any) -> Iterator[Any]:
        found = self._store.quads_for_pattern(subject, predicate, value, graph)
        if predicate is None and value is None and graph is not None:
            found = list(found)
            self.seen[subject.value] = (graph.value, found)
        return iter(found)


def base_of(entity: Entity, place: str, graph: str) -> Pairs | None:
    """Return what an entity said when it was last read from or written to a graph; ``None`` if it never was."""
    private = entity.__pydantic_private__ or {}
    found: Pairs | None = private.get(BASES, {}).get((place, graph))
    return found


def sent_of(entity: Entity, place: str, graph: str, marks: Collection[Any]) -> Pairs | None:
    """Return what an entity said when it was sent to a graph without an answer, if one of the marks is from then."""
    private = entity.__pydantic_private__ or {}
    mark, pairs = private.get(BASES, {}).get((place, graph, "sent"), (None, None))
    return pairs if mark is not None and mark in marks else None


def note_sent(entity: Entity, place: str, graph: str, mark: Any, pairs: Pairs) -> None:
    """Remember what an entity said when it was sent to a graph without an answer."""
    private = entity.__pydantic_private__
    assert private is not None
    private[BASES] = {**private.get(BASES, {}), (place, graph, "sent"): (mark, pairs)}


def note_base(entity: Entity, place: str, graph: str, pairs: Pairs) -> None:
    """Remember what an entity says in a graph now."""
    private = entity.__pydantic_private__
    assert private is not None
    # A copy of the entity shares the mapping and keeps what it had.
    kept = {key: value for key, value in private.get(BASES, {}).items() if key[:2] != (place, graph)}
    private[BASES] = {**kept, (place, graph): pairs}


class Reader(abc.ABC):
    """A store that entities are fetched from; one IRI is one object as long as it is in use."""

    def __init__(self) -> None:
        self._identity: weakref.WeakValueDictionary[str, Entity] = weakref.WeakValueDictionary()

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where the store is: a folder, or an address."""

    @abc.abstractmethod
    def read_artifact(self, ref: ArtifactRef) -> bytes:
        """Return the bytes of a file of a run."""

    @abc.abstractmethod
    def _reading(self, use: Callable[[Any], ResultT]) -> ResultT:
        """Call ``use`` with what answers ``quads_for_pattern``."""

    def __str__(self) -> str:
        return self.place

    def _know(self, entities: Iterable[Entity]) -> None:
        """Let later fetches return these very objects, where there are none yet."""
        for entity in entities:
            self._identity.setdefault(entity.iri, entity)

    def fetch(self, iri: str, depth: int | None = 0, *, run: str | None = None) -> Entity:
        """Return the entity with an IRI; one IRI is one object as long as it is in use.

        Parameters
        ----------
        iri
            Which.
        depth
            How many references to follow: 0, n, or None for all. What lies beyond is loaded when it is looked at.
        run
            IRI of the only graph to read, such as a run's; default: the one that was committed last, entity by entity.

        Raises
        ------
        KnowledgeError
            There is no such entity, or its class is not known here.
        """
        identity = self._identity if run is None else {}
        return self._reading(lambda store: self._fetcher(store, identity, run).fetch(iri, depth))

    def refresh(self, entity: Entity, *, run: str | None = None) -> None:
        """Read an entity anew; what was changed in it since it was read or written is forgotten.

        Parameters
        ----------
        entity
            What to read; its references are left as they are.
        run
            IRI of the only graph to read; default: the one that was committed last.

        Raises
        ------
        KnowledgeError
            There is no such entity any more; it is left as it was.
        """
        private = entity.__pydantic_private__
        assert private is not None
        values, before = dict(entity.__dict__), dict(private)
        identity: MutableMapping[str, Entity] = self._identity if run is None else {}
        identity[entity.iri] = entity
        entity.__dict__.clear()
        entity.__dict__["iri"] = values["iri"]
        try:
            private.update(_source=lambda _: None, _bases={})
            self._reading(lambda store: self._fetcher(store, identity, run).fetch(entity.iri))
        except BaseException:
            entity.__dict__.update(values)
            private.update(before)
            raise

    def _fetcher(self, store: Any, identity: Any, run: str | None) -> Fetcher:
        def lazy(entity: Entity) -> None:
            self._reading(lambda later: self._fetcher(later, identity, run).fill(entity))

        return AttentiveFetcher(self.place, store, identity, lazy=lazy, graph=run, files=self.read_artifact)
