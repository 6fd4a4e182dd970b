"""The at-most-three rule on simulated GPUs, checked from the workers' own start records."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number

from grafico.cluster import Pool, Profile
from grafico.cluster.leases import Lease
from grafico.runs import read_starts

CARD = 900
"""GPU memory of the simulated cards, MiB."""


def busiest(starts, weigh=lambda start: 1) -> dict[str, float]:
    """Return the most that ran on each GPU at one time."""
    most: dict[str, float] = {}
    for gpu in {start.gpu for start in starts}:
        events = []
        for start in starts:
            if start.gpu == gpu:
                assert start.ended is not None
                events += [(start.started, 1, weigh(start)), (start.ended, 0, -weigh(start))]
        now = 0.0
        for _, _, weight in sorted(events):
            now += weight
            most[gpu] = max(most.get(gpu, 0.0), now)
    return most


@pytest.mark.slow
def test_never_more_than_three_on_a_gpu_with_exclusive_ones_and_memory(on_cluster, task, paths, helpers):
    shapes = {
        "small": {"gpu": "slot", "gpu_memory_mib": 100},
        "plain": {"gpu": "slot"},
        "large": {"gpu": "slot", "gpu_memory_mib": 500},
        "whole": {"gpu": "exclusive"},
    }
    names = ["small", "plain", "large", "small", "whole", "plain"] * 10
    needs = {"small": 100, "plain": CARD // 3, "large": 500, "whole": CARD}

    async def use(cluster):
        assert len(cluster.specs) == 4
        return await asyncio.gather(
            *(
                cluster.run(
                    task(cases.sleep, Number(value=n, tag=name, seconds=0.05), resources=shapes[name], label=name)
                )
                for n, name in enumerate(names)
            )
        )

    outcomes = on_cluster(use, helpers.simulated)
    assert all(outcome.ok for outcome in outcomes)
    starts = read_starts(paths)
    assert len(starts) == len(names)
    assert {start.gpu for start in starts} == {f"simulated-{n}" for n in range(4)}
    assert max(busiest(starts).values()) <= 3
    assert max(busiest(starts, lambda start: 3 if start.label == "whole" else 1).values()) <= 3
    assert max(busiest(starts, lambda start: needs[start.label]).values()) <= CARD
    for start in starts:
        assert len(start.slot.split(",")) == (3 if start.label == "whole" else 1)


def test_a_simulated_gpu_shows_no_real_one(on_cluster, task, helpers):
    async def use(cluster):
        return await cluster.run(task(cases.surroundings, Number(), resources={"gpu": "slot"}))

    said = dict(line.split("=", 1) for line in on_cluster(use, helpers.simulated).output.text.splitlines())
    assert said["CUDA_VISIBLE_DEVICES"] == ""
    assert said["GRAFICO_SIMULATED_GPU"].startswith("simulated-")
    assert said["vram"] == str(CARD // 3)


CONTROLLER = """
import asyncio, sys
from pathlib import Path
import calculations_for_tests as cases
from grafico.calculations import Resources
from grafico.cluster import Pool, Profile, open_cluster

async def main():
    root, name = Path(sys.argv[1]), sys.argv[2]
    pool = Pool(name="gpu", gpus=1, simulated=True, gpu_memory_mib=900, memory_mib=9000, cpus=3)
    async with open_cluster(Profile(name="one", pools=(pool,)), root) as cluster:
        async def one(n):
            gpu = "exclusive" if n % 6 == 5 else "slot"
            value = cases.Number(value=n, tag=name, seconds=0.1)
            resources = Resources(gpu=gpu, memory_mib=500, walltime_s=30)
            return await cluster.run(cases.sleep.task(value, resources=resources, label=gpu))
        outcomes = await asyncio.gather(*(one(n) for n in range(18)))
        sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)

asyncio.run(main())
"""


@pytest.mark.slow
def test_two_runs_without_a_common_scheduler_share_the_rule(tmp_path):
    from grafico.runs import RunPaths

    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
    }
    runs = [RunPaths(tmp_path / name) for name in ("one", "two")]
    for run in runs:
        run.create()
    controllers = [
        subprocess.Popen([sys.executable, "-c", CONTROLLER, str(run.root), run.name], env=environment) for run in runs
    ]
    assert [controller.wait(120) for controller in controllers] == [0, 0]
    one, two = (read_starts(run) for run in runs)
    assert len(one) == len(two) == 18
    both = one + two
    assert max(busiest(both, lambda start: 3 if start.label == "exclusive" else 1).values()) <= 3
    overlap = [a for a in one for b in two if a.started < b.ended and b.started < a.ended]
    assert overlap, "the two runs did not run at the same time"


def test_a_lease_on_files_that_were_removed_meanwhile_is_taken_anew(own_leases):
    """As systemd does with a user's files in shared memory when the last login of the user ends."""
    one = {"slots": 1, "whole": False, "need_mib": 0, "card_mib": 0}
    first = Lease.take(own_leases, "GPU-a", **one)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(Lease.take, own_leases, "GPU-a", **one)
        time.sleep(0.2)
        shutil.rmtree(own_leases)
        first.release()
        second = waiting.result(10)
        third = pool.submit(Lease.take, own_leases, "GPU-a", **one)
        with pytest.raises(TimeoutError):
            third.result(0.3)
        second.release()
        third.result(10).release()


def test_nothing_waits_for_another_run_s_gpu_while_one_beside_it_is_idle(on_cluster, task, paths, own_leases):
    pool = Pool(name="gpu", gpus=2, simulated=True, gpu_memory_mib=CARD, memory_mib=8000, cpus=2)
    other = Lease.take(own_leases, "simulated-0", slots=3, whole=True, need_mib=CARD, card_mib=CARD)

    async def use(cluster):
        lanes = [task(cases.double, Number(value=n), resources={"gpu": "slot"}) for n in range(3)]
        lanes.append(task(cases.double, Number(value=9), resources={"gpu": "exclusive"}))
        return await asyncio.wait_for(asyncio.gather(*map(cluster.run, lanes)), 60)

    try:
        outcomes = on_cluster(use, Profile(name="two", pools=(pool,)))
    finally:
        other.release()
    assert all(outcome.ok for outcome in outcomes)
    assert {start.gpu for start in read_starts(paths)} == {"simulated-1"}


def test_where_other_runs_have_all_gpus_one_waits_in_line_with_them(on_cluster, task, paths, own_leases):
    pool = Pool(name="gpu", gpus=1, simulated=True, gpu_memory_mib=CARD, memory_mib=8000, cpus=2)
    other = Lease.take(own_leases, "simulated-0", slots=3, whole=True, need_mib=CARD, card_mib=CARD)

    async def use(cluster):
        lane = asyncio.create_task(cluster.run(task(cases.double, Number(), resources={"gpu": "slot"})))
        whole = asyncio.create_task(cluster.run(task(cases.double, Number(value=1), resources={"gpu": "exclusive"})))
        await asyncio.sleep(6)
        assert read_starts(paths) == []
        other.release()
        return await asyncio.wait_for(asyncio.gather(lane, whole), 60)

    assert all(outcome.ok for outcome in on_cluster(use, Profile(name="one", pools=(pool,))))
