"""The matrix of a sweep: axes, each with the points that it goes through, in the order of the job file."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from grafico.calculations import Json
from grafico.errors import JobError
from grafico.jobs.document import Document, Place
from grafico.jobs.overrides import parse_place
from grafico.jobs.problems import did_you_mean, dotted, shortened
from grafico.jobs.sweeps.sources import SOURCES, csv_rows, matching_files
from grafico.jobs.sweeps.table import OWN

__all__ = ["Axis", "Change", "Point", "axis_column", "column_of", "input_place", "mapping_point", "read_axes", "slug"]

LONGEST_LABEL = 40
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")


class Change(NamedTuple):
    """One value that a member puts into the input."""

    place: Place
    value: Json
    spot: str
    """Where it is written: ``line 12``."""


@dataclass(frozen=True)
class Point:
    """What one step along an axis changes."""

    label: str
    """Its part of a member's key: letters, digits and ``_ . -``; different for each point of an axis."""
    changes: tuple[Change, ...]
    values: Mapping[str, Json]
    """Its part of a member's row, by column; without what the label stands for."""
    labelled: tuple[str, ...] = ()
    """Columns in which the name stands, or the label where it has none."""
    name: str = ""
    """What the job file, or the table of values, calls it; the label is made from that."""
    origin: str = ""
    """Where it stands in a file of values: ``molecules.csv, line 12``."""

    @property
    def cells(self) -> dict[str, Json]:
        """Its part of a member's row, by column."""
        return dict.fromkeys(self.labelled, self.name or self.label) | dict(self.values)


@dataclass(frozen=True)
class Axis:
    """One key of the matrix."""

    name: str
    points: tuple[Point, ...]


def read_axes(matrix: Mapping[str, Json], document: Document, folder: Path) -> tuple[Axis, ...]:
    """Read every axis of a matrix.

    Parameters
    ----------
    matrix
        As the job file has it.
    document
        For the lines in messages.
    folder
        What file names in it are relative to.

    Raises
    ------
    JobError
        A key is no place of the input and no name, an axis has no values, or a file of values cannot be used.
    """
    axes = [Axis(key, tuple(_unique(_points(key, value, document, folder)))) for key, value in matrix.items()]
    varied: dict[Place, str] = {}
    for axis in axes:
        for place in dict.fromkeys(change.place for point in axis.points for change in point.changes):
            for other, name in varied.items():
                if name != axis.name and (place[: len(other)] == other or other[: len(place)] == place):
                    raise JobError(
                        f"{_where(document, axis.name)}: {dotted(place)} is varied by {name!r} as well",
                        hint="let one key of the matrix vary it",
                    )
            varied[place] = axis.name
    for given, option in document.overridden.items():
        for place, name in varied.items():
            if given[0] == "input" and (given[: len(place)] == place or place[: len(given)] == given):
                raise JobError(
                    f"{option}: the matrix varies {dotted(place)}",
                    hint=f"narrow the matrix instead: --set 'matrix.{name}=[…]'",
                )
    return tuple(axes)


def _where(document: Document, key: str, *inner: str | int) -> str:
    spot = document.position(("matrix", key, *inner))
    return f"{document.where}, {spot}, matrix.{key}" if spot else f"{document.where}, matrix.{key}"


def _points(key: str, value: Json, document: Document, folder: Path) -> Iterator[Point]:
    where = _where(document, key)
    place = input_place(key)
    if place is None and not _NAME.fullmatch(key):
        hint = f"write input.{key}" if parse_place(key) and key.split(".", maxsplit=1)[0] not in _JOB_KEYS else None
        raise JobError(
            f"{where}: a key of the matrix is a place of the input, such as input.level.basis, or a plain name",
            hint=hint or "only the input varies: graph, cluster and the rest are the same for all members",
        )
    if isinstance(value, Mapping) and SOURCES & set(value):
        yield from _from_files(place, value, document, folder, key)
        return
    named = isinstance(value, Mapping)
    items = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value)) if _is_list(value) else None
    if not items:
        single = "nothing (null)" if value is None else f"the single value {shortened(str(value))!r}"
        came = "an empty list" if items is not None else single
        raise JobError(f"{where}: expected a list of values, came {came}", hint="write the values as [a, b]")
    for index, item in items:
        spot = document.position(("matrix", key, index))
        name = str(index) if named else None
        if place is not None:
            label = label_of(item) if name is None else slug(name)
            yield _point(label, (Change(place, item, spot),), name=name or "")
        else:
            at = _where(document, key, index)
            yield mapping_point(item, document, ("matrix", key, index), at, name=name, axis=key)


_JOB_KEYS = frozenset({"name", "description", "graph", "cluster", "knowledge", "on_version_change", "seed", "table"})


def _is_list(value: Json) -> bool:
    return isinstance(value, (list, tuple))


def mapping_point(
    item: Json, document: Document, base: Place, where: str, *, name: str | None = None, axis: str = ""
) -> Point:
    """Return the point of a mapping from places of the input to values.

    Parameters
    ----------
    base
        Where it stands in the document.
    where
        The same, for messages.
    name
        Its name, where it has one.
    axis
        Column for that name.

    Raises
    ------
    JobError
        It is no mapping, or a key is no place of the input.
    """
    if not isinstance(item, Mapping) or not item:
        raise JobError(
            f"{where}: expected a mapping of places of the input to values, came {shortened(str(item))!r}",
            hint="for example {input.level.method: hf, input.level.basis: sto-3g}",
        )
    changes = []
    for key, value in item.items():
        place = input_place(str(key))
        if place is None:
            raise JobError(f"{where}: {key!r} is no place of the input{did_you_mean(f'input.{key}', [f'input.{key}'])}")
        changes.append(Change(place, value, document.position((*base, str(key)))))
    label = slug("-".join(label_of(value) for value in item.values()) if name is None else name)
    return _point(label, tuple(changes), (axis_column(axis),) if axis else (), name=name or "")


def _point(label: str, changes: tuple[Change, ...], labelled: tuple[str, ...] = (), *, name: str = "") -> Point:
    """Return a point whose row shows each scalar that it changes, and its name or label for anything larger."""
    values = {column_of(change.place): change.value for change in changes if is_scalar(change.value)}
    larger = (column_of(change.place) for change in changes if not is_scalar(change.value))
    return Point(label, changes, values, (*labelled, *larger), name)


def _from_files(
    place: Place | None, source: Mapping[str, Json], document: Document, folder: Path, key: str
) -> Iterator[Point]:
    where = _where(document, key)
    known = {"files"} if "files" in source else {"csv", "column", "columns", "name"}
    if extra := sorted(set(source) - known):
        raise JobError(f"{where}: unknown key {extra[0]!r}{did_you_mean(extra[0], known)} beside {min(known)}")
    spot = document.position(("matrix", key))
    if "files" in source:
        if place is None:
            raise JobError(
                f"{where}: files are the values of a place", hint="for example input.molecule.file: {files: …}"
            )
        for name in matching_files(source["files"], folder, where):
            label = slug(Path(name).stem)
            yield _point(label, (Change(place, name, spot),))
        return
    columns = _columns(place, source, where)
    naming = source.get("name")
    if naming is not None and not isinstance(naming, str):
        raise JobError(f"{where}: name must be a column of the table, came {shortened(str(naming))!r}")
    wanted = [*columns.values(), *([naming] if naming is not None and naming not in columns.values() else [])]
    for row in csv_rows(source["csv"], wanted, folder, where):
        changes = tuple(
            Change(target, row.values[column], spot) for target, column in columns.items() if column in row.values
        )
        given = row.values.get(naming) if naming is not None else next(iter(row.values.values()), None)
        name = "" if naming is None or given is None else given if isinstance(given, str) else json.dumps(given)
        point = _point(label_of(given), changes, () if place is not None else (axis_column(key),), name=name)
        yield replace(point, origin=f"{source['csv']}, line {row.line}")


def _columns(place: Place | None, source: Mapping[str, Json], where: str) -> dict[Place, str]:
    """Return which column goes to which place."""
    if place is not None:
        column = source.get("column")
        if not isinstance(column, str) or "columns" in source:
            raise JobError(f"{where}: which column?", hint="for example {csv: table.csv, column: smiles}")
        return {place: column}
    given = source.get("columns")
    if not isinstance(given, Mapping) or not given or not all(isinstance(c, str) for c in given.values()):
        raise JobError(
            f"{where}: columns must map places of the input to columns of the table",
            hint="for example {csv: table.csv, columns: {input.molecule.smiles: smiles}}",
        )
    found = {}
    for name, column in given.items():
        target = input_place(name)
        if target is None:
            raise JobError(f"{where}: columns: {name!r} is no place of the input", hint=f"write input.{name}")
        found[target] = column
    return found


def input_place(key: str) -> Place | None:
    """Return the place that a key means, ``None`` if it is none of the input."""
    place = parse_place(key)
    return place if place is not None and place[0] == "input" else None


def column_of(place: Place) -> str:
    """Return the column of a place: its dotted path below ``input``; with that where a table has such a column itself."""
    name = dotted(place[1:]) or "input"
    return f"input.{name}" if name in OWN else name


def axis_column(name: str) -> str:
    """Return the column in which the names of an axis stand."""
    return f"matrix.{name}" if name in OWN else name


def is_scalar(value: Json) -> bool:
    """Whether a value can stand in a table as it is."""
    return value is None or isinstance(value, (bool, int, float, str))


def label_of(value: Json) -> str:
    """Return the part of a member's key that a value makes."""
    if isinstance(value, Mapping):
        return slug("-".join(label_of(item) for item in value.values()))
    if isinstance(value, (list, tuple)):
        return slug("-".join(label_of(item) for item in value))
    if isinstance(value, (int, float)) and value < 0:
        return slug(f"minus{json.dumps(-value)}")  # a key that began with a hyphen would be an option to a shell
    return slug(value if isinstance(value, str) else json.dumps(value))


def slug(text: str) -> str:
    """Return a text as a part of a key; letters with marks lose them."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", letters)
    return re.sub(r"-{2,}", "-", plain).strip("-.")[:LONGEST_LABEL].strip("-.") or "x"


def _unique(points: Iterable[Point]) -> Iterator[Point]:
    """Yield the points of an axis with a number where a label was there before."""
    seen: dict[str, int] = {}
    for point in points:
        label = point.label
        while label in seen:
            seen[point.label] += 1
            label = f"{point.label}-{seen[point.label]}"
        seen[label] = 1
        yield point if label == point.label else replace(point, label=label)
