"""In how many directions something goes on through a crystal: its bonded network, and its channels.

Both are periodic graphs, of bonds or of the passages between voids. Walking around a cycle of such a graph ends in the
same cell or in another one; the rank of the lattice vectors so reached is the dimensionality of the part. The vectors are
integers, so it is exact, and no supercell is made.
"""

from collections.abc import Iterable
from typing import NamedTuple

from grafico.atoms import ConceptualAtoms
from grafico.frameworks.periodic import Link, crystal_bonds, parts_of

__all__ = ["Voids", "framework_dimensionality", "voids_of"]


class Voids(NamedTuple):
    """What a network of voids is made of."""

    channels: tuple[int, ...]
    """Dimensionality of each part that goes on through the crystal, highest first: 3, 2 or 1."""
    pockets: int
    """Parts that are closed."""


def framework_dimensionality(structure: ConceptualAtoms, bonds: Iterable[Link] | None = None) -> int:
    """Return the dimensionality of the bonded network of a crystal: that of its part which goes on in most directions.

    Parameters
    ----------
    bonds
        Where they are known; default those that distances tell (:func:`~grafico.frameworks.periodic.crystal_bonds`).
    """
    edges = crystal_bonds(structure) if bonds is None else bonds
    return max(part.dimension for part in parts_of(range(len(structure)), edges))


def voids_of(count: int, passages: Iterable[Link]) -> Voids:
    """Return the channels and pockets of a network of voids.

    Parameters
    ----------
    count
        Voids in the cell.
    passages
        From a void to another, counted from 0, and the cell that the other lies in.
    """
    dimensions = sorted((part.dimension for part in parts_of(range(count), passages)), reverse=True)
    channels = tuple(dimension for dimension in dimensions if dimension > 0)
    return Voids(channels, len(dimensions) - len(channels))
