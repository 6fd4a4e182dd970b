"""No kind starves behind another: loads of many kinds in virtual time, on workers that come and go."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Job, Simulation, node

from grafico.calculations import Resources
from grafico.cluster.placement import Backlog, Placed, demand
from grafico.cluster.placement.stations import Station

PATIENCE = 600.0

LOADS = {
    "small": {"gpu": "slot", "gpu_memory_mib": 100},
    "large": {"gpu": "slot", "gpu_memory_mib": 700},
    "whole": {"gpu": "exclusive"},
    "narrow": {"cpus": 1},
    "wide": {"cpus": 8},
    "fat": {"cpus": 1, "memory_mib": 12_000},
}


@pytest.mark.parametrize("crowd", LOADS)
@pytest.mark.parametrize("seconds", [5.0, 200.0])
def test_behind_a_crowd_of_any_kind_every_other_kind_makes_progress(crowd, seconds):
    run = Simulation(node())
    run.ask(crowd, 1500, seconds, **LOADS[crowd])
    run.run(until=3 * seconds)
    for kind, resources in LOADS.items():
        if kind != crowd:
            run.ask(kind, 12, seconds, **resources)
    run.run()
    patience = min(PATIENCE, 10 * seconds)
    for kind in LOADS:
        assert all(job.ended > 0 for job in run.of(kind))
        # Its patience, and what has to end first on the worker that is kept for it; some kinds wait for each other.
        assert run.gaps(kind) <= 3 * (patience + seconds), kind


def test_exclusive_ones_do_not_starve_the_small_ones_that_came_later_either():
    run = Simulation(node(gpus=1, cpus=0))
    run.ask("whole", 300, 60.0, gpu="exclusive")
    run.run(until=10.0)
    run.ask("small", 30, 60.0, gpu="slot")
    run.run()
    assert run.gaps("small") <= PATIENCE + 2 * 60.0
    # A starving kind fills the worker that it gets: three at a time, not one on a GPU of its own.
    starts = [job.started for job in run.of("small")]
    assert len(set(starts)) <= 12


def test_kinds_that_are_all_different_are_served_in_the_order_of_their_age():
    run = Simulation(node())
    chance = random.Random(3)
    for number in range(400):
        run.now = number * 2.0
        gpu = chance.choice(["none", "slot", "slot", "exclusive"])
        mib = chance.randrange(50, 800)
        run.ask(gpu, 1, 20.0, gpu=gpu, memory_mib=mib, gpu_memory_mib=0 if gpu == "none" else mib)
    run.run()
    waits = [job.started - job.asked for job in run.jobs]
    rest = sum(job.seconds * {"none": 0, "slot": 1, "exclusive": 3}[job.kind] for job in run.jobs) / 12
    assert max(waits) < 2 * rest
    assert all(job.ended > 0 for job in run.jobs)


def test_a_gap_that_an_older_one_waits_for_is_filled_with_what_is_over_by_then():
    run = Simulation(node(gpus=1, cpus=0))
    for kind, seconds in (("long", 1000.0), ("short", 5.0)):
        run.ask(kind, 1, seconds, gpu="slot", memory_mib=200 if kind == "long" else 100)
    run.run(until=50.0)  # how long a short one takes is known now; the long one runs
    (whole,) = run.ask("whole", 1, 60.0, gpu="exclusive")
    run.ask("short", 300, 5.0, gpu="slot")
    run.run()
    assert whole.started == 1000.0
    assert sum(job.started < 1000.0 for job in run.of("short")) == 301


def test_a_worker_is_not_given_what_it_may_not_live_to_finish():
    early, late = (replace(node(gpus=1, cpus=0)[0], name=name, gpu=name) for name in ("early", "late"))
    run = Simulation(())
    run.up(early, ends_at=1000.0)
    long = run.ask("long", 3, 500.0, gpu="slot", walltime_s=1200.0)
    short = run.ask("short", 30, 50.0, gpu="slot", walltime_s=300.0)
    run.at(400.0, lambda: run.up(late, ends_at=5000.0))
    run.run()
    assert all(job.started >= 400.0 and job.worker == "late" and job.lost == 0 for job in long)
    assert all(job.ended > 0 and job.lost == 0 for job in short)
    assert any(job.worker == "early" for job in short)


def test_of_two_that_are_equally_busy_the_one_that_ends_first_is_used():
    early, late = (replace(node(gpus=1, cpus=0)[0], name=name, gpu=name) for name in ("late-1", "early-2"))
    run = Simulation(())
    run.up(early, ends_at=9000.0)
    run.up(late, ends_at=2000.0)
    (job,) = run.ask("small", 1, 10.0, gpu="slot")
    run.run()
    assert job.worker == "early-2"


class Shared(Simulation):
    """Another controller keeps the worker full, with some more in line; Dask keeps the order of what is sent there."""

    def other(self, count: int, seconds: float) -> None:
        need = demand(Resources(gpu="slot", memory_mib=100), self.specs)
        for _ in range(count):
            job = Job("theirs", need, seconds)
            job.worker = self.specs[0].name
            part = {"slot": 1, "vram_mib": 300, "memory_mib": 100}
            self.running[job] = Placed(job, job.worker, part)
            self.queues.setdefault(job.worker, []).append(job)
        self._tell()

    def _tell(self) -> None:
        name = self.specs[0].name
        self.serve(name)
        theirs = [found.part for job, found in self.running.items() if job.kind == "theirs"]
        self.backlog.elsewhere(name, {n: sum(part[n] for part in theirs) for n in ("slot", "vram_mib", "memory_mib")})

    def _start(self, found):
        self.running[found.item] = found
        found.item.worker = found.worker
        self.queues[found.worker].append(found.item)
        self.serve(found.worker)

    def _end(self, job, worker, lost):
        if job.kind == "theirs":
            del self.running[job]
            self.other(1, job.seconds)
        else:
            super()._end(job, worker, lost)
            self._tell()


@pytest.mark.parametrize("gpu", ["slot", "exclusive"])
def test_what_waits_only_for_other_controllers_gets_its_turn_at_the_worker(gpu):
    run = Shared(node(gpus=1, cpus=0))
    run.other(5, 30.0)
    jobs = run.ask("ours", 5, 20.0, gpu=gpu)
    for _ in range(1000):
        run.run(until=run.now)
        again = run.backlog.again_s
        if again is not None:  # nothing else would have it looked at again
            run.at(run.now + again, lambda: None)
        run.run(until=run.now + 1.0)
        run.now += 1.0
    assert all(job.ended > 0 for job in jobs)


def test_ten_per_cent_of_exclusive_ones_cost_little_time():
    """The load of the specification: 400 of 1, 2, 5 and 20 s on 12 slots, 10 % of them exclusive, walltimes known."""
    for seed in range(5):
        chance = random.Random(seed)
        run = Simulation(node(cpus=0))
        for _ in range(400):
            seconds = chance.choice([1.0, 2.0, 5.0, 20.0])
            gpu = "exclusive" if chance.random() < 0.1 else "slot"
            run.ask(gpu, 1, seconds, gpu=gpu, walltime_s=1.5 * seconds)
        run.run()
        whole = sum(job.seconds for job in run.of("exclusive"))
        bound = max((3 * whole + sum(job.seconds for job in run.of("slot"))) / 12, 20.0, whole / 4)
        assert max(job.ended for job in run.jobs) <= 1.10 * bound


requests = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["none", "slot", "slot", "exclusive"]),
        "gpu_memory_mib": st.integers(0, 900),
        "cpus": st.integers(1, 8),
        "memory_mib": st.integers(1, 8000),
        "walltime_s": st.sampled_from([60.0, 600.0, 3000.0]),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(requests, st.floats(0.1, 50.0), st.floats(0.0, 500.0)), min_size=1, max_size=40),
    st.lists(st.tuples(st.floats(0.0, 600.0), st.floats(100.0, 4000.0)), max_size=5),
)
def test_whatever_is_asked_and_whatever_comes_and_goes_all_is_done_and_nothing_overfilled(asked, hosts):
    run = Simulation(())
    full = node(gpus=2)
    for resources, seconds, when in asked:
        needs = {**resources, "gpu_memory_mib": 0 if resources["gpu"] == "none" else resources["gpu_memory_mib"]}
        run.at(when, lambda needs=needs, seconds=seconds: run.ask("any", 1, seconds, **needs))
    run.by_name = {spec.name: spec for spec in full}
    for number, (when, life) in enumerate(hosts):
        for spec in full:
            named = replace(spec, name=f"{spec.name}-{number}")
            run.at(when, lambda spec=named, end=when + life: run.up(spec, ends_at=end))
    run.at(5000.0, lambda: [run.up(replace(spec, name=f"{spec.name}-last")) for spec in full])
    run.run()
    assert len(run.jobs) == len(asked)
    assert all(job.ended > 0 for job in run.jobs)
    assert len(run.backlog) == 0
    assert all(not any(station.used.values()) for station in run.backlog.stations.values())


def looks(monkeypatch, waiting: int) -> float:
    """Return how often the room of a worker is looked at for one placement, when nothing that waits is like another."""
    looked = 0
    fits = Station.fits

    def counted(self, *args):
        nonlocal looked
        looked += 1
        return fits(self, *args)

    monkeypatch.setattr(Station, "fits", counted)
    specs = [replace(spec, name=f"{spec.name}-{host}") for host in range(8) for spec in node()]
    assert len(specs) == 40
    backlog: Backlog[int] = Backlog(clock=lambda: 0.0)
    for spec in specs:
        backlog.up(spec)
    chance = random.Random(1)
    needs = []
    for number in range(waiting):
        gpu = chance.choice(["none", "slot", "slot", "exclusive"])
        vram = 0 if gpu == "none" else chance.randrange(1, 600)
        resources = Resources(
            gpu=gpu, cpus=chance.randrange(1, 5), memory_mib=100 + number * 5000 // waiting, gpu_memory_mib=vram
        )
        needs.append(demand(resources, specs))
        backlog.add(needs[-1], number)
    running: list[Placed[int]] = backlog.place()
    served = len(running)
    while running:
        done = running.pop(chance.randrange(len(running)))
        backlog.done(done.worker, done.part, needs[done.item], 100.0)
        new = backlog.place()
        running += new
        served += len(new)
    assert served == waiting
    monkeypatch.undo()
    return looked / served


def test_it_is_told_when_nothing_that_waits_can_use_what_is_idle():
    run = Simulation(node(gpus=1, cpus=2))
    assert run.backlog.crowded() == 0, "nothing waits"
    run.ask("cpu", 10, 60.0, cpus=1)
    run.run(until=1.0)
    assert run.backlog.crowded() == 8, "two run, and the GPU has nothing to do"
    run.ask("whole", 2, 60.0, gpu="exclusive")
    run.run(until=2.0)
    assert run.backlog.crowded() == 0, "the GPU is full, and one waits for it"
    run.run()
    assert run.backlog.crowded() == 0


def test_workers_that_would_come_if_they_were_needed_count_as_idle():
    cards, processors = node(gpus=1, cpus=0), node(gpus=0, cpus=2)
    run = Simulation(processors)
    run.ask("cpu", 10, 60.0, cpus=1)
    run.run(until=1.0)
    assert run.backlog.crowded() == 0
    assert run.backlog.crowded(cards) == 8
    run.backlog.add(demand(Resources(gpu="slot", memory_mib=100), cards), run.jobs[0])
    assert run.backlog.crowded(cards) == 0, "they have been asked for"


def test_a_placement_looks_at_few_workers_however_many_wait(monkeypatch):
    assert looks(monkeypatch, 3000) < 10 * 40


def test_pending_work_is_told_by_kind_and_in_few_words_where_there_are_very_many():
    now = 0.0
    waiting: Backlog[str] = Backlog(clock=lambda: now)
    specs = node()
    small = demand(Resources(gpu="slot"), specs)
    for n in range(3):
        waiting.add(small, f"{n}")
        now += 10.0
    (told,) = waiting.pending()
    assert (told.need, told.count, told.oldest_s) == (small, 3, 30.0)
    assert type(told).model_validate_json(told.model_dump_json()) == told
    for n in range(2000):
        waiting.add(demand(Resources(memory_mib=1000 + n, cpus=2), specs), f"{n}")
    told = waiting.pending()
    assert len(told) < 20
    assert sum(each.count for each in told) == 2003
    assert max(each.need.memory_mib for each in told if not each.need.gpu) == 2999
