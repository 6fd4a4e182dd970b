"""`grafico explain`: the whole story of a lane."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.look import Lane, lane_path
from grafico.cli.output import JsonFlag, RunName, RunsFolder, out, print_json
from grafico.cli.tables import print_lines

if TYPE_CHECKING:
    from grafico.runs.explain import AttemptTold, Explanation
    from grafico.runs.story import StoryEvent

__all__ = ["explain"]

SHOWN_LANES = 40
SHOWN_FILES = 8


def explain(
    run_name: RunName,
    lane: Lane = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Tell the lanes that it opened as well, and theirs.")] = False,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Tell the story of a lane (without one: of the run): every state, node, route, attempt, place and reason."""
    from grafico.jobs.find import find
    from grafico.jobs.report import state_of
    from grafico.runs import RunStatus, read_run
    from grafico.runs.explain import explain_all

    view = read_run(find(run_name, runs_dir))
    path = lane_path(view, lane)
    within = [p for p in view.lanes if p.startswith(f"{path}/" if path else "")] if deep else []
    told, *below = explain_all(view, [path, *within])
    if as_json:
        nested = {item.path: _data(item) for item in below}
        print_json({**_data(told), **({"nested": nested} if deep else {}), "problems": list(view.problems)})
        return
    console = out()
    for item in (told, *below):
        depth = item.path.count("/") - path.count("/") + (bool(item.path) and not path) if item is not told else 0
        print_lines(console, ("    " * depth + line for line in _lines(item, deep=deep)))
    print_lines(console, (f"note: {problem}" for problem in view.problems))
    stands = told.state if told.lane else state_of(view.status)
    if view.status is RunStatus.INTERRUPTED and told.state in {"running", "pending", "interrupted"}:
        stands += f"; nobody carries it out now: `grafico resume {view.name}` goes on"
    print_lines(console, [f"the lane: {stands}" if told.lane else f"the run: {stands}"])
    for label in view.running if not told.lane else ():
        print_lines(console, [f"  running now: {label}"])


def _data(told: "Explanation") -> dict[str, Any]:
    lane = told.lane
    return {
        "run": told.view.name,
        "lane": told.path,
        "member": lane.member if lane else "",
        "state": told.state,
        "nodes": list(lane.nodes if lane else told.view.nodes),
        "failure": dict(lane.failure) if lane and lane.failure else None,
        "started": lane.started if lane else None,
        "ended": lane.ended if lane else None,
        "story": [
            {
                "time": event.when,
                "at": event.at,
                "kind": event.kind,
                "text": event.text,
                "counts": event.counts,
                "data": dict(event.data),
            }
            for event in told.story
        ],
        "calculations": [asdict(item) for item in told.calculations],
        "lanes": [
            {"path": item.path, "member": item.member, "state": item.state, "node": item.node} for item in told.below
        ],
        "logs": {name: str(path) for name, path in told.logs.items()},
        "resume": list(told.resume),
    }


def _lines(told: "Explanation", *, deep: bool) -> Iterator[str]:
    lane = told.lane
    if lane is None:
        yield told.view.name
    else:
        yield f"lane {lane.member} ({lane.path}) of {told.view.name}"
        span = _span(lane.started, lane.ended)
        yield f"  {lane.state}{f', {span}' if span else ''}{f'; {lane.target}' if lane.target else ''}"
    attempts = {
        (item.at, attempt.number, attempt.asked): attempt for item in told.calculations for attempt in item.attempts
    }
    computed = {item.at: item.computed for item in told.calculations if item.computed}
    day = ""
    published: list[str] = []
    for event in told.story:
        if event.kind == "published":
            published.append(str(event.data.get("name")))
            continue
        if event.kind == "lane_end" and event.at and event.at.rpartition("@")[0] != told.path:
            continue  # the lanes that it opened are told below
        if (date := event.when[:10]) != day:
            day = date
            yield f"  {date}, UTC"
        yield from _event(event, attempts)
        if event.kind == "compute" and event.data.get("reused") and event.at in computed:
            yield f"            {computed[event.at]}"
    if published:
        more = f" and {len(published) - SHOWN_FILES} more" if len(published) > SHOWN_FILES else ""
        yield f"  published {', '.join(published[:SHOWN_FILES])}{more}"
    if told.below and not deep:
        yield from _below(told)
    for name, path in told.logs.items():
        yield f"  {name}: {path}"
    for line in told.resume:
        yield f"  a resume {line}"


def _event(event: "StoryEvent", attempts: Mapping[tuple[str, int, float], "AttemptTold"]) -> Iterator[str]:
    first, *others = event.lines
    yield f"  {event.when[11:19]}  {first}{'' if event.counts else '  [superseded]'}"
    for line in others:
        yield f"            {line}"
    if event.kind != "start":
        return
    attempt = attempts.get((event.at, int(event.data.get("attempt", 1)), event.time))
    if attempt is None:
        return
    if attempt.changed:
        yield f"            changed: {', '.join(f'{name} {value}' for name, value in attempt.changed.items())}"
    if attempt.started is not None:
        began = datetime.fromtimestamp(attempt.started, UTC).strftime("%H:%M:%S")
        took = {"running": f"running since {began}", "left": f"began {began}, its end is unknown,"}.get(attempt.status)
        ran = f"ran {_spell(attempt.seconds)}" if took is None and attempt.seconds is not None else took or "ran"
        waited = "found again" if attempt.found else f"waited {_spell(attempt.waited_s or 0.0)}"
        yield f"            {waited}, {ran} on {attempt.where}{_unheard(attempt)}"
    elif attempt.status == "waiting":
        yield f"            waits for a worker; {attempt.waits}"
    elif attempt.status == "left":
        yield "            it had not begun when its controller ended"


def _unheard(attempt: "AttemptTold") -> str:
    """Return how an attempt ended whose controller was gone by then, or had stopped."""
    if attempt.heard or attempt.status not in {"success", "failure"}:
        return ""
    return f"; it {'succeeded' if attempt.status == 'success' else f'ended: {attempt.kind}'}, and no controller heard of it"


def _below(told: "Explanation") -> Iterator[str]:
    states = [lane.state for lane in told.below]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    yield f"  lanes: {counted}"
    order = {"failure": 0, "running": 1, "cancelled": 2, "pending": 3}
    for lane in sorted(told.below, key=lambda item: order.get(item.state, 9))[:SHOWN_LANES]:
        failure = lane.failure or {}
        why = f": {failure.get('kind')}: {str(failure.get('message', ''))[:100]}" if failure else ""
        span = _span(lane.started, lane.ended)
        at = f" at {lane.node}" if lane.node and lane.state != "success" else ""
        yield f"    {lane.member}: {lane.state}{at}{f', {span}' if span else ''}{why}"
    if len(told.below) > SHOWN_LANES:
        yield f"    … and {len(told.below) - SHOWN_LANES} more; --deep tells all"


def _span(started: float | None, ended: float | None) -> str:
    if started is None:
        return ""
    begun = datetime.fromtimestamp(started, UTC).strftime("%H:%M:%S")
    return f"since {begun}" if ended is None else f"{begun}, {_spell(ended - started)}"


def _spell(seconds: float) -> str:
    from grafico.units import spell_seconds

    return f"{seconds:.1f} s" if seconds < 60 else spell_seconds(seconds)
