"""Opening a cluster for a run; everything heavy is imported only then."""

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.layout import lay_out
from grafico.cluster.profile import Profile

if TYPE_CHECKING:
    from grafico.cluster.lanes import Cluster

__all__ = ["open_cluster"]


@contextlib.asynccontextmanager
async def open_cluster(profile: Profile, run_root: Path) -> AsyncIterator["Cluster"]:
    """Start the workers of a profile for a run; they end with the context, or with this process.

    Parameters
    ----------
    profile
        What to start.
    run_root
        The run's folder, where outcomes, artifacts and logs go.

    Raises
    ------
    ProfileError
        This machine lacks what the profile asks for.
    GraficoError
        No worker started.
    """
    specs = lay_out(profile)
    from grafico.cluster.dask_cluster import Watcher, running_cluster
    from grafico.cluster.lanes import Cluster

    scratch = Path(tempfile.mkdtemp(prefix="grafico-"))
    try:
        cluster = Cluster(profile, specs, Path(run_root), scratch)
        watcher = Watcher(cluster.worker_up, cluster.worker_down)
        async with running_cluster(
            profile, specs, watcher, scratch, cluster.worker_given_up, source=cluster
        ) as running:
            cluster.connect(running)
            try:
                await cluster.ready()
                yield cluster
            finally:
                await cluster.kill()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
