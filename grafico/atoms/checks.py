"""What makes a structure impossible, found before anything is computed."""

from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.elements import atomic_number
from grafico.errors import MoleculeError

__all__ = ["CLASH_ANGSTROM", "check_structure", "electron_count"]

CLASH_ANGSTROM = 0.4
"""Atoms closer than this are a mistake: the shortest bond, that of H2, is 0.74 Å."""


def electron_count(atoms: ConceptualAtoms) -> int:
    """Return the number of electrons, cores included.

    Raises
    ------
    MoleculeError
        A symbol is no element.
    """
    total = -atoms.charge
    for index, symbol in enumerate(atoms.symbols, start=1):
        number = atomic_number(symbol)
        if number is None:
            raise MoleculeError(
                f"atom {index} is {symbol!r}, which is no element", hint="write element symbols as in 'C', 'Cl'"
            )
        total += number
    return total


def check_structure(atoms: ConceptualAtoms, *, clash: float = CLASH_ANGSTROM) -> None:
    """Refuse unknown elements, atoms on top of each other, and charge and multiplicity that do not fit.

    Raises
    ------
    MoleculeError
        Says which atoms, or which charge and multiplicity.
    """
    electrons = electron_count(atoms)
    unpaired = atoms.multiplicity - 1
    if electrons < 1:
        raise MoleculeError(f"charge {atoms.charge:+d} leaves no electrons", hint="lower the charge")
    if unpaired > electrons or (electrons - unpaired) % 2:
        kind = "even" if electrons % 2 == 0 else "odd"
        fitting = "1, 3, 5 ..." if electrons % 2 == 0 else "2, 4, 6 ..."
        raise MoleculeError(
            f"{electrons} electrons (charge {atoms.charge:+d}) cannot have the multiplicity {atoms.multiplicity}",
            hint=f"an {kind} number of electrons takes a multiplicity of {fitting}; check charge and multiplicity",
        )
    close = _closest_pair(atoms)
    if close is not None and close[2] < clash:
        first, second, distance = close
        raise MoleculeError(
            f"atoms {first + 1} ({atoms.symbols[first]}) and {second + 1} ({atoms.symbols[second]}) are "
            f"{distance:.3f} Å apart; less than {clash} Å is no structure",
            hint="check the coordinates, and that they are in Å",
        )


def _closest_pair(atoms: ConceptualAtoms) -> tuple[int, int, float] | None:
    import numpy

    if len(atoms) < 2:
        return None
    positions = numpy.asarray(atoms.positions)
    best: tuple[int, int, float] | None = None
    for index in range(len(atoms) - 1):
        squared = ((positions[index + 1 :] - positions[index]) ** 2).sum(axis=1)
        other = int(squared.argmin())
        distance = float(squared[other] ** 0.5)
        if best is None or distance < best[2]:
            best = (index, index + 1 + other, distance)
    return best
