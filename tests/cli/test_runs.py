"""Runs from the command line: run, look at, go on with."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def run(grafico: Callable[..., Any], bench: Path) -> Callable[..., Any]:
    """Run the tiny job with values of its input set."""

    def start(*options: object, **values: object) -> Any:
        settings = [f"--set=input.{key}={json.dumps(value)}" for key, value in values.items()]
        return grafico("run", "job.yaml", *settings, *options)

    return start


def starts(folder: Path) -> list[str]:
    """Labels of all calculations that workers started, as they recorded it themselves."""
    lines = [line for path in (folder / "starts").glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(entry["label"] for entry in map(json.loads, lines) if "start" in entry)


def test_a_run_prints_its_tables_and_where_to_look(run: Callable[..., Any], bench: Path) -> None:
    said = run("--quiet")
    assert said.code == 0, said.err
    folder = next((bench / "runs").iterdir())
    assert [line.split() for line in said.out.splitlines() if line.strip().startswith("n")] == [
        ["number", "square"], ["n1", "1"], ["n2", "4"], ["n3", "9"],
    ]  # fmt: skip
    assert f"{folder.name}: finished" in said.out
    assert f"results: runs/{folder.name}/results: result.json, sum.txt, tables.json" in said.out
    assert json.loads((folder / "results" / "result.json").read_text())["total"] == 14
    assert (folder / "job.yaml").read_bytes() == (bench / "job.yaml").read_bytes()
    assert said.err == ""


def test_progress_goes_to_standard_error_and_json_stays_one_value(run: Callable[..., Any]) -> None:
    said = run("--json", "--name", "named")
    assert said.code == 0
    assert said.json["name"] == "named"
    assert said.json["status"] == "finished"
    assert said.json["result"]["total"] == 14
    assert said.json["tables"][0]["columns"] == ["number", "square"]
    assert "lane n1 done" in said.err


def test_a_run_with_failed_lanes_ends_with_3_and_is_explained(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    said = run("--quiet", fail=[2])
    assert said.code == 3
    assert "failed: n2: not_converged: 2 would not be squared" in said.out
    assert "try what failed again: grafico resume" in said.out

    listed = grafico("list", "--json").json
    assert [(row["status"], row["exit_code"], row["counts"]["lanes_failed"]) for row in listed] == [
        ("finished_with_failed_lanes", 3, 1)
    ]
    name = listed[0]["run"]
    assert name in grafico("list").out

    shown = grafico("show", "last", "--json").json
    assert shown["run"] == name
    assert shown["failed_lanes"]["0.0:n2"]["kind"] == "not_converged"
    human = grafico("show", name).out
    assert "finished, with failed lanes" in human
    assert "Spread → Add" in human

    story = grafico("explain", "last", "n2", "--json").json
    assert story["state"] == "failure"
    assert any("would not be squared" in event["text"] for event in story["story"])
    assert "square · 2: attempt 1 failed" in grafico("explain", "last", "n2").out
    assert "opened 3 lanes of squares" in grafico("explain", "last").out

    assert "squaring 2" in grafico("logs", "last", "n2").out
    assert "squaring 2" in grafico("logs", "last", "n2", "--json").json["log"]
    assert grafico("logs", "last", "n1", "--tail", "1").out == "squaring 1\n"
    assert {row["lane"] for row in grafico("logs", "last", "--json").json} == {"n1", "n2", "n3"}
    assert "✗ 1 failed" in grafico("graph", "show", "--run", "last").out
    assert grafico("watch", "last").code == 3
    assert grafico("watch", "last", "--json").json["status"] == "finished_with_failed_lanes"

    for command in ("explain", "logs"):
        wrong = grafico(command, "last", "n9")
        assert wrong.code == 2
        assert "n9" in wrong.err
        assert "n2" in wrong.err


def test_resume_tries_again_what_failed_and_nothing_else(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    flag = bench / "flag"
    flag.touch()
    assert run("--quiet", flag=str(flag)).code == 3
    folder = next((bench / "runs").iterdir())
    flag.unlink()

    kept = grafico("resume", "last", "--keep-failures", "--quiet", "--json")
    assert kept.code == 3
    assert kept.json["nothing_to_do"]

    said = grafico("resume", "last", "--quiet")
    assert said.code == 0, said.err
    assert "n1" in said.out
    assert starts(folder) == ["square · 1", "square · 1", "square · 2", "square · 3"]

    again = grafico("resume", "last")
    assert again.code == 0
    assert "nothing to do: all of it was done before" in again.out
    assert "n3" in again.out
    assert len(starts(folder)) == 4


def test_resume_from_a_node_reuses_what_was_committed(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    assert run("--quiet").code == 0
    folder = next((bench / "runs").iterdir())
    said = grafico("resume", "last", "--from", "SquareOne", "--quiet")
    assert said.code == 0, said.err
    assert "3 of them reused" in said.out
    assert len(starts(folder)) == 3
    wrong = grafico("resume", "last", "--from", "Nowhere")
    assert wrong.code == 2
    assert "SquareOne" in wrong.err


def test_resume_recomputes_outcomes_of_other_versions_if_the_job_says_so(
    grafico: Callable[..., Any], bench: Path
) -> None:
    text = (bench / "grafico_tiny.py").read_text().replace('tiny="1.0"', '**{"pyyaml": "1.0"}')
    (bench / "grafico_other.py").write_text(text)
    for choice, count, words in (("reuse", 3, "reused (on_version_change: reuse)"), ("recompute", 6, "recomputed")):
        options = ["--set", "graph=grafico_other:GRAPH", "--set", f"on_version_change={choice}", "--name", choice]
        assert grafico("run", "job.yaml", "--quiet", *options).code == 0
        said = grafico("resume", choice, "--quiet")
        assert said.code == 0
        assert "3 outcomes used pyyaml 1.0" in said.err
        assert words in said.err
        assert len(starts(next((bench / "runs").glob(f"{choice}-*")))) == count


def test_leading_zeros_are_no_other_version(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (bench / "grafico_tiny.py").read_text().replace('tiny="1.0"', '**{"pyyaml": "2026.09.1"}')
    (bench / "grafico_other.py").write_text(text)
    monkeypatch.setattr("grafico.jobs.resume.version", lambda name: "2026.9.1")
    options = ["--set", "graph=grafico_other:GRAPH", "--set", "on_version_change=recompute"]
    assert grafico("run", "job.yaml", "--quiet", *options).code == 0
    said = grafico("resume", "last", "--quiet")
    assert said.code == 0
    assert "nothing to do" in said.out
    assert "outcomes used" not in said.err


def test_a_failed_run_ends_with_4(run: Callable[..., Any], grafico: Callable[..., Any]) -> None:
    said = run("--quiet", fail=[2], need_all=True)
    assert said.code == 4
    assert "too few numbers were squared" in said.out
    assert grafico("list", "--json").json[0]["status"] == "failed"


def test_files_are_kept_in_the_run_so_that_it_can_be_moved_and_resumed(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    (bench / "numbers.txt").write_text("first")
    flag = bench / "flag"
    flag.touch()
    assert run("--quiet", table="numbers.txt", flag=str(flag)).code == 3
    (bench / "numbers.txt").unlink()
    flag.unlink()
    folder = next((bench / "runs").iterdir())
    moved = folder.rename(bench / "moved")
    said = grafico("resume", moved, "--quiet", "--json")
    assert said.code == 0, said.err
    assert said.json["result"]["text"] == "first"
    assert (moved / "inputs" / "1-numbers.txt").read_text() == "first"


def test_a_run_is_found_by_path_name_start_and_last(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    for name in ("alpha", "beta"):
        assert run("--quiet", "--name", name, numbers=[1]).code == 0
    alpha = next((bench / "runs").glob("alpha-*"))
    for text in ("alpha", alpha.name, alpha, f"runs/{alpha.name}", alpha.name.rpartition("-")[2]):
        assert grafico("show", text, "--json").json["run"] == alpha.name
    assert grafico("show", "last", "--json").json["name"] == "beta"
    assert grafico("list", "--runs-dir", "elsewhere", "--json").json == []
    assert "there are alpha-" in grafico("show", "gamma").err


def test_a_dry_run_shows_the_plan_and_creates_nothing(run: Callable[..., Any], bench: Path) -> None:
    before = {path.name for path in bench.iterdir()}
    said = run("--dry-run")
    assert said.code == 0, said.err
    for part in ("Spread → Add", "squares", "1 CPU, 200 MiB", "at most 2 min", "profile small"):
        assert part in said.out
    plan = run("--dry-run", "--json").json
    assert plan["calculations"][0]["count"] == 3
    assert plan["calculations"][0]["at_once"] == 2
    assert plan["walltime_bound_s"] == 120
    assert plan["mermaid"].startswith("flowchart")
    assert {path.name for path in bench.iterdir()} - {"__pycache__"} == before - {"__pycache__"}


def test_a_dry_run_plans_for_gpus_that_are_not_here(grafico: Callable[..., Any], bench: Path) -> None:
    (bench / "h100x4.yaml").write_text(
        "pools:\n  - {name: cpu, cpus: 8, memory_mib: 64000}\n  - {name: gpu, gpus: 4, cpus: 8, memory_mib: 64000}\n"
    )
    plan = grafico("run", "job.yaml", "--dry-run", "--json", "--cluster", "h100x4.yaml").json
    assert [worker["places"] for worker in plan["workers"]] == [8, 3, 3, 3, 3]
    assert "as if the GPUs of the profile were here" in plan["notes"][0]


def test_a_seed_makes_chance_the_same_in_every_run(grafico: Callable[..., Any], bench: Path) -> None:
    text = (bench / "grafico_tiny.py").read_text().replace('text = ""', "text = str(ctx.random().random())")
    (bench / "grafico_chance.py").write_text(text)

    def chance(seed: str) -> str:
        options = ["--set", "graph=grafico_chance:GRAPH", "--set", f"seed={seed}", "--set", "input.numbers=[1]"]
        return str(grafico("run", "job.yaml", "--quiet", "--json", *options).json["result"]["text"])

    first = chance("7")
    assert chance("7") == first
    assert chance("8") != first


def test_a_changed_graph_version_is_refused_with_what_to_do(
    run: Callable[..., Any], grafico: Callable[..., Any], bench: Path
) -> None:
    assert run("--quiet", fail=[2]).code == 3
    manifest = next((bench / "runs").iterdir()) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"graph_version": "1"', '"graph_version": "0"'))
    said = grafico("resume", "last")
    assert said.code == 4
    assert "version 0 of the graph tiny; this grafico has version 1" in said.err


def test_an_unexpected_error_is_one_line_and_a_file(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise NameError("name '_foresee' is not defined")

    monkeypatch.setattr("grafico.jobs.launch.load_job", broken)
    said = grafico("run", "job.yaml", "--dry-run")
    assert said.code == 4
    assert "unexpected error: NameError" in said.err
    assert "Traceback" not in said.err
    details = Path(said.err.partition("the details are in ")[2].partition(";")[0])
    assert "Traceback" in details.read_text()
    details.unlink()


def test_a_missing_package_is_named_with_its_extra(grafico: Callable[..., Any], bench: Path) -> None:
    (bench / "grafico_needy.py").write_text("import tblite_that_is_not_here\n")
    (bench / "grafico_needier.py").write_text("import gpu4pyscf.nothing\n")
    sys.modules["gpu4pyscf"] = None  # type: ignore[assignment]
    try:
        said = grafico("run", "job.yaml", "--set", "graph=grafico_needier:GRAPH")
    finally:
        del sys.modules["gpu4pyscf"]
    assert said.code == 2
    assert 'pip install "grafico[gpu12]"' in said.err


def test_graphs_are_listed_and_shown(grafico: Callable[..., Any], bench: Path) -> None:
    ids = {row["id"] for row in grafico("graph", "list", "--json").json}
    assert {"quantum-chemistry", "ensemble-spectrum"} <= ids
    shown = grafico("graph", "show", "grafico_tiny:GRAPH").out
    assert "Spread → Add" in shown
    assert "part.temperature" in shown
    assert "temperature, K" in shown
    data = grafico("graph", "show", "grafico_tiny:GRAPH", "--json").json
    assert [node["id"] for node in data["nodes"]] == ["Spread", "Add"]
    assert data["input"]["properties"]["numbers"]
    assert grafico("graph", "show", "grafico_tiny:GRAPH", "--mermaid").out.startswith("flowchart")
    assert grafico("graph", "show", "no-such-graph").code == 2


def test_results_can_be_asked_of_the_knowledge_base_in_a_later_process(
    grafico: Callable[..., Any], bench: Path, spawn: Any
) -> None:
    options = ["--set", "knowledge.persist=true", "--set", "knowledge.store=kb"]
    said = grafico("run", "job.yaml", "--quiet", *options)
    assert said.code == 0, said.err
    query = "SELECT ?calculation ?version { ?e a grafico:Execution ; grafico:calculation ?calculation ; prov:wasAssociatedWith ?s . ?s grafico:version ?version }"
    process = spawn("kb", "query", query, "--store", "kb", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    rows = json.loads(out)["results"]["bindings"]
    assert [(row["calculation"]["value"], row["version"]["value"]) for row in rows] == [("square", "1.0")] * 3
