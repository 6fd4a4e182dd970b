"""Lanes of controllers on one cluster that stays up: what they share, and how they come through each break."""

import asyncio
import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import calculations_for_tests as cases
import psutil
import pytest
from calculations_for_tests import Number
from standing import PROFILE

from grafico.cluster import Profile, open_cluster, sending
from grafico.cluster.certificates import issue
from grafico.cluster.connection import ClusterFolder, find_connection
from grafico.cluster.launch import last_words
from grafico.cluster.lifecycle import ask, start_server, stop_server, stopped
from grafico.errors import ClusterLost, ProfileError
from grafico.runs import RunPaths, StartLog, read_starts


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A cluster that the tests of this module share."""
    folder = tmp_path_factory.mktemp("shared")
    leases = folder / "leases"
    leases.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAFICO_LEASES", str(leases))
        connection = start_server(Profile.model_validate({"name": "shared", **PROFILE}), folder / "cluster")
    yield connection
    stop_server(connection)


@pytest.fixture
def profile(server):
    return Profile(kind="connect", name="joined", connect=server.folder)


@pytest.fixture
def on_shared(profile, paths):
    """Run ``await use(cluster)`` as a controller of the shared cluster."""

    def run(use, *more_paths):
        async def main():
            async with open_cluster(profile, paths.root) as cluster:
                return await use(cluster)

        return asyncio.run(main())

    return run


async def until(path: Path) -> str:
    for _ in range(6000):
        if path.exists() and path.read_text():
            return path.read_text()
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was not written")


def host_of(server) -> psutil.Process:
    children = psutil.Process(server.server.pid).children()
    return next(child for child in children if "grafico.cluster.host" in child.cmdline())


def test_lanes_run_where_they_should_and_tell_where_from(on_shared, task, paths, server):
    async def use(cluster):
        lanes = [task(cases.double, Number(value=n)) for n in range(10)]
        lanes += [task(cases.double, Number(value=n), resources={"gpu": "slot"}) for n in range(20, 24)]
        return await asyncio.gather(*map(cluster.run, lanes))

    outcomes = on_shared(use)
    assert [outcome.output.value for outcome in outcomes] == [2 * n for n in [*range(10), *range(20, 24)]]
    starts = read_starts(paths)
    assert {start.worker for start in starts} == {"cpu", "gpu-0"}
    assert {start.cluster for start in starts} == {server.id}
    assert {start.process.host for start in starts} == {server.server.host}


def test_what_nobody_can_ever_run_is_refused_by_what_the_cluster_has(on_shared, task):
    async def use(cluster):
        return await cluster.run(task(cases.double, Number(), resources={"cpus": 64}))

    outcome = on_shared(use)
    assert outcome.kind == "refused"
    assert "2 CPUs" in outcome.message


def test_a_cluster_of_other_versions_is_refused_with_what_differs(server, paths, tmp_path):
    said = json.loads(Path(server.folder, "cluster.json").read_text())
    said["versions"]["pydantic"] = "1.0"
    (tmp_path / "cluster.json").write_text(json.dumps(said))

    async def main():
        async with open_cluster(Profile(kind="connect", connect=str(tmp_path)), paths.root):
            pass

    with pytest.raises(ProfileError, match=r"does not fit this installation: pydantic 1\.0 there"):
        asyncio.run(main())


def test_a_stale_folder_names_the_server_that_has_ended(server, paths, tmp_path):
    said = json.loads(Path(server.folder, "cluster.json").read_text())
    said["server"]["start"] = said["server"]["start"].rpartition(".")[0] + ".1"
    (tmp_path / "cluster.json").write_text(json.dumps(said))
    with pytest.raises(ProfileError, match=r"its server, process .* has ended"):
        find_connection(str(tmp_path))


def test_cancelling_a_lane_ends_its_process_although_the_cluster_keeps_what_is_left(on_shared, task, tmp_path, helpers):
    mark = tmp_path / "pids"

    async def use(cluster):
        running = asyncio.create_task(cluster.run(task(cases.with_program, Number(seconds=60, file=str(mark)))))
        await until(mark)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return await cluster.run(task(cases.double, Number(value=4)))

    assert on_shared(use).ok
    helpers.wait_until(lambda: not any(helpers.alive(int(pid)) for pid in mark.read_text().split()))


def test_ending_a_controller_in_order_ends_what_it_had_sent(on_shared, task, tmp_path, helpers, server):
    mark = tmp_path / "pids"

    async def use(cluster):
        running = asyncio.create_task(cluster.run(task(cases.with_program, Number(seconds=60, file=str(mark)))))
        await until(mark)
        return running

    on_shared(use)
    helpers.wait_until(lambda: not any(helpers.alive(int(pid)) for pid in mark.read_text().split()))
    assert ask(server, "status")["left"] == {}


def test_a_broken_connection_is_made_again_and_nothing_is_computed_twice(on_shared, task, paths, tmp_path):
    marks = [tmp_path / f"pid-{n}" for n in range(2)]

    async def use(cluster):
        lanes = [
            asyncio.create_task(cluster.run(task(cases.sleep, Number(value=n, seconds=1.5, file=str(mark)))))
            for n, mark in enumerate(marks)
        ]
        for mark in marks:
            await until(mark)
        cluster._link.client.scheduler_comm.comm.abort()  # as if the network had dropped it
        after = [task(cases.double, Number(value=n)) for n in range(5, 8)]
        return await asyncio.gather(*lanes, *map(cluster.run, after))

    outcomes = on_shared(use)
    assert all(outcome.ok for outcome in outcomes), outcomes
    assert [outcome.output.value for outcome in outcomes] == [0.0, 1.0, 10.0, 12.0, 14.0]
    starts = read_starts(paths)
    assert len(starts) == 5
    assert {start.status for start in starts} == {"success"}


def test_what_a_controller_left_is_found_by_the_next_one_and_the_rest_is_ended(profile, task, paths, tmp_path, helpers):
    marks = [tmp_path / f"pid-{n}" for n in range(2)]
    kept = task(cases.sleep, Number(value=1, seconds=2.0, file=str(marks[0])))
    unwanted = task(cases.with_program, Number(value=2, seconds=60, file=str(marks[1])))

    async def first():
        async with open_cluster(profile, paths.root) as cluster:
            for each in (kept, unwanted):
                asyncio.create_task(cluster.run(each))  # noqa: RUF006 - it is left on purpose
            for mark in marks:
                await until(mark)
            cluster.kill = cluster.leave  # goes without a word, as a killed process does

    async def second():
        async with open_cluster(profile, paths.root) as cluster:
            # Twice the same is one calculation, also when it was found.
            return await asyncio.gather(cluster.run(kept), cluster.run(kept), cluster.run(task(cases.double, Number())))

    asyncio.run(first())
    outcomes = asyncio.run(second())
    assert [outcome.output.value for outcome in outcomes] == [1.0, 1.0, 0.0]
    starts = {start.key: start.status for start in read_starts(paths)}
    assert starts[kept.key] == "success"
    assert len(read_starts(paths)) == 3
    helpers.wait_until(lambda: not any(helpers.alive(int(pid)) for pid in marks[1].read_text().split()))


def test_what_ended_while_no_controller_was_there_is_not_computed_again(profile, task, paths, tmp_path, helpers):
    mark = tmp_path / "pid"
    short = task(cases.sleep, Number(value=3, seconds=0.5, file=str(mark)))

    async def first():
        async with open_cluster(profile, paths.root) as cluster:
            asyncio.create_task(cluster.run(short))  # noqa: RUF006 - it is left on purpose
            await until(mark)
            cluster.kill = cluster.leave

    async def second():
        async with open_cluster(profile, paths.root) as cluster:
            return await cluster.run(short)

    asyncio.run(first())
    helpers.wait_until(lambda: read_starts(paths)[0].status == "success")
    assert asyncio.run(second()).output.value == 3.0
    assert len(read_starts(paths)) == 1


@pytest.mark.parametrize("victim", ["host", "worker"])
def test_a_host_that_ends_in_order_costs_no_attempt_and_a_lost_worker_does(victim, on_shared, task, paths, server):
    mark = paths.root / "pid"

    async def use(cluster):
        lane = asyncio.create_task(cluster.run(task(cases.sleep, Number(value=5, seconds=3, file=str(mark)))))
        child = psutil.Process(int(await until(mark)))
        if victim == "worker":
            child.parent().kill()
        else:
            host_of(server).send_signal(signal.SIGTERM)
        return await lane

    outcome = on_shared(use)
    if victim == "worker":
        assert outcome.kind == "worker_lost"
        assert len(read_starts(paths)) == 1
    else:
        assert outcome.ok
        assert len(read_starts(paths)) == 2


@pytest.mark.parametrize("off", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_a_lost_worker_costs_an_attempt_whatever_its_clock_says(off, on_shared, task, paths, monkeypatch):
    mark = paths.root / "pid"
    # Of this controller; the workers' clocks are right.
    monkeypatch.setattr(sending, "time", SimpleNamespace(time=lambda: time.time() + off))
    lost = task(cases.sleep, Number(value=7, seconds=20, file=str(mark)))
    StartLog(paths).start(lost.key, lost.attempt, worker="of an earlier controller")

    async def use(cluster):
        lane = asyncio.create_task(cluster.run(lost))
        psutil.Process(int(await until(mark))).parent().kill()
        return await lane

    assert on_shared(use).kind == "worker_lost"
    assert len(read_starts(paths)) == 2


def test_a_calculation_that_is_ended_with_all_of_its_job_costs_no_attempt(on_shared, task, paths, tmp_path, server):
    """Slurm sends its signal to every process of a job: the calculation may be dead before its host can say why."""
    mark = tmp_path / "pid"

    async def use(cluster):
        lane = asyncio.create_task(cluster.run(task(cases.sleep, Number(value=6, seconds=3, file=str(mark)))))
        pid = int(await until(mark))
        host = host_of(server)
        for process in [psutil.Process(pid), *host.children(), host]:
            process.send_signal(signal.SIGTERM)
        return await lane

    assert on_shared(use).ok
    assert len(read_starts(paths)) == 2


def test_workers_that_do_not_start_end_the_run_with_what_they_said(task, paths, tmp_path):
    pool = {"name": "cpu", "cpus": 1, "memory_mib": 4000, "environment": {"PYTHONMALLOC": "none"}}
    connection = start_server(Profile.model_validate({"name": "ill", "pools": [pool]}), tmp_path / "ill")
    said: list[str] = []

    async def main():
        joined = Profile(kind="connect", connect=connection.folder)
        async with open_cluster(joined, paths.root, say=said.append) as cluster:
            outcome = await cluster.run(task(cases.double, Number()))
            raise AssertionError(outcome)

    try:
        with pytest.raises(ProfileError, match=r"no hosts for pool 'cpu'.*no worker starts here"):
            asyncio.run(main())
    finally:
        stop_server(connection)
    assert any("waiting for a worker: pool cpu" in line for line in said)


def test_a_cluster_of_one_run_ends_by_itself_a_while_after_its_controller(task, paths, tmp_path, helpers):
    pool = {"name": "cpu", "cpus": 1, "memory_mib": 4000}
    bare = Profile.model_validate({"name": "bare", "security": "none", "pools": [pool]})
    connection = start_server(bare, tmp_path / "bare", linger_s=1.0)
    said: list[str] = []

    async def main():
        joined = Profile(kind="connect", connect=connection.folder)
        async with open_cluster(joined, paths.root, say=said.append) as cluster:
            return await cluster.run(task(cases.double, Number(value=2)))

    assert asyncio.run(main()).ok
    assert connection.scheduler.startswith("tcp://127.0.0.1:")
    assert any("no security" in line for line in said)
    helpers.wait_until(lambda: stopped(connection), 30, "the end of the server")
    assert not Path(connection.folder, "cluster.json").exists()


def test_a_cluster_whose_folder_was_removed_ends(tmp_path, helpers):
    pool = {"name": "cpu", "cpus": 1, "memory_mib": 4000}
    connection = start_server(Profile.model_validate({"name": "orphan", "pools": [pool]}), tmp_path / "orphan")
    started = psutil.Process(connection.server.pid)
    family = [started, *started.children(recursive=True)]
    shutil.rmtree(connection.folder)
    helpers.wait_until(lambda: not any(helpers.alive(process.pid) for process in family), 40, "the end of all of it")


def test_a_host_told_to_end_while_its_server_is_silent_does_so_before_it_is_killed(tmp_path, monkeypatch, helpers):
    """Slurm's signal reaches workers and host alike, and a few seconds later whoever is left is killed."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    pool = {"name": "cpu", "cpus": 1, "memory_mib": 4000}
    connection = start_server(Profile.model_validate({"name": "silent", "pools": [pool]}), tmp_path / "silent")
    try:
        helpers.wait_until(lambda: ask(connection, "status")["workers"], 40, "a worker")
        host, silent = host_of(connection), psutil.Process(connection.server.pid)
        silent.suspend()
        for process in [*host.children(), host]:
            process.send_signal(signal.SIGTERM)
        helpers.wait_until(lambda: not helpers.alive(host.pid), 8, "the end of the host")
        helpers.wait_until(lambda: not list(scratch.iterdir()), 2, "the end of its scratch folder")
        assert (tmp_path / "silent" / "logs" / "cpu.log").read_text().count("worker cpu is up") == 1
        silent.resume()
    finally:
        stop_server(connection)


def test_certificates_are_kept_only_where_nobody_else_can_read(tmp_path):
    folder = tmp_path / "tls"
    folder.mkdir(mode=0o750)
    with pytest.raises(ProfileError, match="only you can read"):
        issue(folder)
    folder.chmod(0o700)
    issue(folder)
    issue(folder)  # anew, in place of the old ones
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "ca.pem": 0o600,
        "node.pem": 0o600,
        "node.key": 0o600,
    }


def test_a_link_in_a_cluster_folder_is_refused_and_what_it_leads_to_keeps_its_permissions(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    elsewhere.chmod(0o755)
    for name in ("tls", "hosts", "logs"):
        place = tmp_path / f"with-{name}"
        place.mkdir()
        (place / name).symlink_to(elsewhere)
        with pytest.raises(ProfileError, match="not a folder of yours"):
            ClusterFolder(place).create()
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(ProfileError, match="not a folder of yours"):
        ClusterFolder(tmp_path / "link").create()
    assert elsewhere.stat().st_mode & 0o777 == 0o755
    assert not list(elsewhere.iterdir())


def test_who_others_are_cannot_be_read_from_where_clusters_are(tmp_path):
    place = ClusterFolder(tmp_path / "state" / "clusters" / "mine")
    place.create()
    made = [place.root, *list(place.root.parents)[:2], place.tls, place.logs, place.hosts]
    assert {folder.stat().st_mode & 0o777 for folder in made} == {0o700}


def test_of_what_ended_without_a_word_on_a_full_disk_people_are_told_that_it_is_full(tmp_path, monkeypatch):
    assert last_words(tmp_path) == "their logs say nothing"
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert last_words(tmp_path) == f"their logs say nothing: the disk of {tmp_path} is full (4 KiB free)"
    (tmp_path / "gpu.log").write_text("something else\n")
    assert last_words(tmp_path) == "the log of gpu ends: something else"


def test_the_end_of_the_cluster_is_an_error_and_no_outcome(task, paths, tmp_path):
    mark = tmp_path / "pid"
    own = Profile.model_validate({"name": "own", "pools": [{"name": "cpu", "cpus": 1, "memory_mib": 4000}]})
    connection = start_server(own, tmp_path / "own")

    async def main():
        async with open_cluster(Profile(kind="connect", connect=connection.folder), paths.root) as cluster:
            lane = asyncio.create_task(cluster.run(task(cases.sleep, Number(seconds=60, file=str(mark)))))
            waiting = asyncio.create_task(cluster.run(task(cases.double, Number())))
            await until(mark)
            os.kill(connection.server.pid, signal.SIGKILL)
            return await asyncio.gather(lane, waiting, return_exceptions=True)

    ended = asyncio.run(main())
    assert all(isinstance(each, ClusterLost) for each in ended), ended
    assert RunPaths(paths.root).root.exists()
