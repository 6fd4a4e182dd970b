"""litellm, and what its providers' errors mean: passing or not, how long to wait, what to do."""

import asyncio
import contextlib
import logging
import os
import re
import threading
import warnings
from typing import Any

from grafico.errors import MissingExtra

__all__ = ["Connections", "litellm_here", "load_litellm", "passing", "remedy", "scrub", "wait_for"]

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
BEARER = re.compile(r"(Bearer\s+|[?&](?:api[-_]?key|key|token)=)[^\s\"'&]+", re.IGNORECASE)
KEYLIKE = re.compile(r"\b(?:sk|pk|rk|key|gsk|hf|xai|ghp|AIza)[-_]?[A-Za-z0-9_\-]{16,}")


def scrub(text: str, *secrets: str | None) -> str:
    """Return a text without keys: those that are known, and whatever looks like one."""
    for secret in secrets:
        if secret and len(secret) >= 6:
            text = text.replace(secret, "***")
    return KEYLIKE.sub("***", BEARER.sub(r"\1***", text))


async def load_litellm() -> Any:
    """Import litellm, which takes seconds, off the event loop; it must not look for prices on the network."""
    return await asyncio.to_thread(litellm_here)


def litellm_here() -> Any:
    """Import litellm, quiet and without telemetry.

    Raises
    ------
    MissingExtra
        It is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        raise MissingExtra(
            f"asking a language model needs litellm, which is not installed ({error})",
            hint='pip install "grafico[llm]"',
        ) from None
    if not litellm.suppress_debug_info:
        # Its models warn of themselves, some of them only when they are first used.
        warnings.filterwarnings("ignore", message=".* is using the `ReadOnly` qualifier", category=UserWarning)
        warnings.filterwarnings("ignore", message=".* are using the `ReadOnly` qualifier", category=UserWarning)
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        litellm.turn_off_message_logging = True
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


class Connections:
    """litellm's connections, which all clients of this process share: the last one to leave closes them.

    Closed ones are also forgotten, or the next client would be handed them.
    """

    def __init__(self) -> None:
        self._users = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Say that a client is going to ask."""
        with self._lock:
            self._users += 1

    async def leave(self) -> None:
        """Say that a client will ask no more."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            litellm = await load_litellm()
            with contextlib.suppress(Exception):
                await litellm.close_litellm_async_clients()
            with contextlib.suppress(Exception):
                litellm.in_memory_llm_clients_cache.flush_cache()


def passing(error: Exception, litellm: Any) -> bool:
    """Return whether an error may be gone a moment later."""
    if isinstance(error, TimeoutError):
        return True
    if isinstance(error, (litellm.AuthenticationError, litellm.BadRequestError, litellm.NotFoundError)):
        return False
    kinds = (
        litellm.Timeout, litellm.RateLimitError, litellm.APIConnectionError,
        litellm.ServiceUnavailableError, litellm.InternalServerError,
    )  # fmt: skip
    if isinstance(error, kinds):
        return True
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and (status >= 500 or status in {408, 409, 425, 429})


def wait_for(error: Exception, number: int, jitter: float) -> float:
    """Return the seconds to wait: what the server says, else twice as long each time, with jitter."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except (TypeError, ValueError):
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (number - 1)) * (0.5 + jitter)


def remedy(error: Exception) -> str | None:
    """Return what to do about a request that was refused."""
    name = type(error).__name__
    if name in {"AuthenticationError", "PermissionDeniedError"}:
        return "set the provider's key in the environment, or name its variable as key_variable"
    if name == "NotFoundError":
        return "check the model's name and api_base"
    if name == "ContextWindowExceededError":
        return "choose a model with a larger context window"
    return None
