"""Takes CuPy's place where there is no GPU: its memory behaves as the sources of cupy 14.2 say; it calculates nothing."""

import os
from types import SimpleNamespace

__version__ = "14.2.0"

CARD = int(os.environ.get("PRETENDED_CARD_MIB", "20000")) * 2**20
uint8 = "uint8"
pools = []
allocators = []
neighbors = 0
"""What other processes hold, bytes."""


class OutOfMemoryError(MemoryError):
    pass


class CUDARuntimeError(RuntimeError):
    pass


class MemoryPool:
    """What is freed stays cached; at its limit it fails without giving that back."""

    def __init__(self):
        self.limit, self.used, self.cached = 0, 0, 0
        pools.append(self)

    def malloc(self, size):
        if self.cached >= size:
            self.cached -= size
        elif (self.limit and self.total_bytes() + size > self.limit) or size > free():
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        self.used += size
        return Memory(self, size)

    def set_limit(self, size=None, fraction=None):
        self.limit = size if fraction is None else int(fraction * CARD)

    def get_limit(self):
        return self.limit

    def total_bytes(self):
        return self.used + self.cached

    def used_bytes(self):
        return self.used

    def free_all_blocks(self):
        self.cached = 0


class Memory:
    def __init__(self, pool, size):
        self.pool, self.size = pool, size

    def drop(self):
        self.pool.used -= self.size
        self.pool.cached += self.size
        self.size = 0

    __del__ = drop


class PinnedPool:
    freed = 0

    def free_all_blocks(self):
        self.freed += 1


class Array:
    def __init__(self, nbytes):
        self.nbytes, self.memory = nbytes, malloc(nbytes)

    def __iadd__(self, other):
        return self


def free():
    return CARD - neighbors - allocated()


def allocated():
    return sum(pool.total_bytes() for pool in pools)


def malloc(size):
    return allocators[-1](size)


def set_allocator(allocator):
    allocators.append(allocator)


def ones(shape):
    return Array(shape[0] * 8)


def empty(shape, dtype=None):
    return Array(shape[0])


zeros = empty
default_pool, pinned_pool = MemoryPool(), PinnedPool()
set_allocator(default_pool.malloc)


def get_default_memory_pool():
    return default_pool


def get_default_pinned_memory_pool():
    return pinned_pool


def visible():
    return [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]


def properties(device):
    uuid = bytes.fromhex(visible()[device].removeprefix("GPU-").replace("-", ""))
    return {"uuid": uuid, "name": b"Pretended"}


runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    deviceSynchronize=lambda: None,
    getDeviceCount=lambda: len(visible()),
    getDeviceProperties=properties,
    memGetInfo=lambda: (free(), CARD),
)
cuda = SimpleNamespace(
    Device=lambda: SimpleNamespace(id=0),
    MemoryPool=MemoryPool,
    is_available=lambda: bool(visible()),
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    runtime=runtime,
    set_allocator=set_allocator,
)
