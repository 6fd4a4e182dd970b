"""Joins: what a fold of lanes needs, and the list of failed lanes when it has too few."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from grafico.calculations import Failure, Outcome, Success
from grafico.graphs.failures import JoinFailed

__all__ = ["failures", "need_all", "need_any", "need_at_least"]

OutputT = TypeVar("OutputT", bound=BaseModel)


def failures(outcomes: "Mapping[str, Outcome[OutputT]]") -> dict[str, Failure]:
    """Return the failed lanes, in the order of ``outcomes``."""
    return {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, Failure)}


def need_all(outcomes: "Mapping[str, Outcome[OutputT]]") -> dict[str, OutputT]:
    """Return all outputs, in the order of ``outcomes``.

    Raises
    ------
    JoinFailed
        A lane failed.
    """
    return _need(outcomes, len(outcomes), f"all of {len(outcomes)} lanes")


def need_at_least(outcomes: "Mapping[str, Outcome[OutputT]]", count: int) -> dict[str, OutputT]:
    """Return the outputs of the lanes that succeeded, at least ``count`` of them.

    Raises
    ------
    JoinFailed
        Fewer succeeded.
    """
    return _need(outcomes, count, f"at least {count} lane{'' if count == 1 else 's'}")


def need_any(outcomes: "Mapping[str, Outcome[OutputT]]") -> dict[str, OutputT]:
    """Return the outputs of the lanes that succeeded, at least one.

    Raises
    ------
    JoinFailed
        No lane succeeded.
    """
    return _need(outcomes, 1, "any lane")


def _need(outcomes: "Mapping[str, Outcome[OutputT]]", count: int, need: str) -> dict[str, OutputT]:
    outputs = {key: outcome.output for key, outcome in outcomes.items() if isinstance(outcome, Success)}
    if len(outputs) < count:
        raise JoinFailed(need, failures(outcomes), len(outcomes))
    return outputs
