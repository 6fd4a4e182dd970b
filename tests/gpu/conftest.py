"""Tests that need a real GPU: ``pytest tests/gpu``, under five minutes on one card. Without one they say so.

Unverified: there was no GPU where they were written. They were written for one NVIDIA card with a driver for CUDA 12 or
13, cupy and gpu4pyscf; the figures that they print are what they found.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafico.bench.gpu import need_a_gpu
from grafico.calculations import Calculation, CalculationTask, WorkContext
from grafico.cluster import Pool, Profile, open_cluster
from grafico.cluster.hardware import Gpu, gpu_settings
from grafico.errors import GraficoError
from grafico.graphs import FolderArtifacts
from grafico.runs import RunPaths


def missing() -> str:
    """Return why nothing here can run; empty if it can."""
    try:
        need_a_gpu()
    except GraficoError as error:
        return f"{error.message} ({error.hint})"
    import cupy

    return "" if cupy.cuda.is_available() else "cupy is installed and sees no GPU here: see `nvidia-smi`"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def why_not() -> str:
    return missing()


@pytest.fixture(autouse=True)
def a_gpu(why_not: str, settings_stay: None) -> None:
    if why_not:
        if os.environ.get("GRAFICO_REQUIRE_GPU"):
            pytest.fail(f"GRAFICO_REQUIRE_GPU is set: {why_not}")
        pytest.skip(why_not)


@pytest.fixture(scope="session")
def settings_stay(why_not: str) -> Any:
    """Ask the driver before all tests and after them: modes, limits of power and clocks are as they were."""
    before = gpu_settings()
    yield
    if not why_not:
        assert before
        assert gpu_settings() == before


@pytest.fixture
def card() -> Gpu:
    return need_a_gpu()


@pytest.fixture
def work(tmp_path: Path) -> Any:
    """Make a WorkContext for a device."""

    def make(device: str) -> WorkContext:
        return WorkContext(
            artifacts=FolderArtifacts(tmp_path), scratch=tmp_path, memory_mib=3000, device=device, gpu_memory_mib=8000
        )

    return make


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "run")
    paths.create()
    return paths


@pytest.fixture
def on_card(card: Gpu, paths: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run ``await use(cluster)`` with workers for one card and a CPU."""
    leases = tmp_path / "leases"
    leases.mkdir(mode=0o700)
    monkeypatch.setenv("GRAFICO_LEASES", str(leases))

    def run(use: Callable[[Any], Any], **given: Any) -> Any:
        pools = (Pool(name="gpu", gpus=(card.uuid,), **{"cpus": 3, **given}), Pool(name="cpu", cpus=1))

        async def main() -> Any:
            async with open_cluster(Profile(name="gpu-tests", pools=pools), paths.root) as cluster:
                return await use(cluster)

        return asyncio.run(main())

    return run


@pytest.fixture
def task() -> Callable[..., CalculationTask]:
    def make(calculation: Calculation[Any, Any], value: Any, **resources: Any) -> CalculationTask:
        return calculation.task(value, resources=calculation.resources(value).model_copy(update=resources))

    return make
