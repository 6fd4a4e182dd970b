"""A process's share of a GPU, with CuPy and gpu4pyscf pretended as their sources say they behave (no GPU is needed)."""

import importlib.machinery
import sys
import types

import pytest
from dask.utils import key_split

from grafico.calculations import CalculationTask, Resources, gpu_memory
from grafico.calculations.gpu_memory import bound_gpu_memory, free_gpu_memory, is_out_of_memory
from grafico.cluster import child
from grafico.cluster.lanes import ticket_name
from grafico.cluster.order import Order

MIB = 2**20
CARD = 10_000 * MIB


class OutOfMemoryError(MemoryError):
    pass


class Card:
    """A GPU's memory; neighbors may take some of it too."""

    def __init__(self):
        self.neighbors = 0
        self.pools = []

    def free(self):
        return CARD - self.neighbors - sum(pool.total for pool in self.pools)


class PretendedPool:
    """As ``cupy.cuda.MemoryPool``: what is freed stays cached, and at the limit it fails without giving that back."""

    def __init__(self, card):
        self.card, self.limit, self.used, self.cached = card, 0, 0, 0
        card.pools.append(self)

    @property
    def total(self):
        return self.used + self.cached

    def malloc(self, size):
        if self.cached >= size:
            self.cached -= size
        elif (self.limit and self.total + size > self.limit) or size > self.card.free():
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        self.used += size
        return Array(self, size)

    def set_limit(self, size=None, fraction=None):
        self.limit = size if fraction is None else int(fraction * CARD)

    def get_limit(self):
        return self.limit

    def total_bytes(self):
        return self.total

    def used_bytes(self):
        return self.used

    def free_all_blocks(self):
        self.cached = 0


class Array:
    def __init__(self, pool, size):
        self.pool, self.size = pool, size

    def drop(self):
        self.pool.used -= self.size
        self.pool.cached += self.size


@pytest.fixture
def cupy(monkeypatch):
    card = Card()
    module = types.ModuleType("cupy")
    module.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    module.card, module.pinned_freed = card, 0
    pool = PretendedPool(card)

    def pinned():
        def free():
            module.pinned_freed += 1

        return types.SimpleNamespace(free_all_blocks=free)

    def set_allocator(malloc):
        module.malloc = malloc

    module.malloc = pool.malloc
    module.get_default_memory_pool = lambda: pool
    module.get_default_pinned_memory_pool = pinned
    module.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        set_allocator=set_allocator,
        MemoryPool=lambda: PretendedPool(card),
        runtime=types.SimpleNamespace(CUDARuntimeError=RuntimeError, memGetInfo=lambda: (card.free(), CARD)),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(gpu_memory, "_share", None)
    return module


@pytest.fixture
def gpu4pyscf(cupy, tmp_path, monkeypatch):
    """What gpu4pyscf 1.9 does to CuPy when it is imported, in its own words."""
    monkeypatch.delitem(sys.modules, "gpu4pyscf", raising=False)
    (tmp_path / "gpu4pyscf.py").write_text(
        "import cupy\n"
        "cupy.get_default_memory_pool().set_limit(fraction=0.9)\n"
        "default = cupy.get_default_memory_pool().malloc\n"
        "beside = cupy.cuda.MemoryPool().malloc\n"
        "cupy.cuda.set_allocator(lambda size: beside(size) if size > 100 * 2**20 else default(size))\n"
        "def get_avail_mem():\n"
        "    pool = cupy.get_default_memory_pool()\n"
        "    return cupy.cuda.runtime.memGetInfo()[0] + pool.total_bytes() - pool.used_bytes()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("gpu4pyscf", None)


def allocated(cupy):
    return sum(pool.total for pool in cupy.card.pools)


def test_the_share_holds_for_large_arrays_too_after_gpu4pyscf_has_set_its_own_limits(cupy, gpu4pyscf):
    assert bound_gpu_memory(3000, preload=("gpu4pyscf",))
    kept = [cupy.malloc(size * MIB) for size in (50, 1000, 1500, 90, 300)]
    with pytest.raises(MemoryError):
        cupy.malloc(200 * MIB)
    with pytest.raises(MemoryError):
        cupy.malloc(80 * MIB)
    assert sum(array.size for array in kept) <= allocated(cupy) <= 3000 * MIB


def test_the_engine_is_told_its_share_and_not_the_whole_card(cupy, gpu4pyscf):
    bound_gpu_memory(3000, preload=("gpu4pyscf",))
    engine = sys.modules["gpu4pyscf"]
    assert engine.get_avail_mem() == 3000 * MIB
    small, large = cupy.malloc(60 * MIB), cupy.malloc(1000 * MIB)
    assert engine.get_avail_mem() == 1940 * MIB
    small.drop()
    assert engine.get_avail_mem() == 2000 * MIB  # cached by the pool, and so still there for it
    large.drop()
    cupy.card.neighbors = CARD - 500 * MIB - allocated(cupy)
    assert engine.get_avail_mem() == 560 * MIB  # there is no more than there is


def test_what_is_only_cached_is_given_back_before_an_allocation_fails(cupy):
    bound_gpu_memory(1000)
    for size in (90, 80, 70):
        cupy.malloc(size * MIB).drop()
    large = cupy.malloc(900 * MIB)
    large.drop()
    for _ in range(9):
        cupy.malloc(95 * MIB)
    assert allocated(cupy) <= 1000 * MIB


def test_a_process_gets_another_share_with_its_next_calculation(cupy):
    bound_gpu_memory(1000)
    with pytest.raises(MemoryError):
        cupy.malloc(1500 * MIB)
    bound_gpu_memory(9000)
    cupy.malloc(1500 * MIB).drop()
    bound_gpu_memory(0)
    cupy.malloc(9500 * MIB)


def test_all_pools_are_freed_after_each_calculation(cupy):
    bound_gpu_memory(1000)
    for size in (10, 500):
        cupy.malloc(size * MIB).drop()
    assert allocated(cupy) > 0
    free_gpu_memory()
    assert allocated(cupy) == 0
    assert cupy.pinned_freed == 1


def test_without_a_gpu_nothing_is_touched(cupy):
    cupy.cuda.is_available = lambda: False
    before = cupy.malloc
    assert not bound_gpu_memory(1000)
    free_gpu_memory()
    assert cupy.malloc == before
    assert cupy.get_default_memory_pool().get_limit() == 0


def after(error, cause=None):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (OutOfMemoryError("Out of memory allocating 8 bytes"), True),
        (MemoryError("Insufficient GPU memory. Need 7 MB more."), True),  # gpu4pyscf's own
        (type("CUDARuntimeError", (RuntimeError,), {})("cudaErrorMemoryAllocation: out of memory"), True),
        (type("CUBLASError", (RuntimeError,), {})("CUBLAS_STATUS_ALLOC_FAILED"), True),
        (type("CUDARuntimeError", (RuntimeError,), {})("cudaErrorIllegalAddress: illegal access"), False),
        (RuntimeError("failed in a thread"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_recognized_in_every_librarys_words(error, is_one):
    assert is_out_of_memory(after(error)) is is_one
    assert is_out_of_memory(after(RuntimeError("a thread failed"), error)) is is_one
    task = order("gpu").task
    kind = child.explain(after(error), task).kind
    assert (kind == "out_of_memory") is is_one


def order(device: str) -> Order:
    task = CalculationTask(
        reference="m:f", name="tddft", version="1", family="pyscf", key="a" * 64, input={}, resources=Resources()
    )
    return Order(
        task=task, run="/r", scratch="/s", worker="gpu-0", threads=1, device=device, gpu_memory_mib=1000,
        preload=("gpu4pyscf",),
    )  # fmt: skip


def test_an_outcome_says_gpu_only_if_an_engine_used_it(cupy):
    cupy.cuda.Device = lambda: types.SimpleNamespace(id=0)
    cupy.cuda.runtime.getDeviceProperties = lambda device: {"name": b"A card"}
    assert child.device_name(order("gpu"), {"pyscf": "2.14", "cupy": "14.2"}) == "A card"
    assert child.device_name(order("gpu"), {"pyscf": "2.14"}) == "cpu"
    assert child.device_name(order("cpu"), {"cupy": "14.2"}) == "cpu"


@pytest.mark.parametrize("label", ["tddft · conformer 3", "tddft · conf-002", "tddft", ""])
def test_dask_groups_tasks_by_the_calculation_and_people_read_the_lane(label):
    task = order("cpu").task.model_copy(update={"label": label, "key": "deadbeef" * 8})
    name = ticket_name(task, "0badcafe", 1)
    assert key_split(name) == "tddft"
    assert label.partition(" · ")[2].replace("-", "_") in name
    assert name != ticket_name(task, "0badcafe", 2)
