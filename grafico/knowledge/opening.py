"""From what a person writes down, a folder or an address, to the store that it names."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from grafico.errors import BadInput
from grafico.knowledge.address import is_address
from grafico.knowledge.entity import Entity
from grafico.knowledge.location import default_place
from grafico.knowledge.lock import DEFAULT_WAIT_S
from grafico.knowledge.persist import Persisted
from grafico.knowledge.query import QueryResult
from grafico.knowledge.store import KnowledgeBase, Loaded, Rebuilt

__all__ = ["Store", "open_store"]


class Store(Protocol):
    """What every store can do, whether in a folder or at an address."""

    @property
    def place(self) -> str:
        """The folder, or the address."""

    def load_run(self, quads: Path) -> Loaded:
        """Load a run's N-Quads."""

    def query(
        self,
        query: str,
        *,
        bind: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        limit: int = 1000,
        memory_mib: int = 4096,
    ) -> QueryResult:
        """Answer a read-only SPARQL query."""

    def fetch(self, iri: str, depth: int | None = 0, *, run: str | None = None) -> Entity:
        """Return the entity with an IRI."""

    def refresh(self, entity: Entity, *, run: str | None = None) -> None:
        """Read an entity anew."""

    def persist(self, *entities: Entity, into: str = ...) -> Persisted:
        """Write entities into a named graph of the store itself."""

    def runs(self) -> tuple[Path, ...]:
        """Return the run folders that were loaded and can be read here."""

    def rebuild(self, folders: Iterable[Path] = ()) -> Rebuilt:
        """Load all run folders again."""

    def dump(self) -> str:
        """Return what the named graphs hold as sorted N-Quads."""


def open_store(where: Path | str | None = None, *, wait_s: float = DEFAULT_WAIT_S) -> Store:
    """Return the knowledge base in a folder, or at the address of a SPARQL 1.1 endpoint.

    Parameters
    ----------
    where
        A folder, or an address (see :mod:`~grafico.knowledge.address`); default: ``$GRAFICO_KB``, which may be either,
        else the user's data folder.
    wait_s
        Seconds to wait for a folder's lock, or for an endpoint's answer to a request, at most.

    Raises
    ------
    BadInput
        No address, or credentials that cannot be used with it.
    """
    place = default_place() if where is None else where
    if isinstance(place, str) and not place.strip():
        raise BadInput("the knowledge base has no place: its name is empty", hint="give a folder, or an address")
    if is_address(place):
        from grafico.knowledge.remote import RemoteKnowledgeBase

        return RemoteKnowledgeBase(str(place), timeout_s=wait_s)
    return KnowledgeBase(Path(place).expanduser(), wait_s=wait_s)
