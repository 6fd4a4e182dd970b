"""Frameworks from the command line: what is refused beforehand, with its line; plans; a run that is explained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app

ROOT = Path(__file__).parents[2]

BUILDS = """\
name: builds
graph: framework-design
knowledge: {persist: false}
input:
  tasks: [build, analyze]
  build:
    - {topology: pcu, node: N16, linker: E44}
    - {topology: bcu, node: N625, linker: E14}
  max_rmsd: 0.1
  analysis: {samples: 50, volume_samples: 100}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a job file into a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "kb"))

    def write(text: str) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(text)
        return path

    return write


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def said(result: Any) -> str:
    return " ".join((result.stdout + result.stderr).split())


BAD = [
    ("  refcodes: [EDUSIF, EDUSIG]\n", "line 3", "no structure 'EDUSIG'"),
    ("  refcodes: EDUSIF\n  dataset: 2019-ARS\n", "line 4", "neither a data set of CoRE MOF nor a folder"),
    ("  build: {topology: bcuu, node: N625, linker: E14}\n", "line 3", "did you mean bcu"),
    ("  build: {topology: bcu, node: N6250, linker: E14}\n", "line 3", "no building block 'N6250'"),
    ("  build: {topology: bcu, node: E14, linker: E34}\n", "line 3", "has no metal, so it is no metal node"),
    ("  build: {topology: bcu, node: N625, linker: N16}\n", "line 3", "has a metal, so it is no linker"),
    ("  build: {topology: pcu, node: N625, linker: E14}\n", "line 3", "wants 6 docking points, N625 has 8"),
    ("  build:\n    - {topology: pcu, node: N16, linker: E14}\n    - {topology: pcu, node: N16}\n", "line 5", "linker"),
    ("  build: {topology: pcu, node: N16, linker: E14}\n  relaxation: {model: 7net-9}\n", "line 4", "perhaps 7net-0"),
    (
        "  build: {topology: pcu, node: N16, linker: E14}\n  batching: batched\n  relaxation: {model: chgnet}\n",
        "line 4", "cannot relax many frameworks at once",
    ),
    ("  build: {topology: pcu, node: N16, linker: E14}\n  relaxation: {fmax: 0}\n", "line 4", "fmax"),
    ("  build: {topology: pcu, node: N16, linker: E14}\n  tasks: [relax]\n", "line 2", "needs the task build"),
    ("  search: {metals: [Zz]}\n", "line 3", "Zz"),
    ("  rebuild: true\n", "line 2", "nothing to work on"),
    ("  refcode: EDUSIF\n", "line 3", "did you mean 'refcodes'"),
    ("  files: missing.cif\n", "line 3", "there is no file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "why"), BAD)
def test_what_cannot_run_is_refused_with_its_line_and_nothing_is_created(
    job: Callable[[str], Path], tmp_path: Path, text: str, line: str, why: str
) -> None:
    path = job(f"graph: framework-design\ninput:\n{text}")
    found = call("run", path)
    assert found.exit_code == 2, said(found)
    assert line in said(found)
    assert why in said(found)
    assert "Traceback" not in said(found)
    assert not (tmp_path / "runs").exists()


def test_the_jobs_that_come_with_the_project_are_planned(job: Callable[[str], Path]) -> None:
    names = sorted(path for path in (ROOT / "jobs").glob("mof-*.yaml"))
    assert len(names) == 5
    for path in names:
        found = call("run", path, "--dry-run", "--json")
        assert found.exit_code == 0, said(found)
        plan = json.loads(found.stdout)
        assert plan["graph"].endswith("framework-design")
        assert {"analyze"} <= {item["calculation"] for item in plan["calculations"]}
        if path.stem == "mof-screen":
            assert plan["members"] >= 100


def test_a_run_has_rows_for_all_and_explains_what_failed(job: Callable[[str], Path], tmp_path: Path) -> None:
    found = call("run", job(BUILDS))
    assert found.exit_code == 3, said(found)  # finished, with failed lanes
    results = next((tmp_path / "runs").iterdir()) / "results"
    result = json.loads((results / "result.json").read_text())
    assert [(row["name"], row["stage"], list(row["failures"])) for row in result["rows"]] == [
        ("pcu_N16_E44", "built", []),
        ("bcu_N625_E14", None, ["build"]),
    ]
    assert (results / "cif" / "pcu_N16_E44-built.cif").is_file()
    assert "pcu_N16_E44" in (results / "frameworks.csv").read_text().splitlines()[1]
    told = said(call("explain", "last", "bcu_N625_E14"))
    assert "RMSD is 0.1606, above the limit of 0.1" in told
    # What failed is tried again, and nothing else.
    again = call("resume", "last")
    assert again.exit_code == 3, said(again)
    starts = [json.loads(line) for path in (results.parent / "starts").glob("*.jsonl") for line in path.open()]
    labels = [entry["label"] for entry in starts if "start" in entry]
    assert sorted(labels) == ["analyze · pcu_N16_E44", "build · bcu_N625_E14", "build · bcu_N625_E14",
                              "build · pcu_N16_E44"]  # fmt: skip
