"""What a resume does again: the causal cone of what failed, and nothing else.

A failed calculation is tried again; what its lane did after it, the joins that saw that lane end, and what was done after
them, up to the root, were done with the old outcome and no longer count. *After* means after in the journal: a fact that was
journalled before the failure cannot depend on it. So sibling lanes stay, and so does what a walk did before. Committed
outcomes stay reusable through their keys wherever they were.

A failure that its node handled, going on from it, is a result like any other: only what ended its walk is tried again, or
may still end it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grafico.calculations import Json
from grafico.errors import RunError
from grafico.runs.replay import Effective, Fact, Place, lane_of, member_of, parent_of
from grafico.runs.run import Run
from grafico.runs.segments import Tail, read_journal

__all__ = ["ResumePlan", "Retry", "make_plan", "match_lane", "plan_resume"]

ENDS = frozenset({"lane_end", "end"})

Within: TypeAlias = frozenset[str] | None
"""Lanes that something is limited to; None: it is not."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """One thing that is done again, and why."""

    at: str
    lane: str
    node: str
    what: str
    """The calculation's name, or what else is done again."""
    why: str


@dataclass(frozen=True, kw_only=True)
class ResumePlan:
    """What a resume invalidates. Empty if there is nothing to do again."""

    supersedes: Mapping[str, Sequence[str]]
    """Positions by kind of record."""
    retries: tuple[Retry, ...]
    kept_failures: int
    """Failed calculations that stay as they are, although their walk ended with them."""
    handled_failures: int
    """Failed calculations that stay because their nodes went on from them."""
    ended: bool
    """Whether the root walk has ended, and stays so."""
    lanes: tuple[str, ...]
    """Lanes in which something is done again."""
    tail: Tail

    @property
    def empty(self) -> bool:
        """Whether nothing is invalidated."""
        return not self.supersedes

    @property
    def nothing_to_do(self) -> bool:
        """Whether a resume would change nothing: nothing is invalidated, and the root walk has ended."""
        return self.empty and self.ended

    def describe(self) -> list[str]:
        """Return what will happen, one line each."""
        lines = [
            f"again: {r.what}{f' in {r.node}' if r.node and r.node not in r.what else ''}"
            f"{f', lane {member_of(r.lane)}' if r.lane else ''}: {r.why}"
            for r in self.retries
        ]
        if self.retries:
            count = sum(len(places) for places in self.supersedes.values())
            records = "1 record" if count == 1 else f"{count} records"
            lines.append(f"{records} of the journal no longer count; committed outcomes are reused")
        if self.kept_failures:
            lines.append(f"{self.kept_failures} failed calculations are kept as they are")
        if self.handled_failures:
            lines.append(f"{self.handled_failures} failed calculations stay: their nodes went on from them")
        if self.empty:
            lines.append("nothing to do again: the run has ended" if self.ended else "it goes on where it stopped")
        return lines

    def body(self) -> dict[str, Json]:
        """Return what the journal keeps of it."""
        return {
            "supersedes": {kind: list(places) for kind, places in self.supersedes.items()},
            "retries": [[r.at, r.node, r.what, r.why] for r in self.retries],
        }


def plan_resume(
    run: Run,
    *,
    lane: str | Sequence[str] | None = None,
    from_node: str | None = None,
    keep_failures: bool = False,
    stale: Collection[str] = (),
) -> ResumePlan:
    """Work out what a resume of ``run`` does again.

    Parameters
    ----------
    run
        The run; read without a lock.
    lane
        Only failures in this lane, or in these, and the lanes below: each its path, the end of it, or a member key, if only
        one lane matches.
    from_node
        Instead of failures: everything from the first entering of this node on, in each lane that entered it.
    keep_failures
        Failures stay as they are; only what is unfinished goes on.
    stale
        Content keys whose outcomes shall be computed anew, because engines have changed since.

    Raises
    ------
    RunError
        There is no such lane or node; lists those there are.
    JournalDamaged
        The journal cannot be read.
    """
    read = read_journal(run.paths)
    state = Effective(read.entries)
    return make_plan(state, read.tail, lane=lane, from_node=from_node, keep_failures=keep_failures, stale=stale)


def make_plan(
    state: Effective,
    tail: Tail,
    *,
    lane: str | Sequence[str] | None = None,
    from_node: str | None = None,
    keep_failures: bool = False,
    stale: Collection[str] = (),
) -> ResumePlan:
    """Work out the same from a journal that has been read already; ``tail`` is where that ended."""
    cone = Cone(state)
    within = None if lane is None else _matched(cone.known_lanes(), (lane,) if isinstance(lane, str) else lane)
    failures = [fact for fact in state if fact.kind == "compute" and fact.data.get("status") == "failure"]
    if from_node is not None:
        cone.from_node(from_node, within)
    elif not keep_failures:
        for fact in sorted(failures):
            if inside(fact.lane, within) and cone.ends_its_walk(fact):
                cone.retry(fact, str(fact.data.get("name", "calculation")), reason(fact))
        cone.own_failures(within)
    if stale:
        for fact in sorted(state):
            if fact.kind == "compute" and fact.data.get("status") == "success" and fact.data.get("key") in stale:
                cone.retry(fact, str(fact.data.get("name", "calculation")), "engines have changed since")
    doomed = cone.doomed
    lanes = {fact.lane for fact in doomed.values()}
    again = {fact.data["key"] for fact in doomed.values() if fact.kind == "compute" and "key" in fact.data}
    # What is asked for again begins at the foot of its ladder.
    doomed |= {fact.order: fact for fact in state if fact.kind == "ladder" and fact.data["key"] in again}
    supersedes: dict[str, list[str]] = {}
    for _, fact in sorted(doomed.items()):
        supersedes.setdefault(fact.kind, []).append(fact.at)
    ends = [fact for fact in cone.lanes.get("", ()) if fact.kind == "end"]
    kept = [fact for fact in failures if fact.order not in doomed]
    handled = sum(not cone.ends_its_walk(fact) for fact in kept)
    return ResumePlan(
        supersedes=supersedes,
        retries=tuple(cone.retries),
        kept_failures=len(kept) - handled,
        handled_failures=handled,
        ended=any(fact.order not in doomed for fact in ends),
        lanes=tuple(sorted(lanes)),
        tail=tail,
    )


class Cone:
    """Collects what no longer counts."""

    def __init__(self, state: Effective) -> None:
        self.lanes = state.by_lane()
        self.handled = state.handled
        self.stands: dict[str, tuple[int, Fact | None]] = {}
        self.below: dict[str, list[str]] = {}
        for path in self.lanes:
            above = parent_of(path)
            while above is not None:
                self.below.setdefault(above, []).append(path)
                above = parent_of(above)
        self.cuts: dict[str, int] = {}
        self.doomed: dict[int, Fact] = {}
        self.retries: list[Retry] = []

    def known_lanes(self) -> list[str]:
        """Return the paths of all lanes that were opened, whether or not they have begun."""
        opened = {
            lane_of(fact.at, key)
            for facts in self.lanes.values()
            for fact in facts
            if fact.kind == "lanes"
            for key in fact.data.get("keys", ())
        }
        return sorted(opened | {lane for lane in self.lanes if lane})

    def retry(self, fact: Fact, what: str, why: str) -> None:
        """Do again what ``fact`` records, with all that came after."""
        if fact.order in self.doomed:
            return
        self.retries.append(Retry(at=fact.at, lane=fact.lane, node=self.node_at(fact), what=what, why=why))
        self.cut(fact.lane, fact.order)

    def ends_its_walk(self, fact: Fact) -> bool:
        """Whether a failed calculation ended its walk, or may end it once the walk goes on."""
        step, end = self.stand(fact.lane)
        if Place.parse(fact.at).step < step:
            return False
        if end is not None:
            return end.data.get("status") == "failure"
        return fact.order not in self.handled and not self.left(fact.lane)

    def stand(self, lane: str) -> tuple[int, Fact | None]:
        """Return the last step of a walk, and its end if it has come to one."""
        if lane not in self.stands:
            facts = self.lanes.get(lane, ())
            end = next((fact for fact in facts if fact.kind in ENDS), None)
            self.stands[lane] = max((Place.parse(fact.at).step for fact in facts), default=-1), end
        return self.stands[lane]

    def left(self, lane: str) -> bool:
        """Whether a lane without an end was left behind: a walk that it was opened for has gone on, or ended."""
        above = parent_of(lane)
        while above is not None:
            opened = int(lane.rpartition("/")[2].partition(".")[0])
            step, end = self.stand(above)
            if end is not None or step > opened:
                return True
            lane, above = above, parent_of(above)
        return False

    def from_node(self, node: str, within: Within) -> None:
        """Do again everything from the first entering of a node on, in each lane that entered it."""
        found = False
        for lane in sorted(self.lanes, key=lambda path: path.count("/")):
            entered = [f for f in self.lanes[lane] if f.kind == "enter" and f.data.get("node") == node]
            if entered and inside(lane, within):
                found = True
                self.retry(entered[0], f"node {node}", "asked for")
        if not found:
            nodes = {f.data.get("node") for lane, facts in self.lanes.items() if inside(lane, within) for f in facts}
            listed = ", ".join(sorted(str(n) for n in nodes if n)) or "none yet"
            where = f" in {'lane' if len(within) == 1 else 'lanes'} {listing(sorted(within))}" if within else ""
            raise RunError(f"the node {node!r} was not entered{where}; entered were: {listed}")

    def own_failures(self, within: Within) -> None:
        """Do again the last node of walks that failed by themselves: an error in a node, a router without an answer."""
        deepest_first = sorted(self.lanes, key=lambda path: (-path.count("/"), path))
        for lane in deepest_first:
            for fact in self.lanes[lane]:
                if (
                    fact.kind in ENDS
                    and fact.order not in self.doomed
                    and fact.data.get("status") == "failure"
                    and inside(lane, within)
                ):
                    self.retry(self.first_of_failure(lane, fact), "the last step", reason(fact))

    def first_of_failure(self, lane: str, end: Fact) -> Fact:
        """Return what a walk that failed by itself does again first: the router's fallback, or only the end."""
        routes = [fact for fact in self.lanes[lane] if fact.kind == "route"]
        if routes and routes[-1].data.get("by") == "fallback":
            return routes[-1]
        return end

    def cut(self, lane: str, order: int) -> None:
        """Everything in ``lane`` from ``order`` on goes, what that opened, and what saw the lane's end."""
        if self.cuts.get(lane, order + 1) <= order:
            return
        self.cuts[lane] = order
        ended: int | None = None
        for fact in self.lanes.get(lane, ()):
            if fact.order < order:
                continue
            self.doomed[fact.order] = fact
            if fact.kind == "lanes":
                self.drop_lanes(fact)
            elif fact.kind in ENDS:
                ended = fact.order
        above = parent_of(lane)
        if above is not None and ended is not None:
            self.cut(above, ended)

    def drop_lanes(self, fact: Fact) -> None:
        """Everything in the lanes that a fan-out opened goes."""
        prefix = lane_of(fact.at, "")
        for path in self.below.get(fact.lane, ()):
            if path.startswith(prefix):
                self.doomed.update((below.order, below) for below in self.lanes[path])
                self.cuts[path] = 0

    def node_at(self, fact: Fact) -> str:
        """Return the node in which something happened."""
        step = Place.parse(fact.at).step
        for other in self.lanes[fact.lane]:
            if other.kind == "enter" and Place.parse(other.at).step == step:
                return str(other.data.get("node", ""))
        return ""


def inside(lane: str, within: Within) -> bool:
    """Whether a lane is one of those given or below it."""
    if within is None or lane in within:
        return True
    above = parent_of(lane)
    while above:
        if above in within:
            return True
        above = parent_of(above)
    return False


def _matched(known: Sequence[str], wanted: Iterable[str]) -> frozenset[str]:
    return frozenset(match_lane(known, one) for one in wanted)


def reason(fact: Fact) -> str:
    """Return why something failed, from its record."""
    failure = fact.data.get("failure") or {}
    return f"{failure.get('kind', 'failed')}: {failure.get('message', 'no message')}"


def match_lane(lanes: Iterable[str], wanted: str) -> str:
    """Return the one lane that ``wanted`` means.

    Raises
    ------
    RunError
        No lane matches, or several do; lists them.
    """
    lanes = list(lanes)
    if wanted in lanes:
        return wanted
    ends = f"/{wanted}"
    found = [path for path in lanes if f"/{path}".endswith(ends) or f"/{member_of(path)}".endswith(ends)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunError(f"{wanted!r} matches {len(found)} lanes: {listing(found)}", hint="give more of the path")
    raise RunError(
        f"no lane {wanted!r}; there are {listing(lanes)}" if lanes else f"no lane {wanted!r}: the run has no lanes"
    )


def listing(lanes: Sequence[str]) -> str:
    """Return the first few of many lanes, each by its members' keys, or by its path where these mean another as well."""
    members = Counter(map(member_of, lanes))
    names = [member if members[member := member_of(lane)] == 1 else lane for lane in lanes[:20]]
    return ", ".join(names) + (f" and {len(lanes) - 20} more" if len(lanes) > 20 else "")
