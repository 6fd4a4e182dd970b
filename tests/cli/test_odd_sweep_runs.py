"""Sweeps whose results, tables and terminals are odd: each member stands for itself, and every table is there."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCIENCE = '''
from dataclasses import dataclass

from pydantic import Field

from grafico.calculations import Model
from grafico.graphs import Context, End, Graph, GraphState, Node

RESULTS = {1: (float("nan"), 1, "$a$ | b"), 2: (2.5, 2**70, "text"), 3: (0.5, 10**5000, ""), 4: (1.0, 1, "a\\udcffb")}


class Request(Model):
    number: int


class Result(Model):
    energy: float = Field(description="energy, hartree")
    large: int = 0
    name: str = ""
    status: str = "mine"


@dataclass(kw_only=True)
class State(GraphState):
    request: Request


class Only(Node[State, Result]):
    """A result of its own for each number."""

    async def run(self, ctx: Context[State]) -> End[Result]:
        energy, large, name = RESULTS[ctx.state.request.number]
        return End(Result(energy=energy, large=large, name=name))


GRAPH = Graph(
    id="odd",
    version="1",
    state_type=State,
    nodes=[Only],
    start=Only,
    request_type=Request,
    begin=lambda request: State(request=request),
)
'''
HEAD = "name: odd\ngraph: odd_science:GRAPH\ncluster: small.yaml\nknowledge: {persist: false}\ninput: {number: 4}\n"


@pytest.fixture
def odd(bench: Path) -> Iterator[Path]:
    (bench / "odd_science.py").write_text(SCIENCE)
    path = bench / "odd.yaml"
    path.write_text(HEAD + "matrix: {input.number: [1, 2, 3, 4]}\n")
    yield path
    sys.modules.pop("odd_science", None)


def test_a_result_that_no_file_can_hold_fails_no_other_and_every_row_is_there(
    grafico: Callable[..., Any], odd: Path, bench: Path
) -> None:
    pytest.importorskip("pyarrow")
    said = grafico("run", odd, "--set", "table.parquet=true", "--json")
    assert said.code == 0, said.err
    run = next((bench / "runs").iterdir())
    with (run / "results/table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["energy (hartree)"] for row in rows] == ["nan", "2.5", "0.5", "1.0"]
    assert [row["large"] for row in rows][:2] == ["1", str(2**70)]
    assert [row["name"] for row in rows] == ["$a$ | b", "text", "", "a?b"]
    assert [row["result status"] for row in rows] == ["mine"] * 4
    assert "the result cannot be written" in rows[2]["note"]
    assert (run / "results/table.parquet").stat().st_size > 0
    assert not (run / "results/members/3/result.json").exists()
    assert json.loads((run / "results/members/1/result.json").read_text())["energy"] is None
    assert json.loads((run / "results/members/4/result.json").read_text())["name"] == "a\udcffb"
    assert len(grafico("table", "last", "--json").json["rows"]) == 4


def test_a_text_that_utf8_cannot_hold_is_kept_in_a_plain_job_too(
    grafico: Callable[..., Any], odd: Path, bench: Path
) -> None:
    odd.write_text(HEAD)
    said = grafico("run", odd)
    assert said.code == 0, said.err
    run = next((bench / "runs").iterdir())
    assert json.loads((run / "results/result.json").read_text())["name"] == "a\udcffb"
    assert "nothing to do" in grafico("resume", "last").out


def test_runs_of_one_name_in_two_folders_are_two_in_a_merged_table(
    grafico: Callable[..., Any], odd: Path, bench: Path
) -> None:
    odd.write_text(HEAD + "matrix: {input.number: [2]}\n")
    assert grafico("run", odd).code == 0
    run = next((bench / "runs").iterdir())
    shutil.copytree(run, bench / "copies" / run.name)
    found = grafico("table", run, bench / "copies" / run.name, "--json").json
    assert len(found["rows"]) == 2
    assert len({row[found["columns"].index("run")] for row in found["rows"]}) == 2


@pytest.mark.parametrize("locale", [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_terminal_without_unicode_is_told_what_it_can_show(
    spawn: Callable[..., Any], bench: Path, locale: dict[str, str]
) -> None:
    (bench / "sweep.yaml").write_text(
        (bench / "job.yaml").read_text() + "matrix: {waits: {β: {input.sleep_s: 1}, 'é': {input.sleep_s: 2}}}\n"
    )
    environ = {**os.environ, "PYTHONCOERCECLOCALE": "0", **locale}
    for arguments in (("run", "sweep.yaml", "--dry-run"), ("--help",)):
        process = spawn(*arguments, cwd=bench, env=environ, encoding="latin-1")
        out, err = process.communicate(timeout=120)
        assert (process.returncode, "unexpected" in err, "Traceback" in err) == (0, False, False), err
        assert out
    process = spawn("run", "sweep.yaml", "--dry-run", "--json", cwd=bench, env=environ, encoding="latin-1")
    out, err = process.communicate(timeout=120)
    assert any("Spread → Add" in line for line in json.loads(out)["outline"]), err


def test_an_output_that_takes_no_more_is_told_and_the_exit_code_of_a_run_stays(
    spawn: Callable[..., Any], odd: Path, bench: Path
) -> None:
    odd.write_text(HEAD + "matrix: {input.number: [2]}\n")
    for arguments, code in ((("run", odd, "-q"), 0), (("table", "last", "--json"), 2), (("--help",), 2)):
        with Path("/dev/full").open("w") as full:
            process = spawn(*arguments, cwd=bench, stdout=full)
            _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (
            code,
            "grafico: the output could not be written: No space left on device\n",
        )
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        process = spawn("show", "last", cwd=bench, stdout=pipe)
        assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == 0


def test_a_folder_whose_name_is_no_text_is_refused_for_runs_and_taken_for_jobs(
    grafico: Callable[..., Any], odd: Path, bench: Path
) -> None:
    odd.write_text(HEAD)
    strange = Path(os.fsdecode(os.fsencode(bench) + b"/\xff"))
    strange.mkdir()
    for name in ("odd.yaml", "odd_science.py", "small.yaml"):
        shutil.copy(bench / name, strange)
    said = grafico("run", odd, "--runs-dir", strange)
    assert (said.code, "must be UTF-8 text" in said.err) == (2, True)
    assert "--set input.number=?: not UTF-8 text" in grafico("run", odd, "--set", "input.number=\udcff").err
    assert grafico("run", strange / "odd.yaml", "--json").code == 0
