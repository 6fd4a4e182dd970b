"""Asking a language model for a JSON object, through litellm: tries, corrections, cut prompts, budget, ledger."""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grafico.calculations import Json
from grafico.control.answers import read_object
from grafico.control.ledger import Call, Ledger, Tokens, split, utc_now
from grafico.control.prompt import Message, corrections
from grafico.control.provider import Connections, litellm_here, load_litellm, passing, remedy, scrub, wait_for
from grafico.control.residency import Facts, facts_of
from grafico.control.responses import Heard, heard_of, readable, tokens_of
from grafico.control.schemas import for_decoding
from grafico.control.settings import ModelSettings, host_of
from grafico.errors import BadAnswer, MissingExtra, ModelUnavailable, PromptTruncated

__all__ = ["ModelClient"]

CUT_SHARE = 0.6
"""A server that counts less than this share of our own count has read a part of the prompt only."""
SHORT_PROMPT = 200
"""Tokens under which counts of different tokenizers differ too much to tell."""
SPARE_S = 5.0
"""After its time-out a call is given so long to say so itself."""
ECHO = 2000
"""Characters of a refused answer that are sent back."""
TOOL = "answer"
CONNECTIONS = Connections()


@dataclass(slots=True)
class Asked:
    """A question on its way: what is needed to write its calls down."""

    purpose: str
    lane: str
    where: str
    schema: Mapping[str, Json]
    messages: list[Message]
    first: int
    """Messages of the question itself; what follows repairs an answer."""
    seen: int = 0
    """Messages that were sent before."""
    calls: int = 0
    deadline: float = field(default_factory=time.monotonic)


class ModelClient:
    """A language model, asked for JSON objects.

    Parameters
    ----------
    settings
        Which one, and how.
    ledger
        Where each call is written down, and what says whether there may be another.
    sleep, jitter
        For waiting between tries; tests bring their own.
    """

    def __init__(
        self,
        settings: ModelSettings,
        ledger: Ledger,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings
        self.ledger = ledger
        self.notes: list[str] = []
        """What people should know, such as a model that is only partly on the GPU."""
        self._sleep = sleep
        self._jitter = jitter
        self._context = settings.context
        self._structured = settings.structured
        self._facts: Facts | None = None
        self._connected = False

    async def ask(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Json],
        *,
        purpose: str,
        lane: str = "",
        where: str = "",
        repaired: bool = False,
    ) -> dict[str, Json]:
        """Return the JSON object that the model answers; its content is the caller's to validate.

        Parameters
        ----------
        messages
            The conversation, system prompt first.
        schema
            JSON Schema of the object.
        purpose, lane, where
            For the ledger.
        repaired
            The last message says why an earlier answer was refused.

        Raises
        ------
        ModelUnavailable
            No answer came in all tries, or the server refuses the request.
        PromptTruncated
            The server reads only a part of the prompt.
        BadAnswer
            Answers came, and none is a JSON object.
        BudgetSpent
            The budget allows no further call.
        """
        asked = Asked(purpose, lane, where, schema, list(messages), len(messages) - repaired)
        asked.seen = asked.first if repaired else 0
        asked.deadline = time.monotonic() + self.settings.patience_s
        for left in reversed(range(1 + self.settings.corrections)):
            heard = await self._heard(asked)
            asked.seen = len(asked.messages)
            try:
                return read_object(heard.text, cut=heard.cut)
            except BadAnswer as error:
                if not left:
                    raise
                shown = heard.text[:ECHO] or "(nothing)"
                asked.messages += [{"role": "assistant", "content": shown}, *corrections([error.message])]
        raise AssertionError

    async def close(self) -> None:
        """Close connections, unless another client in this process uses them."""
        if self._connected:
            self._connected = False
            await CONNECTIONS.leave()

    async def _heard(self, asked: Asked) -> Heard:
        """Return an answer to the whole prompt; a larger context is tried where the server takes one."""
        while True:
            heard = await self._tried(asked)
            ours = await self._count(asked.messages)
            if ours < SHORT_PROMPT or not heard.prompt_tokens or heard.prompt_tokens >= CUT_SHARE * ours:
                return heard
            wider = self._wider(ours)
            if wider is None:
                name = self.settings.model
                raise PromptTruncated(
                    f"{name} read {heard.prompt_tokens} tokens of a prompt of about {ours}: it was cut",
                    hint="start the server with a larger context window, or set context and context_parameter",
                )
            self._context = wider

    def _wider(self, ours: int) -> int | None:
        """Return a context window in which the prompt has room, ``None`` if there is none to ask for."""
        settings = self.settings
        if not (settings.ollama or settings.context_parameter):
            return None
        wanted = 2 * max(self._context or 2048, ours + settings.max_tokens)
        wanted = min(wanted, settings.largest_context)
        return wanted if wanted > (self._context or 0) else None

    async def _tried(self, asked: Asked) -> Heard:
        """Return an answer; network and server may fail a few times."""
        why = ""
        for number in range(1, 1 + self.settings.tries):
            self.ledger.check()
            started = time.monotonic()
            asked.calls += 1
            left = asked.deadline - started
            if left <= 0:
                raise ModelUnavailable(
                    f"{self.settings.model} gave no answer in {self.settings.patience_s:g} s ({why or 'it was busy'})"
                )
            limit = min(self.settings.timeout_s, left)
            with self.ledger.asking():
                try:
                    response = await asyncio.wait_for(self._send(asked.messages, asked.schema, limit), limit + SPARE_S)
                except (asyncio.CancelledError, MissingExtra):
                    raise
                except Exception as error:  # noqa: BLE001 - litellm raises what its providers' libraries do
                    litellm = await load_litellm()
                    why = self._said(error)
                    again = self._adapt(error) or passing(error, litellm)
                    self._write(asked, None, "failed", why, time.monotonic() - started)
                    if not again:
                        raise ModelUnavailable(
                            f"{self.settings.model} refuses the request: {why}", hint=remedy(error)
                        ) from None
                    wait = wait_for(error, number, self._jitter())
                else:
                    heard = heard_of(response)
                    usable = readable(heard)
                    await self._learn()
                    self._write(asked, response, "ok" if usable else "unreadable", "", time.monotonic() - started)
                    return heard
            if number == self.settings.tries or time.monotonic() + wait >= asked.deadline:
                break
            await self._sleep(wait)
        raise ModelUnavailable(f"{self.settings.model} gave no answer in {number} tries: {why}")

    async def _send(self, messages: Sequence[Message], schema: Mapping[str, Json], limit: float) -> Any:
        settings = self.settings
        litellm = await load_litellm()
        if not self._connected:
            self._connected = True
            CONNECTIONS.enter()
        given: dict[str, Any] = {
            "model": settings.model,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "timeout": limit,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "api_base": settings.api_base,
            "api_key": settings.key(),
        }
        if settings.api_base is not None and not settings.ollama:
            given["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
        decoding = for_decoding(schema)
        if self._structured == "schema":
            given["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": TOOL, "schema": decoding, "strict": False},
            }
        elif self._structured == "tool":
            function = {"name": TOOL, "description": "Give the answer.", "parameters": decoding}
            given["tools"] = [{"type": "function", "function": function}]
            given["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
        if self._context is not None and (settings.ollama or settings.context_parameter):
            given[settings.context_parameter or "num_ctx"] = self._context
        given |= dict(settings.extra)
        return await litellm.acompletion(**given)

    def _adapt(self, error: Exception) -> bool:
        """Ask in a plainer way when a server does not know how to force a form; return whether that helps."""
        text = str(error).lower()
        unknown = type(error).__name__ in {"BadRequestError", "UnsupportedParamsError"}
        if unknown and self._structured != "prompt" and re.search(r"response_format|json_schema|grammar|tool", text):
            self.notes.append(f"{self.settings.model} does not force JSON this way; it is only asked for it")
            self._structured = "prompt"
            return True
        return False

    async def _count(self, messages: Sequence[Message]) -> int:
        litellm = await load_litellm()
        return int(await asyncio.to_thread(litellm.token_counter, model=self.settings.model, messages=list(messages)))

    async def _learn(self) -> None:
        """Ask a server of one's own, once, how it holds the model."""
        if self._facts is None:
            self._facts = await facts_of(self.settings)
            self.notes += self._facts.warnings

    def _said(self, error: Exception) -> str:
        text = " ".join(str(error).split())[:400] or type(error).__name__
        return scrub(text, self.settings.key())

    def _write(self, asked: Asked, response: Any, status: str, error: str, seconds: float) -> None:
        tokens = tokens_of(response)
        settings, facts = self.settings, self._facts
        self.ledger.add(
            Call(
                time=utc_now(),
                purpose=asked.purpose,
                model=settings.model,
                host=host_of(settings.api_base),
                lane=asked.lane,
                where=asked.where,
                attempt=asked.calls,
                status=status,
                error=error,
                tokens=tokens,
                parts=split(tokens, _sizes(asked), retry=len(asked.messages) > asked.first),
                context=self._context or (facts.context if facts else None),
                cost_usd=self._cost(response, tokens),
                seconds=round(seconds, 3),
                server=facts.told if facts else {},
            )
        )

    def _cost(self, response: Any, tokens: Tokens) -> float | None:
        prices = self.settings.prices
        if prices is not None:
            fresh = max(0, tokens.prompt - tokens.cache_read - tokens.cache_write)
            read = prices.prompt if prices.cache_read is None else prices.cache_read
            write = prices.prompt if prices.cache_write is None else prices.cache_write
            spent = fresh * prices.prompt + tokens.cache_read * read + tokens.cache_write * write
            return (spent + tokens.completion * prices.completion) / 1e6
        if self.settings.local or self.settings.ollama:
            return 0.0
        if response is None:
            return None
        litellm = litellm_here()
        with contextlib.suppress(Exception):
            cost: float = litellm.completion_cost(completion_response=response, model=self.settings.model)
            return cost
        return None


def _sizes(asked: Asked) -> dict[str, int]:
    """Return the characters of a prompt by role."""
    sizes: dict[str, int] = {"base": 0, "normal": 0, "retry": 0, "carryover": 0, "tool_results": 0}
    for number, message in enumerate(asked.messages):
        size = len(message["content"])
        if message["role"] == "system":
            sizes["base"] += size
        elif number < asked.seen:
            sizes["carryover"] += size
        elif message["role"] == "tool":
            sizes["tool_results"] += size
        else:
            sizes["retry" if number >= asked.first else "normal"] += size
    return sizes
