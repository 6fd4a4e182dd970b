"""The elastic fleet where something that it needs is not there. What it does with a real Slurm stands in tests/slurm."""

import asyncio
import importlib.util

import pytest

from grafico.cluster.builtin import SLURM_H100
from grafico.cluster.fleet import fleet_for
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
