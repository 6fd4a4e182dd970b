"""The members of a sweep: every combination of its matrix, less what is excluded, and those that are added."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from grafico.calculations import Json
from grafico.errors import BadInput, JobError
from grafico.jobs.document import Document, Place
from grafico.jobs.overrides import put
from grafico.jobs.problems import did_you_mean, dotted, shortened
from grafico.jobs.schema import Job
from grafico.jobs.sweeps.matrix import Axis, Point, axis_column, column_of, input_place, mapping_point, read_axes

__all__ = ["MAX_MEMBERS", "MAX_OVER_SHARDS", "Expansion", "Member", "Shard", "expand"]

MAX_MEMBERS = 10_000
"""Members of one run."""
MAX_OVER_SHARDS = 1_000_000
"""Members of a sweep that is carried out in shards."""
LONGEST_KEY = 100
JOIN = "+"


@dataclass(frozen=True)
class Shard:
    """A part of a sweep, for one of several controllers: every ``count``-th member, from the ``index``-th on."""

    index: int
    """From 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/8``.

        Raises
        ------
        BadInput
            It is not I/N with I from 1 to N.
        """
        index, slash, count = text.partition("/")
        if slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= 100_000:
            return cls(int(index), int(count))
        raise BadInput(
            f"--shard {shortened(text)}: expected I/N, the I-th of N shards, with I from 1 to N",
            hint="for example --shard 1/8; in a Slurm array, --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT",
        )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True)
class Member:
    """One member of a sweep."""

    key: str
    """What it is called, from its values."""
    points: tuple[Point, ...]

    @property
    def cells(self) -> dict[str, Json]:
        """Its part of the table, by column."""
        return {name: value for point in self.points for name, value in point.cells.items()}

    @property
    def told(self) -> str:
        """What it is called, and where it stands in files of values, for messages."""
        origins = ", ".join(point.origin for point in self.points if point.origin)
        return f"{self.key} ({origins})" if origins else self.key

    def put_into(self, document: Document) -> Document:
        """Return the job as this member alone would have it, with its own values in place of the matrix."""
        data: dict[str, Any] = {**document.data, "input": _copied(document.data["input"])}
        spots = dict(document.overridden)
        for point in self.points:
            for place, value, spot in point.changes:
                put(data, place, _copied(value), spot or "matrix")
                spots[place] = spot
        return Document(where=document.where, data=data, lines=document.lines, overridden=spots)


def _copied(value: Json) -> Json:
    """Return a copy of what can be changed in it."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Expansion:
    """The members of a sweep, or of one shard of it."""

    axes: tuple[Axis, ...]
    members: tuple[Member, ...]
    total: int
    """Members of the whole sweep."""
    columns: Mapping[str, Place]
    """Columns of the matrix in the table, with the place that each shows; none for the name of an axis."""


def expand(job: Job, document: Document, folder: Path, shard: Shard | None = None) -> Expansion:
    """Work out the members of a sweep.

    Raises
    ------
    JobError
        The matrix cannot be used, what is excluded matches nothing, or there are too many members, or none.
    """
    axes = read_axes(job.matrix, document, folder)
    whole = math.prod(len(axis.points) for axis in axes) if axes else 0
    _not_too_many(whole, document, axes, shard)
    holes = [_hole(index, item, axes, document) for index, item in enumerate(job.exclude)]
    added = [_added(index, item, document) for index, item in enumerate(job.include)]
    keys: set[str] = set()
    chosen: list[Member] = []
    hit = [False] * len(holes)
    for key, points in _everything(axes, added, holes, hit):
        name = _unlike(key, points, keys)
        if shard is None or len(keys) % shard.count == shard.index - 1:
            chosen.append(Member(name, points))
        keys.add(name)
    total = len(keys)
    for number, used in enumerate(hit):
        if not used:
            raise JobError(
                f"{document.where}{_spot(document, 'exclude', number)}: no combination of the matrix is like this",
                hint="compare the values with those of the matrix",
            )
    if not total:
        raise JobError(f"{document.where}: no member is left of the sweep", hint="exclude fewer of them")
    if not chosen:
        raise JobError(f"{document.where}: shard {shard} is empty, the sweep has {total} members", hint="fewer shards")
    _not_too_many(total, document, axes, shard)
    steps = [point for axis in axes for point in axis.points] + [point for _, point in added]
    columns: dict[str, Place] = dict.fromkeys((name for point in steps for name in point.cells), ())
    columns |= {column_of(change.place): change.place for point in steps for change in point.changes}
    _no_column_twice(axes, added, document)
    return Expansion(axes, tuple(chosen), total, columns)


def _no_column_twice(axes: Sequence[Axis], added: Sequence[tuple[str, Point]], document: Document) -> None:
    """Refuse an axis whose names would stand in the column of what another one, or a member that is added, varies."""
    for axis in axes:
        others = [point for other in axes if other is not axis for point in other.points] + [
            point for _, point in added
        ]
        places = {column_of(change.place): change.place for point in others for change in point.changes}
        if input_place(axis.name) is None and (place := places.get(axis_column(axis.name))) is not None:
            spot = document.position(("matrix", axis.name))
            raise JobError(
                f"{document.where}{f', {spot}' if spot else ''}, matrix.{axis.name}: the table would have two columns of "
                f"this name, since {dotted(place)} varies as well",
                hint="give this key of the matrix another name",
            )


def _everything(
    axes: Sequence[Axis],
    added: Sequence[tuple[str, Point]],
    holes: Sequence[Mapping[int, frozenset[str]]],
    hit: list[bool],
) -> Iterator[tuple[str, tuple[Point, ...]]]:
    """Yield key and points of each member, and note which holes left something out."""
    if axes:
        for points in product(*(axis.points for axis in axes)):
            out = [all(points[axis].label in labels for axis, labels in hole.items()) for hole in holes]
            if any(out):
                hit[:] = [before or now for before, now in zip(hit, out, strict=True)]
            else:
                yield JOIN.join(point.label for point in points), points
    for name, point in added:
        yield name, (point,)


def _unlike(key: str, points: tuple[Point, ...], keys: set[str]) -> str:
    """Return a key that is not too long and that no other member has."""
    if len(key) > LONGEST_KEY:
        digest = sha256(JOIN.join(point.label for point in points).encode()).hexdigest()[:8]
        key = f"{key[: LONGEST_KEY - 9]}-{digest}"
    name, number = key, 2
    while name in keys:
        name, number = f"{key}-{number}", number + 1
    return name


def _not_too_many(count: int, document: Document, axes: Sequence[Axis], shard: Shard | None) -> None:
    most = MAX_MEMBERS if shard is None else min(MAX_MEMBERS * shard.count, MAX_OVER_SHARDS)
    if count <= most:
        return
    sizes = " × ".join(str(len(axis.points)) for axis in axes)
    hint = "split it: --shard 1/N, 2/N … in runs of their own, for example as a Slurm array"
    raise JobError(
        f"{document.where}: the matrix has {count:,} members ({sizes}); one run has at most {MAX_MEMBERS:,}"
        + (f", and {shard.count} shards {most:,}" if shard is not None else ""),
        hint=hint if count <= MAX_OVER_SHARDS else f"a sweep has at most {MAX_OVER_SHARDS:,}: make several of it",
    )


def _spot(document: Document, key: str, index: int) -> str:
    position = document.position((key, index))
    return f", {position}, {key}[{index}]" if position else f", {key}[{index}]"


def _added(index: int, item: Mapping[str, Json], document: Document) -> tuple[str, Point]:
    """Return name and point of a member that is added."""
    given = dict(item)
    name = given.pop("name", None)
    where = f"{document.where}{_spot(document, 'include', index)}"
    if name is not None and not isinstance(name, (str, int, float)):
        raise JobError(f"{where}: name must be text, came {shortened(str(name))!r}")
    point = mapping_point(given, document, ("include", index), where, name=None if name is None else str(name))
    return point.label, point


def _hole(index: int, item: Mapping[str, Json], axes: Sequence[Axis], document: Document) -> dict[int, frozenset[str]]:
    """Return which labels of which axes are left out together."""
    where = f"{document.where}{_spot(document, 'exclude', index)}"
    if not item:
        raise JobError(f"{where}: it names nothing to leave out")
    if not axes:
        raise JobError(f"{where}: there is no matrix, so nothing can be left out of it", hint="leave exclude out")
    known = [axis.name for axis in axes]
    places: dict[Place, int] = {
        change.place: number for number, axis in enumerate(axes) for point in axis.points for change in point.changes
    }
    found: dict[int, frozenset[str]] = {}
    for key, value in item.items():
        place = input_place(key)
        number = known.index(key) if key in known else places.get(place) if place is not None else None
        if number is None:
            raise JobError(
                f"{where}: the matrix has no {key!r}{did_you_mean(key, known)}", hint=f"it has {', '.join(known)}"
            )
        labels: frozenset[str] = frozenset()
        for given in _each(value, axes[number].points):
            meant = _meant(given, axes[number].points, place, by_name=key in known)
            if not meant:
                raise JobError(f"{where}: {key} has no value {shortened(str(given))!r} in the matrix")
            labels |= meant
        found[number] = found[number] & labels if number in found else labels
    return found


def _each(value: Json, points: Sequence[Point]) -> Sequence[Json]:
    """Return what is left out, one by one; a list may be one of the values."""
    if not isinstance(value, (list, tuple)) or any(_gives(point, value, None) for point in points):
        return [value]
    return value


def _meant(value: Json, points: Sequence[Point], place: Place | None, *, by_name: bool) -> frozenset[str]:
    """Return the labels of the points that are left out: those of this name; else of this value; else of this label."""
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, (int, float)) else None
    named = [point for point in points if by_name and point.name and point.name == text]
    valued = [point for point in points if _gives(point, value, place)]
    labelled = [point for point in points if by_name and point.label == text]
    return frozenset(point.label for point in named or valued or labelled)


def _gives(point: Point, value: Json, place: Place | None) -> bool:
    """Whether a point gives a value, to the place named if one is."""
    return any(
        change.value == value and isinstance(change.value, bool) == isinstance(value, bool)
        for change in point.changes
        if place is None or change.place == place
    )
