"""GFN-xTB energies and geometry optimizations, through tblite.

Source: C. Bannwarth, S. Ehlert, S. Grimme, J. Chem. Theory Comput. 2019, 15, 1652 (GFN2-xTB); S. Ehlert et al.,
J. Chem. Theory Comput. 2021, 17, 4250 (ALPB); https://tblite.readthedocs.io.
"""

from typing import Any, Literal

from pydantic import Field

from grafico.atoms import BondChanges, ConceptualAtoms, bond_changes, from_ase, to_ase
from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, Model, Resources, Rung, WorkContext, calculation

__all__ = [
    "ALPB_SOLVENTS",
    "XTBInput",
    "XTBLevel",
    "XTBOptimization",
    "XTBOptimizationInput",
    "XTBOutput",
    "failure_of_tblite",
    "optimize_image",
    "tblite_errors",
    "xtb_calculator",
    "xtb_optimization",
    "xtb_resources",
    "xtb_single_point",
]

ALPB_SOLVENTS = (
    "acetone", "acetonitrile", "aniline", "benzaldehyde", "benzene", "ch2cl2", "chcl3", "cs2", "dioxane", "dmf",
    "dmso", "ethanol", "ether", "ethylacetate", "furane", "hexadecane", "hexane", "methanol", "nitromethane",
    "octanol", "woctanol", "phenol", "thf", "toluene", "water",
)  # fmt: skip
"""Solvents that ALPB is parametrized for (xtb documentation, "Implicit Solvation")."""

_METHODS = {"gfn2": "GFN2-xTB", "gfn1": "GFN1-xTB"}


class XTBLevel(Model):
    """Which xTB, and in what solvent."""

    method: Literal["gfn2", "gfn1"] = Field(default="gfn2", description="GFN2-xTB or GFN1-xTB")
    solvent: str | None = Field(default=None, description="an ALPB solvent, such as 'water'; default gas phase")
    accuracy: float = Field(
        default=0.1, ge=1e-4, le=1000.0, description="tblite's accuracy: factor on its thresholds, smaller is tighter"
    )


class XTBInput(Model):
    """A structure and an xTB level."""

    atoms: ConceptualAtoms
    level: XTBLevel = Field(default_factory=XTBLevel)


class XTBOutput(Model):
    """An xTB single point."""

    energy: float = Field(description="total energy, hartree")
    gradient_norm: float = Field(ge=0, description="norm of the whole gradient, hartree/bohr")
    dipole_debye: float = Field(ge=0, description="dipole moment, debye")


class XTBOptimizationInput(Model):
    """A structure to be optimized with xTB."""

    atoms: ConceptualAtoms
    level: XTBLevel = Field(default_factory=XTBLevel)
    force_limit: float = Field(default=0.005, ge=1e-5, le=0.5, description="largest force on an atom at the end, eV/Å")
    steps: int = Field(default=500, ge=1, le=20_000, description="most steps")


class XTBOptimization(Model):
    """A converged xTB geometry."""

    atoms: ConceptualAtoms
    energy: float = Field(description="total energy, hartree")
    force: float = Field(ge=0, description="largest force on an atom, eV/Å")
    steps: int = Field(ge=0)
    bonds: BondChanges = Field(description="bonds made and broken on the way")


def xtb_calculator(level: XTBLevel, atoms: ConceptualAtoms, settings: Any = None) -> Any:
    """Return an ASE calculator (tblite) for a structure.

    Raises
    ------
    MissingExtra
        tblite or ASE is not installed.
    """
    tblite = require("tblite.ase", purpose="for xTB")
    changed = dict(settings or {})
    return tblite.TBLite(
        method=_METHODS[level.method],
        charge=float(atoms.charge),
        multiplicity=atoms.multiplicity,
        accuracy=level.accuracy,
        solvation=("alpb", level.solvent) if level.solvent else None,
        max_iterations=int(changed.get("max_iterations", 250)),
        mixer_damping=float(changed.get("mixer_damping", 0.4)),
        verbosity=0,
    )


def xtb_resources(size: int) -> Resources:
    """Return what xTB needs for a number of atoms."""
    return Resources(cpus=1, memory_mib=512 + 4 * size, walltime_s=300.0 + 20.0 * size)


def _single_point_resources(value: XTBInput) -> Resources:
    return xtb_resources(len(value.atoms))


def _optimization_resources(value: XTBOptimizationInput) -> Resources:
    return xtb_resources(len(value.atoms))


_LADDER = {
    FailureKind.SCF_NOT_CONVERGED: [
        Rung(note="stronger damping, 1000 cycles", settings={"mixer_damping": 0.1, "max_iterations": 1000})
    ],
    FailureKind.NOT_CONVERGED: [
        Rung(note="FIRE, four times the steps", settings={"optimizer": "fire", "scale_steps": 4}, scale_walltime=4.0)
    ],
    FailureKind.TIMEOUT: [Rung(note="four times the walltime", scale_walltime=4.0)],
    FailureKind.OUT_OF_MEMORY: [Rung(note="twice the memory", scale_memory=2.0)],
}


def failure_of_tblite(error: Exception) -> CalculationError:
    """Return what an exception of tblite or its ASE calculator means."""
    text = " ".join(str(error).split())
    kind = FailureKind.ENGINE_ERROR
    if "SCF not converged" in text or "not converged" in text:
        kind = FailureKind.SCF_NOT_CONVERGED
    elif "solv" in text.lower() and "found" in text.lower():
        kind = FailureKind.BAD_INPUT
    return CalculationError(kind, f"tblite: {text or type(error).__name__}")


@calculation(version="1", resources=_single_point_resources, ladder=_LADDER, family="tblite", uses=("tblite", "ase"))
def xtb_single_point(value: XTBInput, ctx: WorkContext) -> XTBOutput:
    """Return energy and gradient of a structure at an xTB level."""
    import numpy
    from ase import units

    image = to_ase(value.atoms)
    image.calc = xtb_calculator(value.level, value.atoms, ctx.settings)
    _used(ctx)
    try:
        energy = image.get_potential_energy() / units.Hartree
        gradient = -image.get_forces() * units.Bohr / units.Hartree
        dipole = image.get_dipole_moment() / units.Debye
    except tblite_errors() as error:
        raise failure_of_tblite(error) from error
    return XTBOutput(
        energy=float(energy),
        gradient_norm=float(numpy.linalg.norm(gradient)),
        dipole_debye=float(numpy.linalg.norm(dipole)),
    )


@calculation(version="1", resources=_optimization_resources, ladder=_LADDER, family="tblite", uses=("tblite", "ase"))
def xtb_optimization(value: XTBOptimizationInput, ctx: WorkContext) -> XTBOptimization:
    """Return the nearest minimum at an xTB level; a run that meets its step limit fails as not converged."""
    image = to_ase(value.atoms)
    image.calc = xtb_calculator(value.level, value.atoms, ctx.settings)
    return optimize_image(image, value, ctx)


def optimize_image(image: Any, value: XTBOptimizationInput, ctx: WorkContext) -> XTBOptimization:
    """Optimize an ``ase.Atoms`` that has its calculator, in place.

    Raises
    ------
    CalculationError
        Not converged, or tblite failed.
    """
    import numpy
    from ase import units

    _used(ctx)
    limit = value.steps * int(ctx.settings.get("scale_steps", 1))
    try:
        optimizer = _optimizer(image, str(ctx.settings.get("optimizer", "bfgs")))
        converged = bool(optimizer.run(fmax=value.force_limit, steps=limit))
        force = float(numpy.sqrt((image.get_forces() ** 2).sum(axis=1)).max())
        energy = float(image.get_potential_energy() / units.Hartree)
    except tblite_errors() as error:
        raise failure_of_tblite(error) from error
    if not converged:
        raise CalculationError(
            FailureKind.NOT_CONVERGED,
            f"xTB optimization: after {limit} steps the largest force is {force:.4f} eV/Å, more than {value.force_limit}",
            details={"steps": limit, "force": force, "energy": energy},
        )
    atoms = value.atoms.moved(from_ase(image).positions)
    return XTBOptimization(
        atoms=atoms,
        energy=energy,
        force=force,
        steps=int(optimizer.get_number_of_steps()),
        bonds=bond_changes(value.atoms, atoms),
    )


def _optimizer(image: Any, name: str) -> Any:
    optimize = require("ase.optimize")
    if name == "fire":
        return optimize.FIRE(image, logfile="-")
    # Above some 150 atoms, BFGS spends more time on its dense Hessian than xTB on its energy.
    kind = optimize.BFGS if len(image) <= 150 else optimize.LBFGS
    return kind(image, logfile="-")


def tblite_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions by which tblite and its ASE calculator fail."""
    from ase.calculators.calculator import CalculatorError

    exceptions = require("tblite.exceptions")
    return (CalculatorError, exceptions.TBLiteRuntimeError, exceptions.TBLiteValueError)


def _used(ctx: WorkContext) -> None:
    from importlib.metadata import version

    ctx.used(tblite=version("tblite"), ase=version("ase"))
