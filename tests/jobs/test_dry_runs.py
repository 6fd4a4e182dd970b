"""Dry runs of whole jobs: schedules, what they cost on Slurm, and everything that cannot fit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from grafico.calculations import Resources
from grafico.chemistry.ensemble import GRAPH as ENSEMBLE
from grafico.chemistry.ensemble_request import EnsembleRequest
from grafico.cluster import Profile
from grafico.errors import ProfileError
from grafico.graphs import Foreseen
from grafico.jobs.forecast import phases_of
from grafico.jobs.launch import Prepared, prepare
from grafico.jobs.load import load_job
from grafico.jobs.plan import admit, make_plan

Write = Callable[..., Path]

QC = """\
name: qc
graph: quantum-chemistry
knowledge: {persist: false}
input:
  molecule: {name: water}
  level: {method: hf, basis: sto-3g}
  tasks: [optimize, frequencies]
"""

POOL = {"name": "cpu", "cpus": 2, "memory_mib": 16_000}


def planned(path: Path, **profile: object):
    return make_plan(Prepared(load_job(path), Profile(**{"name": "there", "pools": (POOL,), **profile})))


def slurm(walltime: str = "04:00:00", **pool: object) -> dict[str, object]:
    return {"kind": "slurm", "pools": ({**POOL, **pool},), "slurm": {"walltime": walltime}, "idle_s": 60.0}


def test_members_that_begin_alike_share_what_they_begin_with(job: Write) -> None:
    path = job(QC + "matrix:\n  input.tasks: [[optimize], [optimize, frequencies], [optimize, tddft]]\n")
    plan = planned(path)
    assert (plan.members, plan.lanes, plan.foreseen, plan.distinct) == (3, 3, 5, 3)
    # One optimization, then frequencies and excited states beside each other on two CPUs; half an hour each at most.
    assert plan.bound is not None
    assert plan.bound.makespan_s == plan.walltime_bound_s == 3600
    assert plan.bound.calculations == 3
    assert plan.bound.busy == {"cpu": 0.75}
    assert plan.typical is not None
    assert plan.typical.makespan_s < 60
    assert plan.bound.gantt[0].startswith("cpu │")
    other = planned(job(QC + "matrix:\n  input.level.basis: [sto-3g, 3-21g]\n  input.max_steps: [50, 60]\n"))
    assert (other.foreseen, other.distinct) == (8, 8)


def test_everything_that_cannot_fit_is_named_at_once_with_its_members(job: Write) -> None:
    path = job(QC + "matrix:\n  input.cpus: [1, 8, 16]\n  input.tasks: {opt: [optimize], all: [optimize, tddft]}\n")
    prepared = Prepared(load_job(path), Profile(name="there", pools=(POOL,)))
    for ask in (admit, make_plan):
        with pytest.raises(ProfileError) as caught:
            ask(prepared)
        said = caught.value.message
        assert "2 kinds of calculations can never run" in said
        assert "optimization: a calculation needs 16 CPUs" in said
        assert "tddft: a calculation needs 16 CPUs" in said
        assert "; 1 more need less, and too much (members 8+opt, 8+all, 16+opt, 16+all)" in said
        assert "(members 8+all, 16+all)" in said


def test_a_calculation_that_outlasts_every_host_cannot_fit(job: Write) -> None:
    with pytest.raises(ProfileError, match=r"1800 s of walltime; no worker .* has .* 1170 s of walltime"):
        planned(job(QC), **slurm("00:20:00"))


def test_what_slurm_charges_at_most_is_counted_host_by_host(job: Write) -> None:
    path = job(QC + "matrix:\n  input.level.scf_cycles: [10, 20, 30, 40, 50, 60, 70, 80]\n")
    plan = planned(path, **slurm(hosts={"min": 0, "max": 2}))
    assert plan.bound is not None
    assert plan.bound.makespan_s == 4 * 1800
    cost = plan.bound.cost
    assert cost is not None
    assert cost.hosts == {"cpu": 2}
    assert cost.node_hours == pytest.approx(2 * (4 * 1800 + 60) / 3600, abs=0.01)
    assert (cost.gpu_hours, cost.core_hours) == (0, pytest.approx(2 * cost.node_hours, abs=0.1))
    # One host can do no less; a third would have nothing to do with one member.
    single = planned(job(QC), **slurm(hosts={"min": 0, "max": 3}))
    assert single.bound is not None
    assert single.bound.cost is not None
    assert single.bound.cost.hosts == {"cpu": 1}


def test_lanes_that_outlast_a_host_are_told_and_go_on_on_the_next(job: Write) -> None:
    plan = planned(job(QC), **slurm("00:40:00"))
    assert plan.bound is not None
    assert plan.bound.calculations == 2
    assert any("longer than a host lives (40 min)" in note for note in plan.notes)
    short = {**slurm("02:00:00"), "controller": {"walltime": "00:30:00"}}
    assert any("it may go back into the queue 1 times" in note for note in planned(job(QC), **short).notes)


def test_gpu_hours_are_counted_and_gpus_that_are_not_there_are_planned_all_the_same(job: Write) -> None:
    pool = {"name": "gpu", "gpus": 2, "cpus": 8, "memory_mib": 64_000, "gpu_memory_mib": 80_000}
    path = job(QC.replace("input:\n", "input:\n  gpu: slot\n"))
    plan = planned(path, **slurm(**pool))
    assert plan.bound is not None
    assert plan.bound.cost is not None
    assert plan.bound.cost.gpu_hours == pytest.approx(2 * plan.bound.cost.node_hours, abs=0.02)
    local = planned(path, pools=(pool,))
    assert any("planned as if the GPUs of the profile were here" in note for note in local.notes)
    assert {worker.kind for worker in local.workers} == {"simulated GPU"}


def test_more_calculations_than_can_be_scheduled_still_have_a_bound(
    job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grafico.jobs.schedule.MAX_SIMULATED", 1)
    plan = planned(job(QC))
    assert (plan.bound, plan.walltime_bound_s) == (None, 3600)
    assert any("too many to schedule one by one" in note for note in plan.notes)


def test_the_phases_of_an_ensemble_follow_its_graph() -> None:
    request = EnsembleRequest.model_validate(
        {
            "molecule": {"smiles": "CCO"},
            "search": {"engine": "rdkit"},
            "environments": [
                {"name": "water", "solvent": "water", "geometries": "gas"},
                {"name": "gas"},
                {"name": "hexane", "solvent": "n-hexane"},
            ],
        }
    )
    assert ENSEMBLE.foresee is not None
    phases = phases_of(ENSEMBLE.foresee(request))
    told = [[[item.calculation.name for item in chain] for chain in phase] for phase in phases]
    assert told[:3] == [[["embed_conformers"]], [["xtb_optimization"]], [["prune_conformers"]]]
    # Gas and hexane beside each other, then what takes the geometries of gas, then the plots.
    assert told[3:] == [[["optimization", "tddft"]] * 2, [["tddft"]], [["ensemble_report"]]]


def test_what_has_no_lane_waits_for_all_before_it() -> None:
    from grafico.chemistry.calculations.single_point import single_point

    def item(lane: str = "", count: int = 1, *, waits: bool = False) -> Foreseen:
        return Foreseen(single_point, Resources(), count, lane=lane, waits=waits)

    shape = [[len(chain) for chain in phase] for phase in phases_of([
        item("a"), item("a"), item("b"), item(), item("a", 2), item("a", 3), item("b", waits=True)])]  # fmt: skip
    assert shape == [[2, 1], [1], [1], [1], [1]]


def test_the_job_files_that_are_shipped_can_be_planned() -> None:
    jobs = Path(__file__).parents[2] / "jobs"
    plan = make_plan(prepare(jobs / "sweep.yaml"))
    assert (plan.members, plan.foreseen, plan.distinct) == (6, 12, 12)
