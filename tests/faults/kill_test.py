"""Kill controllers, workers, calculations and servers at random moments; nothing committed may start again.

``python -m tests.faults.kill_test --kills 30`` runs it at length; with ``--cluster cluster/sim-h100x4.yaml`` on a
cluster that stays up, whose server is killed too, and with ``--controllers 2`` by two runs that share it.
``test_kills.py`` runs a few kills of it. What happened is judged from what the calculations' own processes wrote
(``starts/``), from the committed outcomes on disk and from the results, never from what the controller believes.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from grafico.jobs.stopping import cancel_marker
from grafico.runs import RunPaths
from grafico.runs.starts import Started, read_starts
from tests.faults.judging import Kill, compare, judge

JOB = Path(__file__).parent / "job.yaml"
UNFINISHED = (2, 3, 4, 130)
"""Exit codes where the cluster is not up, of a run with failed lanes, of one that failed or lost its cluster, and of one
that was stopped."""

CANCEL = "cancelled controller"
"""A controller that is asked to stop, and is killed while it does."""
VICTIMS = ("controller", "worker", "calculation")
STANDING_VICTIMS = (*VICTIMS, "server", CANCEL)
EARLY = 0.4
"""Part of the resumed controllers that are in danger from their first moment on."""


class Ground:
    """Where runs are carried out: by workers of their own, or on a cluster that stays up."""

    def __init__(self, folder: Path, profile: Path | None) -> None:
        self.log = folder / "console.log"
        self.profile = profile
        self.environment = {
            **os.environ,
            "GRAFICO_KB": str(folder / "kb"),
            "GRAFICO_CLUSTERS": str(folder / "clusters"),
            "OMP_NUM_THREADS": "1",
        }
        self.connection = folder / "clusters" / "killed" / "cluster.json"

    def call(self, *arguments: str) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as sink:
            return subprocess.Popen(
                [sys.executable, "-m", "grafico.cli.main", *arguments],
                stdout=sink,
                stderr=sink,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=self.environment,
            )

    @property
    def victims(self) -> tuple[str, ...]:
        return VICTIMS if self.profile is None else STANDING_VICTIMS

    @property
    def where(self) -> tuple[str, ...]:
        """What ``run`` and ``resume`` are told."""
        return () if self.profile is None else ("--cluster", "connect:killed")

    def up(self) -> None:
        """Bring the cluster up, if there is to be one and it is not."""
        if self.profile is not None and self.server() is None:
            code = self.call("cluster", "up", str(self.profile), "--name", "killed").wait(timeout=120)
            if code != 0 or self.server() is None:
                raise SystemExit(f"the cluster did not come up (exit code {code}); see {self.log}")

    def down(self) -> None:
        if self.profile is not None and self.server() is not None:
            self.call("cluster", "down", "killed", "--force").wait(timeout=120)

    def server(self) -> psutil.Process | None:
        with contextlib.suppress(OSError, ValueError, KeyError, psutil.Error):
            process = psutil.Process(json.loads(self.connection.read_bytes())["server"]["pid"])
            if process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


class Controller:
    """A ``grafico run`` or ``grafico resume`` as a process of its own."""

    def __init__(self, ground: Ground, *arguments: str) -> None:
        self.process = ground.call(*arguments, *ground.where)
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


@dataclass
class Walk:
    """One run, from its start through all kills to its end."""

    ground: Ground
    folder: Path
    controller: Controller
    controllers: int = 1
    exit_code: int | None = None
    """Set once it is over."""
    faults: list[str] = field(default_factory=list)
    committed: dict[str, str] = field(default_factory=dict)
    ghosts: list[Controller] = field(default_factory=list)
    """Earlier controllers, of which nobody may be left once the run goes on."""

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder)

    def check(self) -> None:
        """What was committed must stand untouched."""
        now = outcome_digests(self.paths)
        self.faults += [f"outcome {name} changed" for name, was in self.committed.items() if now.get(name) != was]
        self.committed = now

    def resume(self, *, wait: bool) -> None:
        """Go on with it; wait until something has started, and nobody may be left of those before."""
        self.check()
        self.ghosts.append(self.controller)
        starts = len(read_starts(self.paths))
        self.controller = Controller(self.ground, "resume", str(self.folder))
        self.controllers += 1
        deadline = time.time() + 60
        while wait and self.controller.alive() and len(read_starts(self.paths)) == starts and time.time() < deadline:
            time.sleep(0.02)
        if wait and self.controller.alive():
            self.exorcise()

    def exorcise(self) -> None:
        for ghost in self.ghosts:
            left = ghost.leftovers()
            self.faults += [f"{p.pid} ({' '.join(p.cmdline())[:80]}) outlived its controller" for p in left]
        self.ghosts.clear()


@dataclass
class Round:
    """Some runs at once, and the kills that they went through."""

    walks: list[Walk]
    kills: list[Kill] = field(default_factory=list)


def running(paths: RunPaths) -> list[Started]:
    return [s for s in read_starts(paths) if s.ended is None and s.process.alive()]


def choose_victim(walk: Walk, wanted: str, rng: random.Random) -> int | None:
    """Return the pid to kill, or None if there is no such process just now."""
    if wanted in {"controller", CANCEL}:
        return walk.controller.process.pid
    server = walk.ground.server()
    if wanted == "server":
        return server.pid if server is not None else None
    calculating = running(walk.paths)
    if wanted == "calculation":
        return rng.choice(calculating).process.pid if calculating else None
    calculations = {s.process.pid for s in read_starts(walk.paths)}
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in server.children(recursive=True) if server is not None else walk.controller.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(child.pid in calculations for child in process.children()):
                    return process.pid
    return None


def kill(walk: Walk, victim: str, rng: random.Random) -> Kill | None:
    """Kill somebody; return what was done, if anything was."""
    pid = choose_victim(walk, victim, rng)
    if pid is None:
        return None
    walk.controller.family()
    if victim == CANCEL:
        asking = walk.ground.call("cancel", str(walk.folder), "--wait", "0")
        while asking.poll() is None and not cancel_marker(walk.folder).exists():
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 4.0))
    done = Kill(time.time(), victim, pid, "" if victim in {"worker", "server"} else walk.folder.name)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    if pid == walk.controller.process.pid:
        walk.controller.process.wait()
    if victim == CANCEL:
        asking.wait(timeout=60)
    return done


def outcome_digests(paths: RunPaths) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths.outcomes.glob("??/*.json")}


def one_round(
    ground: Ground, base: Path, kills: int, rng: random.Random, *, jobs: Sequence[Path], within: float, say: bool
) -> Round:
    """Start the jobs, kill until they are done or ``kills`` are used up, resuming each time, and finish them."""
    ground.up()
    result = Round([begin(ground, base, job) for job in jobs])
    while open_walks := [walk for walk in result.walks if walk.exit_code is None]:
        if len(result.kills) >= kills:
            for walk in open_walks:
                walk.controller.process.wait(timeout=600)
        else:
            moment = time.time() + rng.uniform(0.1, within)
            while all(walk.controller.alive() for walk in open_walks) and time.time() < moment:
                for walk in open_walks:
                    walk.controller.family()
                time.sleep(0.02)
            met = rng.choice(open_walks)
            if met.controller.alive() and (done := kill(met, rng.choice(ground.victims), rng)) is not None:
                result.kills.append(done)
                if say:
                    print(f"  kill {len(result.kills)}: {done.victim} {done.pid}", flush=True)
        ground.up()
        for walk in open_walks:
            if walk.controller.alive():
                continue
            code = walk.controller.process.wait()
            # A calculation that was killed twice has failed its lane, or the run; its user resumes, and so do we.
            if code != -signal.SIGKILL and not (code in UNFINISHED and result.kills):
                walk.exit_code = code
            elif walk.controllers > 2 * kills + 5:
                walk.exit_code = code
                walk.faults.append(f"not done after {walk.controllers} controllers")
            else:
                walk.resume(wait=len(result.kills) >= kills or rng.random() > EARLY)
    time.sleep(1.0)
    for walk in result.walks:
        walk.check()
        walk.ghosts.append(walk.controller)
        walk.exorcise()
        walk.faults += judge(walk.paths, result.kills, standing=ground.profile is not None)
        if walk.exit_code != 0:
            walk.faults.append(f"exit code {walk.exit_code}; see {ground.log}")
    return result


def begin(ground: Ground, base: Path, job: Path) -> Walk:
    """Start a run and wait until its folder is there."""
    before = set(base.glob("*"))
    controller = Controller(ground, "run", str(job), "--runs-dir", str(base))
    deadline = time.time() + 60
    while time.time() < deadline:
        for folder in set(base.glob("*")) - before:
            if (folder / "journal").is_dir() and any((folder / "journal").iterdir()):
                return Walk(ground, folder, controller)
        if not controller.alive():
            break
        time.sleep(0.01)
    raise SystemExit(f"the run did not start; see {ground.log}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="kills in all (default 30)")
    parser.add_argument("--per-run", type=int, default=6, help="kills before runs are left to finish")
    parser.add_argument("--within", type=float, default=6.0, help="longest wait before a kill, seconds")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--job", type=Path, default=JOB)
    parser.add_argument("--cluster", type=Path, default=None, help="profile of a cluster that stays up")
    parser.add_argument("--controllers", type=int, default=1, help="runs at once")
    parser.add_argument("--keep", type=Path, default=None, help="keep the runs in this folder")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else int(time.time())
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        base = (options.keep or Path(scratch)) / "runs"
        base.mkdir(parents=True)
        ground = Ground(base.parent, options.cluster)
        print(f"seed {seed}; an undisturbed run first", flush=True)
        try:
            quiet = one_round(ground, base, 0, rng, jobs=[options.job], within=1.0, say=False)
            reference = quiet.walks[0].folder
            keys = {s.key for s in read_starts(RunPaths(reference))}
            print(f"  {len(keys)} calculations, exit code {quiet.walks[0].exit_code}", flush=True)
            rounds = [quiet]
            jobs = [options.job] * options.controllers
            while (done := sum(len(r.kills) for r in rounds)) < options.kills:
                print(f"round {len(rounds)}", flush=True)
                budget = min(options.per_run, options.kills - done)
                rounds.append(one_round(ground, base, budget, rng, jobs=jobs, within=options.within, say=True))
                for walk in rounds[-1].walks:
                    walk.faults += compare(reference, walk.folder)
        finally:
            ground.down()
        walks = [walk for found in rounds for walk in found.walks]
        victims = Counter(k.victim for r in rounds for k in r.kills)
        starts = sum(len(read_starts(walk.paths)) for walk in walks)
        faults = [f"{walk.folder.name}: {fault}" for walk in walks for fault in walk.faults]
        print(
            f"{sum(victims.values())} kills ({', '.join(f'{n} {v}' for v, n in sorted(victims.items()))}) over "
            f"{len(walks) - 1} runs of {len(keys)} calculations, {sum(walk.controllers for walk in walks)} controllers, "
            f"{starts} starts; {len(faults)} faults"
        )
        for fault in faults:
            print(f"  FAULT {fault}")
        return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
