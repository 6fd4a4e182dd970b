"""The engine on a run on disk: what is replayed, what is done again, and that a kill anywhere changes nothing."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lane_graphs import BROKEN, GATHERED, STUDY, WATCHED, Asked, Number, StudyState, square

from grafico.calculations import Outcome, Success
from grafico.errors import ReplayMismatch
from grafico.graphs import Graph, InlineCompute, Record, run_graph
from grafico.runs import ResumePlan, Run, RunRecorder, plan_resume, read_run
from grafico.runs.segments import read_journal

NUMBERS = {"a": 1.0, "b": 2.0, "c": 3.0}


def lane_sum(x: float) -> float:
    return x**2 + (10 * x) ** 2 + (10 * x + 1) ** 2


TOTAL = sum(lane_sum(x) for x in NUMBERS.values()) ** 2


class Walked(NamedTuple):
    outcome: Outcome[Any]
    computed: list[float]
    """Inputs that were handed to be computed."""
    questions: int
    plan: ResumePlan


@pytest.fixture(autouse=True)
def nothing_is_broken() -> Iterator[None]:
    BROKEN.clear()
    yield
    BROKEN.clear()


def walk(run: Run, graph: Graph = STUDY, *, numbers: dict[str, float] = NUMBERS, **resume: Any) -> Walked:
    """Run or resume, as a job does."""

    async def scene() -> Walked:
        router = Asked()
        async with RunRecorder(run, make_record=Record) as recorder:
            plan = recorder.plan(**resume)
            await recorder.invalidate(plan)
            for key in resume.get("stale", ()):
                recorder.outcomes.retire(key)
            compute = InlineCompute(recorder.outcomes, calculations=[square], artifacts=recorder.artifacts)
            state = StudyState(numbers=dict(numbers))
            outcome = await run_graph(graph, state, compute=compute, router=router, recorder=recorder)
        return Walked(outcome, [task.input["x"] for task in compute.tasks], router.questions, plan)

    return asyncio.run(scene())


def output(walked: Walked) -> float:
    assert isinstance(walked.outcome, Success), walked.outcome
    return float(walked.outcome.output)


def copy_up_to(run: Run, folder: Path, epoch: int, lines: int) -> Run:
    """Return a copy of a run as a kill would have left it: a segment ends after some lines."""
    shutil.copytree(run.paths.root, folder)
    copy = Run.open(folder)
    for later in copy.paths.segments():
        if later > epoch:
            copy.paths.segment(later).unlink()
    path = copy.paths.segment(epoch)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    return copy


def committed_keys(run: Run) -> set[str]:
    """Return the keys that the journal has an answer of."""
    bodies = [entry.body for entry in read_journal(run.paths).entries]
    return {b["data"]["key"] for b in bodies if b.get("record") == "compute" and b["data"]["status"] == "success"}


@pytest.mark.parametrize("graph", [STUDY, WATCHED, GATHERED], ids=["joined", "as completed", "gathered"])
def test_a_finished_run_is_replayed_without_computing_or_asking(run: Run, graph: Graph) -> None:
    first = walk(run, graph)
    assert output(first) == TOTAL
    assert len(first.computed) >= 10
    again = walk(run, graph)
    assert output(again) == TOTAL
    assert (again.computed, again.questions) == ([], 0)
    assert again.plan.nothing_to_do
    assert read_run(run.paths.root).status == "finished"
    assert (run.paths.results / "total.txt").read_text() == f"{TOTAL}\n"


@pytest.mark.parametrize("graph", [STUDY, WATCHED, GATHERED], ids=["joined", "as completed", "gathered"])
def test_a_kill_after_any_line_of_the_journal_loses_nothing_that_was_committed(
    run: Run, tmp_path: Path, graph: Graph
) -> None:
    walk(run, graph)
    lines = len(run.paths.segment(1).read_bytes().splitlines())
    for count in range(0, lines, 3):
        copy = copy_up_to(run, tmp_path / f"copy{count}", 1, count)
        answered = committed_keys(copy)
        for key in copy_outcomes(copy) - answered:
            copy.paths.outcome(key).unlink()  # these were in flight: nobody has seen an outcome of them
        missing = len(copy_outcomes(run)) - len(answered)
        resumed = walk(copy, graph)
        assert output(resumed) == TOTAL
        assert len(resumed.computed) == missing
        assert resumed.plan.empty


def copy_outcomes(run: Run) -> set[str]:
    return {path.stem for path in run.paths.outcomes.glob("??/*.json")}


def test_outcomes_that_were_committed_but_not_journalled_are_not_computed_again(run: Run, tmp_path: Path) -> None:
    walk(run)
    copy = copy_up_to(run, tmp_path / "copy", 1, 3)
    assert committed_keys(copy) == set()
    assert walk(copy).computed == []


@pytest.mark.parametrize("graph", [STUDY, WATCHED, GATHERED], ids=["joined", "as completed", "gathered"])
def test_a_failed_lane_is_retried_after_the_join_has_been_routed_on(run: Run, graph: Graph) -> None:
    BROKEN.add(2.0)
    first = walk(run, graph)
    assert output(first) == (lane_sum(1.0) + lane_sum(3.0)) ** 2
    assert read_run(run.paths.root).status == "finished_with_failed_lanes"
    BROKEN.clear()
    second = walk(run, graph)
    assert output(second) == TOTAL
    lane = [2.0, 20.0, 21.0]
    after = [sum(lane_sum(x) for x in NUMBERS.values())] + ([lane_sum(2.0)] if graph is WATCHED else [])
    assert sorted(second.computed) == sorted(lane + after)
    assert second.questions == 1
    assert [(retry.lane, retry.node) for retry in second.plan.retries] == [
        ("0.1:b" if graph is GATHERED else "0.0:b", "First")
    ]
    assert not any(at[3:].startswith((":a", ":c")) for ats in second.plan.supersedes.values() for at in ats)
    assert read_run(run.paths.root).status == "finished"
    third = walk(run, graph)
    assert (output(third), third.computed, third.questions) == (TOTAL, [], 0)


@pytest.mark.parametrize("graph", [STUDY, WATCHED, GATHERED], ids=["joined", "as completed", "gathered"])
def test_a_kill_anywhere_in_a_resume_changes_nothing(run: Run, tmp_path: Path, graph: Graph) -> None:
    BROKEN.add(2.0)
    walk(run, graph)
    BROKEN.clear()
    walk(run, graph)
    lines = len(run.paths.segment(2).read_bytes().splitlines())
    for count in range(0, lines + 1, 2):
        resumed = walk(copy_up_to(run, tmp_path / f"copy{count}", 2, count), graph)
        assert output(resumed) == TOTAL
        assert resumed.computed == []


def test_a_failure_in_a_nested_lane_takes_its_own_ancestors_along_and_no_others(run: Run) -> None:
    BROKEN.add(31.0)
    first = walk(run)
    assert output(first) == (lane_sum(1.0) + lane_sum(2.0)) ** 2
    BROKEN.clear()
    plan = plan_resume(run)
    assert [retry.lane for retry in plan.retries] == ["0.0:c/1.0:part1"]
    assert set(plan.lanes) == {"", "0.0:c", "0.0:c/1.0:part1"}
    second = walk(run)
    assert output(second) == TOTAL
    assert sorted(second.computed) == sorted([31.0, TOTAL**0.5])


@pytest.mark.parametrize("broken", [-5.0, -6.0])
def test_what_ran_beside_a_failed_calculation_stays(run: Run, broken: float) -> None:
    BROKEN.add(broken)
    assert not walk(run, GATHERED).outcome.ok
    BROKEN.clear()
    plan = plan_resume(run)
    assert set(plan.lanes) == {""}
    assert set(plan.supersedes) <= {"compute", "end"}
    second = walk(run, GATHERED)
    assert output(second) == TOTAL
    assert sorted(second.computed) == sorted([broken, TOTAL**0.5])


def test_a_lane_that_fails_again_is_told_again(run: Run) -> None:
    BROKEN.add(2.0)
    walk(run)
    again = walk(run)
    assert sorted(again.computed) == [2.0]
    assert plan_resume(run).retries[0].lane == "0.0:b"
    BROKEN.clear()
    assert output(walk(run)) == TOTAL


def test_failures_can_be_kept(run: Run) -> None:
    BROKEN.add(2.0)
    walk(run)
    BROKEN.clear()
    kept = walk(run, keep_failures=True)
    assert kept.computed == []
    assert kept.plan.kept_failures == 1
    assert kept.plan.nothing_to_do
    assert output(kept) == (lane_sum(1.0) + lane_sum(3.0)) ** 2


def test_one_lane_alone_can_be_retried(run: Run) -> None:
    BROKEN.update({1.0, 2.0})
    walk(run)
    BROKEN.clear()
    second = walk(run, lane="b")
    assert output(second) == (lane_sum(2.0) + lane_sum(3.0)) ** 2
    assert second.plan.kept_failures == 1
    assert 1.0 not in second.computed


def test_a_walk_that_failed_altogether_is_taken_up_where_it_failed(run: Run) -> None:
    BROKEN.update(NUMBERS.values())
    first = walk(run)
    assert not first.outcome.ok
    assert read_run(run.paths.root).status == "failed"
    BROKEN.clear()
    assert output(walk(run)) == TOTAL


def test_an_error_in_a_node_is_tried_again_once_the_code_is_mended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("lane_graphs.need_at_least", lambda *_: 1 / 0)
        first = walk(run)
    assert not first.outcome.ok
    assert "ZeroDivisionError" in first.outcome.message
    second = walk(run)
    assert output(second) == TOTAL
    assert second.computed == [TOTAL**0.5]
    assert [retry.what for retry in second.plan.retries] == ["the last step"]


def test_code_that_has_changed_is_reported_and_can_be_walked_again_from_there(run: Run) -> None:
    walk(run)
    changed = {**NUMBERS, "c": 4.0}
    with pytest.raises(ReplayMismatch, match="node First"):
        walk(run, numbers=changed)
    again = walk(run, numbers=changed, lane="c", from_node="First")
    assert output(again) == (lane_sum(1.0) + lane_sum(2.0) + lane_sum(4.0)) ** 2
    assert sorted(again.computed) == sorted([4.0, 40.0, 41.0, output(again) ** 0.5])


def test_walking_again_from_the_first_node_reuses_committed_outcomes(run: Run) -> None:
    walk(run)
    again = walk(run, from_node="Open")
    assert output(again) == TOTAL
    assert again.computed == []
    assert again.questions == 1
    view = read_run(run.paths.root)
    assert view.counts.calculations_reused == view.counts.calculations_done


def test_outcomes_of_other_versions_can_be_computed_anew(run: Run) -> None:
    walk(run)
    key = square.key(Number(x=2.0))
    again = walk(run, stale=[key])
    assert output(again) == TOTAL
    assert again.computed == [2.0]
    assert [(retry.lane, retry.why) for retry in again.plan.retries] == [("0.0:b", "engines have changed since")]
    assert run.paths.outcome(key).with_name(f"{key}.json.superseded").is_file()


def test_a_kill_between_invalidating_and_setting_outcomes_aside_computes_them_anew_all_the_same(run: Run) -> None:
    walk(run)
    stale = [square.key(Number(x=x)) for x in (2.0, 30.0)]

    async def killed() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.invalidate(recorder.plan(stale=stale))
            await recorder.retire(stale[0], "engines have changed since")

    asyncio.run(killed())
    assert not plan_resume(run, stale=stale).nothing_to_do
    again = walk(run, stale=stale)
    assert output(again) == TOTAL
    assert sorted(again.computed) == [2.0, 30.0]
    assert len(list(run.paths.outcomes.rglob("*.superseded*"))) == 2
    assert walk(run).computed == []


def test_many_lanes_are_resumed_quickly(new_run: Callable[[], Run]) -> None:
    run = new_run()
    numbers = {f"m{i}": 1000.0 + i for i in range(60)}
    first = walk(run, numbers=numbers)
    assert output(walk(run, numbers=numbers)) == output(first)
    view = read_run(run.paths.root)
    assert (view.counts.lanes, view.counts.lanes_done) == (180, 180)
