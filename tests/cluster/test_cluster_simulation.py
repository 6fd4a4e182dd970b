"""Schedules that are worked out beforehand, against sums that can be done by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import END_MARGIN_S, Demand
from grafico.cluster.simulate import Chains, Schedule, Step, simulate


def cpu(name: str = "cpu", cpus: int = 2, memory_mib: int = 10_000, walltime_s: float = 0.0) -> WorkerSpec:
    return WorkerSpec(name=name, pool="cpu", cpus=cpus, memory_mib=memory_mib, walltime_s=walltime_s)


def gpu(number: int, slots: int = 3) -> WorkerSpec:
    return WorkerSpec(
        name=f"gpu-{number}", pool="gpu", cpus=0, memory_mib=60_000, gpu=f"G{number}", slots=slots, vram_mib=30_000
    )


def needs(*, cpus: int = 1, memory: int = 100, walltime: float = 100.0) -> Demand:
    return Demand(gpu=False, whole=False, vram_mib=0, cpus=cpus, memory_mib=memory, walltime_s=walltime)


def on_gpu(*, whole: bool = False, vram: int = 0) -> Demand:
    return Demand(gpu=True, whole=whole, vram_mib=vram, cpus=1, memory_mib=100, walltime_s=100.0)


def lane(*phases: list[Chains]) -> list[list[Chains]]:
    return list(phases)


def one(seconds: float, need: Demand | None = None, *, count: int = 1, identity: str = "") -> list[Chains]:
    return [Chains((Step(need or needs(), seconds, identity),), count)]


def run(
    *lanes: list[list[Chains]], workers: list[WorkerSpec], open_at_once: int = 64, open_at_most: int | None = None
) -> Schedule:
    return simulate(lanes, workers, open_at_once=open_at_once, open_at_most=open_at_most)


def test_equal_calculations_go_in_rounds() -> None:
    found = run(lane(one(10, count=5)), workers=[cpu()])
    assert (found.makespan_s, found.steps) == (30, 5)
    assert found.share(cpu()) == pytest.approx(50 / 60)


def test_a_phase_waits_for_all_of_the_one_before_and_chains_do_not_wait_for_each_other() -> None:
    barrier = lane([Chains((Step(needs(), 10),)), Chains((Step(needs(), 2),))], one(5))
    assert run(barrier, workers=[cpu()]).makespan_s == 15
    chains = lane([Chains((Step(needs(), 10), Step(needs(), 1))), Chains((Step(needs(), 2), Step(needs(), 9)))])
    assert run(chains, workers=[cpu()]).makespan_s == 11


def test_calculations_of_one_identity_run_once_and_answer_all_who_ask() -> None:
    first = lane(one(10, identity="same"), one(1))
    second = lane(one(10, identity="same"), one(2))
    found = run(first, second, workers=[cpu()])
    assert (found.makespan_s, found.steps, found.shared) == (12, 3, 1)
    after = run(first, second, workers=[cpu()], open_at_once=1)
    assert (after.makespan_s, after.shared) == (13, 1)


def test_an_exclusive_calculation_takes_a_whole_gpu_and_memory_counts() -> None:
    whole = run(lane(one(10, on_gpu(whole=True), count=2)), workers=[gpu(0)])
    assert whole.makespan_s == 20
    assert run(lane(one(10, on_gpu(), count=6)), workers=[gpu(0), gpu(1)]).makespan_s == 10
    assert run(lane(one(10, on_gpu(vram=20_000), count=4)), workers=[gpu(0), gpu(1)]).makespan_s == 20


def test_lanes_are_open_only_so_many_at_once() -> None:
    lanes = [lane(one(1), one(1)) for _ in range(4)]
    assert run(*lanes, workers=[cpu(cpus=4)], open_at_once=1).makespan_s == 8
    assert run(*lanes, workers=[cpu(cpus=4)], open_at_once=4).makespan_s == 2
    assert run(*lanes, workers=[cpu(cpus=4)], open_at_once=4).lanes_s == [2, 2, 2, 2]


def test_lanes_that_wait_for_one_kind_of_worker_keep_no_other_kind_idle() -> None:
    lanes = [lane(one(10)) for _ in range(8)] + [lane(one(40, on_gpu()))]
    workers = [cpu(cpus=1), gpu(0)]
    assert run(*lanes, workers=workers, open_at_once=2).makespan_s == 70 + 40
    assert run(*lanes, workers=workers, open_at_once=2, open_at_most=4).makespan_s == 50 + 40
    assert run(*lanes, workers=workers, open_at_once=2, open_at_most=100).makespan_s == 80
    # Where the GPU has something to do, no more are opened than the bound says.
    busy = [lane(one(100, on_gpu(whole=True))), *lanes]
    assert run(*busy, workers=workers, open_at_once=3, open_at_most=100).makespan_s == 140


def test_a_host_that_lives_too_short_is_replaced() -> None:
    lives = 250.0 + END_MARGIN_S
    found = run(lane(*[one(90) for _ in range(5)]), workers=[cpu(walltime_s=lives)])
    # Two fit into a host's life with a walltime of 100 s each; the third begins on the next.
    assert (found.steps, found.stuck, found.makespan_s) == (5, 0, 450)
    never = run(lane(one(90, needs(walltime=500))), workers=[cpu(walltime_s=lives)])
    assert (never.steps, never.stuck) == (0, 1)


WORK = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=3),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(work=WORK, cpus=st.integers(2, 4))
def test_no_schedule_is_shorter_than_its_bounds_or_longer_than_one_after_another(
    work: list[list[tuple[int, int, int]]], cpus: int
) -> None:
    lanes = [lane(*[one(seconds, needs(cpus=c), count=n) for seconds, n, c in phases]) for phases in work]
    found = run(*lanes, workers=[cpu(cpus=cpus)])
    total = sum(seconds * n * c for phases in work for seconds, n, c in phases)
    longest = max(sum(seconds for seconds, _, _ in phases) for phases in work)
    assert found.stuck == 0
    assert max(total / cpus, longest) - 1e-9 <= found.makespan_s
    assert found.makespan_s <= sum(seconds * n for phases in work for seconds, n, _ in phases)
    # Never more than there are.
    for span in found.busy["cpu"]:
        there = sum(other.places for other in found.busy["cpu"] if other.start <= span.start < other.end)
        assert there <= cpus


def test_a_lane_may_know_thousands_of_its_steps_already() -> None:
    phases = [one(1, identity=f"step {number}") for number in range(1500)]
    chain = [[Chains(tuple(phase[0].steps[0] for phase in phases))]]
    for same in (phases, chain):
        found = run(same, same, workers=[cpu()], open_at_once=1)
        assert (found.makespan_s, found.steps, found.shared, len(found.lanes_s)) == (1500, 1500, 1500, 2)
