"""A process's share of a GPU, with CuPy and gpu4pyscf pretended as their sources say they behave (no GPU is needed)."""

import importlib
import sys
import tempfile
import threading
from pathlib import Path

import calculations_for_tests
import pytest
from dask.utils import key_split

from grafico.calculations import CalculationTask, Resources, gpu_memory
from grafico.calculations.gpu_memory import bound_gpu_memory, free_gpu_memory, is_out_of_memory
from grafico.cluster import child
from grafico.cluster.order import Order, Reply
from grafico.cluster.tickets import ticket_name

MIB = 2**20


PRETENDED = Path(__file__).parent / "pretended" / "lib"


@pytest.fixture
def cupy(monkeypatch):
    """CuPy in a process that sees one card of 10,000 MiB."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"cupy", "gpu4pyscf"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-10112233")
    monkeypatch.setenv("PRETENDED_CARD_MIB", "10000")
    monkeypatch.syspath_prepend(str(PRETENDED))
    monkeypatch.setattr(gpu_memory, "_share", None)
    yield importlib.import_module("cupy")
    for name in [name for name in sys.modules if name.partition(".")[0] in {"cupy", "gpu4pyscf"}]:
        del sys.modules[name]


def get_avail_mem():
    return importlib.import_module("gpu4pyscf.lib.cupy_helper").get_avail_mem()


def test_the_share_holds_for_large_arrays_too_after_gpu4pyscf_has_set_its_own_limits(cupy):
    assert bound_gpu_memory(3000, preload=("gpu4pyscf",))
    kept = [cupy.malloc(size * MIB) for size in (50, 1000, 1500, 90, 300)]
    with pytest.raises(MemoryError):
        cupy.malloc(200 * MIB)
    with pytest.raises(MemoryError):
        cupy.malloc(80 * MIB)
    assert sum(array.size for array in kept) <= cupy.allocated() <= 3000 * MIB


def test_the_engine_is_told_its_share_and_not_the_whole_card(cupy):
    bound_gpu_memory(3000, preload=("gpu4pyscf",))
    assert get_avail_mem() == 3000 * MIB
    small, large = cupy.malloc(60 * MIB), cupy.malloc(1000 * MIB)
    assert get_avail_mem() == 1940 * MIB
    small.drop()
    assert get_avail_mem() == 2000 * MIB  # cached by the pool, and so still there for it
    large.drop()
    cupy.neighbors = cupy.CARD - 500 * MIB - cupy.allocated()
    assert get_avail_mem() == 560 * MIB  # there is no more than there is


def test_what_is_only_cached_is_given_back_before_an_allocation_fails(cupy):
    bound_gpu_memory(1000)
    for size in (90, 80, 70):
        cupy.malloc(size * MIB).drop()
    large = cupy.malloc(900 * MIB)
    large.drop()
    for _ in range(9):
        cupy.malloc(95 * MIB)
    assert cupy.allocated() <= 1000 * MIB


def test_memory_of_a_neighbor_that_was_just_ended_is_waited_for(cupy):
    bound_gpu_memory(3000)
    cupy.neighbors = 9000 * MIB
    with pytest.raises(MemoryError):
        cupy.malloc(4000 * MIB)  # more than the share: at once
    threading.Timer(0.2, lambda: setattr(cupy, "neighbors", 0)).start()
    assert cupy.malloc(2000 * MIB).size == 2000 * MIB


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
    assert cupy.allocated() > 0
    free_gpu_memory()
    assert cupy.allocated() == 0
    assert cupy.pinned_pool.freed == 1


def test_without_a_gpu_nothing_is_touched(cupy):
    cupy.cuda.is_available = lambda: False
    assert not bound_gpu_memory(1000)
    free_gpu_memory()
    assert len(cupy.allocators) == 1
    assert cupy.get_default_memory_pool().get_limit() == 0


def after(error, cause=None):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (type("OutOfMemoryError", (MemoryError,), {})("Out of memory allocating 8 bytes"), True),
        (MemoryError("Insufficient GPU memory. Need 7 MB more."), True),  # gpu4pyscf's own
        (type("CUDARuntimeError", (RuntimeError,), {})("cudaErrorMemoryAllocation: out of memory"), True),
        (type("CUDADriverError", (RuntimeError,), {})("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True),
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


@pytest.mark.parametrize(
    ("name", "said", "is_one"),
    [
        ("CUDARuntimeError", "cudaErrorIllegalAddress: an illegal memory access was encountered", True),
        (
            "CUDARuntimeError",
            "cudaErrorMpsConnectionFailed: MPS client failed to connect to the MPS control daemon",
            True,
        ),
        ("CUDARuntimeError", "cudaErrorECCUncorrectable: uncorrectable ECC error encountered", True),
        ("CUDADriverError", "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", True),
        ("CUBLASError", "CUBLAS_STATUS_EXECUTION_FAILED", True),
        ("AcceleratorError", "CUDA error: an illegal memory access was encountered", True),
        ("RuntimeError", "CUDA error: unspecified launch failure", True),
        ("CUDARuntimeError", "cudaErrorInvalidValue: invalid argument", False),
        ("RuntimeError", "CUDA error: out of memory", False),
        ("ValueError", "cudaErrorIllegalAddress", False),
    ],
)
def test_a_gpu_that_fails_is_a_crash_and_the_calculation_is_tried_again_elsewhere(name, said, is_one):
    error = RuntimeError(said) if name == "RuntimeError" else type(name, (RuntimeError,), {})(said)
    for raised in (error, after(RuntimeError("a thread failed"), error)):
        failed = child.explain(raised, order("gpu").task)
        assert (failed.kind == "crash") is is_one
        assert not is_one or said in failed.message or raised is not error


def test_what_a_faulted_gpu_says_of_freeing_memory_does_not_hide_the_failure(cupy):
    bound_gpu_memory(1000)

    def fails():
        raise cupy.cuda.runtime.CUDARuntimeError("cudaErrorIllegalAddress")

    cupy.get_default_memory_pool().free_all_blocks = fails
    cupy.get_default_pinned_memory_pool().free_all_blocks = fails
    free_gpu_memory()


@pytest.mark.parametrize("there", [True, False])
def test_a_process_that_did_not_find_its_gpu_is_not_used_again(there, cupy, paths, tmp_path, monkeypatch):
    """CuPy asks once whether there is a GPU; a service that was just being started would be missed for ever."""
    cupy.cuda.is_available = lambda: there
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    value = calculations_for_tests.Number(value=2)
    given = {
        "reference": calculations_for_tests.double.reference,
        "key": calculations_for_tests.double.key(value),
        "input": value.model_dump(mode="json"),
    }
    asked = order("gpu")
    told = {"task": asked.task.model_copy(update=given), "run": str(paths.root), "scratch": str(tmp_path / "scratch")}
    reply = Reply.model_validate_json(child.perform(asked.model_copy(update=told).model_dump_json()))
    assert reply.failure is None
    assert reply.spent is not there


def order(device: str) -> Order:
    task = CalculationTask(
        reference="m:f", name="tddft", version="1", family="pyscf", key="a" * 64, input={}, resources=Resources()
    )
    return Order(
        task=task, run="/r", scratch="/s", worker="gpu-0", threads=1, device=device, gpu_memory_mib=1000,
        preload=("gpu4pyscf",),
    )  # fmt: skip


def test_an_outcome_says_gpu_only_if_an_engine_used_it(cupy):
    assert child.device_name(order("gpu"), {"pyscf": "2.14", "cupy": "14.2"}) == "Pretended"
    assert child.device_name(order("gpu"), {"pyscf": "2.14"}) == "cpu"
    assert child.device_name(order("cpu"), {"cupy": "14.2"}) == "cpu"


@pytest.mark.parametrize("label", ["tddft · conformer 3", "tddft · conf-002", "tddft", ""])
def test_dask_groups_tasks_by_the_calculation_and_people_read_the_lane(label):
    task = order("cpu").task.model_copy(update={"label": label, "key": "deadbeef" * 8})
    name = ticket_name(task, "0badcafe", 1)
    assert key_split(name) == "tddft"
    assert label.partition(" · ")[2].replace("-", "_") in name
    assert name != ticket_name(task, "0badcafe", 2)
