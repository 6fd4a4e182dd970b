"""`grafico run`, `resume` and `cancel`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.output import BAD_INPUT, INTERRUPTED, JsonFlag, RunName, RunsFolder, last_words, out, print_json, say
from grafico.cli.tables import print_lines, print_tables

if TYPE_CHECKING:
    from grafico.jobs.settle import Ended

__all__ = ["cancel", "carry_out", "near", "resume", "run"]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", "-c", metavar="PROFILE", help="Cluster profile, instead of the job's.")
]
Requeue = Annotated[
    bool,
    typer.Option("--requeue", help="In a Slurm job: on SIGUSR1, stop in time, and put the job back into the queue."),
]


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file, YAML.")],
    *,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one value, as in input.level.basis=def2-SVP."),
    ] = None,
    cluster: Cluster = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run, instead of the job's.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and show the plan; create and submit nothing.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Of a sweep, only the I-th of N shards; `table` merges them."),
    ] = None,
    runs_dir: RunsFolder = Path("runs"),
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Make exactly this the run's folder.")
    ] = None,
    or_resume: Annotated[
        bool, typer.Option("--or-resume", help="With --folder: if the run is there already, finish what is open of it.")
    ] = False,
    requeue: Requeue = False,
    quiet: Quiet = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a job file; one with a matrix is a sweep, with a lane for each member and one table.

    Ctrl-C once: nothing more starts, what runs may finish. Twice: what runs is killed. `grafico resume` goes on.
    """
    if requeue:
        _listen()
    from grafico.jobs.launch import create_run, prepare, start

    _check_folder(folder, or_resume=or_resume, runs_dir=runs_dir)
    if folder is not None and or_resume and not dry_run and (folder / "manifest.json").is_file():
        _go_on(folder, job, cluster, requeue=requeue, quiet=quiet, as_json=as_json)
        return
    part = None
    if shard is not None:
        from grafico.jobs.sweeps import Shard

        part = Shard.parse(shard)
    tell = None if quiet else say
    prepared = prepare(job, overrides or (), name=name, cluster=cluster, shard=part, say=tell)
    if dry_run:
        _dry_run(prepared, as_json=as_json)
        return
    from grafico.cluster.here import check_here
    from grafico.jobs.plan import admit

    check_here(prepared.profile)
    for note in admit(prepared):
        say(f"note: {note}")
    made = create_run(prepared, runs_dir, folder)
    if not quiet:
        say(f"run {made.name} in {near(made.paths.root)}")
    carry_out(lambda watcher: start(prepared, made, watcher), made.name, requeue=requeue, quiet=quiet, as_json=as_json)


def resume(
    run_name: RunName,
    *,
    lane: Annotated[
        list[str] | None,
        typer.Option(
            "--lane", metavar="LANE", help="Try only this failed lane again (see `explain`); may be repeated."
        ),
    ] = None,
    from_node: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Go on from this node; what followed is walked again.")
    ] = None,
    keep_failures: Annotated[
        bool, typer.Option("--keep-failures", help="Leave failures as they are; finish what is open.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the run from a controller that is gone or stuck.")
    ] = False,
    cluster: Cluster = None,
    requeue: Requeue = False,
    runs_dir: RunsFolder = Path("runs"),
    quiet: Quiet = False,
    as_json: JsonFlag = False,
) -> None:
    """Go on with a run: what was committed is reused, what failed is tried again."""
    if requeue:
        _listen()
    from grafico.jobs.find import find
    from grafico.jobs.resume import resume as go_on

    path = find(run_name, runs_dir)

    def work(watcher: Any) -> "Ended":
        return go_on(
            path,
            watcher,
            lanes=lane or (),
            from_node=from_node,
            keep_failures=keep_failures,
            take_over=take_over,
            cluster=cluster,
        )

    carry_out(work, path.name, requeue=requeue, quiet=quiet, as_json=as_json)


def cancel(
    run_name: RunName,
    runs_dir: RunsFolder = Path("runs"),
    wait_s: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for it to stop.")] = 15.0,
    as_json: JsonFlag = False,
) -> None:
    """Stop a run that another process carries out; `grafico resume` can go on with it."""
    from grafico.jobs.cancel import cancel as stop
    from grafico.jobs.find import find

    stopped = stop(find(run_name, runs_dir), wait_s)
    if as_json:
        print_json(stopped)
    else:
        out().print(stopped["message"])


def _dry_run(prepared: Any, *, as_json: bool) -> None:
    from grafico.cli.plans import print_plan
    from grafico.jobs.plan import make_plan

    plan = make_plan(prepared)
    if as_json:
        print_json(plan.model_dump(mode="json"))
    else:
        print_plan(plan)
    if plan.refused is not None:
        say(f"grafico: {plan.refused}")
        raise typer.Exit(BAD_INPUT)


def _listen() -> None:
    from grafico.jobs.requeue import listen_early

    listen_early()


def _check_folder(folder: Path | None, *, or_resume: bool, runs_dir: Path) -> None:
    from grafico.errors import BadInput

    if or_resume and folder is None:
        raise BadInput("--or-resume needs to know which run", hint="add --folder with the run's folder")
    if folder is not None and runs_dir != Path("runs") and folder.absolute().parent != runs_dir.absolute():
        raise BadInput(f"--folder {folder} is not in --runs-dir {runs_dir}", hint="leave one of them out")


def _go_on(folder: Path, job: Path, cluster: str | None, *, requeue: bool, quiet: bool, as_json: bool) -> None:
    """Finish what is open of a run that an earlier call of the same command began; its failures stand."""
    from grafico.jobs.resume import resume as go_on
    from grafico.runs import Run

    if job.is_file() and job.read_bytes() != Run.open(folder).job_source:
        say(f"note: {job} has changed since; the run goes on with the job that it began with")

    def work(watcher: Any) -> "Ended":
        return go_on(folder, watcher, keep_failures=True, cluster=cluster)

    carry_out(work, folder.name, requeue=requeue, quiet=quiet, as_json=as_json)


def carry_out(work: Any, title: str, *, requeue: bool, quiet: bool, as_json: bool) -> None:
    """Carry out a run before people's eyes, say how it ended, and end with its exit code."""
    from grafico.cli.progress import watching

    with watching(title, quiet=quiet) as watcher:
        ended: Ended = work(watcher)
    from grafico.jobs.report import full, outlook
    from grafico.runs import read_run

    view = read_run(ended.run.paths.root)
    with last_words():
        if as_json:
            print_json({**full(view), "nothing_to_do": ended.nothing_to_do})
        else:
            console = out()
            print_tables(ended.tables, console)
            if ended.nothing_to_do:
                console.print("nothing to do: all of it was done before")
            seconds = None if ended.nothing_to_do else ended.seconds
            print_lines(console, outlook(view, seconds=seconds, shown=near(ended.run.paths.root)))
    if ended.out_of_time and requeue:
        _requeue()
    if ended.killed:
        # A thread that nobody waits for any more would keep the interpreter.
        import os

        sys.stdout.flush()
        os._exit(INTERRUPTED)
    raise typer.Exit(ended.exit_code)


def _requeue() -> None:
    """Put our Slurm job back into the queue: the last thing, since Slurm ends this process then."""
    from grafico.jobs.requeue import own_job

    job = own_job()
    if job is None:
        say("grafico: this is no Slurm job, so nothing can be put back into a queue")
        return
    sys.stdout.flush()
    say(f"back into the queue: Slurm job {job.number}, which goes on with the run")
    if problem := job.requeue():
        say(f"grafico: Slurm job {job.number} could not be put back into the queue: {problem}\n  → submit it again")


def near(path: Path) -> Path:
    """Return a path as it is seen from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
