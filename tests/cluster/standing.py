"""Standing clusters for tests: the command line in processes of its own, and what their records say."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from grafico.runs import RunPaths, Started, read_starts

HERE = Path(__file__).parent
PROFILE = {
    "pools": [
        {
            "name": "gpu",
            "gpus": 1,
            "simulated": True,
            "gpu_memory_mib": 900,
            "memory_mib": 8000,
            "cpus": 3,
        },
        {"name": "cpu", "cpus": 2, "memory_mib": 4000},
    ]
}

LIGHT = {"pools": [{"name": "cpu", "cpus": 3, "memory_mib": 4000}]}


class Grafico:
    """The command line with folders of its own.

    Parameters
    ----------
    folder
        For clusters, runs, jobs, leases and the knowledge base.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = f"standing-{os.getpid()}-{time.monotonic_ns()}"
        leases = folder / "leases"
        leases.mkdir(mode=0o700, exist_ok=True)
        (folder / "tmp").mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "GRAFICO_CLUSTERS": str(folder / "clusters"),
            "GRAFICO_RUNS": str(folder / "runs"),
            "GRAFICO_KB": str(folder / "kb"),
            "GRAFICO_LEASES": str(leases),
            "TMPDIR": str(folder / "tmp"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }

    def start(self, *words: str, tag: str = "") -> "subprocess.Popen[str]":
        """Start a command; all that it starts carries the tag."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "grafico.cli.entry", *words],
            env={**self.environment, "GRAFICO_TEST_TAG": tag or self.tag},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )

    def call(self, *words: str, tag: str = "", expect: int | None = 0) -> tuple[int, str, str]:
        """Run a command to its end; exit code, standard output and standard error."""
        return self.end(self.start(*words, tag=tag), expect)

    @staticmethod
    def end(process: "subprocess.Popen[str]", expect: int | None = 0) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=240)
        assert expect is None or process.returncode == expect, f"exit {process.returncode}:\n{out}\n{err}"
        return process.returncode, out, err

    def profile(self, data: dict = PROFILE, name: str = "shared") -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return str(path)

    def job(self, name: str, naps: list[dict], **more: object) -> str:
        """Write a job of naps, with the graph's module beside it."""
        folder = self.folder / "jobs"
        folder.mkdir(exist_ok=True)
        if not (folder / "naps.py").exists():
            shutil.copy(HERE / "naps_for_tests.py", folder / "naps.py")
        path = folder / f"{name}.yaml"
        data = {"name": name, "graph": "naps:GRAPH", "input": {"naps": naps}, **more}
        path.write_text(yaml.safe_dump(data))
        return str(path)

    def run_folder(self, name: str) -> Path:
        """Return the folder of the newest run of a job."""
        return max((self.folder / "runs").glob(f"{name}-*"), key=lambda path: path.stat().st_ctime_ns)

    def starts(self, name: str) -> list[Started]:
        try:
            return read_starts(RunPaths(self.run_folder(name)))
        except ValueError:
            return []

    def begun(self, name: str, count: int, seconds: float = 60.0) -> list[Started]:
        """Wait until so many calculations of a job's newest run have been started, and return them.

        One more than there should be is a fault that no waiting mends, so it is told at once.
        """
        deadline = time.monotonic() + seconds
        while len(seen := self.starts(name)) < count:
            assert time.monotonic() < deadline, f"{len(seen)} of {count} starts within {seconds:g} s: {seen}"
            time.sleep(0.05)
        assert len(seen) == count, f"{len(seen)} starts instead of {count}: {seen}"
        return seen

    def server(self, name: str) -> int:
        """Return the process id of a cluster's server."""
        return int(json.loads((self.folder / "clusters" / name / "cluster.json").read_text())["server"]["pid"])

    def users(self, name: str) -> list[str]:
        """Return the runs whose controllers are on a cluster."""
        state = json.loads(self.call("cluster", "status", name, "--json")[1])
        return [who["run"] for who in state["controllers"]]

    def sweep(self, marked) -> None:
        """End whatever a failed test left."""
        for pid in marked(self.tag):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def most_at_once(starts: list[Started], amount=lambda start: 1) -> int:
    """Return the largest sum of what calculations took at the same moment, by their own records."""
    edges = []
    for start in starts:
        edges += [(start.started, 1, amount(start)), (start.ended or float("inf"), 0, -amount(start))]
    most = now = 0
    for _, _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most
