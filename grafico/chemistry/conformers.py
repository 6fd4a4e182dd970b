"""Conformers: which structures are the same one, how often each occurs, and whether the search has converged.

Two structures are the same conformer (rotamers of each other) when their energies, their rotational constants and
their shapes agree; shapes are compared over automorphisms and mirror images. Compare P. Pracht, F. Bohle, S. Grimme,
Phys. Chem. Chem. Phys. 2020, 22, 7169, whose thresholds are the defaults here.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy
from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.atoms.superpose import anchor_points, best_rmsd, rotational_constants, symmetry_operations
from grafico.calculations import Model
from grafico.units import KCAL_MOL_PER_HARTREE

__all__ = [
    "Batch",
    "Candidate",
    "Conformer",
    "PruneSettings",
    "Pruned",
    "prune",
    "relative_degeneracies",
    "symmetry_degeneracy",
]


class Candidate(Model):
    """A structure that a search has proposed."""

    id: str
    atoms: ConceptualAtoms
    energy: float = Field(description="hartree")
    batch: int = Field(default=0, ge=0, description="batch of seeds that found it first")
    degeneracy: int = Field(default=1, ge=1, description="how often it counts; an engine's own count where it has one")


class Conformer(Model):
    """A distinct conformer."""

    id: str
    atoms: ConceptualAtoms
    energy: float = Field(description="hartree")
    relative: float = Field(ge=0, description="energy above the lowest, kcal/mol")
    degeneracy: int = Field(ge=1, description="distinguishable versions of it, such as a mirror image")
    members: tuple[str, ...] = Field(description="candidates that turned out to be this conformer, lowest first")
    batch: int = Field(default=0, ge=0, description="batch of seeds that found it first")
    rotational_constants: tuple[float, float, float] | None = Field(default=None, description="GHz, largest first")


class Batch(Model):
    """What one batch of seeds added."""

    number: int = Field(ge=0)
    new: int = Field(ge=0, description="conformers that no earlier batch had")
    total: int = Field(ge=0, description="conformers after this batch")


class PruneSettings(Model):
    """When two structures count as one conformer, and which are kept."""

    window: float = Field(
        default=6.0, gt=0, le=100, description="energy above the lowest up to which conformers are kept, kcal/mol"
    )
    energy: float = Field(default=0.05, gt=0, le=5, description="energy difference of one conformer, kcal/mol")
    rotational: float = Field(
        default=0.01, gt=0, le=0.5, description="relative difference of rotational constants of one conformer"
    )
    rmsd: float = Field(
        default=0.125, gt=0, le=2, description="RMSD of heavy atoms and hydrogen centroids of one conformer, Å"
    )
    limit: int | None = Field(
        default=None, ge=1, description="most conformers to keep, lowest first; default all in the window"
    )


class Pruned(Model):
    """The distinct conformers of a search, and what became of the other structures."""

    conformers: tuple[Conformer, ...] = Field(description="lowest first")
    duplicates: int = Field(ge=0, description="structures that were another version of a conformer")
    above_window: int = Field(ge=0, description="distinct conformers above the energy window")
    beyond_limit: int = Field(default=0, ge=0, description="distinct conformers in the window left out by the limit")
    batches: tuple[Batch, ...] = Field(default=(), description="the convergence of the search, batch by batch")

    @property
    def converged(self) -> bool:
        """Whether the last batch of seeds found nothing new."""
        return len(self.batches) > 1 and self.batches[-1].new == 0


def symmetry_degeneracy(atoms: ConceptualAtoms, *, rotation: bool = True) -> int:
    """Return the number of distinguishable versions of a geometry, up to a factor common to the molecule.

    Parameters
    ----------
    rotation
        Whether rotations that leave the geometry as it is lower the number. A free energy counts them already (its
        rotational symmetry number); beside one only the mirror image counts.
    """
    operations = symmetry_operations(atoms)
    if rotation:
        return operations.versions
    return 1 if operations.improper else 2


def relative_degeneracies(degeneracies: Sequence[int]) -> tuple[int, ...]:
    """Return the same ratios in the smallest whole numbers."""
    divisor = math.gcd(*degeneracies) if degeneracies else 1
    return tuple(value // max(divisor, 1) for value in degeneracies)


def prune(
    candidates: Sequence[Candidate], masses: Any, settings: PruneSettings | None = None, *, batches: int = 0
) -> Pruned:
    """Reduce the structures of a search to distinct conformers with degeneracies; the order of candidates does not matter.

    Parameters
    ----------
    candidates
        Structures of one molecule with the same order of atoms.
    masses
        Atomic masses, u.
    batches
        Number of batches of seeds, for the convergence report; 0 for none.
    """
    rules = settings or PruneSettings()
    ordered = sorted(candidates, key=lambda candidate: (candidate.energy, candidate.id))
    if not ordered:
        return Pruned(conformers=(), duplicates=0, above_window=0)
    constants = [rotational_constants(candidate.atoms, masses) for candidate in ordered]
    shapes = [anchor_points(candidate.atoms)[0] for candidate in ordered]
    permutations = anchor_points(ordered[0].atoms)[1]
    groups: list[list[int]] = []
    for index, candidate in enumerate(ordered):
        for group in reversed(groups):
            first = group[0]
            if (candidate.energy - ordered[first].energy) * KCAL_MOL_PER_HARTREE > rules.energy:
                continue
            if not numpy.allclose(constants[index], constants[first], rtol=rules.rotational):
                continue
            if shapes[index].shape != shapes[first].shape:
                continue
            if best_rmsd(shapes[first], shapes[index], permutations, mirror=True) < rules.rmsd:
                group.append(index)
                break
        else:
            groups.append([index])
    lowest = ordered[0].energy
    within = [
        group for group in groups if (ordered[group[0]].energy - lowest) * KCAL_MOL_PER_HARTREE <= rules.window + 1e-9
    ]
    kept = within[: rules.limit]
    counted = relative_degeneracies([symmetry_degeneracy(ordered[group[0]].atoms) for group in kept])
    conformers = []
    for number, (group, degeneracy) in enumerate(zip(kept, counted, strict=True), start=1):
        best = ordered[group[0]]
        a, b, c = (min(float(value), 1e9) for value in constants[group[0]])
        conformers.append(
            Conformer(
                id=f"conf-{number:03d}",
                atoms=best.atoms,
                energy=best.energy,
                relative=(best.energy - lowest) * KCAL_MOL_PER_HARTREE,
                degeneracy=degeneracy,
                members=tuple(ordered[index].id for index in group),
                batch=min(ordered[index].batch for index in group),
                rotational_constants=(a, b, c),
            )
        )
    firsts = [min(ordered[index].batch for index in group) for group in within]
    report = []
    for number in range(batches):
        new = firsts.count(number)
        report.append(Batch(number=number, new=new, total=sum(first <= number for first in firsts)))
    return Pruned(
        conformers=tuple(conformers),
        duplicates=sum(len(group) - 1 for group in groups),
        above_window=len(groups) - len(within),
        beyond_limit=len(within) - len(kept),
        batches=tuple(report),
    )
