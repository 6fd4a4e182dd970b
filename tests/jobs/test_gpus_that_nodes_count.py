"""A node may ask how many GPUs the run's cluster has, and hears the same for as long as the run lives."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app

COUNTING = """
from dataclasses import dataclass

from grafico.calculations import Model
from grafico.graphs import Context, End, Graph, GraphState, Node
from grafico_tiny import SquareInput, square


class Request(Model):
    flag: str


class Counted(Model):
    gpus: int


@dataclass(kw_only=True)
class State(GraphState):
    request: Request


class Count(Node[State, Counted]):
    async def run(self, ctx: Context[State]) -> End[Counted]:
        gpus = ctx.gpus()
        outcome = await ctx.compute(square, SquareInput(number=2, flag=ctx.state.request.flag))
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(Counted(gpus=gpus))


GRAPH = Graph(
    id="counting", version="1", state_type=State, nodes=[Count], start=Count, request_type=Request,
    begin=lambda request: State(request=request),
)
"""

CARDS = """\
name: cards
pools:
  - {name: gpu, gpus: 3, simulated: true, gpu_memory_mib: 8000, cpus: 3, memory_mib: 2000}
  - {name: cpu, cpus: 2, memory_mib: 1000}
"""


@pytest.fixture
def counting(bench: Path, job: Callable[..., Path]) -> Callable[..., Any]:
    """Call the command line on a job that counts GPUs, on a cluster with three."""
    (bench / "counting.py").write_text(COUNTING)
    (bench / "cards.yaml").write_text(CARDS)
    flag = bench / "flag"
    job(f"graph: counting:GRAPH\ncluster: cards.yaml\nknowledge: {{persist: false}}\ninput: {{flag: {flag}}}\n")

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(app, [*arguments], catch_exceptions=False)

    return call


def counted(bench: Path) -> int:
    folder = next((bench / "runs").iterdir())
    return int(json.loads((folder / "results" / "result.json").read_text())["gpus"])


def test_a_node_counts_the_gpus_of_the_profile(counting: Callable[..., Any], bench: Path) -> None:
    assert counting("run", "job.yaml").exit_code == 0
    assert counted(bench) == 3


def test_a_cluster_without_gpus_has_none(counting: Callable[..., Any], bench: Path) -> None:
    assert counting("run", "job.yaml", "--cluster", "small.yaml").exit_code == 0
    assert counted(bench) == 0


def test_on_another_cluster_a_resumed_run_goes_by_what_it_counted(counting: Callable[..., Any], bench: Path) -> None:
    (bench / "flag").touch()
    assert counting("run", "job.yaml").exit_code == 4
    (bench / "flag").unlink()
    assert counting("resume", "last", "--cluster", "small.yaml").exit_code == 0
    assert counted(bench) == 3
