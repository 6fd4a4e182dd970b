"""A graph whose lanes sleep on GPU slots or CPUs, or wait for a file; copied beside the jobs of tests as ``naps``."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node

SAID = "first edition"


class Nap(Model):
    number: int
    seconds: float = 0.0
    gpu: str = "none"
    gpu_memory_mib: int = 0
    gate: str = Field(default="", description="wait until this file is there")
    hurry: str = Field(default="", description="sleep no more once this file is there")
    tag: str = ""


class Slept(Model):
    number: int
    said: str
    pid: int


def needs(value: Nap) -> Resources:
    return Resources(gpu=value.gpu, gpu_memory_mib=value.gpu_memory_mib, cpus=1, memory_mib=300, walltime_s=120)


@calculation(version="1", resources=needs)
def nap(value: Nap, ctx: WorkContext) -> Slept:
    if not (value.hurry and Path(value.hurry).exists()):
        time.sleep(value.seconds)
    while value.gate and not Path(value.gate).exists():
        time.sleep(0.05)
    return Slept(number=value.number, said=SAID, pid=os.getpid())


class Request(Model):
    naps: list[Nap]


class Result(Model):
    done: int
    said: list[str]


@dataclass(kw_only=True)
class State(GraphState):
    request: Request
    said: list[str] | None = None


class Sleep(Node[State, Result]):
    """All naps at once."""

    async def run(self, ctx: Context[State]) -> "Count":
        outcomes = await ctx.fan_out(nap, {f"nap-{each.number}": each for each in ctx.state.request.naps})
        ctx.state.said = [outcome.output.said for outcome in outcomes.values() if outcome.ok]
        return await ctx.route()


class Count(Node[State, Result]):
    """How many there were."""

    async def run(self, ctx: Context[State]) -> End[Result]:
        said = ctx.state.said or []
        return End(Result(done=len(said), said=sorted(set(said))))


GRAPH = Graph(
    id="naps",
    version="1",
    state_type=State,
    nodes=[Sleep, Count],
    start=Sleep,
    request_type=Request,
    begin=lambda request: State(request=request),
)
