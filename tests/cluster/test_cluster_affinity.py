"""CPUs of its own for each calculation: never two on one while there are free ones, and all threads move."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.cluster import Pool, Profile
from grafico.cluster.affinity import Cpus, bind, own_cpus
from grafico.runs import read_starts

HERE = own_cpus()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 30)), max_size=40),
    st.integers(1, 12),
)
def test_two_calculations_share_a_cpu_only_where_none_is_free(tmp_path_factory, steps, size):
    folder = tmp_path_factory.mktemp("cpus")
    workers = [Cpus(range(size), folder), Cpus(range(size), folder)]  # two workers of one host
    held = []
    for start, count, which in steps:
        if start or not held:
            before = {cpu for _, taken in held for cpu in taken.cpus}
            taken = workers[which % 2].take(count)
            assert len(taken.cpus) == len(set(taken.cpus)) == min(count, size)
            shared = before & set(taken.cpus)
            assert len(shared) == max(0, min(count, size) - (size - len(before)))
            held.append((which % 2, taken))
        else:
            number, taken = held.pop(which % len(held))
            workers[number].give(taken)
    for number, taken in held:
        workers[number].give(taken)
    assert set(workers[0].take(size).cpus) == set(range(size))


def test_a_process_gets_its_last_cpus_again_if_they_are_free(tmp_path):
    cpus = Cpus(range(8), tmp_path)
    first, second = cpus.take(2), cpus.take(2)
    assert not set(first.cpus) & set(second.cpus)
    cpus.give(second)
    cpus.give(first)
    assert cpus.take(2, second.cpus).cpus == second.cpus


HOLDER = """
import sys, time
from pathlib import Path
from grafico.cluster.affinity import Cpus
print(Cpus(range(4), Path(sys.argv[1])).take(3).cpus, flush=True)
time.sleep(60)
"""


def test_cpus_of_a_killed_worker_are_free_again(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout.readline() == "(0, 1, 2)\n"
        mine = Cpus(range(4), tmp_path)
        one = mine.take(1)
        assert one.cpus == (3,)
        holder.kill()
        holder.wait()
    mine.give(one)
    assert mine.take(4).cpus == (0, 1, 2, 3)


THREADS = """
import threading, time
for _ in range(5):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(len(HERE) < 2, reason="one CPU here: there is nothing to move between")
def test_threads_that_exist_already_are_moved_too():
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(threads) == 6
        for cpus in ({HERE[0]}, {HERE[-1]}, set(HERE)):
            bind(process.pid, cpus)
            assert [os.sched_getaffinity(thread) for thread in threads] == [cpus] * 6
        process.kill()
    bind(process.pid, {HERE[0]})  # one that has ended is no mistake


@pytest.mark.skipif(len(HERE) < 2, reason="one CPU here: there is nothing to share out")
def test_calculations_run_on_cpus_of_their_own_and_warm_processes_move(on_cluster, task, paths):
    profile = Profile(name="pinned", pools=(Pool(name="cpu", cpus=len(HERE), memory_mib=8000, pin_cpus=True),))

    async def use(cluster):
        narrow = [
            asyncio.create_task(cluster.run(task(cases.where_it_runs, Number(value=n, seconds=0.2)))) for n in range(8)
        ]
        outcomes = await asyncio.gather(*narrow)
        wide = await cluster.run(task(cases.where_it_runs, Number(value=99), resources={"cpus": len(HERE)}))
        return outcomes, wide

    outcomes, wide = on_cluster(use, profile)
    assert [outcome for outcome in outcomes if not outcome.ok] == []
    ran = {outcome.output.value: outcome.output.text for outcome in outcomes}
    assert set(ran.values()) <= {str(cpu) for cpu in HERE}  # one each, and all threads of the process on it
    assert wide.output.text == ",".join(str(cpu) for cpu in HERE)
    assert len({outcome.output.pid for outcome in outcomes}) <= len(HERE)  # warm ones served several
    starts = {cases.where_it_runs.key(Number(value=n, seconds=0.2)): ran[n] for n in range(8)}
    records = [start for start in read_starts(paths) if start.key in starts]
    for one in records:
        for other in records:
            if one is not other and one.started < other.ended and other.started < one.ended:
                assert starts[one.key] != starts[other.key]
