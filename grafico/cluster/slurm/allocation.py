"""Hosts on the nodes of the Slurm allocation that we are in, each started with `srun` as a step of its own.

A node that dies takes only its own step with it; the job must have been submitted with ``--no-kill``, or Slurm ends all
of it then. Steps overlap: two pools may be on one node, beside the controller.
"""

import asyncio
import contextlib
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.fleet import HostView, PoolStatus
from grafico.cluster.here import check_here
from grafico.cluster.origin import end_of_allocation
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.nodes import expand, gpus_by_node
from grafico.cluster.slurm.script import host_command, log_of_host
from grafico.errors import ProfileError

if TYPE_CHECKING:
    from grafico.cluster.placement import Pending

__all__ = ["AllocationFleet"]

TOO_MANY = 5
"""Starts in a row that came to nothing, after which a pool is given up on a node."""
LONGEST_WAIT_S = 30.0
ENOUGH_S = 10.0
"""Seconds for a step to end; Slurm kills it after ``KillWait``."""
TOGETHER = 16
"""Steps that are asked for at once; more would only wait for Slurm's controller."""

KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS"})
DROPPED = frozenset({"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"})
TOLD = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE")
"""What a step that takes all of the job's memory is not told by Slurm, and the layout wants to know."""


@dataclass(eq=False)
class Place:
    """One pool on one node."""

    pool: str
    node: str
    process: "asyncio.subprocess.Process | None" = None
    here: bool = False
    """Whether its workers have reported."""
    came_up: bool = False
    """Whether those of the present step ever have."""
    failed: int = 0
    over: bool = False
    """Nothing more is started there."""
    problem: str = ""


class AllocationFleet:
    """Keeps a host of every pool on every node of the allocation.

    Parameters
    ----------
    profile
        Of kind ``slurm`` with ``workers: allocation``.
    folder
        The cluster's folder.
    scheduler_address
        Where the scheduler listens; hosts read it from the folder.
    environ
        Where Slurm says what the allocation is; default: this process's environment.
    """

    def __init__(
        self,
        profile: Profile,
        folder: Path,
        scheduler_address: str,  # noqa: ARG002 - every fleet gets it
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._profile = profile
        self._folder = folder
        self._environ = dict(environ)
        self._job = ""
        self._life_s: float | None = None
        self._overlap = True
        self._gpus: dict[str, int] = {}
        self._places: list[Place] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._room = asyncio.Semaphore(TOGETHER)
        self._closing = False

    async def start(self) -> None:
        """Start a host of every pool on every node.

        Raises
        ------
        ProfileError
            We are in no allocation, or `srun` is missing.
        """
        self._job = self._environ.get("SLURM_JOB_ID", "")
        listed = self._environ.get("SLURM_JOB_NODELIST") or self._environ.get("SLURM_NODELIST", "")
        check_here(self._profile, self._environ)
        ends = await asyncio.to_thread(end_of_allocation, self._environ)
        self._life_s = None if ends is None else max(0.0, ends - time.time())
        try:
            nodes = expand(listed)
        except ValueError as error:
            raise ProfileError(f"the nodes of Slurm job {self._job} cannot be told: {error}") from None
        self._overlap = await self._knows_overlap()
        if any(pool.has_gpus for pool in self._profile.pools):
            self._gpus = gpus_by_node(await self._ask("scontrol", "show", "job", "--details", self._job))
        self._places = [Place(pool.name, node) for node in nodes for pool in self._profile.pools]
        self._keepers = [asyncio.create_task(self._keep(place)) for place in self._places]

    async def adjust(self, pending: Mapping[str, "Sequence[Pending]"], hosts: Sequence[HostView]) -> None:  # noqa: ARG002
        """Take note of who is there: the allocation neither grows nor shrinks."""
        there = {(host.pool, host.label) for host in hosts if host.workers}
        for place in self._places:
            was, place.here = place.here, (place.pool, place.node) in there
            if place.here:
                place.came_up, place.failed, place.problem = True, 0, ""
            elif was:
                # Slurm itself takes minutes to notice that a node is dead.
                place.problem = f"host {place.node} of pool {place.pool} is gone"

    def status(self) -> tuple[PoolStatus, ...]:
        """Return how the pools stand."""
        return tuple(self._status(pool.name) for pool in self._profile.pools)

    async def close(self) -> None:
        """End all steps."""
        self._closing = True
        for keeper in self._keepers:
            keeper.cancel()
        processes = [place.process for place in self._places if place.process is not None]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()  # srun ends its step then
        waits = [asyncio.create_task(process.wait()) for process in processes]
        if waits:
            _, late = await asyncio.wait(waits, timeout=ENOUGH_S)
            for process in processes if late else ():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    # -- one pool on one node ----------------------------------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        """Start a host again whenever it ends, unless it never even comes up."""
        while True:
            place.came_up = False
            async with self._room:
                place.process = await self._spawn(place)
            code = await place.process.wait()
            place.process, place.here = None, False
            if self._closing:
                return
            place.failed = 0 if place.came_up else place.failed + 1
            # In order, a host ends if there is nothing for its pool on the node, or with the cluster or the allocation.
            place.over = code == 0 or place.failed >= TOO_MANY
            if code != 0 or place.came_up:
                place.problem = f"host {place.node} of pool {place.pool} has ended ({self._last_words(place)})"
            if place.over:
                return
            await asyncio.sleep(min(LONGEST_WAIT_S, 0.5 * 2**place.failed))

    async def _spawn(self, place: Place) -> "asyncio.subprocess.Process":
        environment = {
            name: value
            for name, value in self._environ.items()
            # What was asked for when the job was submitted would be asked for again, of each single node.
            if name in KEPT or not (name.startswith("SLURM_") or name in DROPPED)
        }
        log = log_of_host(self._folder, place.pool, place.node)
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as sink:
            return await asyncio.create_subprocess_exec(
                *self._command(place),
                stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment, start_new_session=True,
            )  # fmt: skip

    def _command(self, place: Place) -> list[str]:
        options = [
            f"--jobid={self._job}",
            f"--nodelist={place.node}",
            "--nodes=1",
            "--ntasks=1",
            f"--job-name=grafico-host-{place.pool}",
            "--cpu-bind=none",  # a step of one task would be bound to one core; we bind calculations ourselves
            "--mem=0",  # all that the job has on the node
            "--mpi=none",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--input=none",
            "--unbuffered",
            *(["--overlap"] if self._overlap else []),
            *self._gpu_options(place),
        ]
        told = [f"export {name}={shlex.quote(self._environ[name])}" for name in TOLD if self._environ.get(name)]
        if self._gpus:
            # A host without GPUs in its own step has to know whether its node is shared with one that has them.
            told.append(f"export SLURM_GPUS_ON_NODE={self._gpus.get(place.node, 0)}")
        command = host_command(self._profile, place.pool, self._folder, place.node)
        return ["srun", *options, "bash", "-c", "\n".join([*told, command])]

    def _gpu_options(self, place: Place) -> list[str]:
        if not self._profile.pool(place.pool).has_gpus:
            return ["--gres=none"]
        # GPUs that were asked for of the job as a whole are not handed down to the step of one node by themselves.
        whole = any(self._environ.get(name) for name in ("SLURM_GPUS", "SLURM_GPUS_PER_TASK"))
        count = self._gpus.get(place.node, 0)
        # What Slurm refuses in one way, it may grant in the other: its versions differ.
        return [f"--gpus={count}"] if count and whole != bool(place.failed % 2) else []

    # -- what there is to say ----------------------------------------------------------------------------------------

    def _status(self, pool: str) -> PoolStatus:
        places = [place for place in self._places if place.pool == pool]
        # A step can live on without its srun: Slurm may take its node for dead, and be wrong.
        left = [place for place in places if not place.over or place.here]
        up = sum(place.here for place in left)
        troubled = [place.problem for place in places if place.problem]
        problem = troubled[0] if troubled else ""
        if len(troubled) > 1:
            problem += f", and {len(troubled) - 1} more"
        if places and not left and not problem:
            problem = f"no node of Slurm job {self._job} has anything for pool {pool}"
        return PoolStatus(
            pool=pool,
            wanted=len(left),
            queued=len(left) - up,
            up=up,
            problem=problem,
            hopeless=bool(places) and not left,
            life_s=self._life_s,
            life_of=f"Slurm job {self._job}, whose nodes these are, has",
        )

    def _last_words(self, place: Place) -> str:
        try:
            text = log_of_host(self._folder, place.pool, place.node).read_text(errors="replace")
        except OSError:
            return "its log cannot be read"
        lines = [line for line in text.splitlines() if line.strip() and "cpu binding" not in line]
        return lines[-1].strip()[:300] if lines else "its log is empty"

    async def _knows_overlap(self) -> bool:
        """Whether steps share a node's processors only if told so: since Slurm 20.11."""
        match = re.search(r"(\d+)\.(\d+)", await self._ask("srun", "--version"))
        return match is None or (int(match[1]), int(match[2])) >= (20, 11)

    async def _ask(self, *command: str) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environ,
            )
        except OSError:
            return ""
        try:
            out, _ = await asyncio.wait_for(process.communicate(), ENOUGH_S)
        except TimeoutError:
            process.kill()
            return ""
        return out.decode(errors="replace")
