"""The choice of a successor: guards, hard exits, forced edges, the router; all of it journalled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pydantic import BaseModel, ValidationError

from grafico.calculations import Json
from grafico.errors import GraphStopped
from grafico.graphs.asking import Choice, Fork, ask
from grafico.graphs.events import RouteChosen
from grafico.graphs.node import AnyNode, parameters_of
from grafico.graphs.protocols import Position, Record
from grafico.graphs.routes import problems
from grafico.graphs.scope import mismatch
from grafico.graphs.state import GraphState, RouteTaken

if TYPE_CHECKING:
    from grafico.graphs.context import Context
    from grafico.graphs.walk import Walk

__all__ = ["Decided", "accept_returned", "choose", "decide"]

OutputT = TypeVar("OutputT", bound=BaseModel)

BY_CODE = frozenset({"forced", "rule", "node", "exit"})
"""What code decides is decided again in the same way; what a model said is lost unless it is on disk first."""


@dataclass(frozen=True)
class Decided(Generic[OutputT]):
    """What a decision node gets: the task output, and the successor to return from ``run``."""

    output: OutputT
    next: AnyNode


async def choose(walk: "Walk", node: AnyNode, position: Position) -> AnyNode:
    """Return the successor of ``node``.

    Raises
    ------
    GraphStopped
        No successor is admissible, or none could be chosen safely.
    ReplayMismatch
        The journal holds a route that the code no longer admits.
    """
    fork = _fork(walk, node)
    recalled = walk.recall(position, "route", node.node_id)
    if recalled is not None:
        return _or_stop(_replay(fork, position, recalled), fork)
    choice = _without_router(fork)
    if choice is None:
        choice = await ask(fork)
    return await _settle(fork, position, choice)


async def decide(
    ctx: "Context[Any]", position: Position, output: type[OutputT], default: OutputT | None
) -> Decided[OutputT]:
    """Return a task output and a successor from one answer of the router.

    Raises
    ------
    GraphStopped
        No valid answer came and there is no default, or no successor is admissible.
    ReplayMismatch
        The journal holds an output or a route that the code no longer admits.
    """
    fork = _fork(ctx.walk, ctx.node)
    recalled = ctx.walk.recall(position, "route", ctx.node.node_id)
    if recalled is not None:
        ctx.chosen = _or_stop(_replay(fork, position, recalled), fork)
        try:
            return Decided(output.model_validate(recalled.data.get("output")), ctx.chosen)
        except ValidationError as error:
            wrong = "; ".join(problems(error))
            raise mismatch(position, ctx.node.node_id, "another task output", f"{output.__name__} ({wrong})") from error
    if not fork.admissible:
        return Decided(cast(OutputT, None), await _settle(fork, position, _none_left(fork)))
    choice = await ask(fork, output)
    made = cast(OutputT | None, choice.output) or default
    if made is None:
        choice = Choice(None, "fallback", 0.0, f"{choice.reasoning}; without a task output there is no going on")
    elif (leave := _exit(fork)) is not None:
        choice = leave
    choice.output = made
    ctx.chosen = await _settle(fork, position, choice)
    return Decided(cast(OutputT, made), ctx.chosen)


async def accept_returned(walk: "Walk", node: AnyNode, position: Position, returned: AnyNode) -> None:
    """Check and journal a successor that a node returned without asking for a route.

    Raises
    ------
    GraphStopped
        It is not declared, or a guard forbids it.
    ReplayMismatch
        The journal says that the node went elsewhere.
    """
    fork = _fork(walk, node)
    if type(returned) not in fork.plan.successors:
        raise GraphStopped(
            f"node {node.node_id} returned {type(returned).__name__}, and declares `{fork.plan.declared.annotation}`"
        )
    if (reason := fork.vetoed.get(returned.node_id)) is not None:
        raise GraphStopped(f"node {node.node_id} returned {returned.node_id}, which a guard forbids ({reason})")
    recalled = walk.recall(position, "route", node.node_id)
    if recalled is None:
        await _settle(fork, position, Choice(returned, "node"))
        return
    choice = _replay(fork, position, recalled)
    if choice.node != returned:
        raise mismatch(position, node.node_id, f"a route to {_show(choice.node)}", f"a route to {_show(returned)}")


def _fork(walk: "Walk", node: AnyNode) -> Fork:
    plan = walk.graph.plans[type(node)]
    admissible, vetoed = plan.admissible(walk.state)
    return Fork(walk, node, plan, admissible, vetoed)


def _without_router(fork: Fork) -> Choice | None:
    """Return the choice where there is none to make: a hard exit, nothing left, or a forced edge."""
    if fork.walk.state.exit is not None and (leave := _exit(fork)) is not None:
        return leave
    admissible = fork.admissible
    if not admissible:
        return _none_left(fork)
    if len(admissible) > 1 or fork.walk.scope.limits.ask_forced:
        return None
    sole = admissible[0]
    if fork.plan.has_rule and sole.model_fields:
        ruled = fork.node.rule(fork.walk.state)
        if type(ruled) is sole:
            return Choice(ruled, "forced")
    return None if sole in fork.plan.open else Choice(sole(), "forced")


def _none_left(fork: Fork) -> Choice:
    if not fork.plan.successors:
        return Choice(None, "forced", 0.0, "it declares no successor but an end, and asked for a route")
    reasons = "; ".join(f"{node_id}: {reason}" for node_id, reason in fork.vetoed.items())
    return Choice(None, "forced", 0.0, f"guards forbid every successor ({reasons})")


def _exit(fork: Fork) -> Choice | None:
    """Return the hard exit once it is due: its node has been visited, or is a terminal successor itself."""
    state: GraphState = fork.walk.state
    plan, wanted = fork.plan, state.exit
    if wanted is None:
        return None
    why = f"exit at {wanted} was requested"
    leaving: Sequence[type[AnyNode]] = [
        cls for cls in fork.admissible if cls in plan.terminals and cls not in plan.open
    ]
    at_once = [cls for cls in leaving if cls.node_id == wanted]
    if at_once:
        return Choice(at_once[0](), "exit", 1.0, why)
    if wanted != plan.node_id and not any(taken.node == wanted for taken in state.routes):
        return None
    if leaving:
        return Choice(leaving[0](), "exit", 1.0, why)
    if plan.terminals:
        return None  # a guard forbids the end for now: the walk leaves as soon as guards allow
    return Choice(None, "exit", 1.0, f"{why}, and there is no terminal successor")


async def _settle(fork: Fork, position: Position, choice: Choice) -> AnyNode:
    """Journal a choice, then act on it."""
    data: dict[str, Json] = {
        "successor": None if choice.node is None else choice.node.node_id,
        "parameters": {} if choice.node is None else parameters_of(choice.node),
        "by": choice.by,
        "confidence": choice.confidence,
        "reasoning": choice.reasoning,
    }
    if fork.vetoed:
        data["vetoes"] = dict(fork.vetoed)
    if choice.output is not None:
        data["output"] = choice.output.model_dump(mode="json")
    if choice.node is None and choice.by in BY_CODE:
        # A stop that the code decides is for the story alone: changed code decides it anew when the lane is retried.
        await fork.walk.scope.recorder.note("stop", position, {"node": fork.plan.node_id, **data})
    else:
        await fork.walk.record(Record("route", position, data), durable=choice.by not in BY_CODE)
    _remember(fork, position, choice, replayed=False)
    return _or_stop(choice, fork)


def _replay(fork: Fork, position: Position, record: Record) -> Choice:
    """Return the journalled choice, if the code still admits it."""
    data, plan = record.data, fork.plan
    successor = data["successor"]
    node: AnyNode | None = None
    if successor is not None:
        cls = fork.walk.graph.by_id.get(successor)
        if cls is None or cls not in plan.successors:
            raise mismatch(position, plan.node_id, f"a route to {successor}", f"one of `{plan.declared.annotation}`")
        if successor in fork.vetoed:
            raise mismatch(position, plan.node_id, f"a route to {successor}", f"another ({fork.vetoed[successor]})")
        node = _rebuild(cls, data.get("parameters", {}), plan.node_id, position)
    choice = Choice(node, data["by"], data.get("confidence", 1.0), data.get("reasoning", ""))
    _remember(fork, position, choice, replayed=True)
    return choice


def _rebuild(cls: type[AnyNode], parameters: Mapping[str, Json], at: str, position: Position) -> AnyNode:
    if not parameters and not cls.model_fields:
        return cls()
    try:
        return cls.model_validate(parameters)
    except ValidationError as error:
        raise mismatch(
            position, at, f"a route to {cls.node_id} with {parameters}", "; ".join(problems(error))
        ) from error


def _remember(fork: Fork, position: Position, choice: Choice, *, replayed: bool) -> None:
    state: GraphState = fork.walk.state
    node_id = fork.plan.node_id
    successor = None if choice.node is None else choice.node.node_id
    state.routes.append(RouteTaken(node_id, successor, choice.by, choice.confidence, choice.reasoning))
    if choice.by == "fallback" and choice.confidence == 0.0:
        state.stopped = choice.reasoning
    events = fork.walk.scope.events
    if events:
        events.emit(RouteChosen(position, replayed, node_id, successor, choice.by, choice.confidence, choice.reasoning))


def _or_stop(choice: Choice, fork: Fork) -> AnyNode:
    if choice.node is None:
        raise GraphStopped(f"the walk stops at node {fork.plan.node_id}: {choice.reasoning}")
    return choice.node


def _show(node: AnyNode | None) -> str:
    if node is None:
        return "nothing"
    parameters = parameters_of(node)
    return f"{node.node_id}({', '.join(f'{name}={value!r}' for name, value in parameters.items())})"
