"""What can be told, before anything is made, of whether a profile can be started from here."""

import os
import shutil
from collections.abc import Mapping

from grafico.cluster.profile import Profile
from grafico.errors import ProfileError

__all__ = ["check_here"]


def check_here(profile: Profile, environ: Mapping[str, str] = os.environ) -> None:
    """Check that a cluster of a profile can be started, or is up.

    Raises
    ------
    ProfileError
        Slurm's commands are not here, we are in no allocation, or the cluster to connect to is not up, does not answer
        or is of another version.
    """
    if profile.kind == "connect":
        from grafico.cluster.connection import find_connection
        from grafico.cluster.lifecycle import check_answers

        assert profile.connect is not None
        check_answers(find_connection(profile.connect))
    elif profile.kind == "slurm" and profile.workers == "elastic":
        if shutil.which("sbatch", path=environ.get("PATH")) is None:
            raise ProfileError(
                f"the profile {profile.name!r} submits jobs to Slurm, and sbatch is not there",
                hint="start it on a login node of the cluster",
            )
    elif profile.kind == "slurm":
        if not environ.get("SLURM_JOB_ID"):
            raise ProfileError(
                f"the profile {profile.name!r} takes the nodes of a Slurm allocation, and we are in none",
                hint="start it in one: `grafico submit JOB`, `sbatch slurm/run.sbatch JOB`, or `salloc`",
            )
        if shutil.which("srun", path=environ.get("PATH")) is None:
            raise ProfileError(
                f"srun is not on the PATH in Slurm job {environ['SLURM_JOB_ID']}",
                hint="it starts the hosts; add it in `setup`",
            )
