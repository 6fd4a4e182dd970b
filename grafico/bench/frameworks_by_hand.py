"""Relaxations as somebody would write them by hand: ASE and SevenNet, one framework after the other in one process.

It is the baseline of ``grafico bench frameworks`` and uses nothing of grafico: ``python frameworks_by_hand.py PLAN.json
RESULT.json``. The plan names the structures and the settings, so that all sides do the same.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main(plan_path: str, result_path: str) -> None:
    """Relax each structure of the plan and write energies, cells and the seconds without imports."""
    plan: dict[str, Any] = json.loads(Path(plan_path).read_text())
    os.environ["OMP_NUM_THREADS"] = str(plan["threads"])
    import torch
    from ase import Atoms
    from ase.filters import FrechetCellFilter
    from ase.optimize import FIRE
    from sevenn.calculator import SevenNetCalculator

    torch.set_num_threads(plan["threads"])
    calculator = SevenNetCalculator(plan["model"], device="cuda" if plan["gpu"] else "cpu")
    found: dict[str, Any] = {}
    begun = 0.0
    for index, (name, given) in enumerate(
        [("warm-up", next(iter(plan["structures"].values()))), *plan["structures"].items()]
    ):
        if index == 1:
            begun = time.monotonic()
        image = Atoms(given["symbols"], positions=given["positions"], cell=given["cell"], pbc=True)
        image.calc = calculator
        optimizer = FIRE(FrechetCellFilter(image), logfile=None)
        converged = optimizer.run(fmax=plan["fmax"], steps=plan["steps"] if index else 1)
        found[name] = {
            "energy": float(image.get_potential_energy()),
            "cell": [float(length) for length in image.cell.lengths()],
            "converged": bool(converged),
        }
    seconds = time.monotonic() - begun
    del found["warm-up"]
    Path(result_path).write_text(json.dumps({"seconds": seconds, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
