"""Which language model is asked, how, and what it may spend."""

import os
import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from grafico.calculations import Json, Model

__all__ = ["Budget", "ModelSettings", "Prices", "host_of"]

SECRET = re.compile(r"key|token|secret|password|authorization|credential", re.IGNORECASE)


class Prices(Model):
    """What tokens cost, US dollars a million."""

    prompt: float = Field(ge=0, description="US dollars for a million prompt tokens")
    completion: float = Field(ge=0, description="US dollars for a million completion tokens, reasoning included")
    cache_read: float | None = Field(default=None, ge=0, description="for a million cached ones; default: as prompt")
    cache_write: float | None = Field(default=None, ge=0, description="for a million written to the cache")


class Budget(Model):
    """What a run may spend; when it is spent, the run asks no more and goes on by rules."""

    tokens: int | None = Field(default=None, ge=1, description="prompt and completion tokens together")
    cost_usd: float | None = Field(default=None, gt=0, description="US dollars")
    requests: int | None = Field(default=None, ge=1, description="calls, tries that failed included")


class ModelSettings(Model):
    """A language model by name, as litellm knows it, or behind an OpenAI-compatible server."""

    model: str = Field(
        min_length=1,
        max_length=200,
        description="litellm's name, as in anthropic/NAME, ollama_chat/NAME, or openai/NAME with api_base",
    )
    api_base: str | None = Field(
        default=None, description="address of a local or other server, as in http://127.0.0.1:8080/v1"
    )
    key_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="environment variable that holds the key; default: the one that litellm knows for the provider",
    )
    structured: Literal["schema", "tool", "prompt"] = Field(
        default="schema",
        description="how JSON is forced: response_format with a schema or grammar, a tool call, or only asked for",
    )
    temperature: float = Field(default=0.0, ge=0, le=2, description="0: greedy decoding")
    max_tokens: int = Field(default=512, ge=16, le=32_768, description="of one answer")
    timeout_s: float = Field(default=60.0, gt=0, le=3600, description="seconds for one call")
    tries: int = Field(default=4, ge=1, le=10, description="calls at most, where network or server fail")
    patience_s: float = Field(default=180.0, gt=0, description="seconds for all tries of one question together")
    corrections: int = Field(default=2, ge=0, le=10, description="times that an unreadable answer goes back")
    context: int | None = Field(default=None, ge=256, description="context window to ask the server for, tokens")
    context_parameter: str | None = Field(
        default=None, description="name under which the server takes it; default: num_ctx for Ollama"
    )
    largest_context: int = Field(default=32_768, ge=256, description="to which it may grow when a prompt was cut")
    extra: Mapping[str, Json] = Field(default_factory=dict, description="further parameters of the call; never keys")
    prices: Prices | None = Field(default=None, description="default: litellm's price map; none for local servers")
    budget: Budget = Field(default_factory=Budget)

    @field_validator("api_base")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", value):
            raise ValueError("expected http://HOST[:PORT]/PATH without user, password or query")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _no_secrets(self) -> "ModelSettings":
        for name in self.extra:
            if SECRET.search(name) and name != "max_tokens":
                raise ValueError(f"extra: {name!r} looks like a secret; keys come from the environment (key_variable)")
        if self.structured == "tool" and "tools" in self.extra:
            raise ValueError("extra: tools are set by grafico where structured is `tool`")
        return self

    @property
    def local(self) -> bool:
        """Whether the server is on this machine."""
        return host_of(self.api_base) in {"127.0.0.1", "localhost", "[::1]"}

    @property
    def ollama(self) -> bool:
        """Whether Ollama's own interface is spoken."""
        return self.model.startswith(("ollama/", "ollama_chat/"))

    def key(self) -> str | None:
        """Return the key from the environment; a server of one's own gets a placeholder, since clients insist on one.

        Never stored, never printed.
        """
        if self.key_variable is not None:
            return os.environ.get(self.key_variable) or "none"
        return "none" if self.api_base is not None and not self.ollama else None


def host_of(address: str | None) -> str:
    """Return the host of an address, for records: no path, no port."""
    if not address:
        return ""
    host = re.sub(r"^https?://", "", address).partition("/")[0]
    return host if host.startswith("[") and host.endswith("]") else host.rpartition(":")[0] or host
