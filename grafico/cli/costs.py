"""`grafico show RUN --cost`: what asking language models took, as tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grafico.cli.tables import print_lines, show_table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_cost"]

COLUMNS = ("", "calls", "failed", "prompt", "cached", "completion", "retry", "carryover", "US dollars", "seconds")
GROUPS = {"by_purpose": "purpose", "by_model": "model", "by_lane": "lane"}
MANY = 30
"""Rows beyond which a table leaves the rest to --json; those that took most tokens come first."""


def print_cost(cost: Mapping[str, Any], console: "Console") -> None:
    """Print what was asked and what it took: in all, and by purpose, model and lane."""
    everything = cost["total"]
    for group, title in GROUPS.items():
        found = sorted(cost[group].items(), key=lambda item: -_tokens(item[1]))
        rows = [_row(name or "root", totals) for name, totals in found[:MANY]]
        if len(found) > 1 and group == "by_purpose":
            rows.append(_row("all", everything))
        left = f", the {MANY} of {len(found)} that took most" if len(found) > MANY else ""
        show_table(console, f"by {title}{left}", COLUMNS, rows, expendable=("cached", "seconds"))
    print_lines(console, _remarks(everything))


def _tokens(totals: Mapping[str, Any]) -> int:
    return int(totals["tokens"]["prompt"] + totals["tokens"]["completion"])


def _row(name: str, totals: Mapping[str, Any]) -> tuple[Any, ...]:
    tokens = totals["tokens"]
    unpriced = totals["unpriced"]
    cost = f"{totals['cost_usd']:.4f}" if totals["cost_usd"] or not unpriced else ""
    if unpriced:
        cost = f"{cost} + {unpriced} unpriced".removeprefix(" + ")
    return (
        name,
        totals["calls"],
        totals["failed"],
        tokens["prompt"],
        tokens["cache_read"],
        tokens["completion"],
        f"{100 * totals['recovery_share']:.0f} %",
        f"{100 * totals['carryover_share']:.0f} %",
        cost,
        f"{totals['seconds']:.1f}",
    )


def _remarks(totals: Mapping[str, Any]) -> list[str]:
    parts = {name: count for name, count in totals["parts"].items() if count}
    said = ["tokens by role: " + ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in parts.items())]
    if totals["saturation"] is not None:
        said.append(f"the last call filled {100 * totals['saturation']:.0f} % of the context window")
    return said if parts else said[1:]
