"""Absorption spectra from excitations: broadening, axes, maxima and the lowest bright transition.

A band of oscillator strength f has the area of ``f * INTEGRATED_ABSORPTIVITY`` under ε over wavenumbers.

Source: R. C. Hilborn, Am. J. Phys. 1982, 50, 982 (oscillator strength and absorption cross section): the decadic
molar absorptivity integrates to N_A e² f / (4 ln(10) ε₀ mₑ c²) over wavenumbers; constants of CODATA 2018.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from grafico.calculations import Model
from grafico.units import EV_NANOMETRE, EV_PER_HARTREE, WAVENUMBER_PER_HARTREE, ev_to_nanometre

__all__ = [
    "INTEGRATED_ABSORPTIVITY",
    "WAVENUMBER_PER_EV",
    "BrightTransition",
    "Broadening",
    "Maximum",
    "absorptivity",
    "energy_axis",
    "lowest_bright",
    "maximum_on_energy_axis",
    "maximum_on_wavelength_axis",
    "on_wavelength_axis",
]

Array = NDArray[numpy.float64]

_AVOGADRO = 6.02214076e23
_CHARGE = 1.602176634e-19
_PERMITTIVITY = 8.8541878128e-12
_ELECTRON_MASS = 9.1093837015e-31
_LIGHT = 299792458.0

INTEGRATED_ABSORPTIVITY = (
    _AVOGADRO * _CHARGE**2 / (4.0 * math.log(10.0) * _PERMITTIVITY * _ELECTRON_MASS * _LIGHT**2) * 10.0 / 100.0
)
"""Area under ε of a transition with f = 1, L mol⁻¹ cm⁻²: 2.315e8 (1 m² mol⁻¹ is 10 L mol⁻¹ cm⁻¹; 1 m⁻¹ is 0.01 cm⁻¹)."""

WAVENUMBER_PER_EV = WAVENUMBER_PER_HARTREE / EV_PER_HARTREE


class Broadening(Model):
    """How sticks become bands."""

    shape: Literal["gaussian", "lorentzian"] = Field(default="gaussian", description="band shape on the energy axis")
    width_ev: float = Field(default=0.15, gt=0.001, le=2.0, description="width of a band, eV")
    width: Literal["sigma", "hwhm", "fwhm"] | None = Field(
        default=None,
        description="what width_ev is: standard deviation (Gaussian only), or half or full width at half maximum; "
        "default sigma for a Gaussian and hwhm for a Lorentzian",
    )
    jacobian: bool = Field(
        default=False,
        description="multiply by dE/dλ = E²/(hc) when going to the wavelength axis, so that areas are kept; "
        "off, each point keeps its ε, as a spectrometer shows it",
    )
    points: int = Field(default=1501, ge=101, le=20001, description="points of each axis")
    range_ev: tuple[float, float] | None = Field(
        default=None, description="energy range, eV; default six widths beyond the outermost excitations"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Broadening":
        if self.shape == "lorentzian" and self.width == "sigma":
            raise ValueError("a Lorentzian has no standard deviation; give its width as hwhm or fwhm")
        if self.range_ev is not None and not 0.0 < self.range_ev[0] < self.range_ev[1] <= 1000.0:
            raise ValueError("range_ev must rise from above 0 to at most 1000 eV")
        return self

    @property
    def parameter(self) -> float:
        """Standard deviation of the Gaussian, or half width at half maximum of the Lorentzian, eV."""
        if self.shape == "gaussian":
            half = math.sqrt(2.0 * math.log(2.0))
            factors = {None: 1.0, "sigma": 1.0, "hwhm": 1.0 / half, "fwhm": 0.5 / half}
        else:
            factors = {None: 1.0, "hwhm": 1.0, "fwhm": 0.5}
        return self.width_ev * factors[self.width]

    @property
    def label(self) -> str:
        """In words: ``Gaussian, σ = 0.15 eV``."""
        kind = self.width or ("sigma" if self.shape == "gaussian" else "hwhm")
        sign = {"sigma": "σ", "hwhm": "HWHM", "fwhm": "FWHM"}[kind]
        return f"{self.shape.capitalize()}, {sign} = {self.width_ev:g} eV"


class Maximum(Model):
    """The highest point of a spectrum on one axis."""

    axis: Literal["energy", "wavelength"]
    jacobian: bool = Field(default=False, description="whether dE/dλ was applied")
    energy_ev: float
    wavelength_nm: float
    absorptivity: float = Field(description="ε there, L mol⁻¹ cm⁻¹, without any Jacobian")


class BrightTransition(Model):
    """The lowest transition that is strong enough to be seen."""

    threshold: float = Field(description="smallest oscillator strength that counts as bright")
    energy_ev: float
    wavelength_nm: float
    oscillator_strength: float
    root: int = Field(ge=1, description="number of the excited state, from 1")
    conformer: str = Field(default="", description="whose transition it is")
    weight: float = Field(default=1.0, ge=0, le=1, description="of that conformer")


def absorptivity(energies_ev: Any, excitations_ev: Any, strengths: Any, broadening: Broadening) -> Array:
    """Return ε in L mol⁻¹ cm⁻¹ at ``energies_ev``; linear in ``strengths``.

    Parameters
    ----------
    energies_ev
        Shape (points,).
    excitations_ev, strengths
        Shape (transitions,): excitation energies, and oscillator strengths times the weights of their conformers.
    """
    axis = numpy.asarray(energies_ev, dtype=float)
    centers = numpy.asarray(excitations_ev, dtype=float)
    f = numpy.asarray(strengths, dtype=float)
    width = broadening.parameter
    total = numpy.zeros_like(axis)
    # Transition by transition: the memory stays that of the axis.
    for center, strength in zip(centers, f, strict=True):
        distance = axis - center
        if broadening.shape == "gaussian":
            band = numpy.exp(-0.5 * (distance / width) ** 2) / (math.sqrt(2.0 * math.pi) * width)
        else:
            band = width / math.pi / (distance**2 + width**2)
        total += strength * band
    return total * (INTEGRATED_ABSORPTIVITY / WAVENUMBER_PER_EV)


def energy_axis(excitations_ev: Any, broadening: Broadening) -> Array:
    """Return the energies in eV at which a spectrum is evaluated, shape (points,)."""
    if broadening.range_ev is not None:
        low, high = broadening.range_ev
    else:
        centers = numpy.asarray(excitations_ev, dtype=float)
        # Six half widths see a Gaussian to its end and a Lorentzian to 3 % of its height.
        margin = 6.0 * broadening.parameter
        low = max(float(centers.min()) - margin, 0.05)
        high = float(centers.max()) + margin
    return numpy.linspace(low, high, broadening.points)


def on_wavelength_axis(values: Any, energies_ev: Any, *, jacobian: bool) -> Array:
    """Return a spectrum that was evaluated at ``energies_ev`` as a function of wavelength.

    With the Jacobian the values are multiplied by dE/dλ = E²/(hc), in eV/nm, which keeps areas and moves maxima;
    without it each point keeps its value.
    """
    axis = numpy.asarray(energies_ev, dtype=float)
    result = numpy.asarray(values, dtype=float)
    return result * axis**2 / EV_NANOMETRE if jacobian else result


def _refined_maximum(excitations_ev: Any, strengths: Any, broadening: Broadening, *, jacobian: bool) -> float:
    def curve(energies: Any) -> Array:
        values = absorptivity(energies, excitations_ev, strengths, broadening)
        return on_wavelength_axis(values, energies, jacobian=jacobian)

    axis = energy_axis(excitations_ev, broadening.model_copy(update={"points": max(broadening.points, 4001)}))
    top = int(curve(axis).argmax())
    low, high = float(axis[max(top - 1, 0)]), float(axis[min(top + 1, len(axis) - 1)])
    # Between the neighbors of the highest point the curve has one top: a few ever finer grids find it.
    for _ in range(5):
        fine = numpy.linspace(low, high, 21)
        best = int(curve(fine).argmax())
        low, high = float(fine[max(best - 1, 0)]), float(fine[min(best + 1, 20)])
    return 0.5 * (low + high)


def maximum_on_energy_axis(excitations_ev: Any, strengths: Any, broadening: Broadening) -> Maximum:
    """Return the highest point of ε over the energy axis."""
    energy = _refined_maximum(excitations_ev, strengths, broadening, jacobian=False)
    return _maximum("energy", energy, excitations_ev, strengths, broadening, jacobian=False)


def maximum_on_wavelength_axis(excitations_ev: Any, strengths: Any, broadening: Broadening) -> Maximum:
    """Return the highest point over the wavelength axis, with the Jacobian if the broadening says so."""
    energy = _refined_maximum(excitations_ev, strengths, broadening, jacobian=broadening.jacobian)
    return _maximum("wavelength", energy, excitations_ev, strengths, broadening, jacobian=broadening.jacobian)


def _maximum(
    axis: Literal["energy", "wavelength"],
    energy: float,
    excitations_ev: Any,
    strengths: Any,
    broadening: Broadening,
    *,
    jacobian: bool,
) -> Maximum:
    value = absorptivity(numpy.array([energy]), excitations_ev, strengths, broadening)[0]
    return Maximum(
        axis=axis,
        jacobian=jacobian,
        energy_ev=energy,
        wavelength_nm=ev_to_nanometre(energy),
        absorptivity=float(value),
    )


def lowest_bright(
    excitations_ev: Sequence[float],
    strengths: Sequence[float],
    threshold: float,
    *,
    conformer: str = "",
    weight: float = 1.0,
) -> BrightTransition | None:
    """Return the lowest transition with an oscillator strength of at least ``threshold``; ``None`` if all are dark."""
    bright = [
        (energy, strength, root)
        for root, (energy, strength) in enumerate(zip(excitations_ev, strengths, strict=True), start=1)
        if strength >= threshold
    ]
    if not bright:
        return None
    energy, strength, root = min(bright)
    return BrightTransition(
        threshold=threshold,
        energy_ev=energy,
        wavelength_nm=ev_to_nanometre(energy),
        oscillator_strength=strength,
        root=root,
        conformer=conformer,
        weight=weight,
    )
