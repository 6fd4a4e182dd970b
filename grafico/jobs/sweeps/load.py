"""A sweep that may run: every member validated and checked, and members that are the same in all brought together."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from grafico.calculations import Json, Resources
from grafico.errors import BadInput, JobError, MissingExtra
from grafico.graphs import Foreseen
from grafico.jobs.catalog import blame
from grafico.jobs.document import Document, Place
from grafico.jobs.problems import lines_of
from grafico.jobs.provenance import store_of
from grafico.jobs.request import check_request, read_request
from grafico.jobs.schema import Job
from grafico.jobs.sweeps.members import Member, Shard, expand
from grafico.jobs.sweeps.table import installed

__all__ = ["Sweep", "SweepLane", "load_sweep"]

TELL_S = 2.0
"""How often people hear how far the checks have come."""
MAX_PROBLEMS = 30
MAX_NAMES = 60


@dataclass
class SweepLane:
    """One lane: what one member asks for, and perhaps others that ask for the same."""

    members: list[Member]
    foreseen: tuple[Foreseen, ...] = ()
    """The calculations that it will need."""

    @property
    def key(self) -> str:
        """Key of the lane: its first member's."""
        return self.members[0].key


@dataclass(frozen=True)
class Sweep:
    """The lanes of a sweep, or of one shard of it; their requests are made when they are asked for, since there may be many."""

    job: Job
    graph: Any
    """What each member runs."""
    document: Document
    folder: Path
    lanes: tuple[SweepLane, ...]
    columns: tuple[str, ...]
    """Columns of the matrix in the table."""
    places: dict[str, Place]
    """What each of these shows; empty for the name of an axis."""
    total: int
    """Members of the whole sweep."""
    shard: Shard | None = None

    @property
    def count(self) -> int:
        """Members here."""
        return sum(len(lane.members) for lane in self.lanes)

    def document_of(self, member: Member) -> Document:
        """Return the job as one member has it."""
        return member.put_into(self.document)

    def request(self, lane: SweepLane) -> BaseModel:
        """Return the validated request of a lane."""
        return read_request(self.job, self.graph, self.document_of(lane.members[0]), self.folder)

    def requests(self) -> Iterator[tuple[SweepLane, BaseModel]]:
        """Yield each lane with its request."""
        for lane in self.lanes:
            yield lane, self.request(lane)

    def cells(self, member: Member) -> dict[str, Json]:
        """Return a member's part of the table; what it does not vary is what the job says."""
        own = member.cells
        asked = self.document_of(member).data
        return {name: own[name] if name in own else _scalar_at(asked, self.places[name]) for name in self.columns}


def _scalar_at(data: Json, place: Place) -> Json:
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data if place and isinstance(data, (bool, int, float, str)) else None


@dataclass
class _Problems:
    """What is wrong, and with which members."""

    members: dict[str, list[str]] = field(default_factory=dict)
    hints: dict[str, str | None] = field(default_factory=dict)
    bad: int = 0

    def add(self, member: Member, error: BadInput, where: str) -> None:
        self.bad += 1
        for line in lines_of(error.message, where):
            self.members.setdefault(line, []).append(member.told)
            self.hints.setdefault(line, error.hint)

    def error(self, where: str, total: int, hint: str) -> JobError:
        lines = []
        for text, keys in list(self.members.items())[:MAX_PROBLEMS]:
            names = ", ".join(keys[:MAX_NAMES]) + (
                f" and {len(keys) - MAX_NAMES} more" if len(keys) > MAX_NAMES else ""
            )
            lines.append(f"  {text}{f' ({self.hints[text]})' if self.hints[text] else ''}\n    in {names}")
        if len(self.members) > MAX_PROBLEMS:
            lines.append(f"  … and {len(self.members) - MAX_PROBLEMS} other problems")
        heading = f"{where}: {self.bad} of {total} members cannot run; nothing was started"
        return JobError("\n".join([f"{heading}:", *lines]), hint=hint)


def load_sweep(
    job: Job,
    graph: Any,
    document: Document,
    folder: Path,
    *,
    shard: Shard | None = None,
    say: Callable[[str], None] | None = None,
) -> Sweep:
    """Expand a sweep, validate every member, and let the graph check each.

    Parameters
    ----------
    job, graph, document
        The job, what its members run, and the file it came from.
    folder
        What file names are relative to.
    shard
        The part that is wanted; default all.
    say
        Told how far it has come.

    Raises
    ------
    JobError
        The matrix cannot be used; or members cannot run: names all of them, each with place and reason.
    MissingExtra
        A Parquet table is wanted, and pyarrow is not installed.
    """
    if job.table.parquet:
        _need_pyarrow()
    expansion = expand(job, document, folder, shard)
    lanes: dict[str, SweepLane] = {}
    problems = _Problems()
    refused: dict[str, BadInput] = {}
    needs: dict[Resources, Resources] = {}
    told = time.monotonic()
    for number, member in enumerate(expansion.members):
        if say is not None and time.monotonic() - told > TELL_S:
            told = time.monotonic()
            say(f"checking members: {number} of {len(expansion.members)}")
        try:
            own = member.put_into(document)
            request = read_request(job, graph, own, folder)
            digest = _digest(request)
            if digest in refused:
                raise refused[digest]
            if digest in lanes:
                lanes[digest].members.append(member)
                continue
            try:
                check_request(job, graph, request, own)
            except BadInput as error:
                refused[digest] = error
                raise
            lanes[digest] = SweepLane([member], _foresee(job, graph, request, needs))
        except MissingExtra:
            raise
        except BadInput as error:
            problems.add(member, error, document.where)
    if problems.bad:
        hint = (
            "mend them, or leave them out with `exclude`" if job.matrix else "mend them, or leave them out of `include`"
        )
        raise problems.error(document.where, len(expansion.members), hint)
    return Sweep(
        job=job,
        graph=graph,
        document=document,
        folder=folder,
        lanes=tuple(lanes.values()),
        columns=tuple(expansion.columns),
        places=dict(expansion.columns),
        total=expansion.total,
        shard=shard,
    )


def _foresee(job: Job, graph: Any, request: BaseModel, known: dict[Resources, Resources]) -> tuple[Foreseen, ...]:
    """Return what the graph foresees; members that need the same share one description of it, since there may be many."""
    if graph.foresee is None:
        return ()
    with store_of(job), blame(job.graph, "the forecast"):
        found = graph.foresee(request)
    return tuple(replace(item, resources=known.setdefault(item.resources, item.resources)) for item in found)


def _digest(request: BaseModel) -> str:
    text = json.dumps(request.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _need_pyarrow() -> None:
    if not installed("pyarrow"):
        raise MissingExtra(
            "table.parquet: pyarrow is not installed", hint='pip install "grafico[parquet]", or leave table.parquet out'
        )
