"""Mermaid drawings of graphs and of runs."""

from dataclasses import dataclass
from typing import Annotated, Any

from walking import Number, square, walk

from grafico.calculations import CalculationError, FailureKind
from grafico.graphs import (
    Context,
    Edge,
    End,
    Graph,
    GraphState,
    Guard,
    MemoryRecorder,
    Node,
    draw_graph,
    draw_run,
    need_any,
)


@dataclass(kw_only=True)
class Conformer(GraphState):
    x: float


class Relax(Node[Conformer, float]):
    async def run(self, ctx: Context[Conformer]) -> "Excite":
        if ctx.state.x > 7:
            raise CalculationError(FailureKind.NOT_CONVERGED, "too strained")
        return await ctx.route()


class Excite(Node[Conformer, float]):
    async def run(self, ctx: Context[Conformer]) -> End[float]:
        await ctx.fan_out(square, {"a": Number(x=1), "b": Number(x=2)}, label="roots")
        return End(ctx.state.x)


@dataclass(kw_only=True)
class Ensemble(GraphState):
    broken: bool = False


class Search(Node[Ensemble, float]):
    async def run(self, ctx: Context[Ensemble]) -> "Annotated[Refine, Edge(label='12 or fewer')] | Report":
        return await ctx.route()


class Refine(Node[Ensemble, float]):
    async def run(self, ctx: Context[Ensemble]) -> "Report":
        lanes = {f"c{n}": Conformer(x=n) for n in range(10)}
        need_any(await ctx.fan_out(LANES, lanes, label="conformers"))
        return await ctx.route()


class Report(Node[Ensemble, float]):
    node_id = "End"

    async def run(self, ctx: Context[Ensemble]) -> End[float]:
        if ctx.state.broken:
            raise ValueError("no <printer>")
        return End(0.0)


LANES = Graph(id="refinement", version="1", state_type=Conformer, nodes=[Relax, Excite], start=Relax)
GUARD = Guard(name='no "empty" report', at=(Search,), removes=(Report,), when=lambda state: True, reason="nothing yet")
GRAPH = Graph(
    id="ensemble", version="1", state_type=Ensemble, nodes=[Search, Refine, Report], start=Search, guards=[GUARD]
)


def edges(drawing: str) -> set[tuple[str, str]]:
    """Return the edges of a flowchart, by the labels of its nodes."""
    labels: dict[str, str] = {"start": "start", "stop": "stop"}
    found = []
    for line in drawing.splitlines():
        words = line.split()
        if '["' in line:
            labels[line.strip().split("[")[0]] = line.split('"')[1]
        elif len(words) > 2 and words[1].startswith(("-->", "-.->", "-.-")):
            found.append((words[0], words[-1].split("((")[0]))
    return {(labels[source], labels[target]) for source, target in found}


def test_a_graph_is_drawn_with_labels_and_guarded_edges() -> None:
    drawing = draw_graph(GRAPH)
    assert drawing.startswith("flowchart TD\n")
    assert edges(drawing) == {
        ("start", "Search"),
        ("Search", "Refine"),
        ("Search", "End"),
        ("Refine", "End"),
        ("End", "stop"),
    }
    assert 'n0 -->|"12 or fewer"| n1' in drawing
    assert 'n0 -.->|"unless no #quot;empty#quot; report"| n2' in drawing


def test_the_drawing_has_the_edges_that_pydantic_graph_has() -> None:
    rendered = set()
    for line in GRAPH.engine.render().splitlines():
        if "-->" in line:
            source, target = line.strip().split(" --> ")
            rendered.add((source, target))
    flat = {(source, target) for source, target in rendered if not target.startswith("from.")}
    flat = {(source.removeprefix("from."), target) for source, target in flat}
    ours = {(s.replace("start", "[*]"), t.replace("stop", "[*]")) for s, t in edges(draw_graph(GRAPH))}
    assert flat == ours


def test_a_run_is_drawn_as_its_path_with_lanes_as_counts_and_failures_marked() -> None:
    recorder = MemoryRecorder()
    assert walk(GRAPH, Ensemble(), recorder=recorder).ok
    drawing = draw_run(recorder.records)
    assert 's0["Search"]' in drawing
    assert 's0 -->|"forced; not End"| s1' in drawing
    assert "conformers: 10 lanes (8 done, ✗ 2 failed)" in drawing
    assert "Relax × 10, ✗ 2" in drawing
    assert "Excite × 8" in drawing
    assert '-->|"8"|' in drawing
    assert "roots: 16 lanes (16 done)" in drawing
    assert ":::failed" in drawing
    assert "stop((End))" in drawing


def test_a_run_that_failed_or_is_not_over_shows_where_it_stands() -> None:
    recorder = MemoryRecorder()
    assert not walk(GRAPH, Ensemble(broken=True), recorder=recorder).ok
    drawing = draw_run(recorder.records)
    assert 's2["✗ End"]:::failed' in drawing
    assert 's2 -->|"engine_error"| stop' in drawing
    half = draw_run(recorder.records[:25])
    assert "stop" not in half
    assert 's1["Refine"]:::open' in half
    assert "open)" in half
    assert draw_run([]).startswith("flowchart TD")


def test_a_drawing_does_not_depend_on_the_order_of_records() -> None:
    recorder = MemoryRecorder()
    walk(GRAPH, Ensemble(), recorder=recorder)
    shuffled: list[Any] = sorted(recorder.records, key=lambda record: hash((record.kind, record.position)))
    assert edges(draw_run(shuffled)) == edges(draw_run(recorder.records))
