"""NVIDIA's Multi-Process Service for the GPUs of a host, run as the user, and ended with the workers.

Without it the calculations that share a GPU take turns on it; with it their kernels run side by side. One control daemon
for each GPU, because ``CUDA_VISIBLE_DEVICES`` of the daemon decides what its clients can see, and because a MIG device
needs one of its own; with pipes and logs in private folders, so that it meets no other user's and no other run's. The
card's compute mode is left as it is: the service works in the default mode.

Nothing of this could be tried on a GPU: it was written from NVIDIA's documentation ("Multi-Process Service", release
R570) and is tested with a program that takes the daemon's place.

Mind that processes that share a GPU through the service share its faults as well: one that makes the GPU fault (an
illegal address) ends the others on it, which are tried again as after a crash.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.orphans import die_with_parent, kill_family
from grafico.errors import ProfileError

__all__ = ["PROGRAM", "SharedGpus", "shared_gpus"]

PROGRAM = "nvidia-cuda-mps-control"
START_S = 30.0
END_S = 6
ASK_S = 10.0
POLL_S = 0.05


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
    workers: Sequence[WorkerSpec], logs: Path, environ: Mapping[str, str] | None = None
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
    try:
        shared = await asyncio.to_thread(_hear, keeper)
        needed = [worker for device, worker in wanting.items() if device not in shared.environment]
        if any(not worker.mps_optional for worker in needed):
            raise ProfileError(
                f"NVIDIA's Multi-Process Service does not run: {'; '.join(shared.problems)}",
                hint="set mps: try in the profile's pool to go on without it, or mps: false",
            )
        yield shared
    finally:
        await asyncio.to_thread(_end_keeper, keeper)
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


def _end_keeper(keeper: "subprocess.Popen[bytes]") -> None:
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(2.0 * END_S)
    except subprocess.TimeoutExpired:
        kill_family(keeper.pid)
        keeper.wait()
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


def _ask(command: str, environ: Mapping[str, str]) -> int:
    """Give a daemon a command; returns the exit status, above 0 if nobody answers."""
    try:
        return subprocess.run(
            [PROGRAM], input=command.encode(), env=dict(environ), timeout=ASK_S, capture_output=True, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 1


def _answers(environ: Mapping[str, str]) -> bool:
    return _ask("get_server_list\n", environ) == 0


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
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps({"environment": running, "problems": problems}) + "\n")
            sys.stdout.flush()
        sys.stdin.buffer.read()
    finally:
        for daemon in daemons:
            daemon.end()
        shutil.rmtree(told["folder"], ignore_errors=True)


if __name__ == "__main__":
    main()
