"""Running a graph from its first node to its outcome."""

from collections.abc import Callable, Sequence
from typing import Any

from grafico.calculations import Failure, Outcome
from grafico.errors import BadInput
from grafico.graphs.events import Events, Subscriber, WalkEnded
from grafico.graphs.graph import Graph
from grafico.graphs.protocols import Compute, Persist, Position, Recorder, Router
from grafico.graphs.scope import Limits, Scope
from grafico.graphs.walk import Walk

__all__ = ["run_graph"]


async def run_graph(
    graph: Graph,
    state: Any,
    *,
    compute: Compute,
    router: Router,
    recorder: Recorder,
    events: Subscriber | Sequence[Subscriber] | None = None,
    persist: Persist | None = None,
    limits: Limits | None = None,
    seed: int | None = None,
    gpus: int = 0,
    crowded: Callable[[], int] | None = None,
) -> Outcome[Any]:
    """Walk ``graph`` from its start; with a recorder that remembers an earlier run, replay it first.

    Parameters
    ----------
    graph, state
        What to walk, and on which state; the state is changed in place.
    compute, router, recorder
        Where calculations run, who chooses, and what remembers.
    events
        Called with each event, synchronously; what a subscriber raises is logged and goes no further.
    persist
        The knowledge base, when the job asks for it.
    limits
        Bounds on retries and lanes.
    seed
        Makes ``ctx.random()`` the same in every run, position by position.
    gpus
        How many GPUs ``compute`` has at most; nodes ask for it with ``ctx.gpus()``.
    crowded
        Returns how many calculations wait in ``compute`` while a kind of worker that none of them can use has room;
        more lanes are opened then.

    Returns
    -------
    Success | Failure
        The result that the terminal node built, or why the walk failed.

    Raises
    ------
    ReplayMismatch
        The journal does not match the code.
    RunError
        The run folder, or another controller of it, ends the run.
    BadInput
        The state is not the graph's, or asks for an exit that is no node of it.
    """
    if not isinstance(state, graph.state_type):
        raise BadInput(f"graph {graph.id} walks on {graph.state_type.__name__}, and was given {type(state).__name__}")
    if state.exit is not None and state.exit not in graph.by_id:
        raise BadInput(f"exit {state.exit!r} is no node of graph {graph.id}", hint=f"one of: {', '.join(graph.by_id)}")
    subscribers = () if events is None else (events,) if callable(events) else tuple(events)
    scope = Scope(
        compute=compute,
        router=router,
        recorder=recorder,
        events=Events(subscribers),
        persist=persist,
        limits=limits or Limits(),
        seed=seed,
        gpus=gpus,
        crowded=crowded,
    )
    walk = Walk(scope, graph, state, "")
    try:
        outcome = await walk.run()
    finally:
        await scope.close()
    if scope.events:
        failure = outcome if isinstance(outcome, Failure) else None
        scope.events.emit(WalkEnded(Position("", max(walk.step, 0), 0), walk.ended_before, failure))
    return outcome
