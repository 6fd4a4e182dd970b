"""What a cluster's lanes cost: over bare Dask, against the bounds that no scheduler can pass, on resume, in memory."""

import asyncio
import contextlib
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from grafico.bench.naps import CROWD, CrowdState, NapInput
from grafico.bench.noop import nothing
from grafico.cluster import Pool, Profile, open_cluster
from grafico.cluster.hardware import available_cpus
from grafico.control import RuleRouter
from grafico.graphs import Record, run_graph
from grafico.graphs.events import CalculationStarted, Event, NodeEntered
from grafico.jobs.status import Standing
from grafico.jobs.watching import Tally
from grafico.runs import OutcomeStore, Run, RunRecorder

__all__ = ["bench"]

LIMIT_OVERHEAD = 2.0
LIMIT_USE = 0.97
LIMIT_MAKESPAN = 1.10
LIMIT_RESUME_S = 2.0
LIMIT_LANE_KIB = 10.0

GPUS, SLOTS = 4, 3
LENGTHS_S = (1.0, 2.0, 5.0, 20.0)
SCALE = 0.2
"""The makespan's naps are shortened by this, to fit the benchmark in three minutes."""

EXCLUSIVE = 10
"""One lane in so many wants a whole GPU."""

SIMULATED = Profile(
    name="bench",
    pools=(Pool(name="gpu", gpus=GPUS, simulated=True, slots=SLOTS, gpu_memory_mib=9000, cpus=12, memory_mib=200_000),),
)


def bench(
    lanes: int = 1000, rounds: int = 3, naps: int = 600, nap_s: float = 1.0, mixed: int = 400, *, peers: bool = True
) -> Mapping[str, Any]:
    """Measure on clusters of this machine; about three minutes, and what the peers take.

    Parameters
    ----------
    lanes
        No-op lanes in each round against bare Dask, and in the run that is resumed.
    rounds
        Rounds, at least two; medians count.
    naps, nap_s
        Sleeping lanes that fill the slots, and how long each sleeps, s.
    mixed
        Lanes of four lengths, some of them exclusive, for the makespan.
    peers
        Measure Parsl, HyperQueue and executorlib beside it, those that are installed.
    """
    with tempfile.TemporaryDirectory(prefix="grafico-bench-") as folder, own_leases(Path(folder)):
        base = Path(folder)
        found = {
            **asyncio.run(_overhead(base, lanes, rounds)),
            **asyncio.run(_slots(base, naps, nap_s, mixed)),
            **asyncio.run(_resume(base, lanes)),
        }
        if peers:
            from grafico.bench.peers import measure

            found["peers"] = measure(base, lanes)
    return found


@contextlib.contextmanager
def own_leases(folder: Path) -> Iterator[None]:
    """Keep the slots of pretended GPUs apart from those of other runs on this machine."""
    before = os.environ.get("GRAFICO_LEASES")
    leases = folder / "leases"
    leases.mkdir(mode=0o700)
    os.environ["GRAFICO_LEASES"] = str(leases)
    try:
        yield
    finally:
        os.environ.pop("GRAFICO_LEASES")
        if before is not None:
            os.environ["GRAFICO_LEASES"] = before


# -- overhead ----------------------------------------------------------------------------------------------------------


async def _overhead(base: Path, lanes: int, rounds: int) -> dict[str, Any]:
    """Return what no-op lanes cost through graph, journal and Dask, over bare tasks on the same cluster."""
    cpus = available_cpus()
    profile = Profile(name="bench", pools=(Pool(name="cpu", cpus=cpus, memory_mib=256 * cpus + 1),))
    run = new_run(base)
    bare: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    memory: list[float] = []
    async with open_cluster(profile, run.paths.root) as cluster:

        @contextlib.asynccontextmanager
        async def around(index: int) -> AsyncIterator[None]:
            if index:  # the first one warms up
                memory.append(resident_kib())
                bare.append(await _bare(client_of(cluster), lanes))
            clock, cpu = time.perf_counter(), cpu_s()
            yield
            if index:
                ours.append((time.perf_counter() - clock, cpu_s() - cpu))

        await _bare(client_of(cluster), 100)
        sizes = [100, *[lanes] * rounds]
        state = CrowdState(batches=_numbered(sizes), around=around)
        await walk(run, cluster, state)
        memory.append(resident_kib())
    # The first round fills caches and pools.
    ratio = median(us[0] / them[0] for us, them in zip(ours, bare, strict=True))
    work = median(us[1] / them[1] for us, them in zip(ours, bare, strict=True))
    return {
        "bare Dask, a task": {"value": _ms(bare, lanes), "unit": "ms"},
        "graph, journal and Dask, a lane": {"value": _ms(ours, lanes), "unit": "ms"},
        "graph, journal and Dask, over bare Dask": {"value": round(ratio, 2), "limit": LIMIT_OVERHEAD, "unit": "×"},
        "processor time of all processes, over bare Dask": {"value": round(work, 2), "unit": "×"},
        "controller's memory, a finished lane": {
            "value": round(max(0.0, memory[-1] - memory[-rounds]) / (lanes * (rounds - 1)), 2),
            "limit": LIMIT_LANE_KIB,
            "unit": "KiB",
        },
    }


async def _bare(client: Any, tasks: int) -> tuple[float, float]:
    """Return wall and processor seconds of bare tasks."""
    clock, cpu = time.perf_counter(), cpu_s()
    await client.gather(client.map(nothing, range(tasks), pure=False))
    return time.perf_counter() - clock, cpu_s() - cpu


def _numbered(sizes: Sequence[int]) -> list[list[NapInput]]:
    start = 0
    batches = []
    for size in sizes:
        batches.append([NapInput(number=number) for number in range(start, start + size)])
        start += size
    return batches


def _ms(measured: Sequence[tuple[float, float]], count: int) -> float:
    return round(median(wall for wall, _ in measured) / count * 1e3, 2)


# -- slots -------------------------------------------------------------------------------------------------------------


async def _slots(base: Path, naps: int, nap_s: float, mixed: int) -> dict[str, Any]:
    """Return how well sleeping lanes fill the slots of four pretended GPUs, and how soon a mixture is done."""
    run = new_run(base)
    slots = GPUS * SLOTS
    warm = [NapInput(number=number, seconds=0.5, gpu="slot") for number in range(2 * slots)]
    equal = [NapInput(number=1000 + number, seconds=nap_s, gpu="slot") for number in range(naps)]
    several = [_mixed(10_000 + number, number) for number in range(mixed)]
    spans: list[tuple[float, float]] = []

    @contextlib.asynccontextmanager
    async def around(_: int) -> AsyncIterator[None]:
        began = time.time()
        yield
        spans.append((began, time.time()))

    async with open_cluster(SIMULATED, run.paths.root) as cluster:
        await walk(run, cluster, CrowdState(batches=[warm, equal, several], around=around, limit=256))
    use = _use(_intervals(run, equal), slots)
    took = spans[2][1] - spans[2][0]
    bound = lower_bound(several)
    return {
        f"slots in use, {naps} naps of {nap_s:g} s on {slots} slots": {
            "value": round(100 * use, 1), "limit": 100 * LIMIT_USE, "unit": "%", "at_least": True,
        },
        f"makespan of {mixed} mixed naps": {"value": round(took, 2), "unit": "s"},
        "lower bound of it": {"value": round(bound, 2), "unit": "s"},
        "makespan, over its lower bound": {"value": round(took / bound, 3), "limit": LIMIT_MAKESPAN, "unit": "×"},
    }  # fmt: skip


def _mixed(name: int, number: int) -> NapInput:
    # The lengths take turns, and so do the exclusive ones among the lanes of each length.
    seconds = LENGTHS_S[number % len(LENGTHS_S)] * SCALE
    exclusive = number // len(LENGTHS_S) % EXCLUSIVE == 0
    gpu: Any = "exclusive" if exclusive else "slot"
    return NapInput(number=name, seconds=seconds, gpu=gpu, walltime_s=10 * seconds + 5)


def lower_bound(naps: Sequence[NapInput]) -> float:
    """Return the seconds that no schedule can do without: slots filled, the longest lane, whole GPUs filled."""
    whole = sum(nap.seconds for nap in naps if nap.gpu == "exclusive")
    small = sum(nap.seconds for nap in naps if nap.gpu == "slot")
    longest = max(nap.seconds for nap in naps)
    return max((small + SLOTS * whole) / (GPUS * SLOTS), longest, whole / GPUS)


def _intervals(run: Run, naps: Sequence[NapInput]) -> list[tuple[float, float]]:
    """Return when each calculation itself began and ended, as its own process says."""
    from datetime import datetime

    from grafico.bench.naps import nap

    store = OutcomeStore(run.paths)
    found = []
    for value in naps:
        provenance = store.provenance(nap.key(value))
        assert provenance is not None
        began = datetime.fromisoformat(provenance.started).timestamp()
        found.append((began, began + provenance.seconds))
    return sorted(found)


def _use(intervals: Sequence[tuple[float, float]], slots: int) -> float:
    """Return the part of the slots that was in use from when all were first taken until the last lane began."""
    begin, end = intervals[slots - 1][0], intervals[-1][0]
    used = sum(max(0.0, min(end, last) - max(begin, first)) for first, last in intervals)
    return used / (slots * (end - begin))


# -- resume ------------------------------------------------------------------------------------------------------------


async def _resume(base: Path, lanes: int) -> dict[str, Any]:
    """Return the seconds from opening the journal of a run with finished lanes to its first new calculation."""
    cpus = available_cpus()
    profile = Profile(name="bench", pools=(Pool(name="cpu", cpus=cpus, memory_mib=256 * cpus + 1),))
    run = new_run(base)

    async def until(wanted: Callable[[Event], bool]) -> tuple[float, float]:
        """Walk until something happens; return when the journal was opened and when that was."""
        seen = asyncio.Event()
        when: list[float] = []

        def look(event: Event) -> None:
            if not when and wanted(event):
                when.append(time.perf_counter())
                seen.set()

        async with open_cluster(profile, run.paths.root) as cluster:
            began = time.perf_counter()
            state = CrowdState(batches=_numbered([lanes]), last=NapInput(number=-1, seconds=30))
            walking = asyncio.create_task(walk(Run.open(run.paths.root), cluster, state, look))
            waiting = asyncio.create_task(seen.wait())
            await asyncio.wait({walking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            for task in (walking, waiting):
                task.cancel()
            await asyncio.wait({walking, waiting})
            if not when:
                walking.result()
        return began, when[0]

    await until(lambda event: isinstance(event, NodeEntered) and event.node == "Last")
    started, begun = await until(lambda event: isinstance(event, CalculationStarted) and not event.replayed)
    return {
        f"resume of {lanes} finished lanes, to the first new calculation": {
            "value": round(begun - started, 2), "limit": LIMIT_RESUME_S, "unit": "s",
        }
    }  # fmt: skip


# -- what they share -----------------------------------------------------------------------------------------------------


def new_run(base: Path) -> Run:
    """Return a run in a folder of its own."""
    return Run.create(base / "runs", "bench", job_source=b"", job={}, graph=CROWD.id, graph_version=CROWD.version)


async def walk(
    run: Run, cluster: Any, state: CrowdState, *events: Callable[[Event], object], may_fail: bool = False
) -> None:
    """Walk as `grafico run` does: journal, outcomes on disk, and what the faces count."""
    standing = Standing(run.paths.name, CROWD)
    tally = Tally()
    async with RunRecorder(run, make_record=Record) as recorder:
        outcome = await run_graph(
            CROWD,
            state,
            compute=cluster,
            router=RuleRouter(),
            recorder=recorder,
            events=(tally.take, standing.take, *events),
        )
    assert outcome.ok, outcome
    assert may_fail or not state.failed, f"{state.failed} lanes failed"


def cpu_s() -> float:
    """Return the processor seconds of this process and of all that it started and that are still there."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def resident_kib() -> float:
    """Return this process's resident memory, KiB."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1024


def client_of(cluster: Any) -> Any:
    """Return the Dask client that a cluster's lanes use, for bare tasks beside them."""
    return cluster._link.client  # noqa: SLF001 - nobody else has a use for it
