"""A soak: many short lanes on four pretended GPUs while workers are killed at random, and what must hold all the same.

Judged from what the workers themselves recorded (``starts/``), from the outcomes on disk and from the journal, never
from what the controller believes.
"""

import asyncio
import contextlib
import random
import secrets
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from grafico.bench.cluster import LIMIT_LANE_KIB, SIMULATED, SLOTS, new_run, own_leases, resident_kib, walk
from grafico.bench.deaths import Deaths
from grafico.bench.naps import CrowdState, NapInput, nap
from grafico.cluster import open_cluster
from grafico.graphs.events import Event, LaneEnded
from grafico.runs import OutcomeStore, Run, Started, read_run, read_starts

__all__ = ["bench", "crowded", "most_at_once", "repeated"]

SHORTEST_S, LONGEST_S = 0.02, 0.1
EXCLUSIVE = 25
"""One lane in so many wants a whole GPU."""

LANES_A_KILL = 200
FEWEST_KILLS = 5
LIMIT_S = 600.0
"""For 5,000 lanes."""

GRACE_S = 10.0
"""What is left of a cluster ends within this."""

NOISE_KIB = 16 * 1024
"""What the memory of a process goes up and down by itself."""


def bench(lanes: int = 5000, seed: int | None = None) -> dict[str, Any]:
    """Walk the lanes, kill workers meanwhile, and judge.

    Parameters
    ----------
    lanes
        How many.
    seed
        Of the lanes' lengths, the moments and the victims; default: another each time.

    Returns
    -------
    dict
        What was measured, and ``faults``: a sentence for each; empty if all held.
    """
    seed = secrets.randbelow(10**6) if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="grafico-soak-") as folder, own_leases(Path(folder)):
        return asyncio.run(_soak(Path(folder), lanes, seed))


@dataclass
class Killer:
    """Kills a worker whenever the number of ended lanes passes the next of some random marks."""

    rng: random.Random
    marks: list[int]
    deaths: Deaths
    kills: list[float] = field(default_factory=list)
    ended: int = 0
    failures: list[str] = field(default_factory=list)
    memory: list[tuple[int, float]] = field(default_factory=list)
    """Ended lanes, and this process's resident memory, KiB."""
    every: int = 50

    def see(self, event: Event) -> None:
        """Take an event of the walk."""
        if not isinstance(event, LaneEnded):
            return
        self.ended += 1
        if event.failure is not None:
            self.failures.append(f"{event.failure.kind}: {event.failure.message[:160]}")
        if self.ended % self.every == 0:
            self.memory.append((self.ended, resident_kib()))
        while self.marks and self.ended >= self.marks[0]:
            self.marks.pop(0)
            self.kill()

    def kill(self) -> None:
        """Kill one worker; its calculations' processes have to end by themselves."""
        workers = [p for p in psutil.Process().children() if _is_worker(p)]
        if not workers:
            return
        victim = self.rng.choice(workers)
        with contextlib.suppress(psutil.Error):
            family = [victim, *victim.children(recursive=True)]
            self.deaths.watch(process.pid for process in family)
            victim.send_signal(signal.SIGKILL)
            self.kills.append(time.time())


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:160]
    except psutil.Error:
        return "it has ended by now"


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "grafico.cluster.worker" in process.cmdline()
    except psutil.Error:
        return False


async def _soak(base: Path, lanes: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    count = max(FEWEST_KILLS, lanes // LANES_A_KILL)
    marks = sorted(rng.sample(range(min(12, lanes // 2), max(13, lanes - 12)), min(count, max(1, lanes - 24))))
    run = new_run(base)
    naps = [_nap(number, rng) for number in range(lanes)]
    before = set(psutil.Process().children(recursive=True))  # of whoever calls: they are none of the cluster's
    began = time.monotonic()
    with Deaths() as deaths:
        killer = Killer(rng, marks, deaths, every=max(10, lanes // 40))
        state = CrowdState(batches=[naps], limit=128)
        async with open_cluster(SIMULATED, run.paths.root) as cluster:
            await walk(run, cluster, state, killer.see, may_fail=True)
            family = set(psutil.Process().children(recursive=True)) - before
        took = time.monotonic() - began
        _, survivors = psutil.wait_procs(family, timeout=GRACE_S)
        starts = read_starts(run.paths)
        slope = _slope(killer.memory)
        faults = [
            *_unaccounted(run, naps, state),
            *crowded(starts, deaths),
            *repeated(run, naps, starts),
            *(f"process {each.pid} outlived the cluster: {_command(each)}" for each in survivors),
            *_grown(killer.memory),
        ]
    return {
        "seed": seed,
        "lanes": lanes,
        "workers killed": len(killer.kills),
        "calculations that were started": len(starts),
        "of them cut off": sum(started.ended is None for started in starts),
        "lanes done": state.done,
        "lanes failed": state.failed,
        **{f"failed: {said}": number for said, number in Counter(killer.failures).most_common(5)},
        "most on one GPU at once": {"value": most_at_once(starts, deaths), "limit": SLOTS, "unit": "slots"},
        "controller's memory, a lane, replaced workers included": {
            "value": slope, "limit": LIMIT_LANE_KIB if lanes >= 2000 else None, "unit": "KiB",
        },
        "took": {"value": round(took, 1), "limit": LIMIT_S if lanes <= 5000 else None, "unit": "s"},
        "faults found": {"value": len(faults), "limit": 0, "unit": ""},
        "faults": faults,
    }  # fmt: skip


def _nap(number: int, rng: random.Random) -> NapInput:
    gpu: Any = "exclusive" if number % EXCLUSIVE == EXCLUSIVE - 1 else "slot"
    return NapInput(number=number, seconds=round(rng.uniform(SHORTEST_S, LONGEST_S), 3), gpu=gpu)


# -- what must hold ----------------------------------------------------------------------------------------------------


def _unaccounted(run: Run, naps: Sequence[NapInput], state: CrowdState) -> list[str]:
    """Every lane ended once, as done or failed, and the records say the same."""
    faults = []
    if state.done + state.failed != len(naps):
        faults.append(f"{len(naps)} lanes were opened, {state.done} are done and {state.failed} failed")
    counts = read_run(run.paths.root).counts
    if (counts.lanes_done, counts.lanes_failed) != (state.done, state.failed):
        faults.append(
            f"the journal has {counts.lanes_done} lanes done and {counts.lanes_failed} failed, "
            f"the walk {state.done} and {state.failed}"
        )
    committed = set(OutcomeStore(run.paths).keys())
    missing = [value.number for value in naps if nap.key(value) not in committed]
    if len(missing) > state.failed:
        faults.append(f"{len(missing)} lanes have no outcome, but only {state.failed} failed")
    return faults


def _spans(starts: Sequence[Started], deaths: Deaths) -> dict[str, list[tuple[float, float, int]]]:
    """Return beginning, end and slots of what ran on each GPU.

    What was cut off ended with its process; ``inf`` if that was never seen to end.
    """
    found: dict[str, list[tuple[float, float, int]]] = {}
    for started in starts:
        end = started.ended if started.ended is not None else deaths.of(started.process.pid, started.started)
        found.setdefault(started.gpu, []).append((started.started, end, len(started.slot.split(","))))
    return found


def most_at_once(starts: Sequence[Started], deaths: Deaths) -> int:
    """Return the most slots of one GPU that were in use at any instant."""
    most = 0
    for spans in _spans(starts, deaths).values():
        now = 0
        changes = [(begin, 1, slots) for begin, _, slots in spans] + [(end, 0, -slots) for _, end, slots in spans]
        for _, _, change in sorted(changes):
            now += change
            most = max(most, now)
    return most


def crowded(starts: Sequence[Started], deaths: Deaths) -> list[str]:
    """Return what is wrong with how many shared a GPU."""
    most = most_at_once(starts, deaths)
    faults = [f"{most} slots of one GPU were in use at once"] if most > SLOTS else []
    unknown = [started for started in starts if started.ended is None and deaths.unknown(started.process.pid)]
    if unknown:
        faults.append(f"{len(unknown)} calculations have no end, and nobody killed their workers")
    return faults


def repeated(run: Run, naps: Sequence[NapInput], starts: Sequence[Started]) -> list[str]:
    """Nothing was committed twice, or started again after it had been committed."""
    faults = []
    # The draft of a process that was killed in the middle of its commit is none; a resume sweeps it away.
    asides = [path.name for path in run.paths.outcomes.glob("??/*") if path.suffix not in {".json", ".tmp"}]
    if asides:
        faults.append(f"{len(asides)} outcomes were set aside: {asides[0]}")
    successes: dict[str, int] = {}
    for started in starts:
        if started.status == "success":
            successes[started.key] = successes.get(started.key, 0) + 1
    again = [key for key, count in successes.items() if count > 1]
    if again:
        faults.append(f"{len(again)} calculations succeeded twice")
    late = 0
    for started in starts:
        with contextlib.suppress(FileNotFoundError):
            late += started.started > run.paths.outcome(started.key).stat().st_mtime + 0.001
    if late:
        faults.append(f"{late} calculations were started after their outcome had been committed")
    known = {nap.key(value) for value in naps}
    if strangers := set(successes) - known:
        faults.append(f"{len(strangers)} calculations were never asked for")
    return faults


def _slope(memory: Sequence[tuple[int, float]]) -> float | None:
    """Return the KiB by which a lane makes the controller grow, after the first third of them."""
    late = memory[len(memory) // 3 :]
    if len(late) < 3:
        return None
    mean_x = sum(x for x, _ in late) / len(late)
    mean_y = sum(y for _, y in late) / len(late)
    spread = sum((x - mean_x) ** 2 for x, _ in late)
    return round(sum((x - mean_x) * (y - mean_y) for x, y in late) / spread, 2)


def _grown(memory: Sequence[tuple[int, float]]) -> list[str]:
    late = memory[len(memory) // 3 :]
    if not late:
        return []
    lanes, grown = late[-1][0] - late[0][0], late[-1][1] - late[0][1]
    if grown > LIMIT_LANE_KIB * lanes + NOISE_KIB:
        return [f"the controller grew by {grown / 1024:.0f} MiB over the last {lanes} lanes"]
    return []
