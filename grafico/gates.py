"""What a gate is: deterministic code that disposes of what somebody else proposes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

__all__ = ["Decision", "Gate", "Ruling", "apply_gates"]

ValueT = TypeVar("ValueT")


class Ruling(StrEnum):
    """What a gate made of a proposal."""

    ACCEPT = "accept"
    CORRECT = "correct"
    FLAG = "flag"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Decision(Generic[ValueT]):
    """The ruling of one gate (or of a chain), the value that stands, and why."""

    ruling: Ruling
    value: ValueT
    gate: str
    reason: str = ""


@dataclass(frozen=True)
class Gate(Generic[ValueT]):
    """A named, deterministic check of a proposal."""

    name: str
    check: Callable[[ValueT], Decision[ValueT]]


def apply_gates(gates: Sequence[Gate[ValueT]], proposal: ValueT) -> tuple[ValueT, list[Decision[ValueT]]]:
    """Pass a proposal through gates in order; a refusal ends the chain.

    Returns
    -------
    tuple
        The value that stands, and every decision made on the way.
    """
    decisions: list[Decision[ValueT]] = []
    value = proposal
    for gate in gates:
        decision = gate.check(value)
        decisions.append(decision)
        if decision.ruling is Ruling.REFUSE:
            break
        value = decision.value
    return value, decisions
