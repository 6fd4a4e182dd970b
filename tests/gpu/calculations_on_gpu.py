"""Small calculations that tell what a process on a GPU's slot sees of the card."""

import os
import time
from pathlib import Path
from typing import Any

from grafico.calculations import Model, Resources, WorkContext, calculation

SLOT = Resources(gpu="slot", memory_mib=2500, walltime_s=120)
MIB = 2**20


class Wish(Model):
    number: int
    mib: int = 0
    folder: str = ""


class Seen(Model):
    pid: int
    devices: int
    uuid: str
    """Its digits, perhaps without those from the first zero byte on."""
    visible: str
    limit_mib: float
    held_mib: float
    available_mib: float
    allocated_mib: float = 0.0


def look(allocated: float = 0.0) -> Seen:
    import cupy
    from gpu4pyscf.lib.cupy_helper import get_avail_mem

    pool = cupy.get_default_memory_pool()
    return Seen(
        pid=os.getpid(),
        devices=cupy.cuda.runtime.getDeviceCount(),
        uuid=bytes(cupy.cuda.runtime.getDeviceProperties(0)["uuid"]).hex(),
        visible=os.environ["CUDA_VISIBLE_DEVICES"],
        limit_mib=pool.get_limit() / MIB,
        held_mib=pool.total_bytes() / MIB,
        available_mib=float(get_avail_mem()) / MIB,
        allocated_mib=allocated,
    )


@calculation(version="1", resources=SLOT, family="pyscf")
def sees(value: Wish, ctx: WorkContext) -> Seen:
    return look()


@calculation(version="1", resources=SLOT, family="pyscf")
def meets(value: Wish, ctx: WorkContext) -> Seen:
    """Hold some memory and calculate until three processes do so at the same time."""
    import cupy

    held = cupy.ones((value.mib * MIB // 8,))
    (Path(value.folder) / f"{os.getpid()}").touch()
    deadline = time.monotonic() + 60
    while len(list(Path(value.folder).iterdir())) < 3:
        if time.monotonic() > deadline:
            raise RuntimeError("the other two did not come")
        held += 1.0
        cupy.cuda.runtime.deviceSynchronize()
    return look(float(held.nbytes) / MIB)


@calculation(version="1", resources=SLOT, family="pyscf")
def takes_all_it_gets(value: Wish, ctx: WorkContext) -> Seen:
    """Allocate in pieces of ``mib`` until there is no more."""
    import cupy

    held: list[Any] = []
    try:
        while True:
            held.append(cupy.empty((value.mib * MIB,), dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError:
        return look(float(sum(array.nbytes for array in held)) / MIB)


@calculation(version="1", resources=SLOT, family="pyscf")
def takes_too_much(value: Wish, ctx: WorkContext) -> Seen:
    """Allocate ``mib`` at once."""
    import cupy

    return look(float(cupy.zeros((value.mib * MIB,), dtype=cupy.uint8).nbytes) / MIB)
