"""What the page shows: how busy each worker was, what it does now, and what the runs say of themselves."""

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tornado.ioloop import PeriodicCallback

from grafico.calculations import Json

__all__ = ["History", "page_data"]

LOOK_S = 0.25
"""Workers are looked at so often, for calculations that take less than a step."""

STEP_S = 1.0
KEPT = 900
"""Steps that are remembered: a quarter of an hour."""


@dataclass
class Looked:
    """What was seen of a worker within one step."""

    busy: float = 0.0
    looks: int = 0


@dataclass
class Known:
    """A worker that is there, or was within what is remembered."""

    total: int
    unit: str
    seen: float = 0.0
    busy: int = 0
    now: Looked = field(default_factory=Looked)


class History:
    """How many slots of each worker were busy, step by step.

    Parameters
    ----------
    scheduler
        Whose workers are watched.
    """

    def __init__(self, scheduler: Any) -> None:
        self.workers: dict[str, Known] = {}
        self.began = time.time()
        self._scheduler = scheduler
        self._steps: deque[tuple[float, dict[str, float]]] = deque(maxlen=KEPT)
        self._step_began = time.monotonic()
        self._callback = PeriodicCallback(self._look, LOOK_S * 1000)

    def start(self) -> None:
        """Begin to watch; the scheduler ends it with its own callbacks."""
        self._scheduler.periodic_callbacks["grafico-history"] = self._callback
        self._callback.start()

    def since(self, moment: float) -> dict[str, Json]:
        """Return the steps after a moment: their ends, and each worker's mean of busy slots (``None``: not there)."""
        skip = 0
        for stamp, _ in self._steps:
            if stamp > moment:
                break
            skip += 1
        steps = list(islice(self._steps, skip, None))
        return {
            "step_s": STEP_S,
            "times": [round(stamp, 3) for stamp, _ in steps],
            "busy": {name: [step.get(name) for _, step in steps] for name in self.workers},
        }

    def alive(self, name: str) -> bool:
        """Whether a worker is there now."""
        return name in {str(worker.name) for worker in self._scheduler.workers.values()}

    def look(self) -> None:
        """Look at the workers as they are."""
        stamp = time.time()
        for worker in self._scheduler.workers.values():
            name = str(worker.name)
            unit = "slot" if "slot" in worker.resources else "cpu"
            total = int(worker.resources.get(unit, worker.nthreads))
            known = self.workers.get(name)
            if known is None or known.total != total:
                known = self.workers[name] = Known(total, unit)
            known.busy = min(total, held(worker, unit))  # what was sent ahead waits at the worker
            known.seen = stamp

    def _look(self) -> None:
        self.look()
        stamp = time.time()
        here = {name: known for name, known in self.workers.items() if known.seen >= stamp - LOOK_S}
        for known in here.values():
            known.now.busy += known.busy
            known.now.looks += 1
        clock = time.monotonic()
        if clock - self._step_began < STEP_S:
            return
        self._step_began = clock
        step = {}
        for name, known in self.workers.items():
            if known.now.looks:
                step[name] = round(known.now.busy / known.now.looks, 2)
                known.now = Looked()
            elif name not in here:
                known.busy = 0
        self._steps.append((stamp, step))
        oldest = self._steps[0][0]
        for name in [name for name, known in self.workers.items() if known.seen < oldest]:
            del self.workers[name]


def held(worker: Any, unit: str) -> int:
    """Return how many slots or CPUs the tasks take that a worker has in hand."""
    return int(sum((task.resource_restrictions or {}).get(unit, 0) for task in worker.processing))


def page_data(history: History, statuses: Mapping[str, Json], *, since: float, dask: bool) -> dict[str, Json]:
    """Return what ``/grafico/data.json`` holds.

    Parameters
    ----------
    history
        Of the workers.
    statuses
        What each controller said of its run last.
    since
        Seconds since the epoch; only later steps of the history are given.
    dask
        Whether Dask's own pages can be opened.
    """
    history.look()
    runs = sorted((status for status in statuses.values() if status), key=lambda run: run.get("started", 0.0))
    labels: dict[str, list[Json]] = {}
    for run in runs:
        for name, here in (run.get("workers") or {}).items():
            labels.setdefault(name, []).extend({"run": run.get("run", ""), "label": label} for label in here)
    return {
        "now": round(time.time(), 3),
        "began": round(history.began, 3),
        "workers": [
            {
                "name": name,
                "unit": "slots" if known.unit == "slot" else "CPUs",
                "busy": known.busy,
                "total": known.total,
                "alive": history.alive(name),
                "labels": labels.get(name, []),
            }
            for name, known in sorted(history.workers.items(), key=lambda item: natural(item[0]))
        ],
        "history": history.since(since),
        "runs": [{key: value for key, value in run.items() if key != "workers"} for run in runs],
        "dask": [{"title": title, "path": path} for title, path in DASK_PAGES] if dask else [],
    }


DASK_PAGES = (
    ("Status", "status"),
    ("Workers", "workers"),
    ("Tasks", "tasks"),
    ("System", "system"),
    ("Groups", "groups"),
    ("Info", "info/main/workers.html"),
)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``gpu-10`` after ``gpu-9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
