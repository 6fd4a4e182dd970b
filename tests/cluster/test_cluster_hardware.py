"""What a machine is found to have."""

import pytest

from grafico.cluster.hardware import Gpu, blas_kernel, parse_gpus, parse_settings, visible, with_parts

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


CARDS = (Gpu("0", "GPU-aaaa-1", 81_559, "NVIDIA H100"), Gpu("1", "GPU-bbbb-2", 81_559, "NVIDIA H100"))

LISTING = """GPU 0: NVIDIA H100 (UUID: GPU-aaaa-1)
  MIG 3g.40gb     Device  0: (UUID: MIG-1111)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA H100 (UUID: GPU-bbbb-2)
"""


def test_the_driver_s_list_of_cards_is_read():
    text = "0, GPU-aaaa-1, 81559, NVIDIA H100\n1, GPU-bbbb-2, 81559, NVIDIA H100\nrubbish\n"
    assert parse_gpus(text) == CARDS


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, "GPU-aaaa-1 GPU-bbbb-2"),
        ("1,0", "GPU-bbbb-2 GPU-aaaa-1"),
        ("GPU-bbbb", "GPU-bbbb-2"),
        ("0,7,1", "GPU-aaaa-1"),
        ("0,0", "GPU-aaaa-1"),
        ("", ""),
        ("-1", ""),
        ("NoDevFiles", ""),
    ],
)
def test_what_was_given_is_subdivided_and_never_widened(mask, seen):
    assert " ".join(gpu.uuid for gpu in visible(CARDS, mask)) == seen


def test_a_divided_card_stands_for_its_parts():
    parts = with_parts(CARDS, LISTING)
    assert [gpu.uuid for gpu in parts] == ["MIG-1111", "MIG-2222", "GPU-bbbb-2"]
    assert [gpu.memory_mib for gpu in parts] == [36_000, 9_000, 81_559]
    small = with_parts(CARDS, LISTING.replace("1g.10gb+me", "1g.18gb"))[1]
    assert small.memory_mib <= 16 * 1024  # `nvidia-smi mig -lgip` on an H200: 16.00 GiB
    assert [gpu.uuid for gpu in visible(parts, "MIG-2222,1")] == ["MIG-2222", "GPU-bbbb-2"]
    assert [gpu.uuid for gpu in visible(parts, "0")] == ["MIG-1111"]
    assert with_parts(CARDS, "GPU 0: NVIDIA H100 (UUID: GPU-aaaa-1)\n") == CARDS


def test_a_host_s_parts_of_cards_are_workers_of_their_own(tmp_path, monkeypatch):
    from grafico.cluster import Pool, Profile, lay_out

    program = tmp_path / "nvidia-smi"
    rows = "\n".join(f"{gpu.index}, {gpu.uuid}, {gpu.memory_mib}, {gpu.name}" for gpu in CARDS)
    program.write_text(f"#!/bin/sh\nif [ $1 = -L ]; then cat <<'E'\n{LISTING}E\nelse cat <<'E'\n{rows}\nE\nfi\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-2222,MIG-1111")
    workers = lay_out(Profile(pools=(Pool(name="gpu", gpus="auto", memory_mib=8000, cpus=6),)))
    assert [(worker.device, worker.vram_mib) for worker in workers] == [
        ("MIG-2222", 9_000 - 3 * 512),
        ("MIG-1111", 36_000 - 3 * 512),
    ]


def test_the_settings_of_a_card_are_read_and_not_its_state():
    text = """
==============NVSMI LOG==============

Driver Version                            : 580.159.04
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H200
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Compute Mode                          : Default
    Temperature
        GPU Current Temp                  : 31 C
    GPU Power Readings
        Instantaneous Power Draw          : 77.31 W
        Current Power Limit               : 700.00 W
    Clocks
        SM                                : 345 MHz
    Applications Clocks
        Graphics                          : 1980 MHz
"""
    found = parse_settings(text)
    assert {name.partition(" / ")[2]: value for name, value in found.items()} == {
        "Persistence Mode": "Enabled",
        "MIG Mode / Current": "Disabled",
        "MIG Mode / Pending": "Disabled",
        "Compute Mode": "Default",
        "GPU Power Readings / Current Power Limit": "700.00 W",
        "Applications Clocks / Graphics": "1980 MHz",
    }
    assert all(name.startswith("GPU 00000000:3B:00.0 / ") for name in found)
