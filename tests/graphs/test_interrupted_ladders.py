"""Recovery ladders of controllers that die: the next one goes on with the attempt that was under way."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from walking import Number, refuse_negative, square, stubborn

from grafico.calculations import Calculation, CalculationTask, Failure, FailureKind, Model, Outcome, Success
from grafico.control import RuleRouter
from grafico.graphs import Context, End, Graph, GraphState, InlineCompute, Node, Record, need_all, run_graph
from grafico.runs import Run, RunRecorder, plan_resume, read_run


class Killed(BaseException):
    """The controller is gone in the middle of an attempt."""


class Script:
    """Answers each attempt as it is told: ``run``, ``kill``, a kind of failure, or ``committed`` and a kind."""

    def __init__(self, inner: InlineCompute, *words: str) -> None:
        self.inner = inner
        self.words = list(words)
        self.tasks: list[CalculationTask] = []

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        self.tasks.append(task)
        word = self.words.pop(0) if self.words else "run"
        if word == "kill":
            raise Killed
        if word == "run":
            return await self.inner.run(task)
        if word.startswith("committed "):
            await self.inner.run(task)
            word = word.removeprefix("committed ")
        return Failure(kind=FailureKind(word), message=f"{word} at {task.attempt}")


@dataclass(kw_only=True)
class State(GraphState):
    calculation: Calculation[Any, Any] = stubborn
    value: Model = field(default_factory=lambda: Number(x=2))
    late: str = ""
    """Lane that asks only when the other one has asked."""
    answered: asyncio.Event | None = None
    """If given, the late lane waits for it: the other one sets it once it has its answer."""


class Try(Node[State, float]):
    async def run(self, ctx: Context[State]) -> End[float]:
        if ctx.position.lane.endswith(ctx.state.late or "nobody"):
            await (ctx.state.answered.wait() if ctx.state.answered else asyncio.sleep(0.05))
        outcome = await ctx.compute(ctx.state.calculation, ctx.state.value, label="a try")
        if ctx.state.answered:
            ctx.state.answered.set()
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output.y)


class Two(Node[State, float]):
    """Two lanes that ask for the same calculation."""

    async def run(self, ctx: Context[State]) -> End[float]:
        late, answered = ctx.state.late, ctx.state.answered
        parts = need_all(await ctx.fan_out(GRAPH, {key: State(late=late, answered=answered) for key in ("a", "b")}))
        return End(sum(parts.values()))


GRAPH = Graph(id="g", version="1", state_type=State, nodes=[Try], start=Try)
TWINS = Graph(id="twins", version="1", state_type=State, nodes=[Two], start=Two)


class CountingRecorder(RunRecorder):
    durable: list[str]

    async def record(self, record: Any, *, durable: bool = True) -> None:
        if durable:
            self.durable.append(record.kind)
        await super().record(record, durable=durable)


@dataclass
class Session:
    outcome: Outcome[Any] | None
    tasks: list[CalculationTask]
    durable: list[str]

    @property
    def attempts(self) -> list[int]:
        return [task.attempt for task in self.tasks]


def session(
    run: Run, *words: str, graph: Graph = GRAPH, state: Callable[[], State] = State, retry: bool = True
) -> Session:
    """One controller's life: as a resume, it first invalidates what a plain one would."""
    tasks: list[CalculationTask] = []
    durable: list[str] = []

    async def main() -> Outcome[Any]:
        async with CountingRecorder(run, make_record=Record) as recorder:
            recorder.durable = durable
            if retry:
                await recorder.invalidate(recorder.plan())
            compute = Script(InlineCompute(recorder.outcomes, artifacts=recorder.artifacts), *words)
            compute.tasks = tasks
            return await run_graph(graph, state(), compute=compute, router=RuleRouter(), recorder=recorder)

    try:
        outcome = asyncio.run(main())
    except Killed:
        return Session(None, tasks, durable)
    return Session(outcome, tasks, durable)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "ladder", job_source=b"{}", job={}, graph="g", graph_version="1")


def test_a_kill_in_the_third_attempt_goes_on_with_the_third(run: Run) -> None:
    first = session(run, "run", "run", "kill")
    assert first.outcome is None
    assert first.attempts == [1, 2, 3]
    assert not plan_resume(run).retries
    second = session(run)
    assert isinstance(second.outcome, Success)
    (task,) = second.tasks
    assert task.attempt == 3
    assert task.settings == first.tasks[2].settings == {"cycles": 200, "shift": 0.3}
    assert task.resources == first.tasks[2].resources


def test_the_death_of_controllers_burns_no_rung_and_the_history_is_whole(run: Run) -> None:
    session(run, "run", "kill")
    for _ in range(5):
        assert session(run, "kill").attempts == [2]
    last = session(run, retry=False)
    assert last.attempts == [2, 3]
    assert last.outcome is not None
    assert last.outcome.ok


def test_a_failure_after_a_kill_tells_of_every_attempt(run: Run) -> None:
    hopeless = lambda: State(value=Number(x=9))  # noqa: E731
    session(run, "run", "run", "kill", state=hopeless)
    last = session(run, state=hopeless)
    assert isinstance(last.outcome, Failure)
    assert [(a.number, dict(a.settings)) for a in last.outcome.history] == [
        (1, {}),
        (2, {"cycles": 200}),
        (3, {"cycles": 200, "shift": 0.3}),
    ]


def test_lost_workers_are_counted_over_all_controllers(run: Run) -> None:
    lost = "worker_lost"
    session(run, lost, lost, "kill")
    session(run, "kill")
    third = session(run, lost, lost)
    assert third.attempts == [3, 4]
    assert isinstance(third.outcome, Failure)
    assert [attempt.kind for attempt in third.outcome.history] == [lost] * 4


def test_a_retry_of_a_final_failure_begins_at_the_foot_of_the_ladder(run: Run) -> None:
    crash = "scf_not_converged"
    failed = session(run, crash, crash, crash)
    assert isinstance(failed.outcome, Failure)
    assert failed.attempts == [1, 2, 3]
    again = session(run)
    assert again.attempts == [1, 2, 3]
    assert dict(again.tasks[0].settings) == {}
    assert again.outcome is not None
    assert again.outcome.ok


def test_a_retry_that_is_killed_goes_on_in_its_own_generation(run: Run) -> None:
    crash = "scf_not_converged"
    session(run, crash, crash, crash)
    assert session(run, crash, "kill").attempts == [1, 2]
    assert session(run, "kill").attempts == [2]
    assert session(run).attempts == [2, 3]


def test_from_a_node_on_the_ladder_is_climbed_anew(run: Run) -> None:
    session(run, "run", "run", "kill")

    async def invalidate() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.invalidate(recorder.plan(from_node="Try"))

    asyncio.run(invalidate())
    assert session(run).attempts == [1, 2, 3]


@pytest.mark.parametrize("leader", ["a", "b"])
def test_lanes_that_share_a_calculation_go_on_together_whoever_leads(run: Run, leader: str) -> None:
    first = session(run, "run", "kill", graph=TWINS, state=lambda: State(late="b"))
    assert [task.lane for task in first.tasks] == ["0.0:a", "0.0:a"]
    second = session(run, graph=TWINS, state=lambda: State(late="b" if leader == "a" else "a"))
    assert [(task.lane, task.attempt) for task in second.tasks] == [(f"0.0:{leader}", 2), (f"0.0:{leader}", 3)]
    assert second.outcome is not None
    assert second.outcome.ok


def test_what_another_lane_asks_for_after_a_final_failure_begins_at_the_foot(run: Run) -> None:
    wrong = ["scf_not_converged"] * 4
    failed = session(run, *wrong, graph=TWINS, state=lambda: State(late="b", answered=asyncio.Event()))
    assert [task.lane[-1] for task in failed.tasks] == ["a", "a", "a", "b", "b", "b"]
    assert failed.attempts == [1, 2, 3, 1, 2, 3]


def test_without_a_failure_nothing_but_the_answer_is_waited_for(run: Run) -> None:
    done = session(run, state=lambda: State(calculation=square))
    assert done.durable == ["compute", "end"]
    assert session(run, state=lambda: State(calculation=square)).durable == []


def test_each_failed_attempt_is_on_disk_before_the_next_one_starts(run: Run) -> None:
    assert session(run).durable == ["ladder", "ladder", "compute", "end"]


def test_the_story_tells_attempts_and_where_a_later_controller_went_on(run: Run) -> None:
    session(run, "run", "run", "kill")
    session(run)
    story = [str(event)[26:] for event in read_run(run.paths.root).story()]
    assert [line for line in story if "attempt" in line] == [
        "a try: attempt 1 handed to the cluster",
        next(line for line in story if "attempt 1 failed" in line),
        "a try: attempt 2 handed to the cluster",
        next(line for line in story if "attempt 2 failed" in line),
        "a try: attempt 3 handed to the cluster",
        "a try: attempt 3 handed to the cluster, going on with the attempts of an earlier controller",
        next(line for line in story if "attempt 3 succeeded" in line),
    ]
    assert "next: level shift" in next(line for line in story if "attempt 2 failed" in line)
    assert not any("superseded" in line for line in story)


@pytest.mark.parametrize("kind", ["timeout", "crash", "worker_lost", "out_of_memory"])
def test_an_outcome_that_was_committed_before_its_process_died_counts(run: Run, kind: str) -> None:
    done = session(run, f"committed {kind}", state=lambda: State(calculation=square))
    assert done.attempts == [1]
    assert done.outcome is not None
    assert done.outcome.ok


def test_a_failure_that_the_calculation_reports_itself_is_no_success(run: Run) -> None:
    failed = session(run, state=lambda: State(calculation=refuse_negative, value=Number(x=-1.0)))
    assert isinstance(failed.outcome, Failure)
    assert failed.attempts == [1]
