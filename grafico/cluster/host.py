"""The launcher of a host: ``python -m grafico.cluster.host``; one machine's workers, started, watched and replaced.

It is told a cluster folder and reads everything else there. It ends with the cluster: when its starter dies (beside a
server), when the scheduler is gone, when it is told to (SIGTERM), and shortly before its allocation ends. In the last
two cases it tells the scheduler first, so that nobody takes what was running for having failed.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grafico.cluster.certificates import security, tls_paths
from grafico.cluster.connection import ClusterFolder, Connection, differences, read_connection, versions_here
from grafico.cluster.launch import Surroundings, WorkerProcess, last_words
from grafico.cluster.layout import WorkerSpec, lay_out, lay_out_host
from grafico.cluster.mps import shared_gpus
from grafico.cluster.origin import Origin, end_of_allocation, own_job
from grafico.cluster.orphans import die_with_parent
from grafico.cluster.scratch import scratch_folder
from grafico.errors import GraficoError

__all__ = ["main"]

TURN_S = 1.0
ANSWER_S = 10.0
LAST_WORD_S = 3.0
"""For telling the scheduler that this host ends: Slurm may kill it some seconds after its signal."""

GONE_S = 20.0
"""The scheduler is gone if nobody has listened at its address for so long."""

SILENT_S = 300.0
"""One that listens and does not answer may be stopped, or wait for a disk: only after so long it is gone as well."""

KNOCK_S = 3.0

MISSED = 4
"""A worker that the scheduler has not known for so many turns is replaced, although its process is there."""

LAST_S = 10.0
"""Before the end of the allocation: Slurm's signal would reach calculations before anybody could say why."""

DESCRIBED_S = 60.0
"""A folder on a network may take so long to show what the server has written."""


def main() -> None:
    """Be a host until the cluster, the allocation or the starter ends."""
    parser = argparse.ArgumentParser(prog="grafico.cluster.host")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--pool", default="", help="default: all pools of a local profile")
    parser.add_argument("--label", default="")
    parser.add_argument("--parent", type=int, help="process to end with")
    given = parser.parse_args()
    os.umask(0o077)
    if given.parent is not None:
        die_with_parent(given.parent)
    try:
        code = asyncio.run(_host(ClusterFolder(given.folder), given.pool, given.label))
    except GraficoError as error:
        sys.stderr.write(f"grafico: {error.message}{f' ({error.hint})' if error.hint else ''}\n")
        code = error.exit_code
    sys.stdout.flush()
    os._exit(code)


async def _host(place: ClusterFolder, pool: str, label: str) -> int:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    connection = await _described(place, told)
    if connection is None:
        return 0
    fatal, _ = differences(connection.versions, versions_here())
    if fatal:
        raise GraficoError(f"this host does not fit the cluster: {'; '.join(fatal)}", hint="install the same there")
    profile = connection.profile
    specs = lay_out_host(profile, pool, label) if pool else lay_out(profile)
    if not specs:
        sys.stdout.write(f"there is nothing for pool {pool} on this host\n")
        return 0
    origin = Origin(connection.id, label, own_job(), end_of_allocation())
    with scratch_folder() as scratch:
        around = Surroundings(
            scratch=scratch,
            logs=place.logs,
            max_tasks=profile.max_tasks_per_process,
            grace_s=profile.walltime_grace_s,
            tls=tls_paths(place.tls) if connection.tls else None,
            origin=origin,
            versions=connection.versions,
        )
        return await Host(connection, specs, around).run(told)


async def _described(place: ClusterFolder, told: asyncio.Event) -> Connection | None:
    """Return how to connect, once the folder says so; ``None`` if told to end meanwhile."""
    deadline = time.monotonic() + DESCRIBED_S
    while not told.is_set():
        connection = await asyncio.to_thread(read_connection, place)
        if connection is not None:
            return connection
        if time.monotonic() > deadline:
            raise GraficoError(f"{place.connection} is not there: no cluster is up in this folder")
        await asyncio.sleep(0.2)
    return None


class Host:
    """The workers of this machine.

    Parameters
    ----------
    connection
        The cluster.
    specs
        The workers.
    around
        What they have in common.
    """

    def __init__(self, connection: Connection, specs: Sequence[WorkerSpec], around: Surroundings) -> None:
        self._connection = connection
        self._around = around
        self._given_up: dict[str, str] = {}
        self._workers = {spec.name: WorkerProcess(connection.scheduler, spec, around, self._give_up) for spec in specs}
        self._missed = dict.fromkeys(self._workers, 0)
        self._code = 0

    async def run(self, told: asyncio.Event) -> int:
        """Run them until it is over; returns the exit code."""
        from distributed.core import rpc

        arguments = security(self._around.tls).get_connection_args("worker")
        remote = rpc(self._connection.scheduler, connection_args=arguments, timeout=ANSWER_S)
        specs = [worker.spec for worker in self._workers.values()]
        async with remote, shared_gpus(specs, self._around.logs, tell=_tell_of_mps) as shared:
            for problem in shared.problems:
                sys.stdout.write(f"goes on without NVIDIA's multi-process service: {problem}\n")
            for worker in self._workers.values():
                worker.spec = replace(worker.spec, environment=shared.of(worker.spec))
            await asyncio.gather(*(worker.start() for worker in self._workers.values()))
            try:
                reason = await self._watch(remote, told)
                for worker in self._workers.values():
                    worker.let_go()  # Slurm's signal has reached them as well
                if not self._code:
                    sys.stdout.write(f"ends: {reason or 'the cluster has ended'}\n")
                if reason:
                    with contextlib.suppress(OSError):
                        await asyncio.wait_for(
                            remote.grafico_ending(workers=list(self._workers), reason=reason), LAST_WORD_S
                        )
            finally:
                await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        return self._code

    async def _watch(self, remote: Any, told: asyncio.Event) -> str:
        """Look after them; returns why they end, if the scheduler has to be told."""
        ends_at = self._around.origin.ends_at
        job = self._around.origin.slurm_job
        heard = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), TURN_S)
            if told.is_set():
                return f"Slurm job {job} was told to end" if job else "its host was told to end"
            if ends_at is not None and time.time() > ends_at - LAST_S:
                return f"the time of Slurm job {job} is over"
            if len(self._given_up) == len(self._workers):
                self._code = 1
                sys.stdout.write(f"no worker starts here: {next(iter(self._given_up.values()))}\n")
                return ""
            try:
                stopping = await asyncio.wait_for(self._turn(remote), ANSWER_S)
                heard = time.monotonic()
            except (OSError, ValueError):
                if self._connection.server.process.alive() is False:
                    return ""
                silent = time.monotonic() - heard
                if silent > SILENT_S or (silent > GONE_S and not await _listens(self._connection.scheduler)):
                    return ""
                continue
            if stopping:
                return ""

    async def _turn(self, remote: Any) -> str:
        """Report once; returns why the cluster ends, if it does."""
        workers = {name: worker.spec.pool for name, worker in self._workers.items()}
        answer = await remote.grafico_host(
            label=self._around.origin.host, workers=workers, given_up=dict(self._given_up)
        )
        for name, worker in self._workers.items():
            missing = worker.came_up and name not in answer["known"]
            self._missed[name] = self._missed[name] + 1 if missing else 0
            if self._missed[name] >= MISSED:
                self._missed[name] = 0
                worker.kill()  # the scheduler has lost it although its process is there: stopped, say
        return str(answer["stopping"])

    def _give_up(self, name: str) -> None:
        self._given_up[name] = last_words(self._around.logs, name)


def _tell_of_mps(news: str) -> None:
    sys.stdout.write(f"NVIDIA's multi-process service: {news}\n")
    sys.stdout.flush()


async def _listens(address: str) -> bool:
    """Whether somebody may still be at an address: if not, connecting is refused, or the host is not there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), KNOCK_S)
    except TimeoutError:
        return True
    except OSError:
        return False
    writer.close()
    return True


if __name__ == "__main__":
    main()
