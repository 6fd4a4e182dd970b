"""Gates at work, with a log: what was asked, what was proposed, which gate fired, what was applied."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from grafico.calculations import Json
from grafico.control.ledger import append_line, utc_now
from grafico.gates import Decision, Gate, Ruling, apply_gates

__all__ = ["AuditLog"]

ValueT = TypeVar("ValueT")


class AuditLog:
    """Every use of gates is a line.

    Parameters
    ----------
    path
        File of JSON lines that is appended to; ``None`` writes none.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.overrides: Counter[str] = Counter()
        """By agent, how often a gate corrected or refused what it had proposed."""
        self.flags: Counter[str] = Counter()
        self._lock = threading.Lock()

    def dispose(
        self,
        gates: Sequence[Gate[ValueT]],
        proposal: ValueT,
        *,
        agent: str,
        asked: str,
        lane: str = "",
        shown: Json = None,
    ) -> tuple[ValueT, list[Decision[ValueT]]]:
        """Pass a proposal through gates and log it.

        Parameters
        ----------
        gates, proposal
            As in :func:`grafico.gates.apply_gates`.
        agent
            Who proposed.
        asked
            What it was asked, in short.
        shown
            The proposal as JSON, where it is not JSON itself.
        """
        value, decisions = apply_gates(gates, proposal)
        refused = any(decision.ruling is Ruling.REFUSE for decision in decisions)
        with self._lock:
            for decision in decisions:
                self.overrides[agent] += decision.ruling in {Ruling.CORRECT, Ruling.REFUSE}
                self.flags[agent] += decision.ruling is Ruling.FLAG
            if self.path is not None:
                line: Mapping[str, Json] = {
                    "time": utc_now(),
                    "agent": agent,
                    "lane": lane,
                    "asked": asked,
                    "proposed": proposal if shown is None else shown,
                    "applied": None if refused else value if shown is None else _shown(value),
                    "fired": [
                        {"gate": d.gate, "ruling": d.ruling.value, "reason": d.reason}
                        for d in decisions
                        if d.ruling is not Ruling.ACCEPT
                    ],
                    "gates": [gate.name for gate in gates[: len(decisions)]],
                }
                append_line(self.path, line)
        return value, decisions


def _shown(value: object) -> Json:
    return value if isinstance(value, (dict, list, str, int, float, bool)) or value is None else repr(value)
