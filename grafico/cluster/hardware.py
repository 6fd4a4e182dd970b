"""What this machine has: processors, memory and GPUs, found without importing CUDA."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OLD_BLAS", "Gpu", "available_cpus", "available_memory_mib", "blas_kernel", "detect_gpus", "gpu_settings"]

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, as the driver describes it."""

    index: str
    uuid: str
    memory_mib: int
    name: str


def available_cpus() -> int:
    """Return how many processors this process may use: affinity, and the quota of its control group."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    quota = _words(CGROUP / "cpu.max")
    if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
        count = min(count, max(1, int(quota[0]) // int(quota[1])))
    return max(1, count)


def available_memory_mib() -> int:
    """Return this machine's memory or the limit of the control group, whichever is less, in MiB."""
    import psutil

    total = int(psutil.virtual_memory().total)
    for limit in (CGROUP / "memory.max", CGROUP / "memory" / "memory.limit_in_bytes"):
        words = _words(limit)
        if words and words[0].isdigit():
            total = min(total, int(words[0]))
    return total // 2**20


OLD_BLAS = frozenset({"pyscf"})
"""Families of calculations whose wheels carry an OpenBLAS that is too old for the processors of today."""


def blas_kernel(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the OpenBLAS kernel to ask for on this processor, ``None`` to leave the choice to OpenBLAS.

    PySCF's wheels carry OpenBLAS 0.3.3 (2018), which does not know AMD processors from family 25 (Zen 3) on and takes
    kernels without AVX2 for them; those of Haswell, which they all can run, made a TDDFT here a quarter faster.
    """
    facts: dict[str, str] = {}
    try:
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if not line.strip():
                break
            facts[name.strip()] = value.strip()
    except OSError:
        return None
    family = facts.get("cpu family", "")
    young = facts.get("vendor_id") == "AuthenticAMD" and family.isdigit() and int(family) >= 25
    return "Haswell" if young and {"avx2", "fma"} <= set(facts.get("flags", "").split()) else None


def detect_gpus(environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs that this process may use, in the driver's order; none without a driver.

    A card that is divided (MIG) stands for its parts, each a device of its own. A ``CUDA_VISIBLE_DEVICES`` that is set
    already (by Slurm, say) is subdivided, never widened.
    """
    query = ["--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits"]
    cards = parse_gpus(_driver(*query))
    if not cards:
        return ()
    return visible(with_parts(cards, _driver("-L")), environ.get("CUDA_VISIBLE_DEVICES"))


def gpu_settings() -> dict[str, str]:
    """Return how the cards are set (modes, limits of power and clocks), which grafico never changes."""
    return parse_settings(_driver("-q"))


def _driver(*arguments: str) -> str:
    """Return what the driver's program says; nothing where there is none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    try:
        command = ["nvidia-smi", *arguments]
        return subprocess.run(
            command, capture_output=True, timeout=30, check=True, encoding="utf-8", errors="replace"
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Read the lines of ``nvidia-smi --query-gpu=index,uuid,memory.total,name --format=csv,noheader,nounits``."""
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", 3)]
        if len(fields) == 4 and fields[2].isdigit():
            gpus.append(Gpu(fields[0], fields[1], int(fields[2]), fields[3]))
    return tuple(gpus)


NOMINAL_MIB = 900
"""Memory of a card's part for each GB in its name, MiB."""


def with_parts(cards: tuple[Gpu, ...], listing: str) -> tuple[Gpu, ...]:
    """Put the parts of divided cards in the place of the cards.

    Parameters
    ----------
    cards
        All cards.
    listing
        What ``nvidia-smi -L`` prints. It tells a part's memory only in its profile's name (``3g.40gb``), which promises
        too much: the least that is known of is 910 MiB for each, of an H200's ``1g.18gb`` (16.00 GiB). A profile's
        ``gpu_memory_mib`` can say more.
    """
    parts: dict[str, list[Gpu]] = {}
    card: Gpu | None = None
    for line in listing.splitlines():
        if found := re.match(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)", line):
            card = next((gpu for gpu in cards if gpu.uuid == found[1]), None)
        elif card and (found := re.match(r"\s+MIG (\S*?(\d+)gb\S*)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)", line)):
            profile, memory, number, uuid = found[1], int(found[2]), found[3], found[4]
            part = Gpu(f"{card.index}:{number}", uuid, memory * NOMINAL_MIB, f"{card.name} MIG {profile}")
            parts.setdefault(card.uuid, []).append(part)
    return tuple(gpu for card in cards for gpu in parts.get(card.uuid, [card]))


def visible(gpus: tuple[Gpu, ...], mask: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs that a ``CUDA_VISIBLE_DEVICES`` leaves, in its order; of a divided card's number, its first part."""
    if mask is None:
        return gpus
    chosen: list[Gpu] = []
    for word in (part.strip() for part in mask.split(",")):
        match = [
            gpu
            for gpu in gpus
            if word and (word in {gpu.index, gpu.index.partition(":")[0]} or gpu.uuid.startswith(word))
        ]
        if not match or match[0] in chosen:
            break  # CUDA stops at the first device that it does not know
        chosen.append(match[0])
    return tuple(chosen)


SETTINGS = (
    "Persistence Mode", "Compute Mode", "MIG Mode", "ECC Mode", "GPU Operation Mode", "Accounting Mode",
    "Current Power Limit", "Requested Power Limit", "Applications Clocks", "Max Customer Boost Clocks",
)  # fmt: skip


def parse_settings(text: str) -> dict[str, str]:
    """Read the settings of each card from what ``nvidia-smi -q`` prints: where they stand, and their values."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(" : "))
        depth = len(line) - len(line.lstrip())
        while path and path[-1][0] >= depth:
            path.pop()
        if not name:
            continue
        path.append((depth, name))
        where = " / ".join(step for _, step in path)
        if colon and any(setting in where for setting in SETTINGS):
            found[where] = value
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
