"""Recovery ladders: what each attempt changes, how often, and what is kept of those that failed."""

from dataclasses import dataclass
from typing import Any

import pytest
from walking import FlakyCompute, Number, Square, refuse_negative, square, stubborn, walk

from grafico.calculations import Calculation, Failure, FailureKind, Model, Outcome, Resources, WorkContext, calculation
from grafico.graphs import (
    AttemptFailed,
    CalculationStarted,
    Context,
    End,
    Graph,
    GraphState,
    InlineCompute,
    Limits,
    MemoryRecorder,
    Node,
)


@dataclass(kw_only=True)
class State(GraphState):
    calculation: Calculation[Any, Any]
    value: Model
    resources: Resources | None = None
    outcome: Outcome[Any] | None = None


class Try(Node[State, float]):
    async def run(self, ctx: Context[State]) -> End[float]:
        outcome = ctx.state.outcome = await ctx.compute(
            ctx.state.calculation, ctx.state.value, label="a try", resources=ctx.state.resources
        )
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output.y)


GRAPH = Graph(id="g", version="1", state_type=State, nodes=[Try], start=Try)


@calculation(version="1")
def breaks(value: Number, ctx: WorkContext) -> Square:
    raise OverflowError("no such engine")


def test_each_rung_changes_settings_and_resources_on_top_of_the_last() -> None:
    recorder = MemoryRecorder()
    compute = InlineCompute(recorder)
    outcome = walk(GRAPH, State(calculation=stubborn, value=Number(x=2)), recorder=recorder, compute=compute)
    assert outcome.ok
    assert [dict(task.settings) for task in compute.tasks] == [{}, {"cycles": 200}, {"cycles": 200, "shift": 0.3}]
    assert [task.resources.memory_mib for task in compute.tasks] == [1000, 1000, 2000]
    assert [task.resources.walltime_s for task in compute.tasks] == [10, 10, 30]
    assert [task.attempt for task in compute.tasks] == [1, 2, 3]
    assert len({task.key for task in compute.tasks}) == 1


def test_every_attempt_is_noted_with_what_it_changed() -> None:
    recorder = MemoryRecorder()
    walk(GRAPH, State(calculation=stubborn, value=Number(x=2)), recorder=recorder)
    attempts = [note.data for note in recorder.notes if note.kind == "attempt"]
    assert [(note["number"], note["status"], note.get("next")) for note in attempts] == [
        (1, "failure", "more cycles"),
        (2, "failure", "level shift"),
        (3, "success", None),
    ]
    assert attempts[0]["label"] == "a try"
    assert [note.data["attempt"] for note in recorder.notes if note.kind == "start"] == [1, 2, 3]


def test_a_ladder_that_ends_gives_a_failure_with_its_whole_history() -> None:
    recorder = MemoryRecorder()
    outcome = walk(GRAPH, State(calculation=stubborn, value=Number(x=9)), recorder=recorder)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "scf_not_converged"
    assert outcome.where == "stubborn"
    assert [attempt.number for attempt in outcome.history] == [1, 2, 3]
    assert dict(outcome.history[2].settings) == {"cycles": 200, "shift": 0.3}
    assert outcome.history[2].resources.memory_mib == 2000
    assert outcome.history[0].message == "needs 9 changes"


def test_without_a_rung_for_its_kind_a_failure_is_final() -> None:
    recorder = MemoryRecorder()
    compute = InlineCompute(recorder)
    outcome = walk(GRAPH, State(calculation=refuse_negative, value=Number(x=-1)), recorder=recorder, compute=compute)
    assert isinstance(outcome, Failure)
    assert len(compute.tasks) == 1
    assert len(outcome.history) == 1


def test_an_exception_in_a_calculation_is_an_engine_error() -> None:
    outcome = walk(GRAPH, State(calculation=breaks, value=Number(x=1)))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "engine_error"
    assert "OverflowError: no such engine" in outcome.message


@pytest.mark.parametrize(("lost", "succeeds"), [(1, True), (3, True), (4, False)])
def test_a_lost_worker_is_replaced_three_times_at_most(lost: int, succeeds: bool) -> None:
    recorder = MemoryRecorder()
    compute = FlakyCompute(InlineCompute(recorder), *[FailureKind.WORKER_LOST] * lost)
    outcome = walk(GRAPH, State(calculation=square, value=Number(x=2)), recorder=recorder, compute=compute)
    assert outcome.ok is succeeds
    assert len(compute.tasks) == min(lost, 3) + 1


def test_a_crash_is_tried_once_more_where_the_ladder_says_nothing() -> None:
    recorder = MemoryRecorder()
    compute = FlakyCompute(InlineCompute(recorder), FailureKind.CRASH)
    assert walk(GRAPH, State(calculation=square, value=Number(x=2)), recorder=recorder, compute=compute).ok
    compute = FlakyCompute(InlineCompute(MemoryRecorder()), FailureKind.CRASH, FailureKind.CRASH)
    outcome = walk(GRAPH, State(calculation=square, value=Number(x=2)), compute=compute)
    assert isinstance(outcome, Failure)
    assert outcome.signal == 9
    assert len(compute.tasks) == 2


def test_each_kind_climbs_its_own_part_of_the_ladder() -> None:
    recorder = MemoryRecorder()
    kinds = [
        FailureKind.WORKER_LOST,
        FailureKind.SCF_NOT_CONVERGED,
        FailureKind.CRASH,
        FailureKind.WORKER_LOST,
        FailureKind.SCF_NOT_CONVERGED,
    ]
    compute = FlakyCompute(InlineCompute(recorder), *kinds)
    outcome = walk(GRAPH, State(calculation=stubborn, value=Number(x=0)), recorder=recorder, compute=compute)
    assert outcome.ok
    assert [dict(task.settings) for task in compute.tasks] == [
        {},
        {},
        {"cycles": 200},
        {"cycles": 200},
        {"cycles": 200},
        {"cycles": 200, "shift": 0.3},
    ]


def test_the_bound_on_lost_workers_can_be_set() -> None:
    compute = FlakyCompute(InlineCompute(MemoryRecorder()), *[FailureKind.WORKER_LOST] * 5)
    outcome = walk(
        GRAPH,
        State(calculation=square, value=Number(x=2)),
        compute=compute,
        limits=Limits(worker_lost_retries=0),
    )
    assert not outcome.ok
    assert len(compute.tasks) == 1


def test_attempts_are_events() -> None:
    seen: list[Any] = []
    walk(GRAPH, State(calculation=stubborn, value=Number(x=1)), events=seen.append)
    assert [event.attempt for event in seen if isinstance(event, CalculationStarted)] == [1, 2]
    (failed,) = [event for event in seen if isinstance(event, AttemptFailed)]
    assert failed.failure.kind == "scf_not_converged"
    assert failed.next_attempt == "more cycles"


def test_an_input_of_another_type_is_bad_input() -> None:
    outcome = walk(GRAPH, State(calculation=square, value=Square(y=1)))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "bad_input"
    assert "takes Number, and was given Square" in outcome.message


def test_a_node_may_know_better_what_a_calculation_needs() -> None:
    recorder = MemoryRecorder()
    compute = InlineCompute(recorder)
    state = State(calculation=stubborn, value=Number(x=2), resources=Resources(cpus=4, memory_mib=500))
    assert walk(GRAPH, state, recorder=recorder, compute=compute).ok
    assert [(task.resources.cpus, task.resources.memory_mib) for task in compute.tasks] == [
        (4, 500),
        (4, 500),
        (4, 1000),
    ]
