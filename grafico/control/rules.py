"""A router that needs no model: it takes what the graph's own rule suggests."""

from collections.abc import Mapping

from grafico.calculations import Json
from grafico.errors import GraphStopped
from grafico.graphs.protocols import RouteQuestion

__all__ = ["RuleRouter"]


class RuleRouter:
    """Routes by what the job asked for; the default where no model is configured."""

    name = "rule"

    async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
        """Return the graph's suggestion, or its sole option.

        Raises
        ------
        GraphStopped
            There are several options and no suggestion among them, or a task output is asked for.
        """
        if question.task is not None:
            raise GraphStopped(
                f"node {question.node} asks for a task output, which no rule can write",
                hint="configure a model router, or give ctx.decide a default",
            )
        suggestion = question.suggestion
        if suggestion is not None:
            return {
                "successor": suggestion.successor,
                "parameters": suggestion.parameters,
                "reasoning": suggestion.reasoning,
                "confidence": suggestion.confidence,
            }
        if len(question.options) == 1:
            return {"successor": question.options[0].successor, "reasoning": "the only admissible successor"}
        options = ", ".join(option.successor for option in question.options)
        vetoed = "".join(f"; {node} is forbidden ({reason})" for node, reason in question.vetoed.items())
        raise GraphStopped(
            f"no rule says which successor of node {question.node} to take ({options}{vetoed})",
            hint=f"let {question.node}.rule() return one, or configure a model router",
        )
