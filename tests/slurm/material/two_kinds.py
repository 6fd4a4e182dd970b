"""A small science for tests on Slurm: some calculations want a slot of a GPU, some only a CPU."""

import os
from dataclasses import dataclass, field

from grafico.calculations import Model, Outcome, Resources, WorkContext, calculation
from grafico.graphs import Context, End, Graph, GraphState, Node

SMALL = Resources(memory_mib=200, walltime_s=60)


class Input(Model):
    number: int


class Place(Model):
    device: str
    seen: str


def _resources(value: Input) -> Resources:
    gpu = "slot" if value.number % 2 else "none"
    return SMALL.model_copy(update={"gpu": gpu, "gpu_memory_mib": 100 if gpu == "slot" else 0})


@calculation(version="1", resources=_resources)
def where(value: Input, ctx: WorkContext) -> Place:
    return Place(device=ctx.device, seen=os.environ.get("SLURM_JOB_ID", ""))


class Request(Model):
    numbers: tuple[int, ...]


class Places(Model):
    places: dict[str, Place]


@dataclass(kw_only=True)
class State(GraphState):
    request: Request
    outcomes: dict[str, Outcome] = field(default_factory=dict)


class Spread(Node[State, Places]):
    """Look around everywhere."""

    async def run(self, ctx: Context[State]) -> "Gather":
        members = {f"n{number}": Input(number=number) for number in ctx.state.request.numbers}
        ctx.state.outcomes = await ctx.fan_out(where, members)
        return await ctx.route()


class Gather(Node[State, Places]):
    """Tell."""

    async def run(self, ctx: Context[State]) -> End[Places]:
        return End(Places(places={name: outcome.output for name, outcome in ctx.state.outcomes.items() if outcome.ok}))


GRAPH = Graph(
    id="two-kinds",
    version="1",
    state_type=State,
    nodes=[Spread, Gather],
    start=Spread,
    request_type=Request,
    begin=lambda request: State(request=request),
)
