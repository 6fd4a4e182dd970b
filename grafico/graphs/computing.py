"""One calculation as a walk sees it: recalled, reused by key, or computed with its recovery ladder."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from grafico.calculations import (
    ArtifactRef,
    Attempt,
    Calculation,
    CalculationTask,
    Failure,
    FailureKind,
    Json,
    Outcome,
    Resources,
    Rung,
    Success,
)
from grafico.errors import BadInput, ReplayMismatch
from grafico.graphs.events import AttemptFailed, CalculationEnded, CalculationStarted
from grafico.graphs.protocols import Position, Record
from grafico.graphs.scope import Flight, Scope, same
from grafico.graphs.walk import Walk

__all__ = ["Request", "answer", "make_request"]

PLAIN_RETRY = Rung(note="try once more")


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
        outcome = _recalled(request, recalled)
        if events:
            events.emit(_ended(request, outcome, replayed=True, reused=True))
        return outcome
    committed = recorder.committed(request.key, calculation.output_type)
    outcome = committed if committed is not None else await _shared(request)
    data: dict[str, Json] = {"name": calculation.name, "key": request.key, "status": outcome.status}
    if isinstance(outcome, Failure):
        data["failure"] = outcome.model_dump(mode="json")
    await walk.record(Record("compute", position, data))
    if events:
        events.emit(_ended(request, outcome, replayed=False, reused=committed is not None))
    return outcome


def _ended(request: Request, outcome: Outcome[Any], *, replayed: bool, reused: bool) -> CalculationEnded:
    failure = outcome if isinstance(outcome, Failure) else None
    return CalculationEnded(
        request.position, replayed, request.calculation.name, request.label, request.key, failure, reused
    )


def _recalled(request: Request, record: Record) -> Outcome[Any]:
    data = record.data
    asked = {"name": request.calculation.name, "key": request.key}
    same(request.position, request.node, "a calculation", data, asked)
    if data["status"] == "failure":
        return Failure.model_validate(data["failure"])
    found = request.walk.scope.recorder.committed(request.key, request.calculation.output_type)
    if found is None:
        raise ReplayMismatch(
            f"the journal says that {request.calculation.name} succeeded at node {request.node}, "
            f"but its outcome {request.key[:12]}… is gone from the run",
            hint=f"restore the run folder, or recompute: grafico resume RUN --from {request.node}",
        )
    return found


async def _shared(request: Request) -> Outcome[Any]:
    """Compute once for all positions that ask for this key at the same time."""
    flights = request.walk.scope.flights
    flight = flights.get(request.key)
    if flight is None:
        flight = flights[request.key] = Flight(asyncio.ensure_future(_climb(request)))
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


async def _climb(request: Request) -> Outcome[Any]:
    """Attempt a calculation, changing what its recovery ladder says after each failure."""
    scope, calculation = request.walk.scope, request.calculation
    settings: dict[str, Json] = {}
    resources = request.resources
    used: Counter[FailureKind] = Counter()
    history: list[Attempt] = []
    value = request.value.model_dump(mode="json")
    while True:
        task = CalculationTask(
            reference=calculation.reference,
            name=calculation.name,
            version=calculation.version,
            family=calculation.family,
            key=request.key,
            input=value,
            resources=resources,
            attempt=len(history) + 1,
            settings=dict(settings),
            hints=request.hints,
            lane=request.position.lane,
            label=request.label,
        )
        await _begin(request, task)
        started = time.monotonic()
        outcome = await scope.compute.run(task)
        seconds = time.monotonic() - started
        if isinstance(outcome, Success):
            await _note(request, task, {"status": "success", "seconds": seconds})
            return outcome
        rung = _next_rung(scope, calculation, outcome.kind, used[outcome.kind])
        used[outcome.kind] += 1
        history.append(_attempt(outcome, task, seconds))
        attempt = {**history[-1].model_dump(mode="json"), "status": "failure", "next": rung.note if rung else ""}
        await _note(request, task, attempt)
        if scope.events:
            scope.events.emit(
                AttemptFailed(
                    request.position, False, calculation.name, request.label, task.attempt, outcome, attempt["next"]
                )
            )
        if rung is None:
            where = outcome.where or calculation.name
            return outcome.model_copy(update={"history": tuple(history), "where": where})
        settings |= rung.settings
        # What the attempt reached (an optimizer's last geometry) may start the next one.
        settings |= outcome.details.get("carry", {})
        resources = rung.apply(resources)


async def _begin(request: Request, task: CalculationTask) -> None:
    scope = request.walk.scope
    about = {"name": task.name, "label": task.label, "key": task.key, "attempt": task.attempt, "node": request.node}
    await scope.recorder.note("start", request.position, about)
    if scope.events:
        scope.events.emit(CalculationStarted(request.position, False, task.name, task.label, task.key, task.attempt))


async def _note(request: Request, task: CalculationTask, about: Mapping[str, Json]) -> None:
    facts = {"name": task.name, "label": task.label, "key": task.key, "number": task.attempt, **about}
    await request.walk.scope.recorder.note("attempt", request.position, facts)


def _next_rung(scope: Scope, calculation: Calculation[Any, Any], kind: FailureKind, used: int) -> Rung | None:
    if kind is FailureKind.WORKER_LOST:
        return Rung(note="another worker") if used < scope.limits.worker_lost_retries else None
    rungs = calculation.ladder.get(kind)
    if rungs is None and kind is FailureKind.CRASH:
        rungs = (PLAIN_RETRY,)
    return rungs[used] if rungs is not None and used < len(rungs) else None


def _attempt(failure: Failure, task: CalculationTask, seconds: float) -> Attempt:
    """Return what is kept of a failed attempt; where the worker said more about it, that stands."""
    told = failure.history[-1] if failure.history else None
    return Attempt(
        number=task.attempt,
        kind=failure.kind,
        message=failure.message,
        settings=task.settings,
        resources=task.resources,
        worker=told.worker if told else "",
        seconds=told.seconds if told and told.seconds else seconds,
    )
