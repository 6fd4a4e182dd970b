"""NVIDIA's Multi-Process Service for the GPUs of a host, run as the user, and ended with the workers.

Without it the calculations that share a GPU take turns on it; with it their kernels run side by side. One control daemon
for each GPU, because ``CUDA_VISIBLE_DEVICES`` of the daemon decides what its clients can see, and because a MIG device
needs one of its own; with pipes and logs in private folders, so that it meets no other user's and no other run's. The
card's compute mode is left as it is: the service works in the default mode.

Nothing of this could be tried on a GPU: it was written from NVIDIA's documentation ("Multi-Process Service", release
R570) and is tested with a program that takes the daemon's place.

Mind that processes that share a GPU through the service share its faults as well: one that makes the GPU fault (an
illegal address) ends the others on it, which are tried again as after a crash. A client that is killed in the middle of
its work can leave the server and the other clients undefined, so the service is asked to end that work before
(:func:`let_go`). A daemon that ends in the middle of a run is started again; where that does not help, its folder is
emptied: CUDA finds nobody there, and goes on without the service.
"""

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.orphans import PROC, die_with_parent, family, kill_family, process_table
from grafico.errors import ProfileError

__all__ = ["PROGRAM", "SharedGpus", "let_go", "shared_gpus"]

PROGRAM = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"
START_S = 30.0
END_S = 6
ASK_S = 10.0
LET_GO_S = 1.0
"""For each question about a client that is to be killed: its slot has to be free again soon."""

POLL_S = 0.05
LOOK_S = 1.0
RESTARTS = 3
"""Times that the daemon of a device is started again."""


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """What the workers of a host have to know of the service."""

    environment: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each device on which it runs, what the processes that use it need in their environment."""
    problems: tuple[str, ...] = ()

    def of(self, worker: WorkerSpec) -> dict[str, str]:
        """Return the environment of a worker."""
        return {**worker.environment, **self.environment.get(worker.device, {})}


@contextlib.asynccontextmanager
async def shared_gpus(
    workers: Sequence[WorkerSpec],
    logs: Path,
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[SharedGpus]:
    """Run the service for the workers that ask for it; it ends with the context, and with this process, however it ends.

    Parameters
    ----------
    workers
        All workers of this host.
    logs
        Folder for the service's logs.
    environ
        Environment; default this process's. A service that the site has started already (``CUDA_MPS_PIPE_DIRECTORY``
        is set, and a daemon answers there) is used as it is.
    tell
        Called with what people should know of it later: that it ended, and what was done.

    Raises
    ------
    ProfileError
        It does not start, and the profile does not say to go on without it (``mps: try``).
    """
    environ = dict(os.environ if environ is None else environ)
    wanting = {worker.device: worker for worker in workers if worker.mps and worker.device}
    if not wanting or ("CUDA_MPS_PIPE_DIRECTORY" in environ and await asyncio.to_thread(_answers, environ)):
        yield SharedGpus()
        return
    # Names of sockets are short, so not in the cluster's folder.
    folder = Path(tempfile.mkdtemp(prefix="grafico-mps-"))
    keeper = await asyncio.to_thread(_start_keeper, list(wanting), folder, logs, environ)
    listener: threading.Thread | None = None
    try:
        shared = await asyncio.to_thread(_hear, keeper)
        needed = [worker for device, worker in wanting.items() if device not in shared.environment]
        if any(not worker.mps_optional for worker in needed):
            raise ProfileError(
                f"NVIDIA's Multi-Process Service does not run: {'; '.join(shared.problems)}",
                hint="set mps: try in the profile's pool to go on without it, or mps: false",
            )
        loop = asyncio.get_running_loop()
        hear = (keeper, lambda text: loop.call_soon_threadsafe(tell, text))
        listener = threading.Thread(target=_listen, args=hear, name="grafico-mps", daemon=True)
        listener.start()
        yield shared
    finally:
        await asyncio.to_thread(_end_keeper, keeper, listener)
        shutil.rmtree(folder, ignore_errors=True)


def _start_keeper(
    devices: list[str], folder: Path, logs: Path, environ: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start a process that starts the daemons and ends them when this one is gone."""
    path = os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path)
    keeper = subprocess.Popen(
        [sys.executable, "-P", "-m", "grafico.cluster.mps"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**environ, "PYTHONPATH": path},
    )
    assert keeper.stdin is not None
    told = {"devices": devices, "folder": str(folder), "logs": str(logs)}
    with contextlib.suppress(OSError):
        keeper.stdin.write(json.dumps(told).encode() + b"\n")
        keeper.stdin.flush()
    return keeper


def _hear(keeper: "subprocess.Popen[bytes]") -> SharedGpus:
    assert keeper.stdout is not None
    line = keeper.stdout.readline()
    if not line:
        return SharedGpus(problems=(f"its keeper ended with exit status {keeper.wait()}",))
    said = json.loads(line)
    return SharedGpus(said["environment"], tuple(said["problems"]))


def _listen(keeper: "subprocess.Popen[bytes]", tell: Callable[[str], None]) -> None:
    """Hear what else the keeper has to say, until it ends."""
    assert keeper.stdout is not None
    for line in keeper.stdout:
        with contextlib.suppress(RuntimeError):  # the loop may have been closed
            tell(json.loads(line)["news"])


def let_go(client: int, environ: Mapping[str, str] = os.environ) -> None:
    """Have the service end what a process and its children have on the GPU; before they are killed.

    Parameters
    ----------
    client
        Leader of the session.
    environ
        Names the daemon (``CUDA_MPS_PIPE_DIRECTORY``); nothing is done without it.
    """
    if "CUDA_MPS_PIPE_DIRECTORY" not in environ or shutil.which(PROGRAM, path=environ.get("PATH")) is None:
        return
    ending = family(client, process_table())
    for server in _numbers("get_server_list", environ) if ending else ():
        for pid in sorted(ending & set(_numbers(f"get_client_list {server}", environ))):
            _ask(f"terminate_client {server} {pid}\n", environ, LET_GO_S)


def _end_keeper(keeper: "subprocess.Popen[bytes]", listener: threading.Thread | None) -> None:
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(2.0 * END_S)
    except subprocess.TimeoutExpired:
        kill_family(keeper.pid)
        keeper.wait()
    if listener is not None:
        listener.join()
    keeper.stdout.close()


# -- in the keeper -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Daemon:
    """The control daemon of one device."""

    device: str
    environment: dict[str, str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None
    problem: str = ""
    restarts: int = 0

    @property
    def pipe(self) -> Path:
        """The folder in which its clients find it."""
        return Path(self.environment["CUDA_MPS_PIPE_DIRECTORY"])

    def start(self) -> None:
        """Start it in the foreground, as a child that ends with the keeper."""
        own = os.getpid()
        variables = {**os.environ, **self.environment, "CUDA_VISIBLE_DEVICES": self.device}
        with self.log.open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    [PROGRAM, "-f"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=variables,
                    start_new_session=True,
                    preexec_fn=lambda: _tie(own),  # noqa: PLW1509 - the keeper has one thread
                )
            except OSError as error:
                self.problem = f"{PROGRAM} cannot be started: {error.strerror or error}"

    def check(self) -> bool:
        """Whether it is known by now if it runs."""
        if self.process is None:
            return True
        if self.process.poll() is not None:
            self.problem = f"{PROGRAM} ended with exit status {self.process.returncode}{self._words()}"
            self.process = None
            return True
        return _answers({**os.environ, **self.environment})

    def give_up(self) -> None:
        """End one that did not answer in time."""
        if self.process is not None:
            self.end()
            self.problem = f"{PROGRAM} did not answer within {START_S:g} s{self._words()}"

    def end(self) -> None:
        """Ask it to end, and see that it and its servers do."""
        if self.process is None:
            return
        _ask(f"quit -t {END_S // 2}\n", {**os.environ, **self.environment})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        kill_family(self.process.pid)
        self.process.wait()
        self.process = None
        for server in _servers(self.pipe):  # of an earlier daemon
            kill_family(server)

    def look(self) -> str:
        """Start it again if it has ended; returns what people should know of that, empty if it runs.

        Servers of the old daemon live on: calculations may be at work through them.
        """
        if self.process is None or self.process.poll() is None:
            return ""
        said = f"the daemon of {self.device} ended with exit status {self.process.returncode}{self._words()}"
        self.process, self.problem = None, ""
        self._empty()
        if self.restarts < RESTARTS and self._started_again():
            return f"{said}; it was started again"
        self._empty()
        return f"{said}; goes on without it{f' ({self.problem})' if self.problem else ''}"

    def _started_again(self) -> bool:
        self.restarts += 1
        self.start()
        deadline = time.monotonic() + START_S
        while not self.check():
            if time.monotonic() > deadline:
                self.give_up()
                break
            time.sleep(POLL_S)
        return self.process is not None

    def _empty(self) -> None:
        """Leave nothing by which CUDA could wait for a daemon that is not there."""
        shutil.rmtree(self.pipe, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.pipe.mkdir(mode=0o700)

    def _words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
            if lines:
                return f": {lines[-1][:300]}"
        return ""


def _tie(parent: int) -> None:
    die_with_parent(parent, watch=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _ask(command: str, environ: Mapping[str, str], seconds: float = ASK_S) -> str | None:
    """Give a daemon a command; returns what it says, ``None`` if nobody answers or it refuses."""
    try:
        done = subprocess.run(
            [PROGRAM], input=command.encode(), env=dict(environ), timeout=seconds, capture_output=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _numbers(command: str, environ: Mapping[str, str]) -> list[int]:
    """Return the process ids that a daemon lists."""
    return [int(word) for word in (_ask(f"{command}\n", environ, LET_GO_S) or "").split() if word.isdigit()]


def _answers(environ: Mapping[str, str]) -> bool:
    return _ask("get_server_list\n", environ) is not None


def _servers(pipe: Path) -> list[int]:
    """Return the servers that daemons with this folder have started, whoever is their parent by now."""
    mark, found = f"CUDA_MPS_PIPE_DIRECTORY={pipe}".encode(), []
    for pid in process_table():
        with contextlib.suppress(OSError):
            program = (PROC / str(pid) / "cmdline").read_bytes().partition(b"\0")[0].rpartition(b"/")[2]
            if program == SERVER.encode() and mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def keep(told: Mapping[str, Any]) -> list[Daemon]:
    """Start the daemons and wait until each runs or has failed."""
    daemons = []
    for number, device in enumerate(told["devices"]):
        pipe = Path(told["folder"]) / f"{number}"
        logs = Path(told["logs"]) / f"mps-{number}"
        for folder in (pipe, logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        daemons.append(Daemon(device, environment, logs / "output.log"))
    for daemon in daemons:
        daemon.start()
    deadline = time.monotonic() + START_S
    waiting = [daemon for daemon in daemons if not daemon.check()]
    while waiting and time.monotonic() < deadline:
        time.sleep(POLL_S)
        waiting = [daemon for daemon in waiting if not daemon.check()]
    for daemon in waiting:
        daemon.give_up()
    return daemons


def _say(to: TextIO, what: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        to.write(json.dumps(what) + "\n")
        to.flush()


def main() -> None:
    """Keep the daemons until the other end of standard input is closed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = json.loads(sys.stdin.buffer.readline())
    daemons: list[Daemon] = []
    try:
        daemons = keep(told)
        running = {daemon.device: daemon.environment for daemon in daemons if daemon.process is not None}
        problems = [f"{daemon.device}: {daemon.problem}" for daemon in daemons if daemon.problem]
        _say(sys.stdout, {"environment": running, "problems": problems})
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            for daemon in daemons:
                if news := daemon.look():
                    _say(sys.stdout, {"news": news})
    finally:
        for daemon in daemons:
            daemon.end()
        shutil.rmtree(told["folder"], ignore_errors=True)


if __name__ == "__main__":
    main()
