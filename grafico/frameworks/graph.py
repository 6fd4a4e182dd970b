"""The frameworks graph: which steps may follow which, what is refused beforehand, and what is foreseen."""

from collections.abc import Callable
from typing import Any

from grafico.frameworks.foreseeing import foresee
from grafico.frameworks.nodes import Analyze, Build, CombinatorialSearch, Download, Finish, ProcessCIF, Relax, Start
from grafico.frameworks.report import draw_table
from grafico.frameworks.request import FrameworkRequest
from grafico.frameworks.state import FrameworkState
from grafico.frameworks.validation import check_request
from grafico.graphs import Graph, Guard

__all__ = ["GRAPH"]

_STEPS: tuple[tuple[type[Any], str, Callable[[FrameworkState], bool], str], ...] = (
    (Download, "download", lambda state: state.to_download, "structures are still to be fetched by refcode"),
    (ProcessCIF, "cut", lambda state: bool(state.due("cut")), "structures are still to be cut into their parts"),
    (CombinatorialSearch, "search", lambda state: state.to_search, "the knowledge base is still to be searched"),
    (Build, "build", lambda state: bool(state.due("build")), "combinations are still to be put together"),
    (Relax, "relax", lambda state: bool(state.due("relax")), "frameworks are still to be relaxed"),
    (Analyze, "analyze", lambda state: bool(state.due("analyze")), "frameworks are still to be measured"),
)


def _may_leave(state: FrameworkState) -> bool:
    """Whether an exit was requested and is due: its node has run."""
    return state.exit == Finish.node_id or any(summary.node == state.exit for summary in state.summaries)


def _not(due: Callable[[FrameworkState], bool]) -> Callable[[FrameworkState], bool]:
    return lambda state: not due(state)


def _and_stays(due: Callable[[FrameworkState], bool]) -> Callable[[FrameworkState], bool]:
    return lambda state: due(state) and not _may_leave(state)


def _guards() -> tuple[Guard, ...]:
    """Return for each step that it waits for those before it, and is not taken where nothing is left to do.

    What a relaxation has not brought to convergence counts as done and as unrelaxed, so nothing unconverged is ever handed
    on as relaxed, and nothing is relaxed twice.
    """
    found = []
    for index, (node, name, due, reason) in enumerate(_STEPS):
        later = tuple(step[0] for step in _STEPS[index + 1 :])
        found.append(
            Guard(
                name=f"nothing to {name}",
                removes=(node,),
                when=_not(due),
                reason=f"nothing is left to {name}",
            )
        )
        if later:
            found.append(Guard(name=f"{name} first", removes=later, when=due, reason=reason))
        found.append(
            Guard(
                name=f"{name} before the end",
                removes=(Finish,),
                when=_and_stays(due),
                reason=reason,
            )
        )
    return tuple(found)


GRAPH = Graph(
    id="framework-design",
    version="1",
    state_type=FrameworkState,
    nodes=(Start, Download, ProcessCIF, CombinatorialSearch, Build, Relax, Analyze, Finish),
    start=Start,
    guards=_guards(),
    request_type=FrameworkRequest,
    begin=FrameworkState.for_request,
    check=check_request,
    foresee=foresee,
    pictures=draw_table,
    max_steps=12,
    description="Metal-organic frameworks: cut into their parts, recombined, built, relaxed and measured, in lanes.",
)
