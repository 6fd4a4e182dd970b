"""NVIDIA's Multi-Process Service, with a program that takes the daemon's place and records what it is asked."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.mps import PROGRAM, let_go, shared_gpus
from grafico.cluster.orphans import Guardian
from grafico.cluster.processes import Processes, ProcessKind
from grafico.errors import ProfileError

STAND_IN = """#!{python} -IS
import json, os, pathlib, signal, subprocess, sys, time
record = pathlib.Path({record!r})
pipe = pathlib.Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"))
names = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
def note(**said):
    with record.open("a") as file:
        file.write(json.dumps(said | {{name: os.environ.get(name) for name in names}}) + "\\n")
if sys.argv[1:] == ["-f"]:
    if os.environ["CUDA_VISIBLE_DEVICES"] in {broken!r}:
        sys.exit("An instance of this daemon is already running")
    if not {stays!r} and "started" in record.read_text():
        sys.exit("The GPU is lost")
    server = subprocess.Popen(["nvidia-cuda-mps-server", "300"], executable="/bin/sleep", start_new_session=True)
    (pipe / "server").write_text(str(server.pid))
    note(started=os.getpid(), server=server.pid, mode=oct(pipe.stat().st_mode & 0o777))
    (pipe / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    while not (pipe / "quit").exists():
        time.sleep(0.01)
    server.kill()
    note(quit=os.getpid())
else:
    if not (pipe / "nvidia-cuda-mps-control.pid").exists():
        sys.exit("Cannot find MPS control daemon process")
    command = sys.stdin.read().strip()
    note(asked=command)
    if command.startswith("quit") and not {deaf!r}:
        (pipe / "quit").touch()
    if command == "get_server_list" and (pipe / "server").exists():
        print((pipe / "server").read_text())
    if command.startswith("get_client_list") and (pipe / "clients").exists():
        print((pipe / "clients").read_text())
"""


@pytest.fixture
def program(tmp_path):
    """Put a program in the daemon's place; returns an environment that finds it, and what it has recorded."""

    def make(broken=(), *, deaf=False, stays=True):
        folder = tmp_path / "bin"
        folder.mkdir()
        record = tmp_path / "record"
        record.touch()
        file = folder / PROGRAM
        given = {"broken": list(broken), "deaf": deaf, "stays": stays}
        file.write_text(STAND_IN.format(python=sys.executable, record=str(record), **given))
        file.chmod(0o755)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
        said = lambda: [json.loads(line) for line in record.read_text().splitlines()]  # noqa: E731
        return {**variables, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}, said

    return make


def gpu(device, **given):
    spec = {"pool": "gpu", "cpus": 0, "memory_mib": 1000, "slots": 3, "mps": True, "mps_optional": True, **given}
    return WorkerSpec(name=device, device=device, gpu=device, environment={"FROM": "profile"}, **spec)


def run(workers, logs, environ, use=lambda shared: None):
    async def main():
        async with shared_gpus(workers, logs, environ) as shared:
            use(shared)
            return shared

    return asyncio.run(main())


def ended(said, helpers):
    pids = [pid for line in said for pid in (line.get("started"), line.get("server")) if pid]
    assert pids
    return not any(helpers.alive(pid) for pid in pids)


def test_one_daemon_for_each_gpu_with_private_pipes_that_ends_with_the_workers(program, tmp_path, helpers):
    environ, said = program()
    workers = [gpu("GPU-a"), gpu("MIG-b"), gpu("GPU-c", mps=False)]

    def use(shared):
        assert shared.problems == ()
        assert set(shared.environment) == {"GPU-a", "MIG-b"}
        first, second, third = (shared.of(worker) for worker in workers)
        assert first["FROM"] == "profile"
        assert first["CUDA_MPS_PIPE_DIRECTORY"] != second["CUDA_MPS_PIPE_DIRECTORY"]
        assert third == {"FROM": "profile"}
        starts = [line for line in said() if "started" in line]
        assert {line["CUDA_VISIBLE_DEVICES"] for line in starts} == {"GPU-a", "MIG-b"}
        for line in starts:
            own = shared.environment[line["CUDA_VISIBLE_DEVICES"]]
            assert {name: line[name] for name in own} == own
            assert line["mode"] == "0o700"
            assert len(own["CUDA_MPS_PIPE_DIRECTORY"]) < 60  # names of sockets are short
            assert own["CUDA_MPS_LOG_DIRECTORY"].startswith(str(tmp_path))

    shared = run(workers, tmp_path / "logs", environ, use)
    assert sum("quit" in line for line in said()) == 2
    assert {line["asked"] for line in said() if "asked" in line} == {"get_server_list", "quit -t 3"}
    assert ended(said(), helpers)
    assert not any(Path(own["CUDA_MPS_PIPE_DIRECTORY"]).exists() for own in shared.environment.values())


def test_without_the_program_workers_go_on_where_the_profile_says_so(tmp_path):
    environ = {**os.environ, "PATH": str(tmp_path)}
    shared = run([gpu("GPU-a")], tmp_path, environ)
    assert shared.environment == {}
    (problem,) = shared.problems
    assert problem == f"GPU-a: {PROGRAM} cannot be started: No such file or directory"
    with pytest.raises(ProfileError, match=r"does not run: GPU-a: .*cannot be started") as caught:
        run([gpu("GPU-a", mps_optional=False)], tmp_path, environ)
    assert "mps: try" in caught.value.hint


def test_a_gpu_on_which_it_fails_does_not_keep_it_from_the_others(program, tmp_path, helpers):
    environ, said = program(["GPU-b"])
    shared = run([gpu("GPU-a"), gpu("GPU-b")], tmp_path, environ)
    assert set(shared.environment) == {"GPU-a"}
    assert shared.problems == (
        f"GPU-b: {PROGRAM} ended with exit status 1: An instance of this daemon is already running",
    )
    assert ended(said(), helpers)


def test_one_that_does_not_listen_is_ended_all_the_same(program, tmp_path, helpers):
    environ, said = program(deaf=True)
    run([gpu("GPU-a")], tmp_path, environ)
    assert ended(said(), helpers)


def test_a_service_that_the_site_has_started_is_used_as_it_is(program, tmp_path):
    environ, said = program()
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text("1")
    shared = run([gpu("GPU-a")], tmp_path, {**environ, "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    assert shared.environment == {}
    assert [line.get("asked") for line in said()] == ["get_server_list"]


def meanwhile(workers, logs, environ, use):
    """Run ``await use(shared, news)`` while the service is there; ``news`` is what people are told."""
    news = []

    async def main():
        async with shared_gpus(workers, logs, environ, news.append) as shared:
            await use(shared, news)

    asyncio.run(main())
    return news


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def test_a_daemon_that_dies_is_started_again_and_people_are_told(program, tmp_path, helpers):
    environ, said = program()
    starts = lambda: [line["started"] for line in said() if "started" in line]  # noqa: E731

    async def use(shared, news):
        pipe = Path(shared.environment["GPU-a"]["CUDA_MPS_PIPE_DIRECTORY"])
        (pipe / "left").touch()
        os.kill(starts()[0], signal.SIGKILL)
        await until(lambda: news)
        assert len(starts()) == 2
        assert helpers.alive(starts()[1])
        assert helpers.alive(said()[0]["server"])  # calculations may be at work through it
        assert not (pipe / "left").exists()

    (news,) = meanwhile([gpu("GPU-a")], tmp_path / "logs", environ, use)
    assert news == "the daemon of GPU-a ended with exit status -9; it was started again"
    assert ended(said(), helpers)


def test_a_daemon_that_cannot_be_started_again_leaves_nothing_that_clients_would_wait_for(program, tmp_path, helpers):
    environ, said = program(stays=False)

    async def use(shared, news):
        pipe = Path(shared.environment["GPU-a"]["CUDA_MPS_PIPE_DIRECTORY"])
        os.kill(said()[0]["started"], signal.SIGKILL)
        await until(lambda: news)
        assert list(pipe.iterdir()) == []

    (news,) = meanwhile([gpu("GPU-a")], tmp_path / "logs", environ, use)
    assert "goes on without it (nvidia-cuda-mps-control ended with exit status 1: The GPU is lost)" in news
    assert not helpers.alive(said()[0]["started"])


def test_the_service_ends_the_work_of_a_client_before_it_is_killed(program, tmp_path):
    environ, said = program()
    client = subprocess.Popen(["sleep", "300"], start_new_session=True)

    async def use(shared, _):
        own = {**environ, **shared.environment["GPU-a"]}
        (Path(own["CUDA_MPS_PIPE_DIRECTORY"]) / "clients").write_text(f"1\n{client.pid}\n")
        await asyncio.to_thread(let_go, client.pid, own)
        await asyncio.to_thread(let_go, client.pid, environ)  # where there is no service, nobody is asked

    try:
        meanwhile([gpu("GPU-a")], tmp_path / "logs", environ, use)
    finally:
        client.kill()
        client.wait()
    server = said()[0]["server"]
    asked = [line["asked"] for line in said() if "asked" in line]
    assert asked[-4:-1] == ["get_server_list", f"get_client_list {server}", f"terminate_client {server} {client.pid}"]


def test_a_worker_tells_the_service_of_each_process_while_it_still_lives(tmp_path, helpers):
    guardian, alive = Guardian(tmp_path / "scratch", os.getpid()), []
    processes = Processes(2, 10, lambda _: {}, guardian, lambda pid: alive.append(helpers.alive(pid)))
    try:
        kind = ProcessKind("python", 1, "GPU-a")
        processes.give(processes.take(kind, 500), healthy=False)
        processes.give(processes.take(kind, 500), healthy=True)
    finally:
        processes.close()
        guardian.close()
    assert alive == [True, True]


LAUNCHER = """
import asyncio, sys
from pathlib import Path
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.mps import shared_gpus

async def main():
    worker = WorkerSpec("gpu", "gpu", 0, 1000, device="GPU-a", gpu="GPU-a", slots=3, mps=True)
    async with shared_gpus([worker], Path(sys.argv[1])) as shared:
        print(shared.environment["GPU-a"]["CUDA_MPS_PIPE_DIRECTORY"], flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


def test_nothing_is_left_of_it_when_the_launcher_is_killed(program, tmp_path, helpers):
    environ, said = program()
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as launcher:
        pipe = Path(launcher.stdout.readline().strip())
        assert pipe.is_dir()
        launcher.send_signal(signal.SIGKILL)
    helpers.wait_until(lambda: ended(said(), helpers) and not pipe.parent.exists(), what="the end of the service")
    assert sum("quit" in line for line in said()) == 1
