"""Who is next: nobody starves, nothing is overfilled."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.calculations import Resources
from grafico.cluster import Pool, Profile
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.placement import Backlog, demand, refusal, taken

NODE = lay_out(
    Profile(
        name="node",
        pools=(
            Pool(name="gpu", gpus=4, simulated=True, gpu_memory_mib=900, memory_mib=40_000, cpus=12),
            Pool(name="cpu", cpus=4, memory_mib=8_000),
        ),
    )
)


def backlog(workers=NODE) -> Backlog[str]:
    made: Backlog[str] = Backlog(workers)
    for worker in workers:
        made.up(worker)
    return made


def ask(**resources) -> Resources:
    return Resources(**{"memory_mib": 100, **resources})


def test_small_ones_spread_over_the_gpus_and_three_fit_on_each():
    waiting = backlog()
    need = demand(ask(gpu="slot"), NODE)
    for n in range(20):
        waiting.add(need, f"{n}")
    placed = list(waiting.place())
    assert [p.item for p in placed] == [str(n) for n in range(12)]
    assert sorted(p.worker for p in placed) == sorted(f"gpu-{g}" for g in range(4) for _ in range(3))
    assert {p.worker for p in placed[:4]} == {f"gpu-{g}" for g in range(4)}


def test_an_exclusive_one_drains_one_gpu_and_small_ones_go_round_it():
    waiting = backlog()
    small, whole = demand(ask(gpu="slot"), NODE), demand(ask(gpu="exclusive"), NODE)
    for n in range(12):
        waiting.add(small, f"first {n}")
    running = list(waiting.place())
    waiting.add(whole, "whole")
    for n in range(100):
        waiting.add(small, f"later {n}")
    # Finish one calculation at a time, in the order of their start: the exclusive one must get its turn soon.
    for _ in range(20):
        done = running.pop(0)
        waiting.done(done.worker, done.part, small, 10.0)
        running += list(waiting.place())
        if any(p.item == "whole" for p in running):
            break
    else:
        raise AssertionError("the exclusive calculation starved")
    assert sum(p.item.startswith("later") for p in running) >= 6  # the other GPUs were kept busy


def test_a_gpu_that_is_idle_takes_exclusive_ones_first_until_small_ones_have_waited_long():
    now = 0.0
    one_gpu = [NODE[0]]
    waiting: Backlog[str] = Backlog(one_gpu, clock=lambda: now)
    waiting.up(one_gpu[0])
    small, whole = demand(ask(gpu="slot"), NODE), demand(ask(gpu="exclusive"), NODE)
    waiting.add(small, "small")
    for n in range(20):
        waiting.add(whole, f"whole {n}")
    turns = []
    while "small" not in turns:
        (placed,) = waiting.place()
        turns.append(placed.item)
        now += 100.0
        waiting.done("gpu-0", placed.part, whole, 100.0)
    assert turns == [*(f"whole {n}" for n in range(7)), "small"]


def test_cpu_calculations_do_not_wait_behind_those_for_gpus():
    waiting = backlog()
    for n in range(13):
        waiting.add(demand(ask(gpu="exclusive"), NODE), f"whole {n}")
    waiting.add(demand(ask(), NODE), "cpu")
    assert "cpu" in [p.item for p in waiting.place()]


def test_a_wide_calculation_is_not_starved_by_narrow_ones():
    waiting = backlog()
    narrow, wide = demand(ask(cpus=1), NODE), demand(ask(cpus=4), NODE)
    for n in range(4):
        waiting.add(narrow, f"first {n}")
    running = list(waiting.place())
    waiting.add(wide, "wide")
    for n in range(50):
        waiting.add(narrow, f"later {n}")
    for _ in range(4):
        done = running.pop(0)
        waiting.done(done.worker, done.part, narrow, 10.0)
        running += list(waiting.place())
    assert [p.item for p in running] == ["wide"]


def test_only_short_calculations_are_sent_ahead():
    for seconds, most in ((60.0, 12), (0.5, 12 + 4), (0.025, 12 + 4 * 6), (0.0001, 12 + 4 * 24)):
        waiting = backlog()
        need = demand(ask(gpu="slot"), NODE)
        waiting.add(need, "one")
        (first,) = waiting.place()
        waiting.done(first.worker, first.part, need, seconds)
        for n in range(200):
            waiting.add(need, f"{n}")
        assert len(list(waiting.place())) == most


def test_nothing_goes_to_a_worker_that_is_gone():
    waiting = backlog()
    waiting.down("cpu")
    waiting.add(demand(ask(), NODE), "cpu")
    assert list(waiting.place()) == []
    waiting.up(NODE[-1])
    assert len(list(waiting.place())) == 1


def test_what_can_never_run_is_refused_with_the_nearest():
    error = refusal(ask(gpu="slot", gpu_memory_mib=5000), NODE, "node")
    assert error is not None
    assert "900 MiB of GPU memory" in error.message
    error = refusal(ask(cpus=5), NODE, "node")
    assert error is not None
    assert "4 CPUs" in error.message
    gpus_only = [worker for worker in NODE if worker.is_gpu]
    error = refusal(ask(), gpus_only, "gpus")
    assert error is not None
    assert "no CPU workers" in error.message
    assert refusal(ask(gpu="exclusive"), NODE, "node") is None


def test_what_takes_longer_than_an_allocation_lives_is_refused_with_the_nearest():
    hours = tuple(replace(worker, walltime_s=3600.0 * (2 if worker.is_gpu else 1)) for worker in NODE)
    assert refusal(ask(walltime_s=3500.0), hours, "site") is None
    error = refusal(ask(walltime_s=3600.0), hours, "site")  # starting and ending take their time too
    assert error is not None
    assert "3600 s of walltime" in error.message
    assert "'cpu', has" in error.message
    assert "3570 s of walltime" in error.message
    assert refusal(ask(gpu="slot", walltime_s=7000.0), hours, "site") is None
    error = refusal(ask(gpu="slot", walltime_s=7200.0, gpu_memory_mib=100), hours, "site")
    assert error is not None
    assert "7170 s of walltime" in error.message
    error = refusal(ask(cpus=5, walltime_s=60.0), hours, "site")
    assert error is not None
    assert "walltime" not in error.message


requests = st.builds(
    ask,
    gpu=st.sampled_from(["none", "slot", "slot", "exclusive"]),
    gpu_memory_mib=st.integers(0, 900),
    cpus=st.integers(1, 4),
    memory_mib=st.integers(1, 8000),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=1, max_size=40), st.integers(0, 2**32))
def test_whatever_is_asked_all_is_placed_and_nothing_is_overfilled(asked, seed):
    chance = random.Random(seed)
    waiting = backlog()
    needs = {str(n): demand(r, NODE) for n, r in enumerate(asked)}
    for name, need in needs.items():
        waiting.add(need, name)
    by_name: dict[str, WorkerSpec] = {worker.name: worker for worker in NODE}
    running = list(waiting.place())
    seen = [p.item for p in running]
    while running:
        for worker in by_name.values():
            here = [p for p in running if p.worker == worker.name]
            for amount, capacity in worker.capacity.items():
                assert sum(p.part[amount] for p in here) <= capacity
        done = running.pop(chance.randrange(len(running)))
        waiting.done(done.worker, done.part, needs[done.item], None)
        new = list(waiting.place())
        running += new
        seen += [p.item for p in new]
    assert sorted(seen) == sorted(needs)
    assert all(taken(needs[item], by_name[p.worker]) is not None for item, p in zip(seen, running, strict=False))
