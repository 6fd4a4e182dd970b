"""Does to CuPy what gpu4pyscf 1.9.0 does to it when it is imported (``__config__`` and ``lib.cupy_helper``)."""

import cupy

__version__ = "1.9.0"

cupy.get_default_memory_pool().set_limit(fraction=0.9)
small, large = cupy.get_default_memory_pool().malloc, cupy.cuda.MemoryPool().malloc
cupy.cuda.set_allocator(lambda size: large(size) if size > 100 * 2**20 else small(size))
