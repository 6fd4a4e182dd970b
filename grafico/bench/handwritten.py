"""The quickstart as somebody would write it by hand: direct calls of RDKit, tblite and PySCF, and a process pool.

It is the baseline of ``grafico bench chemistry`` and uses nothing of grafico: ``python handwritten.py PLAN.json
RESULT.json``. The plan names the molecule, the level, and the structures that the search starts from and ends with, so
that both sides do the same calculations.
"""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

Geometry = list[list[Any]]


def embed(smiles: str, seeds: int) -> int:
    """Embed and relax with a force field; return the number of structures."""
    from rdkit.Chem import AddHs, MolFromSmiles
    from rdkit.Chem.rdDistGeom import EmbedMultipleConfs, ETKDGv3
    from rdkit.Chem.rdForceFieldHelpers import MMFFOptimizeMoleculeConfs

    molecule = AddHs(MolFromSmiles(smiles))
    parameters: Any = ETKDGv3()
    parameters.randomSeed = 61453
    EmbedMultipleConfs(molecule, seeds, parameters)
    return len(MMFFOptimizeMoleculeConfs(molecule, maxIters=2000, mmffVariant="MMFF94s"))


def optimize_xtb(geometry: Geometry) -> float:
    """Optimize with GFN2-xTB; return the energy in hartree."""
    from ase import Atoms, units
    from ase.optimize import BFGS
    from tblite.ase import TBLite

    atoms = Atoms([row[0] for row in geometry], positions=[row[1:] for row in geometry])
    atoms.calc = TBLite(method="GFN2-xTB", verbosity=0)
    BFGS(atoms, logfile=None).run(fmax=0.005, steps=500)
    return float(atoms.get_potential_energy() / units.Hartree)


def mean_field(geometry: Geometry, level: dict[str, Any]) -> Any:
    """Return PySCF's Kohn-Sham object, not yet solved."""
    from pyscf import dft, gto, lib

    lib.num_threads(1)
    molecule = gto.M(atom=[(row[0], tuple(row[1:])) for row in geometry], basis=level["basis"], verbose=0)
    method = dft.RKS(molecule)
    method.xc = level["method"]
    method.grids.level = level["grid"]
    method.conv_tol = level["scf_convergence"]
    if level["density_fit"]:
        method = method.density_fit()
    if level["solvent"]:
        method = method.SMD()
        method.with_solvent.solvent = level["solvent"]["name"]
    return method


def excite(method: Any, states: dict[str, Any], *, solvated: bool) -> list[float]:
    """Return excitation energies in hartree."""
    make = method.TDA if states["tda"] else method.TDDFT
    solver = make(equilibrium_solvation=False) if solvated else make()
    solver.nstates = states["roots"]
    solver.conv_tol = states["convergence"]
    solver.max_cycle = 100
    solver.kernel()
    solver.oscillator_strength()
    return [float(energy) for energy in solver.e]


def refine(
    task: tuple[Geometry, dict[str, Any], dict[str, Any], dict[str, float], bool],
) -> tuple[Geometry, float, list[float], Any]:
    """Optimize one conformer, take its frequencies where asked, and excite it."""
    from pyscf.geomopt.geometric_solver import optimize
    from pyscf.hessian import thermo

    geometry, level, wanted, limits, with_frequencies = task
    start = mean_field(geometry, level)
    scanner = start.nuc_grad_method().as_scanner()
    molecule = optimize(
        scanner,
        maxsteps=100,
        convergence_energy=limits["energy"],
        convergence_grms=limits["gradient_rms"],
        convergence_gmax=limits["gradient_max"],
        convergence_drms=limits["displacement_rms"],
        convergence_dmax=limits["displacement_max"],
    )
    method = mean_field(
        [[a, *p] for a, p in zip(molecule.elements, molecule.atom_coords(unit="Ang"), strict=True)], level
    )
    method.kernel(dm0=scanner.base.make_rdm1())
    if with_frequencies:
        thermo.harmonic_analysis(method.mol, method.Hessian().kernel())
    states = excite(method, wanted, solvated=bool(level["solvent"]))
    final = [[a, *map(float, p)] for a, p in zip(molecule.elements, molecule.atom_coords(unit="Ang"), strict=True)]
    return final, float(method.e_tot), states, method.make_rdm1()


def reuse(task: tuple[Geometry, dict[str, Any], dict[str, Any], Any]) -> tuple[Geometry, float, list[float], Any]:
    """Excite a conformer in a solvent at a geometry that is given."""
    geometry, level, wanted, density = task
    method = mean_field(geometry, level)
    method.kernel(dm0=density)
    return geometry, float(method.e_tot), excite(method, wanted, solvated=bool(level["solvent"])), None


def draw(curves: dict[str, list[tuple[float, list[float]]]], path: Path) -> None:
    """Draw weighted spectra."""
    import matplotlib as mpl

    mpl.use("Agg")
    import numpy
    from matplotlib import pyplot

    axis = numpy.linspace(2.0, 12.0, 2000)
    figure, plot = pyplot.subplots()
    for name, conformers in curves.items():
        energies = numpy.array([energy for energy, _ in conformers])
        weights = numpy.exp(-(energies - energies.min()) / (3.166811563e-6 * 298.15))
        total = numpy.zeros_like(axis)
        for weight, (_, states) in zip(weights / weights.sum(), conformers, strict=True):
            for state in states:
                total += weight * numpy.exp(-(((axis - state * 27.211386245988) / 0.2) ** 2) / 2)
        plot.plot(axis, total, label=name)
    plot.legend()
    figure.savefig(path.with_suffix(".png"), dpi=200)
    figure.savefig(path.with_suffix(".svg"))


def main(plan_path: Path, result_path: Path) -> None:
    """Do all of it, and write energies and times."""
    plan = json.loads(plan_path.read_text())
    began = time.monotonic()
    found: dict[str, list[tuple[Geometry, float, list[float], Any]]] = {}
    with multiprocessing.get_context("spawn").Pool(plan["processes"]) as pool:
        embed(plan["smiles"], plan["seeds"])
        pool.map(optimize_xtb, plan["starts"], chunksize=1)
        for environment in plan["environments"]:
            source = environment["geometries"]
            if source is None:
                shared = (environment["level"], plan["states"], plan["thresholds"], plan["frequencies"])
                tasks = [(c, *shared) for c in plan["conformers"]]
                found[environment["name"]] = pool.map(refine, tasks, chunksize=1)
            else:
                chosen = [found[source][index] for index in environment["members"]]
                given = [(c[0], environment["level"], plan["states"], c[3]) for c in chosen]
                found[environment["name"]] = pool.map(reuse, given, chunksize=1)
    draw({name: [(c[1], c[2]) for c in conformers] for name, conformers in found.items()}, result_path)
    energies = {name: [c[1] for c in conformers] for name, conformers in found.items()}
    result_path.write_text(json.dumps({"seconds": time.monotonic() - began, "energies": energies}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
