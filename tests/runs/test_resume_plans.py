"""Which records a resume supersedes: the causal cone of a failure, over generated walks with nested lanes."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.errors import RunError
from grafico.runs import plan_resume
from grafico.runs.invalidate import make_plan, match_lane
from grafico.runs.replay import Effective, Fact, lane_of, parent_of
from grafico.runs.run import Run
from grafico.runs.segments import Entry, Tail

TAIL = Tail(1, 0)


@dataclass
class Scribe:
    """Writes a journal as an engine would that runs the walks of a generated graph side by side."""

    chance: random.Random
    failures: int
    deepest: int
    entries: list[Entry] = field(default_factory=list)

    def write(self, kind: str, lane: str, step: int, ordinal: int, **data: Any) -> None:
        body = {"time": float(len(self.entries)), "record": kind, "at": f"{lane}@{step}.{ordinal}", "data": data}
        self.entries.append(Entry(1, len(self.entries), body))

    def walk(self, lane: str, depth: int) -> Iterator[None]:
        """One walk; each ``yield`` lets others go on."""
        status = "success"
        step = ordinal = 0
        for step in range(self.chance.randint(1, 3)):
            self.write("enter", lane, step, 0, node=f"N{step}", parameters={})
            ordinal = 0
            for _ in range(self.chance.randint(0 if depth else 1, 2)):
                yield
                if depth < self.deepest and self.chance.random() < (0.5 if depth else 0.8):
                    yield from self.fan_out(lane, step, ordinal, depth)
                elif not self.compute(lane, step, ordinal) and self.chance.random() < 0.7:
                    status = "failure"
                ordinal += 1
                if status == "failure":
                    break
            if status == "failure":
                break
            self.write("route", lane, step, ordinal, successor=f"N{step + 1}", by="rule")
            ordinal += 1
        yield
        failure = {"failure": {"kind": "crash", "message": "m"}} if status == "failure" else {}
        self.write("lane_end" if lane else "end", lane, step, ordinal, status=status, **failure)

    def compute(self, lane: str, step: int, ordinal: int) -> bool:
        fails = self.failures > 0 and self.chance.random() < 0.3
        self.failures -= fails
        data = {"failure": {"kind": "crash", "message": "m"}, "calls": ordinal + 1} if fails else {}
        key = f"{lane}@{step}.{ordinal}"
        if self.chance.random() < 0.2:
            self.write("ladder", lane, step, ordinal, key=key, name="c")
        self.write("compute", lane, step, ordinal, name="c", key=key, status="failure" if fails else "success", **data)
        return not fails

    def fan_out(self, lane: str, step: int, ordinal: int, depth: int) -> Iterator[None]:
        keys = [f"k{i}" for i in range(self.chance.randint(1, 3))]
        at = f"{lane}@{step}.{ordinal}"
        self.write("lanes", lane, step, ordinal, target="t", keys=keys)
        walks = [self.walk(lane_of(at, key), depth + 1) for key in keys]
        while walks:
            chosen = self.chance.choice(walks)
            try:
                next(chosen)
            except StopIteration:
                walks.remove(chosen)
            yield


def _journal(seed: int, failures: int, deepest: int, share: float) -> list[Entry]:
    scribe = Scribe(random.Random(seed), failures, deepest)
    for _ in scribe.walk("", 0):
        if len(scribe.entries) > 400:
            break
    return scribe.entries[: round(len(scribe.entries) * share)]


journals = st.builds(
    _journal,
    st.integers(0, 2**32).map(lambda number: number * 2654435761 + 17),
    st.integers(0, 3),
    st.integers(1, 3),
    st.just(1.0) | st.floats(0.0, 1.0),
)


def facts(entries: list[Entry]) -> list[Fact]:
    return sorted(Effective(entries))


def superseded(supersedes: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(kind, at) for kind, ats in supersedes.items() for at in ats}


def ancestors(lane: str) -> Iterator[str]:
    above = parent_of(lane)
    while above is not None:
        yield above
        above = parent_of(above)


def failed(fact: Fact) -> bool:
    return fact.kind == "compute" and fact.data["status"] == "failure"


def place(fact: Fact) -> tuple[int, int]:
    step, _, ordinal = fact.at.rpartition("@")[2].partition(".")
    return int(step), int(ordinal)


def fatal(fact: Fact, all_facts: list[Fact]) -> bool:
    """Whether a failed calculation ended its walk, or may still end it: nothing was called after it."""
    if not failed(fact):
        return False
    own = [f for f in all_facts if f.lane == fact.lane]
    end = next((f for f in own if f.kind in {"end", "lane_end"}), None)
    if end is not None:
        return end.data["status"] == "failure" and place(end)[0] == place(fact)[0]
    return not any(place(f) > place(fact) for f in own)


@settings(max_examples=300, deadline=None)
@given(journals)
def test_the_cone_holds_what_depends_on_a_failure_and_nothing_else(entries: list[Entry]) -> None:
    all_facts = facts(entries)
    gone = superseded(make_plan(Effective(entries), TAIL).supersedes)
    # When does each walk see something of a failure? In its own records, or when a lane that it opened ended after that.
    touched: dict[str, int] = {}
    for fact in all_facts:
        if fatal(fact, all_facts) and fact.lane not in touched:
            touched[fact.lane] = fact.order
        opened_by_touched = any(
            fact.lane.startswith(lane_of(f.at, ""))
            for f in all_facts
            if f.kind == "lanes" and f.order >= touched.get(f.lane, len(all_facts) + 1)
        )
        if opened_by_touched:
            touched.setdefault(fact.lane, 0)
        if fact.kind == "lane_end" and fact.lane in touched:
            above = parent_of(fact.lane)
            assert above is not None
            touched.setdefault(above, fact.order + 1)
    for fact in all_facts:
        depends = fact.order >= touched.get(fact.lane, len(all_facts) + 1)
        if fact.kind == "ladder":
            depends = depends or ("compute", fact.at) in gone
        assert ((fact.kind, fact.at) in gone) == depends, fact


@settings(max_examples=200, deadline=None)
@given(journals)
def test_siblings_of_what_failed_stay_and_so_does_what_was_before(entries: list[Entry]) -> None:
    all_facts = facts(entries)
    gone = superseded(make_plan(Effective(entries), TAIL).supersedes)
    failures = [fact for fact in all_facts if fatal(fact, all_facts)]
    first = min((fact.order for fact in failures), default=len(all_facts) + 1)
    related = {lane for fact in failures for lane in [fact.lane, *ancestors(fact.lane)]}
    for fact in all_facts:
        if fact.order < first and fact.kind != "ladder":
            assert (fact.kind, fact.at) not in gone
        if not any(fact.lane == lane or lane in ancestors(fact.lane) for lane in related):
            assert (fact.kind, fact.at) not in gone
    for fact in failures:
        assert (fact.kind, fact.at) in gone
    if any(fact.kind == "end" for fact in all_facts) and failures:
        assert "end" in {kind for kind, _ in gone}


@settings(max_examples=150, deadline=None)
@given(journals)
def test_once_it_was_invalidated_nothing_is_left_to_do_again(entries: list[Entry]) -> None:
    state = Effective(entries)
    plan = make_plan(state, TAIL)
    state.supersede(plan.supersedes)
    assert make_plan(state, TAIL).empty
    assert make_plan(state, TAIL).kept_failures == 0
    left = [fact for fact in state if failed(fact)]
    assert make_plan(state, TAIL).handled_failures == len(left)


@settings(max_examples=150, deadline=None)
@given(journals, st.data())
def test_a_lane_given_narrows_the_plan_to_its_own_failures(entries: list[Entry], data: st.DataObject) -> None:
    state = Effective(entries)
    lanes = sorted({fact.lane for fact in state if fact.lane})
    if not lanes:
        return
    lane = data.draw(st.sampled_from(lanes))
    plan = make_plan(state, TAIL, lane=lane)
    for retry in plan.retries:
        assert retry.lane == lane or lane in ancestors(retry.lane)
    everything = sorted(state)
    own = [f for f in state if fatal(f, everything) and (f.lane == lane or lane in ancestors(f.lane))]
    assert {("compute", f.at) for f in own} <= superseded(plan.supersedes)
    assert superseded(plan.supersedes) <= superseded(make_plan(state, TAIL).supersedes)


@settings(max_examples=100, deadline=None)
@given(journals, st.integers(0, 2))
def test_from_a_node_on_nothing_of_it_stays_in_any_lane(entries: list[Entry], number: int) -> None:
    state = Effective(entries)
    node = f"N{number}"
    entered = [f for f in state if f.kind == "enter" and f.data["node"] == node]
    if not entered:
        with pytest.raises(RunError, match="was not entered"):
            make_plan(state, TAIL, from_node=node)
        return
    plan = make_plan(state, TAIL, from_node=node)
    state.supersede(plan.supersedes)
    assert not [f for f in state if f.kind == "enter" and f.data["node"] == node]
    for before in range(number):
        assert len([f for f in state if f.data.get("node") == f"N{before}"]) >= (before == 0)


def test_a_fresh_run_has_nothing_to_do_again(run: Run) -> None:
    plan = plan_resume(run)
    assert plan.empty
    assert not plan.nothing_to_do
    assert plan.describe() == ["it goes on where it stopped"]


LANES = ["0.0:gas", "0.0:gas/1.0:conf-1", "0.0:smd", "0.0:smd/1.0:conf-1", "0.0:smd/1.0:conf-2"]


@pytest.mark.parametrize(
    ("wanted", "lane"),
    [
        ("0.0:gas", "0.0:gas"),
        ("gas", "0.0:gas"),
        ("conf-2", "0.0:smd/1.0:conf-2"),
        ("gas/conf-1", "0.0:gas/1.0:conf-1"),
        ("1.0:conf-2", "0.0:smd/1.0:conf-2"),
    ],
)
def test_a_lane_is_meant_by_path_end_or_member(wanted: str, lane: str) -> None:
    assert match_lane(LANES, wanted) == lane


def test_a_lane_that_is_not_there_or_not_the_only_one_is_an_error_with_a_list() -> None:
    with pytest.raises(RunError, match=r"'conf-1' matches 2 lanes: gas/conf-1, smd/conf-1"):
        match_lane(LANES, "conf-1")
    with pytest.raises(RunError, match=r"no lane 'conf-9'; there are gas"):
        match_lane(LANES, "conf-9")
    with pytest.raises(RunError, match="the run has no lanes"):
        match_lane([], "x")
