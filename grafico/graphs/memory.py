"""A recorder and a place to compute that live in this process: for tests, notebooks and benchmarks."""

import asyncio
import hashlib
import platform
import secrets
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from grafico.calculations import (
    ArtifactRef,
    Artifacts,
    Calculation,
    CalculationError,
    CalculationTask,
    Failure,
    FailureKind,
    Json,
    Outcome,
    Provenance,
    Success,
    WorkContext,
    contents_of,
    load_calculation,
)
from grafico.errors import BadInput
from grafico.graphs.protocols import Position, Record

__all__ = ["FolderArtifacts", "InlineCompute", "MemoryRecorder"]


class MemoryRecorder:
    """Remembers a run in this process; given to a second run, it replays the first."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        """All records, in the order in which they were made."""
        self.notes: list[Record] = []
        self.outcomes: dict[str, Success[Any]] = {}
        """Committed outcomes by content key."""
        self.results: dict[str, bytes | ArtifactRef] = {}
        self._at: dict[tuple[Position, str], Record] = {}
        self._last: dict[tuple[str, int], int] = {}

    def recall(self, position: Position, kind: str) -> Record | None:
        """Return what was recorded at this position."""
        return self._at.get((position, kind))

    def last(self, lane: str, step: int) -> int:
        """Return the highest ordinal at which a step has a record."""
        return self._last.get((lane, step), -1)

    def climbed(self, key: str) -> Mapping[str, Json] | None:
        """Return how far the ladder of a key was climbed, where its calculation was not answered."""
        for (position, kind), record in self._at.items():
            if kind == "ladder" and record.data["key"] == key and (position, "compute") not in self._at:
                return record.data
        return None

    async def record(self, record: Record, *, durable: bool = True) -> None:  # noqa: ARG002
        """Remember."""
        self.records.append(record)
        lane, step, ordinal = record.position
        self._at[record.position, record.kind] = record
        self._last[lane, step] = max(ordinal, self._last.get((lane, step), -1))

    async def note(self, kind: str, position: Position, data: Mapping[str, Json]) -> None:
        """Remember for the story alone."""
        self.notes.append(Record(kind, position, dict(data)))

    def committed(self, key: str, output_type: type[Any]) -> Success[Any] | None:  # noqa: ARG002
        """Return the committed outcome of a key."""
        return self.outcomes.get(key)

    def commit(self, key: str, success: Success[Any]) -> Success[Any]:
        """Commit an outcome; the first one of a key stands."""
        return self.outcomes.setdefault(key, success)

    async def publish(self, name: str, content: bytes | ArtifactRef) -> None:
        """Keep a result."""
        self.results[name] = content

    def now(self) -> str:
        """Return the current UTC time."""
        return datetime.now(UTC).isoformat()

    def entropy(self) -> int:
        """Return 64 random bits."""
        return secrets.randbits(64)

    def forget(self, position: Position, kind: str) -> None:
        """Take back one record, as an invalidation does."""
        gone = self._at.pop((position, kind))
        self.records.remove(gone)
        lane, step, _ = position
        self._last[lane, step] = max((p.ordinal for p, _ in self._at if p[:2] == (lane, step)), default=-1)


class FolderArtifacts:
    """Artifacts in one folder, each named by its digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes, media_type: str) -> ArtifactRef:
        """Store ``data``."""
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / digest).write_bytes(data)
        return ArtifactRef(digest=digest, media_type=media_type, size=len(data))

    def path(self, ref: ArtifactRef) -> Path:
        """Return the file's path."""
        return self.folder / ref.digest


class Commits(Protocol):
    """Where finished calculations are committed by key."""

    def commit(self, key: str, success: Success[Any]) -> Any:
        """Commit an outcome."""
        ...


class InlineCompute:
    """Runs calculations in threads of this process, and commits their outcomes.

    Parameters
    ----------
    store
        Where successes are committed: the run's MemoryRecorder, or an outcome store.
    calculations
        Calculations that cannot be imported by reference (made inside a function).
    artifacts
        Where arrays are kept; default a temporary folder.
    """

    def __init__(
        self, store: Commits, *, calculations: Iterable[Calculation[Any, Any]] = (), artifacts: Artifacts | None = None
    ) -> None:
        self.store = store
        self.tasks: list[CalculationTask] = []
        """Every attempt that was asked for."""
        self._calculations = {calculation.reference: calculation for calculation in calculations}
        self._folder = tempfile.TemporaryDirectory(prefix="grafico-")
        self.artifacts = artifacts or FolderArtifacts(Path(self._folder.name))

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        """Run one attempt."""
        self.tasks.append(task)
        outcome = await asyncio.to_thread(self._run, task)
        if isinstance(outcome, Success):
            self.store.commit(task.key, outcome)
        return outcome

    def _run(self, task: CalculationTask) -> Outcome[Any]:
        calculation = self._calculations.get(task.reference) or load_calculation(task.reference)
        started, began = datetime.now(UTC).isoformat(), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="grafico-") as scratch:
            context = WorkContext(
                artifacts=self.artifacts,
                scratch=Path(scratch),
                threads=task.resources.cpus,
                memory_mib=task.resources.memory_mib,
                settings=task.settings,
                hints=task.hints,
            )
            try:
                value = calculation.input_type.model_validate(task.input)
                output = calculation.function(value, context)
            except CalculationError as error:
                return Failure(kind=error.kind, message=str(error), where=task.name, details=error.details)
            except BadInput as error:
                return Failure(kind=FailureKind.BAD_INPUT, message=error.message, where=task.name)
            except Exception as error:  # noqa: BLE001 - whatever an engine raises is this calculation's failure
                last = traceback.extract_tb(error.__traceback__)[-1]
                message = f"{type(error).__name__}: {error} ({last.name}:{last.lineno})"
                return Failure(kind=FailureKind.ENGINE_ERROR, message=message, where=task.name)
        provenance = Provenance(
            versions=context.versions,
            threads=context.threads,
            settings=task.settings,
            host=platform.node(),
            attempt=task.attempt,
            started=started,
            seconds=time.monotonic() - began,
            reused_hints=tuple(context.reused_hints),
            consumed=contents_of(value),
            made=contents_of(output),
        )
        return calculation.outcome_type(output=output, key=task.key, provenance=provenance)
