"""PySCF behind one door: from a structure and a level to a converged mean field.

On a GPU the same objects move there with ``to_gpu()`` (gpu4pyscf); the rest of the code does not differ.
"""

import io
import math
import sys
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.calculations.gpu_memory import bound_gpu_memory, usable_cupy
from grafico.chemistry.level import dielectric_constant, resolve_method, resolve_solvent
from grafico.chemistry.request import Level
from grafico.chemistry.wavefunction import guess_density
from grafico.errors import BadInput

__all__ = [
    "Engine",
    "build_engine",
    "effective_core_potentials",
    "is_restricted_open",
    "is_unrestricted",
    "positions_of",
    "run_scf",
    "scf_failure",
]

# What PySCF itself takes while a molecule of a few atoms is computed, MiB.
_BASELINE_MIB = 400

# PySCF takes the program's own source for its input, and prints it up to here.
_SOURCE_ENDS = "#INFO: ******************** input file end ********************\n"


class Engine(NamedTuple):
    """A molecule and its mean field, not yet solved."""

    molecule: Any
    mean_field: Any
    on_gpu: bool


def build_engine(atoms: ConceptualAtoms, level: Level, ctx: WorkContext) -> Engine:
    """Return PySCF's molecule and mean field for a structure and a level.

    Raises
    ------
    CalculationError
        Of kind ``bad_input`` where PySCF does not take the molecule or the level.
    MissingExtra
        PySCF is not installed.
    """
    pyscf = require("pyscf", purpose="for quantum chemistry")
    pyscf.lib.num_threads(ctx.threads)
    ctx.used(pyscf=pyscf.__version__)
    try:
        molecule = _build_molecule(atoms, level, ctx)
        mean_field = _build_mean_field(molecule, level, ctx)
    except (BadInput, KeyError, ValueError, RuntimeError) as error:
        raise CalculationError(FailureKind.BAD_INPUT, f"PySCF cannot set up {level.label}: {error}") from error
    on_gpu = False
    if ctx.device == "gpu":
        mean_field, on_gpu = _to_gpu(mean_field, ctx)
    if ctx.settings.get("newton"):
        mean_field = mean_field.newton()
    return Engine(molecule, mean_field, on_gpu)


def _build_molecule(atoms: ConceptualAtoms, level: Level, ctx: WorkContext) -> Any:
    from pyscf import gto
    from pyscf.data.nist import BOHR

    # In bohr from the start: scanners and displacements set coordinates in bohr, and PySCF warns of a change of unit.
    bohr = [tuple(x / BOHR for x in position) for position in atoms.positions]
    molecule = gto.Mole()
    # PySCF keeps the standard output of the moment when it was imported, which may be closed by now.
    molecule.stdout = sys.stdout
    molecule.build(
        dump_input=False,
        atom=list(zip(atoms.symbols, bohr, strict=True)),
        unit="Bohr",
        basis=level.basis,
        ecp=effective_core_potentials(atoms.symbols, level.basis),
        charge=atoms.charge,
        spin=atoms.multiplicity - 1,
        max_memory=max(500, ctx.memory_mib - _BASELINE_MIB),
        verbose=4,
        parse_arg=False,
    )
    _print_input(molecule)
    return molecule


def _print_input(molecule: Any) -> None:
    """Print versions and the molecule as PySCF does at the beginning, without the source of this program."""
    molecule.stdout = text = io.StringIO()
    molecule.dump_input()
    molecule.stdout = sys.stdout
    sys.stdout.write(text.getvalue().rpartition(_SOURCE_ENDS)[2].lstrip("\n"))


def effective_core_potentials(symbols: tuple[str, ...], basis: str) -> dict[str, str]:
    """Return for each heavy element the basis set whose core potential goes with its basis functions.

    PySCF only warns when a basis made for a core potential is used without it.
    """
    from pyscf import gto
    from pyscf.lib.exceptions import BasisNotFoundError

    found: dict[str, str] = {}
    for symbol in sorted(set(symbols)):
        if gto.charge(symbol) <= 10:
            continue
        try:
            if gto.basis.load_ecp(basis, symbol):
                found[symbol] = basis
        except (BasisNotFoundError, KeyError, RuntimeError, OSError):
            continue
    return found


def _build_mean_field(molecule: Any, level: Level, ctx: WorkContext) -> Any:
    from pyscf import dft, scf

    method = resolve_method(level)
    closed_shell = molecule.spin == 0
    restricted = closed_shell if level.restricted is None else level.restricted
    module, suffix = (scf, "HF") if method.hartree_fock else (dft, "KS")
    kind = ("R" if closed_shell else "RO") if restricted else "U"
    mean_field = getattr(module, kind + suffix)(molecule)
    if not method.hartree_fock:
        mean_field.xc = method.functional
        mean_field.grids.level = level.grid
        if not method.nonlocal_:
            mean_field.nlc = False
    if method.dispersion:
        # The name is spelled out, and to PySCF an explicit name goes before what the functional's name implies.
        mean_field.disp = method.dispersion
    mean_field.conv_tol = level.scf_convergence
    mean_field.max_cycle = level.scf_cycles * int(ctx.settings.get("scf_cycles_factor", 1))
    mean_field.level_shift = float(ctx.settings.get("level_shift", 0.0))
    mean_field.diis_damp = float(ctx.settings.get("diis_damp", 0.0))
    if level.density_fit:
        mean_field = mean_field.density_fit(auxbasis=level.auxiliary_basis)
    if level.solvent is not None:
        # Solvent goes on after density fitting: the other way round its forces would be lost.
        mean_field = _attach_solvent(mean_field, level)
    return mean_field


def _attach_solvent(mean_field: Any, level: Level) -> Any:
    assert level.solvent is not None
    if level.solvent.model == "smd":
        mean_field = mean_field.SMD()
        mean_field.with_solvent.solvent = resolve_solvent(level.solvent)
    elif level.solvent.model == "ddcosmo":
        mean_field = mean_field.ddCOSMO()
    else:
        mean_field = mean_field.PCM()
        mean_field.with_solvent.method = "C-PCM"
    # SMD would take the same number from its table, but PySCF's equilibrium TDDFT prints it.
    mean_field.with_solvent.eps = dielectric_constant(level.solvent)
    return mean_field


def _to_gpu(mean_field: Any, ctx: WorkContext) -> tuple[Any, bool]:
    """Return the mean field on this process's GPU; as it was where there is none (a simulated one) or it cannot be."""
    cupy = usable_cupy()
    if cupy is None:
        sys.stdout.write("this slot's GPU is simulated, or cupy sees none: computed on CPUs\n")
        return mean_field, False
    try:
        gpu4pyscf = require("gpu4pyscf", extra="gpu12")
        # It sets limits of its own when it is imported, which may have been just now.
        bound_gpu_memory(ctx.gpu_memory_mib)
        moved = mean_field.to_gpu()
    except (BadInput, ImportError, AttributeError, NotImplementedError) as error:
        # It is not installed, or PySCF has this model (ddCOSMO) and it has not.
        sys.stdout.write(f"gpu4pyscf cannot do this: computed on CPUs ({type(error).__name__}: {error})\n")
        return mean_field, False
    ctx.used(gpu4pyscf=gpu4pyscf.__version__, cupy=cupy.__version__)
    return moved, True


def run_scf(engine: Engine, ctx: WorkContext) -> Any:
    """Solve the mean field, from a hint's orbitals where there is one, and return it converged.

    Raises
    ------
    CalculationError
        Of kind ``scf_not_converged``.
    """
    mean_field = engine.mean_field
    guess = guess_density(engine.molecule, ctx, unrestricted=is_unrestricted(mean_field))
    mean_field.kernel(dm0=guess)
    if not mean_field.converged and guess is not None:
        # A poor hint must not be what makes a calculation fail.
        mean_field.kernel()
    if not mean_field.converged or not math.isfinite(float(mean_field.e_tot)):
        raise scf_failure(mean_field)
    if hasattr(mean_field, "undo_soscf"):
        # Gradients, Hessians and response want the plain object; the solution is the same.
        solved = mean_field
        mean_field = solved.undo_soscf()
        for name in ("mo_energy", "mo_coeff", "mo_occ", "e_tot", "converged"):
            setattr(mean_field, name, getattr(solved, name))
    return mean_field


def scf_failure(mean_field: Any) -> CalculationError:
    """Return the failure of an SCF that did not converge."""
    return CalculationError(
        FailureKind.SCF_NOT_CONVERGED,
        f"the SCF did not converge to {mean_field.conv_tol:g} hartree in {mean_field.max_cycle} cycles",
        details={"cycles": int(mean_field.max_cycle), "tolerance": float(mean_field.conv_tol)},
    )


def is_unrestricted(mean_field: Any) -> bool:
    """Whether alpha and beta orbitals differ; by name, since gpu4pyscf's classes are not PySCF's."""
    return any(cls.__name__ in ("UHF", "UKS") for cls in type(getattr(mean_field, "_scf", mean_field)).__mro__)


def is_restricted_open(mean_field: Any) -> bool:
    """Whether it is ROHF or ROKS."""
    return any(cls.__name__ in ("ROHF", "ROKS") for cls in type(mean_field).__mro__)


def positions_of(molecule: Any) -> tuple[tuple[float, float, float], ...]:
    """Return a molecule's coordinates in Å."""
    return tuple((float(x), float(y), float(z)) for x, y, z in molecule.atom_coords(unit="Angstrom"))
