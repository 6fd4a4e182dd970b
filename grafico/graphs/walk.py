"""One walk through a graph: the root of a run, or a lane."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python
from pydantic_graph import End

from grafico.calculations import Failure, Json, Outcome, Success, unfit
from grafico.errors import GraphStopped, UnfitRecord
from grafico.graphs.asking import Told
from grafico.graphs.context import Context
from grafico.graphs.events import NodeChanged, NodeEntered
from grafico.graphs.failures import ends_the_run, failure_from, unwrap
from grafico.graphs.graph import Graph
from grafico.graphs.node import AnyNode, Node, parameters_of, source_of
from grafico.graphs.protocols import Position, Record
from grafico.graphs.routing import accept_returned
from grafico.graphs.scope import Scope, mismatch, same

__all__ = ["Walk"]

RECORDED_CALLS = ("compute", "route", "lanes", "value", "delivery", "lane_end", "end")


class Walk:
    """Moves through a graph node by node; asks the recorder before doing anything.

    pydantic-graph drives it: each of its steps calls :meth:`visit`.
    """

    __slots__ = (
        "ctx",
        "ended_before",
        "folder",
        "graph",
        "is_job",
        "lane",
        "live",
        "node_id",
        "pending",
        "result",
        "scope",
        "state",
        "step",
        "told",
    )

    def __init__(
        self, scope: Scope, graph: Graph, state: Any, lane: str, *, folder: str = "", is_job: bool = False
    ) -> None:
        self.scope = scope
        self.graph = graph
        self.state = state
        self.lane = lane
        self.folder = folder
        """Goes before the names of what this walk publishes: empty, or a path that ends in ``/``."""
        self.is_job = is_job or not lane
        """Whether it is a job of its own: the root of a run, or a member of a sweep."""
        self.step = -1
        self.node_id = ""
        self.live = False
        """Once a node is entered that the journal does not know, nothing after it can be in the journal."""
        self.pending: list[Record] = []
        self.ctx: Context[Any] | None = None
        self.told = Told()
        self.result: Json = None
        """What the journal keeps of the root's result."""
        self.ended_before = False
        """Whether the journal knew the end of this walk."""

    async def run(self) -> Outcome[Any]:
        """Walk to the end and return the outcome; a failure of the walk is a value.

        Raises
        ------
        ReplayMismatch, RunError, GraphDefinitionError
            Faults that end the whole run.
        """
        outcome: Outcome[Any]
        try:
            first = self.graph.first(self.state)
            async with self.graph.engine.iter(state=self.state, deps=self, inputs=first) as steps:
                async for _ in steps:
                    pass
                result = steps.output
            if not self.lane:
                self.result = _result_json(result)
            outcome = Success.model_construct(output=result)
        except Exception as raised:
            error = unwrap(raised)
            if ends_the_run(error):
                if error is raised:
                    raise
                raise error from raised
            outcome = failure_from(error, self.node_id)
        ordinal = self.ctx.take().ordinal if self.ctx is not None else 0
        self.ctx = None
        await self.end(Position(self.lane, max(self.step, 0), ordinal), outcome)
        return outcome

    async def visit(self, node: AnyNode) -> Any:
        """Enter a node, run it, and return its checked successor or ``End``."""
        step = self.step = self.step + 1
        self.node_id = node.node_id
        await self._enter(node, step)
        ctx = self.ctx = Context(self, node, step)
        try:
            returned = await node.run(ctx)
        finally:
            if ctx.left_open:
                await ctx.close()
        if isinstance(returned, Node):
            if returned is not ctx.chosen:
                await accept_returned(self, node, ctx.take(), returned)
            self._nothing_left(ctx)
            return returned
        if isinstance(returned, End) and self.graph.plans[type(node)].ends:
            self._nothing_left(ctx, ending=True)
            return returned
        declared = self.graph.plans[type(node)].declared.annotation
        what = "an end" if isinstance(returned, End) else "no successor" if returned is None else repr(returned)[:200]
        raise GraphStopped(f"node {node.node_id} returned {what}, and declares `{declared}`")

    async def _enter(self, node: AnyNode, step: int) -> None:
        position = Position(self.lane, step, 0)
        if step >= self.graph.max_steps:
            raise GraphStopped(
                f"graph {self.graph.id} took {step} steps without an end", hint="raise max_steps of the graph"
            )
        data: dict[str, Json] = {"node": node.node_id, "parameters": parameters_of(node)}
        source = source_of(type(node))
        recalled = None if self.live else self.recall(position, "enter", node.node_id)
        if recalled is None:
            self.live = True
            if source:
                data["source"] = source
            await self.record(Record("enter", position, data), durable=False)
        else:
            same(position, node.node_id, "a node", recalled.data, data)
            if source and recalled.data.get("source", source) != source:
                await self._tell_of_change(position, node, source)
        if self.scope.events:
            self.scope.events.emit(NodeEntered(position, recalled is not None, node.node_id))

    async def _tell_of_change(self, position: Position, node: AnyNode, source: str) -> None:
        scope = self.scope
        if node.node_id in scope.changed:
            return
        scope.changed.add(node.node_id)
        # At the root, once for all lanes: where an earlier one was entered can be told by the digest that stands there.
        await scope.recorder.note("changed", Position("", 0, 0), {"node": node.node_id, "source": source})
        if scope.events:
            scope.events.emit(NodeChanged(position, True, node.node_id))

    def _nothing_left(self, ctx: "Context[Any]", *, ending: bool = False) -> None:
        """Notice calls that the journal has behind the last one of a node that is left."""
        if self.live:
            return
        used = ctx.position.ordinal
        last = self.scope.recorder.last(self.lane, self.step)
        if last < used + ending:
            return
        for ordinal in range(used, last + 1):
            position = ctx.position._replace(ordinal=ordinal)
            if there := self._there(position, ""):
                raise mismatch(position, self.node_id, there, "nothing more")

    def _there(self, position: Position, kind: str) -> str:
        """Return in words what the journal has at a position where another kind is asked for; empty if nothing."""
        for other in RECORDED_CALLS:
            if other != kind and (kind != "enter" or other in {"end", "lane_end"}):
                there = self.scope.recorder.recall(position, other)
                if there is not None:
                    about = there.data.get("name") or there.data.get("successor") or there.data.get("status") or ""
                    return f"{other} {about}".strip()
        return ""

    def recall(self, position: Position, kind: str, node: str) -> Record | None:
        """Return what the journal has at ``position``.

        Raises
        ------
        ReplayMismatch
            It has something of another kind there.
        """
        if self.live:
            return None
        found = self.scope.recorder.recall(position, kind)
        if found is None and (there := self._there(position, kind)):
            raise mismatch(position, node, there, kind)
        return found

    async def record(self, record: Record, *, durable: bool = True) -> None:
        """Remember a fact, after those that a synchronous call left waiting."""
        if self.pending:
            await self.flush()
        await self.scope.recorder.record(record, durable=durable)

    async def flush(self) -> None:
        """Write what synchronous calls recorded."""
        waiting, self.pending = self.pending, []
        for record in waiting:
            await self.scope.recorder.record(record, durable=False)

    async def end(self, position: Position, outcome: Outcome[Any]) -> None:
        """Remember how the walk ended, or compare it with what the journal says.

        Raises
        ------
        ReplayMismatch
            The journal has another end.
        """
        kind = "lane_end" if self.lane else "end"
        recalled = self.recall(position, kind, self.node_id)
        if recalled is not None:
            if recalled.data["status"] != outcome.status:
                raise mismatch(position, self.node_id, f"an end in {recalled.data['status']}", outcome.status)
            self.ended_before = True
            return
        data: dict[str, Json] = {"status": outcome.status}
        if isinstance(outcome, Failure):
            data["failure"] = outcome.model_dump(mode="json")
        elif not self.lane:
            data["result"] = self.result
        await self.record(Record(kind, position, data), durable=not self.lane)


def _result_json(result: Any) -> Json:
    """Return a result as JSON, or ``None`` for one that has no such form.

    Raises
    ------
    UnfitRecord
        It holds something that JSON cannot.
    """
    if isinstance(result, BaseModel):
        value = result.model_dump(mode="json")
    else:
        try:
            value = to_jsonable_python(result)
        except (PydanticSerializationError, ValueError):
            return None
    if wrong := unfit(value, "result"):
        raise UnfitRecord(f"{wrong}, which cannot be kept: results hold finite numbers and text")
    return value
