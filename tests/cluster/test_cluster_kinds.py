"""Small, exclusive and CPU calculations at once on real workers with simulated GPUs: every kind makes progress."""

import asyncio

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number

from grafico.cluster import Pool, Profile
from grafico.runs import read_starts

TWO_CARDS = Profile(
    name="cards",
    pools=(
        Pool(name="gpu", gpus=2, simulated=True, gpu_memory_mib=900, memory_mib=9000, cpus=2),
        Pool(name="cpu", cpus=1, memory_mib=2000),
    ),
)


@pytest.mark.slow
def test_a_crowd_of_small_ones_that_came_first_lets_every_other_kind_through(on_cluster, task, paths):
    crowd, few = 120, 4

    async def use(cluster):
        def one(number, kind, **resources):
            given = {"memory_mib": 400, "walltime_s": 60, **resources}
            return cluster.run(
                task(cases.sleep, Number(value=number, tag=kind, seconds=0.1), resources=given, label=kind)
            )

        runs = [one(n, "small", gpu="slot", gpu_memory_mib=100) for n in range(crowd)]
        first = [asyncio.ensure_future(run) for run in runs]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        later = [one(n, "whole", gpu="exclusive") for n in range(few)]
        later += [one(n, "large", gpu="slot", gpu_memory_mib=800) for n in range(few)]
        later += [one(n, "cpu") for n in range(few)]
        return await asyncio.gather(*first, *later)

    assert all(outcome.ok for outcome in on_cluster(use, TWO_CARDS))
    order = [start.label for start in sorted(read_starts(paths), key=lambda start: start.started)]
    last_small = len(order) - 1 - order[::-1].index("small")
    for kind in ("whole", "large", "cpu"):
        assert order.count(kind) == few
        assert order.index(kind) < last_small - 10, f"{kind} had to wait for the whole crowd"
