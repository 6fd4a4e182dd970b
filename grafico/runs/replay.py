"""What counts of a journal: the record at each position, after all that was superseded has gone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from grafico.calculations import Json
from grafico.runs.segments import Entry

__all__ = ["Effective", "Fact", "Place", "lane_of", "member_of", "parent_of"]


class Place(NamedTuple):
    """A position, taken apart. ``str(position)`` is ``<lane>@<step>.<ordinal>``."""

    lane: str
    step: int
    ordinal: int

    @classmethod
    def parse(cls, at: str) -> "Place":
        """Read a position's text."""
        lane, _, call = at.rpartition("@")
        step, _, ordinal = call.partition(".")
        return cls(lane, int(step), int(ordinal))


class Fact(NamedTuple):
    """One record that counts."""

    order: int
    """Where it stands among all lines that count: what depends on a fact always has a higher one."""
    kind: str
    at: str
    time: float
    data: Mapping[str, Json]

    @property
    def lane(self) -> str:
        """Path of its lane."""
        return self.at.rpartition("@")[0]


class Effective:
    """The records that count, by position and kind.

    Parameters
    ----------
    entries
        The journal's lines, in order.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.facts: dict[str, dict[str, Fact]] = {}
        self.order = 0
        self.handled: set[int] = set()
        """Order of each failed calculation from which its node went on: it called something in the knowledge of it."""
        self._failed: dict[str, list[tuple[int, int]]] = {}
        self._last: dict[str, int] | None = None
        self._climbs: dict[str, Mapping[str, Json]] | None = None
        self.apply(entries)

    def __len__(self) -> int:
        return sum(len(kinds) for kinds in self.facts.values())

    def __iter__(self) -> Iterator[Fact]:
        for kinds in self.facts.values():
            yield from kinds.values()

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take later lines into account."""
        order = self.order
        for entry in entries:
            order += 1
            body = entry.body
            kind = body.get("record")
            if kind is not None:
                at = body["at"]
                fact = Fact(order, kind, at, body["time"], body["data"])
                kinds = self.facts.get(at)
                if kinds is None:
                    self.facts[at] = {kind: fact}
                else:
                    kinds[kind] = fact
                if self._failed:
                    self._go_on(at)
                if kind == "compute" and fact.data.get("status") == "failure" and "calls" in fact.data:
                    self._failed.setdefault(at.rpartition(".")[0], []).append((order, fact.data["calls"]))
            elif body.get("note") == "start":
                if self._failed:
                    self._go_on(body["at"])
            elif "invalidate" in body:
                self.supersede(body["invalidate"]["supersedes"])
        self.order = order
        self._last = self._climbs = None

    def _go_on(self, at: str) -> None:
        """Take note of a call that was made after failures of its step were known."""
        step, _, ordinal = at.rpartition(".")
        for order, calls in self._failed.get(step, ()):
            if int(ordinal) >= calls:
                self.handled.add(order)

    def supersede(self, positions: Mapping[str, Iterable[str]]) -> None:
        """Forget the records of each kind at the positions given."""
        for kind, places in positions.items():
            for at in places:
                kinds = self.facts.get(at)
                if kinds is not None and kinds.pop(kind, None) is not None and not kinds:
                    del self.facts[at]
        self._last = self._climbs = None

    def get(self, at: str, kind: str) -> Fact | None:
        """Return the record of a kind at a position; in constant time."""
        kinds = self.facts.get(at)
        return None if kinds is None else kinds.get(kind)

    def last(self, lane: str, step: int) -> int:
        """Return the highest ordinal at which a step of a lane has a record, -1 if it has none."""
        if self._last is None:
            self._last = {}
            for at in self.facts:
                walked, _, ordinal = at.rpartition(".")
                self._last[walked] = max(int(ordinal), self._last.get(walked, -1))
        return self._last.get(f"{lane}@{step}", -1)

    def climbed(self, key: str) -> Mapping[str, Json] | None:
        """Return the latest ``ladder`` of a content key that was not answered where it stands."""
        if self._climbs is None:
            self._climbs = {}
            for fact in sorted(fact for fact in self if fact.kind == "ladder"):
                answer = self.get(fact.at, "compute")
                if answer is None or answer.order < fact.order:
                    self._climbs[fact.data["key"]] = fact.data
        return self._climbs.get(key)

    def by_lane(self) -> dict[str, list[Fact]]:
        """Return the records of each lane, in order."""
        lanes: dict[str, list[Fact]] = {}
        for fact in sorted(self):
            lanes.setdefault(fact.lane, []).append(fact)
        return lanes


def lane_of(at: str, key: str) -> str:
    """Return the path of the lane that a fan-out at position ``at`` opens for a member."""
    lane, _, call = at.rpartition("@")
    return f"{lane}/{call}:{key}" if lane else f"{call}:{key}"


def parent_of(lane: str) -> str | None:
    """Return the lane that opened a lane, ``None`` for the root."""
    return lane.rpartition("/")[0] if lane else None


def member_of(lane: str) -> str:
    """Return a lane's path by its members' keys alone: ``gas/conf-002``."""
    return "/".join(part.partition(":")[2] or part for part in lane.split("/"))
