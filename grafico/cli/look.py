"""`grafico list`, `show`, `watch` and `logs`: reading runs, without a lock, while they go or after."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.output import JsonFlag, RunName, RunsFolder, out, print_json
from grafico.cli.tables import print_lines, print_tables, show_table

if TYPE_CHECKING:
    from grafico.runs import RunView

__all__ = ["Lane", "lane_path", "list_runs", "logs", "show", "watch"]

Lane = Annotated[
    str | None, typer.Argument(metavar="[LANE]", help="A lane: its path, the end of it, or a member's key.")
]
LOOK_S = 0.5
SHOWN_BELOW = 8
"""Lanes that are named at most."""
QUEUE_LOOK_S = 10.0
"""Seconds between looks into Slurm's queue, which costs its controller something."""


def list_runs(runs_dir: RunsFolder = Path("runs"), as_json: JsonFlag = False) -> None:
    """List runs, oldest first."""
    from grafico.errors import GraficoError
    from grafico.jobs.queue import Standing, standings, words
    from grafico.jobs.report import brief, state_of
    from grafico.runs import RunPaths, RunStatus, find_runs, read_run
    from grafico.runs.run import read_manifest

    rows: list[dict[str, Any]] = []
    found = find_runs(runs_dir)
    slurm = standings(found)
    for path in found:
        paths = RunPaths(path)
        try:
            manifest = read_manifest(paths)
            # A manifest tells all of a run that was closed; only the journal knows how another one stands.
            is_open = paths.controller.exists() or manifest.status is RunStatus.RUNNING
            rows.append(brief(paths, manifest, read_run(path) if is_open else None, slurm.get(path)))
        except GraficoError as error:
            rows.append({"run": path.name, "path": str(path), "status": "unreadable", "error": error.message})
    if as_json:
        print_json(rows)
        return
    if not rows:
        out().print(f"there are no runs in {runs_dir}/; `grafico run JOB` makes one")
        return
    cells = []
    for row in rows:
        counts = row.get("counts") or {}
        lanes = f"{counts.get('lanes_done', 0)}/{counts['lanes']}" if counts.get("lanes") else ""
        failed = f"{counts['lanes_failed']} failed" if counts.get("lanes_failed") else ""
        status = row["status"]
        said = state_of(RunStatus(status)) if status in set(RunStatus) else f"{status}: {row.get('error', '')}"
        if row.get("slurm"):
            said += f"; {words(Standing(**row['slurm']), begun=status != RunStatus.CREATED)}"
        created = str(row.get("created", ""))[:19].replace("T", " ")
        cells.append((row["run"], said, f"{lanes} {failed}".strip(), row.get("graph", ""), created))
    console = out()
    columns = ("run", "status", "lanes", "graph", "created, UTC")
    show_table(console, "", columns, cells, expendable=("created, UTC", "graph"))


def show(
    run_name: RunName,
    *,
    cost: Annotated[
        bool, typer.Option("--cost", help="What asking language models took: by purpose, model and lane.")
    ] = False,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Show how a run stands: its results, what failed, and where to look."""
    from grafico.jobs.find import find
    from grafico.jobs.queue import standings
    from grafico.jobs.report import full, outlook
    from grafico.jobs.settle import read_tables
    from grafico.runs import read_run

    path = find(run_name, runs_dir)
    view = read_run(path)
    if cost:
        _show_cost(view, as_json=as_json)
        return
    slurm = standings([path]).get(path)
    if as_json:
        print_json(full(view, slurm))
        return
    console = out()
    print_tables(read_tables(view.paths), console)
    manifest = view.manifest
    lines = outlook(view, shown=path, slurm=slurm)
    lines.append(f"graph: {manifest.graph} {manifest.graph_version}, path: {' → '.join(view.nodes) or 'not begun'}")
    if view.holder:
        lines.append(f"controller: {view.holder}")
    if manifest.versions:
        lines.append("versions: " + ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))
    print_lines(console, lines)


def _show_cost(view: "RunView", *, as_json: bool) -> None:
    from grafico.cli.costs import print_cost
    from grafico.jobs.routers import cost_of

    found = cost_of(view.paths)
    if as_json:
        print_json(found or {})
    elif found is None:
        out().print(f"no language model was asked in {view.name}: rules and code chose its routes")
    else:
        print_cost(found, out())


def watch(run_name: RunName, runs_dir: RunsFolder = Path("runs"), as_json: JsonFlag = False) -> None:
    """Watch a run that another process carries out, until it ends; the exit code is the run's.

    One that Slurm has in its queue is waited for.
    """
    from grafico.jobs.find import find
    from grafico.jobs.report import full, outlook
    from grafico.jobs.settle import exit_code
    from grafico.runs import RunStatus
    from grafico.runs.view import RunWatcher

    path = find(run_name, runs_dir)
    watcher = RunWatcher(path)
    view = watcher.poll()
    said = ""
    while True:
        while view.status is RunStatus.RUNNING:
            if not as_json:
                _watch(watcher, view)
            time.sleep(LOOK_S)
            view = watcher.poll()
        waits = _in_queue(view)
        if not waits:
            break
        if waits != said and not as_json:
            out(stderr=True).print(waits)
        said = waits
        deadline = time.monotonic() + QUEUE_LOOK_S
        while time.monotonic() < deadline:
            time.sleep(LOOK_S)
            view = watcher.poll()
            if view.status is RunStatus.RUNNING:
                break
    if as_json:
        print_json(full(view))
    else:
        print_lines(out(), outlook(view, shown=path))
    raise typer.Exit(exit_code(view.status))


def _in_queue(view: "RunView") -> str:
    """Return in words that Slurm will begin with a run, or go on with it; empty where it will not, or nobody knows."""
    from grafico.jobs.queue import standings, words
    from grafico.runs import RunStatus

    if view.status not in {RunStatus.CREATED, RunStatus.INTERRUPTED}:
        return ""
    slurm = standings([view.paths.root]).get(view.paths.root)
    if slurm is None or slurm.over or slurm.problem:
        return ""
    return words(slurm, begun=view.status is not RunStatus.CREATED)


def _watch(watcher: Any, view: "RunView") -> None:
    from grafico.jobs.link import link_of
    from grafico.runs import RunStatus

    console = out(stderr=True)
    if console.is_terminal and (link := link_of(view)):
        print_lines(console, [f"dashboard: {link}"])
    if not console.is_terminal:
        said = ""
        while view.status is RunStatus.RUNNING:
            if (line := _line(view)) != said:
                console.print(line)
                said = line
            time.sleep(LOOK_S)
            view = watcher.poll()
        return
    from rich.live import Live

    with Live(_panel(view), console=console, auto_refresh=False, transient=True) as live:
        while view.status is RunStatus.RUNNING:
            live.update(_panel(view), refresh=True)
            time.sleep(LOOK_S)
            view = watcher.poll()


def _line(view: "RunView") -> str:
    counts = view.counts
    at = view.nodes[-1] if view.nodes else "starting"
    return (
        f"{at}: lanes {counts.lanes_done} done, {counts.lanes_running} running, {counts.lanes_pending} waiting, "
        f"{counts.lanes_failed} failed; calculations {counts.calculations_done} done, "
        f"{counts.calculations_running} running or waiting for a slot"
    )


def _panel(view: "RunView") -> Any:
    from rich.panel import Panel
    from rich.text import Text

    running = "".join(f"\n  {label}" for label in view.running[:12])
    return Panel(Text(_line(view) + running), title=Text(view.name), title_align="left", expand=False)


def logs(
    run_name: RunName,
    lane: Lane = None,
    *,
    runs_dir: RunsFolder = Path("runs"),
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing as the log grows.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print what the calculations of a lane printed; without a lane, which lanes have a log."""
    from grafico.errors import BadInput
    from grafico.jobs.find import find
    from grafico.runs import read_run

    view = read_run(find(run_name, runs_dir))
    if lane is None:
        if follow or tail is not None:
            raise BadInput(
                "--follow and --tail need a lane", hint=f"`grafico logs {view.name}` lists those that have a log"
            )
        _list_logs(view, as_json=as_json)
        return
    place = lane_path(view, lane)
    path = view.paths.lane_log(place)
    if not path.is_file():
        if below := [found.member for found in view.lanes.values() if _has_log_below(view, place, found.path)]:
            others = f" and {len(below) - SHOWN_BELOW} more" if len(below) > SHOWN_BELOW else ""
            raise BadInput(
                f"the calculations of lane {lane} have their logs in the lanes below it: {', '.join(below[:SHOWN_BELOW])}{others}",
                hint=f"grafico logs {view.name} {below[0]}",
            )
        raise BadInput(
            f"lane {lane} has no log: none of its calculations has started, or others had computed all that it needs",
            hint=f"grafico explain {view.name} {lane}",
        )
    text = path.read_text(encoding="utf-8", errors="replace")
    if tail is not None:
        text = "".join(text.splitlines(keepends=True)[-tail:]) if tail else ""
    if as_json:
        print_json({"lane": lane, "path": str(path), "log": text})
        return
    typer.echo(text, nl=not text.endswith("\n") and not follow)
    size = path.stat().st_size
    while follow:
        time.sleep(LOOK_S)
        with path.open("rb") as file:
            file.seek(size)
            more = file.read()
        size += len(more)
        if more:
            typer.echo(more.decode("utf-8", errors="replace"), nl=False)
        elif not view.paths.controller.exists():
            return


def lane_path(view: "RunView", lane: str | None) -> str:
    """Return the path of the lane that a person means; of a sweep, a member's name means its lane."""
    from grafico.jobs.sweeps import lane_named
    from grafico.runs import Run

    if lane in {None, "", "root"}:
        return ""
    return view.lane(lane_named(Run.open(view.paths.root), str(lane))).path


def _has_log_below(view: "RunView", above: str, path: str) -> bool:
    return (not above or path.startswith(f"{above}/")) and view.paths.lane_log(path).is_file()


def _list_logs(view: "RunView", *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for member, path in [("root", ""), *((lane.member, lane.path) for lane in view.lanes.values())]:
        log = view.paths.lane_log(path)
        if log.is_file():
            rows.append({"lane": member, "path": str(log), "bytes": log.stat().st_size})
    if as_json:
        print_json(rows)
    elif rows:
        show_table(out(), "", ("lane", "bytes", "log"), [(row["lane"], row["bytes"], row["path"]) for row in rows])
    else:
        out().print("no calculation has started yet")
