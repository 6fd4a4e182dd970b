"""What a node's ``run`` is given: its door to calculations, routes, lanes, time and chance."""

import asyncio
import hashlib
import inspect
import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pydantic import BaseModel

from grafico.calculations import ArtifactRef, Calculation, Failure, Json, Outcome, Resources
from grafico.errors import BadInput
from grafico.graphs.failures import WalkFailed
from grafico.graphs.node import AnyNode
from grafico.graphs.protocols import Persist, Position, Record
from grafico.graphs.scope import same
from grafico.graphs.state import GraphState, Summary, check_scalars

if TYPE_CHECKING:
    from grafico.graphs.graph import Graph
    from grafico.graphs.lanes import Lanes, Members
    from grafico.graphs.routing import Decided
    from grafico.graphs.walk import Walk

__all__ = ["Context"]

StateT = TypeVar("StateT", bound=GraphState)
InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)
T = TypeVar("T")
NextT = TypeVar("NextT")
"""Whatever ``run`` is annotated with; the engine checks it."""


class Context(Generic[StateT]):
    """Given to ``Node.run``.

    Each call that the journal answers takes its place (ordinal) when it is *called*, not when it is awaited,
    so ``asyncio.gather`` over several calls is deterministic.
    """

    __slots__ = ("_ordinal", "_step", "calls", "chosen", "lanes_opened", "node", "state", "walk")

    def __init__(self, walk: "Walk", node: AnyNode, step: int) -> None:
        self.walk = walk
        self.node = node
        """The node that runs, with its parameters."""
        self.state: StateT = walk.state
        self.chosen: AnyNode | None = None
        self.lanes_opened: list[Lanes[Any]] = []
        self.calls: set[asyncio.Task[Any]] = set()
        self._step = step
        self._ordinal = 0

    @property
    def position(self) -> Position:
        """Where the next call will stand in the journal."""
        return Position(self.walk.lane, self._step, self._ordinal)

    @property
    def persist(self) -> Persist | None:
        """The injected knowledge base, when the job asks for it."""
        return self.walk.scope.persist

    @property
    def is_job(self) -> bool:
        """Whether this walk is a job of its own, which publishes and persists its result: the root, or a sweep's member."""
        return self.walk.is_job

    def take(self) -> Position:
        """Take the place of one call; the engine's own door."""
        position = Position(self.walk.lane, self._step, self._ordinal)
        self._ordinal += 1
        return position

    def compute(
        self,
        calculation: Calculation[InputT, OutputT],
        value: InputT,
        *,
        label: str | None = None,
        hints: Mapping[str, ArtifactRef | None] | None = None,
        resources: Resources | None = None,
    ) -> Coroutine[Any, Any, Outcome[OutputT]]:
        """Run a calculation somewhere and return its outcome; a failure is a value.

        Parameters
        ----------
        calculation, value
            What to compute, and its input; together they make the content key.
        label
            What people call it; default the calculation's name.
        hints
            Optional aids such as an initial guess; never part of the key.
        resources
            What it needs, where the job says otherwise than the calculation itself; never part of the key.
        """
        from grafico.graphs.computing import answer, make_request

        request = answer(
            make_request(
                self.walk,
                self.take(),
                self.node.node_id,
                calculation,
                value,
                label=label,
                hints=hints,
                resources=resources,
            )
        )
        return self._tracked(request)

    def fail(self, failure: Failure, message: str | None = None) -> WalkFailed:
        """Return the exception that ends this walk with ``failure``: ``raise ctx.fail(outcome)``."""
        if message is not None:
            failure = failure.model_copy(update={"message": f"{message}: {failure.message}"})
        return WalkFailed(failure)

    def summarize(self, text: str, **scalars: Json) -> None:
        """Append a step summary; the scalars are marked for routers.

        Raises
        ------
        BadInput
            One of them is no small scalar.
        """
        node_id = self.node.node_id
        self.state.summaries.append(Summary(node_id, text, check_scalars(scalars, f"node {node_id}")))

    async def route(self) -> NextT:
        """Choose the successor: forced, by rule, or by a router; return it from ``run``."""
        from grafico.graphs.routing import choose

        self.chosen = await choose(self.walk, self.node, self.take())
        return self.chosen  # type: ignore[return-value]

    def decide(
        self, output: type[OutputT], *, default: OutputT | None = None
    ) -> Coroutine[Any, Any, "Decided[OutputT]"]:
        """Ask the router for a task output and the route in one structured answer.

        Parameters
        ----------
        output
            Model of the task output.
        default
            Taken when the router gives no valid answer; without it the walk stops then.
        """
        from grafico.graphs.routing import decide

        return decide(self, self.take(), output, default)

    @overload
    def fan_out(
        self,
        target: "Graph",
        members: "Mapping[str, GraphState] | Members",
        *,
        limit: int | None = None,
        label: str | None = None,
        folder: str | None = None,
        fold: Callable[[str, Outcome[Any]], Awaitable[Any]] | None = None,
    ) -> "Lanes[Any]": ...
    @overload
    def fan_out(
        self,
        target: Calculation[InputT, OutputT],
        members: Mapping[str, InputT],
        *,
        limit: int | None = None,
        label: str | None = None,
    ) -> "Lanes[OutputT]": ...
    def fan_out(
        self,
        target: Any,
        members: Any,
        *,
        limit: int | None = None,
        label: str | None = None,
        folder: str | None = None,
        fold: Callable[[str, Outcome[Any]], Awaitable[Any]] | None = None,
    ) -> "Lanes[Any]":
        """Open a lane for each member: a walk through a graph, or one calculation.

        Parameters
        ----------
        target
            A Graph or a Calculation.
        members
            State (or input) of each lane, by the key that is the lane's identity: ``[A-Za-z0-9_.+-]+``.
        limit
            Lanes open at once, never more; default the run's limit, and more while workers have nothing to do.
        label
            What people call it; default the target's name.
        folder
            Makes each lane of a graph a job of its own, which publishes under ``results/<folder>/<key>/``.
        fold
            Given each outcome when its lane ends; what it returns is kept in its place.

        Returns
        -------
        Lanes
            ``await`` it for all outcomes in input order, or iterate ``as_completed()``.
        """
        from grafico.graphs.lanes import Lanes

        lanes: Lanes[Any] = Lanes(
            self, self.take(), target, members, limit=limit, label=label, folder=folder, fold=fold
        )
        self.lanes_opened.append(lanes)
        return lanes

    @property
    def left_open(self) -> bool:
        """Whether the node opened lanes or left calls behind; the engine's own door."""
        return bool(self.lanes_opened or self.calls)

    async def close(self) -> None:
        """Cancel lanes and calls that the node left behind, as a failed gather does; the engine's own door."""
        calls = self.calls - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for lanes in self.lanes_opened:
            await lanes.close()

    async def _tracked(self, call: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        if task in self.calls:
            return await call
        self.calls.add(task)
        try:
            return await call
        finally:
            self.calls.discard(task)

    def now(self) -> str:
        """Return the UTC time, ISO 8601; a replay returns the same."""
        return str(self._instant("now", self.walk.scope.recorder.now))

    def random(self) -> random.Random:
        """Return a generator of random numbers; a replay returns one with the same seed.

        With a seed for the run, another run of the same job returns the same at the same position.
        """
        scope, position = self.walk.scope, self.position

        def bits() -> str:
            if scope.seed is None:
                return str(scope.recorder.entropy())
            digest = hashlib.sha256(f"{scope.seed}|{position}".encode()).digest()
            return str(int.from_bytes(digest[:8], "big"))

        return random.Random(int(self._instant("random", bits)))

    def gpus(self) -> int:
        """Return how many GPUs the run's cluster has at most; a replay returns the same, on any other cluster too.

        For work that is cut in another way where there are GPUs. Where a calculation runs is not a node's business.
        """
        return int(self._instant("gpus", lambda: str(self.walk.scope.gpus)))

    def _instant(self, name: str, make: Callable[[], str]) -> Json:
        position = self.take()
        recalled = self.walk.recall(position, "value", self.node.node_id)
        if recalled is not None:
            same(position, self.node.node_id, "a value", recalled.data, {"name": name})
            return recalled.data["value"]
        value = make()
        self.walk.pending.append(Record("value", position, {"name": name, "value": value}))
        return value

    def value(self, name: str, make: Callable[[], Awaitable[Json] | Json]) -> Coroutine[Any, Any, Json]:
        """Return a JSON value from outside (a file, a service, a model); a replay returns what was recorded.

        Raises
        ------
        BadInput
            The value is no JSON.
        """
        return self._tracked(self._value(self.take(), name, make))

    async def _value(self, position: Position, name: str, make: Callable[[], Awaitable[Json] | Json]) -> Json:
        recalled = self.walk.recall(position, "value", self.node.node_id)
        if recalled is not None:
            same(position, self.node.node_id, "a value", recalled.data, {"name": name})
            return recalled.data["value"]
        made = make()
        if inspect.isawaitable(made):
            made = await made
        try:
            # What a replay will return is what is returned now: lists for tuples, text for keys.
            value = json.loads(json.dumps(made, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise BadInput(f"value {name!r} of node {self.node.node_id} is no JSON: {error}") from error
        await self.walk.record(Record("value", position, {"name": name, "value": value}))
        return value

    async def thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run deterministic work of more than about 50 ms off the event loop."""
        return await asyncio.to_thread(function, *arguments)

    async def publish(self, name: str, content: bytes | ArtifactRef) -> None:
        """Put a file under the run's ``results/``; a replay writes it again."""
        await self.walk.scope.recorder.publish(f"{self.walk.folder}{name}", content)
