"""Runs of which something is missing: what is written or computed again, and what is said about it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(grafico: Callable[..., Any], bench: Path) -> Path:
    """A run that has finished."""
    assert grafico("run", "job.yaml", "--quiet").code == 0
    return next((bench / "runs").iterdir())


def starts(folder: Path) -> int:
    """How many calculations workers started."""
    return sum(path.read_text().count('"start":"') for path in (folder / "starts").glob("*.jsonl"))


@pytest.mark.parametrize("damage", ["gone", "old", "torn"])
def test_results_that_a_kill_kept_from_being_written_are_written_by_a_resume(
    folder: Path, grafico: Callable[..., Any], damage: str
) -> None:
    result, before = folder / "results" / "result.json", starts(folder)
    whole = result.read_bytes()
    if damage == "gone":
        result.unlink()
    else:
        result.write_bytes(b'{"total": 1}' if damage == "old" else whole[:10])
    said = grafico("resume", "last")
    assert said.code == 0, said.err
    assert "its results are not all there: they are written again" in said.err
    assert result.read_bytes() == whole
    assert starts(folder) == before
    assert "nothing to do: all of it was done before" in grafico("resume", "last").out


def test_an_outcome_that_is_gone_is_computed_again_and_the_resume_says_so(
    folder: Path, grafico: Callable[..., Any]
) -> None:
    before = starts(folder)
    lines = [json.loads(line) for path in (folder / "starts").glob("*.jsonl") for line in path.read_text().splitlines()]
    label, key = next((line["label"], line["key"]) for line in lines if line.get("lane") == "0.0:n2")
    outcome = folder / "outcomes" / key[:2] / f"{key}.json"
    outcome.rename(outcome.with_suffix(".elsewhere"))
    (folder / "results" / "result.json").unlink()
    said = grafico("resume", "last")
    assert said.code == 0, said.err
    assert f"note: {label} (lane 0.0:n2) is computed again: its committed outcome {key[:12]} is missing" in said.err
    assert starts(folder) == before + 1
    assert outcome.is_file()
    assert "is computed again" in grafico("explain", "last", "n2").out


def test_a_run_folder_without_its_journal_is_said_to_be_damaged_and_can_be_mended(
    folder: Path, grafico: Callable[..., Any]
) -> None:
    before = starts(folder)
    shutil.rmtree(folder / "journal")
    for command in ("show", "explain"):
        assert "was not copied whole: its folder journal/ is missing" in grafico(command, "last").out
    said = grafico("resume", "last")
    assert said.code == 2
    assert "was not copied whole: its folder journal/ is missing" in said.err
    assert "make an empty folder there and resume" in said.err
    (folder / "journal").mkdir()
    said = grafico("resume", "last")
    assert said.code == 0, said.err
    assert starts(folder) == before


def test_a_damaged_journal_is_told_with_what_to_do_and_that_works(folder: Path, grafico: Callable[..., Any]) -> None:
    before, journal = starts(folder), folder / "journal" / "000001.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3] + lines[4:]))
    shown = grafico("show", "last").out
    assert "line 4: it has the number 4, expected 3" in shown
    assert "mend it: restore the file from a backup; without one, move the folder journal/ aside" in shown
    assert "go on: grafico resume" not in shown
    for command in ("explain", "logs"):
        said = grafico(command, "last", "n2")
        assert said.code == 2
        assert "cannot be told: the journal is damaged" in said.err
    assert grafico("resume", "last").code == 2
    (folder / "journal").rename(folder / "aside")
    (folder / "journal").mkdir()
    said = grafico("resume", "last")
    assert said.code == 0, said.err
    assert starts(folder) == before
    assert grafico("explain", "last", "n2").code == 0


@pytest.mark.parametrize("part", ["starts", "lanes", "results", "artifacts", "outcomes"])
def test_a_run_folder_that_lost_another_folder_can_go_on(part: str, folder: Path, grafico: Callable[..., Any]) -> None:
    shutil.rmtree(folder / part)
    for command in ("show", "explain", "logs"):
        assert grafico(command, "last").code == 0
    said = grafico("resume", "last", "--from", "Spread")
    assert said.code == 0, said.err
    assert (folder / "results" / "result.json").is_file()
