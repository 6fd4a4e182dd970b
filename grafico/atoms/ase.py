"""To ASE and back, without loss."""

import json
from typing import Any

from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.optional import require
from grafico.errors import MoleculeError

__all__ = ["from_ase", "iri_of", "to_ase"]

_IRI = "grafico_iri"
_DOCKING = "docking_points"


def to_ase(atoms: ConceptualAtoms, *, iri: str | None = None) -> Any:
    """Return ``ase.Atoms``; charge, multiplicity, docking points and the identity stand in ``info``.

    Parameters
    ----------
    iri
        The identity of the entity that this structure belongs to; :func:`iri_of` reads it back.

    Raises
    ------
    MissingExtra
        ASE is not installed.
    """
    ase = require("ase", purpose="to hand structures to its calculators")
    info: dict[str, Any] = {"charge": atoms.charge, "multiplicity": atoms.multiplicity}
    if atoms.docking_points:
        # A string survives ASE's own file formats, which flatten lists of lists.
        info[_DOCKING] = json.dumps(atoms.docking_points)
    if iri is not None:
        info[_IRI] = iri
    return ase.Atoms(
        symbols=list(atoms.symbols),
        positions=[list(position) for position in atoms.positions],
        cell=[list(vector) for vector in atoms.cell] if atoms.cell else None,
        pbc=atoms.cell is not None,
        info=info,
    )


def from_ase(atoms: Any, *, charge: int | None = None, multiplicity: int | None = None) -> ConceptualAtoms:
    """Return the structure of an ``ase.Atoms``; charge and multiplicity come from ``info`` unless given.

    Raises
    ------
    MoleculeError
        It has no atoms, or is periodic in fewer than three directions.
    """
    if len(atoms) == 0:
        raise MoleculeError("the ASE object has no atoms")
    periodic = [bool(flag) for flag in atoms.pbc]
    if any(periodic) and not all(periodic):
        raise MoleculeError(
            "the ASE object is periodic in one or two directions only",
            hint="make it periodic in all three with a vacuum, or in none",
        )
    docking = json.loads(atoms.info.get(_DOCKING, "[]"))
    cell = [_vector(row) for row in atoms.cell.array] if all(periodic) else None
    return ConceptualAtoms(
        symbols=tuple(atoms.get_chemical_symbols()),
        positions=tuple(_vector(row) for row in atoms.get_positions()),
        charge=int(atoms.info.get("charge", 0)) if charge is None else charge,
        multiplicity=int(atoms.info.get("multiplicity", 1)) if multiplicity is None else multiplicity,
        cell=(cell[0], cell[1], cell[2]) if cell else None,
        docking_points=tuple(_vector(row) for row in docking),
    )


def iri_of(atoms: Any) -> str | None:
    """Return the identity that :func:`to_ase` was given."""
    iri = atoms.info.get(_IRI)
    return None if iri is None else str(iri)


def _vector(row: Any) -> Vector:
    x, y, z = (float(component) for component in row)
    return (x, y, z)
