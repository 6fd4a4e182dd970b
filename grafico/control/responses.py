"""Reading a provider's response: the text, whether it was cut, and the tokens."""

from dataclasses import dataclass
from typing import Any

from grafico.control.answers import read_object
from grafico.control.ledger import Tokens
from grafico.errors import BadAnswer

__all__ = ["Heard", "heard_of", "readable", "tokens_of"]


@dataclass(slots=True)
class Heard:
    """One answer as it came."""

    text: str
    cut: bool
    prompt_tokens: int


def heard_of(response: Any) -> Heard:
    """Return the answer in a response; a tool call counts by its arguments."""
    choice = response.choices[0] if getattr(response, "choices", None) else None
    message = getattr(choice, "message", None)
    text = getattr(message, "content", None) or ""
    calls = getattr(message, "tool_calls", None) or []
    if calls:
        text = calls[0].function.arguments or ""
    cut = getattr(choice, "finish_reason", "") == "length"
    return Heard(text if isinstance(text, str) else "", cut, tokens_of(response).prompt)


def readable(heard: Heard) -> bool:
    """Return whether there is a JSON object in it."""
    try:
        read_object(heard.text, cut=heard.cut)
    except BadAnswer:
        return False
    return True


def tokens_of(response: Any) -> Tokens:
    """Return the tokens of a response, as far as the provider tells."""
    usage = getattr(response, "usage", None)
    if usage is None:
        return Tokens()
    inner = getattr(usage, "prompt_tokens_details", None)
    outer = getattr(usage, "completion_tokens_details", None)
    return Tokens(
        prompt=_number(usage, "prompt_tokens"),
        cache_read=_number(inner, "cached_tokens") or _number(usage, "cache_read_input_tokens"),
        cache_write=_number(usage, "cache_creation_input_tokens"),
        completion=_number(usage, "completion_tokens"),
        reasoning=_number(outer, "reasoning_tokens"),
    )


def _number(of: Any, name: str) -> int:
    value = getattr(of, name, None)
    return value if isinstance(value, int) and value > 0 else 0
