"""Where a worker came from: its cluster, its host and the Slurm job that holds it, as start records tell them."""

import os
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Origin", "end_of_allocation", "own_job"]


class Origin(NamedTuple):
    """Where a worker came from."""

    cluster: str = ""
    """``Connection.id`` of a standing cluster, which its work outlives no controller of; empty beside a controller."""
    host: str = ""
    """What the fleet calls its host."""
    slurm_job: str = ""
    ends_at: float | None = None
    """End of its allocation, seconds since the epoch."""


def own_job(environ: Mapping[str, str] = os.environ) -> str:
    """Return the id of the Slurm job that this process is in; empty if it is in none."""
    return environ.get("SLURM_JOB_ID", "")


def end_of_allocation(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return when the Slurm job that this process is in ends; ``None`` outside of one, or if nobody tells.

    Slurm tells it in the environment since 22.05; ``scontrol`` is asked otherwise.
    """
    if not own_job(environ):
        return None
    given = environ.get("SLURM_JOB_END_TIME", "")
    if given.isdecimal() and int(given) > 0:
        return float(given)
    return _asked(own_job(environ))


def _asked(job: str) -> float | None:
    import datetime
    import re

    from grafico.cluster.slurm.commands import call

    found = call("scontrol", "show", "job", "-o", job, timeout_s=20.0).out
    match = re.search(r"\bEndTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", found)
    if match is None:
        return None
    # Slurm writes local time.
    return datetime.datetime.fromisoformat(match[1]).astimezone().timestamp()
