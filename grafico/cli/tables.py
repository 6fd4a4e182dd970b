"""Tables and lines that fit the terminal; where none is there, whole lines for grep and awk."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from grafico.cli.output import out

if TYPE_CHECKING:
    from rich.console import Console

    from grafico.jobs.tables import Table

__all__ = ["print_lines", "print_tables", "show_table"]

GAP, TIGHT = "   ", "  "
TALL = 2.5
"""Lines a row beyond which a table is told row by row instead."""

_NUMBER = re.compile(r"[-+−]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CONTROL = {code: " " for code in (*range(32), *range(127, 160)) if code != 10}


def print_tables(tables: Iterable["Table"], console: "Console | None" = None) -> None:
    """Print tables for people; numbers are aligned to the right."""
    console = console or out()
    for table in tables:
        show_table(console, table.title, table.columns, table.rows)


def print_lines(console: "Console", lines: Iterable[str]) -> None:
    """Print lines; on a terminal, long ones go on under their own indentation."""
    for line in lines:
        text = line.translate(_CONTROL)
        if console.is_terminal:
            indent = text[: len(text) - len(text.lstrip())]
            for index, part in enumerate(_wrap(text.lstrip(), max(20, console.width - len(indent) - 4))):
                _put(console, f"{indent}{'    ' if index else ''}{part}")
        else:
            _put(console, text)


def show_table(
    console: "Console",
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[Any]],
    *,
    expendable: Sequence[str] = (),
) -> None:
    """Print one table.

    Words are never broken: a table whose words do not fit into the terminal is told row by row.

    Parameters
    ----------
    expendable
        Columns to leave out, in this order, on a terminal that has no room for them.
    """
    names = list(columns)
    values = [[*row, *([None] * len(names))][: len(names)] for row in map(list, rows)]
    if console.is_terminal:
        for name in expendable:
            if sum(_least(names, values)) + len(TIGHT) * (len(names) - 1) <= console.width:
                break
            index = names.index(name)
            names, values = _without(names, index), [_without(row, index) for row in values]
    if title:
        whole = title.translate(_CONTROL)
        for line in _wrap(whole, console.width) if console.is_terminal else [whole]:
            _put(console, line, "bold")
    if not names:
        return
    fitting = _fit(names, values, console.width if console.is_terminal else None)
    if fitting is None:
        _tell(console, names, [[cell_text(value) for value in row] for row in values])
    else:
        widths, gap = fitting
        _draw(console, names, values, widths, gap)
    _put(console, "")


def cell_text(value: Any) -> str:
    """Return what stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e4 else f"{value:.4f}"
    return str(value).translate(_CONTROL)


def _put(console: "Console", text: str, style: str = "") -> None:
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def _without(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _columns(names: Sequence[str], values: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the texts of each column, its heading first."""
    return [[name, *(cell_text(row[index]) for row in values)] for index, name in enumerate(names)]


def _least(names: Sequence[str], values: Sequence[Sequence[Any]]) -> list[int]:
    """Return the width of the longest word of each column; the first column, which names the row, stays whole."""
    return [
        max(_length(part) for text in texts for part in (text.split() if index else text.split("\n")) or [""])
        for index, texts in enumerate(_columns(names, values))
    ]


def _fit(names: Sequence[str], values: Sequence[Sequence[Any]], room: int | None) -> tuple[list[int], str] | None:
    """Return the width of each column and what goes between them, or ``None`` when the table does not fit."""
    columns = _columns(names, values)
    widths = [max(_length(line) for text in texts for line in text.split("\n")) for texts in columns]
    if room is None or sum(widths) + len(GAP) * (len(names) - 1) <= room:
        return widths, GAP
    room -= len(TIGHT) * (len(names) - 1)
    least = _least(names, values)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # The widest column that can still give gives.
        index = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[index] -= 1
    height = sum(
        max(len(_wrap(cell_text(value), width)) for value, width in zip(row, widths, strict=True)) for row in values
    )
    return (widths, TIGHT) if height <= TALL * len(values) else None


def _draw(
    console: "Console",
    names: Sequence[str],
    values: Sequence[Sequence[Any]],
    widths: Sequence[int],
    gap: str,
) -> None:
    right = [
        any(row[i] is not None for row in values) and all(_is_number(row[i]) for row in values if row[i] is not None)
        for i in range(len(names))
    ]
    for line in _lines(names, widths, right, gap):
        _put(console, line, "bold")
    _put(console, "─" * (sum(widths) + len(gap) * (len(widths) - 1)))
    for row in values:
        for line in _lines([cell_text(value) for value in row], widths, right, gap):
            _put(console, line)


def _lines(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], gap: str) -> list[str]:
    """Return the lines of one row."""
    parts = [_wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for index in range(max(map(len, parts), default=0)):
        line = []
        for part, width, to_right in zip(parts, widths, right, strict=True):
            text = part[index] if index < len(part) else ""
            space = " " * max(0, width - _length(text))
            line.append(f"{space}{text}" if to_right else f"{text}{space}")
        lines.append(gap.join(line).rstrip())
    return lines


def _tell(console: "Console", names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as a paragraph: what it is called, and under it what else is known."""
    for row in cells:
        print_lines(console, row[0].split("\n"))
        short = ""
        for name, text in zip(names[1:], row[1:], strict=True):
            if text in {"", "–"}:
                continue
            part = f"{name}: {text}" if name else text
            joined = f"{short} · {part}" if short else part
            if "\n" not in joined and _length(joined) <= console.width - 4:
                short = joined
                continue
            print_lines(console, [f"    {short}"] if short else [])
            short = part
        print_lines(console, [f"    {line}" for line in short.split("\n")] if short else [])


def _wrap(text: str, width: int) -> list[str]:
    """Break a text between words; a word that is too long by itself stays whole."""
    lines = []
    for given in text.split("\n"):
        line = ""
        for word in given.split(" "):
            joined = f"{line} {word}" if line else word
            if line and _length(joined) > width:
                lines.append(line.rstrip())
                line = word
            else:
                line = joined
        lines.append(line)
    return lines


def _length(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
