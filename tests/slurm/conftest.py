"""A real Slurm for each test that asks for one: its own, so that a test may kill its nodes."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grafico.cluster.connection import ClusterFolder, read_connection
from grafico.errors import ProfileError
from grafico.runs import Started, find_runs
from tests.slurm.evidence import starts

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAMS = ("munged", "sbatch", "slurmctld", "slurmd", "srun")
ACCOUNTING = ("sacct", "slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
PLUGIN = "accounting_storage_mysql.so"
GRAFICO = (sys.executable, "-m", "grafico.cli.entry")
PREFIX = "grafico-slurm-test-"
FIRST_PORT, LAST_PORT, PORTS = 21000, 31000, 50
"""Below the ports that the system gives out by itself."""


def _impossible(*, accounting: bool) -> str:
    """Return why Slurm cannot be had here; empty where it can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    wanted = (*PROGRAMS, *(ACCOUNTING if accounting else ()))
    missing = [name for name in wanted if shutil.which(name, path=path) is None]
    if accounting and not list(Path("/usr").glob(f"lib*/**/{PLUGIN}")):
        missing.append(PLUGIN)
    if missing:
        install = "apt install munge slurm-client slurmctld slurmd"
        if accounting:
            install += " slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core"
        what = "a real Slurm with accounting" if accounting else "a real Slurm"
        return f"{', '.join(missing)}: not installed, and these tests want {what} (Debian: {install})"
    return "" if os.geteuid() == 0 else "Slurm's daemons want root, and these tests want a real Slurm"


JOB = """\
name: {name}
graph: gated:GRAPH
cluster: elastic.yaml
knowledge: {{persist: false}}
input: {given}
"""

PROFILES = {
    "elastic": """\
kind: slurm
slurm: {walltime: "00:20:00"}
controller: {cpus: 1, memory_mib: 600}
idle_s: 5
pools:
  - {name: cpu, cpus: 2, memory_mib: 1200, hosts: {min: 0, max: 2}}
""",
    "allocation": """\
kind: slurm
workers: allocation
slurm: {walltime: "00:20:00"}
pools:
  - {name: cpu, cpus: 2, memory_mib: 1200, hosts: 2}
""",
}
"""Small hosts; at most two."""


@dataclass
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


@dataclass
class Slurm:
    """A Slurm on this machine."""

    root: Path
    environ: dict[str, str]
    files: Path
    """Where the test works: job files, runs."""
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def call(self, *arguments: object, check: bool = True, **more: str) -> Said:
        """Call a program and wait for it."""
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=self.files, env={**self.environ, **more}, text=True, capture_output=True, check=False,
            timeout=180,
        )  # fmt: skip
        said = Said(done.returncode, done.stdout, done.stderr)
        assert not check or said.code == 0, f"{arguments}: {said}"
        return said

    def grafico(self, *arguments: object, check: bool = True, **more: str) -> Said:
        """Call grafico and wait for it."""
        return self.call(*GRAFICO, *arguments, check=check, **more)

    def spawn(self, *arguments: object, err: Path | None = None, **more: str) -> "subprocess.Popen[str]":
        """Start grafico; it is killed at the end if it still runs. ``err`` is a file for what it says meanwhile."""
        sink: Any = subprocess.PIPE if err is None else err.open("w")
        process = subprocess.Popen(
            [*GRAFICO, *(str(argument) for argument in arguments)],
            cwd=self.files, env={**self.environ, **more}, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink,
        )  # fmt: skip
        self.started.append(process)
        return process

    def job(self, numbers: Sequence[int] = (1, 2, 3, 4), *, name: str = "job", gated: bool = True) -> Path:
        """Write a job file that squares numbers, and profiles; if gated, each calculation waits for :meth:`open`."""
        shutil.copy(HERE / "material" / "gated.py", self.files)
        for stem, text in PROFILES.items():
            (self.files / f"{stem}.yaml").write_text(text)
        self.gate.mkdir(exist_ok=True)
        given = {"numbers": list(numbers), "gate": str(self.gate) if gated else ""}
        path = self.files / f"{name}.yaml"
        path.write_text(JOB.format(name=name, given=json.dumps(given)))
        return path

    def open(self, what: object = "all") -> None:
        """Let one number pass, or all."""
        (self.gate / str(what)).touch()

    @property
    def gate(self) -> Path:
        """Folder in which a file opens the gate."""
        return self.files / "gate"

    def sbatch(self, *arguments: object) -> str:
        """Submit a script; return the job's number."""
        return self.call("sbatch", "--parsable", *arguments).out.strip()

    def warn(self, number: str) -> None:
        """Send SIGUSR1, as Slurm does before the time of a job is over."""
        self.call("scancel", "--batch", "--signal=USR1", number)

    def run_folder(self, within: float = 120) -> Path:
        """Wait for the run to have its folder; there is but one."""
        # Until all is in it, the folder has another name, which `*` matches as well: there nothing would ever be seen.
        (folder,) = self.until(lambda: find_runs(self.files / "runs"), within)
        return folder  # type: ignore[no-any-return]

    def begun(self, folder: Path, count: int, within: float = 120) -> list[Started]:
        """Wait until so many calculations of a run have been started, and return them.

        One more than there should be is a fault that no waiting mends, so it is told at once.
        """
        seen: list[Started] = self.until(lambda: len(now := starts(folder)) >= count and now, within)
        assert len(seen) == count, f"{len(seen)} starts in {folder}, expected {count}; {self.witness()}"
        return seen

    def queue(self) -> dict[str, str]:
        """State of every job that waits or runs, by its id."""
        out = self.call("squeue", "--noheader", "--format=%i %T").out
        return dict(line.split() for line in out.splitlines() if line.strip())

    def names(self) -> dict[str, str]:
        """Name of every job that waits or runs, by its id."""
        out = self.call("squeue", "--noheader", "--format=%i %j").out
        return dict(line.split(maxsplit=1) for line in out.splitlines() if line.strip())

    def facts(self, number: str) -> dict[str, str]:
        """All that Slurm says of a job, also after it has ended."""
        out = self.call("scontrol", "--oneliner", "show", "job", number).out
        return dict(word.split("=", 1) for word in out.split() if "=" in word)

    def state(self, number: str) -> str:
        """State of a job, also after it has ended."""
        return self.facts(number)["JobState"]

    def ended(self, number: str, within: float = 240) -> dict[str, str]:
        """Wait until a job has ended for good."""
        going = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "SUSPENDED"}
        return self.until(lambda: (job := self.facts(number))["JobState"] not in going and job, within)  # type: ignore[no-any-return]

    def until(self, look: Callable[[], Any], within: float = 120) -> Any:
        """Wait until something is so, and return it."""
        deadline = time.monotonic() + within
        while not (found := look()):
            assert time.monotonic() < deadline, f"not within {within} s; {self.witness()}"
            time.sleep(0.2)
        return found

    def kill_node(self, node: str) -> None:
        """Let a node die."""
        self.call(HERE / "kill_node.sh", self.root, node)

    def repair(self) -> None:
        """Bring all nodes up again."""
        self.call(HERE / "up.sh", self.root)

    def witness(self) -> str:
        """What there is to say of a test that failed: how queue, runs and clusters stand, then what they wrote."""
        said = [f"queue: {self._told('squeue', '--noheader', '--format=%i %T %r %N')}"]
        said += [f"folders of runs: {sorted(path.name for path in self.files.glob('runs/*'))}"]
        for folder in find_runs(self.files / "runs"):
            said += [f"--- {folder.relative_to(self.files)}", self._told(*GRAFICO, "show", folder)]
            said += [f"{len(all_of_it := starts(folder))} starts", *map(_line, all_of_it)]
        for place in sorted([*self.files.glob("runs/*/cluster"), *self.files.glob("clusters/*")]):
            said += [f"--- {place.relative_to(self.files)}", self._told(*GRAFICO, "cluster", "status", place)]
        for path in sorted(path for name in ("*.out", "*.log", "log.txt") for path in self.files.rglob(name)):
            said.append(f"--- {path.relative_to(self.files)}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(said)

    def _told(self, *arguments: object) -> str:
        """Return what a program says, also of why it says nothing: a witness does not fail."""
        try:
            said = self.call(*arguments, check=False)
        except subprocess.SubprocessError as error:
            return str(error)
        return f"{said.out}{said.err}".strip()


def _line(started: Started) -> str:
    end = f"{started.status} after {started.ended - started.started:.1f} s" if started.ended else "no end"
    at = f"{time.strftime('%H:%M:%S', time.localtime(started.started))} {started.label}, attempt {started.attempt}"
    return f"  {at}, on {started.worker} (process {started.process.pid}, job {started.slurm_job or '-'}): {end}"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A Slurm of two nodes with eight CPUs, 8,000 MiB and four pretended GPUs each; its jobs and daemons end with it."""
    with _slurm(tmp_path) as made:
        yield made


@pytest.fixture
def accounted(tmp_path: Path) -> Iterator[Slurm]:
    """The same with a database, so that sacct answers; its queue forgets jobs some seconds after their end."""
    with _slurm(tmp_path, accounting=True) as made:
        yield made


@contextmanager
def _slurm(tmp_path: Path, *, accounting: bool = False) -> Iterator[Slurm]:
    reason = _impossible(accounting=accounting)
    if reason:
        if os.environ.get("GRAFICO_REQUIRE_PROGRAMS"):
            pytest.fail(f"{reason}; GRAFICO_REQUIRE_PROGRAMS is set")
        pytest.skip(reason)
    # Not under tmp_path: the names of sockets are short, and other users reach munge's.
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environ["PATH"] = f"{environ.get('PATH', '')}:/usr/sbin:/sbin"
    made = None
    try:
        with _ports() as port:
            up = subprocess.run(
                [HERE / "up.sh", root],
                env={
                    **environ,
                    "BASE_PORT": str(port),
                    **({"ACCOUNTING": "1", "REMEMBER_S": "5"} if accounting else {}),
                },
                text=True,
                capture_output=True,
                check=False,
            )
        assert up.returncode == 0, up.stdout + up.stderr
        environ |= {
            "SLURM_CONF": str(root / "etc" / "slurm.conf"),
            "GRAFICO_KB": str(tmp_path / "kb"),
            "GRAFICO_CLUSTERS": str(tmp_path / "clusters"),
            # Not those of the machine, on which other runs may have slots of GPUs of the same names.
            "GRAFICO_LEASES": str(tmp_path / "leases"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
        }
        for name in ("GRAFICO_RUNS", "GRAFICO_DEBUG"):
            environ.pop(name, None)
        made = Slurm(root, environ, tmp_path)
        yield made
    finally:
        for process in made.started if made else ():
            if process.poll() is None:
                process.kill()
            process.communicate()
        _end_servers(tmp_path)
        subprocess.run([HERE / "down.sh", root, "--purge"], env=environ, capture_output=True, check=False)


def _end_servers(files: Path) -> None:
    """End the servers of clusters that a test left up: they would stay for as long as its files do."""
    for path in files.rglob("cluster.json"):
        with suppress(ProfileError, ProcessLookupError):
            connection = read_connection(ClusterFolder(path.parent))
            if connection is not None and connection.server.process.alive():
                os.kill(connection.server.pid, signal.SIGKILL)


@contextmanager
def _ports() -> Iterator[int]:
    """Give a block of ports that nobody listens on, while nobody else looks for one; ends what dead tests left behind."""
    with (Path(tempfile.gettempdir()) / "grafico-slurm-test.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
            owner = left.name.removeprefix(PREFIX).partition("-")[0]
            if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
                subprocess.run([HERE / "down.sh", left, "--purge"], capture_output=True, check=False)
        start = FIRST_PORT + os.getpid() % 100 * PORTS
        for offset in range(0, LAST_PORT - FIRST_PORT, PORTS):
            port = FIRST_PORT + (start - FIRST_PORT + offset) % (LAST_PORT - FIRST_PORT)
            if all(_free(port + n) for n in range(PORTS)):
                yield port
                return
    pytest.fail("no free ports for a Slurm")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
