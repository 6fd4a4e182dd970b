"""What a node transition costs, over bare pydantic-graph; and what a finished lane leaves in memory."""

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pydantic_graph
from pydantic_graph import GraphRunContext

from grafico.calculations import CalculationTask, Outcome
from grafico.control import RuleRouter
from grafico.errors import GraficoError
from grafico.graphs import Context, End, Graph, GraphState, Node, Record, run_graph
from grafico.runs import Run, RunRecorder

__all__ = ["bench"]

LIMIT_RATIO = 6.0
LIMIT_LANE_BYTES = 512
"""A finished lane may leave its key and a few pointers behind, and no more."""


@dataclass
class BareCount:
    """State of the bare walk."""

    left: int


class BareOdd(pydantic_graph.BaseNode[BareCount, None, int]):
    """One of two nodes that take turns."""

    async def run(self, ctx: GraphRunContext[BareCount, None]) -> "BareEven | pydantic_graph.End[int]":
        """Count down."""
        ctx.state.left -= 1
        return BareEven() if ctx.state.left > 0 else pydantic_graph.End(0)


class BareEven(pydantic_graph.BaseNode[BareCount, None, int]):
    """The other one."""

    async def run(self, ctx: GraphRunContext[BareCount, None]) -> "BareOdd | pydantic_graph.End[int]":
        """Count down."""
        ctx.state.left -= 1
        return BareOdd() if ctx.state.left > 0 else pydantic_graph.End(0)


@dataclass(kw_only=True)
class Count(GraphState):
    """State of our walks."""

    left: int


class Odd(Node[Count, int]):
    """One of two nodes that take turns."""

    async def run(self, ctx: Context[Count]) -> "Even | Stop":
        """Count down."""
        ctx.state.left -= 1
        return await ctx.route()

    def rule(self, state: Count) -> "Even | Stop":
        """Go on until nothing is left."""
        return Even() if state.left > 0 else Stop()


class Even(Node[Count, int]):
    """The other one."""

    async def run(self, ctx: Context[Count]) -> "Odd | Stop":
        """Count down."""
        ctx.state.left -= 1
        return await ctx.route()

    def rule(self, state: Count) -> "Odd | Stop":
        """Go on until nothing is left."""
        return Odd() if state.left > 0 else Stop()


class Stop(Node[Count, int]):
    """The end."""

    async def run(self, ctx: Context[Count]) -> End[int]:
        """End."""
        return End(ctx.state.left)


class Ping(Node[Count, int]):
    """One of two nodes with a single way on."""

    async def run(self, ctx: Context[Count]) -> "Pong":
        """Count down."""
        ctx.state.left -= 1
        return await ctx.route()


class Pong(Node[Count, int]):
    """The other one; it ends by itself."""

    async def run(self, ctx: Context[Count]) -> "Ping | End[int]":
        """Count down."""
        ctx.state.left -= 1
        return await ctx.route() if ctx.state.left > 0 else End(0)


RULED = Graph(id="ruled", version="1", state_type=Count, nodes=[Odd, Even, Stop], start=Odd, max_steps=10**7)
FORCED = Graph(id="forced", version="1", state_type=Count, nodes=[Ping, Pong], start=Ping, max_steps=10**7)
LANE_STEPS = 4


@dataclass(kw_only=True)
class Crowd(GraphState):
    """State of a walk that opens lanes."""

    lanes: int
    before: int = 0
    after: int = 0


class Open(Node[Crowd, int]):
    """Opens lanes, and keeps nothing of them."""

    async def run(self, ctx: Context[Crowd]) -> End[int]:
        """Walk all lanes, and weigh what is left of them."""
        lanes = ctx.fan_out(RULED, {f"{n}": Count(left=LANE_STEPS) for n in range(ctx.state.lanes)}, limit=16)
        async for _key, _outcome in lanes.as_completed():
            pass
        gc.collect()
        ctx.state.after = tracemalloc.get_traced_memory()[0]
        return End(len(lanes))


CROWD = Graph(id="crowd", version="1", state_type=Crowd, nodes=[Open], start=Open)


class NoCompute:
    """Nowhere to compute: these walks have no calculations."""

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        """Refuse."""
        raise GraficoError(f"the benchmark asked for the calculation {task.name}")


def bench(transitions: int = 10_000, repeats: int = 3, lanes: tuple[int, int] = (100, 600)) -> Mapping[str, Any]:
    """Measure node transitions and lanes, with a journal on the local disk.

    Parameters
    ----------
    transitions
        Nodes entered in each walk.
    repeats
        Walks of each kind, taking turns; medians count.
    lanes
        A small and a large fan-out; the memory that a finished lane leaves is the slope between them.

    Returns
    -------
    Mapping
        CPU time a node in µs, ratios to bare pydantic-graph, bytes a finished lane.
    """
    bare: list[float] = []
    ruled: list[float] = []
    forced: list[float] = []
    replayed: list[float] = []
    for _ in range(repeats):
        bare.append(_bare_s(transitions) / transitions)
        first, again = _ours_s(RULED, transitions)
        ruled.append(first / transitions)
        replayed.append(again / transitions)
        forced.append(_ours_s(FORCED, transitions)[0] / transitions)
    ratio = median(ours / base for ours, base in zip(ruled, bare, strict=True))
    forced_ratio = median(ours / base for ours, base in zip(forced, bare, strict=True))
    small, large = (_lane_bytes(count) for count in lanes)
    return {
        "bare pydantic-graph, CPU a node": {"value": _us(bare), "unit": "µs"},
        "rule router and journal, CPU a node": {"value": _us(ruled), "unit": "µs"},
        "rule router and journal, over bare": {"value": round(ratio, 2), "limit": LIMIT_RATIO, "unit": "×"},
        "forced edges and journal, CPU a node": {"value": _us(forced), "unit": "µs"},
        "forced edges and journal, over bare": {"value": round(forced_ratio, 2), "limit": LIMIT_RATIO, "unit": "×"},
        "replay, CPU a node": {"value": _us(replayed), "unit": "µs"},
        "memory a finished lane": {
            "value": round((large - small) / (lanes[1] - lanes[0])),
            "limit": LIMIT_LANE_BYTES,
            "unit": "B",
        },
    }


def _us(seconds: list[float]) -> float:
    return round(median(seconds) * 1e6, 1)


def _bare_s(transitions: int) -> float:
    builder: Any = pydantic_graph.GraphBuilder(
        state_type=BareCount, input_type=BareOdd, output_type=int, auto_instrument=False
    )
    builder.add(builder.node(BareOdd), builder.node(BareEven))
    builder.add(builder.edge_from(builder.start_node).to(builder.decision().branch(builder.match_node(BareOdd))))
    graph: Any = builder.build()

    async def walk() -> float:
        started = time.process_time()
        async with graph.iter(state=BareCount(transitions), inputs=BareOdd()) as steps:
            async for _ in steps:
                pass
        return time.process_time() - started

    return asyncio.run(walk())


def _ours_s(graph: Graph, transitions: int) -> tuple[float, float]:
    """Return CPU seconds of a walk, and of its replay from the journal."""
    with tempfile.TemporaryDirectory(prefix="grafico-bench-") as folder:
        run = _new_run(Path(folder), graph)
        return asyncio.run(_walk(run, graph, transitions)), asyncio.run(_walk(run, graph, transitions))


async def _walk(run: Run, graph: Graph, transitions: int) -> float:
    async with RunRecorder(run, make_record=Record) as recorder:
        started = time.process_time()
        outcome = await run_graph(
            graph, Count(left=transitions), compute=NoCompute(), router=RuleRouter(), recorder=recorder
        )
        await recorder.flush()
        spent = time.process_time() - started
    assert outcome.ok, outcome
    return spent


def _lane_bytes(lanes: int) -> int:
    """Return the bytes that are in use after so many lanes ended, less those before."""

    async def walk(run: Run) -> int:
        async with RunRecorder(run, make_record=Record) as recorder:
            gc.collect()
            state = Crowd(lanes=lanes, before=tracemalloc.get_traced_memory()[0])
            outcome = await run_graph(CROWD, state, compute=NoCompute(), router=RuleRouter(), recorder=recorder)
            assert outcome.ok, outcome
            return state.after - state.before

    with tempfile.TemporaryDirectory(prefix="grafico-bench-") as folder:
        run = _new_run(Path(folder), CROWD)
        tracemalloc.start()
        try:
            return asyncio.run(walk(run))
        finally:
            tracemalloc.stop()


def _new_run(folder: Path, graph: Graph) -> Run:
    return Run.create(folder, "bench", job_source=b"", job={}, graph=graph.id, graph_version=graph.version)
