"""From what a job says about a molecule to a structure in three dimensions."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from grafico.atoms import ConceptualAtoms, check_structure, electron_count, read_structure, read_xyz
from grafico.atoms.optional import require
from grafico.chemistry.level import closest
from grafico.chemistry.names import ALIASES, NAMES
from grafico.chemistry.request import MoleculeInput
from grafico.errors import KnowledgeError, MoleculeError

__all__ = ["SEED", "from_knowledge_base", "from_smiles", "resolve_molecule", "smiles_of_name"]

SEED = 0xC0FFEE
"""Of the embedding, so that the same SMILES gives the same structure everywhere."""


def resolve_molecule(
    molecule: MoleculeInput,
    *,
    folder: Path | None = None,
    lookup: Callable[[str], ConceptualAtoms] | None = None,
    seed: int = SEED,
) -> ConceptualAtoms:
    """Return the structure that a job means, checked.

    Parameters
    ----------
    folder
        Where a relative ``file`` starts; default the working folder.
    lookup
        Finds the structure of an IRI; default: in the user's own knowledge base.
    seed
        Of the three-dimensional embedding of a SMILES.

    Raises
    ------
    MoleculeError
        Says what is wrong with the SMILES, name, file or text, and where.
    MissingExtra
        RDKit is needed and not installed.
    """
    charge, multiplicity = molecule.charge, molecule.multiplicity
    if molecule.smiles is not None:
        atoms = from_smiles(molecule.smiles, charge=charge, multiplicity=multiplicity, seed=seed)
    elif molecule.name is not None:
        smiles = smiles_of_name(molecule.name)
        atoms = from_smiles(smiles, charge=charge, multiplicity=multiplicity, seed=seed)
    elif molecule.file is not None:
        path = Path(molecule.file).expanduser()
        atoms = read_structure((folder or Path()) / path, charge=charge, multiplicity=multiplicity)
    elif molecule.xyz is not None:
        atoms = _from_text(molecule.xyz, charge, multiplicity)
    else:
        assert molecule.iri is not None
        atoms = (lookup or from_knowledge_base)(molecule.iri)
        atoms = _with_spin(atoms, charge, multiplicity)
    if multiplicity is None and (molecule.file is not None or molecule.xyz is not None):
        atoms = _lowest_spin(atoms)
    if atoms.cell is not None:
        raise MoleculeError(
            "a molecule was expected, and this structure has a unit cell",
            hint="give the molecule alone, without its cell",
        )
    check_structure(atoms)
    return atoms


def from_knowledge_base(iri: str) -> ConceptualAtoms:
    """Return the structure of a conformer, a calculation, or an ensemble's main conformer.

    Raises
    ------
    MoleculeError
        The user's knowledge base has nothing of this IRI that has a geometry.
    """
    from grafico.chemistry.identity import atoms_of
    from grafico.knowledge import open_store

    knowledge = open_store()
    try:
        return atoms_of(knowledge.fetch(iri, depth=3))
    except KnowledgeError as error:
        raise MoleculeError(
            f"no molecule could be had from the knowledge base {knowledge.place}: {error.message}", hint=error.hint
        ) from error


def smiles_of_name(name: str) -> str:
    """Return the SMILES of a name of the shipped table.

    Raises
    ------
    MoleculeError
        No such name; with suggestions.
    """
    key = " ".join(name.lower().split())
    key = ALIASES.get(key, key)
    if key not in NAMES:
        hint = closest(key, (*NAMES, *ALIASES)) or "give a SMILES or a structure file instead"
        raise MoleculeError(f"no molecule is called {name!r} in the table of {len(NAMES)} names", hint=hint)
    return NAMES[key]


# Members of a sweep ask for the same molecules again and again, and embedding a large one takes a second.
@lru_cache(maxsize=512)
def from_smiles(
    smiles: str, *, charge: int | None = None, multiplicity: int | None = None, seed: int = SEED
) -> ConceptualAtoms:
    """Build a structure: ETKDGv3 embedding (seeded), then MMFF94, or UFF where MMFF94 lacks parameters.

    Parameters
    ----------
    charge
        Goes before the formal charge of the SMILES: a radical anion is the neutral's SMILES with charge -1.

    Raises
    ------
    MoleculeError
        The SMILES cannot be read or embedded, or holds several molecules.

    Source: S. Wang et al., J. Chem. Inf. Model. 2020, 60, 2044, doi:10.1021/acs.jcim.0c00025.
    """
    chem = require("rdkit.Chem", purpose="to read SMILES")
    molecule = _parse(chem, smiles)
    formal = int(chem.GetFormalCharge(molecule))
    radicals = sum(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())
    atoms = ConceptualAtoms(
        symbols=tuple(atom.GetSymbol() for atom in molecule.GetAtoms()),
        positions=_embed(molecule, smiles, seed),
        charge=formal if charge is None else charge,
        multiplicity=radicals + 1,
    )
    if multiplicity is not None:
        return atoms.model_copy(update={"multiplicity": multiplicity})
    if atoms.charge != formal:
        # The electrons that the job adds or takes away pair up as far as they can.
        return atoms.model_copy(update={"multiplicity": 1 + electron_count(atoms) % 2})
    return atoms


def _parse(chem: Any, smiles: str) -> Any:
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule = chem.MolFromSmiles(smiles)
        if molecule is None:
            unsanitized = chem.MolFromSmiles(smiles, sanitize=False)
            why = _problem(chem, unsanitized) if unsanitized is not None else "its grammar is wrong"
            raise MoleculeError(
                f"SMILES {smiles!r} cannot be read: {why}", hint="check brackets, ring closures, valences"
            )
    if molecule.GetNumAtoms() == 0:
        raise MoleculeError(f"SMILES {smiles!r} has no atoms")
    if any(atom.GetAtomicNum() == 0 for atom in molecule.GetAtoms()):
        raise MoleculeError(f"SMILES {smiles!r} has an atom of no element ('*')", hint="name every atom")
    if "." in smiles and len(chem.GetMolFrags(molecule)) > 1:
        raise MoleculeError(
            f"SMILES {smiles!r} holds several molecules, and says nothing of how they lie to each other",
            hint="give one molecule, or a structure file of the complex",
        )
    return chem.AddHs(molecule)


def _problem(chem: Any, molecule: Any) -> str:
    problems = chem.DetectChemistryProblems(molecule)
    return str(problems[0].Message()) if problems else "it does not describe a molecule"


def _embed(molecule: Any, smiles: str, seed: int) -> tuple[tuple[float, float, float], ...]:
    from rdkit import rdBase

    embedding: Any = require("rdkit.Chem.AllChem", purpose="to build structures")
    if molecule.GetNumAtoms() == 1:
        return ((0.0, 0.0, 0.0),)
    with rdBase.BlockLogs():
        options = embedding.ETKDGv3()
        options.randomSeed = seed & 0x7FFFFFFF
        status = embedding.EmbedMolecule(molecule, options)
        if status != 0:
            options.useRandomCoords = True
            status = embedding.EmbedMolecule(molecule, options)
        if status != 0:
            raise MoleculeError(
                f"no three-dimensional structure could be built from SMILES {smiles!r}", hint="give a structure file"
            )
        if embedding.MMFFHasAllMoleculeParams(molecule):
            embedding.MMFFOptimizeMolecule(molecule, maxIters=2000)
        elif embedding.UFFHasAllMoleculeParams(molecule):
            embedding.UFFOptimizeMolecule(molecule, maxIters=2000)
    rows = molecule.GetConformer().GetPositions()
    return tuple((float(x), float(y), float(z)) for x, y, z in rows)


def _from_text(text: str, charge: int | None, multiplicity: int | None) -> ConceptualAtoms:
    """Read XYZ text with its header lines, or bare lines of symbol and coordinates."""
    lines = text.strip().splitlines()
    if lines and not lines[0].strip().isdigit() and len(lines[0].split()) == 4:
        # Line numbers in messages then count the two header lines that were left out.
        text = f"{len(lines)}\n\n" + "\n".join(lines) + "\n"
    return read_xyz(text, "the job's xyz", charge=charge, multiplicity=multiplicity)


def _with_spin(atoms: ConceptualAtoms, charge: int | None, multiplicity: int | None) -> ConceptualAtoms:
    update: dict[str, int] = {}
    if charge is not None:
        update["charge"] = charge
    if multiplicity is not None:
        update["multiplicity"] = multiplicity
    return atoms.model_copy(update=update)


def _lowest_spin(atoms: ConceptualAtoms) -> ConceptualAtoms:
    """Return the doublet where the file's multiplicity (its default 1) cannot hold an odd number of electrons."""
    if atoms.multiplicity == 1 and electron_count(atoms) % 2:
        return atoms.model_copy(update={"multiplicity": 2})
    return atoms
