"""Stopping a run that goes: Ctrl-C once and twice, SIGTERM, cancel, a closed pipe; and going on afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from grafico.runs import read_run

SLEEPY = ("run", "job.yaml", "--set", "input.numbers=[1, 2, 3, 4]")


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for path in (folder / "starts").glob("*.jsonl") for line in path.read_text().splitlines()]
    return [entry for entry in map(json.loads, lines) if kind in entry]


def running(process: Any, bench: Path, count: int) -> Path:
    """Wait until so many calculations of a run have started; return the run's folder."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for folder in bench.glob("runs/*-*"):
            if len(records(folder, "start")) >= count:
                return folder
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"no calculation started: {process.communicate()}")


@contextmanager
def no_orphans(folder: Path) -> Iterator[None]:
    """At the end, none of the processes that the run's calculations ran in is left."""
    yield
    deadline = time.monotonic() + 10
    pids = {entry["pid"] for entry in records(folder, "start")}
    while time.monotonic() < deadline and any(map(alive, pids)):
        time.sleep(0.05)
    assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_lets_finish_what_runs_and_resume_does_the_rest(
    spawn: Any, grafico: Callable[..., Any], bench: Path
) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=1.5")
    folder = running(process, bench, 2)
    with no_orphans(folder):
        # As a terminal does: to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "nothing more starts, 2 calculations may finish" in err
    assert "Traceback" not in err
    assert f"go on: grafico resume {folder.name}" in out
    assert len(records(folder, "start")) == 2
    assert [entry["status"] for entry in records(folder, "end")] == ["success", "success"]
    assert grafico("list", "--json").json[0]["status"] == "interrupted"
    assert "nobody carries it out now" in grafico("explain", "last").out

    said = grafico("resume", "last", "--quiet", "--json")
    assert said.code == 0, said.err
    assert said.json["result"]["total"] == 30
    assert sorted(entry["label"] for entry in records(folder, "start")) == [f"square · {n}" for n in (1, 2, 3, 4)]


def test_ctrl_c_twice_kills_what_runs(spawn: Any, bench: Path) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=60")
    folder = running(process, bench, 2)
    with no_orphans(folder):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "killing 2 calculations" in err
    assert "Traceback" not in err
    assert not list((folder / "outcomes").glob("*/*.json"))


@pytest.mark.parametrize("how", ["cancel", "marker", "SIGTERM", "SIGHUP"])
def test_a_run_is_stopped_from_outside(how: str, spawn: Any, grafico: Callable[..., Any], bench: Path) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=60")
    folder = running(process, bench, 1)
    with no_orphans(folder):
        if how == "cancel":
            said = grafico("cancel", "last", "--json")
            assert said.json["stopped"], said.err
        elif how == "marker":
            (folder / "cancel").touch()  # as `cancel` does for a controller on another host
        else:
            process.send_signal(getattr(signal, how))
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert ("cancelled" if how in {"cancel", "marker"} else how) in err
    assert not (folder / "cancel").exists()
    assert "is not running (interrupted)" in grafico("cancel", "last").out


def test_a_killed_run_is_resumed_and_committed_calculations_do_not_start_again(
    spawn: Any, grafico: Callable[..., Any], bench: Path
) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=1")
    folder = running(process, bench, 3)
    with no_orphans(folder):
        process.kill()
        process.wait()
    committed = {path.stem for path in (folder / "outcomes").glob("*/*.json")}
    assert grafico("show", "last", "--json").json["status"] == "interrupted"
    before = {entry["start"] for entry in records(folder, "start")}
    said = grafico("resume", "last", "--quiet", "--json")
    assert said.code == 0, said.err
    assert said.json["result"]["total"] == 30
    again = {entry["key"] for entry in records(folder, "start") if entry["start"] not in before}
    assert committed
    assert not committed & again


def test_a_second_controller_is_refused_while_the_first_one_runs(
    spawn: Any, grafico: Callable[..., Any], bench: Path
) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=1")
    running(process, bench, 1)
    said = grafico("resume", "last")
    assert said.code == 2
    assert "is being run by process" in said.err
    assert "--take-over" in said.err
    watched = grafico("watch", "last")
    assert watched.code == 0
    assert "lanes 2 done" in watched.err
    assert process.wait(60) == 0


def test_a_run_is_taken_over_and_its_first_controller_stops(
    spawn: Any, grafico: Callable[..., Any], bench: Path
) -> None:
    process = spawn(*SLEEPY, "--set", "input.sleep_s=2")
    folder = running(process, bench, 2)
    said = grafico("resume", "last", "--take-over", "--quiet", "--json")
    assert said.code == 0, said.err
    assert said.json["result"]["total"] == 30
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "another controller has taken over" in err
    assert "Traceback" not in err
    assert json.loads((folder / "manifest.json").read_text())["status"] == "finished"


def test_a_run_goes_on_when_nobody_reads_what_it_says(spawn: Any, bench: Path) -> None:
    reading, writing = os.pipe()
    process = spawn("run", "job.yaml", stdout=writing, stderr=writing)
    os.close(writing)
    os.close(reading)
    process.wait(60)
    folder = next((bench / "runs").iterdir())
    assert json.loads((folder / "manifest.json").read_text())["status"] == "finished"


def test_a_run_whose_standard_streams_are_closed_keeps_its_journal_to_itself(bench: Path) -> None:
    words = [sys.executable, "-m", "grafico.cli.entry", "run", "job.yaml"]
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *words], cwd=bench, check=False, timeout=120)
    assert done.returncode == 0
    folder = next((bench / "runs").iterdir())
    assert json.loads((folder / "manifest.json").read_text())["status"] == "finished"
    assert read_run(folder).problems == ()


def test_a_list_may_be_cut_short_by_its_reader(spawn: Any, grafico: Callable[..., Any], bench: Path) -> None:
    assert grafico("run", "job.yaml", "--quiet", "--set", "input.numbers=[1]").code == 0
    process = spawn("show", "last", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.wait(30)
    assert err == ""
    assert process.returncode == 0


def test_on_a_terminal_progress_is_a_panel(spawn: Any, bench: Path) -> None:
    leader, follower = os.openpty()
    process = spawn(
        "run",
        "job.yaml",
        "--set",
        "input.sleep_s=1",
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0
    text = shown.decode(errors="replace")
    for part in ("lanes", "calculations", "cpu", "2/2", "Ctrl-C", "square"):
        assert part in text
    assert "finished" in out
    assert "\x1b[" not in out


def test_no_color_is_respected(spawn: Any, bench: Path) -> None:
    leader, follower = os.openpty()
    listing = spawn("list", stdout=follower, env={**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color"})
    listing.wait(30)
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert "there are no runs" in shown
    assert "\x1b[3" not in shown
