"""A sweep whose members need different kinds of workers, the one kind after the other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app
from grafico.runs import RunPaths, read_starts

NAPPING = """
import time
from dataclasses import dataclass

from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node


class Nap(Model):
    number: int
    gpu: bool


class Rested(Model):
    number: int


def resources(nap: Nap) -> Resources:
    return Resources(gpu="slot" if nap.gpu else "none", cpus=1, memory_mib=100, walltime_s=60)


@calculation(version="1", resources=resources)
def nap(value: Nap, ctx: WorkContext) -> Rested:
    time.sleep(0.02)
    return Rested(number=value.number)


@dataclass(kw_only=True)
class State(GraphState):
    request: Nap


class Rest(Node[State, Rested]):
    async def run(self, ctx: Context[State]) -> End[Rested]:
        outcome = await ctx.compute(nap, ctx.state.request, label="gpu" if ctx.state.request.gpu else "cpu")
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output)


GRAPH = Graph(
    id="napping", version="1", state_type=State, nodes=[Rest], start=Rest, request_type=Nap,
    begin=lambda request: State(request=request),
)
"""

PROFILE = """\
name: mixed
pools:
  - {name: gpu, gpus: 1, simulated: true, gpu_memory_mib: 8000, cpus: 1, memory_mib: 2000}
  - {name: cpu, cpus: 1, memory_mib: 1000}
"""

ON_CPUS, ON_GPUS = 500, 3


@pytest.mark.slow
def test_gpus_do_not_stand_idle_because_the_first_hundreds_of_members_want_cpus(
    bench: Path, job: Callable[..., Path]
) -> None:
    (bench / "napping.py").write_text(NAPPING)
    (bench / "mixed.yaml").write_text(PROFILE)
    lines = [f"{n},{'no' if n < ON_CPUS else 'yes'}" for n in range(ON_CPUS + ON_GPUS)]
    (bench / "naps.csv").write_text("\n".join(["number,gpu", *lines, ""]))
    columns = "{input.number: number, input.gpu: gpu}"
    job(
        "graph: napping:GRAPH\ncluster: mixed.yaml\nknowledge: {persist: false}\ninput: {}\n"
        f"matrix: {{nap: {{csv: naps.csv, columns: {columns}}}}}\n"
    )
    result: Any = CliRunner().invoke(app, ["run", "job.yaml"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    folder = next((bench / "runs").iterdir())
    order = [start.label for start in sorted(read_starts(RunPaths(folder)), key=lambda start: start.started)]
    assert len(order) == ON_CPUS + ON_GPUS
    assert sum("gpu" in label for label in order[:200]) == ON_GPUS
