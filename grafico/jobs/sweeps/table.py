"""The table of a sweep: one row for each member, failures included; as CSV, Parquet, and for people."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

from grafico.calculations import Failure, Json
from grafico.errors import BadInput, MissingExtra
from grafico.jobs.sweeps.rows import Row
from grafico.jobs.tables import Table, plain_text

__all__ = ["OWN", "LaneEnd", "SweepTable", "installed", "merged", "odd_shards", "write_csv", "write_parquet"]

OWN = frozenset({"member", "status", "failure", "message", "same as", "run"})
"""Columns that every table has, or may have."""

LARGEST = 2**63 - 1
"""Parquet has no larger integers; a column that has is text."""

SHOWN = 100
"""Rows that people are shown; the rest is in the file."""
SHOWN_SHARDS = 12


@dataclass(frozen=True)
class LaneEnd:
    """How a lane ended, as far as the table goes."""

    status: str
    """``success``, ``failure``, or how it stands."""
    row: Row = field(default_factory=dict)
    kind: str = ""
    message: str = ""

    @classmethod
    def failed(cls, failure: Failure | Mapping[str, Json]) -> "LaneEnd":
        """Return the end of a failed lane."""
        if isinstance(failure, Failure):
            return cls("failure", kind=str(failure.kind), message=failure.message)
        return cls("failure", kind=str(failure.get("kind", "")), message=str(failure.get("message", "")))


@dataclass
class SweepTable:
    """Rows by column; columns in their order."""

    matrix: tuple[str, ...]
    """Columns of the matrix."""
    rows: list[Row] = field(default_factory=list)
    results: dict[str, None] = field(default_factory=dict)
    """Columns of the results, in the order in which they came."""
    shard: str | None = None
    """The part of the sweep that it is: I/N."""

    def add(self, member: str, cells: Mapping[str, Json], end: LaneEnd, *, lane: str = "") -> None:
        """Add a member.

        Parameters
        ----------
        member, cells
            Its key, and its part of the matrix.
        end
            How its lane ended.
        lane
            The member whose lane it shares.
        """
        names = {name: self._own(name) for name in end.row}
        self.results.update(dict.fromkeys(names.values()))
        about = {"failure": end.kind or None, "message": plain_text(end.message) or None, "same as": lane or None}
        results = {names[name]: value for name, value in end.row.items()}
        self.rows.append({"member": member, **cells, "status": end.status, **results, **about})

    def _own(self, name: str) -> str:
        """Return the column of a result, where the matrix or the table itself has one of that name."""
        return f"result {name}" if name in self.matrix or name in OWN else name

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that have something in them, the matrix first."""
        last = [name for name in ("failure", "message", "same as", "run") if any(row.get(name) for row in self.rows)]
        return ("member", *self.matrix, "status", *self.results, *last)

    def cells(self) -> Iterable[tuple[Json, ...]]:
        """Yield the cells of each row."""
        columns = self.columns
        for row in self.rows:
            yield tuple(row.get(name) for name in columns)

    def shown(self, title: str) -> Table:
        """Return the table for people, without columns that say nothing new."""
        names = [name for index, name in enumerate(self.columns) if not index or self._tells(name)]
        if len(self.rows) > SHOWN:
            title = f"{title}: the first {SHOWN} of {len(self.rows)} members"
        rows = tuple(tuple(row.get(name) for name in names) for row in self.rows[:SHOWN])
        return Table(title=title, columns=tuple(names), rows=rows)

    def _tells(self, name: str) -> bool:
        """Whether a column says what no column before it says: it differs from row to row, and from each of those."""
        if name in self.results:
            return True
        if name == "status":
            return any(row["status"] != "success" for row in self.rows)
        if name in self.matrix:
            # The name of an axis is part of the member's.
            return any(str(row.get(name)) not in str(row["member"]).split("+") for row in self.rows)
        return True

    def as_csv(self) -> bytes:
        """Return the table as CSV: UTF-8, numbers in full."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(_texts(cells) for cells in self.cells())
        return text.getvalue().encode("utf-8", errors="replace")

    def as_parquet(self) -> bytes:
        """Return the table as Parquet.

        Raises
        ------
        MissingExtra
            pyarrow is not installed.
        """
        try:
            import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
            from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra("pyarrow is not installed", hint='pip install "grafico[parquet]"') from None
        columns = {name: _column([row.get(name) for row in self.rows]) for name in self.columns}
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(columns), sink)
        return bytes(sink.getvalue())


def _texts(cells: Sequence[Json]) -> list[str]:
    return ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell) for cell in cells]


def _column(values: list[Json]) -> list[Any]:
    """Return the values of one column in one type: text where they are of several."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return values
    if kinds <= {int, float} and all(not isinstance(v, int) or abs(v) <= LARGEST for v in values):
        return [float(v) if float in kinds and v is not None else v for v in values]
    return [None if value is None else plain_text(str(value)) for value in values]


def merged(tables: Mapping[str, SweepTable]) -> SweepTable:
    """Put the tables of several runs together, such as the shards of a sweep; a column says which run.

    Raises
    ------
    BadInput
        Two of them vary different things.
    """
    (first, whole), *others = tables.items()
    for name, other in others:
        if other.matrix != whole.matrix:
            raise BadInput(
                f"{first} and {name} are of different sweeps: one varies {', '.join(whole.matrix)}, "
                f"the other {', '.join(other.matrix)}",
                hint="merge the shards of one sweep",
            )
    result = SweepTable(whole.matrix)
    for name, table in tables.items():
        result.results.update(table.results)
        result.rows += [{**row, "run": name} for row in table.rows] if others else table.rows
    return result


def odd_shards(tables: Iterable[SweepTable]) -> Iterator[str]:
    """Yield what keeps the tables of shards from being together the whole sweep: shards that are not there, or twice."""
    found: dict[int, list[int]] = {}
    for table in tables:
        if table.shard is not None:
            number, _, shards = table.shard.partition("/")
            found.setdefault(int(shards), []).append(int(number))
    for count, given in found.items():
        missing = [str(index) for index in range(1, count + 1) if index not in given]
        twice = [str(index) for index in sorted(set(given)) if given.count(index) > 1]
        for odd, what in ((missing, "not among them"), (twice, "there more than once")):
            if odd:
                which, verb = ("shard", "is") if len(odd) == 1 else ("shards", "are")
                more = f" and {len(odd) - SHOWN_SHARDS} more" if len(odd) > SHOWN_SHARDS else ""
                listed = f"{', '.join(odd[:SHOWN_SHARDS])}{more}"
                yield f"of {count} shards of a sweep, {which} {listed} {verb} {what}"


def installed(name: str) -> bool:
    """Whether a package can be imported, as far as can be told without doing so."""
    try:
        return util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def write_csv(table: SweepTable, path: Path) -> None:
    """Write a table where a user says."""
    _write(path, table.as_csv())


def write_parquet(table: SweepTable, path: Path) -> None:
    """Write a table where a user says."""
    _write(path, table.as_parquet())


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from None
