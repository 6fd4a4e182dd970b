"""What another user of the machine can do to a cluster: nothing. Tried as ``nobody``, on every listening socket."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import calculations_for_tests as cases
import psutil
import pytest
from calculations_for_tests import Number
from standing import LIGHT, PROFILE, Grafico

from grafico.cluster import Profile, open_cluster
from grafico.cluster.certificates import issue, tls_paths
from grafico.runs import RunPaths

SHOWN = Profile.model_validate(
    {"name": "shown", "dashboard": 0, "pools": [{"name": "cpu", "cpus": 1, "memory_mib": 4000}]}
)


@pytest.fixture
def open_folder():
    """Give a folder that everybody can enter, so that what is in it has to protect itself."""
    if os.getuid() != 0:
        pytest.skip("only root can try it as another user")
    folder = Path(tempfile.mkdtemp(prefix="grafico-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def listening(pid: int) -> list[tuple[str, int]]:
    top = psutil.Process(pid)
    found = set()
    for process in [top, *top.children(recursive=True)]:
        for connection in process.net_connections(kind="all"):
            if connection.status == psutil.CONN_LISTEN:
                found.add((connection.laddr.ip, connection.laddr.port))
    return sorted(found)


def begin(told: dict) -> "subprocess.Popen[str]":
    """Start another user, who has been told what to try."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("stranger.py"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()
    return process


def end(process: "subprocess.Popen[str]") -> dict:
    """Return what another user managed."""
    out, err = process.communicate("\n", timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def stranger(sockets, paths, control=None) -> dict:
    return end(begin({"sockets": sockets, "paths": [str(path) for path in paths], "control": control}))


def assert_nothing(said: dict, sockets) -> None:
    for host, port in sockets:
        tried = said[f"{host}:{port}"]
        browser = tried.pop("browser")
        assert browser.startswith("no HTTP") or set(browser.split()) <= {"401", "403"}, (port, browser)
        assert all(result.startswith("refused") for result in tried.values()), (port, tried)
    assert all(seen == "refused: PermissionError" for seen in said["paths"].values()), said["paths"]


def secrets_in_processes(pid: int) -> list[int]:
    """Return the processes that have a private key in their arguments or their environment."""
    top = psutil.Process(pid)
    found = []
    for process in [top, *top.children(recursive=True)]:
        facts = Path(f"/proc/{process.pid}")
        try:
            told = (facts / "cmdline").read_bytes() + (facts / "environ").read_bytes()
        except OSError:
            continue
        if b"PRIVATE KEY" in told or b"BEGIN" in told:
            found.append(process.pid)
    return found


def test_a_stranger_gets_nothing_of_a_controllers_own_cluster(open_folder, task):
    paths = RunPaths(open_folder / "run")
    paths.create()

    async def main():
        async with open_cluster(SHOWN, paths.root) as cluster:
            assert (await cluster.run(task(cases.double, Number()))).ok
            sockets = await asyncio.to_thread(listening, os.getpid())
            assert len(sockets) == 3  # scheduler, worker, page
            assert {host for host, _ in sockets} == {"127.0.0.1"}
            assert secrets_in_processes(os.getpid()) == []
            return sockets, await asyncio.to_thread(stranger, sockets, [paths.root, paths.root / "starts"])

    sockets, said = asyncio.run(main())
    assert_nothing(said, sockets)
    assert sum(tried.get("browser", "") == "401" for tried in said.values()) <= 1


@pytest.fixture
def few_files():
    """Let processes open as many files as they may on most machines."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_crowd_that_only_knocks_leaves_room_for_those_who_have_the_key(open_folder, task, few_files):
    paths = RunPaths(open_folder / "run")
    paths.create()

    async def main():
        async with open_cluster(SHOWN, paths.root) as cluster:
            base, _, token = cluster.dashboard_link.replace("/grafico?token=", " ").partition(" ")
            assert (await cluster.run(task(cases.double, Number()))).ok
            sockets = await asyncio.to_thread(listening, os.getpid())
            crowd = begin({"sockets": sockets, "crowd": 300})
            assert await asyncio.to_thread(crowd.stdout.readline) == "here\n"
            # Both would need another file each.
            for number in range(2, 6):
                assert (await cluster.run(task(cases.double, Number(value=number)))).ok
            request = urllib.request.Request(f"{base}/grafico/data.json", headers={"Authorization": f"Bearer {token}"})
            with await asyncio.to_thread(urllib.request.urlopen, request, timeout=60) as answer:
                assert answer.status == 200
            return await asyncio.to_thread(end, crowd)

    left = asyncio.run(main())
    assert len(left) == 3
    assert max(left.values()) <= 160, left


def test_certificates_pass_the_strictest_check(tmp_path):
    """As Python has it from 3.13 on (``VERIFY_X509_STRICT``), in both directions."""
    tmp_path.chmod(0o700)
    issue(tmp_path)
    paths = tls_paths(tmp_path)
    ends = []
    for purpose in (ssl.Purpose.SERVER_AUTH, ssl.Purpose.CLIENT_AUTH):
        context = ssl.create_default_context(purpose, cafile=paths["ca"])
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_cert_chain(paths["certificate"], paths["key"])
        ends.append(context)
    ways = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ends[0].wrap_bio(ways[0], ways[1])
    server = ends[1].wrap_bio(ways[1], ways[0], server_side=True)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert server.version() == client.version() == "TLSv1.3"
    assert server.getpeercert()["issuer"] == ((("commonName", "grafico authority"),),)


def test_a_stranger_gets_nothing_of_a_cluster_that_stays_up(open_folder, helpers):
    grafico = Grafico(open_folder)
    try:
        printed = grafico.call("cluster", "up", grafico.profile({**PROFILE, "dashboard": 0}), "--name", "c")[1]
        job = grafico.job("seen", [{"number": 0, "gpu": "slot"}, {"number": 1}])
        grafico.call("run", job, "--cluster", "connect:c", "-q")
        cluster, server = open_folder / "clusters" / "c", grafico.server("c")
        token = (cluster / "token").read_text()
        assert token not in printed  # it may have gone into a file that others read
        assert token in grafico.call("cluster", "status", "c")[1]
        sockets = listening(server)
        assert len(sockets) == 4  # scheduler, page, two workers
        assert {host for host, _ in sockets} == {"127.0.0.1"}
        assert secrets_in_processes(server) == []
        given = open_folder / "given"
        shutil.copytree(cluster / "tls", given)
        for path in [given, *given.iterdir()]:
            shutil.chown(path, "nobody")
        control = {
            "certificates": str(given),
            "address": json.loads((cluster / "cluster.json").read_text())["scheduler"],
        }
        run = grafico.run_folder("seen")
        paths = [
            cluster,
            cluster / "cluster.json",
            cluster / "tls" / "node.key",
            cluster / "token",
            cluster / "logs",
            run,
        ]
        said = stranger(sockets, [*paths, run / "job.json"], control)
        assert said["control"] == {"client": "ran: 42"}
        assert_nothing(said, sockets)
        assert all(path.stat().st_mode & 0o077 == 0 for path in [cluster, *cluster.rglob("*")])
        grafico.call("cluster", "down", "c")
        assert not (cluster / "tls" / "node.key").exists()
    finally:
        grafico.sweep(helpers.marked)


def test_what_another_user_could_have_written_is_not_acted_on(open_folder, helpers):
    grafico = Grafico(open_folder)
    try:
        job = grafico.job("mine", [{"number": 0}])
        grafico.call("run", job, "--cluster", grafico.profile(LIGHT), "-q")
        run = grafico.run_folder("mine")
        run.chmod(0o770)
        said = grafico.call("resume", str(run), expect=2)[2]
        assert "others can write to" in said
        assert f"chmod go-w {run}" in " ".join(said.split())
        run.chmod(0o700)
        grafico.call("resume", str(run))
        # A run's folder says where its code is; a cluster's, with whom functions are exchanged.
        shutil.chown(run, "nobody")
        source = open_folder / "jobs" / "naps.py"
        source.write_text(f"open({str(open_folder / 'was here')!r}, 'w')\n{source.read_text()}")
        theirs = open_folder / "theirs"
        theirs.mkdir()
        for name in ("cluster.json", "profile.json"):
            (theirs / name).write_text("{}")
        shutil.chown(theirs, "nobody")
        for words, code in (
            (("resume", run), 2),
            (("cancel", run), 2),
            (("cluster", "down", theirs), 2),
            (("cluster", "status", theirs), 0),
        ):
            said = "".join(grafico.call(*map(str, words), expect=code)[1:])
            assert "belongs to another user (nobody)" in " ".join(said.split())
            assert not (open_folder / "was here").exists()
        said = grafico.call("run", job, "--cluster", f"connect:{theirs}", expect=2)[2]
        assert "belongs to another user (nobody)" in " ".join(said.split())
    finally:
        grafico.sweep(helpers.marked)
