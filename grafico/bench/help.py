"""CPU time of ``grafico --help``: what a person waits for most often."""

import os
import resource
import subprocess
import sys
from typing import Any

__all__ = ["bench"]

LIMIT_S = 0.3


def bench(repeats: int = 5) -> dict[str, Any]:
    """Return the median CPU time of ``grafico --help``, of a bare interpreter, and what was imported.

    Parameters
    ----------
    repeats
        Processes of each kind; the first, which may have to compile bytecode, does not count.
    """
    shown = [_cpu_s(["-m", "grafico.cli.main", "--help"]) for _ in range(repeats + 1)][1:]
    bare = [_cpu_s(["-c", "pass"]) for _ in range(repeats + 1)][1:]
    return {
        "grafico --help, CPU": {"value": round(sorted(shown)[len(shown) // 2], 3), "limit": LIMIT_S, "unit": "s"},
        "grafico --help, CPU, slowest": {"value": round(max(shown), 3), "unit": "s"},
        "python -c pass, CPU": {"value": round(sorted(bare)[len(bare) // 2], 3), "unit": "s"},
    }


def _cpu_s(arguments: list[str]) -> float:
    environment = {**os.environ, "COLUMNS": "100"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
