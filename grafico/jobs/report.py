"""What there is to say about a run: as data for programs, and as lines for people."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from grafico.calculations import Json
from grafico.jobs.link import link_of
from grafico.jobs.queue import Standing, words
from grafico.jobs.settle import exit_code, read_tables
from grafico.runs import RunPaths, RunStatus, RunView
from grafico.runs.run import Manifest
from grafico.runs.story import spot
from grafico.runs.view import LaneView

__all__ = ["brief", "full", "outlook", "result_files", "state_of"]

SHOWN_FAILURES = 8

WORDS = {
    RunStatus.CREATED: "created, not started",
    RunStatus.RUNNING: "running",
    RunStatus.FINISHED: "finished",
    RunStatus.FINISHED_WITH_FAILED_LANES: "finished, with failed lanes",
    RunStatus.FAILED: "failed",
    RunStatus.INTERRUPTED: "interrupted",
}


def state_of(status: RunStatus) -> str:
    """Return a status in words."""
    return WORDS[status]


def brief(
    paths: RunPaths, manifest: Manifest, view: RunView | None = None, slurm: Standing | None = None
) -> dict[str, Json]:
    """Return the line of a run in a list; ``slurm`` is how the job stands as which it was submitted."""
    status = view.status if view else manifest.status
    return {
        "run": paths.name,
        "path": str(paths.root),
        "status": str(status),
        "exit_code": exit_code(status),
        "name": manifest.name,
        "graph": manifest.graph,
        "created": manifest.created,
        "started": manifest.started,
        "finished": manifest.finished,
        "counts": view.counts.flat() if view else dict(manifest.counts),
        "slurm": slurm.model_dump(mode="json") if slurm else None,
    }


def full(view: RunView, slurm: Standing | None = None) -> dict[str, Json]:
    """Return everything about a run that a program may want."""
    manifest = view.manifest
    failed = [lane for lane in view.lanes.values() if lane.state == "failure"]
    return {
        **brief(view.paths, manifest, view, slurm),
        "graph_version": manifest.graph_version,
        "grafico": manifest.grafico,
        "host": manifest.host,
        "controller": str(view.holder) if view.holder else None,
        "resumed": manifest.resumed,
        "versions": dict(manifest.versions),
        "nodes": list(view.nodes),
        "running": list(view.running),
        "dashboard": link_of(view) or None,
        "lanes": [
            {"path": lane.path, "member": lane.member, "target": lane.target, "state": lane.state, "node": lane.node}
            for lane in view.lanes.values()
        ],
        "failed_lanes": {lane.path: dict(lane.failure or {}) for lane in failed},
        "failure": dict(view.failure) if view.failure else None,
        "result": view.result,
        "tables": [table.model_dump(mode="json") for table in read_tables(view.paths)],
        "files": result_files(view.paths),
        "notes": list(manifest.notes),
        "problems": list(view.problems),
    }


def result_files(paths: RunPaths) -> list[str]:
    """Return the names of all files under ``results/``."""
    if not paths.results.is_dir():
        return []
    return sorted(str(path.relative_to(paths.results)) for path in paths.results.rglob("*") if path.is_file())


def outlook(
    view: RunView, *, seconds: float | None = None, shown: Path | None = None, slurm: Standing | None = None
) -> list[str]:
    """Return how a run stands, what failed and where to look next, line by line."""
    counts = view.counts
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    lines = [f"{view.name}: {state_of(view.status)}{took}"]
    if slurm is not None:
        lines.append(f"Slurm: {words(slurm, begun=view.status is not RunStatus.CREATED)}")
    lanes = {
        "waiting": counts.lanes_pending,
        "running" if view.status is RunStatus.RUNNING else "begun": counts.lanes_running,
        "done": counts.lanes_done,
        "failed": counts.lanes_failed,
        "left behind": counts.lanes_cancelled,
    }
    calculations = {
        "running": counts.calculations_running,
        "done": counts.calculations_done,
        "failed": counts.calculations_failed,
    }
    if counts.lanes:
        lines.append(f"lanes: {_counted(lanes)}")
    if any(calculations.values()):
        reused = f" ({counts.calculations_reused} of them reused)" if counts.calculations_reused else ""
        lines.append(f"calculations: {_counted(calculations)}{reused}")
    failed = [lane for lane in view.lanes.values() if lane.state == "failure"]
    for lane in failed[:SHOWN_FAILURES]:
        failure = lane.failure or {}
        lines.append(f"  failed: {lane.member}: {failure.get('kind')}: {failure.get('message')}{spot(failure)}")
    if len(failed) > SHOWN_FAILURES:
        lines.append(f"  … and {len(failed) - SHOWN_FAILURES} more failed lanes")
    if view.failure:
        where = f" at {view.failure['where']}" if view.failure.get("where") else ""
        lines.append(
            f"  the run failed{where}: {view.failure.get('kind')}: {view.failure.get('message')}{spot(view.failure)}"
        )
    lines += [f"  note: {problem}" for problem in view.problems]
    if link := link_of(view):
        lines.append(f"dashboard: {link}")
    files = _grouped(result_files(view.paths))
    folder = shown or view.paths.root
    if files:
        lines.append(f"results: {folder / 'results'}: {', '.join(files[:12])}{' …' if len(files) > 12 else ''}")
    if failed:
        # Of a lane that only opened others there is no output.
        told = next((lane for lane in failed if view.paths.lane_log(lane.path).is_file()), None)
        output = f"   output: grafico logs {view.name} {_called(view, told)}" if told else ""
        lines.append(f"why: grafico explain {view.name} {_called(view, failed[0])}{output}")
    lines += _next(view, slurm)
    return lines


def _called(view: RunView, lane: LaneView) -> str:
    """Return what `explain` and `logs` know a lane by: its members' keys, or its path where others have the same keys."""
    end = f"/{lane.member}"
    alike = sum(f"/{other.member}".endswith(end) for other in view.lanes.values())
    return lane.member if alike == 1 else lane.path


def _grouped(files: list[str]) -> list[str]:
    """Return names of files, and of each folder that holds many the number."""
    folders = Counter(name.partition("/")[0] for name in files if "/" in name)
    many = {folder for folder, count in folders.items() if count > 6}
    own = [name for name in files if name.partition("/")[0] not in many]
    return own + [f"{folder}/ ({folders[folder]} files)" for folder in sorted(many)]


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in numbers.items() if number)


def _next(view: RunView, slurm: Standing | None) -> list[str]:
    name = view.name
    lines = []
    if view.damage:
        lines.append(f"mend it: {view.damage}")
    elif view.status in {RunStatus.CREATED, RunStatus.INTERRUPTED} and slurm is not None and not slurm.over:
        lines.append(f"its output: {view.paths.batch_log}   stop it: grafico cancel {name}")
    elif view.status in {RunStatus.CREATED, RunStatus.INTERRUPTED}:
        lines.append(f"go on: grafico resume {name}")
    elif view.status in {RunStatus.FAILED, RunStatus.FINISHED_WITH_FAILED_LANES}:
        lines.append(f"try what failed again: grafico resume {name}")
    return lines
