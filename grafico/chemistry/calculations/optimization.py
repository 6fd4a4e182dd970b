"""Geometry optimization with geomeTRIC."""

from typing import Any

from pydantic import Field

from grafico.atoms import ConceptualAtoms, write_extxyz
from grafico.atoms.optional import require
from grafico.calculations import (
    ArtifactRef,
    CalculationError,
    FailureKind,
    Model,
    Resources,
    Rung,
    WorkContext,
    calculation,
)
from grafico.chemistry.properties import Electronic, electronic
from grafico.chemistry.pyscf_engine import build_engine, positions_of, run_scf, scf_failure
from grafico.chemistry.request import Level
from grafico.chemistry.resources import LADDER, dft_resources
from grafico.chemistry.wavefunction import as_numpy

__all__ = ["OptimizationInput", "OptimizationOutput", "OptimizationThresholds", "optimization"]


class OptimizationThresholds(Model):
    """When a geometry counts as a stationary point; all five must hold. The defaults are geomeTRIC's (GAU)."""

    energy: float = Field(default=1e-6, ge=1e-9, le=1e-4, description="change of the energy, hartree")
    gradient_rms: float = Field(
        default=3e-4, ge=1e-7, le=1e-2, description="root mean square of the gradient, hartree/bohr"
    )
    gradient_max: float = Field(default=4.5e-4, ge=1e-7, le=1e-2, description="largest atom's gradient, hartree/bohr")
    displacement_rms: float = Field(default=1.2e-3, ge=1e-7, le=1e-1, description="root mean square of the step, Å")
    displacement_max: float = Field(default=1.8e-3, ge=1e-7, le=1e-1, description="largest atom's step, Å")


class OptimizationInput(Model):
    """A starting structure and a level of theory."""

    atoms: ConceptualAtoms = Field(description="starting geometry in Å, charge, multiplicity")
    level: Level
    max_steps: int = Field(
        default=100, ge=1, le=2000, description="energies and gradients before it counts as not converged"
    )
    thresholds: OptimizationThresholds = Field(default_factory=OptimizationThresholds)


class OptimizationOutput(Model):
    """A converged stationary point; whether it is a minimum only its frequencies tell."""

    atoms: ConceptualAtoms = Field(description="optimized geometry, Å")
    electronic: Electronic = Field(description="at the optimized geometry")
    gradient_norm: float = Field(description="norm of the whole gradient, hartree/bohr")
    gradient_max: float = Field(description="norm of the largest atom's gradient, hartree/bohr")
    steps: int = Field(description="energies and gradients computed")
    converged: bool = Field(description="always true: what has not converged is a failure")
    trajectory: ArtifactRef = Field(description="extended XYZ of all steps with their energies")


def _resources(value: OptimizationInput) -> Resources:
    return dft_resources(value.atoms, value.level, "optimization")


_LADDER = {
    **LADDER,
    FailureKind.NOT_CONVERGED: (
        Rung(
            note="on from the last geometry with an exact Hessian and a smaller trust radius, twice the steps",
            settings={"hessian": "first", "trust": 0.05, "steps_factor": 2},
            scale_walltime=3.0,
        ),
        Rung(
            note="on from the last geometry in Cartesian coordinates, four times the steps",
            settings={"coordinates": "cart", "trust": 0.02, "steps_factor": 4},
            scale_walltime=2.0,
        ),
    ),
}


@calculation(
    version="1",
    resources=_resources,
    ladder=_LADDER,
    family="pyscf",
    uses=("pyscf", "geometric"),
    uses_on_gpu=("gpu4pyscf", "cupy"),
)
def optimization(value: OptimizationInput, ctx: WorkContext) -> OptimizationOutput:
    """Relax a structure to a stationary point.

    Raises
    ------
    CalculationError
        ``not_converged`` within the steps allowed, with the last geometry in its details under ``carry`` (the next
        attempt starts there); ``scf_not_converged`` at some step.

    Source: L.-P. Wang and C. Song, J. Chem. Phys. 2016, 144, 214108, doi:10.1063/1.4952956.
    """
    start = value.atoms
    if "restart" in ctx.settings:
        start = start.moved(tuple(tuple(row) for row in ctx.settings["restart"]))
    engine = build_engine(start, value.level, ctx)
    molecule, mean_field = engine.molecule, engine.mean_field
    if len(start) == 1 or ctx.hints:
        # Without a hint the optimizer's own first SCF is the first.
        mean_field = run_scf(engine, ctx)
    if len(start) == 1:
        trajectory = [(start, float(mean_field.e_tot), 0.0, 0.0)]
    else:
        mean_field, trajectory = _relax(mean_field, value, ctx)
        molecule = mean_field.mol
    atoms, _, norm, largest = trajectory[-1]
    frames = write_extxyz(
        [t[0] for t in trajectory], [{"energy_hartree": t[1], "gradient_norm": t[2]} for t in trajectory]
    )
    return OptimizationOutput(
        atoms=atoms,
        electronic=electronic(molecule, mean_field, ctx),
        gradient_norm=norm,
        gradient_max=largest,
        steps=len(trajectory),
        converged=True,
        trajectory=ctx.artifacts.put(frames.encode(), "chemical/x-xyz"),
    )


Step = tuple[ConceptualAtoms, float, float, float]


def _relax(mean_field: Any, value: OptimizationInput, ctx: WorkContext) -> tuple[Any, list[Step]]:
    """Return the mean field at the last geometry, and all steps."""
    import numpy

    geometric = require("geometric", purpose="for geometry optimization")
    solver = require("pyscf.geomopt.geometric_solver", purpose="for geometry optimization")
    ctx.used(geometric=geometric.__version__)
    trajectory: list[Step] = []
    scanners: list[Any] = []

    def remember(variables: dict[str, Any]) -> None:
        scanners[:] = [variables["g_scanner"]]
        gradient = as_numpy(variables["gradients"])
        atoms = value.atoms.moved(positions_of(variables["mol"]))
        norms = numpy.linalg.norm(gradient, axis=1)
        trajectory.append((atoms, float(variables["energy"]), float(numpy.linalg.norm(gradient)), float(norms.max())))

    limits = value.thresholds
    steps = value.max_steps * int(ctx.settings.get("steps_factor", 1))
    options: dict[str, Any] = {key: ctx.settings[key] for key in ("hessian", "trust") if key in ctx.settings}
    if "coordinates" in ctx.settings:
        options["coordsys"] = ctx.settings["coordinates"]
    try:
        converged, _ = solver.kernel(
            mean_field,
            assert_convergence=True,
            callback=remember,
            # geomeTRIC counts the steps after the first energy.
            maxsteps=steps,
            convergence_energy=limits.energy,
            convergence_grms=limits.gradient_rms,
            convergence_gmax=limits.gradient_max,
            convergence_drms=limits.displacement_rms,
            convergence_dmax=limits.displacement_max,
            **options,
        )
    except RuntimeError as error:
        if scanners and not scanners[0].converged:
            raise scf_failure(scanners[0].base) from error
        raise _not_converged(trajectory, f"the optimizer stopped: {error}") from error
    except geometric.errors.Error as error:
        raise _not_converged(trajectory, f"the optimizer stopped: {error}") from error
    if not converged:
        raise _not_converged(trajectory, f"the geometry did not converge in {steps} steps")
    return scanners[0].base, trajectory


def _not_converged(trajectory: list[Step], message: str) -> CalculationError:
    details: dict[str, Any] = {"steps": len(trajectory)}
    if trajectory:
        atoms, energy, norm, largest = trajectory[-1]
        details |= {"energy": energy, "gradient_norm": norm, "gradient_max": largest}
        details["carry"] = {"restart": [list(row) for row in atoms.positions]}
        message += f"; largest gradient {largest:.1e} hartree/bohr"
    return CalculationError(FailureKind.NOT_CONVERGED, message, details=details)
