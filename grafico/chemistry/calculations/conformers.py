"""Conformer embedding (RDKit ETKDGv3, screened with MMFF94s) and pruning.

Source: S. Wang, J. Witek, G. A. Landrum, S. Riniker, J. Chem. Inf. Model. 2020, 60, 2044 (ETKDGv3);
https://www.rdkit.org/docs/source/rdkit.Chem.rdDistGeom.html.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from pydantic import Field, model_validator

from grafico.atoms import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.atoms.superpose import anchor_points, best_rmsd
from grafico.calculations import CalculationError, FailureKind, Model, Resources, WorkContext, calculation
from grafico.chemistry.conformers import Candidate, Pruned, PruneSettings, prune
from grafico.errors import MoleculeError
from grafico.units import KCAL_MOL_PER_HARTREE

__all__ = [
    "EMBED_RESOURCES",
    "PRUNE_RESOURCES",
    "EmbedInput",
    "Embedded",
    "PruneInput",
    "embed_conformers",
    "prune_conformers",
    "rdkit_molecule",
    "require_defined_stereo",
    "stereoisomers",
]

EMBED_RESOURCES = Resources(memory_mib=2048, walltime_s=3600.0)
PRUNE_RESOURCES = Resources(memory_mib=1024, walltime_s=3600.0)


class EmbedInput(Model):
    """A molecule by its SMILES or by a structure, and how many structures to embed."""

    smiles: str | None = Field(default=None, description="SMILES with all stereocenters defined")
    atoms: ConceptualAtoms | None = Field(default=None, description="a structure; its bonds are perceived")
    seeds: int = Field(default=50, ge=1, le=10_000, description="structures to embed")
    batches: int = Field(default=5, ge=1, le=100, description="batches that the seeds are counted in, for convergence")
    seed: int = Field(default=61453, ge=0, le=2_000_000_000, description="seed of the random numbers")
    screening_window: float = Field(
        default=25.0,
        gt=0,
        le=1000,
        description="force-field energy above the lowest up to which structures are kept, kcal/mol",
    )
    screening_rmsd: float = Field(
        default=0.15,
        gt=0,
        le=2,
        description="RMSD of heavy atoms and hydrogen centroids up to which two starts are one, Å",
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> "EmbedInput":
        if (self.smiles is None) == (self.atoms is None):
            raise ValueError("give either smiles or atoms")
        return self


class Embedded(Model):
    """Structures that await an optimization."""

    candidates: tuple[Candidate, ...] = Field(description="force-field energies in hartree, lowest first")
    embedded: int = Field(ge=0, description="seeds that gave a structure")
    duplicates: int = Field(ge=0, description="structures, embedded or relaxed, left out as like another")
    above_window: int = Field(ge=0, description="seeds left out by the screening window")
    force_field: str = Field(description="MMFF94s, UFF, or none where neither knows an atom")
    smiles: str = Field(description="canonical isomeric SMILES of what was embedded")


class PruneInput(Model):
    """Optimized structures of one molecule."""

    candidates: tuple[Candidate, ...] = Field(min_length=1)
    settings: PruneSettings = Field(default_factory=PruneSettings)
    batches: int = Field(default=0, ge=0, description="batches of seeds, for the convergence report")


def stereoisomers(smiles: str, *, limit: int = 64) -> tuple[str, ...]:
    """Return the SMILES of every stereoisomer that the undefined stereocenters of a SMILES allow; one if all are defined.

    Raises
    ------
    MoleculeError
        RDKit cannot read the SMILES.
    """
    chem = require("rdkit.Chem", purpose="to read SMILES")
    enumerate_ = require("rdkit.Chem.EnumerateStereoisomers")
    options = enumerate_.StereoEnumerationOptions(tryEmbedding=False, unique=True, maxIsomers=limit)
    found = enumerate_.EnumerateStereoisomers(_parse(smiles), options=options)
    return tuple(sorted(chem.MolToSmiles(isomer) for isomer in found))


def require_defined_stereo(smiles: str) -> None:
    """Refuse a SMILES that leaves stereocenters open: stereoisomers are different molecules and are never mixed.

    Raises
    ------
    MoleculeError
        Lists the isomers that are meant to be chosen from.
    """
    isomers = stereoisomers(smiles)
    if len(isomers) > 1:
        shown = ", ".join(isomers[:8]) + (", ..." if len(isomers) > 8 else "")
        raise MoleculeError(
            f"the SMILES {smiles!r} leaves stereocenters undefined; it may be any of {len(isomers)} isomers: {shown}",
            hint="give one of these; stereoisomers are different molecules, each with an ensemble of its own",
        )


def _parse(smiles: str) -> Any:
    chem = require("rdkit.Chem", purpose="to read SMILES")
    base = require("rdkit.rdBase")
    with base.BlockLogs():
        mol = chem.MolFromSmiles(smiles)
    if mol is None or mol.GetNumAtoms() == 0:
        raise MoleculeError(
            f"RDKit cannot read the SMILES {smiles!r}", hint="check brackets, ring closures and valences"
        )
    return mol


def rdkit_molecule(*, smiles: str | None = None, atoms: ConceptualAtoms | None = None) -> Any:
    """Return an RDKit molecule with hydrogens; the order of given atoms is kept.

    Raises
    ------
    MoleculeError
        The SMILES cannot be read, or no bonding pattern fits the structure.
    MissingExtra
        RDKit is not installed.
    """
    chem = require("rdkit.Chem", purpose="to search conformers")
    if smiles is not None:
        return chem.AddHs(_parse(smiles))
    assert atoms is not None
    bonding = require("rdkit.Chem.rdDetermineBonds")
    base = require("rdkit.rdBase")
    with base.BlockLogs():
        # RDKit reads no exponents, and an optimized plane has coordinates such as 5e-15.
        rows = [f"{s} {x:.10f} {y:.10f} {z:.10f}" for s, (x, y, z) in zip(atoms.symbols, atoms.positions, strict=True)]
        mol = chem.MolFromXYZBlock("\n".join([str(len(rows)), "", *rows, ""]))
        try:
            bonding.DetermineBonds(mol, charge=atoms.charge)
        except (ValueError, RuntimeError) as error:
            raise MoleculeError(
                "no bonding pattern fits this geometry and charge, so its conformers cannot be searched",
                hint="give a SMILES, or check the charge",
            ) from error
        chem.AssignStereochemistryFrom3D(mol)
    return mol


@calculation(version="1", resources=EMBED_RESOURCES, family="rdkit", uses=("rdkit",))
def embed_conformers(value: EmbedInput, ctx: WorkContext) -> Embedded:
    """Embed structures of one stereoisomer with ETKDGv3, relax them with a force field, and leave out duplicates."""
    chem = require("rdkit.Chem", purpose="to search conformers")
    geometry = require("rdkit.Chem.rdDistGeom")
    rdkit = require("rdkit")
    ctx.used(rdkit=str(rdkit.__version__))
    try:
        if value.smiles is not None:
            require_defined_stereo(value.smiles)
        mol = rdkit_molecule(smiles=value.smiles, atoms=value.atoms)
    except MoleculeError as error:
        raise CalculationError(FailureKind.BAD_INPUT, f"{error.message} ({error.hint})") from error
    parameters = geometry.ETKDGv3()
    parameters.randomSeed = value.seed
    parameters.numThreads = 1
    parameters.pruneRmsThresh = -1.0
    mol.RemoveAllConformers()
    found = list(geometry.EmbedMultipleConfs(mol, value.seeds, parameters))
    if not found:
        parameters.useRandomCoords = True
        found = list(geometry.EmbedMultipleConfs(mol, value.seeds, parameters))
    if not found:
        raise CalculationError(FailureKind.ENGINE_ERROR, f"RDKit found no 3D structure in {value.seeds} tries")
    charge = chem.GetFormalCharge(mol)
    multiplicity = sum(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms()) + 1
    if value.atoms is not None:
        charge, multiplicity = value.atoms.charge, value.atoms.multiplicity
    raw = {number: _atoms(mol, number, charge, multiplicity) for number in found}
    energies, force_field = _relax(mol)
    window = value.screening_window / KCAL_MOL_PER_HARTREE if force_field != "none" else float("inf")
    lowest = min(energies)
    candidates = []
    above = 0
    for number, energy in zip(found, energies, strict=True):
        if energy - lowest > window:
            above += 1
            continue
        # Force fields lack minima that xTB has (and a relaxed start may hide one), so both geometries are candidates.
        batch = number * value.batches // value.seeds
        relaxed = _atoms(mol, number, charge, multiplicity)
        candidates.append(Candidate(id=f"seed-{number:04d}-relaxed", atoms=relaxed, energy=energy, batch=batch))
        candidates.append(Candidate(id=f"seed-{number:04d}", atoms=raw[number], energy=energy, batch=batch))
    kept = _distinct(candidates, value.screening_rmsd)
    return Embedded(
        candidates=tuple(kept),
        embedded=len(found),
        duplicates=len(candidates) - len(kept),
        above_window=above,
        force_field=force_field,
        smiles=chem.MolToSmiles(chem.RemoveHs(mol)),
    )


def _relax(mol: Any) -> tuple[list[float], str]:
    """Relax all conformers; return their energies in hartree and the force field's name."""
    fields = require("rdkit.Chem.rdForceFieldHelpers")
    base = require("rdkit.rdBase")
    with base.BlockLogs():
        if fields.MMFFHasAllMoleculeParams(mol):
            done = fields.MMFFOptimizeMoleculeConfs(mol, numThreads=1, maxIters=2000, mmffVariant="MMFF94s")
            return [float(energy) / KCAL_MOL_PER_HARTREE for _, energy in done], "MMFF94s"
        if fields.UFFHasAllMoleculeParams(mol):
            done = fields.UFFOptimizeMoleculeConfs(mol, numThreads=1, maxIters=2000)
            return [float(energy) / KCAL_MOL_PER_HARTREE for _, energy in done], "UFF"
    return [0.0] * mol.GetNumConformers(), "none"


def _atoms(mol: Any, number: int, charge: int, multiplicity: int) -> ConceptualAtoms:
    # Nine decimals: the key of an optimization must not depend on the last bits of a sum.
    positions = mol.GetConformer(number).GetPositions().round(9)
    return ConceptualAtoms(
        symbols=tuple(atom.GetSymbol() for atom in mol.GetAtoms()),
        positions=tuple((float(x), float(y), float(z)) for x, y, z in positions),
        charge=charge,
        multiplicity=multiplicity,
    )


def _distinct(candidates: Sequence[Candidate], rmsd: float) -> list[Candidate]:
    """Return the candidates whose shapes differ, lowest force-field energy first; the earliest batch is kept."""
    ordered = sorted(candidates, key=lambda candidate: (candidate.energy, candidate.id))
    permutations = anchor_points(ordered[0].atoms)[1]
    kept: list[Candidate] = []
    shapes: list[Any] = []
    for candidate in ordered:
        shape = anchor_points(candidate.atoms)[0]
        for index, other in enumerate(shapes):
            if other.shape == shape.shape and best_rmsd(other, shape, permutations, mirror=True) < rmsd:
                kept[index] = kept[index].model_copy(update={"batch": min(kept[index].batch, candidate.batch)})
                break
        else:
            kept.append(candidate)
            shapes.append(shape)
    return kept


@calculation(version="1", resources=PRUNE_RESOURCES, family="rdkit", uses=("ase",))
def prune_conformers(value: PruneInput, ctx: WorkContext) -> Pruned:
    """Reduce optimized structures to distinct conformers with degeneracies, and report the search's convergence."""
    data = require("ase.data", purpose="for atomic masses")
    ctx.used(ase=version("ase"))
    numbers = [data.atomic_numbers[symbol] for symbol in value.candidates[0].atoms.symbols]
    return prune(value.candidates, data.atomic_masses[numbers], value.settings, batches=value.batches)
