"""Duplicates among refined conformers: lanes that started apart and ended in the same minimum."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.atoms.superpose import heavy_rmsd
from grafico.calculations import Model
from grafico.units import KCAL_MOL_PER_HARTREE

__all__ = ["Cluster", "DuplicateRule", "Refined", "deduplicate"]


class DuplicateRule(Model):
    """When two refined conformers are one: both limits must hold."""

    energy: float = Field(default=0.05, ge=0, le=5, description="largest energy difference, kcal/mol")
    rmsd: float = Field(default=0.2, ge=0, le=3, description="largest heavy-atom RMSD over automorphisms, Å")
    mirror: bool = Field(default=True, description="whether a mirror image is the same conformer")


class Refined(NamedTuple):
    """What deduplication looks at."""

    id: str
    energy: float
    """Hartree."""
    atoms: ConceptualAtoms
    degeneracy: int = 1


class Cluster(NamedTuple):
    """Lanes that ended in one minimum."""

    representative: str
    """The lowest in energy."""
    members: tuple[str, ...]
    """All of them, lowest first."""
    energy: float
    """Of the representative, hartree."""
    degeneracy: int
    """The sum over the members."""


def deduplicate(conformers: Sequence[Refined], rule: DuplicateRule | None = None) -> tuple[Cluster, ...]:
    """Return the distinct conformers, lowest first; the same whatever the order they are given in.

    Two conformers within both limits are joined, and joining is transitive (union-find), so that no order of
    comparison decides who is merged with whom. Degeneracies of merged conformers add up; the representative is the
    lowest in energy.

    Parameters
    ----------
    conformers
        Structures of one molecule with the same order of atoms, at one level of theory.
    """
    limits = rule or DuplicateRule()
    ordered = sorted(conformers, key=lambda conformer: (conformer.energy, conformer.id))
    parent = list(range(len(ordered)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for i, first in enumerate(ordered):
        for j in range(i + 1, len(ordered)):
            second = ordered[j]
            if (second.energy - first.energy) * KCAL_MOL_PER_HARTREE > limits.energy:
                break
            if root(i) != root(j) and heavy_rmsd(first.atoms, second.atoms, mirror=limits.mirror) <= limits.rmsd:
                low, high = sorted((root(i), root(j)))
                parent[high] = low
    groups: dict[int, list[Refined]] = {}
    for index, conformer in enumerate(ordered):
        groups.setdefault(root(index), []).append(conformer)
    return tuple(
        Cluster(
            representative=group[0].id,
            members=tuple(member.id for member in group),
            energy=group[0].energy,
            degeneracy=sum(member.degeneracy for member in group),
        )
        for group in groups.values()
    )
