"""All that is known of one lane, brought together: its story, each attempt with where it ran, and what a resume would do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grafico.calculations import Json, Resources
from grafico.errors import GraficoError
from grafico.runs.invalidate import ResumePlan, make_plan
from grafico.runs.replay import member_of, parent_of
from grafico.runs.starts import Started, read_starts
from grafico.runs.story import StoryEvent
from grafico.runs.view import LaneView, RunView

__all__ = ["AttemptTold", "CalculationTold", "Explanation", "explain"]

RESOURCES = ("gpu", "gpu_memory_mib", "cpus", "memory_mib", "walltime_s")
DEFAULTS: Mapping[str, Json] = Resources().model_dump(mode="json")


@dataclass(frozen=True, kw_only=True)
class AttemptTold:
    """One attempt at a calculation."""

    number: int
    status: str
    """``success``, ``failure``, ``running``, ``waiting`` (for a worker) or ``left`` (its controller is gone)."""
    waits: str = ""
    """What it waits for, in words, while it waits."""
    asked: float
    """When it was handed to the cluster, seconds since the epoch."""
    started: float | None = None
    """When its process began."""
    waited_s: float | None = None
    """Between the two: in the queue."""
    heard: bool = True
    """Whether a controller heard how it ended, or still may; if not, that is what its process recorded."""
    found: bool = False
    """Whether it had begun for an earlier controller, and was found again on its cluster."""
    seconds: float | None = None
    kind: str = ""
    message: str = ""
    changed: Mapping[str, Json] = field(default_factory=dict)
    """Settings and resources that differ from the attempt before."""
    following: str = ""
    """What the recovery ladder changes next."""
    worker: str = ""
    host: str = ""
    pid: int | None = None
    gpu: str = ""
    slot: str = ""
    slurm_job: str = ""
    cluster: str = ""

    @property
    def where(self) -> str:
        """Return where it ran, in words."""
        parts = [f"worker {self.worker}" if self.worker else "", f"host {self.host}" if self.host else ""]
        parts += [f"GPU {self.gpu}" if self.gpu else "", f"slot {self.slot}" if self.slot else ""]
        parts += [f"Slurm job {self.slurm_job}" if self.slurm_job else "", f"process {self.pid}" if self.pid else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class CalculationTold:
    """One calculation that the lane asked for."""

    at: str
    name: str
    label: str
    key: str
    node: str
    status: str
    """As of its last attempt; ``reused`` where a committed outcome answered it."""
    attempts: tuple[AttemptTold, ...]
    computed: str = ""
    """Where what was reused had been computed, in words; empty if that is not known."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One lane, or the run (an empty path)."""

    view: RunView
    path: str
    lane: LaneView | None
    story: tuple[StoryEvent, ...]
    calculations: tuple[CalculationTold, ...]
    below: tuple[LaneView, ...]
    """The lanes that it opened."""
    logs: Mapping[str, Path]
    """Logs that are there, by what they are of."""
    resume: tuple[str, ...]
    """What a resume would do with it."""

    @property
    def state(self) -> str:
        """How it stands."""
        return self.lane.state if self.lane else str(self.view.status)


def explain(view: RunView, path: str) -> Explanation:
    """Tell all of a lane.

    Parameters
    ----------
    view
        The run.
    path
        Path of the lane; empty for the root.
    """
    return explain_all(view, [path])[0]


def explain_all(view: RunView, paths: Sequence[str]) -> list[Explanation]:
    """Tell all of several lanes, reading what workers recorded once."""
    starts: dict[str, list[Started]] = {}
    for started in read_starts(view.paths):
        starts.setdefault(started.key, []).append(started)
    below: dict[str, list[LaneView]] = {}
    for lane in view.lanes.values():
        below.setdefault(parent_of(lane.path) or "", []).append(lane)
    plan = _plan(view)
    return [_explain(view, path, starts, below.get(path, ()), plan) for path in paths]


def _plan(view: RunView) -> ResumePlan | str:
    from grafico.runs.segments import Tail

    try:
        return make_plan(view.chronicle.state, Tail(0, 0))
    except GraficoError as error:
        return error.message


def _explain(
    view: RunView,
    path: str,
    starts: Mapping[str, list[Started]],
    below: Sequence[LaneView],
    plan: ResumePlan | str,
) -> Explanation:
    story = tuple(view.chronicle.story(path))
    logs = {"log": view.paths.lane_log(path)} if view.paths.lane_log(path).is_file() else {}
    controller = view.paths.root / "controller.log"
    if not path and controller.is_file():
        logs["controller"] = controller
    return Explanation(
        view=view,
        path=path,
        lane=view.lanes[path] if path else None,
        story=story,
        calculations=tuple(_calculations(view, story, starts)),
        below=tuple(below),
        logs=logs,
        resume=tuple(_resume(view, path, plan)),
    )


# -- calculations --------------------------------------------------------------------------------------------------


def _calculations(
    view: RunView, story: Sequence[StoryEvent], starts: Mapping[str, list[Started]]
) -> Iterator[CalculationTold]:
    """Yield what was asked for, in the order of the first time."""
    running = view.holder is not None
    by_place: dict[str, list[StoryEvent]] = {}
    for event in story:
        if event.kind in {"start", "attempt", "compute"}:
            by_place.setdefault(event.at, []).append(event)
    for at, events in by_place.items():
        about: Mapping[str, Any] = events[0].data
        answer = next((event for event in reversed(events) if event.kind == "compute"), None)
        attempts = tuple(_attempts(events, starts.get(str(about.get("key")), []), running=running))
        if attempts and attempts[-1].status == "waiting":
            attempts = (*attempts[:-1], replace(attempts[-1], waits=_waits_for(view, at, starts)))
        if answer is None:
            status = attempts[-1].status if attempts else "asked for"
        elif not attempts and answer.data.get("status") == "success":
            status = "reused"
        else:
            status = str(answer.data.get("status"))
        reused = answer is not None and bool(answer.data.get("reused"))
        yield CalculationTold(
            at=at,
            name=str(about.get("name", "")),
            label=str(about.get("label") or about.get("name", "")),
            key=str(about.get("key", "")),
            node=str(about.get("node", "")),
            status=status,
            attempts=attempts,
            computed=_computed(at, starts.get(str(about.get("key")), ())) if reused else "",
        )


def _computed(at: str, starts: Sequence[Started]) -> str:
    """Return where a reused outcome had been computed, as its worker recorded it."""
    source = next((s for s in reversed(starts) if s.status == "success"), None)
    if source is None:
        return ""
    lane = "this lane" if source.lane == at.rpartition("@")[0] else f"lane {member_of(source.lane)}"
    where = lane if source.lane else "the root"
    when = datetime.fromtimestamp(source.started, UTC).strftime("%H:%M:%S")
    return f"computed in {where}, started {when} on {source.worker or source.process}"


def _attempts(events: Sequence[StoryEvent], starts: Sequence[Started], *, running: bool) -> Iterator[AttemptTold]:
    """Yield the attempts, each with the process that it became: the last that began between its start and its end."""
    before: dict[str, Json] = {}
    asked: set[int] = set()
    for index, event in enumerate(events):
        if event.kind != "start":
            continue
        number = int(event.data.get("attempt", 1))
        end = next((e for e in events[index + 1 :] if e.kind in {"attempt", "start"}), None)
        ended: Mapping[str, Any] = end.data if end is not None and end.kind == "attempt" else {}
        until = end.time if end is not None else float("inf")
        mine = [s for s in starts if s.attempt == number and event.time - 0.01 <= s.started <= until + 0.01]
        run = mine[-1] if mine else None
        found = run is None and number in asked
        if found:
            run = next((s for s in reversed(starts) if s.attempt == number and s.started < event.time), None)
            found = run is not None
        asked.add(number)
        given = event.data if "resources" in event.data else ended
        now = {**dict(given.get("settings") or {}), **_needs(given.get("resources"))}
        changed = {name: value for name, value in now.items() if before and before.get(name) != value}
        before = now or before
        status, kind = str(ended.get("status") or ""), str(ended.get("kind") or "")
        if not status and run is not None and run.ended is not None:
            # Its controller was gone by then; its process has said it all the same.
            status, kind = ("success", "") if run.status == "success" else ("failure", run.status)
        if not status:
            status = ("running" if run else "waiting") if running and end is None else "left"
        yield AttemptTold(
            number=number,
            status=status,
            asked=event.time,
            heard=bool(ended) or (running and end is None),
            started=run.started if run else None,
            waited_s=round(max(0.0, run.started - event.time), 3) if run and not found else None,
            found=found,
            seconds=_seconds(ended, run),
            kind=kind,
            message=str(ended.get("message") or ""),
            changed=changed,
            following=str(ended.get("next") or ""),
            worker=run.worker if run else str(ended.get("worker") or ""),
            host=run.process.host if run else "",
            pid=run.process.pid if run else None,
            gpu=run.gpu if run else "",
            slot=run.slot if run else "",
            slurm_job=run.slurm_job if run else "",
            cluster=run.cluster if run else "",
        )


def _waits_for(view: RunView, at: str, starts: Mapping[str, list[Started]]) -> str:
    """Return what a calculation asks for that has no worker yet, who is before it, and what the cluster waits for."""
    given = view.chronicle.in_flight.get(at, {}).get("resources")
    asked = f"asks for {_in_words(_needs(given))}; " if given is not None else ""
    before = list(view.chronicle.in_flight.items())
    placed = {place: _runs(data, starts) for place, data in before}
    running = sum(placed.values())
    places = list(placed)
    ahead = sum(not placed[place] for place in places[: places.index(at)]) if at in placed else 0
    who = f"of this run, {_number(running)} running" + (f", and {ahead} asked for before it wait too" if ahead else "")
    awaited = view.chronicle.awaited
    return f"{asked}{who}" + (f"; {awaited}" if awaited else "")


def _runs(data: Mapping[str, Any], starts: Mapping[str, list[Started]]) -> bool:
    """Whether an attempt that was handed over has a process by now."""
    mine = (s for s in starts.get(str(data.get("key")), ()) if s.attempt == data.get("attempt", 1))
    return any(s.ended is None and s.process.alive() is not False for s in mine)


def _number(count: int) -> str:
    return {0: "nothing is", 1: "1 calculation is"}.get(count, f"{count} calculations are")


def _in_words(needs: Mapping[str, Any]) -> str:
    """Return resources in words."""
    gpu = {"slot": "a GPU slot", "exclusive": "a whole GPU"}.get(str(needs["gpu"]), "")
    if gpu and needs["gpu_memory_mib"]:
        gpu += f" with {needs['gpu_memory_mib']} MiB"
    cpus = f"{needs['cpus']} CPU{'' if needs['cpus'] == 1 else 's'}"
    return ", ".join(part for part in (gpu, cpus, f"{needs['memory_mib']} MiB of memory") if part)


def _needs(resources: Any) -> dict[str, Json]:
    """Return what was asked for; the journal keeps what differs from what is usual."""
    return {name: resources.get(name, DEFAULTS[name]) for name in RESOURCES} if isinstance(resources, Mapping) else {}


def _seconds(ended: Mapping[str, Any], run: Started | None) -> float | None:
    if run is not None and run.ended is not None:
        return round(run.ended - run.started, 3)
    return None if ended.get("seconds") is None else round(float(ended["seconds"]), 3)


# -- what a resume would do ----------------------------------------------------------------------------------------


def _resume(view: RunView, path: str, plan: ResumePlan | str) -> Iterator[str]:
    if isinstance(plan, str):
        yield f"cannot be foreseen: {plan}"
        return
    if view.holder is not None:
        yield "is not called for: a controller has the run"
        return
    inside = [r for r in plan.retries if not path or r.lane == path or r.lane.startswith(f"{path}/")]
    for retry in inside[:20]:
        where = f", lane {member_of(retry.lane)}" if retry.lane != path else ""
        node = f" in {retry.node}" if retry.node and retry.node not in retry.what else ""
        yield f"does again: {retry.what}{node}{where}: {retry.why}"
    if len(inside) > 20:
        yield f"… and does {len(inside) - 20} more again"
    if inside:
        return
    lane = view.lanes.get(path)
    if path and lane is not None and lane.state in {"pending", "running"}:
        yield "goes on with it where it stopped; what was committed is reused"
    elif path and lane is not None and lane.state == "cancelled":
        yield "leaves it as it is: the walk that opened it has gone on"
    elif not path and not view.ended:
        yield "goes on where it stopped; what was committed is reused"
    else:
        yield "leaves it as it is: what it did is kept"
