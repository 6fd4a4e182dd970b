"""All that the lines of a journal say, kept so that more lines can be added: what views are made from."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from grafico.calculations import Json
from grafico.runs.replay import Effective, lane_of, member_of
from grafico.runs.segments import Entry
from grafico.runs.story import StoryEvent, tell

__all__ = ["Chronicle"]


class Line(NamedTuple):
    """One line of the journal, sorted into its lane."""

    order: int
    time: float
    kind: str
    at: str
    data: Mapping[str, Json]
    record: bool


class Chronicle:
    """Everything that happened, by lane, and what of it counts."""

    def __init__(self) -> None:
        self.state = Effective()
        self.lines: dict[str, list[Line]] = {}
        self.marks: list[Line] = []
        """What concerns the whole run: segments and invalidations."""
        self.attempts = 0
        self.reused: set[int] = set()
        """Order of each calculation's record that was answered without an attempt."""
        self.in_flight: dict[str, Mapping[str, Json]] = {}
        """Attempts that this controller has handed over and heard nothing of, by position."""
        self.begun: dict[str, float] = {}
        """When what stands or runs at a position was first handed over, by position."""
        self.awaited = ""
        """What the cluster of this controller waits for, in words; empty if for nothing."""
        self.last_time = 0.0
        self._fresh: set[str] = set()
        self._sources: dict[str, str] = {}
        """Digest of the code of each node that was found changed."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further lines in."""
        for entry in entries:
            self.state.apply((entry,))
            self._sort(self.state.order, entry.body)

    def story(self, lane: str = "") -> list[StoryEvent]:
        """Return what happened in a lane, in order, with what concerned it from outside.

        An empty path is the root, whose story also has every controller and every resume.
        """
        own = [*self.lines.get(lane, ()), *self._ends_below(lane)]
        first = min((line.order for line in own), default=0)
        last = max((line.order for line in own), default=0)
        marks = [m for m in self.marks if not lane or (first < m.order < last or self._touches(m, lane))]
        return [self._event(line) for line in sorted([*own, *marks], key=lambda line: line.order)]

    def _sort(self, order: int, body: Mapping[str, Any]) -> None:
        if "segment" in body:
            header = body["segment"]
            self.marks.append(Line(order, header.get("time", 0.0), "segment", "", header, record=False))
            self.in_flight.clear()  # what an earlier controller waited for, nobody waits for now
            self.awaited = ""
            return
        time = body.get("time", 0.0)
        self.last_time = max(self.last_time, time)
        if "invalidate" in body:
            self.marks.append(Line(order, time, "invalidate", "", body["invalidate"], record=False))
            return
        kind = body.get("record") or body.get("note")
        if kind is None:
            return  # a later version's line: it tells this one nothing
        if kind == "ladder":
            return  # the attempts tell the same
        if kind == "awaits":
            self.awaited = str(body["data"].get("what", ""))
        elif kind == "changed":
            self._sources[body["data"]["node"]] = body["data"]["source"]
        at = body["at"]
        line = Line(order, time, kind, at, body["data"], record="record" in body)
        self.lines.setdefault(at.rpartition("@")[0], []).append(line)
        if kind == "start":
            self.attempts += 1
            if at not in self._fresh:
                self._fresh.add(at)
                self.begun[at] = time
            self.in_flight[at] = line.data
        elif kind == "attempt":
            self.in_flight.pop(at, None)
        elif kind == "compute":
            self.in_flight.pop(at, None)
            if at not in self._fresh:
                self.reused.add(order)
                self.begun.pop(at, None)
            self._fresh.discard(at)

    def _ends_below(self, lane: str) -> Iterator[Line]:
        """Yield the ends of the lanes that this lane opened."""
        opened = [
            lane_of(fan.at, key)
            for fan in self.lines.get(lane, ())
            if fan.kind == "lanes"
            for key in fan.data.get("keys", ())
        ]
        for path in dict.fromkeys(opened):
            for line in self.lines.get(path, ()):
                if line.kind == "lane_end":
                    yield line._replace(kind="lane_end_below")

    def _touches(self, mark: Line, lane: str) -> bool:
        if mark.kind != "invalidate":
            return False
        places = mark.data["supersedes"]
        return any(at.rpartition("@")[0] == lane for ats in places.values() for at in ats)

    def _event(self, line: Line) -> StoryEvent:
        kind, data = line.kind, line.data
        if kind == "compute" and line.order in self.reused:
            data = {**data, "reused": True}
        elif (
            kind == "enter" and data.get("source") and self._sources.get(data["node"], data["source"]) != data["source"]
        ):
            data = {**data, "changed": True}
        if kind == "lane_end_below":
            kind = "lane_end"
            text = tell(kind, data).replace("the lane", f"lane {member_of(line.at.rpartition('@')[0])}", 1)
        else:
            text = tell(kind, data)
        counts = True
        if line.record:
            fact = self.state.get(line.at, kind)
            counts = fact is not None and fact.order == line.order
        return StoryEvent(line.time, line.at, kind, text, counts, data)
