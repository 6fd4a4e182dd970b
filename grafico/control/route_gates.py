"""Gates on a model's route: small slips are corrected, filler and collapse are refused; the engine validates the rest.

Agents propose, deterministic code disposes (A 4B open-weights local model for agentic DFT workflows, §2.1).
"""

import math
from collections.abc import Mapping
from typing import Any

from grafico.calculations import Json
from grafico.control.answers import placeholders
from grafico.control.prompt import REASONING
from grafico.gates import Decision, Gate, Ruling
from grafico.graphs.protocols import RouteQuestion

__all__ = ["route_gates"]

Route = dict[str, Json]


def route_gates(question: RouteQuestion) -> tuple[Gate[Route], ...]:
    """Return the gates for the answer to a question, in order."""
    return (
        Gate("envelope", lambda value: _envelope(value, question)),
        Gate("successor", lambda value: _on_route(value, question, _successor)),
        Gate("collapsed parameters", lambda value: _on_route(value, question, _collapsed)),
        Gate("placeholder", _filler),
        Gate("reasoning", lambda value: _on_route(value, question, _reasoned)),
        Gate("confidence", lambda value: _on_route(value, question, _confidence)),
    )


def _envelope(value: Route, question: RouteQuestion) -> Decision[Route]:
    """A route alone may come wrapped in an object of one key."""
    name = "envelope"
    if question.task is None and "successor" not in value:
        inner = [part for part in value.values() if isinstance(part, Mapping) and "successor" in part]
        if len(inner) == 1:
            return Decision(Ruling.CORRECT, dict(inner[0]), name, "the route was wrapped in another object")
        return Decision(Ruling.REFUSE, value, name, "no successor is named")
    if question.task is not None and not isinstance(value.get("route"), Mapping):
        return Decision(Ruling.REFUSE, value, name, "expected an object with `output` and `route`")
    return Decision(Ruling.ACCEPT, value, name)


def _on_route(value: Route, question: RouteQuestion, gate: Any) -> Decision[Route]:
    """Apply a gate to the route, wherever it stands in the answer."""
    if question.task is None:
        decided: Decision[Route] = gate(value, question)
        return decided
    decision = gate(dict(value["route"]), question)
    return Decision(decision.ruling, {**value, "route": decision.value}, decision.gate, decision.reason)


def _successor(route: Route, question: RouteQuestion) -> Decision[Route]:
    """A name that differs from an admissible one in case, blanks and hyphens alone means that one."""
    name = "successor"
    known = [option.successor for option in question.options]
    given = route.get("successor")
    if given in known:
        return Decision(Ruling.ACCEPT, route, name)
    close = [one for one in known if _bare(one) == _bare(str(given))]
    if len(close) == 1:
        return Decision(Ruling.CORRECT, {**route, "successor": close[0]}, name, f"{given!r} means {close[0]!r}")
    if isinstance(given, str) and (why := question.vetoed.get(given)):
        return Decision(Ruling.REFUSE, route, name, f"{given} is forbidden now: {why}")
    return Decision(
        Ruling.REFUSE, route, name, f"{str(given)[:80]!r} is not admissible; choose one of {', '.join(known)}"
    )


def _collapsed(route: Route, question: RouteQuestion) -> Decision[Route]:
    """Parameters that are null or missing are none; an empty object where some are required says nothing."""
    name = "collapsed parameters"
    option = next(one for one in question.options if one.successor == route["successor"])
    given = route.get("parameters")
    required = list(option.parameters.get("required", ()))
    if required and not given:
        return Decision(
            Ruling.REFUSE, route, name, f"{option.successor} needs {', '.join(required)}, and no parameters came"
        )
    if given is None:
        return Decision(Ruling.CORRECT, {**route, "parameters": {}}, name, "no parameters are meant by null")
    if not isinstance(given, Mapping):
        return Decision(Ruling.REFUSE, route, name, f"parameters: expected an object, got {str(given)[:80]!r}")
    # A grammar that requires every field makes models write null for what they have nothing to say about.
    fields = option.parameters.get("properties", {})
    nulls = [key for key, value in given.items() if value is None and not _admits_null(fields.get(key, {}))]
    if nulls:
        kept = {key: value for key, value in given.items() if key not in nulls}
        return Decision(
            Ruling.CORRECT, {**route, "parameters": kept}, name, f"null was given for {', '.join(nulls)}: left out"
        )
    return Decision(Ruling.ACCEPT, route, name)


def _admits_null(about: Mapping[str, Json]) -> bool:
    return about.get("type") == "null" or any(_admits_null(member) for member in about.get("anyOf", ()))


def _filler(value: Route) -> Decision[Route]:
    found = [where for where in placeholders(value) if not where.endswith("reasoning")]
    if found:
        return Decision(Ruling.REFUSE, value, "placeholder", f"{', '.join(found)}: filler where a value is expected")
    if placeholders(value):
        return Decision(Ruling.FLAG, value, "placeholder", "the reasoning is filler")
    return Decision(Ruling.ACCEPT, value, "placeholder")


def _reasoned(route: Route, _: RouteQuestion) -> Decision[Route]:
    said = _bare(str(route.get("reasoning", "")))
    if said and said in {_bare(REASONING), _bare("string"), _bare("reasoning")}:
        return Decision(Ruling.CORRECT, {**route, "reasoning": ""}, "reasoning", "the form's own words were copied")
    return Decision(Ruling.ACCEPT, route, "reasoning")


def _confidence(route: Route, _: RouteQuestion) -> Decision[Route]:
    name = "confidence"
    given = route.get("confidence", 1.0)
    number = given
    if isinstance(given, str):
        try:
            number = float(given.strip().rstrip("%")) / (100 if given.strip().endswith("%") else 1)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        return Decision(
            Ruling.CORRECT, {**route, "confidence": 0.0}, name, f"{str(given)[:40]!r} is no number: 0 counts"
        )
    if 1 < number <= 100:
        number /= 100
    if number != given or not 0 <= number <= 1:
        number = min(1.0, max(0.0, number))
        return Decision(Ruling.CORRECT, {**route, "confidence": number}, name, f"{str(given)[:40]} means {number:g}")
    return Decision(Ruling.ACCEPT, route, name)


def _bare(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
