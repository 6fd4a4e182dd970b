"""Structures that never came: a lane of its own for each, so that the run counts them as it counts all other failures."""

from collections.abc import Mapping
from dataclasses import dataclass

from grafico.calculations import Failure
from grafico.graphs import Context, End, Graph, GraphState, Node

__all__ = ["ABSENT", "AbsentState", "absent_lanes"]


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


def absent_lanes(failures: Mapping[str, Failure]) -> dict[str, AbsentState]:
    """Return the states of lanes that fail with the failures given, by name."""
    return {name: AbsentState(intent=f"read {name}", failure=failure) for name, failure in failures.items()}
