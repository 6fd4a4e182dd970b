"""The elastic fleet: hosts are Slurm jobs, several pools on one scheduler, submitted and given back as the work needs.

dask-jobqueue submits and cancels. When and how many, what became of each job, and what people are told is decided
here: its own clusters know one kind of worker, log a refused submission and wait for ever.
"""

import asyncio
import importlib.util
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.fleet import HostView, PoolStatus
from grafico.cluster.here import check_here
from grafico.cluster.layout import lay_out
from grafico.cluster.origin import end_of_allocation, own_job
from grafico.cluster.placement import Pending
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.commands import transient, try_script
from grafico.cluster.slurm.pool_record import Host, PoolRecord
from grafico.cluster.slurm.records import HostRecords, cancel_left, look_up
from grafico.cluster.slurm.scaling import decide
from grafico.cluster.slurm.script import check_script, host_script
from grafico.errors import MissingExtra, ProfileError

if TYPE_CHECKING:
    from grafico.cluster.slurm.host_job import HostJob

__all__ = ["ElasticFleet"]

LOG = logging.getLogger("grafico.cluster")

LOOK_S = 3.0
"""Seconds between two looks at the queue while something is expected of it."""

LOOK_SELDOM_S = 30.0
"""Seconds between two looks while all hosts are up: a site's slurmctld is shared."""

SILENT_S = 90.0
"""A host that was up and has had no worker for so long is given up, though its job runs."""

START_S = 900.0
"""A job that has run for so long without a word from its host is given up."""

CANCEL_AGAIN_S = 20.0
"""A cancelled job that has not ended by then is cancelled again: scancel may not have been heard."""

BLIND_S = 180.0
"""Where the queue cannot be read, a cancelled job counts as gone after so long."""

TOGETHER = 8
"""Jobs of a pool that are submitted at once; more come a second later."""

END_S = 25.0
"""Seconds for which jobs are waited for at the end."""


class ElasticFleet:
    """Hosts as jobs of their own. Implements :class:`grafico.cluster.fleet.Fleet`.

    Parameters
    ----------
    profile
        Of kind ``slurm``, elastic.
    folder
        The cluster's folder, seen by the hosts under the same path.
    scheduler_address
        Where the scheduler listens.

    Raises
    ------
    MissingExtra
        dask-jobqueue is not installed.
    """

    def __init__(self, profile: Profile, folder: Path, scheduler_address: str) -> None:
        if importlib.util.find_spec("dask_jobqueue") is None:
            raise MissingExtra(
                f"the profile {profile.name!r} submits its hosts through dask-jobqueue, which is not installed",
                hint="pip install 'grafico[slurm]'",
            )
        self._profile = profile
        self._folder = Path(folder)
        self._scheduler = scheduler_address
        self._records = HostRecords(self._folder)
        expected = lay_out(profile)
        self._pools = {
            pool.name: PoolRecord(
                pool, tuple(w for w in expected if w.pool == pool.name and w.host == "1"), self._folder
            )
            for pool in profile.pools
        }
        self._last = 0
        self._lock = asyncio.Lock()
        self._closing = False
        self._look: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._blind = ""

    async def start(self) -> None:
        """Ask for the least number of hosts of each pool.

        Raises
        ------
        ProfileError
            Slurm is not there, or would refuse a job of some pool; nothing is left in the queue.
        """
        check_here(self._profile)
        (self._folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        left = await asyncio.to_thread(cancel_left, self._folder)
        if left:
            LOG.warning("jobs of an earlier server are still in the queue: %s", left)
        self._last = self._records.highest()
        ends = await asyncio.to_thread(end_of_allocation)
        if ends is not None:
            # In a Slurm job, the server and so its hosts end with that.
            mine = f"Slurm job {own_job()}, in which the cluster's server is, has"
            for record in self._pools.values():
                record.ends_with = (mine, ends - time.time())
        names = list(self._pools)
        texts = [host_script(self._profile, name, self._folder, str(self._last + 1)) for name in names]
        for problem, name, text in zip(
            await asyncio.gather(*(asyncio.to_thread(self._try, text) for text in texts)), names, texts, strict=True
        ):
            if problem:
                raise ProfileError(
                    f"profile {self._profile.name!r}, pool {name!r}: Slurm refuses its jobs: {problem}",
                    hint="`grafico cluster check` prints the script: " + _options(text),
                )
        async with self._lock:
            try:
                for name in names:
                    record = self._pools[name]
                    record.wanted = record.pool.scale.min
                    # One, which shows whether Slurm takes them; the others come with the first turns.
                    await self._submit(name, min(1, record.wanted))
                    record.raise_if_refused(self._profile.name)
            except BaseException:
                await self._end_all()
                raise

    async def adjust(self, pending: Mapping[str, Sequence[Pending]], hosts: Sequence[HostView]) -> None:
        """Submit, replace, retire; see :class:`grafico.cluster.fleet.Fleet`."""
        async with self._lock:
            if self._closing:
                return
            views = {(view.pool, view.label): view for view in hosts}
            now, wall = time.monotonic(), time.time()
            for name, record in self._pools.items():
                record.see(views, now, wall)
                record.note_pending(pending.get(name, ()), now)
            self._look_again(now)
            for record in self._pools.values():
                await self._give_up_silent(record, now)
            idle_s = self._profile.idle_s
            states = [record.state_for_scaling(views, now, wall, idle_s) for record in self._pools.values()]
            for name, decision in decide(states).items():
                record = self._pools[name]
                record.wanted = decision.wanted
                await self._retire(record, decision.retire)
                await self._submit(name, decision.submit)

    def status(self) -> tuple[PoolStatus, ...]:
        """Return how the pools stand."""
        return tuple(record.status(self._blind, time.monotonic()) for record in self._pools.values())

    async def close(self) -> None:
        """End all hosts, and leave nothing in the queue."""
        self._closing = True
        if self._look is not None:
            self._look.cancel()
        async with self._lock:
            await self._end_all()

    # -- what the queue says ---------------------------------------------------------------------------------------

    def _look_again(self, now: float) -> None:
        """Have somebody look at the queue, now and then; what is found counts from the next turn on."""
        if self._look is not None:
            if not self._look.done():
                return
            if not self._look.cancelled() and (error := self._look.exception()) is not None:
                LOG.error("the queue could not be looked at", exc_info=error)
            self._look = None
        expecting = any(not host.up or host.ending for record in self._pools.values() for host in record.hosts)
        if now - self._looked_at >= (LOOK_S if expecting else LOOK_SELDOM_S):
            self._looked_at = now
            self._look = asyncio.create_task(self._look_at_queue(), name="look at the queue")

    async def _look_at_queue(self) -> None:
        jobs = {host.job_id: (record, host) for record in self._pools.values() for host in record.hosts}
        states, problem = await asyncio.to_thread(look_up, list(jobs))
        if problem and problem != self._blind:
            LOG.warning("the queue cannot be read, going on without: %s", problem)
        self._blind = problem
        now = time.monotonic()
        for job_id, state in states.items():
            record, host = jobs[job_id]
            if host in record.hosts:
                record.looked(host, state, now)
            if state.ended:
                self._records.forget(f"{host.pool}-{host.label}")
        for record in self._pools.values():
            condemned = record.condemned()
            if condemned is not None:
                await self._cancel([condemned])
            if record.hopeless:
                await self._cancel([host for host in record.hosts if not host.up and not host.ending])

    async def _give_up_silent(self, record: PoolRecord, now: float) -> None:
        """End jobs that run without their host being heard of."""
        stuck = [host for host in record.hosts if host.ending and now - host.cancelled_at > CANCEL_AGAIN_S]
        await self._cancel(stuck)
        if self._blind:
            # Nobody will say that they have ended; they must not take the places of others for ever.
            record.hosts = [host for host in record.hosts if host.up or now - host.ending_since < BLIND_S]
        for host in list(record.hosts):
            running = host.state is None or host.state.state == "RUNNING"
            if host.up or host.ending or not running:
                continue
            silent = now - host.heard_at
            if host.came_up and silent > SILENT_S:
                record.note(f"host {host.label} was not heard of for {silent:.0f} s, and is replaced", now)
                await self._cancel([host])
            elif not host.came_up and host.ran_since is not None and now - host.ran_since > START_S:
                record.failed_to_report(host, START_S, now)
                await self._cancel([host])

    # -- doing -----------------------------------------------------------------------------------------------------

    def _try(self, text: str) -> str:
        check_script(text)
        return try_script(text)

    async def _submit(self, name: str, count: int) -> None:
        from grafico.cluster.slurm.host_job import HostJob

        record = self._pools[name]
        jobs = []
        for _ in range(min(count, TOGETHER)):
            self._last += 1
            label = str(self._last)
            text = host_script(self._profile, name, self._folder, label)
            jobs.append((label, HostJob(self._scheduler, f"{name}-{label}", text=text, records=self._records)))
        if jobs:
            await asyncio.gather(*(self._submit_one(record, label, job) for label, job in jobs))

    async def _submit_one(self, record: PoolRecord, label: str, job: "HostJob") -> None:
        try:
            await job
        except ProfileError as error:
            LOG.warning("pool %s: a job was not submitted: %s", record.name, error.message)
            record.refused(error.message, time.monotonic(), for_now=transient(error.message))
            return
        LOG.info("pool %s: host %s is job %s", record.name, label, job.job_id)
        record.hosts.append(Host(label, record.name, job, str(job.job_id), time.monotonic()))
        self._looked_at = min(self._looked_at, time.monotonic() - LOOK_S + 1)

    async def _retire(self, record: PoolRecord, labels: Sequence[str]) -> None:
        hosts = [host for host in record.hosts if host.label in labels]
        for host in hosts:
            LOG.info("pool %s: host %s is given back", record.name, host.label)
        await self._cancel(hosts)

    async def _cancel(self, hosts: Sequence[Host]) -> None:
        now = time.monotonic()
        for host in hosts:
            if not host.ending:
                host.ending, host.ending_since = True, now
            host.cancelled_at = now
        await asyncio.gather(*(host.job.close() for host in hosts))

    async def _end_all(self) -> None:
        """Cancel all jobs and see them leave the queue, those too whose submission was cut short."""
        left = await asyncio.to_thread(partial(cancel_left, self._folder, END_S))
        if left:
            LOG.error("still in the queue: %s", left)
        for record in self._pools.values():
            record.hosts.clear()


def _options(text: str) -> str:
    """Return the options of a script in one line."""
    lines = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    return " ".join(line for line in lines if not line.startswith(("--job-name", "--output")))
