"""QCSchema molecules (https://github.com/MolSSI/QCSchema), as dictionaries and as QCElemental's models.

QCSchema counts in bohr and knows neither cells nor docking points. What it cannot hold, and the coordinates in Å to the
bit, stand under ``extras``; they are believed as long as the geometry is still the one that they belong to.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.elements import SYMBOLS, atomic_number
from grafico.atoms.optional import require
from grafico.errors import MoleculeError
from grafico.units import ANGSTROM_PER_BOHR

__all__ = ["from_qcelemental", "from_qcschema", "iri_of_qcschema", "read_qcschema", "to_qcelemental", "to_qcschema"]

_NAME = "qcschema_molecule"
_EXTRAS = "grafico"
_SAME = 1e-7
"""Bohr; programs round coordinates to eight digits."""


def to_qcschema(atoms: ConceptualAtoms, *, iri: str | None = None) -> dict[str, Any]:
    """Return the QCSchema molecule (version 2) of a structure, ready for JSON.

    Parameters
    ----------
    iri
        The identity of the entity that this structure belongs to; :func:`iri_of_qcschema` reads it back.
    """
    kept: dict[str, Any] = {"positions": [list(position) for position in atoms.positions]}
    if atoms.cell is not None:
        kept["cell"] = [list(vector) for vector in atoms.cell]
    if atoms.docking_points:
        kept["docking_points"] = [list(point) for point in atoms.docking_points]
    if iri is not None:
        kept["iri"] = iri
    return {
        "schema_name": _NAME,
        "schema_version": 2,
        "symbols": list(atoms.symbols),
        "geometry": [component / ANGSTROM_PER_BOHR for position in atoms.positions for component in position],
        "molecular_charge": atoms.charge,
        "molecular_multiplicity": atoms.multiplicity,
        "fix_com": True,
        "fix_orientation": True,
        "extras": {_EXTRAS: kept},
    }


def from_qcschema(molecule: Mapping[str, Any], where: str = "the QCSchema molecule") -> ConceptualAtoms:
    """Return the structure of a QCSchema molecule; ghost atoms are refused.

    Raises
    ------
    MoleculeError
        It is no such molecule; says what is wrong with it.
    """
    if not isinstance(molecule, Mapping):
        raise MoleculeError(f"{where} is no object", hint=_LOOKS)
    said = str(molecule.get("schema_name", _NAME))
    if said not in (_NAME, "qcschema_molecule_input", "qc_schema"):
        raise MoleculeError(f"{where} is a {said!r:.60}, no {_NAME}", hint=_LOOKS)
    symbols = _symbols(molecule.get("symbols"), where)
    geometry = _geometry(molecule.get("geometry"), len(symbols), where)
    real = molecule.get("real")
    if real is not None and (not isinstance(real, list | tuple) or len(real) != len(symbols)):
        raise MoleculeError(f"{where}: real is no list of {len(symbols)} truth values, one an atom", hint=_LOOKS)
    if real is not None and not all(bool(flag) for flag in real):
        raise MoleculeError(f"{where} has ghost atoms, which are no part of a structure", hint="leave them out")
    positions = [[component * ANGSTROM_PER_BOHR for component in row] for row in geometry]
    kept = _kept(molecule, geometry)
    try:
        return ConceptualAtoms.model_validate(
            {
                "symbols": tuple(symbols),
                "positions": kept.get("positions", positions),
                "charge": _whole(molecule.get("molecular_charge", 0), "molecular_charge", where),
                "multiplicity": _whole(molecule.get("molecular_multiplicity", 1), "molecular_multiplicity", where),
                "cell": kept.get("cell"),
                "docking_points": kept.get("docking_points", ()),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise MoleculeError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def iri_of_qcschema(molecule: Mapping[str, Any]) -> str | None:
    """Return the identity that :func:`to_qcschema` was given."""
    extras = molecule.get("extras")
    kept = extras.get(_EXTRAS) if isinstance(extras, Mapping) else None
    iri = kept.get("iri") if isinstance(kept, Mapping) else None
    return None if iri is None else str(iri)


def to_qcelemental(atoms: ConceptualAtoms, *, iri: str | None = None) -> Any:
    """Return the ``qcelemental.models.Molecule`` of a structure; see :func:`to_qcschema`.

    Raises
    ------
    MoleculeError
        QCElemental refuses it: charge and multiplicity that do not fit, or atoms on top of each other.
    MissingExtra
        QCElemental is not installed.
    """
    models = require("qcelemental.models", extra="qcschema", purpose="for its Molecule")
    refusals = (ValueError, require("qcelemental.exceptions", extra="qcschema").ValidationError)
    try:
        return models.Molecule(**to_qcschema(atoms, iri=iri))
    except refusals as error:
        raise MoleculeError(f"QCElemental refuses the structure: {str(error)[:300]}") from error


def from_qcelemental(molecule: Any) -> ConceptualAtoms:
    """Return the structure of a ``qcelemental.models.Molecule``; see :func:`from_qcschema`."""
    said = {
        "symbols": [str(symbol) for symbol in molecule.symbols],
        "geometry": [float(component) for component in molecule.geometry.ravel()],
        "molecular_charge": molecule.molecular_charge,
        "molecular_multiplicity": molecule.molecular_multiplicity,
        "real": None if molecule.real is None else [bool(flag) for flag in molecule.real],
        "extras": molecule.extras,
    }
    return from_qcschema(said, "the QCElemental molecule")


def read_qcschema(text: str, where: str = "the JSON text") -> ConceptualAtoms:
    """Read a QCSchema molecule from JSON.

    Raises
    ------
    MoleculeError
        It is no JSON, or no such molecule.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MoleculeError(f"{where} is no JSON: {str(error)[:200]}") from error
    return from_qcschema(said, where)


_LOOKS = "it has symbols, and a geometry of three numbers an atom in bohr"


def _symbols(value: Any, where: str) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        raise MoleculeError(f"{where} has no list of symbols", hint=_LOOKS)
    symbols = [str(symbol)[:1].upper() + str(symbol)[1:].lower() for symbol in value]
    for number, symbol in enumerate(symbols, start=1):
        if atomic_number(symbol) is None:
            raise MoleculeError(
                f"{where}: atom {number} is {symbol!r:.40}, which is no element of {SYMBOLS[0]}…{SYMBOLS[-1]}"
            )
    return symbols


def _geometry(value: Any, count: int, where: str) -> list[list[float]]:
    try:
        rows = list(value)
        flat = [float(c) for row in rows for c in (row if isinstance(row, list | tuple) else [row])]
    except (TypeError, ValueError) as error:
        raise MoleculeError(f"{where}: its geometry is no list of numbers", hint=_LOOKS) from error
    if len(flat) != 3 * count:
        raise MoleculeError(f"{where} has {count} symbols and {len(flat)} coordinates", hint=_LOOKS)
    return [flat[at : at + 3] for at in range(0, len(flat), 3)]


def _kept(molecule: Mapping[str, Any], geometry: list[list[float]]) -> Mapping[str, Any]:
    """Return what grafico kept aside, unless the geometry has been changed since."""
    extras = molecule.get("extras")
    kept = extras.get(_EXTRAS) if isinstance(extras, Mapping) else None
    if not isinstance(kept, Mapping):
        return {}
    try:
        flat = [float(component) for row in kept["positions"] for component in row]
    except (KeyError, TypeError, ValueError):
        return {}
    now = [component for row in geometry for component in row]
    same = len(flat) == len(now) and all(
        abs(a / ANGSTROM_PER_BOHR - b) < _SAME * max(1.0, abs(b)) for a, b in zip(flat, now, strict=True)
    )
    # A cell and docking points belong to the coordinates beside them.
    return kept if same else {}


def _whole(value: Any, name: str, where: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise MoleculeError(f"{where}: {name} is {value!r:.40}, no number") from error
    if not number.is_integer():
        raise MoleculeError(f"{where}: {name} is {number:g}, no whole number")
    return int(number)
