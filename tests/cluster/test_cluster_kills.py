"""Processes that are ended or die: what the caller hears, what survives, and what does not."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number

from grafico.calculations import FailureKind
from grafico.cluster import Pool, Profile, dask_cluster, scheduler
from grafico.runs import read_starts

TWO = Profile(name="two", pools=(Pool(name="cpu", cpus=2, memory_mib=8000),))
ONE = Profile(name="one", pools=(Pool(name="cpu", cpus=1, memory_mib=8000),))


async def until(path: Path) -> str:
    for _ in range(6000):
        if path.exists() and path.read_text():
            return path.read_text()
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was not written")


@pytest.mark.parametrize("calculation", [cases.sleep, cases.sleep_in_c, cases.with_program], ids=lambda c: c.name)
def test_a_calculation_past_its_walltime_ends_and_frees_its_slot(calculation, on_cluster, task, paths, helpers):
    mark = paths.root / "pids"

    async def use(cluster):
        await cluster.run(task(cases.double, Number(value=0)))  # the process is warm
        late = task(calculation, Number(seconds=60, file=str(mark)), resources={"walltime_s": 1.0})
        first = asyncio.create_task(cluster.run(late))
        await until(mark)
        return await asyncio.gather(first, cluster.run(task(cases.double, Number(value=1))))

    timed_out, after = on_cluster(use, ONE)
    assert timed_out.kind == FailureKind.TIMEOUT
    assert after.ok
    assert not any(helpers.alive(int(pid)) for pid in mark.read_text().split())
    late, following = read_starts(paths)[-2:]
    assert late.status == "timeout"
    assert late.ended - late.started < 1.0 + 2.0  # what the specification allows
    assert following.started >= late.ended
    assert "walltime" in paths.lane_log("").read_text()


def test_a_crash_is_an_outcome_and_neighbours_live_on(on_cluster, task, paths):
    async def use(cluster):
        neighbour = asyncio.create_task(cluster.run(task(cases.sleep, Number(seconds=2))))
        crash = await cluster.run(task(cases.segfault, Number(seconds=0.2)))
        again = await cluster.run(task(cases.double, Number(value=4)))
        return crash, again, await neighbour

    crash, again, neighbour = on_cluster(use, TWO)
    assert (crash.kind, crash.signal) == (FailureKind.CRASH, signal.SIGSEGV)
    assert again.ok
    assert neighbour.ok
    log = paths.lane_log("").read_text()
    assert "about to crash" in log
    assert "Segmentation fault" in log
    assert "in segfault" in log  # where


def test_a_process_that_leaves_quietly_has_crashed(on_cluster, task):
    outcome = on_cluster(lambda cluster: cluster.run(task(cases.exit_quietly, Number())), ONE)
    assert outcome.kind == FailureKind.CRASH
    assert "exit status 0" in outcome.message


def test_a_process_that_died_after_its_commit_has_succeeded(on_cluster, task, paths):
    outcome = on_cluster(lambda cluster: cluster.run(task(cases.commit_then_die, Number())), ONE)
    assert outcome.ok
    assert outcome.output.value == 7.0
    assert [start.status for start in read_starts(paths)] == ["success"]


def test_a_process_above_its_memory_share_is_ended(on_cluster, task):
    async def use(cluster):
        outcome = await cluster.run(task(cases.hog, Number()))
        return outcome, await cluster.run(task(cases.double, Number()))

    outcome, after = on_cluster(use, ONE)
    assert outcome.kind == FailureKind.OUT_OF_MEMORY
    assert 300 < outcome.details["resident_mib"] < 1200
    assert after.ok


def test_what_one_calculation_left_in_memory_is_not_held_against_the_next(on_cluster, task):
    async def use(cluster):
        first = await cluster.run(task(cases.leaves_memory, Number(value=1), resources={"memory_mib": 2000}))
        second = await cluster.run(task(cases.double, Number(value=2), resources={"memory_mib": 300}))
        third = await cluster.run(task(cases.double, Number(value=3), resources={"memory_mib": 300}))
        return first, second, third

    first, second, third = on_cluster(use, ONE)
    assert first.ok
    assert second.ok
    assert first.output.pid != second.output.pid == third.output.pid


def test_cancelling_ends_the_process(on_cluster, task, tmp_path, helpers):
    mark = tmp_path / "pids"

    async def use(cluster):
        running = asyncio.create_task(cluster.run(task(cases.with_program, Number(seconds=60, file=str(mark)))))
        waiting = asyncio.create_task(cluster.run(task(cases.sleep, Number(seconds=60))))
        await until(mark)
        waiting.cancel()
        running.cancel()
        ended = await asyncio.gather(running, waiting, return_exceptions=True)
        after = await cluster.run(task(cases.double, Number(value=2)))
        return ended, after

    ended, after = on_cluster(use, ONE)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    assert after.ok
    helpers.wait_until(lambda: not any(helpers.alive(int(pid)) for pid in mark.read_text().split()))


def test_cancelling_one_of_two_lanes_leaves_the_calculation_to_the_other(on_cluster, task, tmp_path):
    mark = tmp_path / "pid"

    async def use(cluster):
        order = task(cases.sleep, Number(seconds=1, file=str(mark)))
        one, other = (asyncio.create_task(cluster.run(order)) for _ in range(2))
        await until(mark)
        one.cancel()
        return await other

    assert on_cluster(use, ONE).ok


def test_draining_lets_what_runs_finish_and_starts_nothing_more(on_cluster, task, paths, tmp_path):
    mark = tmp_path / "pid"

    async def use(cluster):
        running = asyncio.create_task(cluster.run(task(cases.sleep, Number(seconds=1, file=str(mark)))))
        waiting = asyncio.create_task(cluster.run(task(cases.double, Number())))
        await until(mark)
        await cluster.drain()
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await cluster.kill()
        await asyncio.gather(waiting, return_exceptions=True)
        return await running, waiting.cancelled()

    outcome, cancelled = on_cluster(use, ONE)
    assert outcome.ok
    assert cancelled
    assert len(read_starts(paths)) == 1


def test_a_lost_worker_is_an_outcome_and_is_replaced(on_cluster, task, paths, tmp_path, helpers):
    mark = tmp_path / "pids"

    async def use(cluster):
        lost = asyncio.create_task(cluster.run(task(cases.with_program, Number(seconds=60, file=str(mark)))))
        waiting = asyncio.create_task(cluster.run(task(cases.double, Number(value=3))))
        child = int((await until(mark)).split()[0])
        worker = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(worker, signal.SIGKILL)
        outcome = await lost
        return outcome, await waiting

    outcome, after = on_cluster(use, ONE)
    assert outcome.kind == FailureKind.WORKER_LOST
    assert after.ok
    assert not any(helpers.alive(int(pid)) for pid in mark.read_text().split())
    assert [start.status for start in read_starts(paths)] == ["", "success"]


def test_a_pause_of_everything_costs_no_worker(on_cluster, task, paths, tmp_path, monkeypatch):
    """As a laptop that sleeps: the scheduler has heard nothing of its workers for longer than they may be silent."""
    monkeypatch.setitem(dask_cluster.CONFIG, "distributed.scheduler.worker-ttl", "1s")
    monkeypatch.setattr(scheduler, "STALL_S", 3.0)
    mark = tmp_path / "pid"

    def pause(worker):
        os.kill(worker, signal.SIGSTOP)
        time.sleep(6.0)  # Dask gives no worker less than 5 s
        os.kill(worker, signal.SIGCONT)

    async def use(cluster):
        running = asyncio.create_task(cluster.run(task(cases.sleep, Number(seconds=7, file=str(mark)))))
        child = int(await until(mark))
        worker = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        asyncio.get_running_loop().call_soon(pause, worker)
        return await running

    outcome = on_cluster(use, ONE)
    assert outcome.ok, outcome
    assert [start.status for start in read_starts(paths)] == ["success"]


CONTROLLER = """
import asyncio, sys
from pathlib import Path
import calculations_for_tests as cases
from grafico.cluster import Pool, Profile, open_cluster

async def main():
    root, mark = Path(sys.argv[1]), sys.argv[2]
    profile = Profile(name="three", pools=(Pool(name="cpu", cpus=3, memory_mib=8000),))
    async with open_cluster(profile, root) as cluster:
        await asyncio.gather(
            cluster.run(cases.sleep_in_c.task(cases.Number(seconds=60, file=mark + ".c"))),
            cluster.run(cases.with_program.task(cases.Number(seconds=60, file=mark + ".program"))),
        )

asyncio.run(main())
"""


def test_nothing_survives_a_killed_controller(paths, tmp_path, helpers):
    tag = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {
        **os.environ,
        "GRAFICO_TEST_TAG": tag,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-c", CONTROLLER, str(paths.root), str(tmp_path / "pids")]
    controller = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        for suffix in ("c", "program"):
            mark = tmp_path / f"pids.{suffix}"
            helpers.wait_until(lambda m=mark: m.exists() and m.read_text(), 60, "the start of a calculation")
        assert len(helpers.marked(tag)) >= 5  # controller, worker, two processes, a program
        controller.kill()
        controller.wait()
        helpers.wait_until(lambda: not helpers.marked(tag), 3.0, "the end of all processes")
    finally:
        for pid in helpers.marked(tag):
            os.kill(pid, signal.SIGKILL)
