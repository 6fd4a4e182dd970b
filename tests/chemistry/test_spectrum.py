"""Spectra: published maxima, areas, axes and the Jacobian."""

import json
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from grafico.chemistry.boltzmann import boltzmann_weights
from grafico.chemistry.spectrum import (
    INTEGRATED_ABSORPTIVITY,
    WAVENUMBER_PER_EV,
    Broadening,
    absorptivity,
    energy_axis,
    lowest_bright,
    maximum_on_energy_axis,
    maximum_on_wavelength_axis,
    on_wavelength_axis,
)
from grafico.units import EV_NANOMETRE, EV_PER_HARTREE

DATA = Path(__file__).parent / "data"

transitions = st.lists(st.tuples(st.floats(1.0, 12.0), st.floats(0.0, 2.0)), min_size=1, max_size=12)
shapes = st.sampled_from(["gaussian", "lorentzian"])


def published_sticks():
    published = json.loads((DATA / "epoxybutanol-gas.json").read_text())
    conformers = published["conformers"]
    weights = boltzmann_weights([c["energy_hartree"] for c in conformers], published["temperature_kelvin"])
    energies = [e * EV_PER_HARTREE for c in conformers for e in c["excitation_hartree"]]
    strengths = [w * f for w, c in zip(weights, conformers, strict=True) for f in c["oscillator_strength"]]
    return energies, strengths, published["expected"]


def test_published_maximum_of_epoxybutanol():
    energies, strengths, expected = published_sticks()
    broadening = Broadening(width_ev=expected["gaussian_sigma_ev"])
    top = maximum_on_energy_axis(energies, strengths, broadening)
    assert top.energy_ev == pytest.approx(expected["maximum_on_energy_axis_ev"], abs=expected["tolerance_ev"])
    assert top.wavelength_nm == pytest.approx(expected["maximum_nm"], abs=0.03)


def test_without_a_jacobian_both_axes_have_the_same_maximum():
    energies, strengths, _ = published_sticks()
    broadening = Broadening()
    on_energy = maximum_on_energy_axis(energies, strengths, broadening)
    on_wavelength = maximum_on_wavelength_axis(energies, strengths, broadening)
    assert on_wavelength.energy_ev == on_energy.energy_ev
    assert not on_wavelength.jacobian


def test_a_jacobian_can_move_the_maximum_to_another_band():
    # A strong band in the visible and a weaker one in the ultraviolet, as in the published merocyanine.
    energies, strengths = [2.9, 4.43], [1.0, 0.5]
    without = maximum_on_wavelength_axis(energies, strengths, Broadening(width_ev=0.2))
    with_it = maximum_on_wavelength_axis(energies, strengths, Broadening(width_ev=0.2, jacobian=True))
    assert without.wavelength_nm == pytest.approx(EV_NANOMETRE / 2.9, abs=0.5)
    assert with_it.energy_ev == pytest.approx(4.43, abs=0.05)
    assert with_it.jacobian


@pytest.mark.parametrize("width", ["sigma", "hwhm", "fwhm"])
def test_a_gaussian_band_has_the_area_of_its_oscillator_strength(width):
    axis = numpy.linspace(2.0, 8.0, 20001)
    curve = absorptivity(axis, [5.0], [0.7], Broadening(width_ev=0.2, width=width))
    area = numpy.trapezoid(curve, axis * WAVENUMBER_PER_EV)
    assert area == pytest.approx(0.7 * INTEGRATED_ABSORPTIVITY, rel=1e-6)
    assert pytest.approx(2.315e8, rel=1e-3) == INTEGRATED_ABSORPTIVITY


def test_a_lorentzian_band_has_the_area_of_its_oscillator_strength():
    axis = numpy.linspace(-995.0, 1005.0, 2_000_001)
    curve = absorptivity(axis, [5.0], [1.0], Broadening(shape="lorentzian", width_ev=0.1))
    assert numpy.trapezoid(curve, axis) * WAVENUMBER_PER_EV == pytest.approx(INTEGRATED_ABSORPTIVITY, rel=1e-3)


@pytest.mark.parametrize(("shape", "width"), [("gaussian", "hwhm"), ("gaussian", "fwhm"), ("lorentzian", "fwhm")])
def test_widths_mean_what_they_are_called(shape, width):
    broadening = Broadening(shape=shape, width_ev=0.3, width=width)
    half = 0.3 if width == "hwhm" else 0.15
    center, side = absorptivity(numpy.array([5.0, 5.0 + half]), [5.0], [1.0], broadening)
    assert side == pytest.approx(center / 2)


@given(transitions, transitions, shapes, st.floats(0.0, 5.0))
def test_spectra_are_linear_in_the_oscillator_strengths(first, second, shape, factor):
    broadening = Broadening(shape=shape, width_ev=0.2)
    axis = numpy.linspace(0.5, 13.0, 400)

    def curve(sticks, scale=1.0):
        return absorptivity(axis, [e for e, _ in sticks], [f * scale for _, f in sticks], broadening)

    assert numpy.allclose(curve(first + second), curve(first) + curve(second), rtol=1e-10, atol=1e-6)
    assert numpy.allclose(curve(first, factor), factor * curve(first), rtol=1e-10, atol=1e-6)


@given(transitions, shapes)
def test_no_point_of_the_axis_is_above_the_maximum(sticks, shape):
    energies, strengths = [e for e, _ in sticks], [f for _, f in sticks]
    if max(strengths) < 1e-6:
        return
    broadening = Broadening(shape=shape, width_ev=0.25)
    top = maximum_on_energy_axis(energies, strengths, broadening)
    curve = absorptivity(energy_axis(energies, broadening), energies, strengths, broadening)
    assert top.absorptivity >= curve.max() * (1 - 1e-9)


def test_the_jacobian_keeps_the_area():
    energies, strengths = [3.0, 5.0], [0.4, 0.8]
    axis = energy_axis(energies, Broadening(points=20001))
    curve = absorptivity(axis, energies, strengths, Broadening())
    over_energy = numpy.trapezoid(curve, axis)
    wavelengths = EV_NANOMETRE / axis
    over_wavelength = -numpy.trapezoid(on_wavelength_axis(curve, axis, jacobian=True), wavelengths)
    assert over_wavelength == pytest.approx(over_energy, rel=1e-5)


def test_the_lowest_bright_transition_names_its_threshold():
    found = lowest_bright([3.0, 4.0, 5.0], [0.001, 0.05, 1.0], 0.01, conformer="conf-001", weight=0.9)
    assert found is not None
    assert (found.energy_ev, found.root, found.threshold, found.conformer) == (4.0, 2, 0.01, "conf-001")
    assert lowest_bright([3.0], [0.001], 0.01) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": "lorentzian", "width": "sigma"},
        {"width_ev": 0},
        {"width_ev": 5.0},
        {"range_ev": (5.0, 4.0)},
        {"range_ev": (0.0, 4.0)},
        {"shape": "box"},
        {"points": 5},
        {"width_nm": 20},
    ],
)
def test_broadening_that_makes_no_sense_is_refused(settings):
    with pytest.raises(ValidationError):
        Broadening(**settings)
