"""From a job to a run that ends: wires graph, journal, cluster, router and knowledge base together."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from grafico.calculations import Json, Outcome
from grafico.cluster import Profile, load_profile, open_cluster
from grafico.cluster.connection import find_connection
from grafico.errors import JobError, KnowledgeError, RunError
from grafico.graphs import Position, Record, Router, run_graph
from grafico.jobs.catalog import blame
from grafico.jobs.files import copy_files, freeze_files, resolve_files
from grafico.jobs.forecast import gpus_of
from grafico.jobs.link import published
from grafico.jobs.load import LoadedJob, load_job
from grafico.jobs.provenance import Knowledge, store_of
from grafico.jobs.routers import close_router, cost_of, router_notes, router_of
from grafico.jobs.schema import Job
from grafico.jobs.settle import Ended, write_results
from grafico.jobs.status import Standing, run_status
from grafico.jobs.stopping import Intake, Stopper
from grafico.jobs.sweeps import Roster, Shard, sweep_graph, write_roster
from grafico.jobs.tables import Table, plain_text
from grafico.jobs.watching import Watcher, tell_oddities
from grafico.runs import Run, RunPaths, RunRecorder, RunStatus, read_run

__all__ = ["Prepared", "Session", "carry_out", "create_run", "find_profile", "prepare", "start"]

CONNECT = "connect:"
AWAITED_S = 5.0
"""How often it is looked whether the cluster has to wait for workers."""
SETTLE_S = 0.2
"""Seconds that the engine has to journal what came back last."""


@dataclass(frozen=True)
class Prepared:
    """A job that may run, and where."""

    loaded: LoadedJob
    profile: Profile


def prepare(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    name: str | None = None,
    cluster: str | None = None,
    shard: Shard | None = None,
    say: Callable[[str], None] | None = None,
) -> Prepared:
    """Read and check a job and its cluster profile; creates nothing.

    Parameters
    ----------
    path, overrides, name, cluster
        The job file, and what the command line says otherwise.
    shard
        The part of a sweep that is wanted; default all of it.
    say
        Told how far the checks of a sweep's members have come.

    Raises
    ------
    BadInput
        The job, its files, its input or its profile cannot be used.
    """
    loaded = load_job(path, overrides, shard=shard, say=say, name=name, cluster=cluster)
    beside = None if cluster is not None else path.resolve().parent
    return Prepared(loaded, find_profile(loaded.job.cluster, beside))


def find_profile(name: str, beside: Path | None = None) -> Profile:
    """Return a cluster profile by name or path; a path in a job file is taken from the job file, then from here.

    ``connect:NAME`` means the cluster of that name, or in that folder, that is up.
    """
    if name.startswith(CONNECT) and "\0" not in name:
        where = name.removeprefix(CONNECT)
        find_connection(where)
        return Profile(kind="connect", name=name[:80], connect=where)
    if beside is not None and "\0" not in name and name.endswith((".yaml", ".yml")) and (beside / name).is_file():
        return load_profile(str(beside / name))
    return load_profile(name)


def create_run(prepared: Prepared, base: Path, folder: Path | None = None) -> Run:
    """Create the run's folder: frozen job, and copies of the files that it names.

    Parameters
    ----------
    prepared
        The job.
    base
        Folder of runs, in which it gets a name of its own.
    folder
        Exactly this folder instead.

    Raises
    ------
    RunError
        The folder cannot be written.
    """
    root = str((base if folder is None else folder).absolute())
    if plain_text(root) != root:
        raise RunError(
            f"{plain_text(root)}: the path of a run must be UTF-8 text", hint="name another folder with --runs-dir"
        )
    loaded, sweep = prepared.loaded, prepared.loaded.sweep
    job: dict[str, Json] = loaded.job.model_dump(mode="json")
    originals: dict[str, Path] = {}
    if sweep is None:
        request, originals = freeze_files(loaded.request, "inputs")
        job["input"] = request.model_dump(mode="json")
    frozen: dict[str, Json] = {
        "job": job,
        "source": str(loaded.path.resolve()),
        "overrides": list(loaded.overrides),
        # What was not given stays out, so that it reads back by the same rules.
        "profile": {"name": prepared.profile.name, **prepared.profile.model_dump(mode="json", exclude_unset=True)},
    }
    graph, name = loaded.graph, loaded.job.name
    if sweep is not None:
        graph = sweep_graph(graph, loaded.job)
        name = f"{name}-{sweep.shard.index}of{sweep.shard.count}" if sweep.shard else name

    def fill(paths: RunPaths) -> None:
        """Put in what the job names, while the run has no name that anybody could find."""
        if sweep is not None:
            frozen["sweep"], files = write_roster(sweep, paths)
            originals.update(files)
        try:
            copy_files(originals, paths.root)
        except OSError as error:
            raise JobError(f"a file that the job names cannot be copied into the run: {error}") from error

    return Run.create(
        base,
        name,
        job_source=loaded.source,
        job=frozen,
        graph=graph.id,
        graph_version=graph.version,
        folder=folder,
        fill=fill,
    )


@dataclass(frozen=True)
class Session:
    """All that one controller needs to carry out a run."""

    run: Run
    job: Job
    graph: Any
    request: Any
    profile: Profile
    knowledge: Knowledge | None = None
    before: Callable[[RunRecorder, Watcher], Awaitable[None]] | None = None
    """What a resume does with the journal before the walk."""
    take_over: bool = False


def start(prepared: Prepared, run: Run, watcher: Watcher) -> Ended:
    """Carry out a run that :func:`create_run` made."""
    loaded = prepared.loaded
    graph, request = loaded.graph, None
    if loaded.sweep is not None:
        graph, request = sweep_graph(graph, loaded.job), Roster(run)
    else:
        request = resolve_files(graph.request_type.model_validate(run.job["job"]["input"]), run.paths.root)
    knowledge = Knowledge.of(run, loaded.job)
    return carry_out(Session(run, loaded.job, graph, request, prepared.profile, knowledge), watcher)


@dataclass
class _Stage:
    """What a controller has so far, for whoever stops it."""

    router: Router
    cluster: Any = None
    intake: Intake | None = None
    outcome: Outcome[Any] | None = None


def carry_out(session: Session, watcher: Watcher) -> Ended:
    """Run a run to its end, or until it is stopped.

    Raises
    ------
    GraficoError
        A fault of the machinery: the journal does not match the code, the run folder cannot be written, or another
        controller has the run.
    """
    runner = asyncio.Runner()
    killed = False
    try:
        ended = runner.run(_carry_out(session, watcher))
        killed = ended.killed
        return ended
    finally:
        # Closing waits for threads, which someone who asked twice to stop does not.
        if not killed:
            runner.close()


async def _carry_out(session: Session, watcher: Watcher) -> Ended:
    run = session.run
    started = time.monotonic()
    with _log_to(run):
        async with (
            Stopper(run.paths.root, watcher.say) as stopper,
            RunRecorder(run, make_record=Record, take_over=session.take_over) as recorder,
        ):
            tables = await _session(session, recorder, watcher, stopper)
    return Ended(
        run=run,
        tables=tables,
        killed=stopper.killing.is_set(),
        out_of_time=stopper.out_of_time and run.manifest.status is RunStatus.INTERRUPTED,
        seconds=time.monotonic() - started,
    )


async def _session(session: Session, recorder: RunRecorder, watcher: Watcher, stopper: Stopper) -> tuple[Table, ...]:
    run = session.run
    for problem in recorder.problems:
        watcher.say(f"note: {problem}")
    if session.knowledge is not None:
        session.knowledge.guard(recorder.check_fence)
    if session.before is not None:
        await session.before(recorder, watcher)
    outcome = await _until_stopped(session, recorder, watcher, stopper)
    if outcome is None:
        await recorder.note("stopped", Position("", 0, 0), {"reason": stopper.why})
        return ()
    recorder.check_fence()
    tables = write_results(run, outcome)
    await recorder.flush()
    await _tell(session.knowledge, run, watcher)
    return tables


async def _until_stopped(
    session: Session, recorder: RunRecorder, watcher: Watcher, stopper: Stopper
) -> Outcome[Any] | None:
    """Walk; return the outcome, or ``None`` when the walk was stopped before its end."""
    stage = _Stage(router_of(session.job, session.run))
    work = asyncio.create_task(_walk(session, recorder, watcher, stage))
    steward = asyncio.create_task(_stop(stopper, stage, work, watcher))
    try:
        await work
    except asyncio.CancelledError:
        if not stopper.draining.is_set():
            raise
    finally:
        steward.cancel()
        await _finish_routing(session.run, stage.router, watcher)
    return stage.outcome


async def _finish_routing(run: Run, router: Router, watcher: Watcher) -> None:
    for note in router_notes(router):
        watcher.say(f"note: {note}")
    if (cost := cost_of(run.paths)) is not None:
        run.update(models=cost["total"])
    await close_router(router)


async def _walk(session: Session, recorder: RunRecorder, watcher: Watcher, stage: _Stage) -> None:
    graph = session.graph
    with blame(session.job.graph, "the beginning"):
        state = graph.begin(session.request)
    async with open_cluster(session.profile, session.run.paths.root, say=watcher.say) as cluster:
        stage.cluster, stage.intake = cluster, Intake(cluster)
        standing = Standing(session.run.paths.name, graph)
        cluster.report = lambda: run_status(standing, cluster.snapshot(), cluster.waiting)
        watcher.opened(cluster)
        looking = [asyncio.create_task(each) for each in (watcher.look(), _note_awaited(cluster, recorder))]
        try:
            with published(session.run.paths, cluster.dashboard_link), store_of(session.job):
                stage.outcome = await run_graph(
                    graph,
                    state,
                    compute=stage.intake,
                    router=stage.router,
                    recorder=recorder,
                    events=(watcher.event, standing.take, partial(tell_oddities, watcher)),
                    persist=session.knowledge,
                    seed=session.job.seed,
                    gpus=gpus_of(session.profile),
                    crowded=cluster.crowded,
                )
        finally:
            for each in looking:
                each.cancel()


async def _note_awaited(cluster: Any, recorder: RunRecorder) -> None:
    """Let the journal have what the cluster waits for, so that `explain` can say it, until cancelled."""
    noted = ""
    with suppress(RunError):  # a journal that cannot be written ends the walk, which tells of it
        while True:
            if cluster.awaited != noted:
                noted = cluster.awaited
                await recorder.note("awaits", Position("", 0, 0), {"what": noted})
            await asyncio.sleep(AWAITED_S)


async def _stop(stopper: Stopper, stage: _Stage, work: "asyncio.Task[None]", watcher: Watcher) -> None:
    """Stop the walk when that is asked for: in order, or at once."""
    await stopper.draining.wait()
    if stage.outcome is not None:
        return
    cluster, intake = stage.cluster, stage.intake
    if cluster is not None and intake is not None:
        intake.shut = True
        running = _running(cluster)
        what = f"{len(running)} calculations may finish; again: kill" if running else "nothing runs"
        watcher.say(f"stopping ({stopper.why}): nothing more starts, {what}")
        drained = asyncio.create_task(cluster.drain())
        killing = asyncio.create_task(stopper.killing.wait())
        await asyncio.wait({drained, killing}, return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        killing.cancel()
        if stopper.killing.is_set():
            # Cancelling the walk ends the processes of its calculations.
            watcher.say(f"killing {len(_running(cluster))} calculations")
        else:
            await asyncio.sleep(SETTLE_S)
    if stage.outcome is None:
        work.cancel()


async def _tell(knowledge: Knowledge | None, run: Run, watcher: Watcher) -> None:
    """Tell the knowledge base where the results came from; a run does not fail because that fails."""
    if knowledge is None:
        return
    problems: Sequence[str]
    try:
        await knowledge.finish(await asyncio.to_thread(read_run, run.paths.root))
        problems = knowledge.problems
    except KnowledgeError as error:
        problems = [error.message]
    for problem in problems:
        watcher.say(f"note: {problem}; `grafico kb rebuild` catches up")


def _running(cluster: Any) -> list[str]:
    return [label for worker in cluster.snapshot() for label in worker.labels]


@contextmanager
def _log_to(run: Run) -> Iterator[None]:
    """Let what the controller logs go into the run's folder, and not between the lines of a face."""
    handler = logging.FileHandler(run.paths.root / "controller.log", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
