"""The rule router: what the graph suggests, or the only way; else it says that it cannot."""

import asyncio

import pytest

from grafico.control import RuleRouter
from grafico.errors import GraphStopped
from grafico.graphs import RouteOption, RouteProposal, RouteQuestion


def question(**more: object) -> RouteQuestion:
    options = (RouteOption(successor="TDDFT"), RouteOption(successor="End"))
    return RouteQuestion.model_validate({"graph": "g", "node": "SinglePoint", "options": options, **more})


def test_a_suggestion_is_taken_with_its_parameters() -> None:
    suggestion = RouteProposal(successor="TDDFT", parameters={"roots": 5}, reasoning="asked for")
    answer = asyncio.run(RuleRouter().choose(question(suggestion=suggestion)))
    assert answer == {"successor": "TDDFT", "parameters": {"roots": 5}, "reasoning": "asked for", "confidence": 1.0}


def test_the_only_option_needs_no_suggestion() -> None:
    answer = asyncio.run(RuleRouter().choose(question(options=(RouteOption(successor="End"),))))
    assert answer["successor"] == "End"


def test_several_options_without_a_suggestion_are_refused_clearly() -> None:
    with pytest.raises(GraphStopped) as caught:
        asyncio.run(RuleRouter().choose(question(vetoed={"Analysis": "unverified"})))
    assert "which successor of node SinglePoint to take (TDDFT, End; Analysis is forbidden (unverified))" in str(
        caught.value
    )
    assert "SinglePoint.rule()" in (caught.value.hint or "")


def test_a_task_output_is_beyond_a_rule() -> None:
    with pytest.raises(GraphStopped, match="task output"):
        asyncio.run(RuleRouter().choose(question(task={"type": "object"})))
