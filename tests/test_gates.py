"""Gates: deterministic code disposes of what somebody else proposes."""

from hypothesis import given
from hypothesis import strategies as st

from grafico.gates import Decision, Gate, Ruling, apply_gates


def at_most(limit: int) -> Gate[int]:
    """A gate that corrects what is too large."""

    def check(value: int) -> Decision[int]:
        if value <= limit:
            return Decision(Ruling.ACCEPT, value, "limit")
        return Decision(Ruling.CORRECT, limit, "limit", f"at most {limit}")

    return Gate("limit", check)


def check_even(value: int) -> Decision[int]:
    return Decision(Ruling.ACCEPT if value % 2 == 0 else Ruling.REFUSE, value, "even", "must be even")


EVEN = Gate("even", check_even)


@given(st.integers(), st.lists(st.integers(), max_size=5))
def test_what_stands_has_passed_every_gate_whatever_was_proposed(proposal: int, limits: list[int]) -> None:
    value, decisions = apply_gates([at_most(limit) for limit in limits], proposal)
    assert value == min([proposal, *limits])
    assert len(decisions) == len(limits)


def test_a_refusal_ends_the_chain_and_is_the_last_decision() -> None:
    value, decisions = apply_gates([at_most(7), EVEN, at_most(3)], 9)
    assert value == 7
    assert [(d.gate, d.ruling) for d in decisions] == [("limit", Ruling.CORRECT), ("even", Ruling.REFUSE)]
    assert decisions[-1].reason == "must be even"


def test_without_gates_the_proposal_stands() -> None:
    assert apply_gates([], "as it is") == ("as it is", [])
