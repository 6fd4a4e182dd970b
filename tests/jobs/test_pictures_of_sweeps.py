"""A graph may draw the table of its sweeps."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app

DRAWING = """
import json
from dataclasses import replace

import grafico_tiny


def draw(rows, title):
    if any(row["total"] > 50 for row in rows if row["status"] == "success"):
        raise ValueError("these are too large to be drawn")
    return {"own.json": json.dumps([title, [(row["member"], row.get("total")) for row in rows]]).encode()}


GRAPH = replace(grafico_tiny.GRAPH, id="drawing", pictures=draw)
"""

JOB = """\
name: drawn
graph: drawing:GRAPH
cluster: small.yaml
knowledge: {persist: false}
input: {need_all: true}
"""


@pytest.fixture
def run(bench: Path) -> Callable[[str], Path]:
    """Run the sweep with lines added; return the folder of its results."""
    (bench / "drawing.py").write_text(DRAWING)

    def start(matrix: str) -> Path:
        (bench / "job.yaml").write_text(JOB + matrix)
        CliRunner().invoke(app, ["run", "job.yaml", "-q"], catch_exceptions=False)
        return next((bench / "runs").iterdir()) / "results"

    return start


def test_it_is_given_every_row_also_those_that_failed(run: Callable[[str], Path]) -> None:
    results = run("matrix:\n  numbers: {one: {input.numbers: [1]}, two: {input.numbers: [2], input.fail: [2]}}\n")
    assert json.loads((results / "own.json").read_text()) == ["drawn", [["one", 1], ["two", None]]]
    assert "own.json" in json.loads((results / "result.json").read_text())["files"]


def test_where_it_cannot_the_table_is_there_and_says_so(run: Callable[[str], Path]) -> None:
    results = run("matrix:\n  input.numbers: [[8], [9]]\n")
    assert "these are too large to be drawn" in json.loads((results / "result.json").read_text())["notes"][0]
    assert (results / "table.csv").read_text().count("success") == 2


def test_nothing_is_drawn_where_no_picture_is_wanted(run: Callable[[str], Path]) -> None:
    results = run("matrix:\n  input.numbers: [[1], [2]]\ntable: {plot: off}\n")
    assert not (results / "own.json").exists()
