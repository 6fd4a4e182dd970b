"""Durability by replay: the same code and the same journal walk the same way, and ask nobody."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field
from walking import (
    FlakyCompute,
    MortalRecorder,
    NoRouter,
    Number,
    ScriptedRouter,
    Square,
    path_of,
    refuse_negative,
    routes_of,
    square,
    walk,
)

from grafico.calculations import CalculationTask, Failure, FailureKind, Outcome, Success
from grafico.control import RuleRouter
from grafico.errors import ReplayMismatch, StaleController
from grafico.graphs import (
    Context,
    End,
    Graph,
    GraphState,
    Guard,
    InlineCompute,
    MemoryRecorder,
    Node,
    OutcomeLost,
    Position,
    need_at_least,
    run_graph,
)


class NoCompute:
    """Fails the test when it is asked."""

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        raise AssertionError(f"{task.name} was computed")


@dataclass(kw_only=True)
class Lane(GraphState):
    x: float
    total: float = 0.0


class Prepare(Node[Lane, float]):
    async def run(self, ctx: Context[Lane]) -> "Refine | Stop":
        outcomes = await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(3)))
        ctx.state.total = sum(outcome.output.y for outcome in outcomes if outcome.ok)
        return await ctx.route()

    def rule(self, state: Lane) -> "Refine":
        return Refine(times=2)


class Refine(Node[Lane, float]):
    times: int = Field(default=1, ge=1)

    async def run(self, ctx: Context[Lane]) -> "Stop":
        for n in range(self.times):
            outcome = await ctx.compute(refuse_negative, Number(x=ctx.state.x * 10 - n))
            if not outcome.ok:
                raise ctx.fail(outcome)
            ctx.state.total += outcome.output.y
        return await ctx.route()


class Stop(Node[Lane, float]):
    async def run(self, ctx: Context[Lane]) -> End[float]:
        return End(ctx.state.total)


@dataclass(kw_only=True)
class Main(GraphState):
    lanes: int = 4
    noise: float = 0.0
    when: str = ""
    read: Any = None
    order: list[str] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class Begin(Node[Main, float]):
    async def run(self, ctx: Context[Main]) -> "Fold":
        ctx.state.when = ctx.now()
        ctx.state.noise = ctx.random().random()

        async def read() -> Any:
            ctx.state.reads.append(1)
            return {"file": (1, 2), "number": random.random()}

        ctx.state.read = await ctx.value("file", read)
        return Fold()


class Fold(Node[Main, float]):
    async def run(self, ctx: Context[Main]) -> End[float]:
        lanes = ctx.fan_out(LANES, {f"m{n}": Lane(x=n - 1.0) for n in range(ctx.state.lanes)}, limit=2)
        outcomes = {}
        async for key, outcome in lanes.as_completed():
            ctx.state.order.append(key)
            outcomes[key] = outcome
        same = await ctx.fan_out(square, {"again": Number(x=1.0)})
        return End(sum(need_at_least(outcomes, 1).values()) + same["again"].output.y + ctx.state.noise)


LANES = Graph(id="lanes", version="1", state_type=Lane, nodes=[Prepare, Refine, Stop], start=Prepare)
MAIN = Graph(id="main", version="1", state_type=Main, nodes=[Begin, Fold], start=Begin)


def test_a_second_run_on_the_same_recorder_computes_and_asks_nothing_and_ends_the_same() -> None:
    recorder = MemoryRecorder()
    first_state, state = Main(), Main()
    first = walk(MAIN, first_state, recorder=recorder)
    assert first.ok
    records = list(recorder.records)
    again = walk(MAIN, state, recorder=recorder, compute=NoCompute(), router=NoRouter())
    assert again.ok
    assert again.output == first.output
    assert recorder.records == records
    assert (state.when, state.noise, state.read, state.order) == (
        first_state.when,
        first_state.noise,
        first_state.read,
        first_state.order,
    )
    assert state.read["file"] == [1, 2]
    assert (first_state.reads, state.reads) == ([1], [])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_run_killed_at_any_record_goes_on_and_repeats_no_committed_calculation(data: st.DataObject) -> None:
    whole = MemoryRecorder()
    expected = walk(MAIN, Main(), recorder=whole)
    assert expected.ok
    recorder = MortalRecorder()
    outcome: Outcome[Any] | None = None
    for _ in range(6):
        recorder.life = len(recorder.records) + data.draw(st.integers(0, len(whole.records)))
        before = set(recorder.outcomes)
        compute = InlineCompute(recorder)
        with contextlib.suppress(StaleController):
            outcome = walk(MAIN, Main(), recorder=recorder, compute=compute)
        assert not [task.key for task in compute.tasks if task.key in before]
        if outcome is not None:
            break
    recorder.life = 10**9
    outcome = walk(MAIN, Main(), recorder=recorder)
    assert outcome.ok
    assert outcome.output - _noise(recorder) == pytest.approx(expected.output - _noise(whole), abs=1e-12)
    assert path_of(recorder) == path_of(whole)
    for n in range(4):
        assert path_of(recorder, f"1.0:m{n}") == path_of(whole, f"1.0:m{n}")


def _noise(recorder: MemoryRecorder) -> float:
    seed = next(r.data["value"] for r in recorder.records if r.data.get("name") == "random")
    return random.Random(int(seed)).random()


def test_gathered_calls_stand_where_they_were_called_not_where_they_ended() -> None:
    class Jittery(InlineCompute):
        async def run(self, task: CalculationTask) -> Outcome[Any]:
            await asyncio.sleep(random.random() * 0.01)
            return await super().run(task)

    orders = set()
    for _ in range(3):
        recorder = MemoryRecorder()
        walk(LANES, Lane(x=5.0), recorder=recorder, compute=Jittery(recorder))
        placed = sorted((r.position, r.data["key"]) for r in recorder.records if r.kind == "compute")
        orders.add(tuple(placed))
    assert len(orders) == 1


def test_one_key_asked_for_at_two_places_at_once_is_computed_once() -> None:
    class Twins(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> End[float]:
            one, two = await asyncio.gather(*(ctx.compute(square, Number(x=3)) for _ in range(2)))
            three = await ctx.compute(square, Number(x=3))
            assert one.ok
            assert two.ok
            assert three.ok
            return End(one.output.y + two.output.y + three.output.y)

    graph = Graph(id="g", version="1", state_type=Lane, nodes=[Twins], start=Twins)
    recorder = MemoryRecorder()
    compute = InlineCompute(recorder)
    outcome = walk(graph, Lane(x=0), recorder=recorder, compute=compute)
    assert outcome.ok
    assert outcome.output == 27
    assert len(compute.tasks) == 1
    assert [r.position.ordinal for r in recorder.records if r.kind == "compute"] == [0, 1, 2]


def test_a_waiter_outlives_the_lane_that_began_the_calculation() -> None:
    started = asyncio.Event()

    class Slow(InlineCompute):
        async def run(self, task: CalculationTask) -> Outcome[Any]:
            started.set()
            await asyncio.sleep(0.05)
            return await super().run(task)

    class Racing(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> End[float]:
            first = asyncio.ensure_future(ctx.compute(square, Number(x=3)))
            second = asyncio.ensure_future(ctx.compute(square, Number(x=3)))
            await started.wait()
            first.cancel()
            outcome = await second
            assert outcome.ok
            return End(outcome.output.y)

    graph = Graph(id="g", version="1", state_type=Lane, nodes=[Racing], start=Racing)
    recorder = MemoryRecorder()
    compute = Slow(recorder)
    outcome = walk(graph, Lane(x=0), recorder=recorder, compute=compute)
    assert outcome.ok
    assert len(compute.tasks) == 1


def test_a_run_that_is_cancelled_leaves_no_calculation_behind() -> None:
    class Endless(InlineCompute):
        ended = 0

        async def run(self, task: CalculationTask) -> Outcome[Any]:
            self.tasks.append(task)
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)
                self.ended += 1
            raise AssertionError

    async def main() -> None:
        recorder = MemoryRecorder()
        compute = Endless(recorder)
        run = asyncio.create_task(run_graph(MAIN, Main(), compute=compute, router=RuleRouter(), recorder=recorder))
        while len(compute.tasks) < 4:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert compute.ended == len(compute.tasks)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_seed_fixes_the_random_numbers_of_nodes() -> None:
    async def main(seed: int | None) -> float:
        recorder = MemoryRecorder()
        state = Main()
        await run_graph(MAIN, state, compute=InlineCompute(recorder), router=RuleRouter(), recorder=recorder, seed=seed)
        return state.noise

    noises = [asyncio.run(main(seed)) for seed in (7, 7, 8, None)]
    assert noises[0] == noises[1]
    assert len(set(noises)) == 3


def test_a_committed_outcome_is_reused_by_its_key_after_an_invalidation() -> None:
    recorder = MemoryRecorder()
    walk(LANES, Lane(x=5.0), recorder=recorder)
    for record in list(recorder.records):
        recorder.forget(record.position, record.kind)
    assert walk(LANES, Lane(x=5.0), recorder=recorder, compute=NoCompute()).ok


def test_a_failed_calculation_is_answered_from_the_journal_and_tried_again_once_forgotten() -> None:
    recorder = MemoryRecorder()
    first = walk(LANES, Lane(x=-5.0), recorder=recorder)
    assert isinstance(first, Failure)
    assert walk(LANES, Lane(x=-5.0), recorder=recorder, compute=NoCompute()) == first
    recorder.forget(Position("", 1, 0), "compute")
    recorder.forget(Position("", 1, 1), "end")
    compute = InlineCompute(recorder)
    again = walk(LANES, Lane(x=-5.0), recorder=recorder, compute=compute)
    assert isinstance(again, Failure)
    assert (again.kind, again.message, again.where) == (first.kind, first.message, first.where)
    assert [task.name for task in compute.tasks] == ["refuse_negative"]


# What does not match is never reused and never recomputed in silence


def remade(name: str, nodes: list[Any], **more: Any) -> Graph:
    return Graph(id="lanes", version="1", state_type=Lane, nodes=nodes, start=nodes[0], **more)


def recorded() -> MemoryRecorder:
    recorder = MemoryRecorder()
    assert walk(LANES, Lane(x=5.0), recorder=recorder).ok
    return recorder


def test_a_renamed_node_is_the_first_difference() -> None:
    class Renamed(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> Stop:
            raise AssertionError

    with pytest.raises(ReplayMismatch) as caught:
        walk(remade("renamed", [Renamed, Stop]), Lane(x=5.0), recorder=recorded())
    assert "at node Renamed (step 0, call 0)" in caught.value.message
    assert "node = 'Prepare'" in caught.value.message
    assert "grafico resume RUN --from Renamed" in (caught.value.hint or "")


def test_a_changed_input_is_a_mismatch_of_keys() -> None:
    with pytest.raises(ReplayMismatch, match=r"node Prepare .step 0, call 0.*a calculation with key"):
        walk(LANES, Lane(x=6.0), recorder=recorded())


def test_another_calculation_in_the_same_place_is_a_mismatch() -> None:
    class Prepare2(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Refine | Stop:
            await ctx.compute(refuse_negative, Number(x=ctx.state.x))
            return await ctx.route()

    with pytest.raises(ReplayMismatch, match=r"name = 'square'.*name = 'refuse_negative'"):
        walk(remade("other", [Prepare2, Refine, Stop]), Lane(x=5.0), recorder=recorded())


def test_a_call_that_is_gone_or_new_is_a_mismatch() -> None:
    class Fewer(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Refine | Stop:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(2)))
            return await ctx.route()

    class More(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Refine | Stop:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(4)))
            return await ctx.route()

    with pytest.raises(ReplayMismatch, match="the journal has compute square, the code asks for route"):
        walk(remade("fewer", [Fewer, Refine, Stop]), Lane(x=5.0), recorder=recorded())
    with pytest.raises(ReplayMismatch, match="the journal has route Refine, the code asks for compute"):
        walk(remade("more", [More, Refine, Stop]), Lane(x=5.0), recorder=recorded())


def test_a_route_that_is_no_longer_declared_or_allowed_is_a_mismatch() -> None:
    class Straight(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Stop:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(3)))
            return await ctx.route()

    with pytest.raises(ReplayMismatch, match="the journal has a route to Refine, the code asks for one of `Stop`"):
        walk(remade("straight", [Straight, Stop]), Lane(x=5.0), recorder=recorded())
    guard = Guard(name="new", removes=(Refine,), when=lambda state: True, reason="changed our mind")
    with pytest.raises(ReplayMismatch, match="new: changed our mind"):
        walk(remade("guarded", [Prepare, Refine, Stop], guards=[guard]), Lane(x=5.0), recorder=recorded())


def test_parameters_that_no_longer_hold_are_a_mismatch() -> None:
    recorder = MemoryRecorder()
    router = ScriptedRouter({"successor": "Refine", "parameters": {"times": 3}})
    assert walk(LANES, Lane(x=5.0), recorder=recorder, router=router).ok
    assert routes_of(recorder)[0]["parameters"] == {"times": 3}

    class Strict(Refine):
        node_id = "Refine"
        times: int = Field(default=1, le=2)

    class Prepare3(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Strict | Stop:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(3)))
            return await ctx.route()

    with pytest.raises(ReplayMismatch, match="less than or equal to 2"):
        walk(remade("strict", [Prepare3, Strict, Stop]), Lane(x=5.0), recorder=recorder)


def test_an_end_that_comes_too_early_is_a_mismatch() -> None:
    class Early(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> End[float] | Refine | Stop:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(3)))
            return End(0.0)

    with pytest.raises(ReplayMismatch, match="the journal has route Refine, the code asks for end"):
        walk(remade("early", [Early, Refine, Stop]), Lane(x=5.0), recorder=recorded())


def test_another_way_of_ending_is_a_mismatch() -> None:
    class Broken(Stop):
        node_id = "Stop"

        async def run(self, ctx: Context[Lane]) -> End[float]:
            raise ValueError("new")

    class Refine2(Refine):
        node_id = "Refine"

        async def run(self, ctx: Context[Lane]) -> Broken:
            for n in range(self.times):
                await ctx.compute(refuse_negative, Number(x=ctx.state.x * 10 - n))
            return await ctx.route()

    class Prepare4(Prepare):
        node_id = "Prepare"

        async def run(self, ctx: Context[Lane]) -> Refine2 | Broken:
            await asyncio.gather(*(ctx.compute(square, Number(x=ctx.state.x + n)) for n in range(3)))
            return await ctx.route()

    with pytest.raises(ReplayMismatch, match="an end in success, the code asks for failure"):
        walk(remade("broken", [Prepare4, Refine2, Broken]), Lane(x=5.0), recorder=recorded())


def test_an_outcome_that_is_gone_is_computed_again_and_told() -> None:
    recorder = recorded()
    gone = square.key(Number(x=6.0))
    whole = dict(recorder.outcomes)
    del recorder.outcomes[gone]
    records, seen = list(recorder.records), []
    compute = InlineCompute(recorder)
    assert walk(LANES, Lane(x=5.0), recorder=recorder, compute=compute, events=seen.append).ok
    assert [task.key for task in compute.tasks] == [gone]
    assert recorder.outcomes.keys() == whole.keys()
    assert recorder.records == records
    (note,) = [note for note in recorder.notes if note.kind == "again"]
    assert note.position == Position("", 0, 1)
    assert "is missing or damaged" in note.data["reason"]
    (lost,) = [event for event in seen if isinstance(event, OutcomeLost)]
    assert "square (lane root) is computed again: its committed outcome" in str(lost)


def test_an_outcome_that_is_gone_and_cannot_be_had_again_is_a_mismatch() -> None:
    recorder = recorded()
    recorder.outcomes.clear()
    compute = FlakyCompute(InlineCompute(recorder), FailureKind.NOT_CONVERGED)
    with pytest.raises(ReplayMismatch, match=r"says that square succeeded .* it fails now: not_converged: flaky"):
        walk(LANES, Lane(x=5.0), recorder=recorder, compute=compute)


def test_an_outcome_that_comes_out_otherwise_the_second_time_shows_in_the_keys_that_depend_on_it() -> None:
    class Chain(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> End[float]:
            first = await ctx.compute(square, Number(x=ctx.state.x))
            assert first.ok
            second = await ctx.compute(square, Number(x=first.output.y))
            assert second.ok
            return End(second.output.y)

    class Other(InlineCompute):
        async def run(self, task: CalculationTask) -> Outcome[Any]:
            return self.store.commit(task.key, Success(output=Square(y=9.0000001), key=task.key))

    graph = Graph(id="g", version="1", state_type=Lane, nodes=[Chain], start=Chain)
    recorder = MemoryRecorder()
    assert walk(graph, Lane(x=3.0), recorder=recorder).ok
    del recorder.outcomes[square.key(Number(x=3.0))]
    with pytest.raises(ReplayMismatch, match=r"node Chain .step 0, call 1.*a calculation with key"):
        walk(graph, Lane(x=3.0), recorder=recorder, compute=Other(recorder))


def test_another_value_in_the_same_place_is_a_mismatch() -> None:
    class Wants(Node[Main, float]):
        name: str

        async def run(self, ctx: Context[Main]) -> End[float]:
            return End(await ctx.value(self.name, lambda: 1.0))

    class Wanted(Wants):
        node_id = "Wants"

    recorder = MemoryRecorder()

    def graph(name: str) -> Graph:
        return Graph(id="g", version="1", state_type=Main, nodes=[Wants], start=Wants(name=name))

    assert walk(graph("tide"), Main(), recorder=recorder).ok
    with pytest.raises(ReplayMismatch, match="parameters"):
        walk(graph("moon"), Main(), recorder=recorder)


def test_calls_left_behind_by_a_failed_gather_are_cancelled_with_their_node() -> None:
    class Half(InlineCompute):
        cancelled = 0

        async def run(self, task: CalculationTask) -> Outcome[Any]:
            if task.input["x"] == 1.0:
                raise OSError("the scheduler is gone")
            try:
                await asyncio.sleep(3600)
            finally:
                self.cancelled += 1
            raise AssertionError

    class Gather(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> End[float]:
            await asyncio.gather(*(ctx.compute(square, Number(x=n)) for n in range(3)))
            raise AssertionError

    graph = Graph(id="g", version="1", state_type=Lane, nodes=[Gather], start=Gather)
    recorder = MemoryRecorder()
    compute = Half(recorder)
    outcome = walk(graph, Lane(x=0), recorder=recorder, compute=compute)
    assert isinstance(outcome, Failure)
    assert outcome.message == "OSError: the scheduler is gone"
    assert compute.cancelled == 2
    assert [record.kind for record in recorder.records] == ["enter", "end"]


def test_a_mismatch_inside_a_task_group_still_ends_the_run() -> None:
    class Grouped(Node[Lane, float]):
        async def run(self, ctx: Context[Lane]) -> End[float]:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.compute(square, Number(x=ctx.state.x)))
                group.create_task(ctx.compute(square, Number(x=ctx.state.x + 1)))
            return End(0.0)

    graph = Graph(id="g", version="1", state_type=Lane, nodes=[Grouped], start=Grouped)
    recorder = MemoryRecorder()
    assert walk(graph, Lane(x=0), recorder=recorder).ok
    with pytest.raises(ReplayMismatch):
        walk(graph, Lane(x=5), recorder=recorder)
