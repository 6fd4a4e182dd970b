"""Small calculations that workers run in the cluster's tests."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from pydantic import Field

from grafico.calculations import (
    CalculationError,
    FailureKind,
    Model,
    Resources,
    Success,
    WorkContext,
    calculation,
)
from grafico.chemistry.resources import LADDER
from grafico.errors import LevelError, MissingExtra

SMALL = Resources(memory_mib=500, walltime_s=60)


class Number(Model):
    value: float = Field(default=0.0, lt=1e6)
    tag: str = ""
    seconds: float = 0.0
    file: str = ""


class Answer(Model):
    value: float
    text: str = ""
    pid: int = 0


def touch(value: Number, text: str = "") -> None:
    if value.file:
        Path(value.file).write_text(text or str(os.getpid()))


@calculation(version="1", resources=SMALL)
def double(value: Number, ctx: WorkContext) -> Answer:
    return Answer(value=2 * value.value, pid=os.getpid())


@calculation(version="1", resources=SMALL)
def sleep(value: Number, ctx: WorkContext) -> Answer:
    touch(value)
    time.sleep(value.seconds)
    return Answer(value=value.value, pid=os.getpid())


@calculation(version="1", resources=SMALL)
def sleep_in_c(value: Number, ctx: WorkContext) -> Answer:
    """Hold the interpreter's lock in C: no Python thread or signal handler of this process runs meanwhile."""
    touch(value)
    ctypes.PyDLL(None).usleep(int(value.seconds * 1e6))
    return Answer(value=value.value)


@calculation(version="1", resources=SMALL)
def with_program(value: Number, ctx: WorkContext) -> Answer:
    """Start an external program and wait for it."""
    program = subprocess.Popen(["sleep", str(value.seconds)])
    touch(value, f"{os.getpid()} {program.pid}")
    program.wait()
    return Answer(value=value.value)


@calculation(version="1", resources=SMALL)
def chatty(value: Number, ctx: WorkContext) -> Answer:
    print("said by Python")
    print("complained by Python", file=sys.stderr)
    ctypes.CDLL(None).puts(b"said by C")
    subprocess.run(["echo", "said by a program"], check=True)
    return Answer(value=value.value)


@calculation(version="1", resources=SMALL)
def segfault(value: Number, ctx: WorkContext) -> Answer:
    print("about to crash")
    time.sleep(value.seconds)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("still alive")


@calculation(version="1", resources=SMALL)
def exit_quietly(value: Number, ctx: WorkContext) -> Answer:
    os._exit(0)


@calculation(version="1", resources=SMALL)
def commit_then_die(value: Number, ctx: WorkContext) -> Answer:
    """Commit the outcome as the process would, then die before anybody hears of it."""
    from grafico.runs import OutcomeStore

    key = commit_then_die.key(value)
    OutcomeStore(ctx.artifacts.paths).commit(key, Success(output=Answer(value=7.0), key=key))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


@calculation(version="1", resources=Resources(memory_mib=300, walltime_s=60))
def hog(value: Number, ctx: WorkContext) -> Answer:
    held = []
    for _ in range(40):
        held.append(bytearray(os.urandom(1 << 20)) * 50)
        time.sleep(0.1)
    return Answer(value=float(len(held)))


KEPT: list[bytearray] = []


@calculation(version="1", resources=SMALL)
def leaves_memory(value: Number, ctx: WorkContext) -> Answer:
    KEPT.append(bytearray(os.urandom(1 << 20)) * 400)
    return Answer(value=value.value, pid=os.getpid())


@calculation(version="1", resources=SMALL)
def fails(value: Number, ctx: WorkContext) -> Answer:
    """Fail in the way that the tag names."""
    if value.tag == "scf":
        raise CalculationError(FailureKind.SCF_NOT_CONVERGED, "no convergence", details={"energy_change_eh": 1e-3})
    if value.tag == "memory":
        raise MemoryError("no room for the integrals")
    if value.tag == "extra":
        raise MissingExtra("PySCF is not installed", hint="pip install 'grafico[chem]'")
    if value.tag == "import":
        import no_such_engine  # noqa: F401
    if value.tag == "level":
        raise LevelError("unknown functional 'b4lyp'", hint="did you mean 'b3lyp'?")
    if value.tag == "exit":
        sys.exit(3)
    if value.tag == "nan":
        return Answer(value=float("nan"))
    raise ZeroDivisionError("division by zero in the test")


@calculation(version="1", resources=SMALL)
def surroundings(value: Number, ctx: WorkContext) -> Answer:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "CUDA_VISIBLE_DEVICES")
    said = [
        f"{name}={os.environ.get(name)}"
        for name in (*names, "GRAFICO_SIMULATED_GPU", "FROM_THE_PROFILE", "OPENBLAS_CORETYPE")
    ]
    said.append(f"found={sorted(path.name for path in ctx.scratch.iterdir())}")
    (ctx.scratch / "folder").mkdir()
    (ctx.scratch / "left.txt").write_text("rubbish")
    said += [f"threads={ctx.threads}", f"device={ctx.device}", f"vram={ctx.gpu_memory_mib}", f"scratch={ctx.scratch}"]
    said.append(f"temporary={tempfile.mkdtemp()}")
    return Answer(value=value.value, text="\n".join(said), pid=os.getpid())


@calculation(version="1", resources=SMALL)
def large(value: Number, ctx: WorkContext) -> Answer:
    ctx.save_array(np.arange(10.0))
    return Answer(value=value.value, text="x" * 200_000)


@calculation(version="1", resources=SMALL)
def where_it_runs(value: Number, ctx: WorkContext) -> Answer:
    """Say on which CPUs the threads of this process may run, old ones and a new one."""
    said: list[set[int]] = []
    asked = threading.Thread(target=lambda: said.append(os.sched_getaffinity(0)))
    asked.start()
    time.sleep(value.seconds)
    asked.join()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            said.append(os.sched_getaffinity(int(thread.name)))
    return Answer(value=value.value, text=",".join(str(cpu) for cpu in sorted(set().union(*said))), pid=os.getpid())


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


@calculation(version="1", resources=SMALL, ladder=LADDER)
def fills_the_card(value: Number, ctx: WorkContext) -> Answer:
    """Need ``value`` MiB of a GPU and fail as CuPy does where its share is less; below 0: fail on CPUs as well."""
    on_gpu = "GRAFICO_SIMULATED_GPU" in os.environ
    if value.value < 0 or (on_gpu and value.value > ctx.gpu_memory_mib):
        raise OutOfMemoryError(f"Out of memory allocating {int(abs(value.value)) * 2**20:,} bytes")
    return Answer(value=value.value)
