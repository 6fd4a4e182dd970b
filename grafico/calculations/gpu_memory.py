"""One process's share of a GPU's memory: bounded, reported to the engine as all there is, and given back.

Three habits of the engines make this necessary (read in cupy 14.2 and gpu4pyscf 1.9.0):

- gpu4pyscf sets the limit of CuPy's pool to 90 % of the card when it is imported, and lets arrays above 100 MB bypass
  the pool, so that a limit of the pool does not hold for them;
- it sizes its batches by the free memory of the card (``memGetInfo``), whatever the limit;
- CuPy's pool, at its limit, raises ``OutOfMemoryError`` without giving back first what it merely caches.

What the engines' own kernels and libraries (cuBLAS, cuSOLVER, the CUDA context) allocate is not seen here; a pool's
``gpu_context_mib`` allows for it.
"""

import contextlib
import gc
import importlib
import importlib.util
import sys
import time
from typing import Any

__all__ = ["GpuShare", "bound_gpu_memory", "free_gpu_memory", "is_device_fault", "is_out_of_memory", "usable_cupy"]

LARGE = 100 * 1024 * 1024
"""Bytes above which an array gets memory of its own, as in gpu4pyscf: it is never split, so it can be given back."""

LEAVING_S = 2.0
"""A process that was just ended may hold the card's memory for a moment longer; what is within our share waits for it."""

SAID_BY_LIBRARIES = ("cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED",
                     "CUFFT_ALLOC_FAILED", "CUSPARSE_STATUS_ALLOC_FAILED", "CUTENSOR_STATUS_ALLOC_FAILED",
                     "CUTENSOR_STATUS_INSUFFICIENT_WORKSPACE", "CUDA_ERROR_OUT_OF_MEMORY")  # fmt: skip

OF_CUDA = ("CUDARuntimeError", "CUDADriverError", "CUBLASError", "CUSOLVERError", "CuFFTError", "CuSparseError",
           "CuTensorError")  # fmt: skip
"""Exceptions of CuPy, by how their names begin."""

FAULTS = ("illegaladdress", "illegalinstruction", "misalignedaddress", "invalidaddressspace", "invalidpc", "launchfail",
          "launchtimeout", "hardwarestackerror", "uncorrectable", "unavailable", "initializationerror", "notinitialized",
          "systemnotready", "errorunknown", "errormps", "errorcontained", "executionfailed", "internalerror")  # fmt: skip
"""In the names that CUDA and its libraries give to errors after which a process is of no use, without underscores."""

_share: "GpuShare | None" = None


class GpuShare:
    """Keeps what CuPy allocates in this process below a limit.

    Parameters
    ----------
    cupy
        The module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._small = cupy.get_default_memory_pool()
        self._large = cupy.cuda.MemoryPool()
        self._ask_driver = cupy.cuda.runtime.memGetInfo
        self.limit = 0
        """Bytes; 0: as much as there is."""

    def set(self, limit: int) -> None:
        """Bound this process to ``limit`` bytes from now on; does again whatever an import may have undone."""
        self.limit = limit
        self._divide()
        self._cupy.cuda.set_allocator(self.malloc)
        self._cupy.cuda.runtime.memGetInfo = self.memory

    def malloc(self, size: int) -> Any:
        """Allocate (CuPy calls this for each array); gives back what is cached before it fails."""
        if size > LARGE:
            self._large.free_all_blocks()
            self._divide()
            array = self._patient(self._large, size)
            self._divide()
            return array
        return self._patient(self._small, size)

    def memory(self) -> tuple[int, int]:
        """Return free and total memory of this process's share, bytes, in the place of CUDA's ``memGetInfo``."""
        free, total = self._ask_driver()
        if not self.limit:
            return free, total
        return max(0, min(free, self.limit - self._small.total_bytes() - self._large.total_bytes())), total

    def free(self) -> None:
        """Give all that is only cached back to the card."""
        gc.collect()
        self._large.free_all_blocks()
        self._small.free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()
        self._divide()

    def _patient(self, pool: Any, size: int) -> Any:
        deadline = time.monotonic() + LEAVING_S
        try:
            return pool.malloc(size)
        except MemoryError:  # CuPy's OutOfMemoryError is one
            self.free()
        while True:
            try:
                return pool.malloc(size)
            except MemoryError:
                ours = self._small.total_bytes() + self._large.total_bytes() + size <= self.limit
                if not ours or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _divide(self) -> None:
        """Let each pool grow into what the other does not hold; a limit of 0 would be none at all."""
        small, large = self._small.total_bytes(), self._large.total_bytes()
        self._small.set_limit(size=max(1, self.limit - large) if self.limit else 0)
        self._large.set_limit(size=max(1, self.limit - small) if self.limit else 0)


def usable_cupy() -> Any | None:
    """Return CuPy if it is installed and sees a GPU."""
    if importlib.util.find_spec("cupy") is None:
        return None
    try:
        cupy = importlib.import_module("cupy")
        return cupy if cupy.cuda.is_available() else None
    except (ImportError, OSError):
        return None


def bound_gpu_memory(mib: int, *, preload: tuple[str, ...] = ()) -> bool:
    """Bound what this process allocates on its GPU; False if it has none.

    Parameters
    ----------
    mib
        Its share, MiB; 0: no bound.
    preload
        Modules that set limits of their own when they are imported, and are therefore imported before.
    """
    global _share  # noqa: PLW0603 - a process has one GPU
    for name in preload:
        if name not in sys.modules and importlib.util.find_spec(name) is not None:
            with contextlib.suppress(ImportError, OSError):
                importlib.import_module(name)
    cupy = usable_cupy()
    if cupy is None:
        return False
    if _share is None or _share._cupy is not cupy:  # noqa: SLF001 - the same idea
        _share = GpuShare(cupy)
    _share.set(mib * 2**20)
    torch = sys.modules.get("torch")
    if torch is not None and mib and torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, mib * 2**20 / total))
    return True


def free_gpu_memory() -> None:
    """Give what the pools of this process only cache back to the card, for the neighbors."""
    cupy = usable_cupy() if "cupy" in sys.modules else None
    # Where a calculation has made the GPU fault, every call of CUDA fails, and its own failure is what has to be told.
    if cupy is not None:
        with contextlib.suppress(Exception):
            if _share is not None:
                _share.free()
            else:
                gc.collect()
                cupy.get_default_memory_pool().free_all_blocks()
                cupy.get_default_pinned_memory_pool().free_all_blocks()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with contextlib.suppress(Exception):
            torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, says that the memory of the host or of a GPU did not suffice."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        # By name, since CuPy and PyTorch need not be installed here.
        if isinstance(at, MemoryError) or type(at).__name__ == "OutOfMemoryError":
            return True
        if "CUDA error: out of memory" in str(at):  # PyTorch's, where it is not its own pool that has no room
            return True
        if type(at).__name__.startswith(OF_CUDA) and any(word in str(at) for word in SAID_BY_LIBRARIES):
            return True
        at = at.__cause__ or at.__context__
    return False


def is_device_fault(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, says that the GPU, its driver or what shares it failed.

    Nothing is left to be done on the GPU in the same process then; in another one the same calculation may well succeed.
    """
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        name, said = type(at).__name__, str(at)
        if name == "AcceleratorError" or (name == "RuntimeError" and said.startswith("CUDA error")):  # PyTorch's
            return True
        plain = said.lower().replace("_", "")
        if name.startswith(OF_CUDA) and any(fault in plain for fault in FAULTS):
            return True
        at = at.__cause__ or at.__context__
    return False
