"""What a pool's jobs came to, and what people are told of it."""

import pytest

from grafico.cluster import Pool
from grafico.cluster.fleet import HostView
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Demand, Pending
from grafico.cluster.slurm.commands import JobState
from grafico.cluster.slurm.pool_record import GIVE_UP, Host, PoolRecord
from grafico.cluster.slurm.scaling import decide
from grafico.cluster.slurm.settings import Scale
from grafico.errors import ProfileError


@pytest.fixture
def record(tmp_path):
    (tmp_path / "logs").mkdir()
    pool = Pool(name="cpu", cpus=2, memory_mib=1000, hosts=Scale(min=0, max=4))
    return PoolRecord(pool, (WorkerSpec("cpu-1-0", "cpu", 2, 1000, host="1"),), tmp_path)


def add(record, label="1", job_id="101"):
    host = Host(label, "cpu", None, job_id, 0.0)  # type: ignore[arg-type]  # nobody submits or cancels here
    record.hosts.append(host)
    return host


def view(label="1", **more):
    return {("cpu", label): HostView(label=label, pool="cpu", workers=("w",), **{"busy": 0, "idle_s": 0.0, **more})}


def told(record, now=1.0, blind=""):
    return record.status(blind, now)


def test_people_are_told_what_the_queue_says(record):
    for number, state in enumerate(
        [None, JobState("1", "PENDING", "Priority"), JobState("2", "PENDING", "Priority"), JobState("3", "RUNNING")]
    ):
        add(record, str(number)).state = state
    assert told(record).problem == "1 job submitted; 2 jobs queued (Priority); 1 job starting"
    assert (told(record).queued, told(record).up) == (4, 0)
    assert "the queue cannot be read: squeue is not there" in told(record, blind="squeue is not there").problem


def test_a_host_that_was_up_and_is_lost_is_no_failure(record):
    for state in ("CANCELLED", "NODE_FAIL", "PREEMPTED", "TIMEOUT", "COMPLETED"):
        host = add(record)
        record.see(view(), 1.0, 0.0)
        record.looked(host, JobState("101", state, "by 0"), 2.0)
        assert not record.hosts
        assert record.failures == 0
        assert record.state_for_scaling({}, 2.0, 0.0, 1.0).may_submit
        noted = told(record, 3.0).problem
        assert (f"host 1 was lost: job 101 {state}" in noted) == (state not in {"TIMEOUT", "COMPLETED"})
        record.noted = ("", 0.0)


def test_jobs_that_end_before_their_host_reports_are_tried_again_more_and_more_slowly_and_then_given_up(record):
    now, waits = 0.0, []
    for number in range(GIVE_UP):
        host = add(record, str(number), f"10{number}")
        (record.folder / "logs" / f"cpu-{number}.log").write_text("one\n\nmodule: not found\nImportError: no numpy\n")
        record.looked(host, JobState(host.job_id, "FAILED", "NonZeroExitCode"), now)
        assert not record.state_for_scaling({}, now, 0.0, 1.0).may_submit
        waits.append(record.hold_until - now)
        now = record.hold_until + 1
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]
    said = told(record, now)
    assert said.hopeless
    assert said.problem == (
        "job 102 ended before its host reported: FAILED (NonZeroExitCode); its log ends with:"
        " one / module: not found / ImportError: no numpy"
    )
    assert not record.state_for_scaling({}, now, 0.0, 1.0).may_submit
    with pytest.raises(ProfileError, match="profile 'p', pool 'cpu': job 102 ended before"):
        record.raise_if_refused("p")


def test_a_host_that_comes_up_in_the_end_makes_all_of_it_forgotten(record):
    for number in range(GIVE_UP - 1):
        record.looked(add(record, str(number)), JobState("101", "FAILED"), 0.0)
    add(record, "9")
    record.see(view("9"), 5.0, 0.0)
    assert (record.failures, told(record).problem, told(record).hopeless) == (0, "", False)


def test_a_dead_node_or_a_preemption_at_the_start_is_not_the_pools_fault(record):
    for _ in range(2 * GIVE_UP):
        record.looked(add(record), JobState("101", "NODE_FAIL"), 0.0)
    assert not told(record).hopeless
    assert "job 101 NODE_FAIL" in told(record).problem


def test_what_was_cancelled_by_grafico_itself_is_not_told(record):
    host = add(record)
    host.ending = True
    record.looked(host, JobState("101", "CANCELLED", "by 0"), 0.0)
    assert (record.hosts, told(record).problem, record.failures) == ([], "", 0)


def test_a_refusal_that_does_not_pass_is_final_for_a_pool_that_never_had_a_host(record):
    record.refused("sbatch: Batch job submission failed: Invalid account", 0.0, for_now=False)
    assert told(record).hopeless
    assert "Slurm does not take its jobs: sbatch: Batch job submission failed: Invalid account" in told(record).problem


def test_a_refusal_that_may_pass_is_waited_for_however_often_it_comes(record):
    now = 0.0
    for _ in range(10):
        record.refused("sbatch: QOSMaxSubmitJobPerUserLimit", now, for_now=True)
        now = record.hold_until + 1
    assert not told(record, now).hopeless
    record.refused("sbatch: QOSMaxSubmitJobPerUserLimit", now, for_now=True)
    assert "(tried again in" in told(record, now).problem


def test_a_pool_that_had_hosts_is_given_up_only_after_several_refusals(record):
    record.see({}, 0.0, 0.0)
    add(record)
    record.see(view(), 0.0, 0.0)
    record.hosts.clear()
    now = 0.0
    for number in range(GIVE_UP):
        record.refused("sbatch: Invalid account", now, for_now=False)
        assert told(record, now).hopeless == (number == GIVE_UP - 1)
        now = record.hold_until + 1


def waiting(*walltimes):
    return [Pending(need=Demand(False, False, 0, 1, 100, seconds), count=1, oldest_s=9.0) for seconds in walltimes]


def test_hosts_that_are_too_short_for_what_waits_are_told_of_and_not_asked_for_again(record):
    record.note_pending(waiting(60.0, 3600.0), 0.0)
    assert told(record).life_s is None
    assert decide([record.state_for_scaling({}, 1.0, 0.0, 60.0)])["cpu"].submit == 1
    add(record)
    record.see(view(ends_at=1000.0 + 300.0), 1.0, 1000.0)
    assert (told(record).life_of, told(record).life_s) == ("a host of pool cpu has", 300.0)
    decision = decide([record.state_for_scaling(view(ends_at=1300.0), 2.0, 1001.0, 60.0)])["cpu"]
    assert (decision.submit, decision.retire) == (0, ()), "it serves the short one"
    record.note_pending(waiting(3600.0), 3.0)
    assert decide([record.state_for_scaling({}, 3.0, 0.0, 60.0)])["cpu"].submit == 0
    record.note_pending(waiting(60.0), 4.0)
    assert told(record).life_s is None


def test_hosts_that_only_came_too_late_are_tried_several_times(record):
    record.note_pending(waiting(300.0), 0.0)
    for number in range(GIVE_UP):
        assert told(record).life_s is None
        assert decide([record.state_for_scaling({}, 1.0, 0.0, 60.0)])["cpu"].submit == 1
        add(record, str(number))
        record.see(view(str(number), ends_at=320.0 - number), 1.0, 0.0)
        record.hosts.clear()
    assert told(record).life_s == 320.0
    assert decide([record.state_for_scaling({}, 1.0, 0.0, 60.0)])["cpu"].submit == 0


def test_no_host_lasts_longer_than_the_job_that_its_server_is_in(record):
    record.ends_with = ("Slurm job 7, in which the cluster's server is, has", 600.0)
    record.note_pending(waiting(3600.0), 0.0)
    assert (told(record).life_of, told(record).life_s) == record.ends_with
    assert decide([record.state_for_scaling({}, 1.0, 0.0, 60.0)])["cpu"].submit == 0


def test_a_job_that_can_never_start_is_found_at_the_second_look(record):
    host = add(record)
    for expected in (None, host):
        record.looked(host, JobState("101", "PENDING", "PartitionTimeLimit"), 0.0)
        assert record.condemned() is expected
    assert told(record).hopeless
    assert "Slurm will not start job 101 as it is: PartitionTimeLimit" in told(record).problem


@pytest.mark.parametrize("reason", ["Priority", "Resources", "QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "JobHeldUser",
                                    "ReqNodeNotAvail, UnavailableNodes:n1", "BeginTime", "MaxMemPerLimit2"])  # fmt: skip
def test_other_reasons_are_waited_out(record, reason):
    host = add(record)
    for _ in range(5):
        record.looked(host, JobState("101", "PENDING", reason), 0.0)
        assert record.condemned() is None


@pytest.mark.parametrize("reason", ["PartitionTimeLimit", "BadConstraints", "QOSMaxWallDurationPerJobLimit", "InvalidQOS",
                                    "QOSMaxCpuPerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxGRESPerJob"])  # fmt: skip
def test_reasons_that_do_not_pass_are_known(record, reason):
    host = add(record)
    for _ in range(2):
        record.looked(host, JobState("101", "PENDING", reason), 0.0)
    assert record.condemned() is host


def test_the_scaling_sees_hosts_as_the_scheduler_does(record):
    add(record, "1")
    add(record, "2").ending = True
    add(record, "3")
    views = view("1", busy=2, ends_at=1000.0) | view("3", idle_s=50.0)
    state = record.state_for_scaling(views, 10.0, 400.0, 120.0)
    one, two, three = state.hosts
    assert (one.up, one.busy, one.left_s) == (True, True, 600.0)
    assert (two.up, two.ending) == (False, True)
    assert (three.up, three.busy, three.idle_s, three.left_s) == (True, False, 50.0, float("inf"))
