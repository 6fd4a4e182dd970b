"""The pictures of a frameworks job: pore size against area, and what was computed against what was published."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from grafico.atoms.optional import require

__all__ = ["Compared", "Pores", "draw_compared", "draw_pores"]

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "grafico",
    "savefig.facecolor": "white",
}
_MARKERS = "osD^vPX*<>ph8H"
_LEGEND = 24
"""Entries of one legend; the rest is counted."""
_NAMED = 12
"""Points that are few enough for their names to stand beside them."""


class Pores(NamedTuple):
    """One framework in the picture."""

    name: str
    pld: float
    """Pore-limiting diameter, Å."""
    lcd: float
    """Largest cavity diameter, Å."""
    area: float
    """Accessible area, m²/g."""
    topology: str
    linker: str
    relaxed: bool = False


class Compared(NamedTuple):
    """One quantity of one framework, computed and published."""

    name: str
    quantity: str
    """With its unit."""
    computed: float
    published: float


def draw_pores(frameworks: Sequence[Pores], *, title: str, note: str = "") -> tuple[bytes, bytes]:
    """Return pore-limiting and largest cavity diameter against accessible area, as PNG and SVG.

    A color means a linker, a marker a topology; relaxed frameworks are filled.

    Parameters
    ----------
    note
        Stands below: probe, samples.
    """
    matplotlib = require("matplotlib", purpose="to draw pores")
    figures = require("matplotlib.figure")
    ticker = require("matplotlib.ticker")
    linkers = _in_order(found.linker for found in frameworks)
    topologies = _in_order(found.topology for found in frameworks)
    colors = dict(zip(linkers, _colors(len(linkers)), strict=True))
    markers = {name: _MARKERS[index % len(_MARKERS)] for index, name in enumerate(topologies)}
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(10.2, 4.4), layout="constrained", dpi=160)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, size, name in zip(
            panels, ("pld", "lcd"), ("pore-limiting diameter / Å", "largest cavity diameter / Å"), strict=True
        ):
            for found in frameworks:
                axes.plot(
                    getattr(found, size),
                    found.area,
                    marker=markers[found.topology],
                    color=colors[found.linker],
                    markerfacecolor=colors[found.linker] if found.relaxed else "none",
                    markersize=6.5,
                    markeredgewidth=1.3,
                    linestyle="",
                )
            axes.set_xlabel(name)
            axes.xaxis.set_major_locator(ticker.MaxNLocator(7))
            axes.margins(0.09)
        panels[0].set_ylabel("accessible area / m² g⁻¹")
        if len(frameworks) <= _NAMED:
            _name(panels[0], [(found.name, found.pld, found.area) for found in frameworks])
        _legends(figure, colors, markers, frameworks)
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        if note:
            figure.supxlabel(note, fontsize=7.5, color="0.35", x=0.01, ha="left")
        return _pictures(figure)


def draw_compared(found: Sequence[Compared], *, title: str, note: str = "") -> tuple[bytes, bytes]:
    """Return computed against published values, a panel for each quantity, as PNG and SVG."""
    matplotlib = require("matplotlib", purpose="to draw a comparison")
    figures = require("matplotlib.figure")
    quantities = _in_order(item.quantity for item in found)
    names = _in_order(item.name for item in found)
    colors = dict(zip(names, _colors(len(names)), strict=True))
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(3.5 * len(quantities) + 0.4, 3.9), layout="constrained", dpi=160)
        panels = figure.subplots(1, len(quantities), squeeze=False)[0]
        for axes, quantity in zip(panels, quantities, strict=True):
            points = [item for item in found if item.quantity == quantity]
            top = 1.12 * max(max(item.computed, item.published) for item in points) or 1.0
            axes.plot([0, top], [0, top], color="0.6", linewidth=1.0, zorder=1)
            for item in points:
                axes.plot(item.published, item.computed, "o", color=colors[item.name], markersize=6.5)
            if len(points) <= _NAMED:
                _name(axes, [(item.name, item.published, item.computed) for item in points])
            axes.set_xlim(0, top)
            axes.set_ylim(0, top)
            axes.set_aspect("equal")
            axes.set_title(quantity, fontsize=9)
            axes.set_xlabel("published")
        panels[0].set_ylabel("computed here")
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        if note:
            figure.supxlabel(note, fontsize=7.5, color="0.35", x=0.01, ha="left")
        return _pictures(figure)


def _name(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """Write names beside points, to the side that has room, and away from a point that is near."""
    middle = (min(x for _, x, _ in points) + max(x for _, x, _ in points)) / 2
    height = max(y for _, _, y in points) - min(y for _, _, y in points) or 1.0
    width = max(x for _, x, _ in points) - min(x for _, x, _ in points) or 1.0
    placed: list[tuple[float, float]] = []
    for name, x, y in sorted(points, key=lambda point: point[2]):
        crowded = sum(abs(y - above) < 0.05 * height and abs(x - beside) < 0.3 * width for beside, above in placed)
        placed.append((x, y))
        left = x > middle
        axes.annotate(
            _plain(name),
            (x, y),
            xytext=(-7 if left else 7, 3 + 8 * crowded),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=6.5,
            color="0.25",
        )


def _legends(figure: Any, colors: Mapping[str, Any], markers: Mapping[str, str], frameworks: Sequence[Pores]) -> None:
    lines = require("matplotlib.lines")

    def handles(names: Iterable[str], style: Any) -> list[Any]:
        return [lines.Line2D([], [], linestyle="", markersize=6, label=_plain(name), **style(name)) for name in names]

    def shown(names: Sequence[str]) -> tuple[list[str], str]:
        return list(names[:_LEGEND]), f" ({_LEGEND} of {len(names)})" if len(names) > _LEGEND else ""

    topologies, more = shown(list(markers))
    first = handles(topologies, lambda name: {"marker": markers[name], "color": "0.25", "markerfacecolor": "none"})
    if any(found.relaxed for found in frameworks) and not all(found.relaxed for found in frameworks):
        first += [
            lines.Line2D([], [], linestyle="", marker="o", color="0.25", label="relaxed"),
            lines.Line2D([], [], linestyle="", marker="o", color="0.25", markerfacecolor="none", label="not relaxed"),
        ]
    linkers, others = shown(list(colors))
    second = handles(linkers, lambda name: {"marker": "s", "color": colors[name]})
    columns = 2 if len(first) + len(second) > 20 else 1
    figure.legend(
        handles=[
            lines.Line2D([], [], linestyle="", label=f"topology{more}"),
            *first,
            lines.Line2D([], [], linestyle="", label=f"linker{others}"),
            *second,
        ],
        loc="outside right upper",
        fontsize=7.5,
        ncols=columns,
        handletextpad=0.3,
    )


def _colors(count: int) -> list[Any]:
    """Return colors that can be told from each other: ten that were chosen for that, else as far apart as they go."""
    colormaps = require("matplotlib").colormaps
    if count <= 10:
        return [colormaps["tab10"](index) for index in range(count)]
    if count <= 20:
        return [colormaps["tab20"](index) for index in range(count)]
    return [colormaps["turbo"](index / (count - 1)) for index in range(count)]


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _plain(text: str) -> str:
    """Return a text that is no formula to matplotlib, and that a legend does not leave out."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _pictures(figure: Any) -> tuple[bytes, bytes]:
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": "grafico"})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "grafico"})
    return png.getvalue(), svg.getvalue()
