"""Entity classes that the tests of the knowledge base share; also run as a script by tests that need another process."""

import enum
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from grafico.calculations import ArtifactRef, Json
from grafico.knowledge import Array, Entity, Iri, RunKnowledge, Unit, open_store

NAMESPACE = "https://example.org/test#"


class Phase(enum.Enum):
    """State of matter."""

    GAS = "gas"
    LIQUID = "liquid phase"


class Thing(Entity):
    """Something with a field of every kind.

    Not part of the description.
    """

    namespace: ClassVar[str] = NAMESPACE

    text: str = Field(description="any text")
    count: int = 0
    flag: bool = False
    energy: Annotated[float, Unit("eV")] = Field(default=0.0, description="an energy")
    maybe: Annotated[float, Unit("nm")] | None = None
    sure_unless_none: int | None = 7
    moment: datetime | None = None
    day: date | None = None
    blob: bytes = b""
    phase: Phase | None = None
    choice: Literal["a", "b"] = "a"
    mixed: int | str = 0
    numbers: list[float] = Field(default_factory=list)
    words: tuple[str, ...] = ()
    optional_words: tuple[str, ...] | None = None
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tags: frozenset[str] = frozenset()
    phases: list[Phase] = Field(default_factory=list)
    settings: dict[str, Json] = Field(default_factory=dict)
    link: Iri | None = None
    spectrum: Array | None = None
    arrays: list[Array] = Field(default_factory=list)
    file: ArtifactRef | None = None
    other: "Thing | None" = None
    others: list["Thing"] = Field(default_factory=list)
    friends: set["Thing"] = Field(default_factory=set)


class SpecialThing(Thing):
    """A thing that is known more closely."""

    special: str | None = None


class Named(Entity):
    """Something that its name and number identify."""

    namespace: ClassVar[str] = NAMESPACE
    natural_key: ClassVar[tuple[str, ...]] = ("name", "number")

    name: str
    number: int = 0
    remark: str | None = None
    parts: list["Named"] = Field(default_factory=list)


class VeryNamed(Named):
    """The same, known more closely."""

    detail: float | None = None


class Other(Entity):
    """Something else that has a name."""

    namespace: ClassVar[str] = NAMESPACE

    name: str = Field(description="what the other is called")


def persist_many(folder: Path, store: str, first: int, count: int) -> None:
    """Persist ``count`` entities one call at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    knowledge = RunKnowledge(folder, run_id=folder.name, store=open_store(store))
    for number in range(first, first + count):
        knowledge.persist_now([Named(name=folder.name, number=number), Named(name="shared", number=number % 3)])
        print(number, flush=True)
    if knowledge.problems:
        sys.exit(f"problems: {knowledge.problems}")


if __name__ == "__main__":
    persist_many(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
