"""Tickets: what one attempt at a calculation is called on a cluster, for Dask and for people."""

import hashlib
import re
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from grafico.calculations import CalculationTask

__all__ = ["Attempt", "attempt_of", "run_id", "run_of", "ticket_name"]

KEY_LETTERS = 16
PATTERN = re.compile(r"-([0-9a-f]{1,64})\.(\d+)\.\d+[0-9a-f]{4}-([0-9a-f]{8})$")

SESSION = secrets.token_hex(2)
"""Tells this controller's tickets from those of an earlier one of the same run."""


class Attempt(NamedTuple):
    """What a ticket is about."""

    key: str
    """Beginning of the content key."""
    number: int

    @classmethod
    def at(cls, task: CalculationTask) -> "Attempt":
        """Return that of a task."""
        return cls(task.key[:KEY_LETTERS], task.attempt)


def run_id(root: Path) -> str:
    """Return by what a run is known on a cluster."""
    return hashlib.sha256(str(root).encode()).hexdigest()[:8]


def ticket_name(task: CalculationTask, run: str, sent: int) -> str:
    """Return the Dask key of a task: what people read first, then what makes it unique.

    Dask groups keys by what stands before the first word that is not made of letters: the calculation's name.
    """
    kind, _, rest = (task.label or task.name).partition(" · ")
    kind = "".join(c if c.isalnum() else "_" for c in kind).strip("_") or "calculation"
    people = f"· {rest.replace('-', '_')}-" if rest else ""
    return f"{kind}-{people}{task.key[:KEY_LETTERS]}.{task.attempt}.{sent}{SESSION}-{run}"


def run_of(ticket: Any) -> str:
    """Return which run a ticket belongs to; empty if it is none of ours."""
    match = PATTERN.search(str(ticket))
    return match[3] if match else ""


def attempt_of(ticket: str) -> Attempt | None:
    """Return what a ticket is about; ``None`` if it is none of ours."""
    match = PATTERN.search(ticket)
    return Attempt(match[1], int(match[2])) if match else None
