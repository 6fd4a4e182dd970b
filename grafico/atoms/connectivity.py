"""Bonds from distances, and what changes between two geometries of the same atoms."""

from pydantic import Field

from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.elements import covalent_radius
from grafico.calculations import Model
from grafico.errors import MoleculeError

__all__ = ["Bond", "BondChanges", "bond_changes", "bonds", "fragments"]

Bond = tuple[int, int]
"""Indices of two atoms, from 0, the lower first."""


class BondChanges(Model):
    """Bonds that one geometry has and another of the same atoms has not."""

    made: tuple[Bond, ...] = Field(default=(), description="bonds only in the second geometry, atom indices from 0")
    broken: tuple[Bond, ...] = Field(default=(), description="bonds only in the first geometry, atom indices from 0")

    def __bool__(self) -> bool:
        return bool(self.made or self.broken)

    def describe(self, symbols: tuple[str, ...]) -> str:
        """Return the changes in words, atoms counted from 1: ``broken C1-O4; made O4-H9``."""
        parts = []
        for verb, changed in (("broken", self.broken), ("made", self.made)):
            if changed:
                names = ", ".join(f"{symbols[i]}{i + 1}-{symbols[j]}{j + 1}" for i, j in changed)
                parts.append(f"{verb} {names}")
        return "; ".join(parts) or "none"


def bonds(atoms: ConceptualAtoms, *, tolerance: float = 1.25) -> frozenset[Bond]:
    """Return the pairs of atoms closer than ``tolerance`` times the sum of their covalent radii.

    Cells are not considered: this is for molecules.

    Source: radii of Cordero et al. (see elements.py); the factor lies between the longest usual bonds
    (1.15 times the sum) and the closest non-bonded contacts (1.4 times).
    """
    import numpy

    positions = numpy.asarray(atoms.positions)
    radii = numpy.array([covalent_radius(symbol) for symbol in atoms.symbols])
    found: set[Bond] = set()
    for index in range(len(atoms) - 1):
        distances = numpy.sqrt(((positions[index + 1 :] - positions[index]) ** 2).sum(axis=1))
        limit = tolerance * (radii[index] + radii[index + 1 :])
        found.update((index, index + 1 + int(other)) for other in numpy.flatnonzero(distances < limit))
    return frozenset(found)


def bond_changes(before: ConceptualAtoms, after: ConceptualAtoms, *, hysteresis: float = 0.1) -> BondChanges:
    """Return the bonds made and broken between two geometries of the same atoms.

    A bond counts as broken only when it is longer than ``1.25 + hysteresis`` times the sum of radii, and as made
    only when shorter than ``1.25 - hysteresis`` times it, so that a distance at the limit changes nothing.

    Raises
    ------
    MoleculeError
        The two have different atoms.
    """
    if before.symbols != after.symbols:
        raise MoleculeError("the two geometries do not have the same atoms in the same order")
    usual = 1.25
    first, second = bonds(before, tolerance=usual), bonds(after, tolerance=usual)
    broken = first - bonds(after, tolerance=usual + hysteresis)
    made = (second - first) & bonds(after, tolerance=usual - hysteresis)
    return BondChanges(made=tuple(sorted(made)), broken=tuple(sorted(broken)))


def fragments(atoms: ConceptualAtoms) -> tuple[tuple[int, ...], ...]:
    """Return the atoms (indices from 0) of each connected molecule, the one with the first atom first."""
    parent = list(range(len(atoms)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for i, j in bonds(atoms):
        low, high = sorted((root(i), root(j)))
        parent[high] = low
    groups: dict[int, list[int]] = {}
    for index in range(len(atoms)):
        groups.setdefault(root(index), []).append(index)
    return tuple(tuple(groups[key]) for key in sorted(groups))
