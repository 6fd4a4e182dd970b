"""Boltzmann weights: published numbers, and what must hold for any ensemble."""

import json
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.calculations import CalculationError, FailureKind
from grafico.chemistry.boltzmann import boltzmann_join, boltzmann_weights, retain

DATA = Path(__file__).parent / "data"

energies = st.lists(st.floats(-2000.0, 0.0), min_size=1, max_size=20)
temperatures = st.floats(1.0, 3000.0)


@st.composite
def ensembles(draw):
    values = draw(energies)
    counts = draw(st.lists(st.integers(1, 100), min_size=len(values), max_size=len(values)))
    return values, counts, draw(temperatures)


def test_published_weights_of_epoxybutanol():
    published = json.loads((DATA / "epoxybutanol-gas.json").read_text())
    conformers = published["conformers"]
    join = boltzmann_join(
        [f"conf-{number}" for number in range(len(conformers))],
        [conformer["energy_hartree"] for conformer in conformers],
        temperature=published["temperature_kelvin"],
        degeneracies=[conformer["degeneracy"] for conformer in conformers],
    )
    expected = published["expected"]
    assert [population.weight for population in join] == pytest.approx(
        expected["weights"], abs=expected["tolerance_weight"]
    )


@given(ensembles())
def test_weights_sum_to_one_and_none_is_negative(ensemble):
    values, counts, temperature = ensemble
    weights = boltzmann_weights(values, temperature, counts)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights >= 0).all()


@given(ensembles(), st.randoms(use_true_random=False))
def test_order_does_not_matter(ensemble, random):
    values, counts, temperature = ensemble
    order = list(range(len(values)))
    random.shuffle(order)
    straight = boltzmann_weights(values, temperature, counts)
    shuffled = boltzmann_weights([values[i] for i in order], temperature, [counts[i] for i in order])
    assert numpy.allclose(straight[order], shuffled, atol=1e-14)


@given(ensembles(), st.floats(-100.0, 100.0))
def test_a_constant_shift_changes_nothing(ensemble, shift):
    values, counts, temperature = ensemble
    # A shift in floating point moves differences of energies by some 1e-13 hartree.
    slack = 1e-12 / (3.166811563e-6 * temperature) + 1e-12
    shifted = boltzmann_weights([value + shift for value in values], temperature, counts)
    assert numpy.allclose(shifted, boltzmann_weights(values, temperature, counts), atol=slack)


@given(ensembles())
def test_a_degeneracy_counts_like_as_many_conformers(ensemble):
    values, counts, temperature = ensemble
    counts = [min(count, 5) for count in counts]
    spread = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    apart = boltzmann_weights(spread, temperature)
    together = boltzmann_weights(values, temperature, counts)
    start = 0
    for weight, count in zip(together, counts, strict=True):
        assert apart[start : start + count].sum() == pytest.approx(weight, abs=1e-12)
        start += count


def test_common_factors_of_degeneracies_cancel():
    assert numpy.allclose(boltzmann_weights([0, 0.001], 298.15, [2, 4]), boltzmann_weights([0, 0.001], 298.15, [1, 2]))


def test_huge_energy_differences_neither_overflow_nor_warn():
    with numpy.errstate(over="raise", invalid="raise"):
        assert boltzmann_weights([-1e6, 0.0], 1.0).tolist() == [1.0, 0.0]


def test_both_kinds_of_weights_are_reported():
    join = boltzmann_join(["a", "b"], [0.0, 0.0], temperature=300, degeneracies=[1, 3], use_degeneracy=False)
    assert [p.weight for p in join] == [0.5, 0.5]
    assert [p.weight_with_degeneracy for p in join] == [0.25, 0.75]
    assert [p.weight_without_degeneracy for p in join] == [0.5, 0.5]


def test_mixed_levels_of_theory_are_refused():
    with pytest.raises(CalculationError, match="disagree in level of theory: B3LYP") as caught:
        boltzmann_join(["a", "b"], [0.0, 0.1], temperature=300, levels=["B3LYP/def2-SVP", "PBE/def2-SVP"])
    assert caught.value.kind is FailureKind.REFUSED


@pytest.mark.parametrize(
    ("values", "temperature", "counts"),
    [([], 300, None), ([float("nan")], 300, None), ([0.0], 0, None), ([0.0], -1, None), ([0.0], 300, [0])],
)
def test_what_cannot_be_weighed_is_refused(values, temperature, counts):
    with pytest.raises(CalculationError):
        boltzmann_weights(values, temperature, counts)


def test_a_missing_free_energy_is_refused_by_name():
    with pytest.raises(CalculationError, match="no free energy for conf-2"):
        boltzmann_join(["conf-1", "conf-2"], [0.0, None], temperature=300, kind="free")


def test_the_heaviest_are_retained_up_to_a_cumulative_weight():
    assert retain([0.2, 0.5, 0.3], None).tolist() == [True, True, True]
    assert retain([0.2, 0.5, 0.3], 0.75).tolist() == [False, True, True]
    assert retain([0.2, 0.5, 0.3], 0.4).tolist() == [False, True, False]
    join = boltzmann_join(["a", "b", "c"], [0.0, 0.0005, 0.01], temperature=298.15, cumulative=0.95)
    assert [p.retained for p in join] == [True, True, False]
    assert sum(p.weight for p in join) == pytest.approx(1.0)
    assert join[2].weight == 0.0


@given(ensembles(), st.floats(0.01, 1.0))
def test_retained_weights_reach_the_limit_and_sum_to_one(ensemble, cumulative):
    values, counts, temperature = ensemble
    names = [f"c{number}" for number in range(len(values))]
    join = boltzmann_join(names, values, temperature=temperature, degeneracies=counts, cumulative=cumulative)
    kept = [p for p in join if p.retained]
    assert sum(p.weight_with_degeneracy for p in kept) >= cumulative - 1e-9
    assert sum(p.weight for p in join) == pytest.approx(1.0)
