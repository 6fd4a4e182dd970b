"""A picture of a sweep's table: one column over the matrix, where that has numbers to show."""

import io
import warnings
from typing import Any

from grafico.calculations import Json
from grafico.jobs.problems import did_you_mean
from grafico.jobs.sweeps.table import SweepTable, installed

__all__ = ["draw"]

MAX_POINTS = 2000
MAX_TICKS = 40
MAX_LINES = 12


def draw(table: SweepTable, wanted: str, title: str) -> bytes | str:
    """Draw a column of a table.

    Over an axis of numbers the members are joined by lines, one for each combination of the others; else each value of
    the first axis has a place, and each combination of the others a color.

    Parameters
    ----------
    wanted
        Name of the column, with or without its unit; ``auto`` for the first with numbers that differ; ``off`` for none.

    Returns
    -------
    A PNG picture; or why there is none, empty where none was to be expected.
    """
    if wanted == "off":
        return ""
    column = _column(table, wanted)
    if column is None:
        known = ", ".join(table.results) or "none"
        return "" if wanted == "auto" else (
            f"no picture: the table has no column {wanted!r} of numbers{did_you_mean(wanted, table.results)} "
            f"(columns of results: {known})"
        )  # fmt: skip
    if not installed("matplotlib"):
        return "" if wanted == "auto" else 'no picture: matplotlib is not installed; pip install "grafico[chem]"'
    rows = [row for row in table.rows if _is_number(row.get(column))]
    axes = [name for name in table.matrix if len({str(row.get(name)) for row in table.rows}) > 1]
    across = next((name for name in axes if all(_is_number(row.get(name)) for row in rows)), axes[0] if axes else "")
    if not across or not 2 <= len(rows) <= MAX_POINTS:
        return ""
    # An axis of names brings the places that it changes along: what follows from another one says nothing.
    others = [name for name in axes if name != across and not _follows(table, name, across)]
    return _picture(rows, column, across, others[:2], title)


def _column(table: SweepTable, wanted: str) -> str | None:
    def numbers(name: str) -> set[Any]:
        return {row[name] for row in table.rows if _is_number(row.get(name))}

    if wanted == "auto":
        return next((name for name in table.results if len(numbers(name)) > 1), None)
    named = next((name for name in table.results if wanted in {name, name.partition(" (")[0]}), None)
    return named if named is not None and numbers(named) else None


def _follows(table: SweepTable, name: str, other: str) -> bool:
    seen: dict[str, str] = {}
    return all(seen.setdefault(str(row.get(other)), str(row.get(name))) == str(row.get(name)) for row in table.rows)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(text: str) -> str:
    """Return a text that is no formula to matplotlib, and that a legend does not leave out."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _picture(rows: list[dict[str, Json]], column: str, across: str, others: list[str], title: str) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    numeric = all(_is_number(row.get(across)) for row in rows)
    names = list(dict.fromkeys(str(row.get(across)) for row in rows))
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        label = _plain(", ".join(str(row.get(name)) for name in others))
        x = float(row[across]) if numeric else float(names.index(str(row.get(across))))
        groups.setdefault(label, []).append((x, float(row[column])))
    for label, points in groups.items():
        xs, ys = zip(*sorted(points), strict=True)
        axes.plot(xs, ys, marker="o", linestyle="-" if numeric else "", label=label or None)
    if not numeric:
        shown = list(range(0, len(names), max(1, -(-len(names) // MAX_TICKS))))
        axes.set_xticks(
            shown, [_plain(names[index][:24]) for index in shown], rotation=45 if len(shown) > 6 else 0, ha="right"
        )
    axes.set_xlabel(_plain(across))
    axes.set_ylabel(_plain(column))
    axes.set_title(title)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(visible=True, alpha=0.3)
    if 1 < len(groups) <= MAX_LINES:
        axes.legend(title=_plain(", ".join(others)), fontsize="small")
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name that the font cannot write is no news: boxes stand for it, and the table has it.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
