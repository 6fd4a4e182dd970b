"""How gpu4pyscf asks what it may use."""

import cupy


def get_avail_mem():
    pool = cupy.get_default_memory_pool()
    return cupy.cuda.runtime.memGetInfo()[0] + pool.total_bytes() - pool.used_bytes()
