"""MOL and SDF files, read and written through RDKit."""

from typing import Any

from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.errors import MoleculeError

__all__ = ["read_mol", "write_mol"]


def read_mol(
    text: str, where: str = "the MOL text", *, charge: int | None = None, multiplicity: int | None = None
) -> ConceptualAtoms:
    """Read the one molecule of a MOL or SDF text (V2000 or V3000) with 3D coordinates and explicit hydrogens.

    Charge and multiplicity come from formal charges and radicals unless given.

    Raises
    ------
    MoleculeError
        Empty, several records, not readable, flat, or without its hydrogens.
    MissingExtra
        RDKit is not installed.
    """
    if not text.strip():
        raise MoleculeError(f"{where} is empty", hint="a MOL file has three header lines, then the counts line")
    records = [record for record in text.split("$$$$") if record.strip()]
    if len(records) > 1:
        raise MoleculeError(
            f"{where} holds {len(records)} molecules; one is expected", hint="keep the one that is meant"
        )
    block = records[0] if records[0].startswith(("\n", "\r\n")) or len(records) == 1 else records[0].lstrip("\r\n")
    if "M  END" not in block:
        raise MoleculeError(f"{where} has no line 'M  END'", hint="the file is cut off, or is no MOL or SDF file")
    mol = _parse(block, where)
    if mol.GetNumAtoms() == 0:
        raise MoleculeError(f"{where} has no atoms")
    conformer = mol.GetConformer()
    if not conformer.Is3D():
        raise MoleculeError(
            f"{where} is a flat drawing without 3D coordinates", hint="give a SMILES, or a file with 3D coordinates"
        )
    missing = sum(atom.GetTotalNumHs(includeNeighbors=False) for atom in mol.GetAtoms())
    if missing:
        raise MoleculeError(
            f"{where} leaves out {missing} hydrogen atom{'s' if missing > 1 else ''}",
            hint="write all hydrogens, with coordinates; or give a SMILES",
        )
    positions = conformer.GetPositions()
    formal = sum(atom.GetFormalCharge() for atom in mol.GetAtoms())
    radicals = sum(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())
    return ConceptualAtoms(
        symbols=tuple(atom.GetSymbol() for atom in mol.GetAtoms()),
        positions=tuple((float(x), float(y), float(z)) for x, y, z in positions),
        charge=formal if charge is None else charge,
        multiplicity=radicals + 1 if multiplicity is None else multiplicity,
    )


def _parse(block: str, where: str) -> Any:
    chem = require("rdkit.Chem", purpose="to read MOL and SDF files")
    base = require("rdkit.rdBase")
    with base.BlockLogs():
        mol = chem.MolFromMolBlock(block, sanitize=False, removeHs=False, strictParsing=True)
        if mol is None:
            raise MoleculeError(
                f"{where} is no MOL or SDF file that RDKit can read",
                hint="check the counts line (line 4) against the atom and bond lines",
            )
        try:
            chem.SanitizeMol(mol)
        except ValueError as error:
            raise MoleculeError(f"{where}: {error}", hint="check valences and charges") from error
    return mol


def write_mol(atoms: ConceptualAtoms, *, name: str = "") -> str:
    """Return a V2000 MOL text; bond orders are perceived from the distances and the charge.

    A MOL file cannot hold a cell, docking points, or a multiplicity that is no radical's.

    Raises
    ------
    MoleculeError
        No bonding pattern fits geometry and charge.
    MissingExtra
        RDKit is not installed.
    """
    from grafico.atoms.xyz import write_xyz

    chem = require("rdkit.Chem", purpose="to write MOL files")
    bonding = require("rdkit.Chem.rdDetermineBonds")
    base = require("rdkit.rdBase")
    with base.BlockLogs():
        mol = chem.MolFromXYZBlock(write_xyz(atoms))
        try:
            bonding.DetermineBonds(mol, charge=atoms.charge)
        except (ValueError, RuntimeError) as error:
            raise MoleculeError(f"no bonding pattern fits this geometry and charge: {error}") from error
    mol.SetProp("_Name", name)
    return str(chem.MolToMolBlock(mol))
