"""The three things a graph needs from outside: somewhere to compute, somebody to choose, something that remembers.

``cluster/``, ``control/`` and ``runs/`` implement these; ``jobs/`` wires them together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from grafico.calculations import ArtifactRef, CalculationTask, Json, Model, Outcome, Success

__all__ = [
    "Answered",
    "Compute",
    "Persist",
    "Position",
    "Record",
    "Recorder",
    "RouteOption",
    "RouteProposal",
    "RouteQuestion",
    "Router",
]


class Position(NamedTuple):
    """Where in a run something happens; the same in every replay.

    ``lane`` is the path of the walk: ``""`` for the root, else ``<step>.<ordinal>:<member key>`` for each
    fan-out on the way, joined by ``/`` (``"3.0:gas/1.0:conf-002"``). ``step`` counts the nodes entered in
    that walk from 0, ``ordinal`` the calls that the node made on its ctx from 0.
    """

    lane: str
    step: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.lane}@{self.step}.{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read what ``str()`` wrote."""
        lane, _, call = text.rpartition("@")
        step, _, ordinal = call.partition(".")
        return cls(lane, int(step), int(ordinal))


@dataclass(frozen=True, slots=True)
class Record:
    """One fact of a walk, as the recorder keeps it.

    ``kind`` is one of

    ========== ======================================================================================
    enter      a node was entered: ``node``, ``parameters``, ``source`` (digest of its code; ordinal 0 by
               convention)
    compute    a calculation was asked for and answered: ``name``, ``key``, ``status`` and, for a failure,
               ``failure`` and ``calls`` (how many calls the node had made when it heard of it: what was called
               later was called in its knowledge); the output of a success stays under its key
    ladder     attempts have failed and another follows: ``key``, ``name``, ``history``, and ``settings``,
               ``resources`` and ``next`` of that one; the latest stands for those before
    route      a successor was chosen: ``successor``, ``parameters``, ``by`` (forced, rule, model, stand-in: a
               rule where the model could not answer, fallback, exit, node: returned as it is), ``reasoning``,
               ``confidence``, ``vetoes``; for a decision node ``output``; ``successor`` is null where no
               answer came and the walk stopped
    lanes      a fan-out was opened: ``keys``, ``target``
    lane_end   a lane ended, at the lane's own path: ``status``, ``failure``
    delivery   in completion order: the ``key`` that a node was given next
    value      time, chance, a file or a model's output: ``name``, ``value``
    end        the walk ended: ``status``, ``result`` for the root, ``failure``
    ========== ======================================================================================

    ``lane_end`` and ``end`` stand where the walk's next call would have stood. Notes are ``start`` and
    ``attempt`` (one attempt at a calculation), ``stop`` (guards or an exit left nowhere to go), ``changed`` (a
    node's code is not what it was when its decisions were journalled) and ``again`` (a success whose committed
    outcome is gone is computed again).
    """

    kind: str
    position: Position
    data: Mapping[str, Json] = field(default_factory=dict)


class RouteOption(Model):
    """A successor that may be chosen, as a router sees it."""

    successor: str = Field(description="node id")
    description: str = Field(default="", description="first paragraph of the node's docstring")
    parameters: Mapping[str, Json] = Field(default_factory=dict, description="JSON Schema of its input parameters")


class RouteProposal(Model):
    """What a router answers; validated by the engine before it counts."""

    successor: str
    parameters: Mapping[str, Json] = Field(default_factory=dict)
    reasoning: str = ""
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)


class RouteQuestion(Model):
    """All that a router may see: summaries, marked scalars and the admissible successors, never objects."""

    graph: str
    node: str
    lane: str = ""
    intent: str = Field(default="", description="the user's intent, summarised")
    summaries: tuple[str, ...] = Field(default=(), description="step summaries so far, oldest first")
    scalars: Mapping[str, Json] = Field(default_factory=dict, description="small values marked for routers")
    options: tuple[RouteOption, ...]
    vetoed: Mapping[str, str] = Field(
        default_factory=dict, description="declared successors that guards removed: reason"
    )
    schema_: Mapping[str, Json] = Field(default_factory=dict, alias="schema", description="JSON Schema of a proposal")
    suggestion: RouteProposal | None = Field(default=None, description="what the graph's own rule would take")
    errors: tuple[str, ...] = Field(default=(), description="why earlier answers to this question were refused")
    task: Mapping[str, Json] | None = Field(
        default=None, description="JSON Schema of a task output asked for together with the route"
    )


class Answered(dict[str, Json]):
    """A router's answer that says who gave it, where a router asks others.

    Parameters
    ----------
    answer
        The JSON object.
    by
        Stands in the journal instead of the router's own name.
    """

    def __init__(self, answer: Mapping[str, Json], *, by: str) -> None:
        super().__init__(answer)
        self.by = by


class Router(Protocol):
    """Who chooses among admissible successors."""

    name: str
    """Stands in the journal as ``by``: ``rule``, ``model``."""

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        """Return a JSON object that should satisfy ``question.schema``; it is validated by the caller."""
        ...


class Compute(Protocol):
    """Somewhere to run a calculation."""

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        """Run one attempt and return its outcome; raises only for faults of the machinery itself.

        A success carries the typed output (an instance of the calculation's output type).
        """
        ...


class Recorder(Protocol):
    """What remembers a run. Replay is asking it first."""

    def recall(self, position: Position, kind: str) -> Record | None:
        """Return what was recorded at this position, unless it was invalidated."""
        ...

    def last(self, lane: str, step: int) -> int:
        """Return the highest ordinal at which a step of a lane has a record, -1 if it has none."""
        ...

    def climbed(self, key: str) -> Mapping[str, Json] | None:
        """Return the latest ``ladder`` of a content key that was not answered yet, wherever in the run it stands."""
        ...

    async def record(self, record: Record, *, durable: bool = True) -> None:
        """Remember; with ``durable``, return only after it cannot be lost."""
        ...

    async def note(self, kind: str, position: Position, data: Mapping[str, Json]) -> None:
        """Remember something for the story alone (an attempt, a guard's veto); never replayed."""
        ...

    def committed(self, key: str, output_type: type[Any]) -> Success[Any] | None:
        """Return the committed outcome of a content key, wherever in the run it came from."""
        ...

    async def publish(self, name: str, content: "bytes | ArtifactRef") -> None:
        """Put a file under the run's ``results/``."""
        ...

    def now(self) -> str:
        """Return the current UTC time, ISO 8601 (the engine journals what it hands to a node)."""
        ...

    def entropy(self) -> int:
        """Return 64 random bits (the engine journals what it hands to a node)."""
        ...


class Persist(Protocol):
    """Where a terminal node puts its result: the injected knowledge base."""

    async def persist(self, entities: Sequence[Any]) -> Sequence[str]:
        """Persist entities and what they refer to; return their IRIs."""
        ...
