"""The recorder: what it remembers, where it lets results go, and how it leaves a run behind."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from run_children import Energy, Note

from grafico.calculations import Success
from grafico.errors import RunError, StaleController
from grafico.graphs import Position, Record, Recorder
from grafico.runs import Run, RunRecorder, RunStatus, plan_resume, read_holder, read_run


def within(run: Run, scene: Callable[[RunRecorder], Awaitable[Any]], **options: Any) -> Any:
    async def play() -> Any:
        async with RunRecorder(run, make_record=Record, **options) as recorder:
            return await scene(recorder)

    return asyncio.run(play())


def test_it_is_a_recorder_as_graphs_need_one(run: Run) -> None:
    async def scene(recorder: RunRecorder) -> None:
        as_graphs_see_it: Recorder = recorder
        assert as_graphs_see_it.now().endswith("Z")
        assert as_graphs_see_it.entropy() != as_graphs_see_it.entropy()

    within(run, scene)


def test_what_one_controller_recorded_the_next_one_recalls(run: Run) -> None:
    lane = Position("3.0:gas/1.0:conf-002", 2, 1)
    record = Record("value", lane, {"name": "x", "value": [1, 2.5, None, "ω"]})

    async def first(recorder: RunRecorder) -> None:
        assert recorder.recall(lane, "value") is None
        await recorder.record(record, durable=False)
        await recorder.note("attempt", lane, {"number": 1})

    async def second(recorder: RunRecorder) -> None:
        assert recorder.resumed
        assert recorder.recall(lane, "value") == record
        assert recorder.recall(lane, "compute") is None
        assert recorder.recall(lane, "attempt") is None

    within(run, first)
    within(run, second)


def test_what_is_invalidated_is_not_recalled_and_can_be_recorded_anew(run: Run) -> None:
    at = Position("", 0, 0)
    failure = {"kind": "crash", "message": "segmentation fault"}

    async def first(recorder: RunRecorder) -> None:
        await recorder.record(Record("enter", at, {"node": "N", "parameters": {}}), durable=False)
        await recorder.record(
            Record("compute", at, {"name": "c", "key": "ab" * 32, "status": "failure", "failure": failure})
        )

    async def second(recorder: RunRecorder) -> None:
        await recorder.invalidate(recorder.plan())
        assert recorder.recall(at, "compute") is None
        assert recorder.recall(at, "enter") is not None
        await recorder.record(Record("compute", at, {"name": "c", "key": "ab" * 32, "status": "success"}))

    async def third(recorder: RunRecorder) -> None:
        found = recorder.recall(at, "compute")
        assert found is not None
        assert found.data["status"] == "success"
        assert recorder.plan().empty

    for scene in (first, second, third):
        within(run, scene)


def test_a_plan_made_before_or_after_opening_holds_and_a_stale_one_does_not(run: Run) -> None:
    async def record(recorder: RunRecorder) -> None:
        await recorder.record(Record("value", Position("", 0, recorder.epoch), {}))

    async def invalidate_with_a_plan_of_now(recorder: RunRecorder) -> None:
        await recorder.invalidate(plan_resume(run))

    within(run, record)
    old = plan_resume(run)
    within(run, lambda recorder: recorder.invalidate(old))
    within(run, invalidate_with_a_plan_of_now)
    within(run, record)
    with pytest.raises(RunError, match="went on since this plan was made"):
        within(run, lambda recorder: recorder.invalidate(old))


def test_results_are_published_whole_and_for_the_owner(run: Run) -> None:
    async def scene(recorder: RunRecorder) -> None:
        ref = recorder.artifacts.put(b"png", "image/png")
        await recorder.publish("spectrum.csv", b"old\n")
        await recorder.publish("spectrum.csv", b"nm,f\n")
        await recorder.publish("plots/deep/gas.png", ref)

    within(run, scene)
    assert (run.paths.results / "spectrum.csv").read_bytes() == b"nm,f\n"
    assert (run.paths.results / "plots/deep/gas.png").read_bytes() == b"png"
    for path in run.paths.results.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        "a/",
        ".hidden",
        "a/.b",
        "a\\b",
        "a\0b",
        "a\nb",
        "x" * 201,
    ],
)
def test_no_result_leaves_its_folder(run: Run, name: str) -> None:
    with pytest.raises(RunError, match="cannot publish"):
        within(run, lambda recorder: recorder.publish(name, b"x"))
    assert not list(run.paths.results.iterdir())


def test_no_result_leaves_its_folder_through_a_link(run: Run) -> None:
    outside = run.paths.root.parent / "outside"
    outside.mkdir()
    (run.paths.results / "link").symlink_to(outside)
    (run.paths.results / "file.txt").symlink_to(outside / "target.txt")
    with pytest.raises(RunError, match="leads out of"):
        within(run, lambda recorder: recorder.publish("link/x.txt", b"x"))
    within(run, lambda recorder: recorder.publish("file.txt", b"x"))
    assert not list(outside.iterdir())
    assert (run.paths.results / "file.txt").read_bytes() == b"x"


def test_an_artifact_that_was_damaged_is_not_published(run: Run) -> None:
    async def scene(recorder: RunRecorder) -> None:
        ref = recorder.artifacts.put(b"png", "image/png")
        recorder.artifacts.path(ref).write_bytes(b"gnp")
        await recorder.publish("x.png", ref)

    with pytest.raises(RunError, match="damaged"):
        within(run, scene)
    assert not list(run.paths.results.iterdir())


def test_a_run_is_left_as_it_ended_and_unlocked(run: Run) -> None:
    async def unfinished(recorder: RunRecorder) -> None:
        assert Run.open(run.paths.root).manifest.status is RunStatus.RUNNING
        assert read_run(run.paths.root).status is RunStatus.RUNNING
        assert read_holder(run.paths) is not None

    async def finish(recorder: RunRecorder) -> None:
        recorder.outcomes.commit("ab" * 32, Success(output=Energy(hartree=-1.0)))
        at = Position("", 0, 0)
        await recorder.record(Record("compute", at, {"name": "c", "key": "ab" * 32, "status": "success"}))
        await recorder.record(Record("end", Position("", 0, 1), {"status": "success", "result": 1}))

    within(run, unfinished)
    first = Run.open(run.paths.root).manifest
    assert (first.status, first.resumed, first.finished) == (RunStatus.INTERRUPTED, 0, None)
    within(run, finish)
    second = Run.open(run.paths.root).manifest
    assert (second.status, second.resumed, second.started) == (RunStatus.FINISHED, 1, first.started)
    assert second.finished is not None
    assert second.counts["calculations_done"] == 1
    assert read_holder(run.paths) is None


def test_a_walk_that_raises_leaves_the_run_resumable_and_unlocked(run: Run) -> None:
    async def scene(recorder: RunRecorder) -> None:
        await recorder.record(Record("value", Position("", 0, 0), {}), durable=False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        within(run, scene)
    assert read_holder(run.paths) is None
    view = read_run(run.paths.root)
    assert view.status is RunStatus.INTERRUPTED
    assert len(view.chronicle.state) == 1


def test_a_fenced_controller_leaves_lock_and_manifest_to_the_new_one(run: Run) -> None:
    async def scene() -> None:
        old = RunRecorder(run, make_record=Record)
        await old.__aenter__()
        async with RunRecorder(Run.open(run.paths.root), make_record=Record, take_over=True):
            at = Record("value", Position("", 0, 0), {})
            with pytest.raises(StaleController) as caught:
                await old.record(at)
            await old.__aexit__(StaleController, caught.value, None)
            assert read_holder(run.paths) is not None
            assert Run.open(run.paths.root).manifest.status is RunStatus.RUNNING

    asyncio.run(scene())


def test_nothing_can_be_recorded_once_it_is_closed(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Note) as recorder:
            pass
        with pytest.raises(RunError, match="the journal is closed"):
            await recorder.record(Note("value", "@0.0"))

    asyncio.run(scene())
