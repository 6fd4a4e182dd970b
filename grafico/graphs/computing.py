"""One calculation as a walk sees it: recalled, reused by key, or computed with its recovery ladder."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from grafico.calculations import ArtifactRef, Calculation, Failure, Json, Outcome, Resources
from grafico.errors import BadInput, ReplayMismatch
from grafico.graphs.events import CalculationEnded, OutcomeLost
from grafico.graphs.ladder import climb
from grafico.graphs.protocols import Position, Record
from grafico.graphs.scope import Flight, same
from grafico.graphs.walk import Walk

__all__ = ["Request", "answer", "make_request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A calculation asked for at one position."""

    walk: Walk
    position: Position
    node: str
    calculation: Calculation[Any, Any]
    value: BaseModel
    key: str
    label: str
    hints: Mapping[str, ArtifactRef]
    resources: Resources


def make_request(
    walk: Walk,
    position: Position,
    node: str,
    calculation: Calculation[Any, Any],
    value: BaseModel,
    *,
    label: str | None = None,
    hints: Mapping[str, ArtifactRef | None] | None = None,
    resources: Resources | None = None,
) -> Request:
    """Fix key and resources of a calculation now, so that later changes of state cannot reach it.

    Raises
    ------
    BadInput
        The input is not of the calculation's input type, or has no canonical form.
    """
    if not isinstance(value, calculation.input_type):
        raise BadInput(
            f"calculation {calculation.name} takes {calculation.input_type.__name__}, and was given {type(value).__name__}"
        )
    return Request(
        walk=walk,
        position=position,
        node=node,
        calculation=calculation,
        value=value,
        key=calculation.key(value),
        label=label or calculation.name,
        hints={name: ref for name, ref in (hints or {}).items() if ref is not None},
        resources=resources or calculation.resources(value),
    )


async def answer(request: Request) -> Outcome[Any]:
    """Return the outcome: from the journal, from a committed outcome of the same key, or computed.

    Raises
    ------
    ReplayMismatch
        The journal holds another calculation, or another input, at this position.
    """
    walk, position, calculation = request.walk, request.position, request.calculation
    recorder, events = walk.scope.recorder, walk.scope.events
    recalled = walk.recall(position, "compute", request.node)
    if recalled is not None:
        outcome = await _recalled(request, recalled)
        if events:
            events.emit(_ended(request, outcome, replayed=True, reused=True))
        return outcome
    committed = recorder.committed(request.key, calculation.output_type)
    outcome = committed if committed is not None else await _shared(request)
    data: dict[str, Json] = {"name": calculation.name, "key": request.key, "status": outcome.status}
    if isinstance(outcome, Failure):
        data["failure"] = outcome.model_dump(mode="json")
        data["calls"] = position.ordinal + 1 if walk.ctx is None else walk.ctx.position.ordinal
    await walk.record(Record("compute", position, data))
    if events:
        events.emit(_ended(request, outcome, replayed=False, reused=committed is not None))
    return outcome


def _ended(request: Request, outcome: Outcome[Any], *, replayed: bool, reused: bool) -> CalculationEnded:
    failure = outcome if isinstance(outcome, Failure) else None
    return CalculationEnded(
        request.position, replayed, request.calculation.name, request.label, request.key, failure, reused
    )


async def _recalled(request: Request, record: Record) -> Outcome[Any]:
    data = record.data
    asked = {"name": request.calculation.name, "key": request.key}
    same(request.position, request.node, "a calculation", data, asked)
    if data["status"] == "failure":
        return Failure.model_validate(data["failure"])
    found = request.walk.scope.recorder.committed(request.key, request.calculation.output_type)
    return found if found is not None else await _again(request)


async def _again(request: Request) -> Outcome[Any]:
    """Compute a success again whose committed outcome is gone: what followed from it stays, if its key stays the same.

    Where the new outcome differs so much that later inputs do, their keys tell.
    """
    walk, name = request.walk, request.calculation.name
    reason = f"its committed outcome {request.key[:12]} is missing or damaged"
    about = {"name": name, "label": request.label, "key": request.key, "node": request.node, "reason": reason}
    await walk.scope.recorder.note("again", request.position, about)
    if walk.scope.events:
        walk.scope.events.emit(OutcomeLost(request.position, False, name, request.label, request.key, reason))
    outcome = await _shared(request)
    if isinstance(outcome, Failure):
        raise ReplayMismatch(
            f"the journal says that {name} succeeded at node {request.node}, but {reason}, and it fails now: "
            f"{outcome.kind}: {outcome.message}",
            hint=f"restore the run folder, or walk on from there as it is: grafico resume RUN --from {request.node}",
        )
    return outcome


async def _shared(request: Request) -> Outcome[Any]:
    """Compute once for all positions that ask for this key at the same time."""
    flights = request.walk.scope.flights
    flight = flights.get(request.key)
    if flight is None:
        flight = flights[request.key] = Flight(asyncio.ensure_future(climb(request)))
    flight.waiting += 1
    try:
        return await asyncio.shield(flight.task)
    finally:
        flight.waiting -= 1
        if flight.waiting == 0:
            if flights.get(request.key) is flight:
                del flights[request.key]
            if not flight.task.done():
                request.walk.scope.abandon(flight.task)
