"""The wall time of an ensemble job over that of a hand-written script that does the same calculations."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafico.cluster.hardware import blas_kernel
from grafico.errors import GraficoError

__all__ = ["JOB", "bench"]

LIMIT = 1.10
AGREEMENT_HA = 1e-6

JOB = """\
name: bench-chemistry
graph: ensemble-spectrum
input:
  molecule: {name: glycolaldehyde}
  search: {engine: rdkit, seeds: 200, window: 8.0}
  level: {method: b3lyp, basis: def2-svp, density_fit: true, grid: 2}
  thresholds:
    {energy: 1.0e-5, gradient_rms: 1.0e-3, gradient_max: 1.5e-3, displacement_rms: 4.0e-3, displacement_max: 6.0e-3}
  excited_states: {roots: 6, tda: true, convergence: 1.0e-4}
  environments:
    - {name: gas}
    - {name: water, solvent: water, model: smd, geometries: gas}
  broadening: {width_ev: 0.2}
"""
"""The same input as ``jobs/quickstart.yaml``, which is not there where only the package is installed."""


def bench(job: Path | None = None, repeats: int = 1) -> dict[str, Any]:
    """Run the job with grafico and the same calculations by hand, in turn, and compare.

    Parameters
    ----------
    job
        An ensemble job file that the two can share: closed-shell, neutral, continuum solvents by SMD. Default: the
        quickstart's calculations.
    repeats
        Pairs of runs; the ratio is that of the two smallest times.
    """
    processes = os.cpu_count() or 1
    ours: list[float] = []
    by_hand: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if job is None:
            job = folder / "job.yaml"
            job.write_text(JOB)
        for number in range(repeats):
            seconds, run = _grafico(job, folder / f"runs{number}")
            ours.append(seconds)
            plan = _plan(run, processes)
            seconds, energies = _script(plan, folder)
            by_hand.append(seconds)
            worst = _disagreement(run, energies)
    return {
        "grafico, wall": {"value": round(min(ours), 1), "unit": "s"},
        "hand-written script, wall": {"value": round(min(by_hand), 1), "unit": "s"},
        "ratio": {"value": round(min(ours) / min(by_hand), 3), "limit": LIMIT, "unit": ""},
        "largest difference of an energy": {"value": worst, "limit": AGREEMENT_HA, "unit": "hartree"},
        "conformers refined": len(plan["conformers"]),
        "processes": processes,
    }


def _environment(folder: Path) -> dict[str, str]:
    """Return the same for both sides, so that the ratio is grafico's own cost and not that of a BLAS kernel."""
    kernel = {"OPENBLAS_CORETYPE": found} if (found := blas_kernel()) else {}
    return {
        **kernel,
        **os.environ,
        "GRAFICO_KB": str(folder / "kb"),
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
    }


def _timed(command: list[str], folder: Path) -> float:
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(folder))
    if done.returncode != 0:
        raise GraficoError(f"{command[1:4]} failed with exit code {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - began


def _grafico(job: Path, base: Path) -> tuple[float, Path]:
    seconds = _timed([sys.executable, "-m", "grafico.cli.main", "run", str(job), "--runs-dir", str(base)], base)
    return seconds, next(path.parent for path in base.glob("*/manifest.json"))


def _plan(run: Path, processes: int) -> dict[str, Any]:
    """Return what the script is to do: the same structures, levels and states."""
    from grafico.chemistry.calculations.conformers import Embedded
    from grafico.chemistry.conformers import Pruned

    request = json.loads((run / "job.json").read_text())["job"]["input"]
    result = json.loads((run / "results" / "result.json").read_text())
    outputs = [json.loads(path.read_text())["outcome"]["output"] for path in run.glob("outcomes/??/*.json")]
    embedded = next(o for o in outputs if set(o) == set(Embedded.model_fields))
    pruned = next(o for o in outputs if set(o) == set(Pruned.model_fields))
    names = [conformer["id"] for conformer in pruned["conformers"]]
    return {
        "processes": processes,
        "smiles": embedded["smiles"],
        "seeds": request["search"]["seeds"],
        "states": request["excited_states"],
        "thresholds": request["thresholds"],
        "frequencies": bool(request.get("frequencies")),
        "starts": [_geometry(candidate["atoms"]) for candidate in embedded["candidates"]],
        "names": names,
        "conformers": [_geometry(conformer["atoms"]) for conformer in pruned["conformers"]],
        "environments": [
            {
                "name": found["environment"]["name"],
                "geometries": found["environment"]["geometries"],
                "level": found["level"],
                "members": [names.index(member["id"]) for member in found["members"]],
            }
            for found in result["environments"]
        ],
    }


def _geometry(atoms: Mapping[str, Any]) -> list[list[Any]]:
    return [[symbol, *position] for symbol, position in zip(atoms["symbols"], atoms["positions"], strict=True)]


def _script(plan: dict[str, Any], folder: Path) -> tuple[float, dict[str, dict[str, float]]]:
    plan_path, result_path = folder / "plan.json", folder / "byhand.json"
    plan_path.write_text(json.dumps(plan))
    script = Path(__file__).with_name("handwritten.py")
    seconds = _timed([sys.executable, str(script), str(plan_path), str(result_path)], folder)
    energies = json.loads(result_path.read_text())["energies"]
    named = {}
    for environment in plan["environments"]:
        every = range(len(plan["names"])) if environment["geometries"] is None else environment["members"]
        names = [plan["names"][index] for index in every]
        named[environment["name"]] = dict(zip(names, energies[environment["name"]], strict=True))
    return seconds, named


def _disagreement(run: Path, energies: dict[str, dict[str, float]]) -> float:
    """Return the largest difference between an energy of the run and the script's, hartree."""
    result = json.loads((run / "results" / "result.json").read_text())
    differences: list[float] = [
        abs(member["energy"] - energies[found["environment"]["name"]][member["id"]])
        for found in result["environments"]
        for member in found["members"]
    ]
    return max(differences)
