"""Tests that need a real GPU: ``pytest tests/gpu``. Without one they are not collected, and say so."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from grafico.calculations import WorkContext
from grafico.graphs import FolderArtifacts


def gpu_is_there() -> bool:
    """Whether this process can reach a GPU."""
    if importlib.util.find_spec("cupy") is None or importlib.util.find_spec("gpu4pyscf") is None:
        return False
    import cupy

    return bool(cupy.cuda.is_available())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def a_gpu() -> None:
    if not gpu_is_there():
        if os.environ.get("GRAFICO_REQUIRE_GPU"):
            pytest.fail("GRAFICO_REQUIRE_GPU is set, and cupy sees no GPU here")
        pytest.skip("no GPU here (cupy and gpu4pyscf must be installed and see one)")


@pytest.fixture
def work(tmp_path: Path) -> Any:
    """Make a WorkContext for a device."""

    def make(device: str) -> WorkContext:
        return WorkContext(
            artifacts=FolderArtifacts(tmp_path), scratch=tmp_path, memory_mib=3000, device=device, gpu_memory_mib=8000
        )

    return make
