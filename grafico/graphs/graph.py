"""A graph: its nodes, guards and start, checked when it is built."""

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, cast

from pydantic import BaseModel
from pydantic_graph import Graph as PydanticGraph
from pydantic_graph import GraphBuilder, StepContext
from pydantic_graph.step import NodeStep

from grafico.calculations import Calculation, Resources
from grafico.errors import GraphDefinitionError
from grafico.graphs.guards import Guard, vetoes
from grafico.graphs.node import AnyNode, Node, required_parameters, state_type_of
from grafico.graphs.state import GraphState
from grafico.graphs.successors import Successors, successors_of

__all__ = ["Foreseen", "Graph", "NodePlan"]

ID_PATTERN = re.compile(r"^[A-Za-z0-9_.-]+$")


@dataclass(frozen=True)
class Foreseen:
    """Calculations that a job is expected to need, for its dry run."""

    calculation: Calculation[Any, Any]
    resources: Resources
    count: int = 1
    label: str = ""
    seconds: float | None = None
    """What one takes as a rule, where that can be told."""
    seconds_without_gpu: float | None = None
    """The same where it gets no GPU, if that is more."""
    lane: str = ""
    """Those of one name are a chain in each of ``count`` lanes, beside the lanes of other names; one without a name
    waits for all that come before it."""
    waits: bool = False
    """Whether it waits for all that come before it although it has a lane."""
    identity: str = ""
    """The same for calculations of the same input, in other jobs as well, where that can be told: they run once."""
    uses: tuple[str, ...] = ()
    """What it cannot do without for its input, beside what its calculation says."""


class WalkStep(NodeStep):
    """Hands a node to the walk that stands behind it (``deps``), which gives it our Context."""

    async def _call_node(self, ctx: StepContext) -> Any:
        walk: Any = ctx.deps
        return await walk.visit(ctx.inputs)


class NodePlan:
    """All that is known about routes from one node of one graph."""

    __slots__ = ("cls", "declared", "ends", "guards", "has_rule", "node_id", "open", "successors", "terminals")

    def __init__(self, cls: type[AnyNode], declared: Successors, guards: Sequence[Guard]) -> None:
        self.cls = cls
        self.node_id = cls.node_id
        self.declared = declared
        self.successors = declared.nodes
        self.ends = declared.ends
        self.guards = tuple(
            guard for guard in guards if guard.applies_at(cls) and set(guard.removes) & set(self.successors)
        )
        self.has_rule = cls.rule is not Node.rule
        self.terminals: frozenset[type[AnyNode]] = frozenset()
        self.open = frozenset(successor for successor in self.successors if required_parameters(successor))

    def admissible(self, state: Any) -> tuple[tuple[type[AnyNode], ...], Mapping[str, str]]:
        """Return the successors that no guard removes, and the vetoes with their reasons."""
        if not self.guards:
            return self.successors, {}
        removed = vetoes(self.guards, state, self.successors)
        if not removed:
            return self.successors, removed
        return tuple(cls for cls in self.successors if cls.node_id not in removed), removed


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A typed execution graph.

    Raises
    ------
    GraphDefinitionError
        An unknown, duplicate, non-node or mismatched successor, a missing annotation, an unreachable node,
        a node without a path to an end, a duplicate node id, a guard over nodes that are not in the graph.
    """

    id: str
    version: str
    """Change it when old journals should not be replayed by this code."""
    state_type: type[GraphState]
    nodes: Sequence[type[AnyNode]]
    """In the order in which a walk visits them."""
    start: AnyNode | type[AnyNode] | Callable[[Any], AnyNode]
    """The first node, or a function of the state that returns it."""
    starts: Sequence[type[AnyNode]] = ()
    """What a start function may return; default: its return annotation, else the first of ``nodes``."""
    guards: Sequence[Guard] = ()
    request_type: type[BaseModel] | None = None
    begin: Callable[[Any], Any] | None = None
    """Makes the initial state of a request; with ``request_type``, the graph can be a job."""
    check: Callable[[Any], None] | None = None
    """Raises BadInput for a request that cannot be run; may import engines."""
    foresee: Callable[[Any], Sequence[Foreseen]] | None = None
    """Calculations foreseen for a request."""
    pictures: Callable[[Sequence[Mapping[str, Any]], str], Mapping[str, bytes]] | None = None
    """Draws the table of a sweep, given its rows by column and its name: contents by the names of files."""
    max_steps: int = 10_000
    """Nodes that one walk may enter before it is stopped."""
    description: str = ""
    by_id: Mapping[str, type[AnyNode]] = field(init=False, repr=False)
    plans: Mapping[type[AnyNode], NodePlan] = field(init=False, repr=False)
    engine: PydanticGraph = field(init=False, repr=False)
    """The pydantic-graph graph underneath."""

    def __post_init__(self) -> None:
        if not ID_PATTERN.match(self.id) or not self.version:
            raise GraphDefinitionError(f"graph {self.id!r}: id and version are letters, digits, '_', '.' and '-'")
        nodes = tuple(self.nodes)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "by_id", self._index(nodes))
        plans = {cls: NodePlan(cls, self._successors(cls), self.guards) for cls in nodes}
        for plan in plans.values():
            plan.terminals = frozenset(cls for cls in plan.successors if not plans[cls].successors)
        object.__setattr__(self, "plans", plans)
        object.__setattr__(self, "starts", self._resolve_starts())
        self._check_guards()
        self._check_paths()
        object.__setattr__(self, "engine", self._build())

    def first(self, state: Any) -> AnyNode:
        """Return the first node of a walk.

        Raises
        ------
        GraphDefinitionError
            The start function returned a node that it did not declare.
        """
        start = self.start
        if isinstance(start, Node):
            return start
        node = start() if isinstance(start, type) else start(state)
        if type(node) not in self.starts:
            raise GraphDefinitionError(
                f"graph {self.id}: start returned {type(node).__name__}, which is not among its declared starts",
                hint="annotate the start function, or list what it may return in `starts`",
            )
        return node

    def _index(self, nodes: Sequence[Any]) -> Mapping[str, type[AnyNode]]:
        if not nodes:
            raise GraphDefinitionError(f"graph {self.id}: it has no nodes")
        by_id: dict[str, type[AnyNode]] = {}
        for cls in nodes:
            if not isinstance(cls, type) or not issubclass(cls, Node):
                raise GraphDefinitionError(f"graph {self.id}: {cls!r} is listed as a node and is none")
            if not ID_PATTERN.match(cls.node_id):
                raise GraphDefinitionError(
                    f"graph {self.id}: node id {cls.node_id!r} has characters other than A-Z a-z 0-9 _ . -"
                )
            if cls.node_id in by_id:
                raise GraphDefinitionError(
                    f"graph {self.id}: node id {cls.node_id} is used by {by_id[cls.node_id].__name__} and {cls.__name__}"
                )
            self._check_state(cls, "")
            by_id[cls.node_id] = cls
        return by_id

    def _check_state(self, cls: type[AnyNode], where: str) -> None:
        expected = typing.get_origin(state_type_of(cls)) or state_type_of(cls)
        if isinstance(expected, type) and not issubclass(self.state_type, expected):
            raise GraphDefinitionError(
                f"graph {self.id}: node {cls.node_id}{where} walks on {expected.__name__}, "
                f"which is not the graph's state type {self.state_type.__name__}"
            )

    def _successors(self, cls: type[AnyNode]) -> Successors:
        found = successors_of(cls, known=tuple(self.nodes))
        for successor in found.nodes:
            if successor in self.nodes:
                continue
            self._check_state(successor, f" (successor of {cls.node_id} in `{found.annotation}`)")
            raise GraphDefinitionError(
                f"graph {self.id}: node {cls.node_id}: successor {successor.node_id} in `{found.annotation}` is not in the graph",
                hint=f"add {successor.__name__} to nodes=[...]",
            )
        return found

    def _resolve_starts(self) -> tuple[type[AnyNode], ...]:
        start = self.start
        if isinstance(start, Node):
            starts: tuple[type[AnyNode], ...] = (type(start),)
        elif isinstance(start, type):
            starts = (start,)
        elif self.starts:
            starts = tuple(self.starts)
        else:
            starts = self._annotated_starts(start) or (self.nodes[0],)
        for cls in starts:
            if cls not in self.nodes:
                raise GraphDefinitionError(f"graph {self.id}: start {cls.__name__} is not in the graph")
            if isinstance(start, type) and required_parameters(cls):
                missing = ", ".join(required_parameters(cls))
                raise GraphDefinitionError(f"graph {self.id}: start {cls.node_id} needs {missing}; give an instance")
        return starts

    def _annotated_starts(self, function: Callable[[Any], AnyNode]) -> tuple[type[AnyNode], ...]:
        names = {cls.__name__: cls for cls in self.nodes}
        try:
            hint = typing.get_type_hints(function, localns=names).get("return")
        except (NameError, TypeError):
            return ()
        members = typing.get_args(hint) or (hint,)
        return tuple(cls for cls in members if isinstance(cls, type) and cls in self.nodes)

    def _check_guards(self) -> None:
        for guard in self.guards:
            for cls in (*guard.at, *guard.removes):
                if cls not in self.nodes:
                    raise GraphDefinitionError(
                        f"graph {self.id}: guard {guard.name!r} names {cls.__name__}, which is not in the graph"
                    )
            if not guard.removes:
                raise GraphDefinitionError(f"graph {self.id}: guard {guard.name!r} removes nothing")

    def _check_paths(self) -> None:
        reached, pending = set(self.starts), list(self.starts)
        while pending:
            for successor in self.plans[pending.pop()].successors:
                if successor not in reached:
                    reached.add(successor)
                    pending.append(successor)
        for cls in self.nodes:
            if cls not in reached:
                raise GraphDefinitionError(
                    f"graph {self.id}: node {cls.node_id} cannot be reached from {', '.join(s.node_id for s in self.starts)}",
                    hint="name it in a return annotation, or take it out of the graph",
                )
        ending = {cls for cls in self.nodes if self.plans[cls].ends}
        grown = True
        while grown:
            more = {cls for cls in self.nodes if cls not in ending and ending & set(self.plans[cls].successors)}
            ending |= more
            grown = bool(more)
        for cls in self.nodes:
            if cls not in ending:
                raise GraphDefinitionError(
                    f"graph {self.id}: no path leads from node {cls.node_id} (successors `{self.plans[cls].declared.annotation}`) to an end"
                )

    def _build(self) -> PydanticGraph:
        builder: GraphBuilder = GraphBuilder(
            name=self.id, state_type=self.state_type, input_type=Node, output_type=object, auto_instrument=False
        )
        steps: dict[Any, Any] = {cls: WalkStep(cast(Any, cls)) for cls in self.nodes}

        def fork(source: Any, targets: Sequence[tuple[Any, Any]]) -> None:
            if len(targets) == 1:
                builder.add(builder.edge_from(source).to(targets[0][1]))
                return
            decision: Any = builder.decision(node_id=f"from.{source.id}")
            for match, target in targets:
                decision = decision.branch(builder.match(match).to(target))
            builder.add(builder.edge_from(source).to(decision))

        fork(builder.start_node, [(cls, steps[cls]) for cls in self.starts])
        for cls, plan in self.plans.items():
            targets: list[tuple[Any, Any]] = [(successor, steps[successor]) for successor in plan.successors]
            fork(steps[cls], [*targets, (NoneType, builder.end_node)] if plan.ends else targets)
        return builder.build()
