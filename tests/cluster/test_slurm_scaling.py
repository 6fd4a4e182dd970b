"""How many hosts each pool gets: what waits is served, the largest number is kept, nothing useful is given back."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Demand, Pending
from grafico.cluster.slurm.scaling import PoolState, Standing, decide, fitting
from grafico.cluster.slurm.settings import Scale

HOUR = 3600.0


def cpu_host(cpus=4, walltime_s=0.0, memory_mib=100_000):
    return (WorkerSpec("cpu-1-0", "cpu", cpus, memory_mib, host="1", walltime_s=walltime_s),)


def gpu_host(cards=4, walltime_s=0.0):
    return tuple(
        WorkerSpec(f"gpu-1-{n}", "gpu", 0, 40_000, gpu=f"g{n}", slots=3, vram_mib=9000, host="1", walltime_s=walltime_s)
        for n in range(cards)
    )


def need(*, gpu=False, whole=False, cpus=1, walltime_s=60.0, memory_mib=100):
    return Demand(gpu=gpu, whole=whole, vram_mib=0, cpus=cpus, memory_mib=memory_mib, walltime_s=walltime_s)


def waits(count, oldest_s=100.0, **what):
    return Pending(need=need(**what), count=count, oldest_s=oldest_s)


def pool(name="cpu", *, least=0, most=4, workers=None, **state):
    return PoolState(name, Scale(min=least, max=most), workers or cpu_host(), **state)


def one(state):
    return decide([state])[state.name]


def test_a_host_takes_as_many_calculations_as_fit():
    assert fitting(need(cpus=2), cpu_host(4)) == 2
    assert fitting(need(memory_mib=60_000), cpu_host(4)) == 1
    assert fitting(need(gpu=True), gpu_host()) == 12
    assert fitting(need(gpu=True, whole=True), gpu_host()) == 4
    assert fitting(need(gpu=True), cpu_host()) == 0
    assert fitting(need(walltime_s=2 * HOUR), cpu_host(walltime_s=HOUR)) == 0


def test_hosts_are_asked_for_as_what_waits_needs_them_and_never_more_than_the_largest_number():
    assert one(pool()).submit == 0
    assert one(pool(pending=[waits(1)])).submit == 1
    assert one(pool(pending=[waits(4)])).submit == 1
    assert one(pool(pending=[waits(5)])).submit == 2
    assert one(pool(pending=[waits(1, cpus=4), waits(4)])).submit == 2
    assert one(pool(pending=[waits(1000)])).submit == 4
    assert one(pool(pending=[waits(1000)], hosts=[Standing("1", True, True), Standing("2")])).submit == 2


def test_the_first_host_is_asked_for_at_once_and_others_when_something_has_waited():
    fresh = [waits(9, oldest_s=0.1)]
    assert one(pool(pending=fresh)).submit == 3
    assert one(pool(pending=fresh, hosts=[Standing("1", True, True)])).submit == 0
    assert one(pool(pending=[waits(9)], hosts=[Standing("1", True, True)])).submit == 3


def test_hosts_that_are_queued_or_idle_are_counted_before_more_are_asked_for():
    queued = [Standing("1"), Standing("2")]
    assert one(pool(pending=[waits(8)], hosts=queued)).submit == 0
    assert one(pool(pending=[waits(9)], hosts=queued)).submit == 1
    idle = [Standing("1", True, False, 1.0), Standing("2", True, True)]
    assert one(pool(pending=[waits(4)], hosts=idle)).submit == 0
    assert one(pool(pending=[waits(5)], hosts=idle)).submit == 1


def test_a_fixed_number_of_hosts_is_kept_and_lost_ones_are_replaced():
    assert one(pool(least=3, most=3)).submit == 3
    up = [Standing(str(n), True, False, 10_000.0) for n in range(3)]
    assert one(pool(least=3, most=3, hosts=up)) == (3, 0, ())
    assert one(pool(least=3, most=3, hosts=up[:2])).submit == 1
    # What has been given back is still in the queue: its place is free when it is gone.
    assert one(pool(least=3, most=3, hosts=[*up[:2], Standing("x", ending=True)])).submit == 0


def test_idle_hosts_are_given_back_after_a_while_the_longest_idle_first():
    hosts = [Standing("a", True, False, 50.0), Standing("b", True, False, 500.0), Standing("c", True, True)]
    assert one(pool(hosts=hosts)).retire == ("b",)
    hosts = [Standing("a", True, False, 130.0), Standing("b", True, False, 500.0), Standing("c", True, True)]
    assert one(pool(hosts=hosts, least=2)).retire == ("b",)
    assert one(pool(hosts=hosts, least=3)).retire == ()


def test_hosts_in_the_queue_are_taken_back_when_nothing_has_waited_for_long():
    queued = [Standing("1"), Standing("2")]
    assert one(pool(hosts=queued, quiet_s=10.0)).retire == ()
    assert one(pool(hosts=queued, quiet_s=500.0)).retire == ("2", "1")
    assert one(pool(hosts=queued, quiet_s=500.0, least=1)).retire == ("2",)
    assert one(pool(hosts=queued, pending=[waits(1)], quiet_s=0.0)).retire == ()


def test_what_is_long_does_not_count_on_a_host_that_ends_soon():
    dying = Standing("1", True, False, 5.0, left_s=600.0)
    long = waits(1, walltime_s=HOUR)
    decision = one(pool(workers=cpu_host(walltime_s=8 * HOUR), hosts=[dying], pending=[long]))
    assert decision.submit == 1
    assert decision.retire == ("1",), "nothing that waits fits into its time, and it costs"
    both = [long, waits(1, walltime_s=60.0)]
    decision = one(pool(workers=cpu_host(walltime_s=8 * HOUR), hosts=[dying], pending=both))
    assert decision == (2, 1, ())


def test_short_calculations_leave_the_host_that_lives_long_to_the_long_one():
    hosts = [Standing("long", True, left_s=8 * HOUR), Standing("short", True, left_s=600.0)]
    pending = [waits(4, walltime_s=60.0), waits(4, walltime_s=HOUR)]
    assert one(pool(workers=cpu_host(walltime_s=8 * HOUR), hosts=hosts, pending=pending)).submit == 0


def test_pools_serve_their_own_kind():
    cpu, gpu = pool(pending=[waits(6)]), pool("gpu", workers=gpu_host(), pending=[waits(13, gpu=True)])
    found = decide([cpu, gpu])
    assert found["cpu"].submit == 2
    assert found["gpu"].submit == 2


def test_what_two_pools_could_run_is_asked_for_once():
    both = [waits(6)]
    found = decide([pool("one", most=1, pending=both), pool("two", pending=both)])
    assert (found["one"].submit, found["two"].submit) == (1, 1)
    found = decide([pool("one", pending=both), pool("two", pending=both, hosts=[Standing("9"), Standing("10")])])
    assert (found["one"].submit, found["two"].submit) == (0, 0), "two hosts are on their way already"
    found = decide([pool("one", pending=both, may_submit=False), pool("two", pending=both)])
    assert (found["one"].submit, found["two"].submit) == (0, 2)


KINDS = st.builds(
    waits,
    st.integers(1, 60),
    st.sampled_from([0.0, 1.0, 5.0, 900.0]),
    cpus=st.integers(1, 4),
    walltime_s=st.sampled_from([10.0, 600.0, 2 * HOUR]),
)
HOSTS = st.lists(
    st.builds(
        Standing,
        st.uuids().map(str),
        st.booleans(),
        st.booleans(),
        st.sampled_from([0.0, 100.0, 1000.0]),
        st.sampled_from([5.0, 700.0, 3 * HOUR, float("inf")]),
        st.booleans(),
    ),
    max_size=6,
)
POOLS = st.builds(
    lambda least, more, hosts, pending, quiet, may: pool(
        least=least, most=max(1, least + more), hosts=hosts, pending=pending, quiet_s=quiet, may_submit=may,
        workers=cpu_host(walltime_s=3 * HOUR),
    ),
    st.integers(0, 3), st.integers(0, 4), HOSTS, st.lists(KINDS, max_size=4), st.sampled_from([0.0, 1000.0]), st.booleans(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(POOLS)
def test_any_pool_stays_within_its_numbers(state):
    decision = one(state)
    staying = [host for host in state.hosts if not host.ending]
    assert decision.submit >= 0
    assert decision.submit <= max(0, state.scale.max - len(state.hosts))
    assert state.may_submit or decision.submit == 0
    assert set(decision.retire) <= {host.label for host in staying if not (host.up and host.busy)}
    assert len(set(decision.retire)) == len(decision.retire)
    left = len(staying) + decision.submit - len(decision.retire)
    room = state.scale.max >= len(state.hosts)
    useless = [h for h in staying if h.up and h.label in decision.retire and h.left_s < 2 * HOUR + 60]
    if state.may_submit and room and not useless:
        assert left >= min(state.scale.min, state.scale.max - (len(state.hosts) - len(staying)))


@settings(max_examples=150, deadline=None)
@given(POOLS)
def test_any_pool_asks_for_what_waits_and_for_no_more(state):
    decision = one(state)
    hosts = state.workers
    needed = sum(item.count / fitting(item.need, hosts) for item in state.pending)
    staying = sum(not host.ending for host in state.hosts)
    kinds = len({item.need for item in state.pending})
    # Whole calculations do not fill hosts to the brim: each kind may leave one of them open.
    assert decision.submit <= max(state.scale.min - staying, math.ceil(needed) + kinds, 0)
    patient = [item for item in state.pending if item.oldest_s >= 2.0 or not state.hosts]
    if patient and state.may_submit and not decision.submit:
        able = [h for h in state.hosts if not h.ending and not (h.up and h.busy)]
        assert able or len(state.hosts) >= state.scale.max, "it waits, there is nobody, and nobody is asked for"


@settings(max_examples=50, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=4), st.integers(1, 5))
def test_whatever_waits_is_served_in_the_end(kinds, most):
    """Hosts come up, work and go: all that waited gets a place, and at the end nothing is left."""
    left = {(item.need, number): item.count for number, item in enumerate(kinds)}
    hosts: list[str] = []
    for turn in range(1000):
        pending = [Pending(need=need, count=count, oldest_s=100.0) for (need, _), count in left.items() if count]
        standing = [Standing(label, True, False, 0.0 if pending else 1000.0, 2.9 * HOUR) for label in hosts]
        state = pool(most=most, hosts=standing, pending=pending, workers=cpu_host(walltime_s=3 * HOUR))
        decision = one(state)
        hosts = [label for label in hosts if label not in decision.retire]
        hosts += [f"{turn}-{n}" for n in range(decision.submit)]
        assert len(hosts) <= most
        if not pending and not hosts:
            return
        for _ in hosts:  # each serves what it can of one kind a turn
            name = next((name for name, count in left.items() if count), None)
            if name is not None:
                left[name] = max(0, left[name] - fitting(name[0], state.workers))
    raise AssertionError(f"left: {left}, hosts: {hosts}")
