"""Explicit solvent shells: packmol fills a sphere, GFN2-xTB anneals and optimizes it.

Source: L. Martínez, R. Andrade, E. G. Birgin, J. M. Martínez, J. Comput. Chem. 2009, 30, 2157 (packmol);
http://m3g.iqm.unicamp.br/packmol.
"""

import math
import shutil
from pathlib import Path
from typing import Any

from pydantic import Field

from grafico.atoms import ConceptualAtoms, bond_changes, read_xyz, to_ase, write_xyz
from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, Model, Resources, Rung, WorkContext, calculation
from grafico.chemistry.calculations.crest import SolvatedCluster, run_program
from grafico.chemistry.calculations.xtb import (
    XTBLevel,
    XTBOptimizationInput,
    failure_of_tblite,
    optimize_image,
    tblite_errors,
    xtb_calculator,
    xtb_resources,
)
from grafico.errors import MissingExtra, MoleculeError

__all__ = ["ShellInput", "packmol_input", "packmol_path", "solvate", "sphere_radius"]

_AVOGADRO_A3 = 0.602214076
"""Molecules in 1 Å³ at 1 mol/cm³."""
_HEAVY_HYDROGEN = 4.0
"""Mass of hydrogen in the annealing run, u: it slows the fastest vibrations, so that steps of 1 fs are safe."""


class ShellInput(Model):
    """A solute and the shell that it is to get."""

    solute: ConceptualAtoms
    solvent: ConceptualAtoms
    molecules: int = Field(ge=1, le=200, description="solvent molecules")
    density: float = Field(default=1.0, gt=0.05, le=5, description="of the packed sphere, g/cm³")
    temperature: float = Field(default=300.0, gt=0, le=1500, description="of the annealing run, K")
    picoseconds: float = Field(default=2.0, ge=0, le=500, description="length of the annealing run, ps; 0 for none")
    implicit: str | None = Field(default=None, description="ALPB solvent around the cluster")
    seed: int = Field(default=61453, ge=0, le=2_000_000_000, description="seed of packing and velocities")
    force_limit: float = Field(default=0.02, ge=1e-4, le=0.5, description="largest force on an atom at the end, eV/Å")
    steps: int = Field(default=1500, ge=1, le=50_000, description="most steps of the optimization")


def packmol_path() -> str:
    """Return the program's path.

    Raises
    ------
    MissingExtra
        It is not on PATH.
    """
    found = shutil.which("packmol")
    if found is None:
        raise MissingExtra(
            "the program packmol, which builds solvent shells, is not on PATH",
            hint="apt install packmol (Debian, Ubuntu), or conda install -c conda-forge packmol",
        )
    return found


def sphere_radius(value: ShellInput) -> float:
    """Return the radius in Å of the sphere that holds solute and solvent at the density asked for."""
    data = require("ase.data", purpose="for atomic masses")
    masses = [
        sum(float(data.atomic_masses[data.atomic_numbers[symbol]]) for symbol in atoms.symbols)
        for atoms in (value.solute, value.solvent)
    ]
    # g/mol over g/cm³ is cm³/mol; the solute takes about the room of as much solvent by mass.
    volume = (masses[0] + value.molecules * masses[1]) / value.density / _AVOGADRO_A3
    radius = math.cbrt(3.0 * volume / (4.0 * math.pi))
    centered = _centered(value.solute)
    reach = max(math.dist(position, (0.0, 0.0, 0.0)) for position in centered.positions)
    # An elongated solute must fit, with a molecule of solvent beyond its ends.
    return max(radius, reach + 2.5)


def packmol_input(value: ShellInput, radius: float) -> str:
    """Return packmol's input: the solute fixed at the center, the solvent inside a sphere."""
    return "\n".join(
        [
            "tolerance 2.0",
            "filetype xyz",
            "output packed.xyz",
            f"seed {value.seed % 1_000_000}",
            "structure solute.xyz",
            "  number 1",
            "  fixed 0. 0. 0. 0. 0. 0.",
            "end structure",
            "structure solvent.xyz",
            f"  number {value.molecules}",
            f"  inside sphere 0. 0. 0. {radius:.3f}",
            "end structure",
            "",
        ]
    )


def _centered(atoms: ConceptualAtoms) -> ConceptualAtoms:
    count = len(atoms)
    center = [sum(position[axis] for position in atoms.positions) / count for axis in range(3)]
    return atoms.moved(tuple((x - center[0], y - center[1], z - center[2]) for x, y, z in atoms.positions))


def _size(value: ShellInput) -> int:
    return len(value.solute) + value.molecules * len(value.solvent)


def _resources(value: ShellInput) -> Resources:
    size = _size(value)
    needs = xtb_resources(size)
    # One gradient takes about 4e-5 s per atom squared; twentyfold for a busy or slow core.
    annealing = 20.0 * 4e-5 * size**2 * (1000.0 * value.picoseconds + value.steps)
    return needs.model_copy(update={"walltime_s": needs.walltime_s + annealing})


_LADDER = {
    FailureKind.NOT_CONVERGED: [Rung(note="three times the steps", settings={"scale_steps": 3}, scale_walltime=3.0)],
    FailureKind.TIMEOUT: [Rung(note="three times the walltime", scale_walltime=3.0)],
    FailureKind.OUT_OF_MEMORY: [Rung(note="twice the memory", scale_memory=2.0)],
}


@calculation(
    version="1", resources=_resources, ladder=_LADDER, family="tblite", uses=("program:packmol", "tblite", "ase")
)
def solvate(value: ShellInput, ctx: WorkContext) -> SolvatedCluster:
    """Pack solvent molecules around a solute, anneal them by molecular dynamics, and optimize the cluster."""
    radius = sphere_radius(value)
    packed = _pack(value, radius, ctx.scratch)
    level = XTBLevel(solvent=value.implicit, accuracy=1.0)
    image = to_ase(packed)
    image.calc = xtb_calculator(level, packed, ctx.settings)
    if value.picoseconds > 0:
        _anneal(image, value, radius)
    request = XTBOptimizationInput(
        atoms=packed, level=level.model_copy(update={"accuracy": 0.1}), force_limit=value.force_limit, steps=value.steps
    )
    image.calc = xtb_calculator(request.level, packed, ctx.settings)
    relaxed = optimize_image(image, request, ctx)
    changes = bond_changes(packed, relaxed.atoms)
    if changes:
        raise CalculationError(
            FailureKind.REFUSED, f"the shell reacted with the solute or itself: {changes.describe(packed.symbols)}"
        )
    return SolvatedCluster(
        atoms=relaxed.atoms,
        energy=relaxed.energy,
        solute_atoms=len(value.solute),
        solvent_molecules=value.molecules,
        engine="packmol + GFN2-xTB",
    )


def _pack(value: ShellInput, radius: float, folder: Path) -> ConceptualAtoms:
    program = packmol_path()
    (folder / "solute.xyz").write_text(write_xyz(_centered(value.solute)))
    (folder / "solvent.xyz").write_text(write_xyz(_centered(value.solvent)))
    (folder / "packmol.inp").write_text(packmol_input(value, radius))
    output = run_program([program], folder, "packmol", given=folder / "packmol.inp")
    result = folder / "packed.xyz"
    if not result.is_file() or "Success!" not in output:
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"packmol could not fit {value.molecules} molecules into a sphere of {radius:.1f} Å; lower the density",
        )
    try:
        packed = read_xyz(result.read_text(), "packed.xyz")
    except MoleculeError as error:
        raise CalculationError(FailureKind.ENGINE_ERROR, error.message) from error
    return packed.model_copy(
        update={
            "charge": value.solute.charge + value.molecules * value.solvent.charge,
            "multiplicity": value.solute.multiplicity,
        }
    )


def _anneal(image: Any, value: ShellInput, radius: float) -> None:
    """Run Langevin dynamics with the heavy solvent atoms kept inside the sphere."""
    import numpy
    from ase import units

    constraints = require("ase.constraints")
    dynamics = require("ase.md.langevin")
    masses = image.get_masses()
    masses[[symbol == "H" for symbol in image.get_chemical_symbols()]] = _HEAVY_HYDROGEN
    image.set_masses(masses)
    wall = radius + 1.0
    image.set_constraint(
        [
            constraints.Hookean(a1=index, a2=(0.0, 0.0, 0.0), rt=wall, k=1.0)
            for index in range(len(value.solute), len(image))
            if image[index].symbol != "H"
        ]
    )
    generator = numpy.random.default_rng(value.seed)
    # Contacts of the packing would heat the run: relax the worst of them first.
    try:
        require("ase.optimize").FIRE(image, logfile="-").run(fmax=1.0, steps=50)
        thermal = numpy.sqrt(image.get_masses() * units.kB * value.temperature)
        image.set_momenta(generator.standard_normal((len(image), 3)) * thermal[:, None])
        run = dynamics.Langevin(
            image,
            timestep=1.0 * units.fs,
            temperature_K=value.temperature,
            friction=0.02 / units.fs,
            fixcm=False,
            rng=generator,
            logfile="-",
            loginterval=100,
        )
        run.run(round(1000.0 * value.picoseconds))
    except tblite_errors() as error:
        raise failure_of_tblite(error) from error
    if not numpy.isfinite(image.get_positions()).all():
        raise CalculationError(FailureKind.ENGINE_ERROR, "the annealing run blew up; lower its temperature")
    image.set_constraint()
