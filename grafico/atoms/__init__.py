"""Structures: ``ConceptualAtoms``, their formats, checks and connectivity."""

from grafico.atoms.ase import from_ase, iri_of, to_ase
from grafico.atoms.checks import check_structure, electron_count
from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.connectivity import BondChanges, bond_changes, bonds, fragments
from grafico.atoms.formats import (
    read_cif,
    read_frames,
    read_mol,
    read_qcschema,
    read_structure,
    read_xyz,
    write_cif,
    write_extxyz,
    write_mol,
    write_xyz,
)
from grafico.atoms.losses import Loss, Written, losses, write_structure
from grafico.atoms.qcschema import from_qcelemental, from_qcschema, iri_of_qcschema, to_qcelemental, to_qcschema

__all__ = [
    "BondChanges",
    "ConceptualAtoms",
    "Loss",
    "Vector",
    "Written",
    "bond_changes",
    "bonds",
    "check_structure",
    "electron_count",
    "fragments",
    "from_ase",
    "from_qcelemental",
    "from_qcschema",
    "iri_of",
    "iri_of_qcschema",
    "losses",
    "read_cif",
    "read_frames",
    "read_mol",
    "read_qcschema",
    "read_structure",
    "read_xyz",
    "to_ase",
    "to_qcelemental",
    "to_qcschema",
    "write_cif",
    "write_extxyz",
    "write_mol",
    "write_structure",
    "write_xyz",
]
