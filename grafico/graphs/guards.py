"""Guards: deterministic vetoes on declared successors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grafico.graphs.node import AnyNode

__all__ = ["Guard", "vetoes"]


@dataclass(frozen=True)
class Guard:
    """Removes successors while the state forbids them; the reason is journalled.

    ``at`` limits it to walks standing at these nodes; empty means at every node.
    """

    name: str
    removes: Sequence[type[AnyNode]]
    when: Callable[[Any], bool]
    reason: str | Callable[[Any], str]
    """A text, or a function of the state that returns one."""
    at: Sequence[type[AnyNode]] = ()

    def applies_at(self, node: type[AnyNode]) -> bool:
        """Tell whether the guard looks at routes from ``node``."""
        return not self.at or node in self.at


def vetoes(guards: Sequence[Guard], state: Any, successors: Sequence[type[AnyNode]]) -> dict[str, str]:
    """Return the ids of successors that guards remove, each with its reasons."""
    removed: dict[str, str] = {}
    for guard in guards:
        hit = [cls.node_id for cls in guard.removes if cls in successors]
        if hit and guard.when(state):
            for node_id in hit:
                why = guard.reason if isinstance(guard.reason, str) else guard.reason(state)
                reason = f"{guard.name}: {why}"
                removed[node_id] = f"{removed[node_id]}; {reason}" if node_id in removed else reason
    return removed
