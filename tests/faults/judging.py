"""What a kill test is judged by: the processes' own records, what was committed, and the results."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from grafico.runs import RunPaths
from grafico.runs.starts import Started, read_starts

ENERGY_TOLERANCE_HA = 1e-7


@dataclass(frozen=True)
class Kill:
    """One kill, as it was done."""

    at: float
    victim: str
    pid: int
    run: str = ""
    """The run that it was meant for; empty where it met all that were there."""


def judge(paths: RunPaths, kills: list[Kill], *, standing: bool = False) -> list[str]:
    """Return what went against the promise, from the processes' own records and the disk.

    On a cluster that stays up, the death of a controller costs nothing: what ran goes on, and is found again.
    """
    faults = []
    free = {"controller"} if standing else set()
    hits = [k.at for k in kills if k.run in {"", paths.name} and k.victim not in free]
    by_key: dict[str, list[Started]] = {}
    for started in read_starts(paths):
        by_key.setdefault(started.key, []).append(started)
    for key, starts in by_key.items():
        outcome = paths.outcome(key)
        committed = outcome.stat().st_mtime if outcome.exists() else float("inf")
        name = f"{starts[0].label} ({key[:8]})"
        faults += [f"{name} started again after it was committed" for s in starts if s.started > committed]
        if sum(s.status == "success" for s in starts) > 1:
            faults.append(f"{name} was finished more than once")
        for earlier, later in itertools.pairwise(starts):
            hit = any(earlier.started <= at <= later.started for at in hits)
            if earlier.status not in ("", "success") and not hit:
                faults.append(f"{name} failed with {earlier.status} without any kill")
            if not hit and earlier.status == "":
                faults.append(f"{name} started twice without a kill between")
            if earlier.ended is not None and later.started < earlier.ended:
                faults.append(f"{name} ran twice at the same time")
        if len(starts) > 1 + len(kills):
            faults.append(f"{name} started {len(starts)} times")
    return faults


def energies(result: object) -> list[float]:
    """All numbers that stand under a key that names an energy in hartree, in order."""
    found: list[float] = []
    if isinstance(result, dict):
        for name, value in sorted(result.items()):
            if isinstance(value, float) and "energy" in name and "kcal" not in name and "ev" not in name.split("_"):
                found.append(value)
            else:
                found += energies(value)
    elif isinstance(result, list):
        for value in result:
            found += energies(value)
    return found


def compare(reference: Path, other: Path) -> list[str]:
    """Compare the results of two runs of the same job."""
    if not (other / "results" / "result.json").exists():
        return ["there is no result"]
    ours, theirs = (json.loads((f / "results" / "result.json").read_text()) for f in (other, reference))
    one, two = energies(ours), energies(theirs)
    if not one or len(one) != len(two):
        return [f"{len(one)} energies, {len(two)} in the undisturbed run"]
    worst = max(abs(a - b) for a, b in zip(one, two, strict=True))
    return [] if worst <= ENERGY_TOLERANCE_HA else [f"an energy differs by {worst:.1e} Ha from the undisturbed run"]
