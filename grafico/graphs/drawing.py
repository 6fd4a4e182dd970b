"""Drawings in Mermaid: of a graph, and of a run from its records."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from grafico.graphs.graph import Graph
from grafico.graphs.protocols import Record

__all__ = ["draw_graph", "draw_run"]

CLASSES = (
    "  classDef failed fill:#fde2e2,stroke:#c0392b,color:#7b241c",
    "  classDef lanes fill:#eef3fb,stroke:#4a6fa5",
    "  classDef open stroke-dasharray: 4 3",
)


def draw_graph(graph: Graph) -> str:
    """Return a Mermaid flowchart of a graph: nodes, declared edges with labels, guarded edges dashed.

    A guarded edge carries the names of the guards that may remove it.
    """
    names = {cls: f"n{number}" for number, cls in enumerate(graph.nodes)}
    lines = ["flowchart TD", "  start((Start))"]
    lines += [f'  {names[cls]}["{_text(cls.node_id)}"]' for cls in graph.nodes]
    lines.append("  stop((End))")
    lines += [f"  start --> {names[cls]}" for cls in graph.starts]
    for cls, plan in graph.plans.items():
        for successor in plan.successors:
            guards = [guard.name for guard in plan.guards if successor in guard.removes]
            label = plan.declared.labels.get(successor.node_id, "")
            words = [label] if label else []
            words += [f"unless {name}" for name in guards]
            arrow = "-.->" if guards else "-->"
            note = f'|"{_text("; ".join(words))}"|' if words else ""
            lines.append(f"  {names[cls]} {arrow}{note} {names[successor]}")
        if plan.ends:
            lines.append(f"  {names[cls]} --> stop")
    return "\n".join(lines) + "\n"


@dataclass
class Crowd:
    """All lanes that one fan-out of one node opened, over all walks that came by."""

    title: str
    lanes: int = 0
    succeeded: int = 0
    failed: int = 0
    visits: Counter[str] = field(default_factory=Counter)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed_at: Counter[str] = field(default_factory=Counter)
    below: "dict[tuple[str, str], Crowd]" = field(default_factory=dict)

    def summary(self) -> str:
        """Return the counts in words."""
        going = self.lanes - self.succeeded - self.failed
        parts = [f"{self.succeeded} done"] if self.succeeded else []
        parts += [f"✗ {self.failed} failed"] if self.failed else []
        parts += [f"{going} open"] if going else []
        return f"{self.title}: {self.lanes} lane{'' if self.lanes == 1 else 's'} ({', '.join(parts) or 'none'})"


@dataclass
class Lane:
    """The records of one walk, in order."""

    steps: dict[int, str] = field(default_factory=dict)
    routes: dict[int, Record] = field(default_factory=dict)
    fans: list[Record] = field(default_factory=list)
    end: Record | None = None


def draw_run(records: Iterable[Record]) -> str:
    """Return a Mermaid flowchart of a run: the root's path step by step, lanes as counts, failures marked.

    Parameters
    ----------
    records
        The records that count (none that an invalidation took back), in any order.
    """
    walks = _walks(records)
    root = walks.get("", Lane())
    crowds = _crowds(walks)
    lines = ["flowchart TD", "  start((Start))"]
    previous, note = "start", ""
    failed = root.end is not None and root.end.data["status"] == "failure"
    steps = sorted(root.steps.items())
    drawing = Drawing(lines)
    for step, node_id in steps:
        last = step == steps[-1][0]
        style = ":::failed" if failed and last else "" if root.end is not None or not last else ":::open"
        mark = "✗ " if failed and last else ""
        lines.append(f'  s{step}["{mark}{_text(node_id)}"]{style}')
        lines.append(f"  {previous} -->{note} s{step}")
        previous, note = f"s{step}", _route_note(root.routes.get(step))
        for crowd in crowds.get(step, ()):
            drawing.crowd(f"s{step}", crowd)
    if root.end is not None:
        reason = ""
        if failed:
            failure = root.end.data.get("failure") or {}
            reason = f'|"{_text(str(failure.get("kind", "failed")))}"|'
        lines.append(f"  stop((End)){':::failed' if failed else ''}")
        lines.append(f"  {previous} -->{reason} stop")
    lines.extend(CLASSES)
    return "\n".join(lines) + "\n"


class Drawing:
    """Writes crowds of lanes, each as a box with its counts."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.count = 0

    def crowd(self, parent: str, crowd: Crowd) -> None:
        """Write one crowd, and what its lanes opened below."""
        self.count += 1
        name = f"c{self.count}"
        style = "failed" if crowd.failed else "lanes"
        self.lines.append(f'  {name}[["{_text(crowd.summary())}"]]:::{style}')
        self.lines.append(f"  {parent} -.- {name}")
        nodes: dict[str, str] = {}
        for node_id, visits in crowd.visits.items():
            nodes[node_id] = f"{name}n{len(nodes)}"
            failed = crowd.failed_at[node_id]
            text = f"{node_id} × {visits}" + (f", ✗ {failed}" if failed else "")
            self.lines.append(f'  {nodes[node_id]}["{_text(text)}"]{":::failed" if failed else ""}')
        if nodes:
            self.lines.append(f"  {name} --> {next(iter(nodes.values()))}")
        for (source, target), taken in crowd.edges.items():
            self.lines.append(f'  {nodes[source]} -->|"{taken}"| {nodes[target]}')
        for (node_id, _), below in crowd.below.items():
            self.crowd(nodes.get(node_id, name), below)


def _walks(records: Iterable[Record]) -> dict[str, Lane]:
    walks: dict[str, Lane] = {}
    for record in records:
        lane, step, _ = record.position
        walk = walks.setdefault(lane, Lane())
        if record.kind == "enter":
            walk.steps[step] = record.data["node"]
        elif record.kind == "route":
            walk.routes[step] = record
        elif record.kind == "lanes":
            walk.fans.append(record)
        elif record.kind in {"end", "lane_end"}:
            walk.end = record
    return walks


def _crowds(walks: dict[str, Lane]) -> dict[int, Sequence[Crowd]]:
    """Return the crowds that the root opened, by step; those below hang under them."""
    top: dict[int, list[Crowd]] = {}
    crowd_of: dict[str, Crowd] = {}
    for path in sorted(walks, key=lambda path: (path.count("/") + bool(path), path)):
        walk = walks[path]
        if path and path in crowd_of:
            _count(crowd_of[path], walk)
        for fan in sorted(walk.fans, key=lambda record: record.position):
            title = str(fan.data.get("label") or fan.data["target"])
            step = fan.position.step
            if not path:
                crowd = Crowd(title)
                top.setdefault(step, []).append(crowd)
            else:
                place = (walk.steps.get(step, ""), title)
                crowd = crowd_of[path].below.setdefault(place, Crowd(title))
            crowd.lanes += len(fan.data["keys"])
            prefix = f"{path}/" if path else ""
            for key in fan.data["keys"]:
                crowd_of[f"{prefix}{step}.{fan.position.ordinal}:{key}"] = crowd
    return {step: tuple(crowds) for step, crowds in top.items()}


def _count(crowd: Crowd, walk: Lane) -> None:
    order = [node_id for _, node_id in sorted(walk.steps.items())]
    crowd.visits.update(order)
    crowd.edges.update(pairwise(order))
    if walk.end is None:
        return
    if walk.end.data["status"] == "success":
        crowd.succeeded += 1
    else:
        crowd.failed += 1
        if order:
            crowd.failed_at[order[-1]] += 1


def _route_note(route: Record | None) -> str:
    if route is None:
        return ""
    by, confidence = route.data.get("by", ""), route.data.get("confidence", 1.0)
    words = by if confidence == 1.0 else f"{by}, {confidence:.2g}"
    vetoes = route.data.get("vetoes")
    if vetoes:
        words += f"; not {', '.join(vetoes)}"
    return f'|"{_text(words)}"|'


def _text(text: str) -> str:
    """Return text that Mermaid takes inside double quotes."""
    return (
        text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;").replace("\n", " ")
    )
