"""Conformer searches and solvent clusters with the CREST program, where it is on PATH.

Source: P. Pracht et al., J. Chem. Phys. 2024, 160, 114110, doi:10.1063/5.0197592; file formats as CREST's
``cregen.f90`` writes them; https://crest-lab.github.io/crest-docs/. QCG: S. Spicher, C. Plett, P. Pracht, A. Hansen,
S. Grimme, J. Chem. Theory Comput. 2022, 18, 3174.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from grafico.atoms import ConceptualAtoms, read_frames, write_xyz
from grafico.calculations import CalculationError, FailureKind, Model, Resources, WorkContext, calculation
from grafico.chemistry.conformers import Candidate
from grafico.errors import MissingExtra, MoleculeError
from grafico.units import KCAL_MOL_PER_HARTREE

__all__ = [
    "CrestEnsemble",
    "CrestInput",
    "QCGInput",
    "SolvatedCluster",
    "crest_arguments",
    "crest_path",
    "crest_search",
    "parse_ensemble",
    "qcg_arguments",
    "qcg_cluster",
    "run_program",
]

_HINT = "install CREST (conda-forge: crest) and put `crest` and `xtb` on PATH, or choose the built-in engine"
_NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?")


class CrestInput(Model):
    """A structure and a kind of search."""

    atoms: ConceptualAtoms
    mode: Literal["imtd-gc", "nci", "entropy"] = Field(default="imtd-gc", description="kind of search")
    solvent: str | None = Field(default=None, description="ALPB solvent; default gas phase")
    window: float = Field(default=6.0, gt=0, le=100, description="energy window, kcal/mol")
    threads: int = Field(default=4, ge=1, le=256, description="CPU threads")
    walltime_h: float = Field(default=24.0, gt=0, le=1000, description="hours after which it is killed")


class CrestEnsemble(Model):
    """Conformers that CREST found."""

    candidates: tuple[Candidate, ...] = Field(description="lowest first; the degeneracy is CREST's count of rotamers")
    program: str = Field(default="", description="version line of the program")


class QCGInput(Model):
    """A solute, a solvent molecule, and how many of these to add."""

    solute: ConceptualAtoms
    solvent: ConceptualAtoms
    molecules: int = Field(ge=1, le=200)
    implicit: str | None = Field(default=None, description="ALPB solvent around the cluster")
    threads: int = Field(default=4, ge=1, le=256)
    walltime_h: float = Field(default=24.0, gt=0, le=1000)


class SolvatedCluster(Model):
    """A solute with explicit solvent molecules; the solute's atoms come first."""

    atoms: ConceptualAtoms
    energy: float = Field(description="GFN2-xTB, hartree")
    solute_atoms: int = Field(ge=1)
    solvent_molecules: int = Field(ge=1)
    engine: str


def crest_path() -> str:
    """Return the program's path.

    Raises
    ------
    MissingExtra
        It is not on PATH.
    """
    found = shutil.which("crest")
    if found is None:
        raise MissingExtra("the program crest is not on PATH", hint=_HINT)
    return found


def crest_arguments(value: CrestInput) -> list[str]:
    """Return the command line of a search, after the program's name."""
    arguments = ["input.xyz", "--gfn2", "--chrg", str(value.atoms.charge), "--uhf", str(value.atoms.multiplicity - 1)]
    arguments += ["--ewin", f"{value.window:g}", "-T", str(value.threads)]
    if value.solvent:
        arguments += ["--alpb", value.solvent]
    return arguments + {"imtd-gc": [], "nci": ["--nci"], "entropy": ["--entropy"]}[value.mode]


def qcg_arguments(value: QCGInput) -> list[str]:
    """Return the command line of a cluster growth, after the program's name."""
    charge = value.solute.charge + value.molecules * value.solvent.charge
    arguments = ["solute.xyz", "--qcg", "solvent.xyz", "--nsolv", str(value.molecules), "--grow", "--gfn2"]
    arguments += ["--chrg", str(charge), "--uhf", str(value.solute.multiplicity - 1), "-T", str(value.threads)]
    return arguments + (["--alpb", value.implicit] if value.implicit else [])


def run_program(command: Sequence[str], folder: Path, name: str, *, given: Path | None = None) -> str:
    """Run a program in a folder, its output in the lane's log as well, and return that output.

    Parameters
    ----------
    given
        File that it reads as its standard input (a file, since packmol rewinds it).

    Raises
    ------
    CalculationError
        It ended with an error (``ENGINE_ERROR``); the message has its last lines.
    """
    # The walltime is kept by the process that runs this calculation, so no time-out is needed here.
    with (given or Path(os.devnull)).open() as source:
        done = subprocess.run(
            list(command),
            cwd=folder,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    # Standard output of a calculation is its lane's log.
    print(done.stdout)
    if done.returncode != 0:
        tail = " | ".join(line.strip() for line in done.stdout.strip().splitlines()[-3:])
        raise CalculationError(FailureKind.ENGINE_ERROR, f"{name} ended with status {done.returncode}: {tail}")
    return done.stdout


def _resources(value: CrestInput | QCGInput) -> Resources:
    return Resources(cpus=value.threads, memory_mib=2048 + 256 * value.threads, walltime_s=3600.0 * value.walltime_h)


def _search_resources(value: CrestInput) -> Resources:
    return _resources(value)


def _qcg_resources(value: QCGInput) -> Resources:
    return _resources(value)


@calculation(version="1", resources=_search_resources, family="crest", uses=("program:crest",))
def crest_search(value: CrestInput, ctx: WorkContext) -> CrestEnsemble:
    """Search conformers with CREST."""
    program = crest_path()
    (ctx.scratch / "input.xyz").write_text(write_xyz(value.atoms))
    output = run_program([program, *crest_arguments(value)], ctx.scratch, "crest")
    version = _version(output)
    ctx.used(crest=version)
    conformers = ctx.scratch / "crest_conformers.xyz"
    if not conformers.is_file():
        raise CalculationError(FailureKind.ENGINE_ERROR, "crest ended without writing crest_conformers.xyz")
    texts = [
        path.read_text() if path.is_file() else None
        for path in (conformers, ctx.scratch / "cre_members", ctx.scratch / "crest.energies")
    ]
    assert texts[0] is not None
    return CrestEnsemble(candidates=parse_ensemble(texts[0], texts[1], texts[2], like=value.atoms), program=version)


def _version(output: str) -> str:
    found = re.search(r"Version\s+(\S+)", output)
    return found.group(1).rstrip(",") if found else "unknown"


def parse_ensemble(
    conformers: str, members: str | None = None, energies: str | None = None, *, like: ConceptualAtoms
) -> tuple[Candidate, ...]:
    """Return what CREST wrote as candidates, lowest first.

    Parameters
    ----------
    conformers
        ``crest_conformers.xyz``: an XYZ trajectory whose comments begin with the energy in hartree.
    members
        ``cre_members``: the number of conformers, then for each its count of rotamers, its first and its last one.
    energies
        ``crest.energies``: number and relative energy in kcal/mol; checked against the energies in hartree.
    like
        Gives charge and multiplicity, and the atoms that each structure must have.

    Raises
    ------
    CalculationError
        The files are damaged or contradict each other (``ENGINE_ERROR``).
    """
    try:
        frames = read_frames(conformers, "crest_conformers.xyz")
    except MoleculeError as error:
        raise CalculationError(FailureKind.ENGINE_ERROR, error.message) from error
    counts = _degeneracies(members, len(frames))
    found = []
    for number, ((atoms, info), count) in enumerate(zip(frames, counts, strict=True), start=1):
        comment = info.get("comment", "")
        energy = _NUMBER.search(comment)
        if energy is None:
            raise CalculationError(
                FailureKind.ENGINE_ERROR, f"crest_conformers.xyz: structure {number} has no energy in {comment!r}"
            )
        if atoms.symbols != like.symbols:
            raise CalculationError(
                FailureKind.ENGINE_ERROR, f"crest_conformers.xyz: structure {number} has other atoms than the input"
            )
        found.append(
            Candidate(
                id=f"crest-{number:04d}",
                atoms=like.moved(atoms.positions),
                energy=float(energy.group()),
                degeneracy=count,
            )
        )
    _compare(energies, [candidate.energy for candidate in found])
    return tuple(sorted(found, key=lambda candidate: (candidate.energy, candidate.id)))


def _degeneracies(members: str | None, count: int) -> list[int]:
    if members is None:
        return [1] * count
    lines = [line.split() for line in members.splitlines() if line.strip()]
    try:
        announced, rows = int(lines[0][0]), [[int(field) for field in line] for line in lines[1:]]
        counts = [row[0] for row in rows]
        whole = announced == len(rows) == count and all(row[0] == row[2] - row[1] + 1 > 0 for row in rows)
    except (IndexError, ValueError):
        whole, counts = False, []
    if not whole:
        raise CalculationError(
            FailureKind.ENGINE_ERROR, f"cre_members does not describe the {count} structures of crest_conformers.xyz"
        )
    return counts


def _compare(energies: str | None, hartree: Sequence[float]) -> None:
    if energies is None:
        return
    try:
        relative = [float(line.split()[1]) for line in energies.splitlines() if line.strip()]
    except (IndexError, ValueError) as error:
        raise CalculationError(FailureKind.ENGINE_ERROR, "crest.energies is damaged") from error
    own = [(energy - min(hartree)) * KCAL_MOL_PER_HARTREE for energy in hartree]
    if len(relative) != len(own) or any(abs(a - b) > 0.02 for a, b in zip(relative, own, strict=True)):
        raise CalculationError(
            FailureKind.ENGINE_ERROR, "crest.energies contradicts the energies of crest_conformers.xyz"
        )


@calculation(version="1", resources=_qcg_resources, family="crest", uses=("program:crest",))
def qcg_cluster(value: QCGInput, ctx: WorkContext) -> SolvatedCluster:
    """Grow a cluster of solvent molecules around a solute with CREST's QCG."""
    program = crest_path()
    (ctx.scratch / "solute.xyz").write_text(write_xyz(value.solute))
    (ctx.scratch / "solvent.xyz").write_text(write_xyz(value.solvent))
    output = run_program([program, *qcg_arguments(value)], ctx.scratch, "crest --qcg")
    ctx.used(crest=_version(output))
    grown = ctx.scratch / "grow" / "cluster_optimized.xyz"
    if not grown.is_file():
        raise CalculationError(FailureKind.ENGINE_ERROR, "crest --qcg ended without grow/cluster_optimized.xyz")
    atoms, info = read_frames(grown.read_text(), "cluster_optimized.xyz")[-1]
    expected = (*value.solute.symbols, *value.solvent.symbols * value.molecules)
    if sorted(atoms.symbols) != sorted(expected) or atoms.symbols[: len(value.solute)] != value.solute.symbols:
        raise CalculationError(
            FailureKind.ENGINE_ERROR, "crest --qcg returned other atoms than solute and solvent have"
        )
    energy = _NUMBER.search(info.get("comment", ""))
    if energy is None:
        raise CalculationError(FailureKind.ENGINE_ERROR, "cluster_optimized.xyz has no energy in its comment")
    return SolvatedCluster(
        atoms=atoms.model_copy(
            update={
                "charge": value.solute.charge + value.molecules * value.solvent.charge,
                "multiplicity": value.solute.multiplicity,
            }
        ),
        energy=float(energy.group()),
        solute_atoms=len(value.solute),
        solvent_molecules=value.molecules,
        engine="CREST QCG",
    )
