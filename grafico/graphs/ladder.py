"""The recovery ladder: attempts at one calculation, each with what the failure before it changed.

How far it was climbed is journalled before the next attempt starts. So a controller that is killed in the third attempt
goes on with the third, not with the first; its own death costs no rung.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from grafico.calculations import (
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
from grafico.graphs.events import AttemptFailed, CalculationStarted
from grafico.graphs.protocols import Record
from grafico.graphs.scope import Scope

if TYPE_CHECKING:
    from grafico.graphs.computing import Request

__all__ = ["climb"]

PLAIN_RETRY = Rung(note="try once more")

MACHINERY = frozenset({FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.WORKER_LOST, FailureKind.OUT_OF_MEMORY})
"""Failures that may have come after the outcome was committed."""


@dataclass(slots=True)
class Climb:
    """How far the ladder of one calculation was climbed."""

    resources: Resources
    settings: dict[str, Json] = field(default_factory=dict)
    history: list[Attempt] = field(default_factory=list)

    @classmethod
    def begin(cls, request: "Request") -> "Climb":
        """Start at the foot, or where an earlier controller was killed."""
        scope = request.walk.scope
        left = None if request.key in scope.climbed else scope.recorder.climbed(request.key)
        if left is None:
            return cls(request.resources)
        try:
            history = [Attempt.model_validate(attempt) for attempt in left["history"]]
            return cls(Resources.model_validate(left["resources"]), dict(left["settings"]), history)
        except ValidationError:
            return cls(request.resources)  # another version of grafico wrote it

    @property
    def number(self) -> int:
        """Number of the next attempt."""
        return len(self.history) + 1

    def failed(self) -> Attempt | None:
        """Return the last attempt that ran: what no worker can give has not run."""
        ran = (attempt for attempt in reversed(self.history) if attempt.kind is not FailureKind.REFUSED)
        return next(ran, None)

    def taken(self, kind: FailureKind) -> int:
        """Return how many rungs were taken because of this kind before the last attempt failed."""
        count, cause = 0, None
        for attempt in self.history[:-1]:
            cause = cause if attempt.kind is FailureKind.REFUSED else attempt.kind
            count += cause is kind
        return count

    def step(self, rung: Rung, failure: Failure) -> None:
        """Change what a rung says for the next attempt."""
        failed = self.failed()
        if failure.kind is FailureKind.REFUSED and failed is not None:
            self.resources = failed.resources  # what the rung before asked for is nowhere to be had
        self.settings |= rung.settings
        # What the attempt reached (an optimizer's last geometry) may start the next one.
        self.settings |= failure.details.get("carry", {})
        self.resources = rung.apply(self.resources)

    def record(self, request: "Request", rung: Rung) -> Record:
        """Return what a later controller has to know to go on from here."""
        data: dict[str, Json] = {
            "name": request.calculation.name,
            "key": request.key,
            "history": [attempt.model_dump(mode="json") for attempt in self.history],
            "settings": dict(self.settings),
            "resources": self.resources.model_dump(mode="json"),
            "next": rung.note,
        }
        return Record("ladder", request.position, data)


async def climb(request: "Request") -> Outcome[Any]:
    """Attempt a calculation, changing what its recovery ladder says after each failure."""
    scope, calculation = request.walk.scope, request.calculation
    at = Climb.begin(request)
    went_on = bool(at.history)
    while True:
        task = calculation.task(
            request.value,
            key=request.key,
            resources=at.resources,
            attempt=at.number,
            settings=dict(at.settings),
            hints=request.hints,
            lane=request.position.lane,
            label=request.label,
        )
        await _begin(request, task, went_on=went_on)
        went_on = False
        started = time.monotonic()
        outcome = await scope.compute.run(task)
        seconds = time.monotonic() - started
        if isinstance(outcome, Failure) and outcome.kind in MACHINERY:
            outcome = scope.recorder.committed(request.key, calculation.output_type) or outcome
        if isinstance(outcome, Success):
            await _note(request, task, {"status": "success", "seconds": seconds})
            return outcome
        at.history.append(_attempt(outcome, task, seconds))
        rung = _next_rung(scope, calculation, at)
        scope.climbed.add(request.key)
        attempt = {**at.history[-1].model_dump(mode="json"), "status": "failure", "next": rung.note if rung else ""}
        await _note(request, task, attempt)
        if scope.events:
            scope.events.emit(
                AttemptFailed(
                    request.position, False, calculation.name, request.label, task.attempt, outcome, attempt["next"]
                )
            )
        if rung is None:
            return _given_up(outcome, at, calculation.name)
        at.step(rung, outcome)
        await request.walk.record(at.record(request, rung))


async def _begin(request: "Request", task: CalculationTask, *, went_on: bool) -> None:
    scope = request.walk.scope
    about: dict[str, Json] = {
        "name": task.name,
        "label": task.label,
        "key": task.key,
        "attempt": task.attempt,
        "node": request.node,
        "resources": task.resources.model_dump(mode="json", exclude_defaults=True),
    }
    if task.attempt > 1:
        about["settings"] = dict(task.settings)
    if went_on:
        about["went_on"] = True
    await scope.recorder.note("start", request.position, about)
    if scope.events:
        scope.events.emit(CalculationStarted(request.position, False, task.name, task.label, task.key, task.attempt))


async def _note(request: "Request", task: CalculationTask, about: Mapping[str, Json]) -> None:
    facts = {"name": task.name, "label": task.label, "key": task.key, "number": task.attempt, **about}
    await request.walk.scope.recorder.note("attempt", request.position, facts)


def _next_rung(scope: Scope, calculation: Calculation[Any, Any], at: Climb) -> Rung | None:
    """Return what to change next; a rung that asks for more than any worker has is passed over."""
    failed = at.failed()
    if failed is None:
        return None
    kind, used = failed.kind, at.taken(failed.kind)
    if kind is FailureKind.WORKER_LOST:
        return Rung(note="another worker") if used < scope.limits.worker_lost_retries else None
    rungs = calculation.ladder.get(kind)
    if rungs is None and kind is FailureKind.CRASH:
        rungs = (PLAIN_RETRY,)
    rung = rungs[used] if rungs is not None and used < len(rungs) else None
    if rung is not None and rung.gpu is not None and not rung.settings and rung.apply(at.resources) == at.resources:
        return None  # "on CPUs", where it has been all the time
    return rung


def _given_up(outcome: Failure, at: Climb, name: str) -> Failure:
    """Return the failure that the calculation ends with: of the last attempt that ran, with all that was tried."""
    failed = at.failed()
    if outcome.kind is FailureKind.REFUSED and failed is not None:
        said = f"{failed.message}; what would be tried next is nowhere to be had: {outcome.message}"
        outcome = outcome.model_copy(update={"kind": failed.kind, "message": said})
    return outcome.model_copy(update={"history": tuple(at.history), "where": outcome.where or name})


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
