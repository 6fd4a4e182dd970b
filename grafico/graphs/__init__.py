"""Typed execution graphs: nodes, routes, guards, lanes, joins, the engine and its drawings."""

from pydantic_graph import Edge, End

from grafico.graphs.context import Context
from grafico.graphs.drawing import draw_graph, draw_run
from grafico.graphs.events import (
    AttemptFailed,
    CalculationEnded,
    CalculationStarted,
    Event,
    LaneEnded,
    LanesOpened,
    LaneStarted,
    NodeChanged,
    NodeEntered,
    OutcomeLost,
    RouteChosen,
    Subscriber,
    WalkEnded,
)
from grafico.graphs.failures import JoinFailed, WalkFailed
from grafico.graphs.graph import Foreseen, Graph
from grafico.graphs.guards import Guard
from grafico.graphs.joins import failures, need_all, need_any, need_at_least
from grafico.graphs.lanes import Lanes, Members
from grafico.graphs.memory import FolderArtifacts, InlineCompute, MemoryRecorder
from grafico.graphs.node import Node
from grafico.graphs.protocols import (
    Compute,
    Persist,
    Position,
    Record,
    Recorder,
    RouteOption,
    RouteProposal,
    RouteQuestion,
    Router,
)
from grafico.graphs.routes import route_model, route_schema
from grafico.graphs.routing import Decided
from grafico.graphs.run import run_graph
from grafico.graphs.scope import Limits
from grafico.graphs.state import AppendOnly, GraphState, RouteTaken, Summary
from grafico.graphs.successors import Successors, successors_of

__all__ = [
    "AppendOnly",
    "AttemptFailed",
    "CalculationEnded",
    "CalculationStarted",
    "Compute",
    "Context",
    "Decided",
    "Edge",
    "End",
    "Event",
    "FolderArtifacts",
    "Foreseen",
    "Graph",
    "GraphState",
    "Guard",
    "InlineCompute",
    "JoinFailed",
    "LaneEnded",
    "LaneStarted",
    "Lanes",
    "LanesOpened",
    "Limits",
    "Members",
    "MemoryRecorder",
    "Node",
    "NodeChanged",
    "NodeEntered",
    "OutcomeLost",
    "Persist",
    "Position",
    "Record",
    "Recorder",
    "RouteChosen",
    "RouteOption",
    "RouteProposal",
    "RouteQuestion",
    "RouteTaken",
    "Router",
    "Subscriber",
    "Successors",
    "Summary",
    "WalkEnded",
    "WalkFailed",
    "draw_graph",
    "draw_run",
    "failures",
    "need_all",
    "need_any",
    "need_at_least",
    "route_model",
    "route_schema",
    "run_graph",
    "successors_of",
]
