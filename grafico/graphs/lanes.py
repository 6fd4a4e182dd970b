"""Lanes: many walks (or calculations) side by side, bounded, each with an outcome of its own."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from grafico.calculations import Calculation, Failure, Outcome
from grafico.errors import BadInput, GraficoError, GraphDefinitionError
from grafico.graphs.computing import answer, make_request
from grafico.graphs.events import LaneEnded, LanesOpened, LaneStarted
from grafico.graphs.failures import ends_the_run, failure_from
from grafico.graphs.graph import Graph
from grafico.graphs.protocols import Position, Record
from grafico.graphs.scope import mismatch, same
from grafico.graphs.walk import Walk

if TYPE_CHECKING:
    from grafico.graphs.context import Context

__all__ = ["Lanes", "Members"]

OutputT = TypeVar("OutputT", bound=BaseModel)

LOOK_S = 0.1
"""How often a fan-out looks whether to open more lanes than its bound."""

KEY_PATTERN = re.compile(r"^[A-Za-z0-9_.+-]+$")


@dataclass(frozen=True)
class Members:
    """Members of a fan-out whose states are made when their lanes start: for very many of them."""

    keys: tuple[str, ...]
    make: Callable[[str], Any]
    """Returns the state of a member's lane, each time the same; what it raises is that lane's failure."""


class Lanes(Generic[OutputT]):
    """A fan-out. ``await`` it for every outcome in input order, or iterate :meth:`as_completed`.

    Lanes start when it is awaited. At most ``limit`` are open at once; the bound holds for this fan-out
    alone, so nested fan-outs cannot wait for each other. Where no limit is given the run's bounds it, and more are opened
    while half as many calculations wait and a kind of worker has nothing to do: what uses it may come later in the order
    of the members. Nothing of a finished lane is kept but its outcome.
    """

    def __init__(
        self,
        ctx: "Context[Any]",
        position: Position,
        target: Graph | Calculation[Any, Any],
        members: "Mapping[str, Any] | Members",
        *,
        limit: int | None,
        label: str | None,
        folder: str | None = None,
        fold: Callable[[str, Outcome[Any]], Awaitable[Any]] | None = None,
    ) -> None:
        self.ctx = ctx
        self.position = position
        self.target = target
        self.keys = members.keys if isinstance(members, Members) else tuple(members)
        self._members = {} if isinstance(members, Members) else dict(members)
        self._make = members.make if isinstance(members, Members) else self._members.pop
        self._folder = folder
        self._fold = fold
        self.limit = limit if limit is not None else ctx.walk.scope.limits.lanes
        self._fixed = limit is not None
        name = f"{target.id}@{target.version}" if isinstance(target, Graph) else target.name
        self.target_name = name
        self.label = label or (target.id if isinstance(target, Graph) else target.name)
        parent = ctx.walk.lane
        self._prefix = f"{parent}/" if parent else ""
        self._prefix += f"{position.step}.{position.ordinal}:"
        self._workers: set[asyncio.Task[None]] = set()
        self._done: asyncio.Queue[tuple[str, Outcome[Any]] | BaseException] = asyncio.Queue()
        self._ended = 0
        self._started = False
        self._check()

    def __len__(self) -> int:
        return len(self.keys)

    def __await__(self) -> Generator[Any, None, dict[str, Outcome[OutputT]]]:
        return self._all().__await__()

    async def as_completed(self) -> AsyncIterator[tuple[str, Outcome[OutputT]]]:
        """Yield key and outcome as lanes end; each delivery is journalled, so a replay yields in the same order."""
        walk, node_id = self.ctx.walk, self.ctx.node.node_id
        await self._start()
        waiting: dict[str, Outcome[Any]] = {}
        remaining = set(self.keys)
        while remaining:
            position = self.ctx.take()
            recalled = walk.recall(position, "delivery", node_id)
            if recalled is None:
                key, outcome = waiting.popitem() if waiting else await self._next()
                await walk.record(Record("delivery", position, {"key": key}))
            else:
                key = recalled.data["key"]
                if key not in remaining:
                    raise mismatch(position, node_id, f"a delivery of lane {key}", "one that is still to come")
                while key not in waiting:
                    ended, outcome = await self._next()
                    waiting[ended] = outcome
                outcome = waiting.pop(key)
            remaining.discard(key)
            yield key, outcome

    async def close(self) -> None:
        """Cancel the lanes that are still open."""
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.gather(*workers, return_exceptions=True)
        self._members.clear()

    async def _all(self) -> dict[str, Outcome[OutputT]]:
        await self._start()
        outcomes: dict[str, Outcome[OutputT]] = {}
        while len(outcomes) < len(self.keys):
            key, outcome = await self._next()
            outcomes[key] = outcome
        return {key: outcomes[key] for key in self.keys}

    async def _next(self) -> tuple[str, Outcome[Any]]:
        item = await self._done.get()
        if isinstance(item, BaseException):
            await self.close()
            raise item
        return item

    async def _start(self) -> None:
        if self._started:
            raise GraficoError("a fan-out is awaited, or iterated, once")
        self._started = True
        walk = self.ctx.walk
        data = {"target": self.target_name, "label": self.label, "keys": list(self.keys)}
        recalled = walk.recall(self.position, "lanes", self.ctx.node.node_id)
        if recalled is None:
            await walk.record(Record("lanes", self.position, data), durable=False)
        else:
            asked = {"target": self.target_name, "keys": list(self.keys)}
            same(self.position, self.ctx.node.node_id, "a fan-out", recalled.data, asked)
        if walk.scope.events:
            walk.scope.events.emit(
                LanesOpened(
                    self.position,
                    recalled is not None,
                    self.ctx.node.node_id,
                    self.target_name,
                    self.label,
                    self.keys,
                )
            )
        queue = iter(self.keys)
        for _ in range(min(self.limit, len(self.keys))):
            self._begin(self._work(queue))
        crowded = walk.scope.crowded
        if len(self.keys) > self.limit and not self._fixed and crowded is not None:
            self._begin(self._open_more(queue, crowded))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._workers.add(task)
        task.add_done_callback(self._workers.discard)

    async def _open_more(self, queue: Iterator[str], crowded: Callable[[], int]) -> None:
        """Open lanes beyond the bound, one more at each look than at the last, while something has nothing to do."""
        scope, more = self.ctx.walk.scope, 0
        while self._ended < len(self.keys):
            await asyncio.sleep(LOOK_S)
            more = more + 1 if 2 * crowded() >= self.limit else 0
            for key in itertools.islice(queue, max(0, min(more, scope.limits.most_lanes - scope.open_lanes))):
                self._begin(self._work(iter((key,))))

    async def _work(self, queue: Iterator[str]) -> None:
        """Run lanes one after the other; a fault of the machinery goes to whoever awaits the fan-out."""
        scope = self.ctx.walk.scope
        try:
            for key in queue:
                scope.open_lanes += 1
                try:
                    outcome, replayed = await self._lane(key)
                finally:
                    scope.open_lanes -= 1
                self._ended += 1
                self._announce(key, outcome, replayed=replayed)
                self._done.put_nowait((key, outcome if self._fold is None else await self._fold(key, outcome)))
        except BaseException as error:
            self._done.put_nowait(error)
            if not isinstance(error, Exception):
                raise

    def _announce(self, key: str, outcome: Outcome[Any], *, replayed: bool) -> None:
        events = self.ctx.walk.scope.events
        if events:
            failure = outcome if isinstance(outcome, Failure) else None
            position = Position(self._prefix + key, 0, 0)
            events.emit(LaneEnded(position, replayed, key, failure, self._ended, len(self.keys)))

    async def _lane(self, key: str) -> tuple[Outcome[Any], bool]:
        """Return a lane's outcome, and whether the journal knew its end."""
        scope, path, node_id = self.ctx.walk.scope, self._prefix + key, self.ctx.node.node_id
        if scope.events:
            scope.events.emit(LaneStarted(Position(path, 0, 0), False, key))
        outcome: Outcome[Any]
        folder, own = self.ctx.walk.folder, self._folder is not None
        walk = Walk(scope, self.ctx.walk.graph, None, path)
        try:
            member = self._make(key)
            self._check_member(key, member)
        except Exception as error:
            if ends_the_run(error):
                raise
            outcome = failure_from(error, node_id)
            await walk.end(Position(path, 0, 0), outcome)
            return outcome, walk.ended_before
        if isinstance(self.target, Graph):
            folder = f"{folder}{self._folder}/{key}/" if own else folder
            walk = Walk(scope, self.target, member, path, folder=folder, is_job=own)
            return await walk.run(), walk.ended_before
        try:
            request = make_request(
                walk, Position(path, 0, 0), node_id, self.target, member, label=f"{self.label} · {key}"
            )
            outcome = await answer(request)
        except Exception as error:
            if ends_the_run(error):
                raise
            outcome = failure_from(error, node_id)
        await walk.end(Position(path, 0, 1), outcome)
        return outcome, walk.ended_before

    def _check(self) -> None:
        where = f"node {self.ctx.node.node_id}: fan-out over {self.target_name}"
        for key in self.keys:
            if not KEY_PATTERN.match(key):
                raise BadInput(f"{where}: lane key {key!r} has characters other than A-Z a-z 0-9 _ . + -")
        for key, member in self._members.items():
            self._check_member(key, member)
        if isinstance(self.target, Graph):
            if self.ctx.state is not None and any(member is self.ctx.state for member in self._members.values()):
                raise GraphDefinitionError(f"{where}: a lane was given its parent's state; give each lane its own")
            if len({id(member) for member in self._members.values()}) < len(self._members):
                raise GraphDefinitionError(f"{where}: two lanes share one state; give each lane its own")
        if self.limit < 1:
            raise BadInput(f"{where}: limit is {self.limit}, and must be at least 1")

    def _check_member(self, key: str, member: Any) -> None:
        if isinstance(self.target, Graph) and not isinstance(member, self.target.state_type):
            raise GraphDefinitionError(
                f"node {self.ctx.node.node_id}: fan-out over {self.target_name}: lane {key} was given "
                f"{type(member).__name__}, and the graph walks on {self.target.state_type.__name__}"
            )
