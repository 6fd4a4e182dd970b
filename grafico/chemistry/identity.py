"""Which molecule, geometry and level of theory something is: what the IRIs of entities are derived from."""

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from grafico.atoms import ConceptualAtoms, bonds
from grafico.atoms.elements import hill_formula
from grafico.chemistry.concepts import (
    Conformer,
    Ensemble,
    EnsembleMember,
    ExcitedState,
    LevelOfTheory,
    Molecule,
    QuantumCalculation,
)
from grafico.errors import BadInput, MoleculeError
from grafico.knowledge import Entity

if TYPE_CHECKING:
    from grafico.chemistry.request import Level

__all__ = [
    "Identity",
    "atoms_of",
    "conformer_entity",
    "hill_formula",
    "identify",
    "level_entity",
    "molecule_entity",
]

MAX_PERCEIVED_ATOMS = 80
"""Larger structures get no bond orders: their search takes time that grows with the number of resonance forms."""


class Identity(NamedTuple):
    """What a molecule is called by machines."""

    identifier: str
    smiles: str | None
    inchikey: str | None


def identify(atoms: ConceptualAtoms | None = None, *, smiles: str | None = None) -> Identity:
    """Return the identity of a SMILES, or of a structure.

    The identifier is the InChIKey with fixed hydrogens, which tells tautomers apart. Where RDKit is missing or finds no
    bonding pattern, it is the SMILES as it was given, or a digest of the structure's connectivity.
    """
    if smiles is None and (atoms is None or len(atoms) > MAX_PERCEIVED_ATOMS or atoms.multiplicity != 1):
        return Identity(_connectivity(atoms), None, None) if atoms is not None else Identity("unknown", None, None)
    try:
        found = _perceive(atoms, smiles)
    except BadInput:
        found = None
    if found is not None:
        return found
    if smiles is not None:
        return Identity(f"smiles:{smiles}", smiles, None)
    assert atoms is not None
    return Identity(_connectivity(atoms), None, None)


def _perceive(atoms: ConceptualAtoms | None, smiles: str | None) -> Identity | None:
    from grafico.atoms.optional import require
    from grafico.chemistry.calculations.conformers import rdkit_molecule

    chem, base = require("rdkit.Chem"), require("rdkit.rdBase")
    inchi = require("rdkit.Chem.inchi")
    with base.BlockLogs():
        molecule = rdkit_molecule(smiles=smiles, atoms=None if smiles else atoms)
        fixed = inchi.MolToInchi(molecule, options="/FixedH")
        key = inchi.InchiToInchiKey(fixed) if fixed else ""
        if not key:
            return None
        return Identity(
            identifier=f"inchikey-fixedh:{key}",
            smiles=chem.MolToSmiles(chem.RemoveHs(molecule)),
            inchikey=inchi.MolToInchiKey(molecule) or None,
        )


def _connectivity(atoms: ConceptualAtoms) -> str:
    # Color refinement: each atom is named by its neighbors' names, as often as the graph is wide.
    neighbors: list[list[int]] = [[] for _ in atoms.symbols]
    for i, j in bonds(atoms):
        neighbors[i].append(j)
        neighbors[j].append(i)
    names = list(atoms.symbols)
    for _ in range(min(len(atoms), 64)):
        names = [_digest(names[i], *sorted(names[j] for j in neighbors[i])) for i in range(len(names))]
    return f"connectivity:{_digest(*sorted(names))}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def conformer_entity(atoms: ConceptualAtoms, molecule: Molecule) -> Conformer:
    """Return the entity of a geometry."""
    import numpy

    return Conformer(
        molecule=molecule,
        symbols=atoms.symbols,
        positions=numpy.asarray(atoms.positions, dtype="<f8"),
        content=atoms.content_digest,
    )


def molecule_entity(atoms: ConceptualAtoms, *, label: str = "", smiles: str | None = None) -> Molecule:
    """Return the molecule that a structure is a geometry of."""
    name = identify(atoms, smiles=smiles)
    return Molecule(
        label=label or None,
        identifier=name.identifier,
        charge=atoms.charge,
        multiplicity=atoms.multiplicity,
        formula=hill_formula(atoms.symbols),
        smiles=name.smiles,
        inchikey=name.inchikey,
    )


def level_entity(level: "Level") -> LevelOfTheory:
    """Return the entity of a level of theory."""
    return LevelOfTheory(
        label=level.label,
        method=level.method,
        basis=level.basis,
        dispersion=level.dispersion,
        solvent_model=level.solvent.model if level.solvent else None,
        solvent=level.solvent.name if level.solvent else None,
        restricted=level.restricted,
        density_fit=level.density_fit,
        auxiliary_basis=level.auxiliary_basis,
        grid=level.grid,
        scf_convergence=level.scf_convergence,
    )


def atoms_of(entity: Entity) -> ConceptualAtoms:
    """Return the structure that an entity of the knowledge base stands for; for jobs that begin with an IRI.

    Raises
    ------
    MoleculeError
        It is nothing that has one geometry.
    """
    conformer = entity
    if isinstance(entity, Ensemble):
        conformer = entity.main.conformer
    elif isinstance(entity, EnsembleMember | QuantumCalculation | ExcitedState):
        conformer = entity.conformer
    if not isinstance(conformer, Conformer):
        raise MoleculeError(
            f"<{entity.iri}> is a {type(entity).__name__}, which has no one geometry",
            hint="name a conformer, a calculation, or an ensemble for its main conformer",
        )
    return ConceptualAtoms(
        symbols=conformer.symbols,
        positions=tuple((float(x), float(y), float(z)) for x, y, z in conformer.positions),
        charge=conformer.molecule.charge,
        multiplicity=conformer.molecule.multiplicity,
    )
