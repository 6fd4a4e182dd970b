"""What a plain resume tries again: what ended a walk, not what a node handled; and how far that reaches."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from lane_graphs import BROKEN, Number, square

from grafico.calculations import CalculationTask, Outcome, Success
from grafico.control import RuleRouter
from grafico.graphs import (
    Context,
    End,
    Graph,
    GraphState,
    InlineCompute,
    Node,
    Record,
    need_all,
    need_at_least,
    run_graph,
)
from grafico.runs import ResumePlan, Run, RunRecorder, plan_resume, read_run


@pytest.fixture(autouse=True)
def nothing_is_broken() -> Iterator[None]:
    BROKEN.clear()
    yield
    BROKEN.clear()


class Killed(BaseException):
    """The controller is gone."""


@dataclass
class Deadly:
    """Computes, until it is asked for one of the deadly inputs."""

    inner: InlineCompute
    deadly: tuple[float, ...]

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        if task.input["x"] in self.deadly:
            await asyncio.sleep(0.05)
            raise Killed
        return await self.inner.run(task)


@dataclass(kw_only=True)
class State(GraphState):
    found: list[float] = field(default_factory=list)


class Fallback(Node[State, float]):
    """Tries 1, takes 2 where that fails, then 3."""

    async def run(self, ctx: Context[State]) -> "After":
        outcome = await ctx.compute(square, Number(x=1.0))
        if not outcome.ok:
            outcome = await ctx.compute(square, Number(x=2.0))
            if not outcome.ok:
                raise ctx.fail(outcome)
        ctx.state.found.append(outcome.output.x)
        return await ctx.route()


class After(Node[State, float]):
    """Needs 3."""

    async def run(self, ctx: Context[State]) -> End[float]:
        outcome = await ctx.compute(square, Number(x=3.0))
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(ctx.state.found[0] + outcome.output.x)


class Pair(Node[State, float]):
    """Asks for 1 and 2 at once and needs both."""

    async def run(self, ctx: Context[State]) -> End[float]:
        outcomes = await asyncio.gather(*(ctx.compute(square, Number(x=x)) for x in (1.0, 2.0)))
        for outcome in outcomes:
            if not outcome.ok:
                raise ctx.fail(outcome)
        return End(0.0)


HANDLES = Graph(id="handles", version="1", state_type=State, nodes=[Fallback, After], start=Fallback)
PAIR = Graph(id="pair", version="1", state_type=State, nodes=[Pair], start=Pair)


class Crews(Node[State, float]):
    """Two fan-outs at once, of which each may lose lanes."""

    async def run(self, ctx: Context[State]) -> "Choose":
        one, two = await asyncio.gather(
            ctx.fan_out(square, {f"k{n}": Number(x=10.0 + n) for n in range(3)}),
            ctx.fan_out(square, {f"k{n}": Number(x=20.0 + n) for n in range(3)}),
        )
        ctx.state.found = [*(o.x for o in need_at_least(one, 1).values()), *(o.x for o in need_all(two).values())]
        return await ctx.route()


class Choose(Node[State, float]):
    """Goes one way if something is missing and another if all is there."""

    async def run(self, ctx: Context[State]) -> "Part | Whole":
        return await ctx.route()

    def rule(self, state: State) -> "Part | Whole":
        return Whole() if len(state.found) == 6 else Part()


class Part(Node[State, float]):
    """Opens lanes of one calculation."""

    async def run(self, ctx: Context[State]) -> End[float]:
        lanes = need_all(await ctx.fan_out(square, {f"k{n}": Number(x=30.0 + n) for n in range(2)}))
        return End(sum(lane.x for lane in lanes.values()))


class Whole(Node[State, float]):
    """Opens lanes of the same names, each of which is a walk."""

    async def run(self, ctx: Context[State]) -> End[float]:
        return End(sum(need_all(await ctx.fan_out(HANDLES, {f"k{n}": State() for n in range(2)})).values()))


CREWS = Graph(id="crews", version="1", state_type=State, nodes=[Crews, Choose, Part, Whole], start=Crews)


@dataclass
class Walked:
    outcome: Outcome[Any] | None
    computed: list[float]
    plan: ResumePlan


def walk(run: Run, graph: Graph, *deadly: float, **resume: Any) -> Walked:
    async def scene() -> Walked:
        async with RunRecorder(run, make_record=Record) as recorder:
            plan = recorder.plan(**resume)
            await recorder.invalidate(plan)
            compute = InlineCompute(recorder.outcomes, calculations=[square], artifacts=recorder.artifacts)
            outcome = None
            with contextlib.suppress(Killed):
                outcome = await run_graph(
                    graph, State(), compute=Deadly(compute, deadly), router=RuleRouter(), recorder=recorder
                )
            return Walked(outcome, sorted(task.input["x"] for task in compute.tasks), plan)

    return asyncio.run(scene())


def test_a_failure_that_its_node_handled_is_not_tried_again_once_the_run_has_ended(run: Run) -> None:
    BROKEN.add(1.0)
    first = walk(run, HANDLES)
    assert isinstance(first.outcome, Success)
    BROKEN.clear()
    plan = plan_resume(run)
    assert plan.nothing_to_do
    assert (plan.handled_failures, plan.kept_failures) == (1, 0)
    assert "1 failed calculations stay: their nodes went on from them" in plan.describe()
    assert walk(run, HANDLES).computed == []


def test_only_the_failure_that_ended_the_walk_is_tried_again(run: Run) -> None:
    BROKEN.update({1.0, 3.0})
    assert not walk(run, HANDLES).outcome.ok  # type: ignore[union-attr]
    BROKEN.clear()
    second = walk(run, HANDLES)
    assert second.outcome is not None
    assert second.outcome.ok
    assert second.outcome.output == 4.0 + 9.0
    assert second.computed == [3.0]


@pytest.mark.parametrize("deadly", [2.0, 3.0])
def test_after_a_kill_a_handled_failure_is_still_known_as_one(run: Run, deadly: float) -> None:
    BROKEN.add(1.0)
    first = walk(run, HANDLES, deadly)
    assert first.outcome is None
    BROKEN.clear()
    second = walk(run, HANDLES)
    assert second.plan.empty
    assert second.outcome is not None
    assert second.outcome.output == 4.0 + 9.0  # type: ignore[union-attr]
    assert second.computed == [x for x in (2.0, 3.0) if x >= deadly]


def test_after_a_kill_a_failure_that_nothing_followed_is_tried_again(run: Run) -> None:
    BROKEN.add(1.0)
    assert walk(run, PAIR, 2.0).outcome is None
    BROKEN.clear()
    second = walk(run, PAIR)
    assert [retry.at for retry in second.plan.retries] == ["@0.0"]
    assert second.computed == [1.0, 2.0]
    assert second.outcome is not None
    assert second.outcome.ok


def test_with_the_fallback_failing_too_both_are_tried_again(run: Run) -> None:
    BROKEN.update({1.0, 2.0})
    walk(run, HANDLES)
    BROKEN.clear()
    second = walk(run, HANDLES)
    assert second.computed == [1.0, 3.0]
    assert second.outcome is not None
    assert second.outcome.output == 1.0 + 9.0  # type: ignore[union-attr]


def test_a_fan_out_beside_the_one_that_lost_a_lane_keeps_all_of_its_records(run: Run) -> None:
    BROKEN.add(11.0)
    walk(run, CREWS)
    BROKEN.clear()
    plan = plan_resume(run)
    assert [retry.lane for retry in plan.retries] == ["0.0:k1"]
    again = {at for ats in plan.supersedes.values() for at in ats}
    assert not [at for at in again if at.startswith("0.1:") or at in {"@0.0", "@0.1"}]
    assert not [at for at in again if at.startswith(("0.0:k0", "0.0:k2"))]


def test_lanes_of_the_same_names_after_another_route_start_afresh(run: Run) -> None:
    BROKEN.add(11.0)
    first = walk(run, CREWS)
    assert first.outcome is not None
    assert first.outcome.output == 30.0**2 + 31.0**2  # type: ignore[union-attr]
    assert {lane.target for lane in read_run(run.paths.root).lanes.values()} == {"square"}
    BROKEN.clear()
    second = walk(run, CREWS)
    assert second.outcome is not None
    assert second.outcome.output == 2 * (1.0 + 9.0)  # type: ignore[union-attr]
    assert second.computed == [1.0, 3.0, 11.0]
    view = read_run(run.paths.root)
    assert view.lane("2.0:k0").target == "handles@1"
    assert view.lane("2.0:k0").nodes == ("Fallback", "After")
    assert walk(run, CREWS).computed == []
