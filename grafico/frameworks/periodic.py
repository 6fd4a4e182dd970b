"""Bonds in a crystal, and what hangs together by them: molecules, chains, layers, frameworks.

A bond from atom ``i`` to the image of atom ``j`` in the cell ``s`` away is ``(i, j, s)``. Following bonds, each part is
laid out in one piece; bonds that close on another image than the one that was reached are translations under which
the part repeats. How many of them are independent is the number of directions in which it is endless (W. E. Klee,
Cryst. Res. Technol. 39 (2004) 959).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from grafico.atoms import ConceptualAtoms
from grafico.atoms.elements import covalent_radius
from grafico.atoms.optional import require
from grafico.frameworks.molecular_graph import METALS

__all__ = [
    "Contact",
    "Image",
    "Link",
    "Part",
    "close_contacts",
    "crystal_bonds",
    "density",
    "laid_out",
    "minus",
    "parts_of",
    "plus",
    "translation_basis",
]

Image: TypeAlias = tuple[int, int, int]
"""A translation, in cells along the three lattice vectors."""

Link: TypeAlias = tuple[int, int, Image]
"""A bond from an atom in the cell at the origin to another in the cell that the image tells."""

# Factors on the sum of covalent radii. Among nonmetals 1.12 was chosen after looking at 150 crystals of CoRE MOF, which have
# no clear gap there, and at frameworks that were built and not relaxed, whose false contacts of carbon and oxygen begin there.
_NONMETALS = 1.12
_METAL = {"O": 1.3, "F": 1.3, "C": 1.15, "H": 1.0}
_METAL_OTHERS = 1.2

_GRAMS_PER_CM3 = 1.0 / 0.602214076
"""Of 1 u in 1 Å³."""


class Contact(NamedTuple):
    """Two atoms that are close to each other."""

    first: int
    second: int
    image: Image
    distance: float
    """Å."""
    ratio: float
    """Distance over the sum of covalent radii."""


class Part(NamedTuple):
    """Atoms that hang together."""

    atoms: tuple[int, ...]
    """Indices, ascending."""
    images: Mapping[int, Image]
    """The image of each atom at which the part is in one piece."""
    basis: tuple[Image, ...]
    """Translations under which it repeats, as an echelon basis."""

    @property
    def dimension(self) -> int:
        """In how many directions it is endless."""
        return len(self.basis)

    @property
    def copies(self) -> int:
        """How many of it are in a cell, not bonded to each other, when it is endless in all three directions."""
        index = 1
        for row in self.basis:
            index *= abs(next(value for value in row if value))
        return index if len(self.basis) == 3 else 1


def close_contacts(atoms: ConceptualAtoms, reach: float) -> list[Contact]:
    """Return the pairs of atoms closer than ``reach`` times the sum of their covalent radii, across cells, each once."""
    import numpy
    from ase import Atoms
    from ase.neighborlist import neighbor_list

    radii = numpy.array([covalent_radius(symbol) for symbol in atoms.symbols])
    crystal = Atoms(list(atoms.symbols), positions=numpy.asarray(atoms.positions), cell=atoms.cell, pbc=True)
    found: list[Contact] = []
    rows = (part.tolist() for part in neighbor_list("ijdS", crystal, cutoff=reach * radii))
    for i, j, distance, shift in zip(*rows, strict=True):
        image: Image = (int(shift[0]), int(shift[1]), int(shift[2]))
        if i < j or (i == j and image > (0, 0, 0)):
            found.append(Contact(i, j, image, distance, distance / float(radii[i] + radii[j])))
    return sorted(found)


def crystal_bonds(atoms: ConceptualAtoms, contacts: Sequence[Contact] | None = None) -> tuple[Link, ...]:
    """Return the bonds of a crystal, from distances, each once, sorted.

    As in :func:`~grafico.frameworks.molecular_graph.block_bonds`, metals are not bonded to each other, and an atom is not bonded
    to a metal when one that it is bonded to is, and is closer to it.
    """
    near: dict[int, set[tuple[int, Image]]] = {}
    found: set[Link] = set()
    held: dict[tuple[int, int, Image], float] = {}
    for contact in close_contacts(atoms, 1.3) if contacts is None else contacts:
        i, j, image, _, ratio = contact
        first, second = atoms.symbols[i] in METALS, atoms.symbols[j] in METALS
        if first and second:
            continue
        if not first and not second:
            if ratio < _NONMETALS:
                found.add((i, j, image))
                near.setdefault(i, set()).add((j, image))
                near.setdefault(j, set()).add((i, minus(image)))
            continue
        # Seen from the metal.
        metal, other, shift = (i, j, image) if first else (j, i, minus(image))
        if ratio < _METAL.get(atoms.symbols[other], _METAL_OTHERS):
            held[metal, other, shift] = ratio
    for (metal, other, shift), ratio in held.items():
        closer = (held.get((metal, by, plus(shift, step)), 9.0) for by, step in near.get(other, ()))
        if not any(value < 0.95 * ratio for value in closer):
            found.add((metal, other, shift) if metal < other else (other, metal, minus(shift)))
    return tuple(sorted(found))


def parts_of(members: Iterable[int], bonds: Iterable[Link]) -> list[Part]:
    """Return what hangs together, in the order of the first atom of each.

    Parameters
    ----------
    members
        Atoms to look at; bonds to others are not followed.
    """
    neighbors: dict[int, list[tuple[int, Image]]] = {index: [] for index in sorted(members)}
    for i, j, shift in bonds:
        if i in neighbors and j in neighbors:
            neighbors[i].append((j, shift))
            neighbors[j].append((i, minus(shift)))
    seen: dict[int, Image] = {}
    found = []
    for start in neighbors:
        if start in seen:
            continue
        images: dict[int, Image] = {start: (0, 0, 0)}
        cycles: set[Image] = set()
        queue = [start]
        for index in queue:
            for other, shift in neighbors[index]:
                there = plus(images[index], shift)
                if other not in images:
                    images[other] = there
                    queue.append(other)
                elif (cycle := plus(there, minus(images[other]))) != (0, 0, 0):
                    cycles.add(max(cycle, minus(cycle)))
        seen.update(images)
        found.append(Part(tuple(sorted(images)), images, translation_basis(cycles)))
    return found


def translation_basis(vectors: Iterable[Image]) -> tuple[Image, ...]:
    """Return an echelon basis of the lattice that translations span: at most three rows, of integers."""
    rows = [list(vector) for vector in sorted(vectors)]
    basis: list[Image] = []
    for column in range(3):
        while len(active := [row for row in rows if row[column]]) > 1:
            # Euclid's algorithm, on rows.
            pivot = min(active, key=lambda row: (abs(row[column]), row))
            for row in active:
                if row is not pivot:
                    factor = row[column] // pivot[column]
                    row[:] = [value - factor * by for value, by in zip(row, pivot, strict=True)]
        if active:
            rows = [row for row in rows if row is not active[0]]
            basis.append((active[0][0], active[0][1], active[0][2]))
        rows = [list(row) for row in {tuple(row) for row in rows} if any(row)]
    return tuple(basis)


def laid_out(atoms: ConceptualAtoms, images: Mapping[int, Image], members: Sequence[int]) -> Any:
    """Return positions (Å, shape (members, 3)) of atoms, each in the image that is told."""
    import numpy

    shifts = numpy.array([images[index] for index in members], dtype=float).reshape(-1, 3)
    return numpy.asarray(atoms.positions)[list(members)] + shifts @ numpy.asarray(atoms.cell)


def plus(a: Image, b: Image) -> Image:
    """Return the sum of two translations."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Image) -> Image:
    """Return the opposite translation."""
    return (-a[0], -a[1], -a[2])


def density(structure: ConceptualAtoms) -> float:
    """Return the density of a crystal from the masses of its atoms, g/cm³."""
    import numpy

    data = require("ase.data", extra="mof", purpose="for atomic masses")
    assert structure.cell is not None
    mass = sum(float(data.atomic_masses[data.atomic_numbers[symbol]]) for symbol in structure.symbols)
    return mass / abs(float(numpy.linalg.det(numpy.array(structure.cell)))) * _GRAMS_PER_CM3
