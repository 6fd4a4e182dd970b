"""The choice of a successor: guards, hard exits, forced edges, the router, fallbacks; all of it journalled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from grafico.calculations import Json
from grafico.errors import GraphStopped
from grafico.graphs.events import RouteChosen
from grafico.graphs.failures import ends_the_run
from grafico.graphs.node import AnyNode, parameters_of, required_parameters
from grafico.graphs.protocols import Position, Record, RouteProposal, RouteQuestion
from grafico.graphs.routes import (
    envelope_schema,
    problems,
    read_envelope,
    read_route,
    route_option,
    route_schema,
)
from grafico.graphs.scope import mismatch
from grafico.graphs.state import GraphState, RouteTaken, check_scalars

if TYPE_CHECKING:
    from grafico.graphs.context import Context
    from grafico.graphs.graph import NodePlan
    from grafico.graphs.walk import Walk

__all__ = ["Decided", "accept_returned", "choose", "decide"]

OutputT = TypeVar("OutputT", bound=BaseModel)

FALLBACK_CONFIDENCE = 0.1


@dataclass(frozen=True)
class Decided(Generic[OutputT]):
    """What a decision node gets: the task output, and the successor to return from ``run``."""

    output: OutputT
    next: Any


@dataclass(slots=True)
class Choice:
    """A successor and how it came about; ``None`` where the walk stops."""

    node: AnyNode | None
    by: str
    confidence: float = 1.0
    reasoning: str = ""
    output: BaseModel | None = None


async def choose(walk: "Walk", node: AnyNode, position: Position) -> AnyNode:
    """Return the successor of ``node``.

    Raises
    ------
    GraphStopped
        No successor is admissible, or none could be chosen safely.
    ReplayMismatch
        The journal holds a route that the code no longer admits.
    """
    plan = walk.graph.plans[type(node)]
    admissible, vetoed = plan.admissible(walk.state)
    recalled = walk.recall(position, "route", node.node_id)
    if recalled is not None:
        return _stop_if_none(_replay(walk, plan, position, recalled, vetoed), plan)
    choice = _without_router(walk, plan, node, admissible, vetoed)
    if choice is None:
        choice = await _ask(walk, plan, node, admissible, vetoed, None)
    return await _settle(walk, plan, position, choice, vetoed)


async def decide(
    ctx: "Context[Any]", position: Position, output: type[OutputT], default: OutputT | None
) -> Decided[OutputT]:
    """Return a task output and a successor from one answer of the router.

    Raises
    ------
    GraphStopped
        No valid answer came and there is no default, or no successor is admissible.
    """
    walk, node = ctx.walk, ctx.node
    plan = walk.graph.plans[type(node)]
    admissible, vetoed = plan.admissible(walk.state)
    recalled = walk.recall(position, "route", node.node_id)
    if recalled is not None:
        choice = _replay(walk, plan, position, recalled, vetoed)
        ctx.chosen = _stop_if_none(choice, plan)
        try:
            return Decided(output.model_validate(recalled.data.get("output")), ctx.chosen)
        except ValidationError as error:
            raise mismatch(position, node.node_id, f"an output that is no {output.__name__}", str(error)) from error
    if admissible:
        choice = await _ask(walk, plan, node, admissible, vetoed, output)
        if (leave := _exit(walk.state, plan, node, admissible)) is not None:
            choice.node, choice.by = leave.node, leave.by
    else:
        choice = _none_left(plan, vetoed)
    if choice.output is None:
        choice.output = default
    if choice.output is None and choice.node is not None:
        choice = Choice(None, "fallback", 0.0, f"{choice.reasoning}; without a task output there is no going on")
    ctx.chosen = await _settle(walk, plan, position, choice, vetoed)
    return Decided(choice.output, ctx.chosen)  # type: ignore[arg-type]


async def accept_returned(walk: "Walk", node: AnyNode, position: Position, returned: AnyNode) -> None:
    """Check and journal a successor that a node returned without asking for a route.

    Raises
    ------
    GraphStopped
        It is not declared, or a guard forbids it.
    ReplayMismatch
        The journal says that the node went elsewhere.
    """
    plan = walk.graph.plans[type(node)]
    if type(returned) not in plan.successors:
        raise GraphStopped(
            f"node {node.node_id} returned {type(returned).__name__}, and declares `{plan.declared.annotation}`"
        )
    _, vetoed = plan.admissible(walk.state)
    if (reason := vetoed.get(returned.node_id)) is not None:
        raise GraphStopped(f"node {node.node_id} returned {returned.node_id}, which a guard forbids ({reason})")
    recalled = walk.recall(position, "route", node.node_id)
    if recalled is not None:
        choice = _replay(walk, plan, position, recalled, vetoed)
        if choice.node != returned:
            recorded = f"a route to {_show(choice.node)}"
            raise mismatch(position, node.node_id, recorded, f"a route to {_show(returned)}")
        return
    await _settle(walk, plan, position, Choice(returned, "node"), vetoed)


def _without_router(
    walk: "Walk", plan: "NodePlan", node: AnyNode, admissible: Sequence[type[AnyNode]], vetoed: Mapping[str, str]
) -> Choice | None:
    """Return the choice where there is none to make: a hard exit, nothing left, or a forced edge."""
    if walk.state.exit is not None and (leave := _exit(walk.state, plan, node, admissible)) is not None:
        return leave
    if not admissible:
        return _none_left(plan, vetoed)
    if len(admissible) > 1:
        return None
    sole = admissible[0]
    if plan.has_rule and sole.model_fields:
        ruled = node.rule(walk.state)
        if type(ruled) is sole:
            return Choice(ruled, "forced")
    return None if sole in plan.open else Choice(sole(), "forced")


def _none_left(plan: "NodePlan", vetoed: Mapping[str, str]) -> Choice:
    if not plan.successors:
        return Choice(
            None, "forced", 0.0, f"node {plan.node_id} declares no successor, only an end, and asked for a route"
        )
    reasons = "; ".join(f"{node_id}: {reason}" for node_id, reason in vetoed.items())
    return Choice(None, "forced", 0.0, f"guards forbid every successor of {plan.node_id} ({reasons})")


def _exit(state: GraphState, plan: "NodePlan", node: AnyNode, admissible: Sequence[type[AnyNode]]) -> Choice | None:
    """Return the hard exit once it is due: its node has been visited, or is a terminal successor itself."""
    wanted = state.exit
    if wanted is None:
        return None
    leaving = [cls for cls in admissible if cls in plan.terminals and cls not in plan.open]
    at_once = [cls for cls in leaving if cls.node_id == wanted]
    if at_once:
        return Choice(at_once[0](), "exit", 1.0, f"exit at {wanted} was requested")
    if wanted != node.node_id and not any(taken.node == wanted for taken in state.routes):
        return None
    if leaving:
        return Choice(leaving[0](), "exit", 1.0, f"exit at {wanted} was requested")
    if plan.terminals:
        return None  # a guard forbids the end for now: the walk leaves as soon as guards allow
    return Choice(None, "exit", 1.0, f"exit at {wanted} was requested, and {plan.node_id} has no terminal successor")


async def _ask(
    walk: "Walk",
    plan: "NodePlan",
    node: AnyNode,
    admissible: tuple[type[AnyNode], ...],
    vetoed: Mapping[str, str],
    output: type[BaseModel] | None,
) -> Choice:
    """Ask the router, hand refused answers back with their errors, and fall back when the limit is reached."""
    router = walk.scope.router
    suggestion = _suggestion(plan, node, walk.state, admissible)
    errors: tuple[str, ...] = ()
    for _ in range(1 + walk.scope.limits.route_retries):
        question = _question(walk, node, admissible, vetoed, suggestion, errors, output)
        try:
            answer = await router.choose(question)
        except GraphStopped as stop:
            errors = (stop.message,)
            break
        except Exception as error:
            if ends_the_run(error):
                raise
            errors = (f"the router failed: {type(error).__name__}: {error}",)
            break
        try:
            made, route = (
                (None, read_route(admissible, answer)) if output is None else read_envelope(output, admissible, answer)
            )
        except ValidationError as error:
            errors = problems(error)
            continue
        return Choice(route.parameters, router.name, route.confidence, route.reasoning, made)
    return _fallback(plan, admissible, "; ".join(errors))


def _fallback(plan: "NodePlan", admissible: Sequence[type[AnyNode]], why: str) -> Choice:
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


def _suggestion(
    plan: "NodePlan", node: AnyNode, state: Any, admissible: Sequence[type[AnyNode]]
) -> RouteProposal | None:
    ruled = node.rule(state) if plan.has_rule else None
    if ruled is None or type(ruled) not in admissible:
        return None
    return RouteProposal.model_construct(
        successor=ruled.node_id, parameters=parameters_of(ruled), reasoning="the job asks for it", confidence=1.0
    )


def _question(
    walk: "Walk",
    node: AnyNode,
    admissible: tuple[type[AnyNode], ...],
    vetoed: Mapping[str, str],
    suggestion: RouteProposal | None,
    errors: tuple[str, ...],
    output: type[BaseModel] | None,
) -> RouteQuestion:
    """Put a question together; its parts are checked already, so it is not validated again."""
    state: GraphState = walk.state
    scalars: dict[str, Json] = dict(check_scalars(state.scalars(), f"the state of graph {walk.graph.id}"))
    for summary in state.summaries:
        scalars.update(summary.scalars)
    return RouteQuestion.model_construct(
        graph=walk.graph.id,
        node=node.node_id,
        lane=walk.lane,
        intent=state.intent,
        summaries=tuple(f"{summary.node}: {summary.text}" for summary in state.summaries),
        scalars=scalars,
        options=tuple(route_option(cls) for cls in admissible),
        vetoed=vetoed,
        schema_=route_schema(admissible) if output is None else envelope_schema(output, admissible),
        suggestion=suggestion,
        errors=errors,
        task=None if output is None else output.model_json_schema(),
    )


async def _settle(
    walk: "Walk", plan: "NodePlan", position: Position, choice: Choice, vetoed: Mapping[str, str]
) -> AnyNode:
    """Journal a choice, then act on it."""
    data: dict[str, Json] = {
        "successor": None if choice.node is None else choice.node.node_id,
        "parameters": {} if choice.node is None else parameters_of(choice.node),
        "by": choice.by,
        "confidence": choice.confidence,
        "reasoning": choice.reasoning,
    }
    if vetoed:
        data["vetoes"] = dict(vetoed)
    if choice.output is not None:
        data["output"] = choice.output.model_dump(mode="json")
    # What code decides is decided again in the same way; what a model said is lost unless it is on disk first.
    await walk.record(Record("route", position, data), durable=choice.by not in {"forced", "rule", "node", "exit"})
    _remember(walk, plan, position, choice, replayed=False)
    return _stop_if_none(choice, plan)


def _replay(walk: "Walk", plan: "NodePlan", position: Position, record: Record, vetoed: Mapping[str, str]) -> Choice:
    """Return the journalled choice, if the code still admits it."""
    data = record.data
    successor = data["successor"]
    node: AnyNode | None = None
    if successor is not None:
        cls = walk.graph.by_id.get(successor)
        if cls is None or cls not in plan.successors:
            raise mismatch(position, plan.node_id, f"a route to {successor}", f"one of `{plan.declared.annotation}`")
        if successor in vetoed:
            raise mismatch(position, plan.node_id, f"a route to {successor}", f"another, for {vetoed[successor]}")
        try:
            node = cls.model_validate(data.get("parameters", {}))
        except ValidationError as error:
            raise mismatch(
                position, plan.node_id, f"parameters of {successor} that no longer hold", "; ".join(problems(error))
            ) from error
    choice = Choice(node, data["by"], data.get("confidence", 1.0), data.get("reasoning", ""))
    _remember(walk, plan, position, choice, replayed=True)
    return choice


def _remember(walk: "Walk", plan: "NodePlan", position: Position, choice: Choice, *, replayed: bool) -> None:
    state: GraphState = walk.state
    successor = None if choice.node is None else choice.node.node_id
    state.routes.append(RouteTaken(plan.node_id, successor, choice.by, choice.confidence, choice.reasoning))
    if choice.by == "fallback" and choice.confidence == 0.0:
        state.stopped = choice.reasoning
    if walk.scope.events:
        walk.scope.events.emit(
            RouteChosen(position, replayed, plan.node_id, successor, choice.by, choice.confidence, choice.reasoning)
        )


def _stop_if_none(choice: Choice, plan: "NodePlan") -> AnyNode:
    if choice.node is None:
        raise GraphStopped(f"the walk stops at node {plan.node_id}: {choice.reasoning}")
    return choice.node


def _show(node: AnyNode | None) -> str:
    if node is None:
        return "nothing"
    parameters = parameters_of(node)
    return f"{node.node_id}({', '.join(f'{name}={value!r}' for name, value in parameters.items())})"
