"""Going on with a run: what is done again, what is reused, and what became of the calculations left behind."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.cluster import Profile
from grafico.cluster.private import still_there
from grafico.errors import BadInput, ReplayMismatch, RunError
from grafico.jobs.catalog import load_graph
from grafico.jobs.document import Document
from grafico.jobs.files import resolve_files
from grafico.jobs.launch import Session, carry_out, find_profile
from grafico.jobs.provenance import Knowledge
from grafico.jobs.request import validate_request
from grafico.jobs.schema import Job
from grafico.jobs.settle import Ended, read_tables, settled
from grafico.jobs.sweeps import Roster, has_roster, lane_named, sweep_graph
from grafico.jobs.watching import Watcher
from grafico.runs import OutcomeStore, Run, RunRecorder, end_orphans, plan_resume
from grafico.runs.owned import refuse_others

__all__ = ["resume"]

PATIENCE_S = 5.0
"""Seconds that calculations of a controller that was killed have to end by themselves; they notice within one."""


def resume(
    path: Path,
    watcher: Watcher,
    *,
    lanes: Sequence[str] = (),
    from_node: str | None = None,
    keep_failures: bool = False,
    take_over: bool = False,
    cluster: str | None = None,
) -> Ended:
    """Go on with a run.

    Parameters
    ----------
    path
        Its folder.
    lanes
        Try only these failed lanes again; of a sweep, members.
    from_node
        Walk again from this node on.
    keep_failures
        Leave failures as they are.
    take_over
        Take the run from a controller that is gone or stuck.
    cluster
        Profile to use instead of the run's.

    Raises
    ------
    BadInput
        The frozen job cannot be used by this version, or options exclude each other.
    RunError
        The folder is another user's, or others can write to it.
    GraficoError
        As :func:`grafico.jobs.launch.carry_out`.
    """
    if keep_failures and (lanes or from_node is not None):
        raise BadInput("--keep-failures excludes --lane and --from", hint="leave one of them out")
    run = Run.open(path)
    refuse_others(run.paths.root, "a run is not resumed from there")  # it says which code is its graph
    job, graph, request, profile = _thaw(run, cluster)
    lane = [lane_named(run, name) for name in lanes] or None
    stale = _stale(run)
    for line in _report(stale, job):
        watcher.say(line)
    again = frozenset(stale) if job.on_version_change == "recompute" else frozenset()
    plan = plan_resume(run, lane=lane, from_node=from_node, keep_failures=keep_failures, stale=again)
    if plan.nothing_to_do and settled(run):
        return Ended(run=run, tables=read_tables(run.paths), nothing_to_do=True)

    async def before(recorder: RunRecorder, watcher: Watcher) -> None:
        # What a standing cluster still computes for the run is found again there; elsewhere, nobody would.
        spared = await asyncio.to_thread(still_there, run.paths.root, profile)
        for started in await end_orphans(run.paths, patience=PATIENCE_S, spared=spared):
            watcher.say(f"ended {started.label or started.key[:12]}, which an earlier controller had left running")
        # Planned anew: now nobody else can add to the journal.
        plan = recorder.plan(lane=lane, from_node=from_node, keep_failures=keep_failures, stale=again)
        for line in plan.describe():
            watcher.say(line)
        if plan.nothing_to_do:
            watcher.say("its results are not all there: they are written again")
        await recorder.invalidate(plan)
        for key in sorted(again):
            used = ", ".join(f"{name} {was} (installed is {now})" for name, (was, now) in sorted(stale[key].items()))
            await recorder.retire(key, f"it was computed with {used}")

    return carry_out(
        Session(run, job, graph, request, profile, Knowledge.of(run, job), before=before, take_over=take_over), watcher
    )


def _thaw(run: Run, cluster: str | None) -> tuple[Job, Any, Any, Profile]:
    """Return job, graph, request and profile as they were frozen when the run was made."""
    frozen = run.job
    try:
        job = Job.model_validate(frozen["job"])
        source = Path(frozen["source"])
    except (KeyError, TypeError, ValidationError) as error:
        raise RunError(f"{run.paths.job_json} is not the job of a run: {error}") from error
    graph = load_graph(job.graph, beside=source.parent)
    if has_roster(run):
        graph = sweep_graph(graph, job)
    if graph.version != run.manifest.graph_version:
        raise ReplayMismatch(
            f"the run was made with version {run.manifest.graph_version} of the graph {graph.id}; "
            f"this grafico has version {graph.version}",
            hint="resume it with the grafico that made it, or start a new run from its job.yaml",
        )
    request: Any
    if has_roster(run):
        request = Roster(run)
    else:
        document = Document(where=str(run.paths.job_json), data=frozen["job"])
        request = resolve_files(validate_request(job, graph, document), run.paths.root)
    if cluster is not None:
        return job, graph, request, find_profile(cluster)
    return job, graph, request, Profile.model_validate(frozen["profile"])


def _stale(run: Run) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the committed outcomes of other versions than are installed now.

    Returns
    -------
    For each content key, by name of the engine or library: the version that was used, and the one installed.
    """
    store = OutcomeStore(run.paths)
    installed: dict[str, str | None] = {}
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for key in store.keys():  # noqa: SIM118 - a store is no dict
        provenance = store.provenance(key)
        for name, used in (provenance.versions if provenance else {}).items():
            if name not in installed:
                installed[name] = _installed(name)
            now = installed[name]
            if now is not None and _plain(now) != _plain(used):
                found.setdefault(key, {})[name] = (used, now)
    return found


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return None


def _plain(version: str) -> str:
    """Return a version without leading zeros: RDKit calls itself 2026.09.1, and its package is 2026.9.1."""
    return re.sub(r"(?<![\w])0+(?=\d)", "", version)


def _report(stale: Mapping[str, Mapping[str, tuple[str, str]]], job: Job) -> list[str]:
    """Return a line for each engine whose version differs, and what is done about it."""
    counts: Counter[tuple[str, str, str]] = Counter(
        (name, used, now) for versions in stale.values() for name, (used, now) in versions.items()
    )
    what = "recomputed" if job.on_version_change == "recompute" else "reused (on_version_change: reuse)"
    return [
        f"note: {count} outcomes used {name} {used}; installed is {now}: they are {what}"
        for (name, used, now), count in sorted(counts.items())
    ]
