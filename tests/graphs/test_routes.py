"""Typed routes, guards, forced edges, fallbacks, hard exits and decision nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError
from walking import NoRouter, ScriptedRouter, path_of, routes_of, walk

from grafico.calculations import Json, Model
from grafico.errors import BadInput, GraphStopped
from grafico.graphs import (
    Context,
    End,
    Graph,
    GraphState,
    Guard,
    Limits,
    MemoryRecorder,
    Node,
)
from grafico.graphs.routes import read_route, route_model, route_schema


@dataclass(kw_only=True)
class State(GraphState):
    wanted: str = ""
    roots: int = 10
    verified: bool = True
    secret: bytes = b"never shown"

    def scalars(self) -> Mapping[str, Json]:
        return {"verified": self.verified}


class Optimize(Node[State, str]):
    """Optimize the geometry.

    Details that routers need not read.
    """

    async def run(self, ctx: Context[State]) -> "Verify | Excite | Finish":
        ctx.summarize("converged in 12 steps", energy=-1.5)
        return await ctx.route()

    def rule(self, state: State) -> "Node[State, str] | None":
        made: dict[str, Node[State, str]] = {
            "Verify": Verify(),
            "Excite": Excite(roots=state.roots),
            "Finish": Finish(),
        }
        return made.get(state.wanted)


class Verify(Node[State, str]):
    """Compute frequencies."""

    async def run(self, ctx: Context[State]) -> "Excite | Finish":
        ctx.state.verified = True
        return await ctx.route()


class Excite(Node[State, str]):
    """Compute excited states."""

    roots: int = Field(ge=1, le=200)
    singlets: bool = True

    async def run(self, ctx: Context[State]) -> "Finish":
        ctx.state.roots = self.roots
        return await ctx.route()


class Finish(Node[State, str]):
    """Build the result."""

    async def run(self, ctx: Context[State]) -> End[str]:
        return End(f"{ctx.state.roots} roots{'; ' + ctx.state.stopped if ctx.state.stopped else ''}")


UNVERIFIED = Guard(
    name="unverified geometry",
    at=(Optimize,),
    removes=(Excite, Finish),
    when=lambda state: not state.verified,
    reason="a removal must be followed by frequencies",
)
NODES = (Optimize, Verify, Excite, Finish)
GRAPH = Graph(id="g", version="1", state_type=State, nodes=NODES, start=Optimize, guards=[UNVERIFIED])


# Route models


def test_a_route_is_validated_into_the_node_itself() -> None:
    route = read_route((Verify, Excite), {"successor": "Excite", "parameters": {"roots": 5}, "confidence": 0.7})
    assert route.parameters == Excite(roots=5)
    assert (route.successor, route.reasoning, route.confidence) == ("Excite", "", 0.7)
    assert read_route((Verify,), {"successor": "Verify"}).parameters == Verify()


@pytest.mark.parametrize(
    "answer",
    [
        {"successor": "Excite"},
        {"successor": "Excite", "parameters": {}},
        {"successor": "Excite", "parameters": {"roots": 0}},
        {"successor": "Excite", "parameters": {"roots": 201}},
        {"successor": "Excite", "parameters": {"roots": "many"}},
        {"successor": "Excite", "parameters": {"roots": 5, "colour": "red"}},
        {"successor": "Verify", "parameters": {"roots": 5}},
        {"successor": "Finish"},
        {"successor": "excite", "parameters": {"roots": 5}},
        {"successor": "Verify", "confidence": 1.1},
        {"successor": "Verify", "confidence": -0.1},
        {"successor": "Verify", "confidence": float("nan")},
        {"successor": "Verify", "mood": "good"},
        {"successor": None},
        {},
        [],
        "Verify",
        None,
    ],
)
def test_a_route_with_anything_missing_unknown_or_out_of_range_is_rejected(answer: Any) -> None:
    with pytest.raises(ValidationError):
        read_route((Verify, Excite), answer)


@settings(max_examples=60, deadline=None)
@given(st.integers(-500, 500), st.floats(allow_nan=True))
def test_a_route_holds_exactly_for_parameters_and_confidence_in_range(roots: int, confidence: float) -> None:
    answer = {"successor": "Excite", "parameters": {"roots": roots}, "confidence": confidence}
    sound = 1 <= roots <= 200 and 0.0 <= confidence <= 1.0
    try:
        read_route((Excite, Verify), answer)
    except ValidationError:
        assert not sound
    else:
        assert sound


def test_the_routing_schema_is_a_cached_discriminated_union() -> None:
    schema = route_schema((Verify, Excite))
    assert schema is route_schema((Verify, Excite))
    assert route_model(Verify) is route_model(Verify)
    assert schema["discriminator"]["propertyName"] == "successor"
    excite = schema["$defs"]["RouteToExcite"]
    assert excite["properties"]["successor"]["const"] == "Excite"
    assert set(excite["required"]) >= {"successor", "parameters"}
    assert schema["$defs"]["Excite"]["properties"]["roots"] == {
        "maximum": 200,
        "minimum": 1,
        "title": "Roots",
        "type": "integer",
    }
    assert excite["additionalProperties"] is False


# What a router is shown


def test_a_router_sees_summaries_scalars_and_admissible_successors_and_nothing_else() -> None:
    router = ScriptedRouter({"successor": "Finish", "reasoning": "enough", "confidence": 0.8})
    recorder = MemoryRecorder()
    assert walk(GRAPH, State(intent="a spectrum"), router=router, recorder=recorder).ok
    (question,) = router.questions
    assert question.intent == "a spectrum"
    assert question.summaries == ("Optimize: converged in 12 steps",)
    assert question.scalars == {"verified": True, "energy": -1.5}
    assert [option.successor for option in question.options] == ["Verify", "Excite", "Finish"]
    assert question.options[1].description == "Compute excited states."
    assert question.options[1].parameters["properties"]["roots"]["maximum"] == 200
    assert question.schema_ == route_schema((Verify, Excite, Finish))
    assert "never shown" not in question.model_dump_json(by_alias=True)
    assert routes_of(recorder)[0] == {
        "successor": "Finish",
        "parameters": {},
        "by": "model",
        "confidence": 0.8,
        "reasoning": "enough",
    }


def test_what_is_no_small_scalar_cannot_be_marked_for_routers() -> None:
    class Leaky(Node[State, str]):
        async def run(self, ctx: Context[State]) -> End[str]:
            ctx.summarize("positions", positions=[[0.0, 0.0, 0.0]])
            return End("")

    outcome = walk(Graph(id="g", version="1", state_type=State, nodes=[Leaky], start=Leaky), State())
    assert not outcome.ok
    assert outcome.kind == "bad_input"
    assert "'positions'" in outcome.message


def test_summaries_and_routes_only_grow() -> None:
    state = State(wanted="Finish")
    walk(GRAPH, state)
    assert [summary.text for summary in state.summaries] == ["converged in 12 steps"]
    assert [(taken.node, taken.successor, taken.by) for taken in state.routes] == [("Optimize", "Finish", "rule")]
    with pytest.raises(TypeError):
        state.summaries[0] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        del state.routes[0]  # type: ignore[attr-defined]


def test_a_rule_decides_with_its_parameters() -> None:
    recorder = MemoryRecorder()
    outcome = walk(GRAPH, State(wanted="Excite", roots=42), recorder=recorder)
    assert outcome.ok
    assert outcome.output == "42 roots"
    assert routes_of(recorder)[0]["by"] == "rule"
    assert routes_of(recorder)[0]["parameters"] == {"roots": 42, "singlets": True}


# Guards and forced edges


def test_a_guard_leaves_the_verification_as_the_only_successor_and_says_why() -> None:
    recorder = MemoryRecorder()
    router = ScriptedRouter({"successor": "Finish"})
    assert walk(GRAPH, State(verified=False), router=router, recorder=recorder).ok
    assert path_of(recorder) == ["Optimize", "Verify", "Finish"]
    assert [question.node for question in router.questions] == ["Verify"]
    first = routes_of(recorder)[0]
    assert first["by"] == "forced"
    assert first["vetoes"]["Finish"] == "unverified geometry: a removal must be followed by frequencies"
    assert set(first["vetoes"]) == {"Excite", "Finish"}


def test_a_forced_edge_asks_no_router() -> None:
    class Only(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Finish:
            return await ctx.route()

    graph = Graph(id="g", version="1", state_type=State, nodes=[Only, Finish], start=Only)
    recorder = MemoryRecorder()
    assert walk(graph, State(), router=NoRouter(), recorder=recorder).ok
    assert routes_of(recorder)[0]["by"] == "forced"


def test_a_sole_successor_with_open_parameters_is_asked_for() -> None:
    class Only(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Excite:
            return await ctx.route()

    graph = Graph(id="g", version="1", state_type=State, nodes=[Only, Excite, Finish], start=Only)
    router = ScriptedRouter({"successor": "Excite", "parameters": {"roots": 3}})
    outcome = walk(graph, State(), router=router)
    assert outcome.ok
    assert outcome.output == "3 roots"
    assert len(router.questions) == 1


def test_a_sole_successor_takes_the_parameters_of_the_rule_without_a_router() -> None:
    class Only(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Excite:
            return await ctx.route()

        def rule(self, state: State) -> Excite:
            return Excite(roots=77)

    graph = Graph(id="g", version="1", state_type=State, nodes=[Only, Excite, Finish], start=Only)
    outcome = walk(graph, State(), router=NoRouter())
    assert outcome.ok
    assert outcome.output == "77 roots"


def test_guards_that_leave_nothing_stop_the_walk_with_their_reasons() -> None:
    everything = Guard(name="strike", removes=(Verify, Excite, Finish), when=lambda state: True, reason="no work today")
    graph = Graph(id="g", version="1", state_type=State, nodes=NODES, start=Optimize, guards=[everything])
    recorder = MemoryRecorder()
    outcome = walk(graph, State(), router=NoRouter(), recorder=recorder)
    assert not outcome.ok
    assert outcome.kind == "refused"
    assert outcome.where == "Optimize"
    assert "strike: no work today" in outcome.message
    assert [note.data["vetoes"]["Verify"] for note in recorder.notes if note.kind == "stop"] == [
        "strike: no work today"
    ]


def test_a_guard_may_give_a_reason_from_the_state() -> None:
    guard = Guard(
        name="counting",
        removes=(Excite, Verify),
        when=lambda state: state.roots > 5,
        reason=lambda state: f"{state.roots} roots are too many",
    )
    graph = Graph(id="g", version="1", state_type=State, nodes=NODES, start=Optimize, guards=[guard])
    recorder = MemoryRecorder()
    assert walk(graph, State(), router=NoRouter(), recorder=recorder).ok
    assert routes_of(recorder)[0]["vetoes"]["Excite"] == "counting: 10 roots are too many"


def test_a_returned_successor_that_a_guard_forbids_stops_the_walk() -> None:
    class Hasty(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Verify | Finish:
            return Finish()

    guard = Guard(name="not yet", at=(Hasty,), removes=(Finish,), when=lambda state: True, reason="unverified")
    graph = Graph(id="g", version="1", state_type=State, nodes=[Hasty, *NODES[1:]], start=Hasty, guards=[guard])
    outcome = walk(graph, State())
    assert not outcome.ok
    assert "not yet: unverified" in outcome.message


def test_a_returned_successor_is_journalled_like_any_route() -> None:
    class Direct(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Excite | Finish:
            return Excite(roots=9)

    graph = Graph(id="g", version="1", state_type=State, nodes=[Direct, Excite, Finish], start=Direct)
    recorder = MemoryRecorder()
    walk(graph, State(), recorder=recorder, router=NoRouter())
    assert routes_of(recorder)[0]["by"] == "node"
    assert routes_of(recorder)[0]["parameters"] == {"roots": 9, "singlets": True}


# Fallbacks


def test_a_refused_answer_goes_back_with_its_errors() -> None:
    router = ScriptedRouter(
        {"successor": "Nowhere"},
        {"successor": "Excite", "parameters": {"roots": 500}},
        {"successor": "Excite", "parameters": {"roots": 5}},
    )
    outcome = walk(GRAPH, State(), router=router)
    assert outcome.ok
    assert outcome.output == "5 roots"
    assert router.questions[0].errors == ()
    assert "Nowhere" in router.questions[1].errors[0]
    assert "less than or equal to 200" in router.questions[2].errors[0]


def test_several_successors_and_no_valid_answer_end_safely_with_the_reason() -> None:
    router = ScriptedRouter({"successor": "Nowhere"})
    recorder = MemoryRecorder()
    state = State()
    outcome = walk(GRAPH, state, router=router, recorder=recorder)
    assert len(router.questions) == 4
    route = routes_of(recorder)[0]
    assert (route["successor"], route["by"], route["confidence"]) == ("Finish", "fallback", 0.0)
    assert "Nowhere" in route["reasoning"]
    assert state.stopped == route["reasoning"]
    assert outcome.ok
    assert "safe end" in outcome.output


def test_the_retry_limit_can_be_set() -> None:
    router = ScriptedRouter({"successor": "Nowhere"})
    walk(GRAPH, State(), router=router, limits=Limits(route_retries=0))
    assert len(router.questions) == 1


def test_several_successors_without_an_end_among_them_stop_the_walk() -> None:
    class Crossing(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Verify | Optimize:
            return await ctx.route()

    graph = Graph(id="g", version="1", state_type=State, nodes=[Crossing, *NODES], start=Crossing)
    recorder = MemoryRecorder()
    outcome = walk(graph, State(), router=ScriptedRouter({}), recorder=recorder)
    assert not outcome.ok
    assert outcome.kind == "refused"
    assert routes_of(recorder)[0]["successor"] is None
    assert routes_of(recorder)[0]["confidence"] == 0.0


def test_a_sole_successor_whose_open_parameters_never_come_stops_the_walk() -> None:
    class Only(Node[State, str]):
        async def run(self, ctx: Context[State]) -> Excite:
            return await ctx.route()

    graph = Graph(id="g", version="1", state_type=State, nodes=[Only, Excite, Finish], start=Only)
    outcome = walk(graph, State(), router=ScriptedRouter({"successor": "Excite"}))
    assert not outcome.ok
    assert "the sole successor Excite needs roots" in outcome.message


@pytest.mark.parametrize("error", [ConnectionError("the line is dead"), GraphStopped("the budget is spent")])
def test_a_router_that_is_down_loses_no_walk(error: Exception) -> None:
    router = ScriptedRouter(error)
    recorder = MemoryRecorder()
    assert walk(GRAPH, State(), router=router, recorder=recorder).ok
    assert len(router.questions) == 1
    assert str(error) in routes_of(recorder)[0]["reasoning"]


# Hard exits


def test_a_hard_exit_at_a_terminal_node_is_taken_whatever_the_router_says() -> None:
    recorder = MemoryRecorder()
    assert walk(GRAPH, State(exit="Finish", wanted="Excite"), router=NoRouter(), recorder=recorder).ok
    assert path_of(recorder) == ["Optimize", "Finish"]
    assert routes_of(recorder)[0]["by"] == "exit"


def test_a_hard_exit_at_a_node_ends_the_walk_after_it() -> None:
    recorder = MemoryRecorder()
    assert walk(GRAPH, State(exit="Verify", wanted="Verify"), recorder=recorder).ok
    assert path_of(recorder) == ["Optimize", "Verify", "Finish"]
    assert [route["by"] for route in routes_of(recorder)] == ["rule", "exit"]


def test_a_guard_holds_a_hard_exit_back_until_it_may_be_taken() -> None:
    recorder = MemoryRecorder()
    assert walk(GRAPH, State(exit="Optimize", verified=False), router=NoRouter(), recorder=recorder).ok
    assert path_of(recorder) == ["Optimize", "Verify", "Finish"]
    assert [route["by"] for route in routes_of(recorder)] == ["forced", "exit"]


def test_an_exit_that_is_no_node_is_bad_input() -> None:
    with pytest.raises(BadInput, match="'Nowhere' is no node of graph g"):
        walk(GRAPH, State(exit="Nowhere"))


# Decision nodes with output


class Verdict(Model):
    text: str = Field(min_length=1)


class Judge(Node[State, str]):
    """Judge the geometry and say what follows."""

    next_nodes: ClassVar[Any] = (Verify, Excite, Finish)

    async def run(self, ctx: Context[State]) -> Node[State, str]:
        decided = await ctx.decide(Verdict)
        ctx.state.intent = decided.output.text
        return decided.next


JUDGED = Graph(id="g", version="1", state_type=State, nodes=[Judge, Verify, Excite, Finish], start=Judge)


def test_output_and_route_come_in_one_answer() -> None:
    answer = {"output": {"text": "a minimum"}, "route": {"successor": "Excite", "parameters": {"roots": 8}}}
    router = ScriptedRouter(answer)
    recorder = MemoryRecorder()
    state = State()
    outcome = walk(JUDGED, state, router=router, recorder=recorder)
    assert outcome.ok
    assert outcome.output == "8 roots"
    assert state.intent == "a minimum"
    assert len(router.questions) == 1
    question = router.questions[0]
    assert question.task is not None
    assert question.task["title"] == "Verdict"
    assert set(question.schema_["required"]) == {"output", "route"}
    assert routes_of(recorder)[0]["output"] == {"text": "a minimum"}
    again = State()
    assert walk(JUDGED, again, router=NoRouter(), recorder=recorder).ok
    assert again.intent == "a minimum"


def test_an_envelope_with_a_bad_half_goes_back() -> None:
    router = ScriptedRouter(
        {"output": {"text": ""}, "route": {"successor": "Finish"}},
        {"output": {"text": "fine"}, "route": {"successor": "Judge"}},
        {"output": {"text": "fine"}, "route": {"successor": "Finish"}},
    )
    assert walk(JUDGED, State(), router=router).ok
    assert len(router.questions) == 3


def test_without_an_output_a_decision_node_stops_unless_it_has_a_default() -> None:
    outcome = walk(JUDGED, State(), router=ScriptedRouter({}))
    assert not outcome.ok
    assert "without a task output" in outcome.message

    class Sure(Node[State, str]):
        next_nodes: ClassVar[Any] = "Finish"

        async def run(self, ctx: Context[State]) -> Node[State, str]:
            decided = await ctx.decide(Verdict, default=Verdict(text="unknown"))
            ctx.state.intent = decided.output.text
            return decided.next

    graph = Graph(id="g", version="1", state_type=State, nodes=[Sure, Finish], start=Sure)
    recorder = MemoryRecorder()
    state = State()
    assert walk(graph, state, router=ScriptedRouter({}), recorder=recorder).ok
    assert state.intent == "unknown"
    route = routes_of(recorder)[0]
    assert (route["by"], route["confidence"]) == ("fallback", 0.1)
