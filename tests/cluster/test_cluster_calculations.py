"""One calculation on a worker: what comes back, what is kept, and every way to fail."""

import asyncio
import os

import calculations_for_tests as cases
import pytest
from calculations_for_tests import Number

from grafico.calculations import FailureKind, Success
from grafico.cluster import Pool, Profile
from grafico.runs import OutcomeStore, read_starts

TWO = Profile(
    name="two",
    pools=(Pool(name="cpu", cpus=2, memory_mib=8000, environment={"FROM_THE_PROFILE": "yes", "GOMP_SPINCOUNT": "7"}),),
)


def test_a_success_comes_back_typed_and_is_committed(on_cluster, task, paths):
    outcome = on_cluster(lambda cluster: cluster.run(task(cases.double, Number(value=21.0))))
    assert isinstance(outcome, Success)
    assert isinstance(outcome.output, cases.Answer)
    assert outcome.output.value == 42.0
    assert outcome.provenance.pid == outcome.output.pid
    key = cases.double.key(Number(value=21.0))
    assert OutcomeStore(paths).read(key, cases.Answer) == outcome
    (start,) = read_starts(paths)
    assert (start.key, start.status, start.process.pid) == (key, "success", outcome.output.pid)


def test_processes_are_kept_warm_and_told_their_surroundings(on_cluster, task, paths):
    async def use(cluster):
        first = await cluster.run(task(cases.surroundings, Number(value=1)))
        second = await cluster.run(task(cases.surroundings, Number(value=2)))
        wide = await cluster.run(task(cases.surroundings, Number(value=3), resources={"cpus": 2}))
        return first, second, wide

    first, second, wide = on_cluster(use, TWO)
    assert first.output.pid == second.output.pid != wide.output.pid
    said = dict(line.split("=", 1) for line in first.output.text.splitlines())
    assert said["OMP_NUM_THREADS"] == said["OPENBLAS_NUM_THREADS"] == said["threads"] == "1"
    assert (said["OMP_WAIT_POLICY"], said["GOMP_SPINCOUNT"]) == ("passive", "7"), "what the profile says goes first"
    assert said["OPENBLAS_CORETYPE"] == str(os.environ.get("OPENBLAS_CORETYPE")), "only PySCF's is asked for a kernel"
    assert (said["CUDA_VISIBLE_DEVICES"], said["device"], said["FROM_THE_PROFILE"]) == ("", "cpu", "yes")
    assert "OMP_NUM_THREADS=2" in wide.output.text
    assert wide.provenance.threads == 2
    assert second.output.text.count("found=[]") == 1
    assert said["temporary"].startswith(said["scratch"] + "/")


def test_all_that_is_printed_is_in_the_log_of_the_lane(on_cluster, task, paths):
    async def use(cluster):
        lane = {"lane": "1.0:conf-002", "label": "chatty · conformer 2"}
        await cluster.run(task(cases.chatty, Number(), **lane))
        await cluster.run(task(cases.fails, Number(tag="scf"), attempt=2, settings={"level_shift": 0.3}, **lane))

    on_cluster(use)
    log = paths.lane_log("1.0:conf-002").read_text()
    for said in ("said by Python", "complained by Python", "said by C", "said by a program"):
        assert said in log
    headers = [line for line in log.splitlines() if line.startswith("=== ")]
    assert "chatty · conformer 2 · attempt 1" in headers[0]
    assert "attempt 2" in headers[1]
    assert "level_shift" in headers[1]
    assert "no convergence" in log


@pytest.mark.parametrize(
    ("tag", "kind", "said"),
    [
        ("scf", FailureKind.SCF_NOT_CONVERGED, "no convergence"),
        ("memory", FailureKind.OUT_OF_MEMORY, "integrals"),
        ("extra", FailureKind.ENGINE_ERROR, "grafico[chem]"),
        ("import", FailureKind.ENGINE_ERROR, "no_such_engine"),
        ("level", FailureKind.BAD_INPUT, "did you mean 'b3lyp'"),
        ("exit", FailureKind.ENGINE_ERROR, "exit(3)"),
        ("nan", FailureKind.ENGINE_ERROR, "NaN"),
        ("other", FailureKind.ENGINE_ERROR, "ZeroDivisionError"),
    ],
)
def test_each_way_to_fail_has_its_kind(tag, kind, said, every_failure):
    outcome = every_failure[tag]
    assert outcome.kind == kind
    assert said in outcome.message
    assert outcome.where == "fails"


def test_failures_carry_what_explains_them(every_failure):
    assert every_failure["scf"].details == {"energy_change_eh": 1e-3}
    assert any("ZeroDivisionError" in line for line in every_failure["other"].details["traceback"])
    assert every_failure["unfit"].kind == FailureKind.BAD_INPUT
    assert "value" in every_failure["unfit"].message
    assert every_failure["unknown"].kind == FailureKind.ENGINE_ERROR


@pytest.fixture(scope="module")
def every_failure(tmp_path_factory):
    from grafico.cluster import open_cluster
    from grafico.runs import RunPaths

    paths = RunPaths(tmp_path_factory.mktemp("failures") / "run")
    paths.create()

    def make(calculation, value, **changes):
        from grafico.calculations import CalculationTask

        fields = {
            "reference": calculation.reference,
            "name": calculation.name,
            "version": "1",
            "family": "python",
            "key": calculation.key(value),
            "input": value.model_dump(mode="json"),
            "resources": calculation.resources(value),
        }
        return CalculationTask(**{**fields, **changes})

    async def main():
        tags = ["scf", "memory", "extra", "import", "level", "exit", "nan", "other"]
        tasks = {tag: make(cases.fails, Number(tag=tag)) for tag in tags}
        tasks["unfit"] = make(cases.double, Number(), input={"value": 1e9}, key="1" * 64)
        tasks["unknown"] = make(cases.double, Number(), reference="no.such.module:thing", key="2" * 64)
        async with open_cluster(TWO, paths.root) as cluster:
            outcomes = await asyncio.gather(*(cluster.run(each) for each in tasks.values()))
        return dict(zip(tasks, outcomes, strict=True))

    return asyncio.run(main())


def test_large_outputs_come_back_through_the_store(on_cluster, task, paths):
    outcome = on_cluster(lambda cluster: cluster.run(task(cases.large, Number(value=5))))
    assert len(outcome.output.text) == 200_000
    assert len(list(paths.artifacts.glob("??/*"))) == 1


def test_a_committed_outcome_is_not_calculated_again(on_cluster, task, paths):
    key = cases.double.key(Number(value=8))
    OutcomeStore(paths).commit(key, Success(output=cases.Answer(value=-1.0), key=key))
    outcome = on_cluster(lambda cluster: cluster.run(task(cases.double, Number(value=8))))
    assert outcome.output.value == -1.0
    assert read_starts(paths) == []


def test_the_same_calculation_asked_for_twice_at_once_runs_once(on_cluster, task, paths):
    async def use(cluster):
        return await asyncio.gather(
            *(cluster.run(task(cases.sleep, Number(seconds=0.3), label=f"lane {n}")) for n in range(5))
        )

    outcomes = on_cluster(use)
    assert len({outcome.output.pid for outcome in outcomes}) == 1
    assert len(read_starts(paths)) == 1


def test_impossible_requests_are_refused_with_the_nearest(on_cluster, task):
    from grafico.errors import ProfileError

    async def use(cluster):
        with pytest.raises(ProfileError, match="can ever give that") as caught:
            cluster.admit(cases.double.resources(Number()).model_copy(update={"cpus": 64}))
        assert "2 CPUs" in str(caught.value)
        return await cluster.run(task(cases.double, Number(), resources={"memory_mib": 10**6}))

    outcome = on_cluster(use, TWO)
    assert outcome.kind == FailureKind.REFUSED
    assert "8000 MiB" in outcome.message


def test_without_any_gpu_a_calculation_that_would_like_one_gets_cpus(on_cluster, task):
    async def use(cluster):
        return await cluster.run(task(cases.surroundings, Number(), resources={"gpu": "slot", "gpu_memory_mib": 99}))

    assert "device=cpu" in on_cluster(use).output.text
