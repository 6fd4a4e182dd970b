"""Conversions, with numbers from CODATA."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.units import convert


@pytest.mark.parametrize(
    ("value", "unit", "to", "expected"),
    [
        (1, "hartree", "eV", 27.211386245988),
        (1, "eV", "kcal/mol", 23.060548),
        (1, "Ha", "kJ/mol", 2625.49964),
        (1, "eV", "cm-1", 8065.543937),
        (500, "nm", "eV", 2.479684),
        (2.479684, "eV", "nm", 500.0),
        (1, "bohr", "Å", 0.529177210903),
        (1, "nm", "bohr", 18.8972612),
        (298.15, "K", "kcal/mol", 0.5924850),
        (1, "e*bohr", "debye", 2.541746473),
    ],
)
def test_published_values(value, unit, to, expected):
    assert convert(value, unit, to) == pytest.approx(expected, rel=1e-6)


@given(
    st.floats(1e-6, 1e6),
    st.sampled_from(["hartree", "eV", "kcal/mol", "cm-1", "nm", "K"]),
    st.sampled_from(["eV", "nm", "kJ/mol"]),
)
def test_there_and_back_is_the_same(value, unit, to):
    assert convert(convert(value, unit, to), to, unit) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("value", "unit", "to"), [(1, "eV", "bohr"), (1, "parsec", "eV"), (0, "nm", "eV"), (-1, "eV", "nm")]
)
def test_what_cannot_be_converted_is_refused(value, unit, to):
    with pytest.raises(ValueError, match=r"convert|not known|positive"):
        convert(value, unit, to)
