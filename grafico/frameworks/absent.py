"""Structures that never came: a lane of its own for each, so that the run counts them as it counts all other failures."""

from collections.abc import Container
from dataclasses import dataclass

from grafico.calculations import Failure
from grafico.frameworks.state import FrameworkState
from grafico.graphs import Context, End, Graph, GraphState, Node

__all__ = ["ABSENT", "AbsentState", "open_absent"]


@dataclass(kw_only=True)
class AbsentState(GraphState):
    """A structure that could not be had, and why."""

    failure: Failure


class Absent(Node[AbsentState, None]):
    """Say why a structure could not be had."""

    async def run(self, ctx: Context[AbsentState]) -> End[None]:
        """Fail with what is known."""
        raise ctx.fail(ctx.state.failure)


ABSENT = Graph(
    id="absent-structure",
    version="1",
    state_type=AbsentState,
    nodes=(Absent,),
    start=Absent,
    description="A structure that could not be had.",
)


async def open_absent(ctx: Context[FrameworkState], before: Container[str] = ()) -> None:
    """Open a lane that fails for each structure that could not be had and was not known before."""
    lanes = {
        name: AbsentState(intent=f"read {name}", failure=found.failures["download"])
        for name, found in ctx.state.candidates.items()
        if name not in before and "download" in found.failures
    }
    if lanes:
        await ctx.fan_out(ABSENT, lanes, label="missing")
