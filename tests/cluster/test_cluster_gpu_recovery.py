"""Out of memory on a GPU: a whole one, then CPUs, then a failure; placed by real workers, each attempt journalled."""

import asyncio
from dataclasses import dataclass
from typing import Any

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number

from grafico.calculations import Failure, FailureKind, Outcome, Resources
from grafico.chemistry.calculations.single_point import single_point
from grafico.chemistry.resources import LADDER
from grafico.cluster import Pool, Profile, open_cluster
from grafico.control import RuleRouter
from grafico.graphs import Context, End, Graph, GraphState, Node, Record, run_graph
from grafico.runs import Run, RunRecorder, read_starts
from grafico.runs.segments import read_journal

CARD = Pool(name="gpu", gpus=1, simulated=True, gpu_memory_mib=900, memory_mib=9000, cpus=3)
CPUS = Pool(name="cpu", cpus=1, memory_mib=4000)


@dataclass(kw_only=True)
class State(GraphState):
    value: Number
    resources: Resources
    outcome: Outcome[Any] | None = None


class Try(Node[State, float]):
    async def run(self, ctx: Context[State]) -> End[float]:
        state = ctx.state
        state.outcome = await ctx.compute(cases.fills_the_card, state.value, resources=state.resources)
        return End(0.0)


GRAPH = Graph(id="try", version="1", state_type=State, nodes=[Try], start=Try)


@pytest.fixture
def attempts(tmp_path):
    """Compute what needs so much GPU memory, MiB; returns the outcome, the journalled attempts, and where each ran."""

    def run(needs_mib, pools=(CARD, CPUS), **resources):
        asked = {"gpu": "slot", "gpu_memory_mib": 600, "memory_mib": 1000, "walltime_s": 60, **resources}
        state = State(value=Number(value=needs_mib), resources=Resources(**asked))
        kept = Run.create(tmp_path, "run", job_source=b"{}", job={}, graph="try", graph_version="1")

        async def main():
            profile = Profile(name="small", pools=pools)
            async with (
                RunRecorder(kept, make_record=Record) as recorder,
                open_cluster(profile, kept.paths.root) as here,
            ):
                await run_graph(GRAPH, state, compute=here, router=RuleRouter(), recorder=recorder)

        asyncio.run(main())
        bodies = [entry.body for entry in read_journal(kept.paths).entries]
        journalled = [body["data"] for body in bodies if body.get("note") == "attempt"]
        return state.outcome, journalled, [(start.gpu, start.slot) for start in read_starts(kept.paths)]

    return run


def test_a_slot_then_the_whole_card(attempts):
    outcome, journalled, places = attempts(800)
    assert outcome.ok
    assert [place.count(",") + 1 for _, place in places] == [1, 3]
    first, second = journalled
    assert (first["kind"], first["next"]) == ("out_of_memory", "a whole GPU and twice the memory")
    assert first["resources"]["gpu"] == "slot"
    assert second["status"] == "success"


def test_then_cpus(attempts):
    outcome, journalled, places = attempts(2000)
    assert outcome.ok
    assert [gpu for gpu, _ in places] == ["simulated-0", "simulated-0", ""]
    assert [attempt.get("next") for attempt in journalled] == ["a whole GPU and twice the memory", "on CPUs", None]
    assert journalled[1]["resources"]["gpu"] == "exclusive"
    assert journalled[1]["resources"]["memory_mib"] == 2000


def test_then_a_failure_that_tells_all_attempts(attempts):
    outcome, _, places = attempts(-1)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.OUT_OF_MEMORY
    assert [attempt.resources.gpu for attempt in outcome.history] == ["slot", "exclusive", "none"]
    assert len(places) == 3


def test_a_step_that_asks_for_more_than_there_is_is_passed_over(attempts):
    # Twice the host's memory is nowhere to be had: the whole card cannot be tried so, the CPUs can.
    outcome, journalled, places = attempts(
        2000, memory_mib=3000, pools=(CARD.model_copy(update={"memory_mib": 5000}), CPUS)
    )
    assert outcome.ok
    assert [gpu for gpu, _ in places] == ["simulated-0", ""]
    assert [attempt.get("kind") for attempt in journalled] == ["out_of_memory", "refused", None]
    assert journalled[1]["next"] == "on CPUs"


def test_without_cpus_the_failure_says_what_it_was_and_what_is_missing(attempts):
    outcome, journalled, _ = attempts(2000, pools=(CARD,))
    assert outcome.kind is FailureKind.OUT_OF_MEMORY
    assert "no CPU workers" in outcome.message
    assert [attempt["kind"] for attempt in journalled] == ["out_of_memory", "out_of_memory", "refused"]


def test_on_cpus_alone_it_gets_more_memory_once_and_nothing_is_tried_twice(attempts):
    outcome, journalled, places = attempts(-1, gpu="none", gpu_memory_mib=0)
    assert outcome.kind is FailureKind.OUT_OF_MEMORY
    assert [attempt["resources"]["memory_mib"] for attempt in journalled] == [1000, 2000]
    assert [gpu for gpu, _ in places] == ["", ""]


def test_chemistry_climbs_this_ladder():
    assert cases.fills_the_card.ladder[FailureKind.OUT_OF_MEMORY] == single_point.ladder[FailureKind.OUT_OF_MEMORY]
    assert [rung.gpu for rung in LADDER[FailureKind.OUT_OF_MEMORY]] == ["exclusive", "none"]
