"""Fan-outs: bounds, order, nesting, failures as values, joins, completion order."""

import asyncio
import gc
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walking import MortalRecorder, Number, Square, path_of, refuse_negative, square, walk

from grafico.calculations import CalculationError, Failure, FailureKind, Outcome, Success
from grafico.control import RuleRouter
from grafico.errors import GraphDefinitionError, ReplayMismatch, StaleController
from grafico.graphs import (
    Context,
    End,
    FolderArtifacts,
    Graph,
    GraphState,
    InlineCompute,
    JoinFailed,
    LaneEnded,
    Lanes,
    LanesOpened,
    Limits,
    MemoryRecorder,
    Node,
    failures,
    need_all,
    need_any,
    need_at_least,
    run_graph,
)


@dataclass(kw_only=True)
class Leaf(GraphState):
    x: float
    delay: float = 0.0
    log: list[str] = field(default_factory=list)
    open_now: list[int] = field(default_factory=lambda: [0, 0])


class Work(Node[Leaf, float]):
    """Square a number, slowly; fails for -1, breaks for -2."""

    async def run(self, ctx: Context[Leaf]) -> End[float]:
        now = ctx.state.open_now
        now[0] += 1
        now[1] = max(now)
        try:
            await asyncio.sleep(ctx.state.delay)
            if ctx.state.x == -1:
                raise CalculationError(FailureKind.NOT_CONVERGED, "minus one")
            if ctx.state.x == -2:
                raise ZeroDivisionError("minus two")
            outcome = await ctx.compute(square, Number(x=ctx.state.x))
            assert outcome.ok
            ctx.state.log.append(f"{ctx.state.x:g}")
            return End(outcome.output.y)
        finally:
            now[0] -= 1


LEAVES = Graph(id="leaves", version="1", state_type=Leaf, nodes=[Work], start=Work)


@dataclass(kw_only=True)
class Trunk(GraphState):
    members: dict[str, Any]
    limit: int | None = None
    target: Any = LEAVES
    need: Any = None
    outcomes: dict[str, Outcome[Any]] = field(default_factory=dict)
    delivered: list[str] = field(default_factory=list)


class All(Node[Trunk, dict[str, Any]]):
    """Wait for all lanes."""

    async def run(self, ctx: Context[Trunk]) -> End[dict[str, Any]]:
        state = ctx.state
        state.outcomes = await ctx.fan_out(state.target, state.members, limit=state.limit)
        return End((state.need or dict)(state.outcomes))


class Each(Node[Trunk, dict[str, Any]]):
    """Take lanes as they end."""

    async def run(self, ctx: Context[Trunk]) -> End[dict[str, Any]]:
        lanes: Lanes[Any] = ctx.fan_out(ctx.state.target, ctx.state.members, limit=ctx.state.limit)
        async for key, outcome in lanes.as_completed():
            ctx.state.delivered.append(key)
            ctx.state.outcomes[key] = outcome
        return End({})


ALL = Graph(id="all", version="1", state_type=Trunk, nodes=[All], start=All)
EACH = Graph(id="each", version="1", state_type=Trunk, nodes=[Each], start=Each)


def test_outcomes_come_in_the_order_of_the_members_whatever_ends_first() -> None:
    members = {"slow": Leaf(x=1, delay=0.05), "fast": Leaf(x=2), "middle": Leaf(x=3, delay=0.02)}
    state = Trunk(members=members)
    assert walk(ALL, state).ok
    assert list(state.outcomes) == ["slow", "fast", "middle"]
    assert [outcome.output for outcome in state.outcomes.values() if outcome.ok] == [1, 4, 9]


def test_no_more_lanes_are_open_than_the_limit() -> None:
    open_now = [0, 0]
    members = {f"m{n}": Leaf(x=n, delay=0.002, open_now=open_now) for n in range(20)}
    assert walk(ALL, Trunk(members=members, limit=3)).ok
    assert open_now == [0, 3]
    members = {f"m{n}": Leaf(x=n, delay=0.002, open_now=open_now) for n in range(20)}
    assert walk(ALL, Trunk(members=members), limits=Limits(lanes=5)).ok
    assert open_now == [0, 5]


def test_more_lanes_are_opened_while_those_that_are_open_wait_and_something_is_idle(tmp_path: Path) -> None:
    """The first eight wait for what only the last one does, as lanes on CPUs do while the GPUs' come later."""
    ended = asyncio.Event()

    class Waits(Node[Leaf, float]):
        """Wait for the last lane, or be it."""

        async def run(self, ctx: Context[Leaf]) -> End[float]:
            now = ctx.state.open_now
            now[0] += 1
            now[1] = max(now)
            if ctx.state.x == 8:
                ended.set()
            await ended.wait()
            now[0] -= 1
            return End(ctx.state.x)

    waits = Graph(id="waits", version="1", state_type=Leaf, nodes=[Waits], start=Waits)

    async def opened(limit: int | None, waiting: int, most: int = 100) -> tuple[int, bool]:
        """Return how many lanes were open at once, and whether the last of all was among them."""
        ended.clear()
        open_now = [0, 0]
        members = {f"m{n}": Leaf(x=n, open_now=open_now) for n in range(9)}
        run = run_graph(
            ALL,
            Trunk(members=members, target=waits, limit=limit),
            compute=InlineCompute(FolderArtifacts(tmp_path)),
            router=RuleRouter(),
            recorder=MemoryRecorder(),
            limits=Limits(lanes=4, most_lanes=most),
            crowded=lambda: waiting,
        )
        task = asyncio.ensure_future(run)
        await asyncio.wait([task], timeout=1.5)
        found = open_now[1], task.done()
        ended.set()
        assert (await task).ok
        return found

    async def all_of_them() -> None:
        assert await opened(limit=None, waiting=3) == (9, True)
        assert await opened(limit=None, waiting=3, most=6) == (6, False), "the run has its bound as well"
        assert await opened(limit=None, waiting=1) == (4, False), "most of the open lanes do not wait"
        assert await opened(limit=4, waiting=3) == (4, False), "a bound that a node gives is kept"

    asyncio.run(all_of_them())


def test_a_failed_lane_is_a_value_and_its_neighbours_go_on() -> None:
    members = {"good": Leaf(x=2), "fails": Leaf(x=-1), "breaks": Leaf(x=-2), "late": Leaf(x=3, delay=0.03)}
    state = Trunk(members=members)
    assert walk(ALL, state).ok
    fails, breaks = state.outcomes["fails"], state.outcomes["breaks"]
    assert isinstance(fails, Failure)
    assert (fails.kind, fails.message, fails.where) == ("not_converged", "minus one", "Work")
    assert isinstance(breaks, Failure)
    assert breaks.kind == "engine_error"
    assert breaks.message == "ZeroDivisionError: minus two"
    assert breaks.where == "Work"
    assert state.outcomes["good"].ok
    assert state.outcomes["late"].ok


def test_a_calculation_can_be_fanned_out_without_a_graph() -> None:
    recorder = MemoryRecorder()
    members = {"a": Number(x=2), "b": Number(x=-3)}
    state = Trunk(members=members, target=refuse_negative)
    compute = InlineCompute(recorder)
    assert walk(ALL, state, recorder=recorder, compute=compute).ok
    assert isinstance(state.outcomes["a"], Success)
    assert state.outcomes["a"].output == Square(y=2)
    failed = state.outcomes["b"]
    assert isinstance(failed, Failure)
    assert failed.details == {"x": -3.0}
    assert [(task.lane, task.label) for task in compute.tasks if task.input["x"] == 2.0] == [
        ("0.0:a", "refuse_negative · a")
    ]
    ends = {r.position.lane: r.data["status"] for r in recorder.records if r.kind == "lane_end"}
    assert ends == {"0.0:a": "success", "0.0:b": "failure"}


def test_a_wrong_member_of_a_calculation_fails_its_own_lane_only() -> None:
    state = Trunk(members={"good": Number(x=2), "wrong": Square(y=1)}, target=square)
    assert walk(ALL, state).ok
    assert state.outcomes["good"].ok
    wrong = state.outcomes["wrong"]
    assert isinstance(wrong, Failure)
    assert wrong.kind == "bad_input"


def test_fan_outs_nest_without_waiting_for_each_other() -> None:
    """With one lane open in each fan-out, a global bound would deadlock."""

    @dataclass(kw_only=True)
    class Forest(GraphState):
        depth: int

    class Grow(Node[Forest, int]):
        async def run(self, ctx: Context[Forest]) -> End[int]:
            if ctx.state.depth == 0:
                return End(1)
            members = {f"b{n}": Forest(depth=ctx.state.depth - 1) for n in range(3)}
            grown = need_all(await ctx.fan_out(forest, members, limit=1))
            return End(sum(grown.values()))

    forest = Graph(id="forest", version="1", state_type=Forest, nodes=[Grow], start=Grow)
    recorder = MemoryRecorder()
    outcome = walk(forest, Forest(depth=3), recorder=recorder)
    assert outcome.ok
    assert outcome.output == 27
    assert path_of(recorder, "0.0:b2/0.0:b0/0.0:b1") == ["Grow"]


def test_lanes_are_delivered_as_they_end_and_a_replay_delivers_in_the_same_order() -> None:
    def members(delays: list[float]) -> dict[str, Any]:
        return {f"m{n}": Leaf(x=n, delay=delay) for n, delay in enumerate(delays)}

    recorder = MemoryRecorder()
    first = Trunk(members=members([0.06, 0.0, 0.03]), limit=2)
    assert walk(EACH, first, recorder=recorder).ok
    assert first.delivered == ["m1", "m2", "m0"]
    again = Trunk(members=members([0.0, 0.05, 0.02]), limit=1)
    before = len(recorder.records)
    assert walk(EACH, again, recorder=recorder).ok
    assert again.delivered == first.delivered
    assert len(recorder.records) == before


def test_leaving_an_iteration_early_cancels_the_lanes_that_are_still_open() -> None:
    class Impatient(Node[Trunk, str]):
        async def run(self, ctx: Context[Trunk]) -> End[str]:
            async for key, _ in ctx.fan_out(LEAVES, ctx.state.members).as_completed():
                return End(key)
            raise AssertionError

    open_now = [0, 0]
    members = {"fast": Leaf(x=1, open_now=open_now), "never": Leaf(x=2, delay=3600, open_now=open_now)}
    graph = Graph(id="g", version="1", state_type=Trunk, nodes=[Impatient], start=Impatient)
    outcome = walk(graph, Trunk(members=members))
    assert outcome.ok
    assert outcome.output == "fast"
    assert open_now[0] == 0


def test_states_of_finished_lanes_are_not_kept() -> None:
    alive: list[weakref.ref[Leaf]] = []
    counts: list[int] = []

    class Many(Node[Trunk, int]):
        async def run(self, ctx: Context[Trunk]) -> End[int]:
            members = {f"m{n}": Leaf(x=1) for n in range(200)}
            alive.extend(weakref.ref(state) for state in members.values())
            lanes = ctx.fan_out(LEAVES, members, limit=4)
            del members
            async for _key, _outcome in lanes.as_completed():
                pass
            gc.collect()
            counts.append(sum(state() is not None for state in alive))
            return End(0)

    graph = Graph(id="g", version="1", state_type=Trunk, nodes=[Many], start=Many)
    assert walk(graph, Trunk(members={})).ok
    assert counts == [0]


def test_a_fault_of_the_machinery_ends_the_run_and_every_lane() -> None:
    recorder = MortalRecorder()
    recorder.life = 12
    open_now = [0, 0]
    members = {f"m{n}": Leaf(x=n, delay=0.001 * n, open_now=open_now) for n in range(10)}
    with pytest.raises(StaleController):
        walk(ALL, Trunk(members=members), recorder=recorder)
    assert open_now[0] == 0


def test_cancelling_a_run_cancels_its_lanes() -> None:
    open_now = [0, 0]
    members = {f"m{n}": Leaf(x=n, delay=3600, open_now=open_now) for n in range(5)}

    async def main() -> None:
        from grafico.control import RuleRouter
        from grafico.graphs import run_graph

        recorder = MemoryRecorder()
        run = asyncio.create_task(
            run_graph(
                ALL, Trunk(members=members), compute=InlineCompute(recorder), router=RuleRouter(), recorder=recorder
            )
        )
        while open_now[0] < 5:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(main())
    assert open_now[0] == 0


@pytest.mark.parametrize("key", ["", "a b", "a/b", "a:b", "ü"])
def test_a_key_that_could_not_stand_in_a_path_is_refused(key: str) -> None:
    outcome = walk(ALL, Trunk(members={key: Leaf(x=1)}))
    assert not outcome.ok
    assert outcome.kind == "bad_input"
    assert repr(key) in outcome.message


def test_lanes_must_have_states_of_their_own() -> None:
    shared = Leaf(x=1)
    with pytest.raises(GraphDefinitionError, match="share one state"):
        walk(ALL, Trunk(members={"a": shared, "b": shared}))
    with pytest.raises(GraphDefinitionError, match="was given Trunk"):
        walk(ALL, Trunk(members={"a": Trunk(members={})}))


def test_an_empty_fan_out_is_an_empty_join() -> None:
    state = Trunk(members={}, need=need_all)
    assert walk(ALL, state).ok
    assert state.outcomes == {}
    assert not walk(ALL, Trunk(members={}, need=need_any)).ok


def test_other_members_than_the_journal_has_are_a_mismatch() -> None:
    recorder = MemoryRecorder()
    walk(ALL, Trunk(members={"a": Leaf(x=1), "b": Leaf(x=2)}), recorder=recorder)
    with pytest.raises(ReplayMismatch, match="keys"):
        walk(ALL, Trunk(members={"a": Leaf(x=1), "c": Leaf(x=2)}), recorder=recorder)


def test_lane_events_count_what_is_done() -> None:
    seen: list[Any] = []
    members = {"a": Leaf(x=1), "b": Leaf(x=-1), "c": Leaf(x=2)}
    walk(ALL, Trunk(members=members), events=seen.append)
    opened = next(event for event in seen if isinstance(event, LanesOpened))
    assert (opened.keys, opened.target, opened.label) == (("a", "b", "c"), "leaves@1", "leaves")
    ended = [event for event in seen if isinstance(event, LaneEnded)]
    assert [(event.done, event.total) for event in ended] == [(1, 3), (2, 3), (3, 3)]
    assert [event.key for event in ended if event.failure] == ["b"]


# Joins

GOOD = Success(output=Square(y=1))
BAD = Failure(kind=FailureKind.TIMEOUT, message="too slow")


def test_a_join_that_fails_names_the_failed_lanes() -> None:
    state = Trunk(members={"a": Leaf(x=1), "b": Leaf(x=-1), "c": Leaf(x=-2)}, need=need_all)
    outcome = walk(ALL, state)
    assert not outcome.ok
    assert "all of 3 lanes" in outcome.message
    assert "b: not_converged, minus one" in outcome.message
    assert outcome.details["failed_lanes"] == {"b": "not_converged", "c": "engine_error"}
    assert outcome.where == "All"


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=4), st.booleans(), max_size=8), st.integers(0, 9))
def test_a_join_gives_the_successes_in_order_or_names_every_failure(lanes: dict[str, bool], need: int) -> None:
    outcomes: dict[str, Outcome[Square]] = {key: GOOD if good else BAD for key, good in lanes.items()}
    good = [key for key, ok in lanes.items() if ok]
    assert list(failures(outcomes)) == [key for key, ok in lanes.items() if not ok]
    for join, needed in ((need_all, len(lanes)), (need_any, 1), (lambda o: need_at_least(o, need), need)):
        if len(good) >= needed:
            assert list(join(outcomes)) == good
        else:
            with pytest.raises(JoinFailed) as caught:
                join(outcomes)
            assert list(caught.value.failed) == [key for key, ok in lanes.items() if not ok]
            assert caught.value.total == len(lanes)
