"""The pool of GPU memory, with CuPy and gpu4pyscf pretended (no GPU is needed); and the names that Dask shows."""

import importlib.machinery
import sys
import types

import pytest
from dask.utils import key_split

from grafico.calculations import CalculationTask, Resources
from grafico.cluster import child
from grafico.cluster.lanes import ticket_name
from grafico.cluster.order import Order


def order(device: str) -> Order:
    task = CalculationTask(
        reference="m:f", name="tddft", version="1", family="pyscf", key="a" * 64, input={}, resources=Resources()
    )
    return Order(
        task=task, run="/r", scratch="/s", worker="gpu-0", threads=1, device=device, gpu_memory_mib=1000,
        preload=("gpu4pyscf",),
    )  # fmt: skip


@pytest.fixture
def cupy(monkeypatch):
    done: list[str] = []

    def pool(name):
        return types.SimpleNamespace(
            set_limit=lambda size: done.append(f"{name} limit {size}"),
            free_all_blocks=lambda: done.append(f"{name} free"),
        )

    module = types.ModuleType("cupy")
    module.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    pools = {"device": pool("device"), "pinned": pool("pinned")}
    module.get_default_memory_pool = lambda: pools["device"]
    module.get_default_pinned_memory_pool = lambda: pools["pinned"]
    module.cuda = types.SimpleNamespace(
        is_available=lambda: True, runtime=types.SimpleNamespace(CUDARuntimeError=RuntimeError)
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return done


def test_the_pool_gets_the_share_of_the_slot_after_gpu4pyscf_has_set_its_own(cupy, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "gpu4pyscf", raising=False)
    (tmp_path / "gpu4pyscf.py").write_text("import cupy\ncupy.get_default_memory_pool().set_limit(size=90)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    child.limit_gpu_memory(order("gpu"))
    assert cupy == ["device limit 90", f"device limit {1000 * 2**20}"]
    sys.modules.pop("gpu4pyscf")


def test_the_pools_are_freed_after_each_calculation(cupy):
    child.free_gpu_memory(order("gpu"))
    assert cupy == ["device free", "pinned free"]


def test_nothing_of_this_touches_a_process_without_a_gpu(cupy):
    child.limit_gpu_memory(order("cpu"))
    child.free_gpu_memory(order("cpu"))
    assert cupy == []


@pytest.mark.parametrize("label", ["tddft · conformer 3", "tddft · conf-002", "tddft", ""])
def test_dask_groups_tasks_by_the_calculation_and_people_read_the_lane(label):
    task = order("cpu").task.model_copy(update={"label": label, "key": "deadbeef" * 8})
    name = ticket_name(task, "0badcafe", 1)
    assert key_split(name) == "tddft"
    assert label.partition(" · ")[2].replace("-", "_") in name
    assert name != ticket_name(task, "0badcafe", 2)
