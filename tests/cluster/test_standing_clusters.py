"""Clusters that stay up, through the command line: they serve several runs, and outlive or survive each kind of death."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from standing import LIGHT, Grafico, most_at_once

from grafico.cluster import load_profile
from grafico.cluster.lifecycle import prepare_folder


@pytest.fixture
def grafico(tmp_path, helpers):
    grafico = Grafico(tmp_path)
    yield grafico
    grafico.sweep(helpers.marked)


def commands(pids: set[int]) -> dict[int, str]:
    found = {}
    for pid in pids:
        try:
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def test_a_cluster_comes_up_once_serves_a_run_and_goes_down_without_a_trace(grafico, helpers):
    profile = grafico.profile()
    one, other = (grafico.start("cluster", "up", profile, "--name", "c", "--json") for _ in range(2))
    ended = [grafico.end(each, None) for each in (one, other)]
    assert sorted(code for code, _, _ in ended) == [0, 2]
    said = json.loads(next(out for code, out, _ in ended if code == 0))
    assert said["scheduler"].startswith("tls://127.0.0.1:")
    assert re.search("is (up|being started) already", next(err for code, _, err in ended if code == 2))

    job = grafico.job("first", [{"number": n} for n in range(3)])
    grafico.call("run", job, "--cluster", "connect:c", "-q")
    result = grafico.run_folder("first") / "results" / "result.json"
    assert '"first edition"' in result.read_text()
    # Processes that had imported it are warm; what is beside the job file is taken as it is now.
    module = Path(job).with_name("naps.py")
    module.write_text(module.read_text().replace("first edition", "second edition"))
    grafico.call("run", job, "--cluster", "connect:c", "-q")
    assert '"second edition"' in (grafico.run_folder("first") / "results" / "result.json").read_text()

    start = grafico.starts("first")[0]
    state = json.loads(grafico.call("cluster", "status", "c", "--json")[1])
    assert state["state"] == "up"
    assert {(worker["name"], worker["spec"]["pool"]) for worker in state["workers"]} == {
        ("gpu-0", "gpu"),
        ("cpu", "cpu"),
    }
    assert (start.worker, start.cluster, start.slurm_job) == ("cpu", state["id"], "")
    assert state["controllers"] == []
    assert [each["state"] for each in json.loads(grafico.call("cluster", "status", "--json")[1])] == ["up"]
    assert "is down" in grafico.call("cluster", "down", "c")[1]
    assert not helpers.marked(grafico.tag)
    assert list((grafico.folder / "tmp").iterdir()) == []
    assert "down" in grafico.call("cluster", "status", "c")[1]
    _, _, err = grafico.call("run", job, "--cluster", "connect:c", expect=2)
    assert "is not up" in err


def test_the_rules_hold_for_two_controllers_and_who_comes_late_makes_progress(grafico, helpers):
    grafico.call("cluster", "up", grafico.profile(), "--name", "c")
    hurry = grafico.folder / "hurry"
    # Enough to keep the GPU full for a minute, unless the other one gets its turn.
    early = [
        {"number": n, "seconds": 0.3, "hurry": str(hurry), "gpu": "slot", "gpu_memory_mib": 400 if n % 3 else 100}
        for n in range(200)
    ]
    late = [{"number": 500, "seconds": 0.2, "gpu": "exclusive"}]
    late += [{"number": n, "seconds": 0.2, "gpu": "slot", "gpu_memory_mib": 100} for n in (501, 502)]
    first = grafico.start("run", grafico.job("early", early), "--cluster", "connect:c", "-q", tag="first")
    helpers.wait_until(lambda: len(grafico.starts("early")) >= 4, 60, "the first lanes")
    second = grafico.start("run", grafico.job("late", late), "--cluster", "connect:c", "-q", tag="second")
    helpers.wait_until(lambda: sum(bool(s.ended) for s in grafico.starts("late")) >= 3, 120, "the late lanes")
    hurry.touch()
    for process in (second, first):
        grafico.end(process)
    memory = {f"nap-{each['number']}": each.get("gpu_memory_mib") or 900 for each in [*early, *late]}
    starts = grafico.starts("early") + grafico.starts("late")
    assert {start.status for start in starts} == {"success"}
    assert len(starts) == len(early) + len(late)
    assert {start.gpu for start in starts} == {"simulated-0"}
    assert most_at_once(starts, lambda start: len(start.slot.split(","))) == 3
    assert most_at_once(starts, lambda start: memory[start.lane.rpartition(":")[2]]) <= 900
    assert max(s.started for s in grafico.starts("late")) < max(s.started for s in grafico.starts("early"))


def test_a_killed_server_leaves_nothing_behind_and_the_run_goes_on_once_it_is_up_again(grafico, helpers):
    gate = grafico.folder / "gate"
    profile = grafico.profile(LIGHT)
    grafico.call("cluster", "up", profile, "--name", "c")
    naps = [{"number": n, "gate": str(gate)} for n in range(2)] + [{"number": 2}]
    run = grafico.start("run", grafico.job("cut", naps), "--cluster", "connect:c", "-q", tag="controller")
    # The third has come and gone, and does not run when the server dies.
    helpers.wait_until(lambda: any(s.ended for s in grafico.starts("cut")), 60, "the end of the third lane")
    grafico.begun("cut", 3)
    os.kill(grafico.server("c"), signal.SIGKILL)
    helpers.wait_until(lambda: not helpers.marked(grafico.tag), 10, "the end of hosts, workers and calculations")
    _, _, err = grafico.end(run, 4)
    assert "the cluster 'c' is gone" in err
    assert "Traceback" not in err
    assert "grafico resume" in err
    assert "killed or crashed" in grafico.call("cluster", "status", "c")[1]
    assert "is not up" in grafico.call("resume", "last", "-q", expect=2)[2]
    grafico.call("cluster", "up", profile, "--name", "c")
    gate.touch()
    grafico.call("resume", "last", "-q", tag="controller")
    finished = [start.lane for start in grafico.starts("cut") if start.status == "success"]
    assert sorted(lane.rpartition(":")[2] for lane in finished) == ["nap-0", "nap-1", "nap-2"]
    assert len(grafico.starts("cut")) <= 5
    # No attempt was counted against them.
    assert {start.attempt for start in grafico.starts("cut")} == {1}


@pytest.mark.slow  # it waits for longer than hosts wait for a scheduler that is gone
def test_what_runs_goes_on_while_the_server_is_silent_and_who_comes_meanwhile_is_turned_away(grafico, helpers):
    gate = grafico.folder / "gate"
    grafico.call("cluster", "up", grafico.profile(LIGHT), "--name", "c")
    run = grafico.start("run", grafico.job("patient", [{"number": 0, "gate": str(gate)}]), "-c", "connect:c", "-q")
    (start,) = grafico.begun("patient", 1)
    server = grafico.server("c")
    os.kill(server, signal.SIGSTOP)  # as one that waits for a disk
    silent_since = time.monotonic()
    try:
        _, _, err = grafico.call("run", grafico.job("late", [{"number": 1}]), "-c", "connect:c", "-q", expect=2)
        assert "the cluster 'c' does not answer" in err
        assert "--force" in err
        assert not list((grafico.folder / "runs").glob("late-*"))
        time.sleep(max(0.0, silent_since + 45.0 - time.monotonic()))
        assert helpers.alive(start.process.pid)
    finally:
        os.kill(server, signal.SIGCONT)
    gate.touch()
    grafico.end(run)
    assert [(each.id, each.status) for each in grafico.starts("patient")] == [(start.id, "success")]


def test_a_cluster_that_is_only_starting_says_so(grafico):
    """Its server holds the folder, and has not written yet where it listens."""
    place = grafico.folder / "clusters" / "c"
    profile = grafico.profile(LIGHT)
    lock = prepare_folder(load_profile(profile), place)
    try:
        assert json.loads(grafico.call("cluster", "status", "c", "--json")[1])["state"] == "starting"
        assert "is only starting" in grafico.call("cluster", "down", "c", expect=2)[2]
        assert (
            "is only starting" in grafico.call("run", grafico.job("j", [{"number": 0}]), "-c", "connect:c", expect=2)[2]
        )
        assert "is being started already" in grafico.call("cluster", "up", profile, "--name", "c", expect=2)[2]
    finally:
        os.close(lock)
    assert json.loads(grafico.call("cluster", "status", "c", "--json")[1])["state"] == "down"
    assert "is not up" in grafico.call("cluster", "down", "c")[1]


def test_lanes_outlive_a_killed_controller_and_a_resume_finds_them_again(grafico, helpers):
    gate = grafico.folder / "gate"
    grafico.call("cluster", "up", grafico.profile(), "--name", "c")
    naps = [{"number": n, "gate": str(gate), "gpu": "slot"} for n in range(5)]
    run = grafico.start("run", grafico.job("left", naps), "--cluster", "connect:c", "-q", tag="controller")
    before = grafico.begun("left", 3)
    run.kill()
    run.communicate()
    _, _, err = grafico.call("cluster", "down", "c", expect=2)
    assert "of a run without a controller" in err
    resumed = grafico.start("resume", "last", tag="controller")
    helpers.wait_until(lambda: grafico.users("c"), 60, "the resumed run on the cluster")
    assert all(helpers.alive(start.process.pid) for start in before)
    gate.touch()
    _, _, err = grafico.end(resumed)
    assert "3 calculations of this run still go on" in err
    starts = grafico.starts("left")
    assert len(starts) == 5
    assert starts[:3] != before  # they have ended since
    assert [start.id for start in starts[:3]] == [start.id for start in before]
    assert {start.status for start in starts} == {"success"}


def test_cancelling_a_run_whose_controller_was_killed_ends_what_it_left(grafico, helpers):
    grafico.call("cluster", "up", grafico.profile(LIGHT), "--name", "c")
    naps = [{"number": n, "gate": str(grafico.folder / "never")} for n in range(5)]
    run = grafico.start("run", grafico.job("dropped", naps), "--cluster", "connect:c", "-q", tag="controller")
    grafico.begun("dropped", 3)
    run.kill()
    run.communicate()
    _, out, _ = grafico.call("cancel", "last")
    assert "calculations that it had left on its cluster were ended" in out
    left = [start.process for start in grafico.starts("dropped")]
    helpers.wait_until(lambda: not any(process.alive() for process in left), 10, "their end")
    grafico.call("cluster", "down", "c")


def test_a_cluster_in_use_goes_down_only_by_force_and_the_run_can_be_resumed(grafico, helpers):
    gate = grafico.folder / "gate"
    profile = grafico.profile(LIGHT)
    grafico.call("cluster", "up", profile, "--name", "c")
    job = grafico.job("forced", [{"number": 0, "gate": str(gate)}])
    run = grafico.start("run", job, "--cluster", "connect:c", "-q", tag="controller")
    helpers.wait_until(lambda: grafico.starts("forced"), 60, "the lane")
    _, _, err = grafico.call("cluster", "down", "c", expect=2)
    assert f"run {grafico.run_folder('forced').name} (process {run.pid} on " in err
    grafico.call("cluster", "down", "c", "--force")
    _, _, err = grafico.end(run, 4)
    assert "grafico cluster down" in err
    assert not helpers.marked(grafico.tag)
    # Elsewhere, on a cluster of its own.
    gate.touch()
    grafico.call("resume", "last", "-q", "--cluster", profile)
    assert [start.attempt for start in grafico.starts("forced")] == [1, 1]


def test_interrupting_the_foreground_takes_the_cluster_down(grafico, helpers):
    process = grafico.start("cluster", "up", grafico.profile(LIGHT), "--name", "c", "--foreground")
    helpers.wait_until((grafico.folder / "clusters/c/cluster.json").exists, 60, "the cluster")
    helpers.wait_until(lambda: len(helpers.marked(grafico.tag)) >= 3, 60, "its host")
    process.send_signal(signal.SIGINT)
    _, out, _ = grafico.end(process)
    assert "connect:c" in out
    assert not helpers.marked(grafico.tag)


def test_a_profile_is_checked_without_starting_anything(grafico, helpers):
    said = json.loads(grafico.call("cluster", "check", grafico.profile(), "--json")[1])
    assert said["ok"]
    assert [worker["name"] for worker in said["workers"]] == ["gpu-0", "cpu"]
    assert not helpers.marked(grafico.tag)
    site = {
        "kind": "slurm",
        "pools": [{"name": "cpu", "cpus": 2, "memory_mib": 4000}],
        "slurm": {"partition": "night", "walltime": "01:00:00"},
    }
    code, out, _ = grafico.call("cluster", "check", grafico.profile(site, "site"), "--json", expect=None)
    said = json.loads(out)
    assert code == (0 if said["ok"] else 2)
    host = said["scripts"][0]["text"]
    assert "#SBATCH --partition=night" in host
    assert "grafico.cluster.host" in host
    assert "PRIVATE KEY" not in out
    assert subprocess.run(["bash", "-n"], input=host, text=True, check=False).returncode == 0


def test_what_is_no_cluster_is_said(grafico):
    assert "there is no cluster 'nowhere'" in grafico.call("cluster", "status", "nowhere", expect=2)[2]
    assert "is not up" in grafico.call("run", grafico.job("j", [{"number": 0}]), "-c", "connect:nowhere", expect=2)[2]
    assert "`grafico cluster status c` shows a cluster" in grafico.call("cluster", "check", "connect:c", expect=2)[2]
    place = grafico.folder / "clusters" / "c"
    place.mkdir(parents=True, mode=0o700)
    (place / "profile.json").write_text("torn {")
    _, out, _ = grafico.call("cluster", "status", "c")
    assert "profile.json is damaged, or of another version: Invalid JSON" in out
    assert len(out.splitlines()) == 2
    (place / "cluster.json").write_text("{}")
    said = "cluster.json is not the description of a cluster: id: Field required"
    assert said in grafico.call("cluster", "status", "c")[1]
    assert said in grafico.call("run", grafico.job("j", [{"number": 0}]), "-c", "connect:c", expect=2)[2]
    assert "is no name for a cluster" in grafico.call("cluster", "up", grafico.profile(), "--name", "a b", expect=2)[2]
