"""How a run stands while it goes, as JSON for a page: lanes and calculations by state, and its graph with counts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grafico.calculations import Json
from grafico.graphs import Position
from grafico.graphs.events import Event, LaneEnded, LanesOpened, LaneStarted, NodeEntered, WalkEnded
from grafico.jobs.watching import Tally

__all__ = ["Standing", "Stretch", "run_status"]

SHOWN = 200
"""Labels of running calculations that are told at most."""

FAILURES = 20
"""Failed lanes that are told at most, the latest ones."""


@dataclass
class NodeCount:
    """How often a node was entered, and how it stands."""

    entered: int = 0
    now: int = 0
    failed: int = 0


@dataclass
class Stretch:
    """A graph that is walked: by the root once, or by all lanes that one fan-out of one node opened."""

    title: str
    at: str = ""
    """The node that opened the lanes."""
    lanes: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    nodes: dict[str, NodeCount] = field(default_factory=dict)
    edges: dict[tuple[str, str], int] = field(default_factory=dict)
    below: "dict[tuple[str, str], Stretch]" = field(default_factory=dict)

    def node(self, name: str) -> NodeCount:
        """Return the counts of a node."""
        return self.nodes.setdefault(name, NodeCount())

    def enter(self, before: str, name: str) -> None:
        """Count a step of a walk."""
        if before:
            self.node(before).now -= 1
            self.edges[before, name] = self.edges.get((before, name), 0) + 1
        node = self.node(name)
        node.entered += 1
        node.now += 1

    def leave(self, name: str, *, failed: bool) -> None:
        """Count the end of a walk."""
        if name:
            self.node(name).now -= 1
            self.node(name).failed += failed

    def drawing(self) -> dict[str, Json]:
        """Return what is drawn."""
        return {
            "title": self.title,
            "at": self.at,
            "lanes": {
                "waiting": max(0, self.lanes - self.running - self.done - self.failed),
                "running": self.running,
                "done": self.done,
                "failed": self.failed,
            },
            "nodes": [
                {"id": name, "entered": node.entered, "now": node.now, "failed": node.failed}
                for name, node in self.nodes.items()
            ],
            "edges": [{"from": source, "to": target, "taken": taken} for (source, target), taken in self.edges.items()],
            "below": [stretch.drawing() for stretch in self.below.values()],
        }


@dataclass
class Lane:
    """A walk that has not ended."""

    stretch: Stretch
    node: str = ""
    counted: bool = False
    """Whether it counts as running."""
    fans: list[str] = field(default_factory=list)


class Standing:
    """Follows the events of a run.

    Parameters
    ----------
    name
        The run's.
    graph
        What the root walks; its nodes are drawn before anything has entered them.
    """

    def __init__(self, name: str, graph: Any) -> None:
        self.name = name
        self.graph = graph
        self.began = time.time()
        self.tally = Tally()
        self.root = Stretch(graph.id)
        self.failures: list[dict[str, str]] = []
        self.state = "running"
        for cls in graph.plans:
            self.root.node(cls.node_id)
        self._walks: dict[str, Lane] = {"": Lane(self.root)}
        self._fans: dict[str, Stretch] = {}

    def take(self, event: Event) -> None:
        """Take an event of the walk."""
        self.tally.take(event)
        position = event.position
        if isinstance(event, NodeEntered):
            walk = self._walk(position.lane)
            walk.stretch.enter(walk.node, event.node)
            walk.node = event.node
        elif isinstance(event, LaneStarted):
            self._walk(position.lane)
        elif isinstance(event, LanesOpened):
            self._open(event, position)
        elif isinstance(event, LaneEnded):
            self._end(event, position.lane)
        elif isinstance(event, WalkEnded):
            walk = self._walks[""]
            walk.stretch.leave(walk.node, failed=event.failure is not None)
            walk.node = ""
            self.state = "failed" if event.failure else "done"

    def _walk(self, lane: str) -> Lane:
        walk = self._walks.get(lane)
        if walk is None:
            above, _, last = lane.rpartition("/")
            fan = f"{above}/{last.partition(':')[0]}" if above else last.partition(":")[0]
            walk = self._walks[lane] = Lane(self._fans.get(fan, self.root))
            walk.stretch.running += 1
            walk.counted = True
        return walk

    def _open(self, event: LanesOpened, position: Position) -> None:
        walk = self._walk(position.lane)
        title = event.label or event.target
        stretch = walk.stretch.below.setdefault((event.node, title), Stretch(title, event.node))
        stretch.lanes += len(event.keys)
        prefix = f"{position.lane}/" if position.lane else ""
        fan = f"{prefix}{position.step}.{position.ordinal}"
        self._fans[fan] = stretch
        walk.fans.append(fan)

    def _end(self, event: LaneEnded, lane: str) -> None:
        walk = self._walk(lane)
        del self._walks[lane]
        for fan in walk.fans:
            self._fans.pop(fan, None)
        stretch = walk.stretch
        stretch.running -= walk.counted
        if event.failure is None:
            stretch.done += 1
        else:
            stretch.failed += 1
            where = "/".join(part.partition(":")[2] for part in lane.split("/"))
            self.failures.append({"lane": where, "kind": str(event.failure.kind), "message": event.failure.message})
            del self.failures[:-FAILURES]
        stretch.leave(walk.node, failed=event.failure is not None)


def run_status(standing: Standing, workers: Sequence[Any] = (), waiting: int = 0) -> dict[str, Json]:
    """Return how a run stands.

    Parameters
    ----------
    standing
        What its events told.
    workers
        Views of the workers, for what this run has there now (:class:`grafico.cluster.WorkerView`).
    waiting
        Calculations that have not been sent to a worker.

    Returns
    -------
    dict
        ``run``, ``graph``, ``state``, ``node``, seconds, ``lanes`` and ``calculations`` by state, ``workers`` (labels
        of what runs, by worker), ``failures`` and ``drawing``.
    """
    tally = standing.tally
    counts = tally.calculations
    here = {str(view.name): list(view.labels[: view.busy]) for view in workers}
    running = sum(len(labels) for labels in here.values())
    return {
        "run": standing.name,
        "graph": f"{standing.graph.id} {standing.graph.version}",
        "description": standing.graph.description,
        "state": standing.state,
        "node": tally.node,
        "started": round(standing.began, 3),
        "elapsed_s": round(tally.elapsed_s(), 1),
        "left_s": round(left, 1) if (left := tally.left_s()) is not None else None,
        "lanes": tally.open_lanes,
        "calculations": {
            "waiting": max(waiting, len(tally.running) - running),
            "running": running,
            "done": counts["done"],
            "reused": counts["reused"],
            "failed": counts["failed"],
        },
        "retried": counts["retried"],
        "workers": {name: labels[:SHOWN] for name, labels in here.items() if labels},
        "failures": standing.failures,
        "drawing": {**standing.root.drawing(), "declared": _declared(standing.graph)},
    }


def _declared(graph: Any) -> list[Json]:
    """Return the edges that a graph allows, in the order of its nodes."""
    return [
        {
            "from": cls.node_id,
            "to": successor.node_id,
            "label": plan.declared.labels.get(successor.node_id, ""),
            "guarded": any(successor in guard.removes for guard in plan.guards),
        }
        for cls, plan in graph.plans.items()
        for successor in plan.successors
    ]
