"""Sweeps from the command line: run, resume, look at, in shards, and their tables."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOB = """\
name: many
graph: grafico_tiny:GRAPH
cluster: small.yaml
knowledge: {persist: false}
input: {numbers: [1]}
matrix:
  input.numbers: {few: [1, 2], more: [2, 3], same: [2, 3], bad: [4, 5]}
  input.fail: {none: [], four: [4, 5]}
exclude:
  - {input.numbers: [few, more, same], input.fail: four}
"""


@pytest.fixture
def sweep(bench: Path) -> Path:
    path = bench / "sweep.yaml"
    path.write_text(JOB)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def starts(run: Path) -> list[str]:
    """What really ran: the label of each start that a worker recorded."""
    lines = [json.loads(line) for path in (run / "starts").iterdir() for line in path.read_text().splitlines()]
    return [line["label"] for line in lines if "start" in line]


def test_a_sweep_runs_each_distinct_calculation_once_and_has_a_row_for_each_member(
    grafico: Callable[..., Any], sweep: Path, bench: Path
) -> None:
    said = grafico("run", sweep)
    assert said.code == 3, said.err
    run = next((bench / "runs").iterdir())
    found = rows(run / "results" / "table.csv")
    assert [row["member"] for row in found] == ["few+none", "more+none", "same+none", "bad+none", "bad+four"]
    assert [row["status"] for row in found] == ["success", "success", "success", "success", "failure"]
    assert [row["total"] for row in found] == ["5", "13", "13", "41", ""]
    assert found[2]["same as"] == "more+none"
    assert found[4]["failure"] == "refused"
    assert "too few numbers were squared" in found[4]["message"]
    # 1, 2, 3, 4 and 5 once each; 4 and 5 again where they shall fail, which is another input.
    assert sorted(starts(run)) == [f"square · {n}" for n in (1, 2, 3, 4, 4, 5, 5)]
    assert (run / "results/members/few+none/sum.txt").read_text() == "5"
    assert json.loads((run / "results/members/more+none/result.json").read_text())["total"] == 13
    assert "many\nmember" in said.out.replace("  ", "")
    # What it says to look at is there: the lane of bad+four itself computed nothing.
    output = re.search("why: grafico explain .* bad.four   output: grafico (logs .*)", said.out)
    assert output
    assert "squaring 4" in grafico(*output[1].split()).out
    shown = json.loads((run / "results" / "result.json").read_text())
    assert (shown["members"], shown["lanes"], shown["failed"]) == (5, 4, 1)

    # Whoever shares a lane is found by its own name, too.
    assert "lane more+none" in grafico("explain", "last", "same+none").out
    assert "squaring 2" in grafico("logs", "last", "few+none/n2").out + grafico("logs", "last", "same+none/n2").out
    above = grafico("logs", "last", "few+none")
    assert (above.code, "in the lanes below it: few+none/n1, few+none/n2" in above.err) == (2, True)
    told = grafico("explain", "last", "bad+four", "--deep", "--json").json
    assert told["state"] == "failure"
    assert any("does again: square" in line for line in told["resume"])
    assert len(told["nested"]) == 2
    assert grafico("table", "last", "--json").json["rows"][1][0] == "more+none"
    assert grafico("show", "last").code == 0
    done = grafico("resume", "last", "--lane", "few+none", "--lane", "same+none")
    assert (done.code, "nothing to do" in done.out) == (3, True)


def test_a_resumed_sweep_tries_the_failed_members_again_and_only_those_asked_for(
    grafico: Callable[..., Any], bench: Path
) -> None:
    flags = [bench / "one", bench / "two"]
    for flag in flags:
        flag.touch()
    path = bench / "sweep.yaml"
    path.write_text(
        "name: flags\ngraph: grafico_tiny:GRAPH\ncluster: small.yaml\nknowledge: {persist: false}\n"
        "input: {numbers: [1, 2], need_all: true}\n"
        f"matrix:\n  input.flag: {{one: {flags[0]}, two: {flags[1]}, three: ''}}\n"
    )
    assert grafico("run", path, "-q").code == 3
    run = next((bench / "runs").iterdir())
    table = run / "results" / "table.csv"
    assert [row["status"] for row in rows(table)] == ["failure", "failure", "success"]
    before = len(starts(run))
    for flag in flags:
        flag.unlink()
    assert grafico("resume", "last", "--lane", "two", "-q").code == 3
    assert [row["status"] for row in rows(table)] == ["failure", "success", "success"]
    assert len(starts(run)) == before + 1
    assert grafico("resume", "last", "-q").code == 0
    assert [row["total"] for row in rows(table)] == ["5", "5", "5"]
    assert len(starts(run)) == before + 2


def test_shards_are_runs_of_their_own_whose_tables_are_merged(
    grafico: Callable[..., Any], sweep: Path, bench: Path
) -> None:
    for part in ("1/2", "2/2"):
        assert grafico("run", sweep, "--shard", part, "-q", "--set", "exclude=[{input.fail: four}]").code == 0
    runs = sorted(path.name for path in (bench / "runs").iterdir())
    assert [name.rpartition("-2026")[0] or name[:10] for name in runs] == ["many-1of2", "many-2of2"]
    merged = grafico("table", *runs, "--csv", bench / "all.csv")
    assert merged.code == 0
    found = rows(bench / "all.csv")
    assert sorted(row["member"] for row in found) == ["bad+none", "few+none", "more+none", "same+none"]
    assert {row["run"] for row in found} == set(runs)
    assert "note: " not in merged.err
    assert "of 2 shards of a sweep, shard 1 is not among them" in grafico("table", runs[1], "--json").err
    other = bench / "other.yaml"
    other.write_text(JOB.replace("input.fail: {none: [], four: [4, 5]}", "input.sleep_s: [0]").partition("exclude")[0])
    assert grafico("run", other, "-q", "--set", "matrix.input.numbers=[[1]]").code == 0
    refused = grafico("table", runs[0], "last")
    assert (refused.code, "are of different sweeps" in refused.err) == (2, True)


def test_nothing_is_created_where_a_member_cannot_run(grafico: Callable[..., Any], sweep: Path, bench: Path) -> None:
    said = grafico("run", sweep, "--set", "matrix.input.numbers=[[1], [13]]", "--set", "exclude=[]")
    assert said.code == 2
    assert "2 of 4 members cannot run; nothing was started" in said.err
    assert "in 13+none, 13+four" in said.err
    assert not (bench / "runs").exists()
    wrong = grafico("table", "last")
    assert wrong.code == 2


def test_a_sweep_is_planned_without_being_run(grafico: Callable[..., Any], sweep: Path, bench: Path) -> None:
    said = grafico("run", sweep, "--dry-run")
    assert said.code == 0
    assert "a sweep of 5 members, 4 of them different; 8 calculations are foreseen" in said.out
    plan = grafico("run", sweep, "--dry-run", "--json").json
    assert (plan["members"], plan["lanes"], plan["foreseen"]) == (5, 4, 8)
    assert plan["graph"] == "sweep.tiny"
    assert plan["bound"]["makespan_s"] == plan["walltime_bound_s"] == 4 * 60
    assert not (bench / "runs").exists()


def test_kinds_of_calculations_that_differ_in_size_alone_are_told_together(
    grafico: Callable[..., Any], bench: Path
) -> None:
    path = bench / "sizes.yaml"
    sizes = ", ".join(map(str, range(0, 100, 5)))
    path.write_text(f"{JOB.partition('matrix')[0]}matrix:\n  input.sleep_s: [{sizes}]\n  input.numbers: [[1, 2]]\n")
    said = grafico("run", path, "--dry-run")
    assert said.code == 0, said.err
    assert "calculations, if nothing fails, 20 kinds in short" in said.out
    (row,) = [line for line in said.out.splitlines() if line.startswith("square ")]
    assert re.split(" {2,}", row) == [
        "square",
        "square",
        "40",
        "1 CPU, 200 MiB",
        "1 min to 2 min 35 s",
        "cpu",
        "–",
        "–",
    ]
    assert len(grafico("run", path, "--dry-run", "--json").json["calculations"]) == 20
    few = grafico("run", path, "--dry-run", "--set", "matrix.input.sleep_s=[0, 30]").out
    assert ("in short" in few, few.count("\nsquare ")) == (False, 2)


def test_a_run_that_is_no_sweep_has_no_table(grafico: Callable[..., Any], bench: Path) -> None:
    assert grafico("run", "job.yaml", "-q").code == 0
    said = grafico("table", "last")
    assert (said.code, "is no sweep" in said.err) == (2, True)


def test_files_of_members_are_kept_in_the_run_and_a_changed_roster_is_noticed(
    grafico: Callable[..., Any], bench: Path
) -> None:
    (bench / "t").mkdir()
    for name in ("a", "b"):
        (bench / "t" / f"{name}.txt").write_text(f"text of {name}")
    path = bench / "sweep.yaml"
    path.write_text(
        "name: files\ngraph: grafico_tiny:GRAPH\ncluster: small.yaml\nknowledge: {persist: false}\n"
        'input: {numbers: [1]}\nmatrix:\n  input.table: {files: "t/*.txt"}\n'
    )
    assert grafico("run", path, "-q").code == 0
    run = next((bench / "runs").iterdir())
    assert sorted(item.name for item in (run / "inputs").iterdir()) == ["1-a.txt", "2-b.txt"]
    assert [row["text"] for row in rows(run / "results/table.csv")] == ["text of a", "text of b"]
    assert (run / "members.jsonl").stat().st_mode & 0o777 == 0o600
    with (run / "members.jsonl").open("a") as file:
        file.write(" \n")
    said = grafico("resume", run, "--from", "Table")
    assert said.code in {2, 4}
    assert "members.jsonl" in said.err
    assert "Traceback" not in said.err + said.out
    assert "lane a" in grafico("explain", run, "a").out  # the journal knows its lanes all the same
    os.truncate(run / "members.jsonl", (run / "members.jsonl").stat().st_size - 2)
    assert grafico("resume", run, "--from", "Table", "-q").code == 0


def test_a_picture_is_drawn_over_the_matrix_or_it_is_said_why_not(grafico: Callable[..., Any], bench: Path) -> None:
    path = bench / "sweep.yaml"
    path.write_text(
        "name: drawn\ngraph: grafico_tiny:GRAPH\ncluster: small.yaml\nknowledge: {persist: false}\ninput: {numbers: [1]}\n"
        "matrix:\n  input.numbers: [[1], [2], [3]]\n  input.part.temperature: [300, 400]\ntable: {plot: total}\n"
    )
    assert grafico("run", path, "-q").code == 0
    results = next((bench / "runs").iterdir()) / "results"
    assert (results / "table.png").read_bytes().startswith(b"\x89PNG")
    assert grafico("run", path, "-q", "--set", "table.plot=totl", "--name", "wrong").code == 0
    wrong = next(run for run in (bench / "runs").iterdir() if run.name.startswith("wrong")) / "results"
    notes = json.loads((wrong / "result.json").read_text())["notes"]
    assert "no column 'totl' of numbers; did you mean 'total'?" in notes[0]
    assert not (wrong / "table.png").exists()


def test_a_table_in_parquet_has_the_types_of_its_columns(grafico: Callable[..., Any], sweep: Path, bench: Path) -> None:
    from pyarrow import parquet

    assert grafico("run", sweep, "-q", "--set", "table.parquet=true").code == 3
    run = next((bench / "runs").iterdir())
    assert grafico("table", run, "--parquet", bench / "again.parquet").code == 0
    for path in (run / "results" / "table.parquet", bench / "again.parquet"):
        found = parquet.read_table(path)
        assert found.column_names[:2] == ["member", "numbers"]
        assert found["total"].to_pylist() == [5, 13, 13, 41, None]
        assert str(found.schema.field("total").type) == "int64"
        assert found["failure"].to_pylist() == [None, None, None, None, "refused"]


def test_a_sweep_that_goes_on_has_a_table_of_what_is_there(
    spawn: Callable[..., Any], grafico: Callable[..., Any], sweep: Path, bench: Path
) -> None:
    import time

    sweep.write_text(
        JOB.partition("matrix:")[0]
        + "matrix:\n  case:\n    quick: {input.numbers: [2]}\n    slow: {input.sleep_s: 90}\n"
    )
    process = spawn("run", sweep, cwd=bench)
    states: list[str] = []
    deadline = time.monotonic() + 80
    while "success" not in states and time.monotonic() < deadline:
        time.sleep(0.3)
        if list((bench / "runs").glob("many-*/journal/*.jsonl")):
            found = grafico("table", "last", "--json").json
            states = [row[found["columns"].index("status")] for row in found["rows"]]
    process.kill()
    process.communicate(timeout=60)
    assert states == ["success", "running"]
    # Nobody carries it out now, so nothing runs.
    found = grafico("table", "last", "--json").json
    assert [row[found["columns"].index("status")] for row in found["rows"]] == ["success", "begun"]
