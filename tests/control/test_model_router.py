"""A language model that routes, against a server that does what servers do on bad days."""

import asyncio
import json

import pytest
from scripted_server import ScriptedServer, drops, fails, hangs, route, says

from grafico.control import AuditLog, Budget, ChainRouter, Ledger, ModelClient, ModelRouter, ModelSettings, RuleRouter
from grafico.errors import BadAnswer, BudgetSpent, GraphStopped, ModelUnavailable, PromptTruncated
from grafico.graphs import RouteOption, RouteProposal, RouteQuestion
from grafico.graphs.protocols import Answered

pytest.importorskip("litellm")

ROOTS = {
    "type": "object",
    "properties": {"roots": {"type": "integer", "minimum": 1, "maximum": 200, "default": 10, "description": "states"}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "successor": {"enum": ["TDDFT", "End"]},
        "parameters": {"type": "object"},
        "reasoning": {"type": "string", "maxLength": 500},
        "confidence": {"type": "number"},
    },
    "required": ["successor"],
}


def question(**more: object) -> RouteQuestion:
    options = (
        RouteOption(successor="TDDFT", description="Excited states.", parameters=ROOTS),
        RouteOption(successor="End", description="Nothing more."),
    )
    given = {"graph": "qc", "node": "SinglePoint", "lane": "2.0:a", "intent": "a spectrum", "options": options,
             "schema": SCHEMA, "summaries": ("SinglePoint: -114.2 Ha",), **more}  # fmt: skip
    return RouteQuestion.model_validate(given)


class Asked:
    """A router on a scripted server, and what it noted."""

    def __init__(self, server, tmp_path, **settings):
        tmp_path.mkdir(exist_ok=True)
        given = {"model": "openai/local", "api_base": server.base, "timeout_s": 5, "patience_s": 20, **settings}
        self.waits: list[float] = []
        self.ledger = Ledger(tmp_path / "ledger.jsonl", ModelSettings(**given).budget)

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        self.client = ModelClient(ModelSettings(**given), self.ledger, sleep=sleep, jitter=lambda: 0.5)
        self.audit_file = tmp_path / "audit.jsonl"
        self.audit = AuditLog(self.audit_file)
        self.router = ModelRouter(self.client, self.audit)

    def choose(self, asked: RouteQuestion | None = None, *, chain: bool = False):
        router = ChainRouter([self.router, RuleRouter()]) if chain else self.router

        async def run():
            try:
                return await router.choose(asked or question())
            finally:
                await self.client.close()

        return asyncio.run(run())

    @property
    def statuses(self) -> list[str]:
        return [call.status for call in self.ledger.calls]

    @property
    def audited(self) -> list[dict]:
        return [json.loads(line) for line in self.audit_file.read_text().splitlines()]


def test_a_good_answer_is_taken_and_written_down(tmp_path):
    with ScriptedServer(route("TDDFT", roots=5)) as server:
        asked = Asked(server, tmp_path)
        answer = asked.choose()
    assert answer == {"successor": "TDDFT", "parameters": {"roots": 5}, "reasoning": "why", "confidence": 0.8}
    assert isinstance(answer, Answered)
    assert answer.by == "model"
    (call,) = asked.ledger.calls
    assert (call.purpose, call.lane, call.where, call.status) == ("route", "2.0:a", "SinglePoint", "ok")
    assert call.tokens.prompt > 0
    assert call.parts.base + call.parts.normal == call.tokens.prompt + call.tokens.completion
    assert call.cost_usd == 0.0
    (line,) = asked.audited
    assert line["proposed"]["successor"] == "TDDFT"
    assert line["fired"] == []


def test_the_step_that_is_named_last_is_the_one_of_the_rules(tmp_path):
    suggestion = RouteProposal(successor="TDDFT", reasoning="the job asks for it")
    with ScriptedServer(route("TDDFT")) as server:
        Asked(server, tmp_path).choose(question(suggestion=suggestion, vetoed={"Removal": "nothing to remove"}))
        text = server.requests[0]["messages"][-1]["content"]
    last = max(("TDDFT", "End", "Removal"), key=text.rfind)
    assert last == "TDDFT"
    assert "The workflow's own rule would take: TDDFT" in text


def test_the_prompt_repeats_descriptions_and_the_schema_is_fit_for_a_grammar(tmp_path):
    with ScriptedServer(route("End")) as server:
        Asked(server, tmp_path).choose()
        (request,) = server.requests
    text = request["messages"][-1]["content"]
    assert "TDDFT: Excited states." in text
    assert "roots (integer, at least 1, at most 200, default 10): states" in text
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["successor", "reasoning"]
    assert "maxLength" not in json.dumps(schema)
    assert request["temperature"] == 0
    assert request["max_tokens"] == 512
    assert request["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    "first",
    [
        says("I think we are done here."),
        says(""),
        says("{}"),
        says('{"successor": "TDDFT", "parameters": {"ro', finish="length"),
        says("[1, 2]"),
        route("Optimization"),
        says('{"successor": "..."}'),
    ],
    ids=["prose", "nothing", "empty object", "cut off", "a list", "inadmissible", "filler"],
)
def test_what_is_no_answer_goes_back_and_the_next_counts(tmp_path, first):
    with ScriptedServer(first, route("End")) as server:
        asked = Asked(server, tmp_path)
        assert asked.choose()["successor"] == "End"
        assert len(server.requests) == 2
    assert "refused" in server.requests[1]["messages"][-1]["content"]
    assert asked.ledger.calls[-1].parts.retry > 0
    assert asked.ledger.calls[-1].parts.carryover > 0
    assert asked.ledger.totals()[""].recovery_share > 0


def test_prose_around_json_and_slips_are_corrected_and_logged(tmp_path):
    answer = 'Sure!\n```json\n{"successor": "td-dft", "parameters": {"roots": null}, "confidence": "90%"}\n```\nDone.'
    with ScriptedServer(says(answer)) as server:
        asked = Asked(server, tmp_path)
        assert asked.choose() == {"successor": "TDDFT", "parameters": {}, "confidence": 0.9}
    fired = {item["gate"]: item["ruling"] for item in asked.audited[0]["fired"]}
    assert fired == {"successor": "correct", "collapsed parameters": "correct", "confidence": "correct"}
    assert asked.audit.overrides["openai/local"] == 3


def test_an_endless_talker_is_a_bad_answer_after_the_corrections(tmp_path):
    with ScriptedServer(says("no JSON today")) as server:
        asked = Asked(server, tmp_path)
        with pytest.raises(BadAnswer, match="no JSON object"):
            asked.choose()
        assert len(server.requests) == 3
    assert asked.statuses == ["unreadable"] * 3


def test_retry_after_is_honored_and_then_all_is_well(tmp_path):
    with ScriptedServer(fails(429, headers={"Retry-After": "7"}), route("End")) as server:
        asked = Asked(server, tmp_path)
        assert asked.choose()["successor"] == "End"
    assert asked.waits == [7.0]


@pytest.mark.parametrize("step", [fails(500), fails(503), drops], ids=["500", "503", "dropped connection"])
def test_a_server_that_is_down_is_tried_a_bounded_number_of_times(tmp_path, step):
    with ScriptedServer(step) as server:
        asked = Asked(server, tmp_path, tries=3)
        with pytest.raises(ModelUnavailable, match="no answer in 3 tries"):
            asked.choose()
        assert len(server.requests) == 3
    assert asked.waits == [0.5, 1.0]


def test_a_hanging_server_is_left_after_its_time(tmp_path):
    with ScriptedServer(hangs) as server:
        asked = Asked(server, tmp_path, timeout_s=0.3, tries=2)
        with pytest.raises(ModelUnavailable):
            asked.choose()
        assert len(server.requests) == 2


def test_a_refused_key_is_not_tried_again_and_does_not_appear(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-verysecret-0123456789abcdef")
    with ScriptedServer(fails(401, message="wrong key sk-verysecret-0123456789abcdef")) as server:
        asked = Asked(server, tmp_path, key_variable="TEST_MODEL_KEY")
        with pytest.raises(ModelUnavailable) as caught:
            asked.choose()
        assert len(server.requests) == 1
        sent = {name.lower(): value for name, value in server.headers[0].items()}
        assert sent["authorization"] == "Bearer sk-verysecret-0123456789abcdef"
    said = str(caught.value) + str(caught.value.hint) + asked.ledger.path.read_text() + repr(asked.client.settings)
    assert "verysecret" not in said
    assert "key" in str(caught.value.hint)


def test_a_server_without_schemas_is_asked_plainly(tmp_path):
    with ScriptedServer(fails(400, message="response_format json_schema is not supported"), route("End")) as server:
        asked = Asked(server, tmp_path)
        assert asked.choose()["successor"] == "End"
        assert "response_format" not in server.requests[1]
    assert "only asked for it" in asked.client.notes[0]


def test_a_prompt_cut_at_the_head_is_found_by_its_count(tmp_path):
    long = question(summaries=tuple(f"Step {n}: energy {n * 1.37:.3f} hartree, converged" for n in range(40)))
    with ScriptedServer(says('{"successor": "End"}', prompt_tokens=120)) as server:
        asked = Asked(server, tmp_path)
        with pytest.raises(PromptTruncated, match="read 120 tokens"):
            asked.choose(long)


def test_a_cut_prompt_is_sent_again_with_a_larger_context_where_the_server_takes_one(tmp_path):
    long = question(summaries=tuple(f"Step {n}: energy {n * 1.37:.3f} hartree, converged" for n in range(40)))
    with ScriptedServer(says('{"successor": "TDDFT"}', prompt_tokens=120), route("End")) as server:
        asked = Asked(server, tmp_path, context=256, context_parameter="num_ctx")
        assert asked.choose(long)["successor"] == "End"
        assert server.requests[0]["num_ctx"] == 256
        assert server.requests[1]["num_ctx"] > 1000


def test_a_spent_budget_asks_no_more(tmp_path):
    with ScriptedServer(route("End")) as server:
        asked = Asked(server, tmp_path, budget=Budget(tokens=50))
        asked.choose()
        with pytest.raises(BudgetSpent, match="of a budget of 50"):
            asked.choose()
        assert len(server.requests) == 1
        # What an earlier controller spent counts as well.
        again = Asked(server, tmp_path, budget=Budget(tokens=50))
        with pytest.raises(BudgetSpent):
            again.choose()


def test_lanes_that_ask_at_the_same_time_do_not_spend_more_requests_than_there_are(tmp_path):
    with ScriptedServer(route("End")) as server:
        asked = Asked(server, tmp_path, budget=Budget(requests=2))

        async def several() -> list:
            try:
                return await asyncio.gather(
                    *(asked.router.choose(question()) for _ in range(5)), return_exceptions=True
                )
            finally:
                await asked.client.close()

        answers = asyncio.run(several())
        assert len(server.requests) == 2
        assert [type(answer) for answer in answers].count(BudgetSpent) == 3
        with pytest.raises(BudgetSpent, match="2 requests are made of a budget of 2"):
            asked.choose()


def test_rules_stand_in_for_a_model_that_is_down(tmp_path):
    ruled = question(suggestion=RouteProposal(successor="TDDFT", parameters={"roots": 3}, reasoning="asked for"))
    with ScriptedServer(fails(500)) as server:
        asked = Asked(server, tmp_path, tries=2)
        answer = asked.choose(ruled, chain=True)
        assert answer["successor"] == "TDDFT"
        assert answer.by == "stand-in"
        assert "no answer in 2 tries" in answer["reasoning"]
        with pytest.raises(GraphStopped, match=r"model: .*rule: "):
            asked.choose(question(), chain=True)


def test_rules_stand_in_for_a_model_that_insists_on_what_is_not_admissible(tmp_path):
    ruled = question(suggestion=RouteProposal(successor="TDDFT", reasoning="asked for"))
    with ScriptedServer(route("Teleportation")) as server:
        asked = Asked(server, tmp_path)
        answer = asked.choose(ruled, chain=True)
        assert len(server.requests) == 3
    assert (answer["successor"], answer.by) == ("TDDFT", "stand-in")
    assert "'Teleportation' is not admissible" in answer["reasoning"]


def test_rules_stand_in_where_the_engine_has_sent_answers_back_twice(tmp_path):
    def sent_back(*errors: str) -> RouteQuestion:
        return question(suggestion=RouteProposal(successor="TDDFT", reasoning="asked for"), errors=errors)

    wrong = "TDDFT.parameters.roots: Input should be less than or equal to 200"
    with ScriptedServer(route("TDDFT", roots=5000)) as server:
        asked = Asked(server, tmp_path)
        chain = ChainRouter([asked.router, RuleRouter()])

        async def run():
            answers = [await chain.choose(sent_back(*errors)) for errors in ((), (wrong,), (wrong,), ())]
            await asked.client.close()
            return answers

        answers = asyncio.run(run())
        assert len(server.requests) == 3
    assert [answer.by for answer in answers] == ["model", "model", "stand-in", "model"]
    assert answers[2]["parameters"] == {}


def test_a_model_that_stays_silent_is_left_alone_for_a_while_and_then_asked_again(tmp_path):
    ruled = question(suggestion=RouteProposal(successor="TDDFT", reasoning="asked for"))
    now = [0.0]
    with ScriptedServer(*[fails(503)] * 4, route("End")) as server:
        asked = Asked(server, tmp_path, tries=1)
        chain = ChainRouter([asked.router, RuleRouter()], clock=lambda: now[0])

        async def choose(times: int):
            return [await chain.choose(ruled) for _ in range(times)]

        async def run():
            first = await choose(10)
            assert len(server.requests) == 3
            now[0] = 31.0
            await choose(5)
            assert len(server.requests) == 4
            now[0] = 80.0
            await choose(5)
            assert len(server.requests) == 4
            now[0] = 92.0
            last = await choose(2)
            await asked.client.close()
            return first, last

        first, last = asyncio.run(run())
    assert {answer.by for answer in first} == {"stand-in"}
    assert "left alone for a while" in first[-1]["reasoning"]
    assert [answer.by for answer in last] == ["model", "model"]


def test_a_client_that_is_closed_leaves_the_others_and_those_to_come_their_connections(tmp_path):
    with ScriptedServer(route("End")) as server:
        one, two, three = (Asked(server, tmp_path / name, tries=1) for name in ("one", "two", "three"))

        async def run():
            for asked in (one, two):
                await asked.router.choose(question())
            await one.client.close()
            await two.router.choose(question())
            await two.client.close()
            await two.client.close()
            await three.router.choose(question())
            await three.client.close()

        asyncio.run(run())
    assert [len(asked.ledger.calls) for asked in (one, two, three)] == [1, 2, 1]


def test_prices_of_the_job_make_the_cost(tmp_path):
    with ScriptedServer(says('{"successor": "End"}', prompt_tokens=1_000)) as server:
        asked = Asked(server, tmp_path, prices={"prompt": 2.0, "completion": 10.0})
        asked.choose()
    (call,) = asked.ledger.calls
    assert call.cost_usd == pytest.approx(1_000 * 2e-6 + call.tokens.completion * 10e-6)
