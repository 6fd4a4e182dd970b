"""What counts as a relaxed framework: forces and stress below the limit, a sane cell, and still the same framework."""

import math
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms, from_ase, to_ase, write_extxyz
from grafico.atoms.elements import covalent_radius
from grafico.calculations import CalculationError, FailureKind, Json, WorkContext
from grafico.frameworks.relaxing.engines import Loaded, memory_failures
from grafico.frameworks.steps import RelaxationSettings, RelaxedFramework

__all__ = ["VOLUME_LIMITS", "Bonding", "Measured", "check_sane", "finished", "image_of", "measure", "not_converged"]

VOLUME_LIMITS = (0.5, 2.0)
"""Volume over that at the start, beyond which a cell has collapsed or exploded."""

_CLASH = 0.4
"""Å; atoms closer than this are a mistake."""

Image = tuple[int, int, tuple[int, int, int]]


class Measured(NamedTuple):
    """What decides whether a geometry is at a minimum."""

    energy: float
    """eV a cell."""
    force: float
    """Largest force on an atom, eV/Å."""
    cell_force: float
    """Largest force on a lattice vector's row of the virial over the number of atoms, eV; 0 with the cell fixed."""
    stress: float | None
    """Largest component of the stress, eV/Å³; none with the cell fixed."""
    volume: float
    """Å³."""

    @property
    def fmax(self) -> float:
        """What is compared with the limit."""
        return max(self.force, self.cell_force)

    @property
    def finite(self) -> bool:
        """Whether all of it are numbers."""
        return all(math.isfinite(x) for x in (self.energy, self.force, self.cell_force, self.volume))

    def within(self, fmax: float) -> bool:
        """Whether it is converged."""
        return self.finite and self.fmax <= fmax


def image_of(atoms: ConceptualAtoms, loaded: Loaded) -> Any:
    """Return a structure for ASE, with the calculator, after what makes it impossible was refused.

    A left-handed cell is turned round, which is the same lattice: engines take a cell's determinant for its volume.

    Raises
    ------
    CalculationError
        Of kind ``bad_input``.
    """
    import numpy
    from ase.neighborlist import neighbor_list

    if atoms.cell is None:
        raise CalculationError(FailureKind.BAD_INPUT, "a framework to be relaxed needs a cell, and this one has none")
    loaded.check_elements(atoms.symbols)
    image = to_ase(atoms)
    volume = float(numpy.linalg.det(image.cell.array))
    if not abs(volume) > len(atoms):  # 1 Å³ an atom: diamond, the densest, has 5.7
        raise CalculationError(
            FailureKind.BAD_INPUT,
            f"the cell has {abs(volume):.3g} Å³ for {len(atoms)} atoms: its vectors are not those of a crystal",
        )
    if volume < 0:
        image.set_cell(-image.cell.array, scale_atoms=False)
    first, second, distances = neighbor_list("ijd", image, _CLASH)
    if len(distances):
        at = int(numpy.argmin(distances))
        i, j = int(first[at]), int(second[at])
        raise CalculationError(
            FailureKind.BAD_INPUT,
            f"atoms {i + 1} ({atoms.symbols[i]}) and {j + 1} ({atoms.symbols[j]}) are {distances[at]:.2f} Å apart:"
            f" less than {_CLASH} Å is no structure",
        )
    image.calc = loaded.calculator
    return image


def measure(image: Any, *, cell: bool) -> Measured:
    """Return energy, forces and stress of an image; what the calculator has for this geometry is not computed again."""
    import numpy

    with memory_failures():
        energy = float(image.get_potential_energy())
        forces = image.get_forces()
        stress = image.get_stress(voigt=False) if cell else None
    volume = float(image.get_volume())
    force = float(numpy.sqrt((forces**2).sum(axis=1)).max())
    if stress is None:
        return Measured(energy, force, 0.0, None, volume)
    rows = numpy.sqrt(((volume * stress / len(image)) ** 2).sum(axis=1))
    return Measured(energy, force, float(rows.max()), float(numpy.abs(stress).max()), volume)


def check_sane(now: Measured, start: Measured | None, step: int, carried: dict[str, Json] | None = None) -> None:
    """Refuse what is no number, and a cell that has collapsed or exploded.

    Raises
    ------
    CalculationError
        Of kind ``engine_error`` or ``not_converged``.
    """
    if not now.finite:
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"after {step} steps the potential gives no number: energy {now.energy}, force {now.force}",
            details={"steps": step},
        )
    if start is None:
        return
    ratio = now.volume / start.volume
    low, high = VOLUME_LIMITS
    if not low <= ratio <= high:
        what = "collapsed" if ratio < low else "exploded"
        raise CalculationError(
            FailureKind.NOT_CONVERGED,
            f"the cell {what}: after {step} steps it has {ratio:.2f} times its volume, and {low} to {high} is allowed",
            details={"steps": step, "volume_ratio": ratio, "force": now.force, "energy": now.energy, **(carried or {})},
        )


def not_converged(
    now: Measured, atoms: ConceptualAtoms, settings: RelaxationSettings, steps: int, ctx: WorkContext
) -> CalculationError:
    """Return the failure of a relaxation that met its limit; the last geometry is kept as a file that it names."""
    text = write_extxyz([atoms], [{"energy_ev": now.energy, "force_max": now.force}])
    kept = ctx.artifacts.put(text.encode(), "chemical/x-xyz")
    details: dict[str, Json] = {
        "steps": steps,
        "force": now.force,
        "stress": now.stress,
        "cell_force": now.cell_force if settings.cell else None,
        "energy": now.energy,
        "fmax": settings.fmax,
        "last_geometry": kept.model_dump(mode="json"),
    }
    cell = f", that on the cell {now.cell_force:.4f} eV" if settings.cell else ""
    return CalculationError(
        FailureKind.NOT_CONVERGED,
        f"after {steps} steps the largest force is {now.force:.4f} eV/Å{cell}, and {settings.fmax:g} is the limit; allow"
        " more steps or a higher fmax",
        details=details,
    )


class Bonding:
    """The bonds of a crystal at the start, to be compared with those at the end."""

    def __init__(self, image: Any) -> None:
        self._first = _bonds(image, 1.25)
        self._pieces = _pieces(len(image), self._first)

    def changes(self, image: Any) -> tuple[int, int]:
        """Return how many bonds were made and broken.

        A bond is broken when longer than 1.35 times the sum of covalent radii, and made when shorter than 1.15 times it.

        Raises
        ------
        CalculationError
            Of kind ``refused``: the framework fell into more pieces than it was, or lost an atom.
        """
        loose = _bonds(image, 1.35)
        pieces = _pieces(len(image), loose)
        broken = len(self._first - loose)
        made = len(_bonds(image, 1.15) - self._first)
        if pieces > self._pieces:
            raise CalculationError(
                FailureKind.REFUSED,
                f"the framework fell apart: {broken} bonds broke, and {self._pieces} piece(s) became {pieces}; what came out"
                " is another structure than the one that was to be relaxed",
                details={"bonds_broken": broken, "bonds_made": made, "pieces": pieces, "pieces_before": self._pieces},
            )
        return made, broken


def _bonds(image: Any, tolerance: float) -> frozenset[Image]:
    from ase.neighborlist import neighbor_list

    radii = [tolerance * covalent_radius(symbol) for symbol in image.get_chemical_symbols()]
    first, second, shifts = neighbor_list("ijS", image, radii)
    return frozenset(
        (int(i), int(j), (int(s[0]), int(s[1]), int(s[2])))
        for i, j, s in zip(first, second, shifts, strict=True)
        if i < j or (i == j and tuple(s) > (0, 0, 0))
    )


def _pieces(count: int, bonds: frozenset[Image]) -> int:
    parent = list(range(count))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for i, j, _ in bonds:
        parent[root(i)] = root(j)
    return sum(parent[index] == index for index in range(count))


def finished(
    given: ConceptualAtoms,
    image: Any,
    *,
    loaded: Loaded,
    settings: RelaxationSettings,
    start: Measured,
    steps: int,
    bonding: Bonding,
) -> RelaxedFramework | Measured:
    """Return the relaxed framework of a last geometry, or what forces it has if it is not at a minimum.

    Nothing that was computed on the way counts: the structure as it is handed on is computed afresh.
    """
    atoms = _as_given(given, image)
    fresh = image_of(atoms, loaded)
    loaded.calculator.reset()
    found = measure(fresh, cell=settings.cell)
    if not found.within(settings.fmax):
        return found
    made, broken = bonding.changes(image)
    return RelaxedFramework(
        structure=atoms,
        energy=found.energy,
        start_energy=start.energy,
        force=found.force,
        stress=found.stress,
        steps=steps,
        volume_change=found.volume / start.volume - 1.0,
        model=loaded.label,
        bonds_made=made,
        bonds_broken=broken,
    )


def _as_given(given: ConceptualAtoms, image: Any) -> ConceptualAtoms:
    """Return an image's geometry with what else the given structure has; a cell that was turned round is turned back."""
    import numpy

    assert given.cell is not None
    copy = image.copy()
    if float(numpy.linalg.det(numpy.asarray(given.cell))) < 0:
        copy.set_cell(-copy.cell.array, scale_atoms=False)
    return from_ase(copy, charge=given.charge, multiplicity=given.multiplicity)
