"""What asking models cost: one line a call, totals by whatever people ask for, and budgets.

The partition by role follows El Agente Gráfico (App. D.5, Fig. S7): what every call carries (*base*), its own question
and answer (*normal*), what repairing a refused answer took (*retry*), and what was sent again because it stood in the
conversation already (*carryover*); results of tools are counted apart.
"""

import contextlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from grafico.calculations import Json, Model
from grafico.control.settings import Budget
from grafico.errors import BudgetSpent

__all__ = ["Call", "Ledger", "Parts", "Tokens", "Totals", "read_calls", "split", "total", "totals"]


class Tokens(Model):
    """Tokens of one call, as the server counted them."""

    prompt: int = Field(default=0, ge=0, description="all of the prompt, cached parts included")
    cache_read: int = Field(default=0, ge=0)
    cache_write: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0, description="all that was written, reasoning included")
    reasoning: int = Field(default=0, ge=0)


class Parts(Model):
    """The same tokens by role; sums to prompt + completion."""

    base: int = Field(default=0, ge=0, description="system prompt, schemas and tools")
    tool_results: int = Field(default=0, ge=0)
    normal: int = Field(default=0, ge=0, description="question and answer")
    retry: int = Field(default=0, ge=0, description="repairing refused answers: what was sent for it, and the answer")
    carryover: int = Field(default=0, ge=0, description="sent again because it stood in the conversation")


class Call(Model):
    """One call of a model, whether an answer came or not."""

    time: str = Field(description="UTC, ISO 8601")
    purpose: str = Field(description="what it was for: route, ask, judge")
    model: str
    host: str = Field(default="", description="host of the server, where one was given")
    lane: str = ""
    where: str = Field(default="", description="node or tool that asked")
    attempt: int = Field(default=1, ge=1, description="try at the same question, corrections included")
    status: str = Field(description="ok, or the kind of failure")
    error: str = Field(default="", description="what was wrong, without keys")
    tokens: Tokens = Tokens()
    parts: Parts = Parts()
    context: int | None = Field(default=None, description="context window of the model, tokens, where known")
    cost_usd: float | None = Field(default=None, ge=0, description="null where no price is known")
    seconds: float = Field(default=0.0, ge=0)
    server: Mapping[str, Json] = Field(
        default_factory=dict, description="what a local server tells: precision of weights and cache, share on the GPU"
    )


class Totals(Model):
    """Sums over calls."""

    calls: int = 0
    failed: int = Field(default=0, description="calls without a usable answer")
    tokens: Tokens = Tokens()
    parts: Parts = Parts()
    cost_usd: float = 0.0
    unpriced: int = Field(default=0, description="calls whose price is not known")
    seconds: float = 0.0
    saturation: float | None = Field(default=None, description="share of the context window that the last call filled")
    recovery_share: float = Field(default=0.0, description="retry tokens over all tokens")
    carryover_share: float = Field(default=0.0, description="carryover tokens over all tokens")

    @property
    def all_tokens(self) -> int:
        """Prompt and completion together."""
        return self.tokens.prompt + self.tokens.completion


def total(calls: Iterable[Call]) -> Totals:
    """Return the sums over calls."""
    calls = list(calls)
    tokens = Tokens(**{name: sum(getattr(c.tokens, name) for c in calls) for name in Tokens.model_fields})
    parts = Parts(**{name: sum(getattr(c.parts, name) for c in calls) for name in Parts.model_fields})
    everything = tokens.prompt + tokens.completion
    last = next((c for c in reversed(calls) if c.context and c.tokens.prompt), None)
    return Totals(
        calls=len(calls),
        failed=sum(c.status != "ok" for c in calls),
        tokens=tokens,
        parts=parts,
        cost_usd=sum(c.cost_usd or 0.0 for c in calls),
        unpriced=sum(c.cost_usd is None and c.tokens.prompt + c.tokens.completion > 0 for c in calls),
        seconds=sum(c.seconds for c in calls),
        saturation=None if last is None or not last.context else last.tokens.prompt / last.context,
        recovery_share=parts.retry / everything if everything else 0.0,
        carryover_share=parts.carryover / everything if everything else 0.0,
    )


def totals(calls: Iterable[Call], by: str | None = None) -> dict[str, Totals]:
    """Return the sums over calls by a field of :class:`Call`, in the order in which its values came; else under ``""``."""
    groups: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        groups[str(getattr(call, by)) if by else ""].append(call)
    return {name: total(found) for name, found in groups.items()}


def split(tokens: Tokens, sizes: Mapping[str, int], *, retry: bool) -> Parts:
    """Share out the tokens of a call by role.

    Parameters
    ----------
    tokens
        As the server counted them.
    sizes
        Characters of the prompt by role (names of :class:`Parts`); the server counts only the whole.
    retry
        The call repairs a refused answer, so what it wrote counts as that.
    """
    known = {name: size for name, size in sizes.items() if size > 0}
    whole = sum(known.values())
    shares: dict[str, int] = defaultdict(int)
    for name, size in known.items():
        shares[name] = tokens.prompt * size // whole
    shares["retry" if retry else "normal"] += tokens.prompt - sum(shares.values()) + tokens.completion
    return Parts(**shares)


class Ledger:
    """Calls of a run; also asked whether there may be another.

    Parameters
    ----------
    path
        File of JSON lines that is appended to; ``None`` keeps them in memory. What an earlier controller of the run
        wrote counts towards the budget.
    budget
        What may be spent.
    """

    def __init__(self, path: Path | None = None, budget: Budget | None = None) -> None:
        self.path = path
        self.budget = budget or Budget()
        self._calls: list[Call] = list(read_calls(path)) if path is not None else []
        self._lock = threading.Lock()
        self._spent = [0, 0.0]
        self._under_way = 0
        for call in self._calls:
            self._count(call)

    @property
    def calls(self) -> Sequence[Call]:
        """All of them, oldest first."""
        return tuple(self._calls)

    def add(self, call: Call) -> None:
        """Write a call down."""
        with self._lock:
            self._calls.append(call)
            self._count(call)
            if self.path is not None:
                append_line(self.path, call.model_dump(mode="json", exclude_defaults=True))

    def _count(self, call: Call) -> None:
        self._spent[0] += call.tokens.prompt + call.tokens.completion
        self._spent[1] += call.cost_usd or 0.0

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Count a call that is under way and not written down yet: lanes ask side by side."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def check(self) -> None:
        """Check that another call may be made, beside those that are under way.

        Raises
        ------
        BudgetSpent
            Tokens, money or requests are used up; says which.
        """
        budget = self.budget
        used, cost = self._spent
        if budget.tokens is not None and used >= budget.tokens:
            raise BudgetSpent(f"{used} tokens are spent of a budget of {budget.tokens}")
        if budget.cost_usd is not None and cost >= budget.cost_usd:
            raise BudgetSpent(f"{cost:.4f} US dollars are spent of a budget of {budget.cost_usd:g}")
        made = len(self._calls) + self._under_way
        if budget.requests is not None and made >= budget.requests:
            raise BudgetSpent(f"{made} requests are made of a budget of {budget.requests}")

    def totals(self, by: str | None = None) -> dict[str, Totals]:
        """Return sums by a field of :class:`Call` (``lane``, ``purpose``, ``model``), or of all under ``""``."""
        return totals(self._calls, by)


def read_calls(path: Path) -> list[Call]:
    """Return the calls in a ledger file; a torn last line is passed over, as is what is no call."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    calls = []
    for line in lines:
        try:
            calls.append(Call.model_validate_json(line))
        except ValidationError:
            continue
    return calls


def append_line(path: Path, value: Mapping[str, Json]) -> None:
    """Append one JSON line to a file for the owner alone; a line that a kill has torn stays on a line of its own."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
        os.write(handle, (b"\n" if torn else b"") + json.dumps(value, ensure_ascii=False).encode() + b"\n")
    finally:
        os.close(handle)


def utc_now() -> str:
    """Return the time for a record."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
