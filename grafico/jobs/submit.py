"""Submitting a run to Slurm: its folder, the script in it, the job; all of it or nothing."""

import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grafico.calculations import Json
from grafico.cluster import Profile
from grafico.errors import BadInput, GraficoError, ProfileError
from grafico.jobs.launch import Prepared, create_run, prepare
from grafico.jobs.queue import Submission, write_submission
from grafico.jobs.sweeps import Shard
from grafico.runs import Run, RunPaths
from grafico.runs.files import disk_errors, write_atomic
from grafico.runs.processes import host_name
from grafico.runs.run import utc_now

__all__ = ["Draft", "Submitted", "draft", "submit"]

MOST = 1000
"""Jobs of one array; Slurm's own default for `MaxArraySize` is 1001."""

RUN = "@RUN-FOLDER@"
"""Stands for the run's folder in the command until the script is complete."""


@dataclass(frozen=True)
class Draft:
    """What would be submitted."""

    parts: tuple[Prepared, ...]
    """One, or one for each shard of a sweep."""
    profile: Profile
    script: str
    """With a name for the run that nothing has yet."""
    refused: str
    """Why Slurm would refuse it, in its own words; empty if it would not, or cannot be asked."""


@dataclass(frozen=True)
class Submitted:
    """What was submitted."""

    job: str
    """Number of the Slurm job; of an array, of the whole."""
    runs: tuple[Run, ...]
    script: Path

    def to_json(self) -> dict[str, Json]:
        """Return it for programs."""
        return {
            "job": self.job,
            "runs": [run.name for run in self.runs],
            "folders": [str(run.paths.root) for run in self.runs],
            "script": str(self.script),
            "logs": [str(run.paths.batch_log) for run in self.runs],
        }


def draft(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    base: Path,
    name: str | None = None,
    cluster: str | None = None,
    array: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Draft:
    """Check a job and its profile, and write the script; creates and submits nothing.

    Parameters
    ----------
    path, overrides, name, cluster
        As for :func:`grafico.jobs.launch.prepare`.
    base
        Folder of the runs.
    array
        Split a sweep into so many jobs of an array.
    say
        Told how far the checks have come.

    Raises
    ------
    BadInput
        The job or its profile cannot be used, or cannot be submitted to Slurm.
    """
    if array is not None and not 1 <= array <= MOST:
        raise BadInput(f"--array {array}: expected a number of jobs from 1 to {MOST}")
    shards = [None] if array is None else [Shard(number, array) for number in range(1, array + 1)]
    parts = tuple(prepare(path, overrides, name=name, cluster=cluster, shard=shard, say=say) for shard in shards)
    profile = parts[0].profile
    if profile.kind != "slurm":
        raise ProfileError(
            f"the profile {profile.name!r} is of kind {profile.kind!r}, and only kind 'slurm' has a queue to submit to",
            hint="choose one with --cluster, such as slurm-cpu or a file of your own; `grafico run` runs it here",
        )
    if _known_from_here(profile):
        from grafico.jobs.plan import admit

        for part in parts:
            admit(part)
            _in_time(part)
    stem = parts[0].loaded.job.name
    roots = [base.absolute() / f"{stem}{f'-{n + 1}of{array}' if array else ''}-DATE-TIME-ID" for n in range(len(parts))]
    script = _script(profile, roots)
    return Draft(parts, profile, script, _refused(profile, script, roots[0]))


def submit(drafted: Draft, base: Path) -> Submitted:
    """Create the run's folder, write the script into it and submit it.

    Raises
    ------
    ProfileError
        Slurm refuses it; nothing is left of it, on disk or in the queue.
    RunError
        The folder cannot be written.
    """
    from grafico.cluster.slurm.commands import submit as sbatch

    if drafted.refused:
        raise ProfileError(
            f"Slurm refuses the job: {drafted.refused}",
            hint="--dry-run shows the script; the profile says what it asks for",
        )
    was_there = base.exists()
    runs: list[Run] = []
    job = ""
    try:
        for part in drafted.parts:
            runs.append(create_run(part, base))  # noqa: PERF401 - should one fail, those before it are known
        script = runs[0].paths.batch_script
        with disk_errors("the script could not be written", script):
            write_atomic(script, _script(drafted.profile, [run.paths.root for run in runs]).encode())
            script.chmod(0o700)
        job = sbatch(script)
        for number, run in enumerate(runs, 1):
            own = f"{job}_{number}" if len(runs) > 1 else job
            write_submission(run.paths, Submission(job=own, submitted=utc_now(), host=host_name()))
    except BaseException:
        _undo(job, runs, None if was_there else base)
        raise
    return Submitted(job, tuple(runs), script)


def _undo(job: str, runs: Sequence[Run], base: Path | None) -> None:
    """Leave nothing: no job that would look for a run, no run that nobody carries out."""
    if job:
        from grafico.jobs.queue import take_out

        with suppress(GraficoError):
            take_out(job)
    for run in runs:
        shutil.rmtree(run.paths.root, ignore_errors=True)
    if base is not None:
        with suppress(OSError):
            base.rmdir()


def _known_from_here(profile: Profile) -> bool:
    """Whether the profile says what its workers will have; an allocation may take what it finds."""
    return profile.elastic or not any("auto" in (pool.cpus, pool.memory_mib, pool.gpus) for pool in profile.pools)


def _in_time(prepared: Prepared) -> None:
    """Refuse calculations that could never end: in each of its jobs in turn, the controller would cut them off.

    Raises
    ------
    ProfileError
        The controller's job is shorter than one of them.
    """
    from grafico.jobs.plan import foreseen_of

    profile = prepared.profile
    limit = profile.slurm_of_controller().walltime_s
    if not profile.elastic or limit is None:
        return
    for foreseen in foreseen_of(prepared):
        longest = foreseen.resources.walltime_s + profile.walltime_grace_s
        if longest + profile.controller.warn_s > limit:
            raise ProfileError(
                f"{foreseen.label or foreseen.calculation.name} may take {longest:g} s, and the controller's own job has"
                f" {limit} s, less the {profile.controller.warn_s} s before its end in which it stops",
                hint=f"give the profile {profile.name!r} a longer controller.walltime, such as that of its hosts and more",
            )


def _refused(profile: Profile, script: str, root: Path) -> str:
    """Return why Slurm would refuse the job, or one of those that it would submit in turn."""
    from grafico.cluster.slurm.commands import try_script
    from grafico.cluster.slurm.script import check_script, host_script

    check_script(script)
    refused = try_script(script)
    for pool in profile.pools if profile.elastic else ():
        if not refused:
            hosts = host_script(profile, pool.name, root / "cluster", "test")
            check_script(hosts)
            refused = try_script(hosts)
            refused = refused and f"{refused} (for a host of pool {pool.name})"
    return refused


def _script(profile: Profile, roots: Sequence[Path]) -> str:
    """Return the script that carries runs out: the one, or each in a job of an array.

    It resumes rather than runs: so it does the same the first time and whenever it is queued again.
    """
    from grafico.cluster.slurm.script import allocation_script, controller_script, python_of

    command = [python_of(profile), "-P", "-m", "grafico.cli.entry", "resume", RUN, "--keep-failures"]
    if profile.controller.requeue:
        command.append("--requeue")
    make = controller_script if profile.elastic else allocation_script
    paths = RunPaths(roots[0])
    if len(roots) == 1:
        text = make(profile, command, name=paths.name, log=paths.batch_log)
        return text.replace(RUN, shlex.quote(str(paths.root)))
    text = make(profile, command, name=paths.name, log=Path("/dev/null"))
    first, _, rest = text.partition("\n")
    header, _, body = rest.partition("\n\n")
    folders = "\n".join(f"  [{n}]={shlex.quote(str(root))}" for n, root in enumerate(roots, 1))
    choice = [
        "# Each job of the array carries out a run of its own, a shard of the sweep.",
        f"runs=(\n{folders}\n)",
        "run=${runs[$SLURM_ARRAY_TASK_ID]}",
        f'exec >>"$run/{paths.batch_log.name}" 2>&1',
    ]
    body = body.replace(RUN, '"$run"')
    return "\n".join([first, f"#SBATCH --array=1-{len(roots)}", header, "", *choice, "", body])
