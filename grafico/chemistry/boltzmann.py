"""Boltzmann populations of conformers."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy
from numpy.typing import NDArray
from pydantic import Field

from grafico.calculations import CalculationError, FailureKind, Model
from grafico.units import BOLTZMANN_HARTREE_PER_KELVIN, KCAL_MOL_PER_HARTREE

__all__ = ["Population", "boltzmann_join", "boltzmann_weights", "retain"]


class Population(Model):
    """The share of one conformer."""

    id: str
    energy: float = Field(description="the energy that was weighed, electronic or free, hartree")
    relative: float = Field(ge=0, description="energy above the lowest, kcal/mol")
    degeneracy: int = Field(ge=1)
    weight: float = Field(ge=0, le=1, description="the weight that is used; retained conformers sum to 1")
    weight_with_degeneracy: float = Field(ge=0, le=1)
    weight_without_degeneracy: float = Field(ge=0, le=1)
    retained: bool = Field(default=True, description="whether it counts in the ensemble")


def boltzmann_weights(
    energies: Sequence[float] | NDArray[numpy.float64], temperature: float, degeneracies: Any = None
) -> NDArray[numpy.float64]:
    """Return g exp(-E / kT) / sum of the same, shape (conformers,).

    Parameters
    ----------
    energies
        Hartree; only differences matter, and the lowest is taken off first so that nothing overflows.
    temperature
        Kelvin, above 0.
    degeneracies
        Positive numbers; default 1 each.

    Raises
    ------
    CalculationError
        No energies, one that is not finite, a temperature or degeneracy that is not positive.
    """
    values = numpy.asarray(energies, dtype=float)
    if values.size == 0 or not numpy.isfinite(values).all():
        raise CalculationError(FailureKind.REFUSED, "Boltzmann weights need at least one energy, and finite ones")
    if not 0 < temperature < float("inf"):
        raise CalculationError(
            FailureKind.REFUSED, f"Boltzmann weights need a temperature above 0 K, not {temperature}"
        )
    factors = numpy.ones_like(values) if degeneracies is None else numpy.asarray(degeneracies, dtype=float)
    if factors.shape != values.shape or not (factors > 0).all():
        raise CalculationError(FailureKind.REFUSED, "each energy needs one degeneracy above 0")
    weights = factors * numpy.exp(-(values - values.min()) / (BOLTZMANN_HARTREE_PER_KELVIN * temperature))
    return numpy.asarray(weights / weights.sum())


def retain(weights: Sequence[float] | NDArray[numpy.float64], cumulative: float | None) -> NDArray[numpy.bool_]:
    """Tell which conformers are kept: the heaviest ones, until their weights reach ``cumulative``; all for ``None``.

    The conformer with which the sum reaches the limit is kept, so at least one always is.
    """
    values = numpy.asarray(weights, dtype=float)
    if cumulative is None:
        return numpy.ones(values.shape, dtype=bool)
    order = numpy.argsort(-values, kind="stable")
    before = numpy.cumsum(values[order]) - values[order]
    kept = numpy.zeros(values.shape, dtype=bool)
    kept[order] = before < cumulative
    return kept


def boltzmann_join(
    ids: Sequence[str],
    energies: Sequence[float | None],
    *,
    temperature: float,
    degeneracies: Sequence[int] | None = None,
    levels: Sequence[str] = (),
    use_degeneracy: bool = True,
    kind: Literal["electronic", "free"] = "electronic",
    cumulative: float | None = None,
) -> tuple[Population, ...]:
    """Return the populations of conformers, lowest energy first, with and without degeneracy.

    Parameters
    ----------
    energies
        Electronic or free energies, hartree; ``None`` where a conformer has none, which is refused.
    levels
        The level of theory of each energy; all must be the same.
    use_degeneracy
        Whether ``weight`` counts degeneracies; both kinds are reported in any case.
    kind
        What the energies are, for messages.
    cumulative
        Keep the heaviest conformers up to this cumulative weight (0 to 1), and share their weights out anew.

    Raises
    ------
    CalculationError
        Levels differ, an energy is missing, or a value cannot be weighed (``REFUSED``).
    """
    different = sorted(set(levels))
    if len(different) > 1:
        raise CalculationError(
            FailureKind.REFUSED,
            "Boltzmann weights are refused: the lanes disagree in level of theory: " + " | ".join(different),
            details={"levels": different},
        )
    missing = [name for name, energy in zip(ids, energies, strict=True) if energy is None]
    if missing:
        raise CalculationError(FailureKind.REFUSED, f"no {kind} energy for {', '.join(missing)}")
    values = numpy.array([energy for energy in energies if energy is not None], dtype=float)
    counts = [1] * len(ids) if degeneracies is None else list(degeneracies)
    plain = boltzmann_weights(values, temperature)
    counted = boltzmann_weights(values, temperature, counts)
    used = counted if use_degeneracy else plain
    kept = retain(used, cumulative)
    final = numpy.where(kept, used, 0.0)
    final = final / final.sum()
    relative = (values - values.min()) * KCAL_MOL_PER_HARTREE
    order = sorted(range(len(ids)), key=lambda index: (values[index], ids[index]))
    return tuple(
        Population(
            id=ids[index],
            energy=float(values[index]),
            relative=float(relative[index]),
            degeneracy=counts[index],
            weight=float(final[index]),
            weight_with_degeneracy=float(counted[index]),
            weight_without_degeneracy=float(plain[index]),
            retained=bool(kept[index]),
        )
        for index in order
    )
