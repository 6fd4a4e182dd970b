"""To ASE and back, without loss."""

import json
from typing import Any

from pydantic import ValidationError

from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.elements import atomic_number
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
        It has no atoms, or some that are no elements; it is periodic in fewer than three directions, or without a
        cell; or what stands in ``info`` is no such value.
    """
    if len(atoms) == 0:
        raise MoleculeError("the ASE object has no atoms")
    symbols = tuple(atoms.get_chemical_symbols())
    if (odd := next((symbol for symbol in symbols if atomic_number(symbol) is None), None)) is not None:
        raise MoleculeError(
            f"the ASE object has an atom {odd!r}, which is no element",
            hint=f"take it out; points that are no atoms stand in info[{_DOCKING!r}]",
        )
    periodic = [bool(flag) for flag in atoms.pbc]
    if any(periodic) and not all(periodic):
        raise MoleculeError(
            "the ASE object is periodic in one or two directions only",
            hint="make it periodic in all three with a vacuum, or in none",
        )
    if all(periodic) and atoms.cell.rank < 3:
        raise MoleculeError(
            "the ASE object is periodic, and its cell has no volume", hint="give it a cell, or set pbc to False"
        )
    cell = [_vector(row) for row in atoms.cell.array] if all(periodic) else None
    try:
        return ConceptualAtoms(
            symbols=symbols,
            positions=tuple(_vector(row) for row in atoms.get_positions()),
            charge=_whole(atoms.info, "charge", 0) if charge is None else charge,
            multiplicity=_whole(atoms.info, "multiplicity", 1) if multiplicity is None else multiplicity,
            cell=(cell[0], cell[1], cell[2]) if cell else None,
            docking_points=_docking_points(atoms.info),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise MoleculeError(f"the ASE object: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _whole(info: Any, name: str, default: int) -> int:
    value = info.get(name, default)
    try:
        number = int(value)
        if number == float(value):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise MoleculeError(f"the ASE object's info[{name!r}] is {value!r:.40}, no whole number")


def _docking_points(info: Any) -> tuple[Vector, ...]:
    value = info.get(_DOCKING, ())
    try:
        rows = json.loads(value) if isinstance(value, str) else value
        return tuple(_vector(row) for row in rows)
    except (TypeError, ValueError) as error:
        raise MoleculeError(f"the ASE object's info[{_DOCKING!r}] is {value!r:.40}, no list of points") from error


def iri_of(atoms: Any) -> str | None:
    """Return the identity that :func:`to_ase` was given."""
    iri = atoms.info.get(_IRI)
    return None if iri is None else str(iri)


def _vector(row: Any) -> Vector:
    x, y, z = (float(component) for component in row)
    return (x, y, z)
