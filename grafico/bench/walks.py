"""The same tasks walked in two ways: a model asked at every edge without guards, or only where guards leave a choice.

The first way is that of El Agente Gráfico. Tasks are of two kinds: one molecule in the quantum chemistry graph, and an
ensemble, whose conformers are walked in lanes within lanes of environments.
"""

import asyncio
import contextlib
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grafico.calculations import Artifacts, Success
from grafico.chemistry.ensemble import GRAPH as ENSEMBLE
from grafico.chemistry.ensemble import EnsembleRequest, EnsembleState
from grafico.chemistry.quantum_chemistry import GRAPH, QCRequest, QCState
from grafico.graphs import Graph, InlineCompute, Limits, MemoryRecorder, Router, run_graph
from grafico.graphs.state import GraphState

__all__ = ["KINDS", "TASKS", "WAYS", "Known", "Walked", "share", "sum_up", "walk_task", "walk_tasks"]

LEVEL = {"method": "hf", "basis": "sto-3g"}
PLANAR_AMMONIA = "N 0 0 0\nH 1.0 0 0\nH -0.5 0.8660254 0\nH -0.5 -0.8660254 0"
MOLECULES: Mapping[str, Mapping[str, Any]] = {
    "energy and charges of hydrogen": {"molecule": {"name": "hydrogen"}, "tasks": ["single_point", "analysis"]},
    "minimum of water": {"molecule": {"name": "water"}, "tasks": ["optimize", "frequencies"]},
    "minimum and spectrum of water": {
        "molecule": {"name": "water"},
        "tasks": ["optimize", "frequencies", "tddft"],
        "excited_states": {"roots": 2},
    },
    "minimum of ammonia, from a planar start": {
        "molecule": {"xyz": PLANAR_AMMONIA},
        "tasks": ["optimize", "frequencies"],
    },
}
ENSEMBLES: Mapping[str, Mapping[str, Any]] = {
    "spectra of nitrous acid in gas and water": {
        "molecule": {"smiles": "ON=O"},
        "search": {"engine": "rdkit", "seeds": 10, "batches": 2},
        "excited_states": {"roots": 3, "tda": True},
        "environments": [
            {"name": "gas"},
            {"name": "water", "solvent": "water", "model": "c-pcm", "geometries": "gas"},
        ],
    },
}
KINDS: Mapping[str, tuple[str, ...]] = {"one molecule": tuple(MOLECULES), "lanes of an ensemble": tuple(ENSEMBLES)}
TASKS = {**MOLECULES, **ENSEMBLES}
WAYS: Mapping[str, bool] = {"asked at every edge, no guards": False, "guards and forced edges": True}
"""Ways, and whether guards and forced edges count in them."""
MOST_STEPS = 24
"""Of a walk of one molecule: without guards a model may go in circles."""


class Counting:
    """Counts questions; otherwise the router behind it."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.name = router.name
        self.asked = 0

    async def choose(self, question: Any) -> Any:
        """Pass a question on."""
        self.asked += 1
        return await self.router.choose(question)


@dataclasses.dataclass
class Known:
    """What was computed, so that the same calculation of another walk is not done again."""

    artifacts: Artifacts
    outcomes: dict[str, Success[Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Walked:
    """How a task went, its lanes included."""

    asked: int
    edges: int
    lanes: int
    """Walks of the task: its own, and those of its lanes."""
    fulfilled: bool
    """It ended with all that was asked for, and where a minimum was, with a verified one."""


def walk_tasks(way: str, router: Router, known: Known, tasks: Sequence[str]) -> dict[str, Any]:
    """Walk tasks in one way; return requests and edges a task, and how many did what was asked."""
    return sum_up([asyncio.run(walk_task(way, task, router, known)) for task in tasks])


def sum_up(done: Sequence[Walked]) -> dict[str, Any]:
    """Return means over tasks."""
    return {
        "requests a task": round(sum(one.asked for one in done) / len(done), 2),
        "edges a task": round(sum(one.edges for one in done) / len(done), 2),
        "lanes a task": round(sum(one.lanes for one in done) / len(done), 2),
        "tasks fulfilled": share(sum(one.fulfilled for one in done), len(done)),
    }


async def walk_task(way: str, task: str, router: Router, known: Known) -> Walked:
    """Walk one task in one way; calculations that were done before are not done again."""
    guarded = WAYS[way]
    graph, state = _begin(task)
    recorder, counting = MemoryRecorder(), Counting(router)
    recorder.outcomes = known.outcomes
    compute = InlineCompute(recorder, artifacts=known.artifacts)
    # One lane after the other: a small server answers one question at a time, and others would wait for it in vain.
    limits = Limits(ask_forced=not guarded, lanes=1)
    with contextlib.ExitStack() as stack:
        if not guarded:
            stack.enter_context(_without_guards(graph, GRAPH))
        # Engines print into the streams of this process.
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        outcome = await run_graph(graph, state, compute=compute, router=counting, recorder=recorder, limits=limits)
    routes = [record for record in recorder.records if record.kind == "route"]
    lanes = {record.position.lane for record in recorder.records if record.kind == "enter"}
    return Walked(counting.asked, len(routes), len(lanes), outcome.ok and _fulfilled(state))


def _begin(task: str) -> tuple[Graph, GraphState]:
    said = {**TASKS[task], "level": LEVEL}
    if task in ENSEMBLES:
        return ENSEMBLE, EnsembleState.for_request(EnsembleRequest.model_validate(said))
    return dataclasses.replace(GRAPH, max_steps=MOST_STEPS), QCState.for_request(QCRequest.model_validate(said))


def _fulfilled(state: GraphState) -> bool:
    """Whether a walk that ended well holds all that was asked for."""
    if isinstance(state, EnsembleState):
        wanted = {environment.name for environment in state.request.environments}
        return set(state.results) == wanted and not any(result.failures for result in state.results.values())
    assert isinstance(state, QCState)
    if state.outstanding:
        return False
    return state.verified or not {"optimize", "frequencies"} <= set(state.plan.tasks)


@contextlib.contextmanager
def _without_guards(*graphs: Graph) -> Iterator[None]:
    """Take the guards from graphs meanwhile. Nodes name the graphs of their lanes, so these cannot be exchanged for others."""
    kept = [(plan, plan.guards) for graph in graphs for plan in graph.plans.values()]
    try:
        for plan, _ in kept:
            plan.guards = ()
        yield
    finally:
        for plan, guards in reversed(kept):
            plan.guards = guards


def share(count: int, of: int) -> str:
    """Return a count, and its percentage."""
    return f"{count} of {of} ({100 * count / of:.0f} %)"
