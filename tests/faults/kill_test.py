"""Kill controllers, workers and calculations at random moments; nothing committed may start again.

``python -m tests.faults.kill_test --kills 30`` runs it at length; ``test_kills.py`` runs a few kills of it. What
happened is judged from what the calculations' own processes wrote (``starts/``), from the committed outcomes on disk
and from the results, never from what the controller believes.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from grafico.runs import RunPaths
from grafico.runs.starts import Started, read_starts

JOB = Path(__file__).parent / "job.yaml"
ENERGY_TOLERANCE_HA = 1e-7
FAILED = (3, 4)
"""Exit codes of a run with failed lanes, and of one that failed."""

VICTIMS = ("controller", "worker", "calculation")


@dataclass
class Kill:
    """One kill, as it was done."""

    at: float
    victim: str
    pid: int


@dataclass
class Round:
    """One run, from its start through all its kills to its end."""

    folder: Path
    kills: list[Kill] = field(default_factory=list)
    controllers: int = 0
    exit_code: int = -1
    faults: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)


class Controller:
    """A ``grafico run`` or ``grafico resume`` as a process of its own."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "grafico.cli.main", *arguments],
                stdout=sink,
                stderr=sink,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "GRAFICO_KB": str(log.parent / "kb"), "OMP_NUM_THREADS": "1"},
            )
        self.seen: dict[int, psutil.Process] = {}

    def family(self) -> list[psutil.Process]:
        """Every descendant that is alive now; remembered, so that orphans can be found later."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            found = []
        self.seen.update({p.pid: p for p in found})
        return found

    def leftovers(self) -> list[psutil.Process]:
        """Descendants ever seen that are still alive."""
        return [p for p in self.seen.values() if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def alive(self) -> bool:
        return self.process.poll() is None


def running(paths: RunPaths) -> list[Started]:
    return [s for s in read_starts(paths) if s.ended is None and s.process.alive()]


def choose_victim(controller: Controller, paths: RunPaths, wanted: str) -> int | None:
    """Return the pid to kill, or None if there is no such process just now."""
    if wanted == "controller":
        return controller.process.pid
    calculating = running(paths)
    if wanted == "calculation":
        return random.choice(calculating).process.pid if calculating else None
    calculations = {s.process.pid for s in read_starts(paths)}
    for process in controller.family():
        try:
            if any(child.pid in calculations for child in process.children()):
                return process.pid
        except psutil.NoSuchProcess:
            continue
    return None


def outcome_digests(paths: RunPaths) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths.outcomes.glob("??/*.json")}


def one_round(base: Path, kills: int, rng: random.Random, *, job: Path, within: float, say: bool) -> Round:
    """Start the job, kill until it is done or ``kills`` are used up, resuming each time, and finish it."""
    before = set(base.glob("*"))
    log = base.parent / "console.log"
    controller = Controller("run", str(job), "--runs-dir", str(base), log=log)
    folder = _new_folder(base, before, controller)
    result = Round(folder=folder, controllers=1)
    paths = RunPaths(folder)
    committed: dict[str, str] = {}
    while True:
        if len(result.kills) >= kills:
            controller.process.wait(timeout=600)
        moment = time.time() + rng.uniform(0.1, within)
        while controller.alive() and time.time() < moment:
            controller.family()
            time.sleep(0.02)
        if not controller.alive():
            code = controller.process.wait()
            # A calculation that was killed twice has failed its lane, or the run; its user resumes, and so do we.
            again = code in FAILED and result.kills
            if code == 0 or (len(result.kills) >= kills and code != -signal.SIGKILL and not again):
                result.exit_code = code
                break
            if result.controllers > 2 * kills + 5:
                result.faults.append(f"not done after {result.controllers} controllers")
                break
        elif (pid := choose_victim(controller, paths, victim := rng.choice(VICTIMS))) is not None:
            controller.family()
            kill = Kill(time.time(), victim, pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            result.kills.append(kill)
            if say:
                print(f"  kill {len(result.kills)}: {victim} {pid}", flush=True)
            if victim == "controller":
                controller.process.wait()
        if controller.alive():
            continue
        # The controller is dead: what was committed must stand untouched, and nobody may go on calculating.
        now = outcome_digests(paths)
        result.faults += [f"outcome {name} changed" for name, digest in committed.items() if now.get(name) != digest]
        committed = now
        old = controller
        controller = Controller("resume", str(folder), log=log)
        result.controllers += 1
        starts = len(read_starts(paths))
        deadline = time.time() + 60
        while controller.alive() and len(read_starts(paths)) == starts and time.time() < deadline:
            time.sleep(0.02)
        result.faults += [f"{p.pid} ({' '.join(p.cmdline())[:80]}) outlived its controller" for p in old.leftovers()]
    now = outcome_digests(paths)
    result.faults += [f"outcome {name} changed" for name, digest in committed.items() if now.get(name) != digest]
    result.faults += judge(paths, result.kills)
    if result.exit_code != 0:
        result.faults.append(f"exit code {result.exit_code}; see {log}")
    time.sleep(1.0)
    result.faults += [f"{p.pid} outlived the finished run" for p in controller.leftovers()]
    return result


def _new_folder(base: Path, before: set[Path], controller: Controller) -> Path:
    deadline = time.time() + 60
    while time.time() < deadline:
        for folder in set(base.glob("*")) - before:
            if (folder / "journal").is_dir() and any((folder / "journal").iterdir()):
                return folder
        if not controller.alive():
            break
        time.sleep(0.01)
    raise SystemExit(f"the run did not start; see {controller.log}")


def judge(paths: RunPaths, kills: list[Kill]) -> list[str]:
    """Return what went against the promise, from the processes' own records and the disk."""
    faults = []
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
            hit = [k for k in kills if earlier.started <= k.at <= later.started]
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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills in all (default 30)")
    parser.add_argument("--per-run", type=int, default=6, help="kills on one run before it is left to finish")
    parser.add_argument("--within", type=float, default=6.0, help="longest wait before a kill, seconds")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--job", type=Path, default=JOB)
    parser.add_argument("--keep", type=Path, default=None, help="keep the runs in this folder")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else int(time.time())
    rng = random.Random(seed)
    random.seed(seed)
    with tempfile.TemporaryDirectory() as scratch:
        base = (options.keep or Path(scratch)) / "runs"
        base.mkdir(parents=True)
        print(f"seed {seed}; an undisturbed run first", flush=True)
        reference = one_round(base, 0, rng, job=options.job, within=1.0, say=False)
        keys = {s.key for s in read_starts(RunPaths(reference.folder))}
        print(f"  {len(keys)} calculations, exit code {reference.exit_code}", flush=True)
        rounds = [reference]
        while (done := sum(len(r.kills) for r in rounds)) < options.kills:
            print(f"run {len(rounds)}", flush=True)
            budget = min(options.per_run, options.kills - done)
            rounds.append(one_round(base, budget, rng, job=options.job, within=options.within, say=True))
            rounds[-1].faults += compare(reference.folder, rounds[-1].folder)
        victims = Counter(k.victim for r in rounds for k in r.kills)
        starts = sum(len(read_starts(RunPaths(r.folder))) for r in rounds)
        faults = [f"{r.folder.name}: {fault}" for r in rounds for fault in r.faults]
        print(
            f"{sum(victims.values())} kills ({', '.join(f'{n} {v}' for v, n in sorted(victims.items()))}) over "
            f"{len(rounds) - 1} runs of {len(keys)} calculations, {sum(r.controllers for r in rounds)} controllers, "
            f"{starts} starts; {len(faults)} faults"
        )
        for fault in faults:
            print(f"  FAULT {fault}")
        return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
