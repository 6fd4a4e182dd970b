"""The whole story of a lane: attempts with what changed, where they ran and how long they waited, and what a resume does."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from lane_graphs import BROKEN, STUDY, Asked, StudyState, square

from grafico.calculations import CalculationTask, Failure, FailureKind, Outcome, Resources, Rung, Success
from grafico.cli.explain import _lines
from grafico.graphs import InlineCompute, Position, Record, run_graph
from grafico.runs import Run, RunRecorder, Started, StartLog, plan_resume, read_run
from grafico.runs.explain import Explanation, explain, explain_all

NEEDS = Resources(gpu="slot", gpu_memory_mib=4000, walltime_s=60)


@pytest.fixture(autouse=True)
def nothing_is_broken() -> Iterator[None]:
    BROKEN.clear()
    yield
    BROKEN.clear()


class Workers:
    """Computes in this process, and records starts as workers do; the first attempts at some numbers run out of memory."""

    def __init__(self, recorder: RunRecorder, run: Run, failures: dict[float, int]) -> None:
        self.inner = InlineCompute(recorder.outcomes, calculations=[square], artifacts=recorder.artifacts)
        self.log = StartLog(run.paths)
        self.failures = dict(failures)
        self.numbers = itertools.count()

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        started = self.log.start(
            task.key, task.attempt, lane=task.lane, label=task.label, worker=f"gpu-{next(self.numbers) % 2}",
            gpu="GPU-7", slot="2", slurm_job="4242",
        )  # fmt: skip
        number = float(task.input["x"])
        outcome: Outcome[Any]
        if self.failures.get(number, 0) > 0:
            self.failures[number] -= 1
            outcome = Failure(kind=FailureKind.OUT_OF_MEMORY, message="the card is full")
        else:
            outcome = await self.inner.run(task)
        self.log.end(started, "success" if isinstance(outcome, Success) else str(outcome.kind))
        return outcome


def walk(run: Run, failures: dict[float, int] | None = None, workers: type[Workers] = Workers) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.invalidate(plan_resume(run))
            state = StudyState(numbers={"a": 1.0, "b": 2.0})
            compute = workers(recorder, run, failures or {})
            await run_graph(STUDY, state, compute=compute, router=Asked(), recorder=recorder)

    asyncio.run(scene())


def test_each_attempt_is_told_with_its_place_and_what_the_ladder_changed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rungs = (Rung(note="a whole GPU", gpu="exclusive", scale_memory=2.0, settings={"grid": 2}),)
    monkeypatch.setitem(square.ladder, FailureKind.OUT_OF_MEMORY, rungs)  # type: ignore[arg-type]
    object.__setattr__(square, "resource_rule", NEEDS)
    try:
        walk(run, {2.0: 1})
    finally:
        object.__setattr__(square, "resource_rule", Resources())
    view = read_run(run.paths.root)
    told = explain(view, view.lane("b").path)
    first = told.calculations[0]
    assert (first.status, first.name, first.node) == ("success", "square", "First")
    failed, repeated = first.attempts
    assert (failed.status, failed.kind, failed.message) == ("failure", "out_of_memory", "the card is full")
    assert failed.following == "a whole GPU"
    assert failed.changed == {}
    assert repeated.changed == {"grid": 2, "gpu": "exclusive", "memory_mib": 4096}
    assert (repeated.status, repeated.gpu, repeated.slot, repeated.slurm_job) == ("success", "GPU-7", "2", "4242")
    assert "Slurm job 4242" in repeated.where
    assert repeated.waited_s is not None
    assert repeated.waited_s >= 0
    assert repeated.host
    assert told.resume == ("leaves it as it is: what it did is kept",)
    assert [lane.member for lane in told.below] == ["b/part0", "b/part1"]


class Found(Workers):
    """Workers of a cluster that outlives its controller: the first one dies, the next finds what it had begun."""

    begun: ClassVar[dict[str, Started]] = {}
    dying: ClassVar[bool] = True

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        started = self.begun.get(task.key)
        if started is None:
            if not self.dying:
                return await super().run(task)
            self.begun[task.key] = self.log.start(task.key, task.attempt, lane=task.lane, worker="gpu-1", cluster="c")
            raise asyncio.CancelledError
        outcome = await self.inner.run(task)
        self.log.end(started, "success")
        return outcome


def test_what_a_later_controller_found_at_work_is_told_with_its_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Found, "begun", {})
    with pytest.raises(asyncio.CancelledError):
        walk(run, workers=Found)
    left = read_run(run.paths.root)
    (attempt,) = explain(left, left.lane("b").path).calculations[0].attempts
    assert (attempt.status, attempt.worker, attempt.seconds) == ("left", "gpu-1", None)
    monkeypatch.setattr(Found, "dying", False)
    time.sleep(0.05)  # a process that starts within 10 ms of being asked for counts as asked for by this controller
    walk(run, workers=Found)
    view = read_run(run.paths.root)
    first, again = explain(view, view.lane("b").path).calculations[0].attempts
    assert (first.number, again.number) == (1, 1)
    assert (first.status, first.found) == ("success", False)
    assert (again.status, again.found, again.waited_s) == ("success", True, None)
    assert first.seconds == again.seconds is not None
    assert first.where == again.where
    text = "\n".join(_lines(explain(view, view.lane("b").path), deep=False))
    assert "its end is unknown" not in text
    assert (first.heard, again.heard) == (False, True)
    assert text.count("; it succeeded, and no controller heard of it") == 1
    assert "found again, ran " in text


class Held(Workers):
    """Of two calculations side by side, one runs until somebody has looked, and the other gets no worker before."""

    def __init__(self, recorder: RunRecorder, run: Run, looked: list[Explanation]) -> None:
        super().__init__(recorder, run, {})
        self.recorder, self.root, self.looked = recorder, run.paths.root, looked
        self.done = asyncio.Event()

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        if task.lane.endswith("part0"):
            started = self.log.start(task.key, task.attempt, lane=task.lane, worker="gpu-1")
            await self.done.wait()
            outcome = await self.inner.run(task)
            self.log.end(started, "success")
            return outcome
        if task.lane.endswith("part1"):
            await asyncio.sleep(0.05)
            await self.recorder.note("awaits", Position("", 0, 0), {"what": "waiting for a worker: pool cpu"})
            await self.recorder.flush()
            view = read_run(self.root)
            self.looked += [explain(view, view.lane(f"part{number}").path) for number in range(2)]
            self.done.set()
        return await super().run(task)


def test_a_lane_that_waits_is_told_with_what_it_asks_for_and_who_is_before_it(run: Run) -> None:
    looked: list[Explanation] = []

    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            compute = Held(recorder, run, looked)
            await run_graph(STUDY, StudyState(numbers={"a": 1.0}), compute=compute, router=Asked(), recorder=recorder)

    asyncio.run(scene())
    runs, waits = looked
    assert (waits.view.counts.lanes_running, waits.view.counts.lanes_pending) == (3, 0)
    assert runs.state == waits.state == "running"
    assert runs.calculations[0].attempts[0].status == "running"
    assert waits.calculations[0].attempts[0].status == "waiting"
    assert (
        waits.calculations[0].attempts[0].waits == "asks for 1 CPU, 2048 MiB of memory; of this run, 1 calculation is "
        "running; waiting for a worker: pool cpu"
    )
    assert "waits for a worker; asks for 1 CPU" in "\n".join(_lines(waits, deep=False))
    assert waits.resume == ("is not called for: a controller has the run",)


def test_a_lane_of_one_calculation_lasts_from_when_it_was_handed_over(run: Run) -> None:
    class Slow(Workers):
        async def run(self, task: CalculationTask) -> Outcome[Any]:
            await asyncio.sleep(0.05)
            return await super().run(task)

    walk(run, workers=Slow)
    lane = read_run(run.paths.root).lane("a/part0")
    assert lane.started is not None
    assert lane.ended is not None
    assert lane.ended - lane.started >= 0.049


def test_what_a_resume_would_do_is_told_for_the_lane_and_those_below(run: Run) -> None:
    BROKEN.add(2.0)
    walk(run)
    view = read_run(run.paths.root)
    broken = explain(view, view.lane("b").path)
    assert broken.state == "failure"
    assert broken.resume[0].startswith("does again: square in First")
    fine = explain(view, view.lane("a").path)
    assert fine.resume == ("leaves it as it is: what it did is kept",)
    whole = explain(view, "")
    assert any("lane b" in line for line in whole.resume)
    BROKEN.clear()
    walk(run)
    again = read_run(run.paths.root)
    both = explain(again, again.lane("b").path).calculations[0]
    # The attempt that no longer counts is told as well, before the one that does.
    assert [attempt.status for attempt in both.attempts] == ["failure", "success"]


def test_what_was_answered_by_a_committed_outcome_says_so_and_has_no_attempt(run: Run) -> None:
    walk(run)
    view = read_run(run.paths.root)
    stories = explain_all(view, list(view.lanes))
    states = {item.status for told in stories for item in told.calculations}
    assert "success" in states
    assert all(item.attempts or item.status == "reused" for told in stories for item in told.calculations)


def test_what_another_lane_had_computed_is_told_with_that_lane(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            # Lane b begins with the square of 11, for which the second part of lane a asks after its first step.
            state = StudyState(numbers={"a": 1.0, "b": 11.0})
            await run_graph(STUDY, state, compute=Workers(recorder, run, {}), router=Asked(), recorder=recorder)

    asyncio.run(scene())
    view = read_run(run.paths.root)
    told = explain(view, view.lane("a/part1").path)
    assert told.calculations[0].status == "reused"
    assert told.calculations[0].computed.startswith("computed in lane b, started ")
    assert "            computed in lane b, started " in "\n".join(_lines(told, deep=False))


def test_guards_that_forbade_a_way_stand_in_lines_of_their_own() -> None:
    from grafico.runs.story import StoryEvent

    data = {
        "successor": "Next", "by": "rule", "reasoning": "asked for", "confidence": 1.0,
        "vetoes": {"End": "outstanding: more is asked for", "Other": "no"},
    }  # fmt: skip
    lines = StoryEvent(0.0, "@0.1", "route", "", counts=True, data=data).lines
    assert lines == [
        "routed to Next, as the rule says: asked for",
        "vetoed End: outstanding: more is asked for",
        "vetoed Other: no",
    ]
