"""Relaxing frameworks one process a structure, many at once in one process, and by a script: time, and the same results."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms, from_ase, read_cif, to_ase
from grafico.calculations import CalculationTask, Failure, Resources
from grafico.cluster import Pool, Profile, open_cluster
from grafico.cluster.hardware import detect_gpus
from grafico.errors import BadInput, GraficoError, ProfileError
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.calculations.relax_batch import batchable, relax_batch
from grafico.frameworks.potentials import check_potential
from grafico.frameworks.steps import RelaxationSettings, RelaxBatchInput, RelaxedFramework, RelaxInput
from grafico.runs import RunPaths

__all__ = ["bench", "small_frameworks"]

ENERGY_LIMIT = 1e-3
"""eV an atom by which two ways may differ."""
CELL_LIMIT = 5e-3
"""Part of a lattice vector's length by which they may."""

_CUBES = (("Zn", 5.9002, 2.0), ("Cd", 6.44, 2.2))
_REPEATS = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2))


class Measured(NamedTuple):
    """What one way of relaxing took, and what came out."""

    seconds: float
    energies: Mapping[str, float]
    """eV, of those that converged."""
    cells: Mapping[str, Sequence[float]]
    """Lengths of the lattice vectors, Å."""


def small_frameworks() -> dict[str, ConceptualAtoms]:
    """Return cells of zinc and cadmium cyanide with 10 to 80 atoms, each atom moved by some 0.03 Å, always the same.

    Source of the cells: D. J. Williams et al., J. Solid State Chem. 134 (1997) 164.
    """
    found: dict[str, ConceptualAtoms] = {}
    for metal, edge, to_carbon in _CUBES:
        places = [(metal, 0.0, 0.0, 0.0), (metal, 0.5, 0.5, 0.5)]
        for symbol, distance in (("C", to_carbon), ("N", to_carbon + 1.175)):
            x = distance / (3.0**0.5 * edge)
            places += [(symbol, x, x, x), (symbol, -x, -x, x), (symbol, -x, x, -x), (symbol, x, -x, -x)]
        cube = ConceptualAtoms(
            symbols=tuple(place[0] for place in places),
            positions=tuple(((x % 1) * edge, (y % 1) * edge, (z % 1) * edge) for _, x, y, z in places),
            cell=((edge, 0.0, 0.0), (0.0, edge, 0.0), (0.0, 0.0, edge)),
        )
        for number, repeat in enumerate(_REPEATS):
            image = to_ase(cube).repeat(repeat)
            image.rattle(stdev=0.03, seed=number)
            found[f"{metal}{len(image)}"] = from_ase(image)
    return found


def bench(
    cifs: Path | None = None,
    model: str = "7net-0",
    fmax: float = 0.05,
    steps: int = 500,
    *,
    gpu: bool = False,
    cpus: int | None = None,
) -> dict[str, Any]:
    """Relax the same frameworks three ways, one after the other, each after a warm-up that is not timed.

    Parameters
    ----------
    cifs
        A folder of CIF files; default: eight small cyanides.
    model
        A potential that can be batched; the script knows only SevenNet's.
    fmax, steps
        As in :class:`~grafico.frameworks.steps.RelaxationSettings`.
    gpu
        On the first GPU, in slots of a third of it and as a whole, instead of CPUs. Unverified: none was at hand.
    cpus
        Slots of one thread each, and threads of the batch and of the script; default: all CPUs.

    Raises
    ------
    BadInput
        The potential cannot be batched, or there are no structures.
    ProfileError
        A GPU was asked for, and there is none.
    GraficoError
        A calculation failed for another reason than that it did not converge.
    """
    if not batchable(model):
        raise BadInput(
            f"{model} cannot relax many frameworks at once, so there is nothing to compare", hint="7net-0 can"
        )
    structures = small_frameworks() if cifs is None else _read(cifs)
    settings = RelaxationSettings(model=model, fmax=fmax, steps=steps)
    cpus = cpus or os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        slots, pool = _pool(cpus, gpu=gpu)
        ways = {
            "one process a structure": asyncio.run(
                _one_by_one(folder / "alone", pool, slots, structures, settings, gpu=gpu)
            ),
            "batched": asyncio.run(_together(folder / "together", pool, cpus, structures, settings, gpu=gpu)),
        }
        if check_potential(model).kind == "7net" and check_potential(model).modal is None:
            ways["script"] = _script(folder, structures, settings, cpus, gpu=gpu)
    return _report(structures, slots, cpus, ways)


def _read(folder: Path) -> dict[str, ConceptualAtoms]:
    files = sorted(folder.glob("*.cif")) if folder.is_dir() else []
    if not files:
        raise BadInput(f"{folder} holds no CIF files", hint="give a folder with frameworks as *.cif")
    return {file.stem: read_cif(file.read_text(), file.name) for file in files}


def _pool(cpus: int, *, gpu: bool) -> tuple[int, Pool]:
    if not gpu:
        return cpus, Pool(name="cpu", cpus=cpus)
    cards = detect_gpus()
    if not cards:
        raise ProfileError(
            "there is no GPU here: `nvidia-smi` is missing, fails, or lists none that this process may use",
            hint="leave out --gpu to measure on CPUs",
        )
    pool = Pool(name="gpu", gpus=(cards[0].uuid,))
    return pool.slots, pool


def _resources(asked: Resources, cpus: int, *, gpu: str) -> Resources:
    placed = asked.without_gpu() if gpu == "none" else asked.model_copy(update={"gpu": gpu, "gpu_memory_mib": 0})
    return placed.model_copy(update={"cpus": cpus})


async def _one_by_one(
    root: Path,
    pool: Pool,
    slots: int,
    structures: Mapping[str, ConceptualAtoms],
    settings: RelaxationSettings,
    *,
    gpu: bool,
) -> Measured:
    """Relax each in a calculation of its own, as many at a time as there are slots."""

    def task(atoms: ConceptualAtoms, chosen: RelaxationSettings) -> CalculationTask:
        value = RelaxInput(structure=atoms, settings=chosen)
        resources = _resources(relax.resources(value), 1, gpu="slot" if gpu else "none")
        return relax.task(value, resources=resources, label="bench")

    RunPaths(root).create()
    first = next(iter(structures.values()))
    async with open_cluster(Profile(name="bench-frameworks", pools=(pool,)), root) as cluster:
        warm = [settings.model_copy(update={"fmax": 1.0, "steps": 1 + number}) for number in range(slots)]
        await asyncio.gather(*(cluster.run(task(first, chosen)) for chosen in warm))
        begun = time.monotonic()
        outcomes = await asyncio.gather(*(cluster.run(task(atoms, settings)) for atoms in structures.values()))
        seconds = time.monotonic() - begun
    relaxed: dict[str, RelaxedFramework] = {}
    for name, outcome in zip(structures, outcomes, strict=True):
        if isinstance(outcome, Failure):
            _only_unconverged(outcome)
        else:
            relaxed[name] = outcome.output
    return _measured(seconds, relaxed)


async def _together(
    root: Path,
    pool: Pool,
    cpus: int,
    structures: Mapping[str, ConceptualAtoms],
    settings: RelaxationSettings,
    *,
    gpu: bool,
) -> Measured:
    """Relax all in one calculation that has all CPUs, or the whole GPU."""

    def task(batch: Mapping[str, ConceptualAtoms], chosen: RelaxationSettings) -> CalculationTask:
        value = RelaxBatchInput(structures=batch, settings=chosen)
        asked = _resources(relax_batch.resources(value), cpus, gpu="exclusive" if gpu else "none")
        return relax_batch.task(value, resources=asked, label="bench")

    RunPaths(root).create()
    name, first = next(iter(structures.items()))
    async with open_cluster(Profile(name="bench-frameworks", pools=(pool,)), root) as cluster:
        await cluster.run(task({name: first}, settings.model_copy(update={"fmax": 1.0, "steps": 1})))
        begun = time.monotonic()
        outcome = await cluster.run(task(structures, settings))
        seconds = time.monotonic() - begun
    if isinstance(outcome, Failure):
        raise GraficoError(f"the batch failed: {outcome.kind}: {outcome.message}")
    for failure in outcome.output.failed.values():
        _only_unconverged(failure)
    return _measured(seconds, outcome.output.relaxed)


def _only_unconverged(failure: Failure) -> None:
    if failure.kind.value != "not_converged":
        raise GraficoError(f"a calculation of the benchmark failed: {failure.kind}: {failure.message}")


def _measured(seconds: float, relaxed: Mapping[str, RelaxedFramework]) -> Measured:
    import numpy

    return Measured(
        seconds,
        {name: found.energy for name, found in relaxed.items()},
        {name: [float(numpy.linalg.norm(v)) for v in found.structure.cell or ()] for name, found in relaxed.items()},
    )


def _script(
    folder: Path, structures: Mapping[str, ConceptualAtoms], settings: RelaxationSettings, threads: int, *, gpu: bool
) -> Measured:
    """Run the script by hand; it says itself how long it took after its imports."""
    plan, result = folder / "plan.json", folder / "by-hand.json"
    plan.write_text(
        json.dumps(
            {
                "model": settings.model,
                "fmax": settings.fmax,
                "steps": settings.steps,
                "threads": threads,
                "gpu": gpu,
                "structures": {name: atoms.model_dump(mode="json") for name, atoms in structures.items()},
            }
        )
    )
    script = Path(__file__).with_name("frameworks_by_hand.py")
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    done = subprocess.run(
        [sys.executable, str(script), str(plan), str(result)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise GraficoError(f"the script by hand failed with exit code {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(result.read_text())
    converged = {name: found for name, found in told["found"].items() if found["converged"]}
    return Measured(
        told["seconds"],
        {name: found["energy"] for name, found in converged.items()},
        {name: found["cell"] for name, found in converged.items()},
    )


def _report(
    structures: Mapping[str, ConceptualAtoms], slots: int, cpus: int, ways: Mapping[str, Measured]
) -> dict[str, Any]:
    """Return times, their ratios, and by how much energies and cells differ from those of one process a structure."""
    found: dict[str, Any] = {
        "structures": len(structures),
        "atoms": sum(len(atoms) for atoms in structures.values()),
        "slots": slots,
        "threads of the batch": cpus,
    }
    for name, way in ways.items():
        found[f"{name}, wall"] = {"value": round(way.seconds, 1), "unit": "s"}
    names = list(ways)
    for index, below in enumerate(names):
        for name in names[index + 1 :]:
            over = ways[name].seconds / ways[below].seconds
            found[f"{name} over {below}"] = {"value": round(over, 3), "unit": ""}
    first = ways[names[0]]
    for name in names[1:]:
        energy, cell = _differences(structures, first, ways[name])
        found[f"{name}: largest difference of an energy"] = {"value": energy, "limit": ENERGY_LIMIT, "unit": "eV/atom"}
        found[f"{name}: largest difference of a cell"] = {"value": cell, "limit": CELL_LIMIT, "unit": "relative"}
    found["not converged"] = {name: len(structures) - len(way.energies) for name, way in ways.items()}
    return found


def _differences(
    structures: Mapping[str, ConceptualAtoms], one: Measured, other: Measured
) -> tuple[float | None, float | None]:
    """Return the largest differences among those that both converged: eV an atom, and parts of a length."""
    both = sorted(set(one.energies) & set(other.energies))
    if not both:
        return None, None
    energy = max(abs(one.energies[name] - other.energies[name]) / len(structures[name]) for name in both)
    cell = max(
        abs(ours / theirs - 1.0)
        for name in both
        for ours, theirs in zip(one.cells[name], other.cells[name], strict=True)
    )
    return energy, cell
