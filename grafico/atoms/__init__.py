"""Structures: ``ConceptualAtoms``, their formats, checks and connectivity."""

from grafico.atoms.ase import from_ase, iri_of, to_ase
from grafico.atoms.checks import check_structure, electron_count
from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.connectivity import BondChanges, bond_changes, bonds, fragments
from grafico.atoms.formats import (
    read_frames,
    read_mol,
    read_structure,
    read_xyz,
    write_extxyz,
    write_mol,
    write_xyz,
)

__all__ = [
    "BondChanges",
    "ConceptualAtoms",
    "Vector",
    "bond_changes",
    "bonds",
    "check_structure",
    "electron_count",
    "fragments",
    "from_ase",
    "iri_of",
    "read_frames",
    "read_mol",
    "read_structure",
    "read_xyz",
    "to_ase",
    "write_extxyz",
    "write_mol",
    "write_xyz",
]
