"""Finding a run by what a person types, and what is said of runs that are odd."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def runs(grafico: Callable[..., Any], bench: Path) -> Path:
    """A run of the job tiny, and copies of it that other jobs might have made."""
    assert grafico("run", "job.yaml", "--quiet", "--set", "input.numbers=[1]").code == 0
    folder = next((bench / "runs").iterdir())
    for name in ("tiny-two-20260101-000000-aaaaaa", "tin-20260101-000001-bbbbbb", "tin-20260101-000002-cccccc"):
        shutil.copytree(folder, bench / "runs" / name)
    return folder


def test_the_name_of_a_job_means_its_run_and_not_those_that_begin_like_it(
    runs: Path, grafico: Callable[..., Any]
) -> None:
    assert grafico("show", "tiny", "--json").json["run"] == runs.name
    assert grafico("show", "tiny-two", "--json").json["run"] == "tiny-two-20260101-000000-aaaaaa"
    assert grafico("show", "bbbbbb", "--json").json["run"] == "tin-20260101-000001-bbbbbb"
    said = grafico("show", "tin")
    assert said.code == 2
    assert "'tin' matches 2 runs" in said.err
    assert "the name of a run is missing" in grafico("show", "").err
    assert "need a lane" in grafico("logs", runs, "--follow").err
    assert "need a lane" in grafico("logs", runs, "--tail", 3).err


def test_tables_that_are_damaged_are_said_and_do_no_harm(runs: Path, grafico: Callable[..., Any]) -> None:
    for text in ("3", "[{}]", '[{"rows": 3}]', "{", ""):
        (runs / "results" / "tables.json").write_text(text)
        said = grafico("show", runs)
        assert said.code == 0
        assert "tables.json cannot be read" in said.out
        assert f"{runs.name}: finished" in said.out
        assert grafico("show", runs, "--json").code == 0
        assert grafico("resume", runs, "--quiet").code == 0


@pytest.mark.parametrize("name", ["manifest.json", "job.json"])
def test_a_run_folder_without_its_papers_is_one_message(runs: Path, grafico: Callable[..., Any], name: str) -> None:
    for content in (None, "", "{", "[]", "3"):
        (runs / name).unlink(missing_ok=True)
        if content is not None:
            (runs / name).write_text(content)
        for command in ("show", "watch", "logs", "explain", "resume", "cancel"):
            said = grafico(command, runs, "--json")
            assert said.code == 2, said.err
            assert said.json["exit_code"] == 2
            assert name in said.json["error"]
        assert grafico("list", "--json").code == 0


def test_a_story_that_cannot_be_read_says_so(runs: Path, grafico: Callable[..., Any]) -> None:
    journal = runs / "journal" / "000001.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b'{"x": garbage\n', *lines[3:]]))
    assert "note: the journal is damaged" in grafico("explain", runs).out
    assert "the journal is damaged" in grafico("explain", runs, "--json").json["problems"][0]
    assert "note: the journal is damaged" in grafico("show", runs).out


def test_an_unexpected_error_is_said_even_where_its_details_cannot_be_kept(
    runs: Path, grafico: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("tempfile.mkstemp", full)
    monkeypatch.setattr("grafico.runs.read_run", broken)
    said = grafico("show", runs, "--json")
    assert said.code == 4
    assert said.json == {"error": "RuntimeError: odd", "details": None, "exit_code": 4}
    assert "GRAFICO_DEBUG=1" in said.err


def test_cancelling_a_run_that_ended_by_itself_says_so(runs: Path, grafico: Callable[..., Any]) -> None:
    assert "is not running (finished)" in grafico("cancel", runs).out
