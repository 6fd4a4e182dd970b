"""One host as a Slurm job: dask-jobqueue's job class submits and cancels it, the script is ours."""

import asyncio
import contextlib
import re
from collections.abc import Iterator

import dask
from dask_jobqueue.slurm import SLURMJob

from grafico.cluster.slurm.commands import cancel, job_id_in, submission_environment, words_of
from grafico.cluster.slurm.records import HostRecords
from grafico.errors import ProfileError

__all__ = ["HostJob"]

SUBMIT_S = 120.0
"""sbatch waits for the controller as long as the site's MessageTimeout says, and tries again; then it is given up."""

CANCEL_S = 30.0

UNUSED = {
    "name": "grafico", "cores": 1, "memory": "1GiB", "processes": 1, "python": "python3", "interface": None,
    "death-timeout": None, "local-directory": None, "shared-temp-directory": None, "extra": None,
    "worker-command": "grafico.cluster.host", "worker-extra-args": [], "shebang": "#!/bin/bash", "queue": None,
    "account": None, "walltime": None, "env-extra": None, "job-script-prologue": [], "job-cpu": None, "job-mem": None,
    "job-extra": None, "job-extra-directives": [], "job-directives-skip": [], "log-directory": None,
}  # fmt: skip
"""What dask-jobqueue asks its configuration for: a section of our own, so that nobody's jobqueue.yaml has a say."""


class HostJob(SLURMJob):  # type: ignore[misc]  # dask-jobqueue has no types
    """The job of one host.

    Parameters
    ----------
    scheduler
        Address of the scheduler.
    name
        The host's name in the records: ``pool-label``.
    text
        The script.
    records
        Where script and number are kept.
    """

    config_name = "grafico"

    def __init__(self, scheduler: str, name: str, *, text: str, records: HostRecords) -> None:
        with dask.config.set({"jobqueue.grafico": UNUSED}):
            super().__init__(scheduler=scheduler, name=name)
        self._text = text
        self._records = records

    def job_script(self) -> str:
        """Return the script."""
        return self._text

    @contextlib.contextmanager
    def job_file(self) -> Iterator[str]:
        """Keep the script where it is found again."""
        path = self._records.script(self.name)
        self._records.write(path, self._text)
        yield str(path)

    async def start(self) -> None:
        """Submit it.

        Raises
        ------
        ProfileError
            Slurm refuses it; in its own words.
        """
        try:
            await asyncio.wait_for(super().start(), SUBMIT_S)
        except TimeoutError:
            raise ProfileError(f"sbatch did not answer within {SUBMIT_S:g} s") from None
        except (RuntimeError, ValueError, OSError) as error:
            self._records.forget(self.name)
            raise ProfileError(f"sbatch: {_said(str(error))}") from None
        self._records.write(self._records.number(self.name), f"{self.job_id}\n")

    async def close(self) -> None:
        """Cancel it; whether that was heard is seen in the queue."""
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(super().close(), CANCEL_S)

    async def _submit_job(self, script_filename: str) -> str:
        command = [self.submit_command, "--parsable", script_filename]
        return str(await self._call(command, env=submission_environment(self._text)))

    @classmethod
    async def _close_job(cls, job_id: str | None, cancel_command: str) -> None:  # noqa: ARG003 - dask-jobqueue's signature
        if job_id:
            await asyncio.to_thread(cancel, [job_id])

    def _job_id_from_submit_output(self, out: str) -> str:
        job_id = job_id_in(out)
        if job_id is None:
            raise ValueError(f"no job number came: {words_of(out)[:200] or 'nothing was said'}")
        return job_id


def _said(error: str) -> str:
    """Return what sbatch printed, out of what dask-jobqueue makes of it."""
    found = re.search(r"stderr:\n(.*)", error, re.DOTALL)
    return words_of(found.group(1) if found else error) or words_of(error)
