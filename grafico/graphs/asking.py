"""Asking a router: the question, the answers that are refused with their errors, and the fallback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from grafico.calculations import Json
from grafico.errors import GraphStopped
from grafico.graphs.failures import ends_the_run
from grafico.graphs.node import AnyNode, parameters_of, required_parameters
from grafico.graphs.protocols import Answered, RouteProposal, RouteQuestion
from grafico.graphs.routes import (
    envelope_schema,
    problems,
    read_envelope,
    read_route,
    route_option,
    route_schema,
)
from grafico.graphs.state import GraphState, check_scalars

if TYPE_CHECKING:
    from grafico.graphs.graph import NodePlan
    from grafico.graphs.walk import Walk

__all__ = ["Choice", "Fork", "Told", "ask"]

FALLBACK_CONFIDENCE = 0.1


@dataclass(slots=True)
class Told:
    """What routers of a walk were told so far; each summary is put into words once."""

    lines: list[str] = field(default_factory=list)
    scalars: dict[str, Json] = field(default_factory=dict)

    def hear(self, state: GraphState) -> None:
        """Take in the summaries that are new."""
        for summary in state.summaries[len(self.lines) :]:
            self.lines.append(f"{summary.node}: {summary.text}")
            self.scalars.update(summary.scalars)


@dataclass(slots=True)
class Choice:
    """A successor and how it came about; no node where the walk stops."""

    node: AnyNode | None
    by: str
    confidence: float = 1.0
    reasoning: str = ""
    output: BaseModel | None = None


@dataclass(slots=True)
class Fork:
    """A place where a successor has to be chosen."""

    walk: "Walk"
    node: AnyNode
    plan: "NodePlan"
    admissible: tuple[type[AnyNode], ...]
    vetoed: Mapping[str, str]
    """Declared successors that guards removed, by node id, with the reasons."""


async def ask(fork: Fork, output: type[BaseModel] | None = None) -> Choice:
    """Return the router's choice, or the fallback once it gave no valid answer up to the retry limit.

    Parameters
    ----------
    fork
        Where the walk stands; at least one successor is admissible.
    output
        Model of a task output that is asked for in the same answer.
    """
    router = fork.walk.scope.router
    suggestion = _suggestion(fork)
    errors: tuple[str, ...] = ()
    made: BaseModel | None = None
    for _ in range(1 + fork.walk.scope.limits.route_retries):
        try:
            answer = await router.choose(_question(fork, suggestion, errors, output))
        except GraphStopped as stop:
            errors = (stop.message,)
            break
        except Exception as error:
            if ends_the_run(error):
                raise
            errors = (f"the router failed: {type(error).__name__}: {error}",)
            break
        try:
            if output is None:
                route = read_route(fork.admissible, answer)
            else:
                made, route = read_envelope(output, fork.admissible, answer)
        except ValidationError as error:
            errors = problems(error)
            continue
        by = answer.by if isinstance(answer, Answered) else router.name
        return Choice(route.parameters, by, route.confidence, route.reasoning, made)
    return _fallback(fork, "; ".join(errors))


def _fallback(fork: Fork, why: str) -> Choice:
    plan, admissible = fork.plan, fork.admissible
    reason = f"no valid route came back ({why})"
    if len(admissible) == 1:
        sole = admissible[0]
        if sole not in plan.open:
            return Choice(
                sole(), "fallback", FALLBACK_CONFIDENCE, f"{reason}; the sole successor is taken with its defaults"
            )
        needs = ", ".join(required_parameters(sole))
        return Choice(None, "fallback", 0.0, f"{reason}; the sole successor {sole.node_id} needs {needs}")
    for cls in admissible:
        if cls in plan.terminals and cls not in plan.open:
            return Choice(cls(), "fallback", 0.0, f"{reason}; safe end among several successors")
    return Choice(None, "fallback", 0.0, f"{reason}; several successors, none of them an end")


def _suggestion(fork: Fork) -> RouteProposal | None:
    ruled = fork.node.rule(fork.walk.state) if fork.plan.has_rule else None
    if ruled is None or type(ruled) not in fork.admissible:
        return None
    return RouteProposal.model_construct(
        successor=ruled.node_id, parameters=parameters_of(ruled), reasoning="the job asks for it", confidence=1.0
    )


def _question(
    fork: Fork, suggestion: RouteProposal | None, errors: tuple[str, ...], output: type[BaseModel] | None
) -> RouteQuestion:
    """Put a question together; its parts are checked already, so it is not validated again."""
    state: GraphState = fork.walk.state
    own = check_scalars(state.scalars(), f"the state of graph {fork.walk.graph.id}")
    told = fork.walk.told
    told.hear(state)
    schema = route_schema(fork.admissible) if output is None else envelope_schema(output, fork.admissible)
    return RouteQuestion.model_construct(
        graph=fork.walk.graph.id,
        node=fork.node.node_id,
        lane=fork.walk.lane,
        intent=state.intent,
        summaries=tuple(told.lines),
        scalars={**own, **told.scalars},
        options=tuple(route_option(cls) for cls in fork.admissible),
        vetoed=fork.vetoed,
        schema_=schema,
        suggestion=suggestion,
        errors=errors,
        task=None if output is None else _task_schema(output),
    )


@cache
def _task_schema(output: type[BaseModel]) -> Mapping[str, Any]:
    return output.model_json_schema()
