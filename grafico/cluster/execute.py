"""On a Dask worker: one attempt at a calculation, in a process of its own, watched while it runs."""

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessFuture

from grafico.calculations import CalculationTask, Failure, FailureKind
from grafico.cluster import child
from grafico.cluster.affinity import Cpus, bind, own_cpus
from grafico.cluster.code import NOTHING, Code
from grafico.cluster.hardware import OLD_BLAS, blas_kernel
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.leases import lease_folder
from grafico.cluster.mps import let_go
from grafico.cluster.order import LeaseOrder, Order, Reply
from grafico.cluster.origin import Origin
from grafico.cluster.orphans import Guardian, ProcessRow, family, process_table
from grafico.cluster.placement import demand, taken, threads_for
from grafico.cluster.processes import STARTS, Processes, ProcessKind, WarmProcess
from grafico.errors import GraficoError
from grafico.runs import OutcomeStore, RunPaths, StartLog
from grafico.runs.processes import ProcessId, host_name

__all__ = ["Service", "cancel", "execute", "execute_several", "serve"]

TICK_S = 0.25
"""How often a running calculation is looked at: its memory, its walltime, whether it is still there."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)


@dataclass
class Running:
    """A calculation that a worker has in hand."""

    warm: WarmProcess | None = None
    future: "ProcessFuture[Any] | None" = None
    cancelled: bool = False


@dataclass
class Ended(Exception):
    """A calculation's process is gone, or has to go."""

    kind: FailureKind
    message: str
    signal: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Service:
    """What one Dask worker process knows: its place, its processes and what runs in them.

    Parameters
    ----------
    spec
        The worker, as the profile laid it out.
    max_tasks
        A process is replaced after so many calculations.
    grace_s
        Seconds added to every walltime.
    scratch
        Folder for what calculations write while they run.
    controller
        Process id of the controller.
    origin
        Where the worker came from, for the records.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        max_tasks: int,
        grace_s: float,
        scratch: Path,
        controller: int,
        origin: Origin = Origin(),  # noqa: B008 - an immutable tuple
    ) -> None:
        self.spec = spec
        self.origin = origin
        self._grace_s = grace_s
        self._scratch = scratch
        self._guardian = Guardian(scratch, controller)
        last = {"before_end": let_go} if spec.mps else {}
        self._processes = Processes(spec.places, max_tasks, self._variables, self._guardian, **last)
        own = (spec.cpu_set or own_cpus()) if spec.pin_cpus else ()
        self._cpus = Cpus(own, lease_folder()) if own else None
        self._running: dict[str, Running] = {}
        self._lock = threading.Lock()
        self._table: tuple[float, dict[int, ProcessRow]] = (0.0, {})
        self._logs: dict[str, StartLog] = {}

    def execute(self, ticket: str, task_jsons: Sequence[str], run: str, code: Code = NOTHING) -> list[str]:
        """Run attempts one after another; returns a :class:`Reply` as JSON for each."""
        running = Running()
        with self._lock:
            self._running[ticket] = running
        try:
            return [self._attempt(running, task_json, run, code) for task_json in task_jsons]
        finally:
            with self._lock:
                self._running.pop(ticket, None)

    def _attempt(self, running: Running, task_json: str, run: str, code: Code) -> str:
        task = CalculationTask.model_validate_json(task_json)
        begun = time.monotonic()
        paths = RunPaths(run)
        if running.cancelled:
            return self._failed(task, Ended(FailureKind.WORKER_LOST, "cancelled"), begun)
        try:
            digest = OutcomeStore(paths).digest(task.key)
            if digest is not None:  # committed before, perhaps by a process that died before it could say so
                return Reply(key=task.key, digest=digest).model_dump_json()
            for left in reversed(range(STARTS)):
                try:
                    return self._run(running, task, paths, code)
                except BrokenProcessPool:  # its process died before it was given the order
                    if not left:
                        raise
            raise AssertionError
        except (ChildProcessError, BrokenProcessPool) as error:
            return self._failed(task, Ended(FailureKind.CRASH, str(error)), begun)
        except (GraficoError, OSError) as error:
            said = error.message if isinstance(error, GraficoError) else f"{type(error).__name__}: {error}"
            return self._failed(task, Ended(FailureKind.ENGINE_ERROR, said), begun)

    def cancel(self, ticket: str) -> None:
        """End the process of a calculation that nobody waits for any more."""
        with self._lock:
            running = self._running.get(ticket)
        if running is not None:
            running.cancelled = True
            if running.future is not None:
                running.future.cancel()

    def close(self) -> None:
        """End everything."""
        self._processes.close()
        self._guardian.close()

    def _run(self, running: Running, task: CalculationTask, paths: RunPaths, code: Code) -> str:
        spec, resources = self.spec, task.resources
        part = taken(demand(resources, [spec]), spec) or {}
        whole = spec.is_gpu and resources.gpu == "exclusive"
        threads = threads_for(resources.cpus, spec)
        kind = ProcessKind(f"{task.family}{code.folder}{code.stamp}", threads, spec.device or spec.gpu or "cpu")
        warm = self._processes.take(kind, resources.memory_mib)
        if whole:
            self._processes.retire_idle()
        running.warm = warm
        scratch = self._scratch / f"process-{warm.pid}"
        order = Order(
            task=task,
            run=str(paths.root),
            scratch=str(scratch),
            worker=spec.name,
            threads=threads,
            device="gpu" if spec.device else "cpu",
            gpu_memory_mib=part.get("vram_mib", 0),
            preload=spec.preload,
            code=code.folder,
        )
        healthy = False
        begun = time.monotonic()
        started = None
        status = "crash"
        cpus = None
        try:
            slot = self._lease(running, warm, part) if spec.is_gpu else ""
            if self._cpus is not None:
                cpus = self._cpus.take(threads, warm.cpus)
                warm.cpus = cpus.cpus
                bind(warm.pid, cpus.cpus)
            log = self._logs.setdefault(str(paths.root), StartLog(paths))
            process = ProcessId(host_name(), warm.pid, warm.start)
            begun = time.monotonic()
            started = log.start(
                task.key, task.attempt,
                lane=task.lane, label=task.label, worker=spec.name, gpu=spec.gpu, slot=slot, process=process,
                cluster=self.origin.cluster, slurm_job=self.origin.slurm_job,
            )  # fmt: skip
            future = warm.schedule(child.perform, order.model_dump_json())
            text: str = self._wait(running, warm, future, resources.walltime_s + self._grace_s, resources.memory_mib)
            reply = Reply.model_validate_json(text)
            healthy = reply.failure is None and not reply.spent
            status = "success" if reply.failure is None else reply.failure.kind.value
            return text
        except Ended as ended:
            self._processes.end(warm)
            # It may have died, or been ended, after its outcome was committed.
            digest = OutcomeStore(paths).digest(task.key)
            if digest is not None:
                status = "success"
                return Reply(key=task.key, digest=digest, seconds=time.monotonic() - begun).model_dump_json()
            status = "cancelled" if running.cancelled else ended.kind.value
            _note(paths, task, ended)
            return self._failed(task, ended, begun, warm.pid)
        finally:
            running.warm = None
            if started is not None:
                with contextlib.suppress(GraficoError):
                    log.end(started, status)
            if healthy and spec.is_gpu:
                # Only now, so that by the records no other run's calculation overlaps with this one on its slot.
                warm.schedule(child.release)
            if self._cpus is not None and cpus is not None:
                self._cpus.give(cpus)
            self._processes.give(warm, healthy=healthy)
            if not healthy:
                shutil.rmtree(scratch, ignore_errors=True)

    def _lease(self, running: Running, warm: WarmProcess, part: Mapping[str, int]) -> str:
        """Have the process lease its slots from the host; waiting for other runs does not count as walltime."""
        spec = self.spec
        order = LeaseOrder(
            folder=str(lease_folder()),
            gpu=spec.gpu,
            slots=spec.slots,
            whole=part["slot"] == spec.slots and spec.slots > 1,
            need_mib=part["vram_mib"],
            card_mib=spec.vram_mib,
        )
        future = warm.schedule(child.lease, order.model_dump_json())
        slots: list[int] = self._wait(running, warm, future, None, None)
        return ",".join(str(slot) for slot in slots)

    def _wait(
        self,
        running: Running,
        warm: WarmProcess,
        future: "ProcessFuture[Any]",
        seconds: float | None,
        memory_mib: int | None,
    ) -> Any:
        """Return what the process answers; looks after it meanwhile.

        Raises
        ------
        Ended
            It is over its walltime or its memory, was cancelled, or died.
        """
        running.future = future
        deadline = None if seconds is None else time.monotonic() + seconds
        gone = 0
        while True:
            if running.cancelled:
                raise Ended(FailureKind.WORKER_LOST, "cancelled")
            left = TICK_S if deadline is None else deadline - time.monotonic()
            try:
                return future.result(timeout=max(0.0, min(TICK_S, left)))
            except TimeoutError:
                pass
            except CancelledError:
                running.cancelled = True
                continue
            except ProcessExpired as expired:
                raise _death(expired.exitcode) from None
            if deadline is not None and time.monotonic() >= deadline:
                raise Ended(
                    FailureKind.TIMEOUT, f"ended after its walltime of {seconds:g} s", details={"walltime_s": seconds}
                )
            rows = self._processes_now()
            # pebble says nothing when a process ends with status 0 in the middle of its work.
            gone = 0 if warm.pid in rows else gone + 1
            if gone > 2:
                raise _death(0)
            if memory_mib is not None:
                used = sum(rows[pid].resident for pid in family(warm.pid, rows) if pid in rows) // 2**20
                if used > memory_mib:
                    raise Ended(
                        FailureKind.OUT_OF_MEMORY,
                        f"ended at {used} MiB of resident memory; its share is {memory_mib} MiB",
                        details={"resident_mib": used, "memory_mib": memory_mib},
                    )

    def _processes_now(self) -> dict[int, ProcessRow]:
        """Return the process table, read once a tick for all calculations of the worker."""
        with self._lock:
            if time.monotonic() - self._table[0] > TICK_S / 2:
                self._table = (time.monotonic(), process_table())
            return self._table[1]

    def _variables(self, kind: ProcessKind) -> dict[str, str]:
        spec = self.spec
        variables = dict.fromkeys(THREAD_VARIABLES, str(kind.threads))
        # A thread that spins while it waits takes the processor from its neighbours.
        quiet = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "PYTHONUNBUFFERED": "1"}
        variables |= {name: value for name, value in quiet.items() if name not in spec.environment}
        # Only where it is needed: in other engines another kernel may turn what rounding decides, as PORMAKE's linkers.
        if kind.family in OLD_BLAS and "OPENBLAS_CORETYPE" not in os.environ and (kernel := blas_kernel()):
            variables["OPENBLAS_CORETYPE"] = kernel
        variables["CUDA_VISIBLE_DEVICES"] = spec.device
        if spec.simulated:
            variables["GRAFICO_SIMULATED_GPU"] = spec.gpu
        return variables

    def _failed(self, task: CalculationTask, ended: Ended, begun: float, pid: int = 0) -> str:
        failure = Failure(
            kind=ended.kind,
            message=f"{task.name}: {ended.message}",
            signal=ended.signal,
            where=task.name,
            details=ended.details,
        )
        worker = f"{socket.gethostname()}:{pid}" if pid else socket.gethostname()
        return Reply(key=task.key, failure=failure, seconds=time.monotonic() - begun, worker=worker).model_dump_json()


def _death(code: int) -> Ended:
    if code < 0:
        import signal

        with contextlib.suppress(ValueError):
            name = f" ({signal.Signals(-code).name})"
            return Ended(FailureKind.CRASH, f"its process was ended by signal {-code}{name}", signal=-code)
        return Ended(FailureKind.CRASH, f"its process was ended by signal {-code}", signal=-code)
    return Ended(
        FailureKind.CRASH, f"its process ended by itself with exit status {code}", details={"exit_status": code}
    )


def _note(paths: RunPaths, task: CalculationTask, ended: Ended) -> None:
    """Say in the lane's log how it ended, since its process could not."""
    with contextlib.suppress(OSError), paths.lane_log(task.lane).open("a", encoding="utf-8") as file:
        file.write(f"=== {task.label or task.name} · attempt {task.attempt} · {ended.kind}: {ended.message} ===\n")


_service: Service | None = None


def serve(service: Service) -> None:
    """Make this process's service known to :func:`execute`."""
    global _service  # noqa: PLW0603 - one worker a process, and Dask tasks are plain functions
    _service = service


def execute(ticket: str, task_json: str, run: str, code: str = "") -> str:
    """Run one attempt at a calculation: the Dask task."""
    return _here().execute(ticket, [task_json], run, _code(code))[0]


def execute_several(ticket: str, task_jsons: Sequence[str], run: str, code: str = "") -> str:
    """Run attempts at short calculations one after another: one Dask task, whose answer is a JSON list of replies."""
    return json.dumps(_here().execute(ticket, task_jsons, run, _code(code)))


def _code(text: str) -> Code:
    return Code.model_validate_json(text) if text else NOTHING


def _here() -> Service:
    if _service is None:
        raise RuntimeError("this Dask worker was not started by grafico")
    return _service


def cancel(ticket: str) -> None:
    """End a calculation of this worker."""
    if _service is not None:
        _service.cancel(ticket)
