"""What a run tells the knowledge base about itself: the run, its calculations and its routes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from grafico.control import read_calls
from grafico.jobs.schema import Job
from grafico.runs import OutcomeStore, Run, RunView

__all__ = ["Knowledge", "store_of"]

Contents: TypeAlias = dict[str, tuple[str, ...]]
"""By IRI of an execution, what its input or output held."""


def store_of(job: Job) -> AbstractContextManager[None]:
    """Let what runs inside look things up in the store that a job names."""
    from grafico.knowledge import using_store

    return using_store(job.knowledge.place)


class Knowledge:
    """The knowledge base as one run uses it; implements ``Persist`` of ``graphs/``.

    Parameters
    ----------
    run
        The run.
    store
        Folder or address of the store; ``None`` for the user's own.
    """

    def __init__(self, run: Run, store: Path | str | None) -> None:
        from grafico.knowledge import RunKnowledge, open_store

        self.run = run
        self._knowledge = RunKnowledge(run.paths.root, run_id=run.manifest.run, store=open_store(store))

    @classmethod
    def of(cls, run: Run, job: Job) -> "Knowledge | None":
        """Return the knowledge base that a job asks for; ``None`` if it asks for none."""
        if not job.knowledge.persist:
            return None
        return cls(run, job.knowledge.place)

    def guard(self, check: Callable[[], None]) -> None:
        """Call ``check`` before each change of the run's file: it raises where another controller has the run now."""
        self._knowledge.before_writing = check

    @property
    def problems(self) -> Sequence[str]:
        """What kept the store from being updated; the run's own file holds everything all the same."""
        return self._knowledge.problems

    async def persist(self, entities: Sequence[Any]) -> Sequence[str]:
        """Persist entities and what they refer to; return their IRIs."""
        return await self._knowledge.persist(entities)

    async def finish(self, view: RunView) -> None:
        """Add where it all came from, once the walk has ended."""
        entities, consumed, made = self._entities(view)
        await self._knowledge.finish(entities, consumed=consumed, made=made)

    def _entities(self, view: RunView) -> tuple[list[Any], Contents, Contents]:
        from grafico.knowledge import Run as RunEntity
        from grafico.knowledge import grafico_agent

        manifest = view.manifest
        run = RunEntity(
            iri=self._knowledge.graph,
            name=view.name,
            label=manifest.name,
            graph=manifest.graph,
            graph_version=manifest.graph_version,
            folder=str(view.paths.root),
            started_at=_moment(manifest.started),
            ended_at=_moment_of(view.last_time),
            status=str(view.status),
            agents=frozenset({grafico_agent()}),
        )
        executions, consumed, made = _executions(view, run)
        return [run, *_routes(view, run), *executions], consumed, made


def _routes(view: RunView, run: Any) -> Iterator[Any]:
    from grafico.knowledge import RouteTaken

    asked = {(c.lane, c.where): c.model for c in read_calls(view.paths.ledger) if (c.purpose, c.status) == _ANSWERED}
    for fact in view.chronicle.state:
        data = fact.data
        if fact.kind == "route" and data.get("successor"):
            entered = view.chronicle.state.get(f"{fact.at.rpartition('.')[0]}.0", "enter")
            node, by = str(entered.data["node"]) if entered else "", str(data.get("by") or "")
            lane = "/".join(step.rpartition(":")[2] for step in fact.at.rpartition("@")[0].split("/"))
            yield RouteTaken(
                run=run,
                position=fact.at,
                node=node,
                successor=str(data["successor"]),
                chosen_by=by,
                model=asked.get((lane, node)) if by == "model" else None,
                reasoning=data.get("reasoning") or None,
                confidence=data.get("confidence"),
            )


_ANSWERED = ("route", "ok")


def _executions(view: RunView, run: Any) -> tuple[list[Any], Contents, Contents]:
    """Return the executions of a run in the order of their answers, and what the input and output of each held.

    One is informed by those before it whose output held, to the bit, what its input held. What a node changed between
    (a structure that it turned, say) leaves no such trace, and no link.
    """
    from grafico.knowledge import Execution, software

    outcomes = OutcomeStore(view.paths)
    facts = [f for f in view.chronicle.state if f.kind == "compute" and f.data.get("status") == "success"]
    found: dict[str, Any] = {}
    consumed: dict[str, tuple[str, ...]] = {}
    made: dict[str, tuple[str, ...]] = {}
    sources: dict[str, list[Any]] = {}
    for fact in sorted(facts, key=lambda fact: fact.order):
        key = fact.data["key"]
        provenance = None if key in found else outcomes.provenance(key)
        if provenance is None:
            continue
        files = {f"file:{ref.digest}": ref for ref in outcomes.artifacts(key)}
        execution = Execution(
            run=run,
            key=key,
            calculation=fact.data.get("name"),
            started_at=_moment(provenance.started or None),
            seconds=provenance.seconds,
            device=provenance.device,
            threads=provenance.threads,
            host=provenance.host or None,
            attempt=provenance.attempt,
            settings=dict(provenance.settings),
            agents=software(dict(provenance.versions)),
            produced=frozenset(files.values()),
        )
        earlier = [source for name in provenance.consumed for source in sources.get(name, ())]
        execution.informed_by = frozenset(source for source, _ in earlier)
        execution.read = frozenset(ref for _, ref in earlier if ref is not None)
        for name in provenance.made:
            sources.setdefault(name, []).append((execution, files.get(name)))
        found[key] = execution
        consumed[execution.iri], made[execution.iri] = provenance.consumed, provenance.made
    return list(found.values()), consumed, made


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _moment_of(seconds: float) -> datetime | None:
    from datetime import UTC

    return datetime.fromtimestamp(seconds, UTC) if seconds else None
