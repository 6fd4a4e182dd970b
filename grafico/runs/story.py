"""The journal as a story: what happened in a lane, when, and why."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from grafico.calculations import Json
from grafico.runs.replay import member_of

__all__ = ["StoryEvent", "spot", "tell"]

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One thing that happened."""

    time: float
    """Seconds since the epoch."""
    at: str
    """Position, ``<lane>@<step>.<ordinal>``; empty for what concerns the whole run."""
    kind: str
    text: str
    counts: bool
    """False if it was superseded since."""
    data: Mapping[str, Json]

    @property
    def lines(self) -> list[str]:
        """The text in short lines: what guards forbade at a route stands by itself."""
        if self.kind != "route":
            return [self.text]
        text = route(self.data, told_vetoes=False)
        return [text, *(f"vetoed {name}: {short(why)}" for name, why in vetoes(self.data.get("vetoes")))]

    @property
    def when(self) -> str:
        """UTC, ISO 8601."""
        return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def __str__(self) -> str:
        return f"{self.when}  {self.text}{'' if self.counts else '  [superseded]'}"


def tell(kind: str, data: Data) -> str:
    """Return what an entry of a kind says, in a sentence."""
    teller = TELLERS.get(kind)
    if teller is not None:
        return teller(data)
    return f"{kind}: {listing(data)}" if data else kind


def listing(data: Data) -> str:
    """Return the values of a mapping in one line."""
    return ", ".join(f"{name} {short(value)}" for name, value in data.items() if value not in (None, "", [], {}))


def short(value: Any, most: int = 200) -> str:
    """Return a value in few characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def enter(data: Data) -> str:
    """Tell of a node that was entered."""
    given = listing(data.get("parameters") or {})
    text = f"entered {data.get('node')}" + (f" ({given})" if given else "")
    return f"{text}; its code has changed since" if data.get("changed") else text


def route(data: Data, *, told_vetoes: bool = True) -> str:
    """Tell of a route, with who chose it and why, and what guards forbade."""
    chosen = data.get("successor")
    text = f"routed to {chosen}" if chosen else "no successor"
    by = data.get("by", "nobody")
    if chosen:
        text += CHOSEN_BY.get(by, f" by {by}")
    if data.get("by") not in {"forced", "rule"}:
        text += f" (confidence {data.get('confidence', 1.0):g})"
    if data.get("reasoning"):
        text += f": {short(data['reasoning'])}"
    for name, why in vetoes(data.get("vetoes")) if told_vetoes else ():
        text += f"; {name} was vetoed: {short(why)}"
    return text


CHOSEN_BY = {
    "forced": ", the only way",
    "rule": ", as the rule says",
    "node": ", as the node says",
    "exit": ", as was asked",
}


def vetoes(given: Any) -> Iterable[tuple[str, str]]:
    """Return successor and reason of each veto, whether they are kept as a mapping or as a list."""
    if isinstance(given, Mapping):
        return [(str(name), str(why)) for name, why in given.items()]
    return [(str(v.get("successor", "")), str(v.get("reason", ""))) for v in given or () if isinstance(v, Mapping)]


def compute(data: Data) -> str:
    """Tell of a calculation's answer."""
    name = data.get("name")
    if data.get("status") == "success":
        return f"{name} {'was reused: committed before' if data.get('reused') else 'succeeded'}"
    return f"{name} failed: {failure(data)}"


def failure(data: Data) -> str:
    """Return kind and message of a failure."""
    found = data.get("failure") or {}
    attempts = len(found.get("history") or ())
    tried = f" after {attempts} attempts" if attempts > 1 else ""
    return f"{found.get('kind', 'failure')}{tried}: {short(found.get('message', ''))}{spot(found)}"


def spot(found: Data) -> str:
    """Return file and line of code that raised, where a failure tells them: `` (file:line)``."""
    details = found.get("details") or {}
    line, called = (details.get(name) if isinstance(details, Mapping) else None for name in ("line", "called_at"))
    if not isinstance(line, str):
        return ""
    return f" ({line}, called at {called})" if called else f" ({line})"


def start(data: Data) -> str:
    """Tell of an attempt that was handed to the cluster."""
    text = f"{data.get('label') or data.get('name')}: attempt {data.get('attempt', 1)} handed to the cluster"
    return f"{text}, going on with the attempts of an earlier controller" if data.get("went_on") else text


def attempt(data: Data) -> str:
    """Tell how an attempt ended, and what the next one changes."""
    text = f"{data.get('label') or data.get('name')}: attempt {data.get('number', 1)} "
    seconds = f" after {float(data['seconds']):.1f} s" if data.get("seconds") is not None else ""
    if data.get("status") == "success":
        return f"{text}succeeded{seconds}"
    text += f"failed{seconds}: {data.get('kind')}: {short(data.get('message', ''))}"
    if data.get("worker"):
        text += f" (on {data['worker']})"
    return text + (f"; next: {data['next']}" if data.get("next") else "; no further attempt")


def lanes(data: Data) -> str:
    """Tell of a fan-out."""
    keys = list(data.get("keys") or ())
    shown = ", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")
    many = "1 lane" if len(keys) == 1 else f"{len(keys)} lanes"
    return f"opened {many} of {data.get('label') or data.get('target')}: {shown}"


def ended(what: str) -> Callable[[Data], str]:
    """Return the teller of an end."""

    def teller(data: Data) -> str:
        return f"{what} ended in success" if data.get("status") == "success" else f"{what} failed: {failure(data)}"

    return teller


def value(data: Data) -> str:
    """Tell of a value from outside."""
    return f"value {data.get('name')} = {short(data.get('value'), 80)}"


def segment(data: Data) -> str:
    """Tell of a controller that began or went on."""
    who = f"controller {data.get('epoch')} (process {data.get('pid')} on {data.get('host')})"
    if not data.get("previous"):
        return f"{who} began"
    return f"{who} went on from segment {data['previous']}, byte {data.get('continues')}"


def invalidate(data: Data) -> str:
    """Tell what a resume does again."""
    count = sum(len(places) for places in data.get("supersedes", {}).values())
    again = [
        f"{what} in {member_of(at.rpartition('@')[0]) or 'the root'} ({short(why)})"
        for at, _, what, why in data.get("retries", ())
    ]
    shown = "; ".join(again[:5]) + (f"; and {len(again) - 5} more" if len(again) > 5 else "")
    many = "1 record no longer counts" if count == 1 else f"{count} records no longer count"
    return f"resumed: {many}, to do again {shown}"


def changed(data: Data) -> str:
    """Tell of a node whose code has changed."""
    node = data.get("node")
    return f"node {node} has changed since: its journalled decisions are kept; `--from {node}` walks it again"


TELLERS: Mapping[str, Callable[[Data], str]] = {
    "again": lambda data: f"{data.get('label') or data.get('name')} is computed again: {data.get('reason')}",
    "attempt": attempt,
    "awaits": lambda data: str(data.get("what")) or "what was waited for is there",
    "changed": changed,
    "compute": compute,
    "damaged": lambda data: f"a committed outcome is damaged: {data.get('reason')}",
    "delivery": lambda data: f"was given the outcome of lane {data.get('key')}",
    "end": ended("the run"),
    "enter": enter,
    "invalidate": invalidate,
    "lane_end": ended("the lane"),
    "lanes": lanes,
    "published": lambda data: f"published {data.get('name')}",
    "retired": lambda data: f"the outcome {str(data.get('key'))[:12]} was set aside: {data.get('reason')}",
    "route": route,
    "segment": segment,
    "start": start,
    "stopped": lambda data: f"the controller stopped: {data.get('reason') or 'it was asked to'}",
    "taken_over": lambda data: f"the run was taken over: {data.get('reason')}",
    "value": value,
}
