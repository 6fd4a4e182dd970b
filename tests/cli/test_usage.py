"""What the command line does not understand: one message, one JSON value where JSON is asked for, exit code 2."""

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WRONG = [
    (("run",), "Missing argument 'JOB'"),
    (("shwo",), "No such command 'shwo'. Did you mean 'show'?"),
    (("show", "last", "--nonsense"), "--nonsense"),
    (("logs", "last", "--tail", "-1"), "--tail"),
    (("cancel", "last", "--wait", "nan"), "--wait"),
    (("graph", "show"), "Missing argument 'GRAPH'"),
    (("bench", "nothing"), "No such command 'nothing'"),
    (("kb", "query", "--limit", "x"), "--limit"),
]


@pytest.mark.parametrize(("arguments", "expected"), WRONG)
def test_wrong_usage_is_one_message_and_one_json_value(
    arguments: tuple[str, ...], expected: str, grafico: Callable[..., Any]
) -> None:
    said = grafico(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("grafico: ")
    assert expected in said.err
    assert "--help" in said.err
    with_json = grafico(*arguments, "--json")
    assert with_json.code == 2
    assert expected in with_json.json["error"]
    assert with_json.json["exit_code"] == 2


def test_the_version_is_an_option_and_a_command(grafico: Callable[..., Any]) -> None:
    from grafico import __version__

    assert grafico("--version").out.strip() == grafico("version").out.strip() == __version__


def test_every_benchmark_that_is_offered_is_there(grafico: Callable[..., Any]) -> None:
    import importlib

    from grafico.cli.bench import app

    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    assert {"chemistry", "cluster", "frameworks", "gpu", "graph", "help", "kb", "routing", "soak"} == set(names)
    for name in names:
        assert callable(importlib.import_module(f"grafico.bench.{name}").bench)


@pytest.mark.parametrize("delay_s", [0.05, 0.15, 0.3])
def test_ctrl_c_while_it_starts_shows_no_traceback(delay_s: float, bench: Path) -> None:
    # Where the tests themselves run in the background of a shell, SIGINT is ignored and children inherit that.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    script = f"{heed}import sys; from grafico.cli.entry import main; print('.', flush=True); sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "run", "job.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_folder_that_cannot_be_made_is_said(grafico: Callable[..., Any], bench: Path) -> None:
    (bench / "gone").symlink_to(bench / "nowhere")
    said = grafico("run", "job.yaml", "--runs-dir", "/proc/nothing/here")
    assert said.code == 2
    assert "the run folder could not be created" in said.err
    assert grafico("run", "job.yaml", "--runs-dir", "gone/runs").code == 2


def test_long_and_odd_values_make_short_messages(grafico: Callable[..., Any], bench: Path) -> None:
    for arguments in (
        ("--name", "a" * 500),
        ("--name", "a\nb"),
        ("--set", f"name={'ü' * 500}"),
        ("--set", f"input.numbers=[{'1, ' * 500}"),
        ("--set", f"{'x' * 500}=1"),
    ):
        said = grafico("run", "job.yaml", *arguments)
        assert said.code == 2
        assert len(said.err) < 500, said.err
        assert said.err.count("\n") <= 2


@pytest.mark.parametrize("command", ["ask", "kb query", "cluster check"])
def test_the_help_of_a_command_fills_the_terminal(
    command: str, grafico: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = grafico(*command.split(), "--help").out.partition("╭")[0].splitlines()
    for line, following in itertools.pairwise(said):
        word = following.split()[0] if following.split() else ""
        assert not (line.strip() and word) or len(line.rstrip()) + 1 + len(word) >= 60, line


@pytest.mark.parametrize("command", ["", "run", "kb", "kb query", "doctor"])
def test_the_help_of_a_flag_asks_for_no_value(command: str, grafico: Callable[..., Any]) -> None:
    said = grafico(*command.split(), "--help").out
    assert "--help" in said
    assert "<bool>" not in said
