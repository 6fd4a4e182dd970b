"""Throughput of one GPU with one, two and three calculations on it at once, with and without MPS.

Unverified: there was no GPU where this was written. It says what it finds, and nothing where there is none.
"""

import asyncio
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grafico.atoms import ConceptualAtoms, read_xyz
from grafico.calculations import CalculationTask, Failure
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.request import Level
from grafico.cluster import Pool, Profile, open_cluster
from grafico.cluster.hardware import Gpu, detect_gpus, gpu_settings
from grafico.errors import GraficoError, MissingExtra, ProfileError
from grafico.runs import RunPaths

__all__ = ["CAFFEINE", "bench", "need_a_gpu", "throughput"]

CAFFEINE = """24
MMFF94 geometry
C 2.7652 -1.5612 -0.0014
N 1.5910 -0.7110 -0.0166
C 0.3366 -1.3179 0.0949
O 0.1565 -2.5270 0.2056
C -0.7319 -0.3813 0.0674
C -0.5441 0.9619 -0.0549
N -1.7237 1.6431 -0.0556
C -2.6434 0.7065 0.0676
N -2.0854 -0.5422 0.1461
C -2.7992 -1.7860 0.2854
N 0.7104 1.5115 -0.1617
C 0.8660 2.9489 -0.2903
C 1.8263 0.6742 -0.1447
O 2.9755 1.1162 -0.2373
H 3.3223 -1.4149 -0.9327
H 3.4072 -1.2662 0.8351
H 2.5165 -2.6205 0.0996
H -3.7122 0.8769 0.1046
H -3.8736 -1.5878 0.3204
H -2.4831 -2.2667 1.2145
H -2.5693 -2.4177 -0.5763
H 1.9168 3.2403 -0.3656
H 0.4307 3.4355 0.5882
H 0.3448 3.2854 -1.1922
"""

LEVEL = Level(method="b3lyp", basis="def2-svp", density_fit=True)
WHAT = "energy and gradient of caffeine (24 atoms), B3LYP/def2-SVP, density fitted"
DISTORTION = 2e-3
"""Å by which the geometries differ, so that each is another calculation."""


def need_a_gpu() -> Gpu:
    """Return the first GPU of this machine.

    Raises
    ------
    ProfileError
        There is none.
    MissingExtra
        cupy or gpu4pyscf is not installed.
    """
    gpus = detect_gpus()
    if not gpus:
        raise ProfileError(
            "there is no GPU here: `nvidia-smi` is missing, fails, or lists none that this process may use",
            hint="run `grafico bench gpu` on a machine with an NVIDIA GPU; nothing was measured",
        )
    for module in ("cupy", "gpu4pyscf"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(
                f"there is a GPU ({gpus[0].name}), and {module} is not installed",
                hint="pip install 'grafico[chem,gpu13]' (CUDA 13) or 'grafico[chem,gpu12]' (CUDA 12)",
            )
    return gpus[0]


def geometries(count: int) -> list[ConceptualAtoms]:
    """Return geometries of one molecule that differ by a little, the same in every run."""
    atoms = read_xyz(CAFFEINE)
    first = atoms.positions[0]
    return [
        atoms.moved(((first[0] + DISTORTION * number, first[1], first[2]), *atoms.positions[1:]))
        for number in range(count)
    ]


def throughput(gpu: Gpu, slots: int, *, mps: bool, rounds: int, folder: Path) -> dict[str, Any]:
    """Measure one arrangement: warm up each slot, then run ``rounds`` calculations a slot.

    Parameters
    ----------
    gpu
        The card.
    slots
        Calculations that share it.
    mps
        Whether through NVIDIA's Multi-Process Service; where that does not run, the unit says why there is no value.
    rounds
        Calculations that are timed, for each slot.
    folder
        Where the run goes.
    """
    pool = Pool(name="gpu", gpus=(gpu.uuid,), slots=slots, mps=mps)
    paths = RunPaths(folder)
    paths.create()
    try:
        seconds, single = asyncio.run(_measure(Profile(name="bench-gpu", pools=(pool,)), paths.root, slots, rounds))
    except ProfileError as error:
        if not mps:
            raise
        return {"value": None, "unit": f"not measured: {error.message}"}
    rate = round(3600 * slots * rounds / seconds, 1)
    return {"value": rate, "unit": "1/h", "seconds": single, "count": slots * rounds}


async def _measure(profile: Profile, root: Path, slots: int, rounds: int) -> tuple[float, float]:
    values = [SinglePointInput(atoms=atoms, level=LEVEL, gradient=True) for atoms in geometries(slots * (rounds + 1))]
    async with open_cluster(profile, root) as cluster:
        await _together(cluster, values[:slots])  # imports, contexts, kernels
        begun = time.monotonic()
        times = await _together(cluster, values[slots:])
        return time.monotonic() - begun, round(sorted(times)[len(times) // 2], 3)


async def _together(cluster: Any, values: Sequence[SinglePointInput]) -> list[float]:
    outcomes = await asyncio.gather(*(cluster.run(_task(value)) for value in values))
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise GraficoError(f"a calculation of the benchmark failed: {outcome.kind}: {outcome.message}")
        if "gpu4pyscf" not in outcome.provenance.versions:
            raise GraficoError(f"a calculation did not run on the GPU but on: {outcome.provenance.device}")
    return [outcome.provenance.seconds for outcome in outcomes]


def _task(value: SinglePointInput) -> CalculationTask:
    resources = single_point.resources(value).model_copy(update={"gpu": "slot", "gpu_memory_mib": 0})
    return single_point.task(value, resources=resources, label="bench")


def bench(rounds: int = 4) -> dict[str, Any]:
    """Measure all six arrangements, and look whether the cards' settings stayed as they were.

    Raises
    ------
    ProfileError
        There is no GPU.
    MissingExtra
        cupy or gpu4pyscf is not installed.
    GraficoError
        A calculation failed.
    """
    gpu = need_a_gpu()
    before = gpu_settings()
    found: dict[str, Any] = {"card": gpu.name, "calculation": WHAT}
    with tempfile.TemporaryDirectory() as scratch:
        for mps in (False, True):
            for slots in (1, 2, 3):
                name = f"{slots} at once, {'with' if mps else 'without'} MPS"
                found[name] = throughput(gpu, slots, mps=mps, rounds=rounds, folder=Path(scratch) / f"{slots}-{mps}")
    one = found["1 at once, without MPS"]["value"]
    best = max(value["value"] or 0.0 for value in found.values() if isinstance(value, dict))
    found["best over one at a time"] = {"value": round(best / one, 2), "unit": "times"}
    after = gpu_settings()
    found["settings of the cards"] = "as before" if after == before else f"CHANGED: {_changes(before, after)}"
    return found


def _changes(before: dict[str, str], after: dict[str, str]) -> str:
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return "; ".join(f"{name}: {before.get(name)} → {after.get(name)}" for name in names)
