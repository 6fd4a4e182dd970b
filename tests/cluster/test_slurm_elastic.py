"""The elastic fleet where something that it needs is not there. What it does with a real Slurm stands in tests/slurm."""

import asyncio
import importlib.util

import pytest

from grafico.calculations import CalculationTask, Resources
from grafico.cluster.builtin import SLURM_H100
from grafico.cluster.fleet import PoolStatus, fleet_for
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Demand, Pending
from grafico.cluster.presence import Presence
from grafico.errors import MissingExtra, ProfileError


def test_without_dask_jobqueue_its_extra_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "dask_jobqueue" else find(name))
    with pytest.raises(MissingExtra) as caught:
        fleet_for(SLURM_H100, tmp_path, "tls://127.0.0.1:1")
    assert "grafico[slurm]" in (caught.value.hint or "")


def test_without_slurm_it_is_told_where_to_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")

    async def start():
        fleet = fleet_for(SLURM_H100, tmp_path, "tls://127.0.0.1:1")
        assert [pool.pool for pool in fleet.status()] == ["gpu", "cpu"]
        await fleet.start()

    with pytest.raises(ProfileError, match="sbatch is not there") as caught:
        asyncio.run(start())
    assert "login node" in (caught.value.hint or "")


CPU = WorkerSpec("cpu-1-0", "cpu", 2, 1000, host="1")


def test_what_no_host_lasts_for_is_refused_and_what_one_does_is_not():
    def task(walltime_s):
        resources = Resources(memory_mib=100, walltime_s=walltime_s)
        return CalculationTask(
            reference="m:f",
            name="f",
            version="1",
            family="python",
            key="0" * 64,
            input={},
            resources=resources,
            label="a",
        )

    presence = Presence("p", (CPU,), lambda name: "")
    assert presence.hopeless(task(3600)) is None
    presence.pools = (PoolStatus(pool="cpu", life_s=290.0, life_of="Slurm job 7, whose nodes these are, has"),)
    assert presence.hopeless(task(260)) is None
    with pytest.raises(
        ProfileError, match=r"a may take 261 s, and no host lasts so long: Slurm job 7, whose .* has 290 s"
    ):
        presence.hopeless(task(261))
    presence.expected = (CPU, WorkerSpec("two-1-0", "two", 2, 1000, host="1"))
    assert presence.hopeless(task(3600)) is None, "another pool's hosts last"


def test_what_waits_beside_workers_with_too_little_time_says_so():
    waits = [Pending(need=Demand(False, False, 0, 1, 100, 600.0), count=1, oldest_s=0.0)]
    presence = Presence("p", (CPU,), lambda name: "")
    assert presence.awaited(waits, [(CPU, 700.0)]) == ""
    assert presence.awaited(waits, [(CPU, float("inf"))]) == ""
    assert presence.awaited(waits, [(CPU, 600.0)]) == (
        "waiting for a worker: pool cpu whose workers have too little time left"
    )
    assert presence.awaited(waits, []) == "waiting for a worker: pool cpu"
