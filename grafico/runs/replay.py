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
            elif "invalidate" in body:
                self.supersede(body["invalidate"]["supersedes"])
        self.order = order

    def supersede(self, positions: Mapping[str, Iterable[str]]) -> None:
        """Forget the records of each kind at the positions given."""
        for kind, places in positions.items():
            for at in places:
                kinds = self.facts.get(at)
                if kinds is not None and kinds.pop(kind, None) is not None and not kinds:
                    del self.facts[at]

    def get(self, at: str, kind: str) -> Fact | None:
        """Return the record of a kind at a position; in constant time."""
        kinds = self.facts.get(at)
        return None if kinds is None else kinds.get(kind)

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
