"""What a run looks like while it goes: a live panel on a terminal, plain lines elsewhere."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from grafico.graphs.events import AttemptFailed, Event, LaneEnded, LanesOpened, NodeEntered, WalkEnded
from grafico.jobs.watching import Silent, Tally, Watcher

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["clock", "watching"]

REFRESH_S = 0.25
SHOWN_CALCULATIONS = 6


@contextmanager
def watching(title: str, *, quiet: bool) -> Iterator[Watcher]:
    """Give a watcher that suits where standard error goes."""
    from grafico.cli.output import out

    console = out(stderr=True)
    if quiet:
        yield Quiet()
    elif not console.is_terminal:
        yield Lines()
    else:
        from rich.live import Live

        panel = Panel(title, console.width)
        with Live(panel.render(), console=console, auto_refresh=False, transient=True) as live:
            panel.live = live
            yield panel


class Quiet(Silent):
    """Says only what must be said."""

    def say(self, text: str) -> None:
        """Print a line."""
        _print(text)


class Lines(Silent):
    """One line for what is worth one."""

    def __init__(self) -> None:
        self.tally = Tally()

    def opened(self, cluster: Any) -> None:
        """Name the dashboard, without its secret: this goes to a file, which others may read."""
        if link := getattr(cluster, "dashboard_link", None):
            self.say(f"dashboard: {link.partition('?')[0]} (`grafico show` prints the link that opens it)")

    def event(self, event: Event) -> None:
        """Print what a log should hold; what the journal answered passes in silence."""
        if self.tally.take(event) and (text := line_of(event, self.tally)):
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        _print(f"[{clock(self.tally.elapsed_s())}] {text}")


class Panel(Silent):
    """A live panel: lanes by state, slots, time, the dashboard, and what runs."""

    def __init__(self, title: str, width: int = 80) -> None:
        self.title = title
        self.width = min(width, 96)
        self.tally = Tally()
        self.cluster: Any = None
        self.live: Live | None = None

    def opened(self, cluster: Any) -> None:
        """Take the cluster, and print the dashboard's link whole: inside the panel it would be broken."""
        self.cluster = cluster
        if self.live is not None and (link := getattr(cluster, "dashboard_link", None)):
            self.live.console.print(f"dashboard: {link}", markup=False, highlight=False, soft_wrap=True)

    def event(self, event: Event) -> None:
        """Count an event; failures stay on the screen."""
        news = self.tally.take(event)
        failed = isinstance(event, (LaneEnded, AttemptFailed)) and event.failure is not None
        if failed and news and (text := line_of(event, self.tally)):
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line above the panel."""
        if self.live is not None:
            self.live.console.print(text)

    async def look(self) -> None:
        """Redraw a few times a second."""
        while True:
            if self.live is not None:
                self.live.update(self.render(), refresh=True)
            await asyncio.sleep(REFRESH_S)

    def render(self) -> Any:
        """Return what is drawn."""
        from rich import box
        from rich.panel import Panel as Frame
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        states = self.tally.open_lanes
        colors = {"waiting": "dim", "running": "cyan", "done": "green", "failed": "red"}
        lanes = Text(" · ").join(Text(f"{count} {state}", colors[state]) for state, count in states.items() if count)
        grid.add_row("at", self.tally.node or "starting")
        if sum(states.values()):
            grid.add_row("lanes", lanes)
        running, waiting = self._in_hand()
        counts = self.tally.calculations
        numbers = [(len(running), "running"), (waiting, "waiting")]
        numbers += [(counts[key], key) for key in ("done", "reused", "retried", "failed")]
        grid.add_row("calculations", " · ".join(f"{number} {key}" for number, key in numbers if number) or "none yet")
        for name, text in slots(self.cluster):
            grid.add_row(name, text)
        left = self.tally.left_s()
        about = f" · about {clock(left)} left" if left is not None else ""
        grid.add_row("time", f"{clock(self.tally.elapsed_s())}{about}")
        if link := getattr(self.cluster, "dashboard_link", None):
            grid.add_row("dashboard", Text(link.partition("?")[0], f"link {link}"))
        if running:
            more = [f"… and {len(running) - SHOWN_CALCULATIONS} more"] if len(running) > SHOWN_CALCULATIONS else []
            grid.add_row("now", Text("\n".join([*running[:SHOWN_CALCULATIONS], *more])))
        hint = "Ctrl-C: stop starting, finish what runs · twice: kill"
        return Frame(grid, title=Text(self.title), title_align="left", subtitle=hint, box=box.ROUNDED, width=self.width)

    def _in_hand(self) -> tuple[list[str], int]:
        """Return the labels of what runs, and how many calculations wait for a place."""
        handed = list(self.tally.running.values())
        if self.cluster is None:
            return [], len(handed)
        # What was sent ahead to a worker whose slots are all busy waits there.
        running = [label for worker in self.cluster.snapshot() for label in worker.labels[: worker.busy]]
        return running, max(0, len(handed) - len(running))


def line_of(event: Event, tally: Tally) -> str | None:
    """Return the line that an event is worth, if any."""
    where = "/".join(part.partition(":")[2] for part in event.position.lane.split("/"))
    if isinstance(event, NodeEntered):
        return None if where else f"node {event.node}"
    if isinstance(event, LanesOpened):
        lanes = "1 lane" if len(event.keys) == 1 else f"{len(event.keys)} lanes"
        return f"{lanes} opened: {event.label or event.target}{f' in {where}' if where else ''}"
    if isinstance(event, LaneEnded):
        state = f"failed: {event.failure.kind}: {event.failure.message}" if event.failure else "done"
        left = tally.left_s()
        about = f", about {clock(left)} left" if left is not None else ""
        return f"lane {where or event.key} {state} ({event.done} of {event.total}{about})"
    if isinstance(event, AttemptFailed):
        following = f"; next: {event.next_attempt}" if event.next_attempt else ""
        name = event.label or event.name
        return f"{name}: attempt {event.attempt} failed: {event.failure.kind}: {event.failure.message}{following}"
    if isinstance(event, WalkEnded) and event.failure:
        return f"the run failed: {event.failure.kind}: {event.failure.message}"
    return None


def slots(cluster: Any) -> Iterator[tuple[str, str]]:
    """Yield each worker's name, and how many of its slots are busy."""
    if cluster is None:
        return
    for worker in cluster.snapshot():
        busy, total = worker.busy, worker.total
        bar = "█" * busy + "░" * max(0, total - busy) if total <= 24 else ""
        yield str(worker.name), f"{bar} {busy}/{total}".strip()


def clock(seconds: float) -> str:
    """Return a duration as people write it."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def _print(text: str) -> None:
    # A run does not end because nobody reads its progress any more.
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
