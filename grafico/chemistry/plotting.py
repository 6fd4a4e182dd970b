"""The figure of an ensemble spectrum job."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from grafico.atoms.optional import require
from grafico.units import EV_NANOMETRE

__all__ = ["Array", "Curve", "Panel", "draw_spectra"]

Array = NDArray[numpy.float64]

_COLORS = ("#1f5a96", "#c1440e", "#2f7d4f", "#7a4ea3", "#8a6d1d", "#3b7d8c", "#a3365f", "#4d4d4d")
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.8,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "grafico",
    "savefig.facecolor": "white",
}


class Curve(NamedTuple):
    """One line of a panel."""

    energies: Array
    """eV"""
    absorptivity: Array
    """L mol⁻¹ cm⁻¹"""


class Panel(NamedTuple):
    """The spectra of one environment."""

    name: str
    detail: str
    ensemble: Curve
    main: Curve
    main_label: str
    sticks: Sequence[tuple[float, float]]
    """Energy in eV and weighted oscillator strength."""


def draw_spectra(panels: Sequence[Panel], *, title: str, note: str, jacobian: bool) -> tuple[bytes, bytes]:
    """Return the figure as PNG and SVG: all environments over energy on the left and over wavelength on the right.

    Parameters
    ----------
    note
        Stands below: broadening, weights, temperature.
    jacobian
        Whether the wavelength axis shows ε multiplied by dE/dλ, scaled to 1, instead of ε.
    """
    matplotlib = require("matplotlib", purpose="to draw spectra")
    figures = require("matplotlib.figure")
    # No pyplot: it keeps global state, and this may run in a thread.
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(9.2, 3.9), layout="constrained", dpi=200)
        left, right = figure.subplots(1, 2)
        stick_axis = left.twinx()
        for number, panel in enumerate(panels):
            color = _COLORS[number % len(_COLORS)]
            _draw(left, right, stick_axis, panel, color, jacobian=jacobian)
        _finish(left, right, stick_axis, panels, jacobian=jacobian)
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        figure.supxlabel(note, fontsize=7.5, color="0.35", x=0.01, ha="left")
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=200, metadata={"Software": "grafico"})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "grafico"})
    return png.getvalue(), svg.getvalue()


def _draw(left: Any, right: Any, sticks: Any, panel: Panel, color: str, *, jacobian: bool) -> None:
    for curve, style, width, label in (
        (panel.ensemble, "-", 1.8, f"{panel.name}, ensemble"),
        (panel.main, "--", 1.1, f"{panel.name}, {panel.main_label}"),
    ):
        left.plot(curve.energies, curve.absorptivity / 1000.0, style, color=color, lw=width, label=label)
        shown = curve.absorptivity * curve.energies**2 / EV_NANOMETRE if jacobian else curve.absorptivity / 1000.0
        if jacobian and shown.max() > 0:
            shown = shown / shown.max()
        right.plot(EV_NANOMETRE / curve.energies, shown, style, color=color, lw=width)
    if panel.sticks:
        energies, strengths = zip(*panel.sticks, strict=True)
        sticks.vlines(energies, 0.0, strengths, color=color, lw=0.9, alpha=0.55)


def _finish(left: Any, right: Any, sticks: Any, panels: Sequence[Panel], *, jacobian: bool) -> None:
    left.set_xlabel("energy / eV")
    left.set_ylabel("ε / 10³ L mol⁻¹ cm⁻¹")
    right.set_xlabel("wavelength / nm")
    right.set_ylabel("intensity with dE/dλ (scaled to 1)" if jacobian else "ε / 10³ L mol⁻¹ cm⁻¹")
    sticks.set_ylabel("weight × oscillator strength", color="0.35")
    sticks.spines["right"].set_visible(True)
    sticks.tick_params(colors="0.35")
    highest = max((strength for panel in panels for _, strength in panel.sticks), default=0.0)
    # Sticks stay below the bands: twice the room above them.
    sticks.set_ylim(0.0, 2.2 * highest if highest > 0 else 1.0)
    low = min(float(panel.ensemble.energies.min()) for panel in panels)
    high = max(float(panel.ensemble.energies.max()) for panel in panels)
    left.set_xlim(low, high)
    right.set_xlim(EV_NANOMETRE / high, EV_NANOMETRE / low)
    for axis in (left, right):
        axis.set_ylim(bottom=0.0)
    left.legend(loc="upper left", fontsize=8)
