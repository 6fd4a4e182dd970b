"""What a format cannot hold of a structure, said before it is lost."""

from typing import Literal, TypeAlias

from pydantic import Field

from grafico.atoms.cif import write_cif
from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.molfile import write_mol
from grafico.atoms.qcschema import to_qcschema
from grafico.atoms.xyz import write_extxyz, write_xyz
from grafico.calculations import Model
from grafico.errors import MoleculeError

__all__ = ["FORMATS", "FormatName", "Loss", "Written", "losses", "write_structure"]

FormatName: TypeAlias = Literal["xyz", "extxyz", "cif", "mol", "qcschema"]
FORMATS: tuple[FormatName, ...] = ("xyz", "extxyz", "cif", "mol", "qcschema")


class Loss(Model):
    """Something of a structure that a format does not hold."""

    field: Literal["charge", "multiplicity", "cell", "positions", "docking_points"]
    reason: str


class Written(Model):
    """A structure in a format, and what of it is not there."""

    text: str
    losses: tuple[Loss, ...] = Field(default=(), description="empty if all of it can be read back")


def losses(atoms: ConceptualAtoms, format_: FormatName) -> tuple[Loss, ...]:
    """Return what of a structure cannot be read back from a format.

    Parameters
    ----------
    atoms
        The structure.
    format_
        ``xyz``, ``extxyz``, ``cif``, ``mol`` or ``qcschema``. Extended XYZ and QCSchema lose nothing, nor does
        :func:`~grafico.atoms.ase.to_ase`.
    """
    found: list[Loss] = []
    if format_ in ("xyz", "cif"):
        if atoms.charge:
            found.append(Loss(field="charge", reason=f"{_SAYS[format_]} tells no charge; it reads as neutral"))
        if atoms.multiplicity != 1:
            found.append(Loss(field="multiplicity", reason=f"{_SAYS[format_]} tells no spin; it reads as a singlet"))
    if format_ == "mol" and atoms.multiplicity != 1:
        found.append(Loss(field="multiplicity", reason="a MOL file tells radicals by atom, from which it is guessed"))
    if format_ in ("xyz", "mol") and atoms.cell is not None:
        found.append(Loss(field="cell", reason=f"{_SAYS[format_]} tells no cell; it reads as a molecule"))
    if format_ in ("xyz", "cif", "mol") and atoms.docking_points:
        found.append(Loss(field="docking_points", reason=f"{_SAYS[format_]} has atoms only"))
    if format_ == "cif":
        found.append(Loss(field="cell", reason="a CIF file tells lengths and angles, not how the cell is turned"))
        found.append(Loss(field="positions", reason="they turn with the cell, and are rounded with it, to 1e-8 Å"))
    if format_ == "mol":
        found.append(Loss(field="positions", reason="a MOL file has four digits"))
    return tuple(found)


_SAYS = {"xyz": "a plain XYZ file", "cif": "a CIF file", "mol": "a MOL file"}


def write_structure(atoms: ConceptualAtoms, format_: FormatName, *, name: str = "") -> Written:
    """Return a structure in a format, and what of it that format does not hold.

    Raises
    ------
    MoleculeError
        The format has no place for such a structure at all, such as CIF for a molecule without a cell.
    MissingExtra
        MOL needs RDKit.
    """
    import json

    if format_ == "xyz":
        text = write_xyz(atoms, name)
    elif format_ == "extxyz":
        text = write_extxyz([atoms], [{"name": name}] if name else [])
    elif format_ == "cif":
        text = write_cif(atoms, name=name or "structure")
    elif format_ == "mol":
        text = write_mol(atoms, name=name)
    elif format_ == "qcschema":
        text = json.dumps({**to_qcschema(atoms), **({"name": name} if name else {})}, ensure_ascii=False) + "\n"
    else:
        raise MoleculeError(f"the format {format_!r} is not known", hint=f"one of {', '.join(FORMATS)}")
    return Written(text=text, losses=losses(atoms, format_))
