"""Whatever is wrong with a job file: one clear message that names the place, exit code 2, no traceback, nothing created."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOP = "graph: grafico_tiny:GRAPH\ncluster: small.yaml\nknowledge: {persist: false}\n"
"""Three lines of a job file whose input follows."""


def with_input(lines: str) -> str:
    return f"{TOP}input:\n  numbers: [1, 2]\n{lines}"


BOMB = "\n".join(
    ["a0: &a0 [lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)] + ["graph: x"]
)

FILES: dict[str, tuple[str | bytes, str]] = {
    # text or bytes of the job file; what the message must hold
    "empty": ("", "the file is empty"),
    "only a comment": ("# nothing\n", "the file is empty"),
    "a list": ("- graph\n- input\n", "found a list"),
    "a word": ("hello\n", "found the single value 'hello'"),
    "not UTF-8": (b"graph: caf\xe9\n", "line 1: not UTF-8"),
    "not UTF-8 further down": (b"graph: x\nname: a\xff\n", "line 2: not UTF-8"),
    "UTF-16": ("graph: x\n".encode("utf-16"), "line 1: not UTF-8"),
    "a control character": ("graph: x\nname: a\x07b\n", "line 2: the character 0x07"),
    "binary": (bytes(range(128)) * 4, "line 1"),
    "a tab": (f"{TOP}input:\n\tnumbers: [1]\n", "line 5: a tab in the indentation"),
    "an open bracket": (f"{TOP}input: {{numbers: [1, 2}}\n", "line 4"),
    "an open quote": (f"{TOP}description: 'never closed\n", "not YAML"),
    "bad indentation": (f"{TOP}input:\n  numbers: [1]\n sleep_s: 1\n", "line 6"),
    "a colon too many": (f"{TOP}description: a: b\n", "line 4"),
    "a key twice": (f"{TOP}seed: 1\nseed: 2\n", "line 5: the key 'seed' stands twice (first in line 4)"),
    "a nested key twice": (with_input("  fail: [1]\n  fail: [2]\n"), "line 7: the key 'fail' stands twice (first in line 6)"),
    "an alias bomb": (BOMB, "line 1: the anchor &a0"),
    "an alias": (f"{TOP}description: *x\n", "line 4: the alias *x"),
    "a merge key": (f"{TOP}<<: {{seed: 1}}\n", "line 4: the merge key"),
    "a Python object": ("graph: !!python/object/apply:os.system ['true']\n", "line 1: the tag"),
    "a custom tag": ("graph: !env HOME\n", "line 1: the tag !env"),
    "a key that is a list": ("? [a, b]\n: 1\n", "line 1: a list or mapping as a key"),
    "two documents": (f"{TOP}---\n{TOP}", "line 4: a second document"),
    "deep nesting": ("graph: " + "[" * 5000 + "]" * 5000, "line 1: nested more than 40 deep"),
    "deeper nesting": ("graph: " + "[" * 200_000, "line 1: nested more than 40 deep"),
    "deep block nesting": ("\n".join(" " * n + "a:" for n in range(60)), "nested more than 40 deep"),
    "not a number": (f"{TOP}seed: .nan\n", "line 4: .nan is not a number"),
    "infinity": (with_input("  sleep_s: .inf\n"), "line 6: .inf is not a number"),
    "a number without end": (f"{TOP}seed: {'9' * 5000}\n", "line 4: a number of 5000 digits"),
    "a number too large": (with_input("  sleep_s: 1e400\n"), "line 6: 1e400 is too large"),
    "a large file": (b"# " + b"x" * (6 * 1024**2), "larger than 5 MiB"),
    "many values": ("graph: [" + "1," * 310_000 + "1]", "more than 300000 values"),
    "no graph": ("input: {numbers: [1]}\n", "graph: missing"),
    "no input": ("graph: grafico_tiny:GRAPH\n", "input: missing"),
    "an unknown key": (f"{TOP}inputs: {{numbers: [1]}}\n", "line 4, inputs: unknown key; did you mean 'input'?"),
    "an unknown key inside": (with_input("  numbrs: [1]\n"), "line 6, input.numbrs: unknown key; did you mean 'numbers'?"),
    "an unknown key in knowledge": ("graph: x\ninput: {}\nknowledge: {stor: a}\n", "line 3, knowledge.stor"),
    "an unknown key of a router": ("graph: x\ninput: {}\nrouter: {model: a/b, modell: c}\n", "job.yaml, line 3, router.modell: unknown key"),
    "a list for a mapping": (f"{TOP}input: [1, 2]\n", "line 4, input: must be keys with values"),
    "nothing for a mapping": (f"{TOP}input:\n", "line 4, input: must be keys with values"),
    "a mapping for a list": (f"{TOP}input:\n  numbers: {{a: 1}}\n", "line 5, input.numbers"),
    "text for a number": (with_input("  sleep_s: soon\n"), 'line 6, input.sleep_s: must be a valid number, came "soon"'),
    "a unit in a number": (with_input("  part: {temperature: 25 C}\n"), "temperature, K"),
    "below zero": (with_input("  sleep_s: -3\n"), "input.sleep_s: must be greater than or equal to 0, came -3"),
    "half a number": (f"{TOP}input:\n  numbers: [1.5]\n", "line 5, input.numbers[0]: must be a valid integer"),
    "an empty list": (f"{TOP}input:\n  numbers: []\n", "line 5, input.numbers"),
    "a wrong word": (with_input("  part: {method: sqare}\n"), "did you mean 'square'?"),
    "a name with a slash": (f"name: ../x\n{with_input('')}", "line 1, name: cannot be"),
    "a long name": (f"name: {'x' * 300}\n{with_input('')}", "line 1, name"),
    "a number for a name": (f"name: 7\n{with_input('')}", "put it in quotes"),
    "an unknown graph": ("graph: ensemble-spectrm\ninput: {}\n", "line 1, graph: there is no graph 'ensemble-spectrm'; did you mean"),
    "a graph that is a path": ("graph: ./x.py:GRAPH\ninput: {}\n", "line 1, graph"),
    "a module that is not there": ("graph: nowhere_at_all:GRAPH\ninput: {}\n", "there is no module nowhere_at_all"),
    "an unknown profile": ("graph: grafico_tiny:GRAPH\ncluster: laptob\ninput: {numbers: [1]}\n", "laptob"),
    "a profile that is not there": ("graph: grafico_tiny:GRAPH\ncluster: cluster/none.yaml\ninput: {numbers: [1]}\n", "cluster/none.yaml"),
    "a profile that is a job": ("graph: grafico_tiny:GRAPH\ncluster: job.yaml\ninput: {numbers: [1]}\n", "job.yaml"),
    "a file that is not there": (with_input("  table: missing.xyz\n"), "line 6, input.table: there is no file"),
    "a directory for a file": (with_input("  table: .\n"), "is a directory"),
    "a store of another kind": ("graph: x\ninput: {}\nknowledge: {store: 'ftp://host/kb'}\n", "line 3, knowledge.store"),
    "a store with a password": ("graph: x\ninput: {}\nknowledge: {store: 'https://me:secret@host/kb'}\n", "must hold no user name"),
    "what the graph refuses": (f"{TOP}input:\n  numbers: [13]\n", "13 cannot be squared"),
}  # fmt: skip


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def refused(said: Any, expected: str) -> None:
    assert said.code == 2, said.err
    assert expected in said.err
    assert "Traceback" not in said.err
    assert said.err.startswith("grafico: ")
    assert said.err.count("grafico: ") == 1
    assert len(said.err) < 4000


@pytest.mark.parametrize("case", FILES)
def test_a_job_file_that_cannot_be_used(
    case: str, job: Callable[..., Path], grafico: Callable[..., Any], bench: Path
) -> None:
    text, expected = FILES[case]
    path = job(text)
    before = contents(bench)
    said = grafico("run", path, "--quiet")
    refused(said, expected)
    assert said.out == ""
    assert contents(bench) == before


@pytest.mark.parametrize("case", ["a tab", "an unknown key", "what the graph refuses"])
def test_a_dry_run_refuses_the_same(case: str, job: Callable[..., Path], grafico: Callable[..., Any]) -> None:
    text, expected = FILES[case]
    refused(grafico("run", job(text), "--dry-run"), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing.yaml", "there is no such file"),
        (".", "a directory, where a job file was expected"),
        ("/dev/null", "not a regular file"),
        ("x" * 300, "x"),
        ("job.yaml/job.yaml", "cannot be read: Not a directory"),
    ],
)
def test_a_path_that_is_no_job_file(name: str, expected: str, grafico: Callable[..., Any], bench: Path) -> None:
    refused(grafico("run", name), expected)


def test_a_pipe_is_not_waited_for(grafico: Callable[..., Any], bench: Path) -> None:
    os.mkfifo(bench / "pipe.yaml")
    refused(grafico("run", "pipe.yaml"), "not a regular file")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "seed"], "expected KEY=VALUE"),
        (["--set", "input.numbrs=[1]"], "--set input.numbrs=[1], input.numbrs: unknown key; did you mean 'numbers'?"),
        (["--set", "input.sleep_s=fast"], "--set input.sleep_s=fast"),
        (["--name", "a/b"], "--name a/b, name: cannot be"),
        (["--cluster", "laptob"], "laptob"),
    ],
)
def test_options_are_checked_like_the_file(
    arguments: list[str], expected: str, grafico: Callable[..., Any], bench: Path
) -> None:
    refused(grafico("run", "job.yaml", *arguments), expected)
    assert not (bench / "runs").exists()


def test_with_json_an_error_is_one_json_value(grafico: Callable[..., Any], bench: Path) -> None:
    said = grafico("run", "nothing.yaml", "--json")
    assert said.code == 2
    assert said.json["exit_code"] == 2
    assert "there is no such file" in said.json["error"]


def test_a_request_that_no_worker_can_satisfy_is_refused_before_anything_is_made(
    grafico: Callable[..., Any], bench: Path
) -> None:
    (bench / "small.yaml").write_text("pools:\n  - {name: cpu, cpus: 1, memory_mib: 100}\n")
    for option in ([], ["--dry-run"]):
        refused(grafico("run", "job.yaml", *option), "no worker of the profile 'small' can ever give that")
    assert not (bench / "runs").exists()


@pytest.mark.parametrize("command", ["show", "watch", "explain", "logs", "resume", "cancel"])
def test_a_run_that_is_not_there(command: str, grafico: Callable[..., Any], bench: Path) -> None:
    refused(grafico(command, "nothing"), "no run 'nothing'")
    refused(grafico(command, "last"), "there are no runs")


def test_usage_errors_have_exit_code_2(grafico: Callable[..., Any]) -> None:
    assert grafico("frobnicate").code == 2
    assert grafico("run").code == 2
    assert grafico("run", "job.yaml", "--no-such-option").code == 2
