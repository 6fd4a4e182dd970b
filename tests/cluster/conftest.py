"""A run folder, leases of its own, and a short way to a task."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from grafico.cluster import Pool, Profile, open_cluster
from grafico.cluster.builtin import LAPTOP
from grafico.runs import RunPaths

SIMULATED = Profile(
    name="simulated",
    pools=(Pool(name="gpu", gpus=4, simulated=True, gpu_memory_mib=900, memory_mib=40_000, cpus=12),),
)


@pytest.fixture(autouse=True)
def own_leases(tmp_path_factory, monkeypatch):
    """Keep the leases of one test apart from those of others that run at the same time."""
    folder = tmp_path_factory.mktemp("leases")
    folder.chmod(0o700)
    monkeypatch.setenv("GRAFICO_LEASES", str(folder))
    return folder


@pytest.fixture
def paths(tmp_path):
    paths = RunPaths(tmp_path / "run")
    paths.create()
    return paths


@pytest.fixture
def task():
    def make(calculation, value, **given):
        resources = calculation.resources(value).model_copy(update=given.pop("resources", {}))
        label = given.pop("label", f"{calculation.name} · {value.tag}")
        return calculation.task(value, resources=resources, label=label, **given)

    return make


@pytest.fixture
def on_cluster(paths):
    """Run ``await use(cluster)`` on a cluster of its own."""

    def run(use, profile=LAPTOP):
        async def main():
            async with open_cluster(profile, paths.root) as cluster:
                return await use(cluster)

        return asyncio.run(main())

    return run


def alive(pid: int) -> bool:
    """Whether a process runs (one that waits to be reaped does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds: float = 20.0, what: str = "it"):
    """Poll until a condition holds; fail the test if it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def marked(tag: str) -> set[int]:
    """Return the processes whose environment holds ``GRAFICO_TEST_TAG=tag``."""
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                if f"GRAFICO_TEST_TAG={tag}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.add(int(name))
            except OSError:
                continue
    return {pid for pid in found if alive(pid)}


@pytest.fixture
def helpers():
    class Helpers:
        pass

    Helpers.alive = staticmethod(alive)
    Helpers.wait_until = staticmethod(wait_until)
    Helpers.marked = staticmethod(marked)
    Helpers.simulated = SIMULATED
    return Helpers
