"""The labeled routing situations are the graph's own, and the benchmark counts what it says it counts."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "control"))

pytest.importorskip("pyscf")

from grafico.bench.routing import bench
from grafico.bench.situations import decide, question_of, read_situations
from grafico.bench.walks import KINDS, WAYS, Known, walk_task
from grafico.chemistry.quantum_chemistry import GRAPH
from grafico.control import RuleRouter
from grafico.errors import BadInput, ModelUnavailable
from grafico.graphs import FolderArtifacts, RouteProposal

SITUATIONS = read_situations()


class Fixed:
    """A router that gives one answer."""

    name = "fixed"

    def __init__(self, successor: str, **parameters: object) -> None:
        self.answer = RouteProposal(successor=successor, parameters=parameters, reasoning="so").model_dump()

    async def choose(self, question):
        return self.answer


def test_there_are_enough_situations_of_each_kind():
    assert len(SITUATIONS) >= 60
    assert len({situation.name for situation in SITUATIONS}) == len(SITUATIONS)
    kinds = Counter(situation.group for situation in SITUATIONS)
    assert len(kinds) >= 5
    assert min(kinds.values()) >= 8


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_label_is_admissible_and_there_is_a_choice(situation):
    question = asyncio.run(question_of(situation))
    assert question is not None, "nobody is asked here"
    options = {option.successor: option for option in question.options}
    assert len(options) > 1
    assert set(situation.right) < set(options)
    assert question.intent == situation.intent
    assert question.summaries == situation.so_far
    assert not set(options) & set(question.vetoed)
    declared = {cls.node_id for cls in GRAPH.plans[GRAPH.by_id[situation.after]].successors}
    assert set(options) | set(question.vetoed) == declared
    for name, values in situation.parameters.items():
        for value in values:
            given = {} if value is None else {name: value}
            decided = asyncio.run(decide(situation, Fixed(situation.right[0], **given)))
            assert decided.is_right(situation)


def test_rules_are_right_where_the_job_says_what_is_wanted_and_wrong_where_it_does_not():
    right = {s.name: asyncio.run(decide(s, RuleRouter())).is_right(s) for s in SITUATIONS}
    assert all(right[s.name] for s in SITUATIONS if s.group == "as asked")
    assert not any(right[s.name] for s in SITUATIONS if s.group == "more than the job says")


def test_a_wrong_number_of_states_is_no_right_answer():
    situation = next(s for s in SITUATIONS if s.name == "more roots than the job says")
    for roots, right in ((25, True), (24, False)):
        decided = asyncio.run(decide(situation, Fixed("TDDFT", roots=roots)))
        assert decided.successor_is_right(situation)
        assert decided.is_right(situation) is right
    assert not asyncio.run(decide(situation, Fixed("TDDFT"))).is_right(situation)


def test_an_answer_that_is_no_route_is_counted_as_wrong_even_where_the_safe_end_is_right():
    situation = next(s for s in SITUATIONS if s.right == ("End",))
    decided = asyncio.run(decide(situation, Fixed("Teleportation")))
    assert decided.by == "fallback"
    assert decided.node is not None
    assert decided.node.node_id == "End"
    assert not decided.successor_is_right(situation)


def both_ways(folder: Path, kind: str):
    """Walk the tasks of a kind in both ways, with a router that is always right."""
    known = Known(FolderArtifacts(folder))
    tasks = KINDS[kind]
    found = {way: {task: asyncio.run(walk_task(way, task, RuleRouter(), known)) for task in tasks} for way in WAYS}
    everywhere, ours = found["asked at every edge, no guards"], found["guards and forced edges"]
    for task in tasks:
        assert everywhere[task].fulfilled
        assert ours[task].fulfilled
        assert everywhere[task].edges == ours[task].edges
        assert everywhere[task].asked == everywhere[task].edges
        assert ours[task].asked <= everywhere[task].asked
        assert everywhere[task].lanes == ours[task].lanes
    return everywhere, ours


def test_guards_and_forced_edges_save_questions_on_the_same_walk(tmp_path):
    everywhere, ours = both_ways(tmp_path, "one molecule")
    removal = "minimum of ammonia, from a planar start"
    assert everywhere[removal].edges >= 5
    assert ours[removal].asked == 1


@pytest.mark.slow
def test_they_save_questions_in_the_lanes_of_an_ensemble_as_well(tmp_path):
    everywhere, ours = both_ways(tmp_path, "lanes of an ensemble")
    (task,) = KINDS["lanes of an ensemble"]
    # The job, two environments, and cis and trans in each of them.
    assert everywhere[task].lanes == 7
    # Which search; after each of two optimizations and four spectra, what next.
    assert ours[task].asked == 7
    # Four steps of the job and its search, four of each environment, and two or one of each conformer.
    assert everywhere[task].asked >= 4 + 2 * 4 + 2 * 2 + 2 * 1
    assert all(plan.guards for plan in GRAPH.plans.values() if plan.node_id == "GeometryOptimization")


def test_a_model_is_measured_with_its_tokens():
    pytest.importorskip("litellm")
    from scripted_server import ScriptedServer, route

    with ScriptedServer(route("End")) as server:
        found = bench(("openai/ends",), server.base, walks=False)
        assert len(server.requests) >= len(SITUATIONS)
    measured = found["ends"]
    ends = sum(s.right == ("End",) for s in SITUATIONS)
    assert measured["situations"]["successor right"].startswith(f"{ends} of {len(SITUATIONS)}")
    assert measured["situations"]["no valid answer"] > 0
    assert measured["tokens a decision"] > 100
    first = [asyncio.run(question_of(s)).options[0].successor for s in SITUATIONS]
    told = measured["situations"]["took the first step that is named"]
    assert told.startswith(f"{first.count('End')} of")
    assert json.dumps(found)


def test_a_model_that_does_not_answer_is_said():
    pytest.importorskip("litellm")
    from scripted_server import ScriptedServer, fails

    with ScriptedServer(fails(401)) as server, pytest.raises(ModelUnavailable, match="does not answer"):
        bench(("openai/local",), server.base, walks=False)
    with pytest.raises(BadInput, match="without a model"):
        bench((), "http://127.0.0.1:1/v1")
