"""Values of a matrix that stand in other files: the names of files, and the columns of a table."""

import csv
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from grafico.calculations import Json
from grafico.errors import JobError
from grafico.jobs.files import expanded
from grafico.jobs.problems import did_you_mean, shortened

__all__ = ["SOURCES", "Row", "csv_rows", "matching_files"]

SOURCES = frozenset({"files", "csv"})
"""Keys that make a mapping a source of values, and not names for values."""

MAX_FILES = 1_000_000
MAX_BYTES = 256 * 1024 * 1024

# Only what is written as numbers usually are becomes one: 007 and 1_000 stay text, as does every name of a molecule.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    line: int
    """Line of the file, from 1."""
    values: Mapping[str, Json]
    """By column; a cell that is empty is not there."""


def matching_files(patterns: Json, folder: Path, where: str) -> list[str]:
    """Return the files that patterns match, sorted, as they are written: relative to the job file, or absolute.

    Raises
    ------
    JobError
        A pattern is no text, nothing matches it, or a name that does is no UTF-8 text.
    """
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(listed, Sequence) or not listed or not all(isinstance(item, str) and item for item in listed):
        raise JobError(f"{where}: files must be a pattern or a list of them, came {shortened(str(patterns))!r}",
                       hint='for example {files: "molecules/*.xyz"}')  # fmt: skip
    found: dict[str, None] = {}
    for pattern in listed:
        names = sorted({name for name in _matches(str(expanded(Path(pattern))), folder) if _is_file(folder / name)})
        if odd := next((name for name in names if not _is_text(name)), None):
            raise JobError(
                f"{where}: the name of {os.fsencode(odd)!r} is not UTF-8 text", hint="give the file another name"
            )
        if not names:
            raise JobError(
                f"{where}: no file matches {shortened(pattern)!r} in {folder}",
                hint="patterns are relative to the job file",
            )
        found.update(dict.fromkeys(names))
        if len(found) > MAX_FILES:
            raise JobError(f"{where}: more than {MAX_FILES:,} files match", hint="split the sweep")
    return list(found)


def _matches(pattern: str, folder: Path) -> Iterator[str]:
    """Yield what a pattern matches; ``**`` are all folders below, each once however many links lead to it."""
    parts = pattern.split("/")
    if "**" not in parts:
        yield from glob(pattern, root_dir=folder)  # noqa: PTH207 - pathlib refuses absolute patterns
        return
    at = parts.index("**")
    head, tail = "/".join(parts[:at]) or ("/" if at else ""), "/".join(parts[at + 1 :]) or "*"
    for base in glob(head, root_dir=folder) if head else [""]:  # noqa: PTH207
        for inner in _folders(folder / base):
            for name in _matches(tail, inner):
                yield str(Path(base, inner.relative_to(folder / base), name))


def _folders(top: Path) -> Iterator[Path]:
    """Yield a folder and those below it, hidden ones left out; links come last, and may lead in circles."""
    seen: set[tuple[int, int]] = set()
    waiting, links = [top], list[Path]()
    while waiting or links:
        current = waiting.pop() if waiting else links.pop(0)
        try:
            about = current.stat()
            if (about.st_dev, about.st_ino) in seen:
                continue
            seen.add((about.st_dev, about.st_ino))
            with os.scandir(current) as entries:
                inside = [entry for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
        except OSError:
            continue  # it is no folder, is gone, or may not be read
        yield current
        for entry in sorted(inside, key=lambda item: item.name, reverse=True):
            (links if entry.is_symlink() else waiting).append(current / entry.name)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_rows(name: Json, wanted: Sequence[str], folder: Path, where: str) -> Iterator[Row]:
    """Yield the rows of a CSV file (tab-separated where it is called .tsv) with the columns that are wanted.

    Raises
    ------
    JobError
        It cannot be read, lacks a column, has no rows, or a row of another length.
    """
    if not isinstance(name, str) or not name:
        raise JobError(f"{where}: csv must name a file, came {shortened(str(name))!r}")
    path = folder / expanded(Path(name))
    try:
        about = path.stat() if "\0" not in name else None
        if about is None or not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise JobError(f"{where}: {shortened(name)} is no regular file", hint="name a file with a table")
        if about.st_size > MAX_BYTES:
            raise JobError(f"{where}: {name} is larger than {MAX_BYTES // 2**20} MiB", hint="split the table")
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","), wanted, name, where)
    except UnicodeDecodeError:
        raise JobError(f"{where}: {name} is not UTF-8 text", hint="save the file as UTF-8") from None
    except OSError as error:
        raise JobError(
            f"{where}: {shortened(name)} cannot be read: {error.strerror or error}",
            hint="paths are relative to the job file",
        ) from None
    except csv.Error as error:
        raise JobError(f"{where}: {name} is no CSV file: {error}") from None


def _rows(reader: Iterator[list[str]], wanted: Sequence[str], name: str, where: str) -> Iterator[Row]:
    header = [cell.strip() for cell in next(reader, [])]
    for column in wanted:
        if column not in header:
            raise JobError(
                f"{where}: {name} has no column {column!r}{did_you_mean(column, header)}",
                hint=f"it has {', '.join(header) or 'no columns'}{_other_separator(header)}",
            )
        if header.count(column) > 1:
            raise JobError(f"{where}: {name} has {header.count(column)} columns {column!r}", hint="rename one of them")
    places = {column: header.index(column) for column in wanted}
    any_row = False
    last = getattr(reader, "line_num", 0)
    for row in reader:
        line, last = last + 1, getattr(reader, "line_num", 0)
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            spot = f"line {line}" if line == last else f"lines {line} to {last}"
            came = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            open_quote = "is a double quote in the first of these lines never closed?"
            raise JobError(
                f"{where}: {name}, {spot}: {came}, and the header has {len(header)}",
                hint="put a cell that holds a comma in double quotes" if line == last else open_quote,
            )
        any_row = True
        cells = {column: row[place].strip() for column, place in places.items()}
        yield Row(line, {column: _value(text) for column, text in cells.items() if text})
    if not any_row:
        raise JobError(f"{where}: {name} has no rows")


def _other_separator(header: Sequence[str]) -> str:
    """Return what to do where a table has other separators than commas, as spreadsheets write them in some countries."""
    if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
        return "; separate the columns with commas (in a file called .tsv, with tabs)"
    return ""


def _value(text: str) -> Json:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text
