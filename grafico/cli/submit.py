"""`grafico submit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grafico.cli.output import BAD_INPUT, JsonFlag, RunsFolder, out, print_json, say

if TYPE_CHECKING:
    from grafico.jobs.submit import Draft

__all__ = ["submit"]


def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file, YAML.")],
    *,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one value, as in input.level.basis=def2-SVP."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", "-c", metavar="PROFILE", help="Profile of kind slurm, instead of the job's."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run, instead of the job's.")] = None,
    array: Annotated[
        int | None,
        typer.Option("--array", metavar="N", min=1, help="Split a sweep among N jobs of an array, each with a run."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and print the script; create and submit nothing.")
    ] = False,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Submit a job file to Slurm: a job there carries the run out, and queues itself again when its time is over."""
    from grafico.jobs.submit import draft
    from grafico.jobs.submit import submit as send

    tell = None if as_json else say
    drafted = draft(job, overrides or (), base=runs_dir, name=name, cluster=cluster, array=array, say=tell)
    if dry_run:
        _show(drafted, as_json=as_json)
        return
    sent = send(drafted, runs_dir)
    if as_json:
        print_json(sent.to_json())
        return
    console = out()
    first = sent.runs[0]
    many = len(sent.runs) > 1
    console.print(f"{'runs' if many else 'run'} {', '.join(run.name for run in sent.runs)}")
    console.print(f"submitted as Slurm job {sent.job}{f', an array of {len(sent.runs)}' if many else ''}")
    console.print(f"how it stands: grafico {'list' if many else f'show {first.name}'}   squeue -j {sent.job}")
    console.print(f"watch it: grafico watch {first.name}   its output: {first.paths.batch_log}")
    console.print(f"stop it: grafico cancel {first.name}")


def _show(drafted: "Draft", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "script": drafted.script,
                "profile": drafted.profile.name,
                "jobs": len(drafted.parts),
                "refused": drafted.refused,
            }
        )
    else:
        typer.echo(drafted.script, nl=False)
        if drafted.refused:
            say(f"grafico: Slurm would refuse it: {drafted.refused}")
    if drafted.refused:
        raise typer.Exit(BAD_INPUT)
