"""A run as others see it: read without a lock, while it runs or after."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from grafico.calculations import Json
from grafico.errors import JournalDamaged
from grafico.runs.chronicle import Chronicle
from grafico.runs.commit import OutcomeStore
from grafico.runs.files import disk_errors
from grafico.runs.invalidate import match_lane
from grafico.runs.lock import Holder, read_holder
from grafico.runs.paths import RunPaths
from grafico.runs.replay import Fact, Place, lane_of, member_of
from grafico.runs.run import Manifest, Run, RunStatus, read_manifest
from grafico.runs.segments import LOST, MEND, Entry, JournalRead, Tail, parse, read_journal
from grafico.runs.story import StoryEvent

__all__ = ["Counts", "LaneView", "RunView", "RunWatcher", "read_run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneView:
    """One lane as it stands."""

    path: str
    member: str
    """Its members' keys alone: ``gas/conf-002``."""
    target: str
    """The graph or calculation that the fan-out opened."""
    state: str
    """``pending``, ``running``, ``success``, ``failure``, or ``cancelled`` (left behind by the walk that opened it)."""
    node: str
    """The node that it is in, or was in last."""
    nodes: tuple[str, ...]
    """The path taken."""
    failure: Mapping[str, Json] | None
    started: float | None
    ended: float | None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many."""

    lanes: int = 0
    lanes_pending: int = 0
    lanes_running: int = 0
    lanes_done: int = 0
    lanes_failed: int = 0
    lanes_cancelled: int = 0
    calculations_done: int = 0
    calculations_failed: int = 0
    calculations_reused: int = 0
    """Of those done: answered by an outcome that was committed before."""
    calculations_running: int = 0
    attempts: int = 0
    """Attempts handed to the cluster, over all controllers."""

    def flat(self) -> dict[str, int]:
        """Return them by name."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run as it stood when it was read."""

    paths: RunPaths
    manifest: Manifest
    status: RunStatus
    holder: Holder | None
    """The controller that has the run, if one has."""
    counts: Counts
    lanes: Mapping[str, LaneView]
    """By path; the root is not one of them."""
    nodes: tuple[str, ...]
    """The root's path taken."""
    running: tuple[str, ...]
    """Labels of the calculations that run now."""
    ended: bool
    result: Json
    failure: Mapping[str, Json] | None
    last_time: float
    """Seconds since the epoch of the last thing that was journalled; 0 if nothing was."""
    problems: tuple[str, ...]
    damage: str
    """What is to be done about a journal that cannot be read; empty if it can."""
    chronicle: Chronicle = field(repr=False)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.paths.name

    @cached_property
    def versions(self) -> dict[str, str]:
        """Engines and libraries that the outcomes used; several versions of one are joined by a comma."""
        found: dict[str, set[str]] = {}
        store = OutcomeStore(self.paths)
        for key in sorted(
            {f.data["key"] for f in self.chronicle.state if f.kind == "compute" and f.data.get("status") == "success"}
        ):
            provenance = store.provenance(key)
            for name, version in (provenance.versions if provenance else {}).items():
                found.setdefault(name, set()).add(version)
        return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

    def lane(self, wanted: str) -> LaneView:
        """Return the one lane that ``wanted`` means: its path, the end of it, or a member key.

        Raises
        ------
        RunError
            No lane matches, or several do; lists them. Or the journal cannot be read.
        """
        if self.damage and not self.lanes:
            raise JournalDamaged(f"the lanes of {self.name} cannot be told: {self.problems[0]}", hint=self.damage)
        return self.lanes[match_lane(self.lanes, wanted)]

    def story(self, lane: str = "") -> list[StoryEvent]:
        """Return what happened in a lane (default the root), in order, with times and reasons.

        Raises
        ------
        RunError
            There is no such lane; lists those there are.
        """
        return self.chronicle.story(match_lane(self.lanes, lane) if lane else "")


class RunWatcher:
    """Reads a run again and again; each time only what is new.

    Parameters
    ----------
    path
        The run's folder.
    """

    def __init__(self, path: Path | str) -> None:
        self.paths = Run.open(path).paths
        self._chronicle = Chronicle()
        self._tail = Tail(0, 0)
        self._number = 0
        self._problems: list[str] = []
        self._damage = ""

    def poll(self) -> RunView:
        """Return the run as it stands now."""
        return self.view(read_holder(self.paths))

    def view(self, holder: Holder | None) -> RunView:
        """Return the run as it stands now, with ``holder`` for the one who has it."""
        manifest = read_manifest(self.paths)
        self._damage = ""
        damage = self._read()
        return _view(self.paths, manifest, holder, self._chronicle, [*damage, *self._problems], damage=self._damage)

    def _read(self) -> list[str]:
        try:
            newest = max(self.paths.segments(), default=0)
            if newest and newest == self._tail.epoch:
                self._follow()
            elif newest:
                self._start_over(read_journal(self.paths))
            elif lost := self.paths.lost():
                self._damage = LOST
                return [lost]
        except JournalDamaged as error:
            self._damage = error.hint or MEND
            return [f"the journal is damaged: {error.message}"]
        return []

    def _follow(self) -> None:
        path = self.paths.segment(self._tail.epoch)
        with disk_errors("the journal cannot be read", path), path.open("rb") as file:
            file.seek(self._tail.size)
            data = file.read()
        entries, size = parse(data, self._tail.epoch, first=self._number, path=str(path))
        self._chronicle.add(entries)
        self._number += len(entries)
        self._tail = Tail(self._tail.epoch, self._tail.size + size)

    def _start_over(self, read: JournalRead) -> None:
        """Read everything: at first, and when a controller came whose segment may have cut off what was read before."""
        self._problems = list(read.problems)
        self._tail = read.tail
        self._number = len(read.segments[-1].entries) if read.segments else 0
        for segment in read.segments:
            segment.entries.clear()
        self._chronicle = Chronicle()
        self._chronicle.add(_drained(read.entries))


def _drained(entries: list[Entry]) -> Iterator[Entry]:
    """Yield entries, and let each go: the chronicle keeps what it needs of it, and there may be many."""
    entries.reverse()
    while entries:
        yield entries.pop()


def read_run(path: Path | str) -> RunView:
    """Read a run without a lock.

    A damaged journal is among the ``problems``, with file and line.

    Raises
    ------
    RunNotFound
        There is no run there.
    RunError
        Its manifest cannot be read.
    """
    return RunWatcher(path).poll()


def _view(
    paths: RunPaths,
    manifest: Manifest,
    holder: Holder | None,
    chronicle: Chronicle,
    problems: list[str],
    *,
    damage: str,
) -> RunView:
    by_lane = chronicle.state.by_lane()
    root = by_lane.get("", [])
    end = next((fact for fact in root if fact.kind == "end"), None)
    lanes = {lane.path: lane for lane in _lanes(by_lane, chronicle)}
    counts = _counts(chronicle, lanes)
    held = holder is not None and holder.process.alive() is not False
    status = _status(manifest, held, end, counts, chronicle)
    running = status is RunStatus.RUNNING
    if not running:
        counts = Counts(**{**counts.flat(), "calculations_running": 0})
    return RunView(
        paths=paths,
        manifest=manifest,
        status=status,
        holder=holder if held else None,
        counts=counts,
        lanes=lanes,
        nodes=_nodes(root),
        running=tuple(str(d.get("label") or d.get("name")) for d in chronicle.in_flight.values()) if running else (),
        ended=end is not None,
        result=end.data.get("result") if end else None,
        failure=end.data.get("failure") if end else None,
        last_time=chronicle.last_time,
        problems=tuple(problems),
        damage=damage,
        chronicle=chronicle,
    )


def _status(manifest: Manifest, held: bool, end: Fact | None, counts: Counts, chronicle: Chronicle) -> RunStatus:
    if end is not None:
        if end.data.get("status") == "failure":
            return RunStatus.FAILED
        return RunStatus.FINISHED_WITH_FAILED_LANES if counts.lanes_failed else RunStatus.FINISHED
    if held:
        return RunStatus.RUNNING
    if not chronicle.marks:
        return manifest.status if manifest.status is not RunStatus.RUNNING else RunStatus.INTERRUPTED
    return RunStatus.INTERRUPTED


def _lanes(by_lane: Mapping[str, list[Fact]], chronicle: Chronicle) -> list[LaneView]:
    """Return the lanes that were opened, parents first."""
    found: list[LaneView] = []
    # A lane of one calculation has no record before its end: it has begun once that was handed over.
    handed = {at.rpartition("@")[0]: chronicle.begun[at] for at in chronicle.in_flight}
    for facts in by_lane.values():
        for fact in facts:
            if fact.kind != "lanes":
                continue
            for key in fact.data.get("keys", ()):
                path = lane_of(fact.at, key)
                own = by_lane.get(path, [])
                began = min(own[0].time, chronicle.begun.get(own[0].at, own[0].time)) if own else handed.get(path)
                target = str(fact.data.get("target", ""))
                found.append(_lane(path, target, own, began, left=_left(fact, facts)))
    return sorted(found, key=lambda lane: lane.path.count("/"))


def _left(opened: Fact, facts: list[Fact]) -> bool:
    """Whether the walk that opened a fan-out has gone on to a later step, or has ended."""
    step = Place.parse(opened.at).step
    return any(f.kind in {"end", "lane_end"} or Place.parse(f.at).step > step for f in facts if f.order > opened.order)


def _lane(path: str, target: str, facts: list[Fact], began: float | None, *, left: bool) -> LaneView:
    end = next((fact for fact in facts if fact.kind == "lane_end"), None)
    if end is not None:
        state = str(end.data.get("status"))
    elif left:
        state = "cancelled"
    else:
        state = "pending" if began is None else "running"
    nodes = _nodes(facts)
    return LaneView(
        path=path,
        member=member_of(path),
        target=target,
        state=state,
        node=nodes[-1] if nodes else "",
        nodes=nodes,
        failure=end.data.get("failure") if end else None,
        started=began,
        ended=end.time if end else None,
    )


def _nodes(facts: list[Fact]) -> tuple[str, ...]:
    return tuple(str(fact.data.get("node")) for fact in facts if fact.kind == "enter")


def _counts(chronicle: Chronicle, lanes: Mapping[str, LaneView]) -> Counts:
    states: dict[str, int] = {}
    for lane in lanes.values():
        states[lane.state] = states.get(lane.state, 0) + 1
    answers: list[Any] = [fact for fact in chronicle.state if fact.kind == "compute"]
    done = [fact for fact in answers if fact.data.get("status") == "success"]
    return Counts(
        lanes=len(lanes),
        lanes_pending=states.get("pending", 0),
        lanes_running=states.get("running", 0),
        lanes_done=states.get("success", 0),
        lanes_failed=states.get("failure", 0),
        lanes_cancelled=states.get("cancelled", 0),
        calculations_done=len(done),
        calculations_failed=len(answers) - len(done),
        calculations_reused=sum(fact.order in chronicle.reused for fact in done),
        calculations_running=len(chronicle.in_flight),
        attempts=chronicle.attempts,
    )
