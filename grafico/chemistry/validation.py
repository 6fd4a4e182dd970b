"""What is refused before anything is computed; each message says where, what, and what instead."""

import functools
import re

from grafico.atoms import ConceptualAtoms, check_structure
from grafico.atoms.optional import require
from grafico.chemistry.level import closest, resolve_method, resolve_solvent
from grafico.chemistry.request import ExcitedStates, Level
from grafico.errors import LevelError

__all__ = ["check_basis", "check_excited_states", "check_level"]

_BASIS = re.compile(r"^[a-z0-9][a-z0-9+*(),_ -]*$")


def check_level(level: Level, atoms: ConceptualAtoms, *, where: str = "level", forces: bool = False) -> None:
    """Refuse a level that PySCF does not have, or not for these elements.

    Parameters
    ----------
    where
        Name of the level in the job, for messages.
    forces
        Whether gradients will be needed.

    Raises
    ------
    LevelError
        Functional, dispersion, basis set or solvent; with suggestions.
    MoleculeError
        The structure itself is impossible.
    """
    check_structure(atoms)
    try:
        method = resolve_method(level)
        if level.solvent is not None:
            resolve_solvent(level.solvent)
    except LevelError as error:
        raise LevelError(f"{where}: {error.message}", hint=error.hint) from error
    check_basis(level.basis, atoms, where=f"{where}.basis")
    if level.auxiliary_basis is not None:
        check_basis(level.auxiliary_basis, atoms, where=f"{where}.auxiliary_basis")
    unrestricted = level.restricted is False or (level.restricted is None and atoms.multiplicity > 1)
    if forces and method.nonlocal_ and unrestricted:
        raise LevelError(
            f"{where}.method: PySCF has no forces for the VV10 part of {level.method!r} with unrestricted orbitals",
            hint="use a functional with D3 or D4, such as wb97x-d4",
        )


def check_basis(basis: str, atoms: ConceptualAtoms, *, where: str = "basis") -> None:
    """Refuse a basis set that does not exist, or lacks an element.

    Raises
    ------
    LevelError
        Names the elements that are missing, or similar basis sets.
    """
    missing = [symbol for symbol in sorted(set(atoms.symbols)) if not _has(basis, symbol)]
    if not missing:
        return
    if not any(_has(basis, symbol) for symbol in ("H", "C", "O")):
        gto = require("pyscf.gto", purpose="for basis sets")
        known = [*_USUAL, *(alias for alias in gto.basis.ALIAS)]
        hint = closest(basis, known) or f"such as {', '.join(_USUAL[:5])}"
        raise LevelError(f"{where}: no basis set is called {basis!r}", hint=hint)
    raise LevelError(
        f"{where}: {basis!r} has no functions for {', '.join(missing)}",
        hint="def2 basis sets reach from H to Rn, such as def2-svp",
    )


_USUAL = (
    "def2-svp",
    "def2-tzvp",
    "def2-tzvpp",
    "6-31g*",
    "cc-pvdz",
    "cc-pvtz",
    "aug-cc-pvdz",
    "sto-3g",
    "6-311+g(d,p)",
)


@functools.lru_cache(maxsize=4096)
def _has(basis: str, symbol: str) -> bool:
    if not _BASIS.match(basis):
        # PySCF would take a path for a file, and text for the functions themselves.
        return False
    gto = require("pyscf.gto", purpose="for basis sets")
    try:
        return bool(gto.basis.load(basis, symbol))
    except Exception:  # noqa: BLE001 - parsers of many formats raise as many kinds for an unknown name
        return False


def check_excited_states(states: ExcitedStates, level: Level, atoms: ConceptualAtoms) -> None:
    """Refuse excited states that the engine cannot compute for this reference.

    Raises
    ------
    LevelError
        Triplets of an open shell, or a restricted open shell.
    """
    if atoms.multiplicity > 1 and level.restricted:
        raise LevelError(
            "excited_states: PySCF has no TDDFT for a restricted open shell", hint="leave restricted out of the level"
        )
    if states.triplets and (atoms.multiplicity > 1 or level.restricted is False):
        raise LevelError(
            "excited_states.triplets: triplets are computed from a closed shell with restricted orbitals only",
            hint="leave triplets out; the states of an open shell conserve its spin",
        )
    if not states.singlets and atoms.multiplicity > 1:
        raise LevelError("excited_states: an open shell has no triplet states to compute", hint="leave singlets: true")
