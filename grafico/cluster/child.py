"""Inside a calculation's process: prepare it once, then carry out orders one after another.

Light at import: the engines come with the calculation's own module, after the environment has been set.
"""

import contextlib
import ctypes
import faulthandler
import functools
import gc
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.calculations import (
    Calculation,
    CalculationError,
    CalculationTask,
    Failure,
    FailureKind,
    Provenance,
    WorkContext,
    contents_of,
    load_calculation,
)
from grafico.calculations.gpu_memory import (
    bound_gpu_memory,
    free_gpu_memory,
    is_device_fault,
    is_out_of_memory,
    usable_cupy,
)
from grafico.cluster.leases import Lease
from grafico.cluster.order import LeaseOrder, Order, Reply
from grafico.cluster.orphans import die_with_parent, resident_mib
from grafico.errors import BadInput, GraficoError, MissingExtra
from grafico.runs import ArtifactStore, OutcomeStore, RunPaths

__all__ = ["begin", "lease", "perform", "release", "who"]

INLINE_BYTES = 64 * 1024
"""Larger outputs are read from the outcome store by whoever needs them."""

TRACEBACK_LINES = 12

SHRINK_MIB = 500
"""Above this, a process looks for memory that it can give back."""

GPU_LIBRARIES = frozenset({"cupy", "torch"})
"""Of which a calculation that used one has said so (``ctx.used``)."""

_lease: Lease | None = None


def begin(parent: int) -> None:
    """Prepare the process: a session of its own, and an end with its parent."""
    os.setsid()
    faulthandler.enable(file=2, all_threads=True)  # a crash in C leaves its traceback in the lane's log
    die_with_parent(parent)
    # Programs that read standard input must find its end, not the worker's lifeline.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # A crash must free its slot at once, not after writing the memory to a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def who() -> int:
    """Return the process id."""
    return os.getpid()


def lease(order_json: str) -> list[int]:
    """Wait for slots of a GPU; they are given back by :func:`release`, or with the process."""
    global _lease  # noqa: PLW0603 - the process carries out one order at a time
    release()
    order = LeaseOrder.model_validate_json(order_json)
    _lease = Lease.take(
        Path(order.folder),
        order.gpu,
        slots=order.slots,
        whole=order.whole,
        need_mib=order.need_mib,
        card_mib=order.card_mib,
    )
    return _lease.slots


def release() -> None:
    """Give back the slots, if there are any."""
    global _lease  # noqa: PLW0603
    if _lease is not None:
        _lease.release()
        _lease = None


def perform(order_json: str) -> str:
    """Carry out an order; returns a :class:`Reply` as JSON and never raises."""
    order = Order.model_validate_json(order_json)
    task = order.task
    begun = time.monotonic()
    reply = Reply(key=task.key)
    paths = RunPaths(order.run)
    try:
        with logged(paths, task, order):
            try:
                reply = calculate(order, paths)
            except BaseException as error:  # noqa: BLE001 - the worker is told, whatever it was
                reply = Reply(key=task.key, failure=explain(error, task))
                traceback.print_exc()
    except OSError as error:
        reply = Reply(key=task.key, failure=failure(task, FailureKind.ENGINE_ERROR, f"the lane's log: {error}"))
    finally:
        if order.device == "gpu":
            free_gpu_memory()
        empty(order.scratch)
        shrink()
    seconds = time.monotonic() - begun
    # What CUDA once failed to find, it does not look for again in the same process.
    spent = order.device == "gpu" and "cupy" in sys.modules and usable_cupy() is None
    return reply.model_copy(
        update={"seconds": seconds, "worker": f"{socket.gethostname()}:{os.getpid()}", "spent": spent}
    ).model_dump_json()


def calculate(order: Order, paths: RunPaths) -> Reply:
    """Load, validate, run and commit."""
    task = order.task
    scratch = Path(order.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    os.chdir(scratch)
    # Engines fix their folder for temporary files when they are imported; here it goes when the process goes, however.
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    if order.code and order.code not in sys.path:
        sys.path.append(order.code)
    calculation: Calculation[Any, Any] = load_calculation(task.reference)
    try:
        value = calculation.input_type.model_validate(task.input)
    except ValidationError as error:
        raise CalculationError(FailureKind.BAD_INPUT, f"input of {task.name}: {_first(error)}") from error
    if order.device == "gpu":
        bound_gpu_memory(order.gpu_memory_mib, preload=order.preload)
    ctx = WorkContext(
        artifacts=ArtifactStore(paths),
        scratch=scratch,
        threads=order.threads,
        device=order.device,
        gpu_memory_mib=order.gpu_memory_mib,
        memory_mib=task.resources.memory_mib,
        settings=task.settings,
        hints=task.hints,
    )
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    clock = time.monotonic()
    output = calculation.function(value, ctx)
    seconds = time.monotonic() - clock
    if not isinstance(output, calculation.output_type):
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"{task.name} returned {type(output).__name__}, declared {calculation.output_type.__name__}",
        )
    success = calculation.outcome_type(
        output=output,
        key=task.key,
        provenance=Provenance(
            versions=ctx.versions,
            device=device_name(order, ctx.versions),
            threads=order.threads,
            settings=task.settings,
            host=socket.gethostname(),
            pid=os.getpid(),
            attempt=task.attempt,
            started=started,
            seconds=seconds,
            reused_hints=tuple(ctx.reused_hints),
            consumed=contents_of(value),
            made=contents_of(output),
        ),
    )
    committed, digest = OutcomeStore(paths).commit(task.key, success)
    body = committed.model_dump(mode="json")
    text = committed.model_dump_json()
    return Reply(key=task.key, digest=digest, outcome=body if len(text) <= INLINE_BYTES else None)


def explain(error: BaseException, task: CalculationTask) -> Failure:
    """Return the failure that an exception means."""
    if isinstance(error, CalculationError):
        return failure(task, error.kind, error.message, error.details)
    if is_out_of_memory(error):
        said = str(error) or type(error).__name__
        return failure(task, FailureKind.OUT_OF_MEMORY, f"{task.name} ran out of memory: {said}")
    if is_device_fault(error):
        return failure(task, FailureKind.CRASH, f"{task.name}: the GPU failed, or what drives it: {error}")
    if isinstance(error, MissingExtra):
        return failure(task, FailureKind.ENGINE_ERROR, _with_hint(error))
    if isinstance(error, BadInput):
        return failure(task, FailureKind.BAD_INPUT, _with_hint(error))
    details = {"type": type(error).__name__, "traceback": traceback.format_exception(error)[-TRACEBACK_LINES:]}
    if isinstance(error, ImportError):
        missing = error.name or str(error)
        text = f"{task.name} needs the package {missing!r}, which is not installed here ({error}); see `grafico doctor`"
        return failure(task, FailureKind.ENGINE_ERROR, text, details)
    if isinstance(error, SystemExit):
        return failure(task, FailureKind.ENGINE_ERROR, f"{task.name} called exit({error.code})", details)
    said = _with_hint(error) if isinstance(error, GraficoError) else f"{type(error).__name__}: {error}"
    return failure(task, FailureKind.ENGINE_ERROR, said, details)


def failure(task: CalculationTask, kind: FailureKind, message: str, details: dict[str, Any] | None = None) -> Failure:
    """Return a failure of a task."""
    return Failure(kind=kind, message=message, where=task.name, details=details or {})


def _with_hint(error: GraficoError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'the whole'}: {first['msg']}"


@contextlib.contextmanager
def logged(paths: RunPaths, task: CalculationTask, order: Order) -> Iterator[None]:
    """Send all that is printed, by Python, C and other programs, to the lane's log."""
    # A log need not outlive the machine: no sync of the disk for its folder.
    paths.lane_folder(task.lane).mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(paths.lane_log(task.lane), flags, 0o600)
    saved = [os.dup(1), os.dup(2)]
    try:
        flush()
        os.dup2(log, 1)
        os.dup2(log, 2)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        changed = f" · {dict(task.settings)}" if task.settings else ""
        place = f"{order.worker} ({socket.gethostname()}:{os.getpid()})"
        header = (
            f"=== {task.label or task.name} · attempt {task.attempt}{changed} · {now} · {place} · {task.key[:12]} ===\n"
        )
        os.write(1, header.encode())
        try:
            yield
        finally:
            flush()
    finally:
        for target, original in zip((1, 2), saved, strict=True):
            os.dup2(original, target)
            os.close(original)
        os.close(log)


def flush() -> None:
    """Flush what Python and C keep in their buffers for standard output and error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        _c_library().fflush(None)


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def device_name(order: Order, versions: Mapping[str, str]) -> str:
    """Return what the outcome says it ran on; on a GPU's slot too, an engine that cannot use it runs on the CPU."""
    simulated = os.environ.get("GRAFICO_SIMULATED_GPU")
    if simulated:
        return f"cpu ({simulated})"
    if order.device != "gpu" or not GPU_LIBRARIES & set(versions):
        return "cpu"
    cupy = usable_cupy() if "cupy" in sys.modules else None
    if cupy is None:
        return order.device
    return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode())


def shrink() -> None:
    """Give memory back to the system, which the allocator would keep for this process's next calculation."""
    if resident_mib(os.getpid()) < SHRINK_MIB:
        return
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def empty(folder: str) -> None:
    """Remove what is in a scratch folder; the folder itself serves the process's next calculation."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)  # noqa: PTH108 - it is a plain string here
