"""A run as others see it: while it runs, after it, and when something is wrong with it."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from lane_graphs import BROKEN, STUDY, Asked, StudyState, square

from grafico.errors import RunError, RunNotFound
from grafico.graphs import InlineCompute, Position, Record, run_graph
from grafico.runs import Run, RunRecorder, RunStatus, RunWatcher, plan_resume, read_run
from grafico.runs.lock import RunLock


@pytest.fixture(autouse=True)
def nothing_is_broken() -> Iterator[None]:
    BROKEN.clear()
    yield
    BROKEN.clear()


def walk(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.invalidate(plan_resume(run))
            compute = InlineCompute(recorder.outcomes, calculations=[square], artifacts=recorder.artifacts)
            state = StudyState(numbers={"a": 1.0, "b": 2.0})
            await run_graph(STUDY, state, compute=compute, router=Asked(), recorder=recorder)

    asyncio.run(scene())


def test_a_run_that_has_not_begun_is_seen_as_created(run: Run) -> None:
    view = read_run(run.paths.root)
    assert view.status is RunStatus.CREATED
    assert view.counts.flat() == dict.fromkeys(view.counts.flat(), 0)
    assert view.story() == []


def test_a_finished_run_shows_lanes_path_counts_and_versions(run: Run) -> None:
    walk(run)
    view = read_run(run.paths.root)
    assert view.status is RunStatus.FINISHED
    assert view.nodes == ("Open", "Report", "End")
    assert view.result is not None
    assert view.versions == {"arithmetic": "1"}
    lane = view.lane("b")
    assert (lane.path, lane.member, lane.target, lane.state) == ("0.0:b", "b", "lane@1", "success")
    assert lane.nodes == ("First", "Second")
    assert lane.started is not None
    assert lane.ended is not None
    assert lane.ended >= lane.started
    assert view.lane("b/part1").path == "0.0:b/1.0:part1"
    assert (view.counts.lanes, view.counts.lanes_done, view.counts.lanes_failed) == (6, 6, 0)
    assert (view.counts.calculations_done, view.counts.attempts, view.counts.calculations_reused) == (7, 7, 0)
    assert view.problems == ()


def test_the_story_of_a_lane_tells_attempts_routes_and_resumes_with_reasons(run: Run) -> None:
    BROKEN.add(2.0)
    walk(run)
    failed = read_run(run.paths.root)
    assert failed.status is RunStatus.FINISHED_WITH_FAILED_LANES
    assert failed.lane("b").state == "failure"
    assert failed.lane("b").failure is not None
    BROKEN.clear()
    walk(run)
    view = read_run(run.paths.root)
    texts = [str(event) for event in view.story("b")]
    told = "\n".join(texts)
    for part in (
        "entered First",
        "square: attempt 1 handed to the cluster",
        "failed after",
        "not_converged: no square for 2.0; no further attempt",
        "the lane failed: not_converged",
        "resumed:",
        "square in b (not_converged: no square for 2.0)",
        "square succeeded",
        "routed to Second, the only way",
        "opened 2 lanes of square: part0, part1",
        "lane b/part0 ended in success",
        "the lane ended in success",
    ):
        assert part in told, f"{part!r} is not in\n{told}"
    assert [text for text in texts if text.endswith("[superseded]")]
    times = [event.time for event in view.story("b") if event.time]
    assert times == sorted(times)
    root = "\n".join(map(str, view.story()))
    for part in (
        "controller 1 (process",
        "controller 2 (process",
        "routed to Report by model (confidence 1): asked 1 times",
    ):
        assert part in root
    for event in view.story():
        json.dumps(dict(event.data))


def test_vetoes_are_told_with_their_reasons(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            data = {
                "successor": "Hessian",
                "by": "forced",
                "vetoes": {"TDDFT": "unverified geometry: no frequencies yet"},
            }
            await recorder.record(Record("route", Position("", 0, 0), data))

    asyncio.run(scene())
    [event] = [event for event in read_run(run.paths.root).story() if event.kind == "route"]
    assert event.text == "routed to Hessian, the only way; TDDFT was vetoed: unverified geometry: no frequencies yet"


def test_a_lane_that_is_not_there_is_an_error_that_lists_those_that_are(run: Run) -> None:
    walk(run)
    with pytest.raises(RunError, match="no lane 'z'; there are a, b"):
        read_run(run.paths.root).story("z")
    with pytest.raises(RunError, match="'part0' matches 2 lanes"):
        read_run(run.paths.root).lane("part0")


def test_a_watcher_sees_a_run_go_on_and_begin_anew(run: Run) -> None:
    watcher = RunWatcher(run.paths.root)
    assert watcher.poll().status is RunStatus.CREATED

    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            at = Position("", 0, 0)
            await recorder.record(Record("enter", at, {"node": "Open", "parameters": {}}))
            await recorder.record(Record("lanes", at, {"target": "lane", "keys": ["a", "b"]}))
            await recorder.record(Record("enter", Position("0.0:a", 0, 0), {"node": "First", "parameters": {}}))
            await recorder.note(
                "start", Position("0.0:a", 0, 0), {"name": "square", "label": "square · a", "attempt": 1}
            )
            await recorder.flush()
            view = watcher.poll()
            assert view.status is RunStatus.RUNNING
            assert view.holder is not None
            assert [lane.state for lane in view.lanes.values()] == ["running", "pending"]
            assert view.running == ("square · a",)
            await recorder.record(Record("lane_end", Position("0.0:a", 0, 1), {"status": "success"}))
            with run.paths.segment(1).open("ab") as file:
                file.write(b'{"n":7,"crc"')
            assert watcher.poll().lane("a").state == "success"

    asyncio.run(scene())
    view = watcher.poll()
    assert view.status is RunStatus.INTERRUPTED
    assert view.holder is None
    assert view.running == ()

    async def again() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.record(Record("end", Position("", 0, 1), {"status": "success", "result": 7}))
            view = watcher.poll()
            assert view.result == 7
            assert view.lane("b").state == "cancelled"
            assert any("torn last line" in problem for problem in view.problems)

    asyncio.run(again())
    assert watcher.poll().status is RunStatus.FINISHED
    assert watcher.poll().counts == read_run(run.paths.root).counts


def test_a_run_whose_controller_was_killed_is_seen_as_interrupted(run: Run) -> None:
    lock = RunLock(run.paths, environ={})
    lock.acquire()
    holder = json.loads(run.paths.controller.read_text())
    boot, namespace, _ = holder["start"].split(".")
    run.paths.controller.write_text(json.dumps({**holder, "start": f"{boot}.{namespace}.1"}))
    run.update(status=RunStatus.RUNNING)
    assert read_run(run.paths.root).status is RunStatus.INTERRUPTED


def test_what_is_no_run_is_said_so(run: Run) -> None:
    with pytest.raises(RunNotFound):
        read_run(run.paths.journal)


def test_a_clock_that_steps_back_spoils_neither_run_nor_views(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from grafico.cli.main import app

    seconds = itertools.count(2_000_000_000, -3600)
    monkeypatch.setattr("grafico.runs.recorder.time", SimpleNamespace(time=lambda: float(next(seconds))))
    monkeypatch.setattr("grafico.runs.recorder.utc_now", lambda: datetime.fromtimestamp(next(seconds), UTC).isoformat())
    BROKEN.add(2.0)
    walk(run)
    BROKEN.clear()
    walk(run)
    view = read_run(run.paths.root)
    assert view.status is RunStatus.FINISHED
    assert (view.manifest.started or "") > (view.manifest.finished or "")
    times = [event.time for event in view.story() if event.kind == "enter"]
    assert times == sorted(times, reverse=True)
    assert [event.text for event in view.story()][-1] == "the run ended in success"
    for command in ("list", "show", "explain", "logs"):
        given = [
            command,
            *([] if command == "list" else [str(run.paths.root)]),
            "--runs-dir",
            str(run.paths.root.parent),
        ]
        for options in ([], ["--json"]):
            said = CliRunner().invoke(app, [*given, *options], catch_exceptions=False)
            assert said.exit_code == 0, said.stderr
