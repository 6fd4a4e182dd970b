"""What a machine is found to have."""

import pytest

from grafico.cluster.hardware import blas_kernel

PROCESSOR = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: 17
flags\t\t: fpu sse2 {flags}

processor\t: 1
"""


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "kernel"),
    [
        ("AuthenticAMD", 25, "avx avx2 fma avx512f", "Haswell"),
        ("AuthenticAMD", 26, "avx avx2 fma", "Haswell"),
        ("AuthenticAMD", 23, "avx avx2 fma", None),
        ("AuthenticAMD", 25, "avx", None),
        ("GenuineIntel", 6, "avx avx2 fma", None),
    ],
)
def test_a_kernel_is_asked_for_only_where_an_old_openblas_would_choose_badly(tmp_path, vendor, family, flags, kernel):
    path = tmp_path / "cpuinfo"
    path.write_text(PROCESSOR.format(vendor=vendor, family=family, flags=flags))
    assert blas_kernel(path) == kernel
    assert blas_kernel(tmp_path / "nowhere") is None
