"""Opening a cluster for a run; everything heavy is imported only then."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.leases import lease_folder
from grafico.cluster.profile import Profile

if TYPE_CHECKING:
    from grafico.cluster.lanes import Cluster

__all__ = ["open_cluster"]

MPS = "NVIDIA's multi-process service"
INSECURE = "the profile %r says `security: none`: whoever can reach the scheduler's port can run code as you"


@contextlib.asynccontextmanager
async def open_cluster(
    profile: Profile, run_root: Path, *, say: Callable[[str], None] = lambda _: None
) -> AsyncIterator["Cluster"]:
    """Start the workers of a profile for a run, or connect to those that are there.

    Workers of this machine end with the context, or with this process. A cluster that was up stays up. Hosts that
    Slurm gave end with the context; where this process is killed they go on with what they have in hand, and a resume
    finds them.

    Parameters
    ----------
    profile
        What to start, or what to connect to.
    run_root
        The run's folder, where outcomes, artifacts and logs go.
    say
        Tells people what they should know.

    Raises
    ------
    ProfileError
        This machine lacks what the profile asks for; no cluster is up; Slurm refuses.
    GraficoError
        No worker started.
    """
    if profile.security == "none":
        say("note: " + INSECURE % profile.name)
    if profile.kind != "local":
        from grafico.cluster.remote import remote_cluster

        async with remote_cluster(profile, Path(run_root), say) as cluster:
            yield cluster
        return
    specs = lay_out(profile)
    if any(spec.is_gpu or spec.pin_cpus for spec in specs):
        lease_folder()  # said now, and not by each calculation
    from grafico.cluster.dashboard import moved
    from grafico.cluster.dask_cluster import Watcher, running_cluster
    from grafico.cluster.lanes import Cluster
    from grafico.cluster.launch import last_words
    from grafico.cluster.mps import shared_gpus
    from grafico.cluster.neighbors import Neighbors
    from grafico.cluster.scratch import scratch_folder

    with scratch_folder() as scratch:
        cluster = Cluster(profile, specs, Path(run_root), lambda name: last_words(scratch, name))
        neighbors = Neighbors(specs, cluster.worker_shared)

        def came(spec: WorkerSpec, address: str) -> None:
            cluster.worker_up(spec, address)
            neighbors.look(spec)  # before anything is sent there

        watcher = Watcher(specs, came, cluster.worker_down)
        async with shared_gpus(specs, scratch, tell=lambda news: say(f"{MPS}: {news}")) as shared:
            for problem in shared.problems:
                say(f"note: goes on without {MPS}: {problem}")
            ready = [replace(spec, environment=shared.of(spec)) for spec in specs]
            async with running_cluster(
                profile, ready, watcher, scratch, cluster.worker_given_up, source=cluster
            ) as running:
                cluster.connect(running)
                if news := moved(profile.dashboard, running.dashboard_link):
                    say(f"note: {news}")
                looking = asyncio.create_task(neighbors.watch(), name="look at other runs")
                try:
                    await cluster.ready()
                    yield cluster
                finally:
                    looking.cancel()
                    await cluster.kill()
