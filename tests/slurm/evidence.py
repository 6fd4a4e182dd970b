"""What really ran: from what the calculations' own processes wrote, and from what is committed on disk."""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from grafico.runs import RunPaths
from grafico.runs.starts import Started, read_starts

TICK_S = 0.02


def starts(folder: Path) -> list[Started]:
    return sorted(read_starts(RunPaths(folder)), key=lambda started: started.started)


def committed(folder: Path) -> dict[str, str]:
    """Every committed outcome, by key."""
    return {path.stem: path.read_text() for path in RunPaths(folder).outcomes.glob("??/*.json")}


def faults(folder: Path) -> list[str]:
    """What went against the promise: at most one success and one commit for a key, and nothing starts after it."""
    found = []
    by_key: dict[str, list[Started]] = defaultdict(list)
    for started in starts(folder):
        by_key[started.key].append(started)
    for key, several in by_key.items():
        name = several[0].label or key[:8]
        outcome = RunPaths(folder).outcome(key)
        # The kernel's clock for files lags by as much as a tick.
        at = outcome.stat().st_mtime + TICK_S if outcome.exists() else float("inf")
        found += [f"{name} started again after it was committed" for started in several if started.started > at]
        if sum(started.status == "success" for started in several) > 1:
            found.append(f"{name} was finished more than once")
        for earlier, later in itertools.pairwise(several):
            if earlier.ended is not None and later.started < earlier.ended:
                found.append(f"{name} ran twice at the same time")
    return found


def journal(folder: Path) -> list[dict[str, Any]]:
    """Every entry of the journal."""
    lines = [line for path in sorted((folder / "journal").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def attempts_lost(folder: Path) -> list[dict[str, Any]]:
    """What the journal has of attempts that failed because their worker was lost."""
    return [entry for entry in journal(folder) if '"worker_lost"' in json.dumps(entry)]


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())  # type: ignore[no-any-return]


def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "results" / "result.json").read_text())  # type: ignore[no-any-return]
