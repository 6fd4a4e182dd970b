"""Hosts as Slurm jobs: asked for, lost and replaced, given back; what is refused is told, and nothing is left behind."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from grafico.cluster import Profile
from grafico.cluster.slurm.commands import try_script
from grafico.cluster.slurm.script import allocation_script, controller_script, host_script
from tests.slurm.evidence import faults, manifest, result, starts

pytestmark = pytest.mark.slow

HOST = "{name: cpu, cpus: 1, memory_mib: 1000, hosts: 1}"


def up(slurm: Any, text: str, *, name: str = "mine", check: bool = True) -> Any:
    """Bring a cluster up from a profile."""
    (slurm.files / f"{name}.yaml").write_text(f"kind: slurm\nhost: 127.0.0.1\nslurm: {{walltime: 00:20:00}}\n{text}\n")
    return slurm.grafico("cluster", "up", f"{name}.yaml", check=check)


def status(slurm: Any, name: str = "mine") -> dict[str, Any]:
    return slurm.grafico("cluster", "status", name, "--json").json  # type: ignore[no-any-return]


def hosts_up(slurm: Any, number: int) -> Any:
    """Wait until a cluster has so many hosts, and return how it stands."""
    return slurm.until(lambda: (now := status(slurm)) and sum(pool["up"] for pool in now["pools"]) == number and now)


def test_a_host_that_is_cancelled_is_replaced_and_none_is_left_at_the_end(slurm: Any) -> None:
    up(slurm, f"pools: [{HOST}]")
    (first,) = slurm.queue()
    hosts_up(slurm, 1)
    slurm.call("scancel", first)
    second = slurm.until(lambda: set(slurm.queue()) - {first})
    now = hosts_up(slurm, 1)
    assert {worker["name"] for worker in now["workers"]} == {"cpu-2-0"}
    assert second
    slurm.grafico("cluster", "down", "mine")
    assert not slurm.queue()
    assert not list((slurm.files / "clusters" / "mine" / "slurm").iterdir())


def test_when_the_server_is_killed_hosts_end_and_those_in_the_queue_are_taken_out(slurm: Any) -> None:
    # No node has room for the second pool beside the first; and the whole of a node is what it asks for.
    up(slurm, f"pools: [{HOST}, {{name: gpu, cpus: 7, memory_mib: 7000, gpus: 4, gpu_memory_mib: 900, simulated: true,"
       " hosts: 3, slurm: {gpu_type: fake}}]")  # fmt: skip
    slurm.until(lambda: sorted(slurm.queue().values()) == ["PENDING", "RUNNING", "RUNNING", "RUNNING"])
    now = slurm.until(lambda: (now := status(slurm)) and "queued (Resources)" in json.dumps(now["pools"]) and now)
    (gpu,) = (pool for pool in now["pools"] if pool["pool"] == "gpu")
    assert gpu["wanted"] == 3
    assert not gpu["hopeless"]
    hosts_up(slurm, 3)
    os.kill(json.loads((slurm.files / "clusters/mine/cluster.json").read_text())["server"]["pid"], signal.SIGKILL)
    slurm.until(lambda: "RUNNING" not in slurm.queue().values() or len(slurm.queue()) == 1)
    slurm.grafico("cluster", "down", "mine")
    slurm.until(lambda: not slurm.queue())


def test_work_brings_hosts_and_idle_hosts_are_given_back(slurm: Any) -> None:
    slurm.job([1, 2, 3, 4, 5, 6])
    up(slurm, "idle_s: 3\npools: [{name: cpu, cpus: 1, memory_mib: 1000, hosts: {min: 0, max: 2}}]")
    assert not slurm.queue()
    run = slurm.spawn("run", "job.yaml", "--cluster", "connect:mine")
    hosts_up(slurm, 2)
    assert len(slurm.queue()) == 2
    slurm.open()
    assert run.wait(120) == 0, slurm.witness()
    folder = slurm.run_folder()
    assert result(folder)["total"] == 91
    assert not faults(folder)
    assert {started.worker for started in starts(folder)} == {"cpu-1-0", "cpu-2-0"}
    slurm.until(lambda: not slurm.queue())
    assert [pool["wanted"] for pool in status(slurm)["pools"]] == [0]


def test_a_host_that_cannot_start_is_given_up_with_the_last_words_of_its_log(slurm: Any) -> None:
    slurm.job([1], gated=False)
    broken = slurm.files / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: libnothing.so: cannot open shared object file' >&2\nexit 1\n")
    broken.chmod(0o755)
    elastic = slurm.files / "elastic.yaml"
    elastic.write_text(f"python: {broken}\n{elastic.read_text()}")
    said = slurm.grafico("run", "job.yaml", check=False)
    assert said.code == 2, said
    assert "libnothing.so: cannot open shared object file" in said.err
    assert "Traceback" not in said.err
    assert not slurm.queue()


@pytest.mark.parametrize(
    ("settings", "words"),
    [("partition: gone", "invalid partition specified: gone"), ("constraint: gone", "Invalid feature specification")],
)
def test_what_slurm_refuses_is_told_before_anything_runs(slurm: Any, settings: str, words: str) -> None:
    slurm.job([1], gated=False)
    elastic = slurm.files / "elastic.yaml"
    elastic.write_text(elastic.read_text().replace('{walltime: "00:20:00"}', f"{{{settings}}}"))
    said = slurm.grafico("run", "job.yaml", check=False)
    assert said.code == 2, said
    assert words in said.err
    assert "Traceback" not in said.err
    assert not slurm.queue()
    assert not any(manifest(path.parent)["status"] == "finished" for path in slurm.files.glob("runs/*/manifest.json"))


def test_slurm_accepts_the_scripts_of_every_style(slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.environ[name])
    folder = Path("/tmp/a place with spaces #1/100%/cluster")
    gpu = {"name": "gpu", "cpus": 4, "memory_mib": 4000, "gpus": 2, "gpu_memory_mib": 9000}
    refused = {}
    for style in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        for kind in ({}, {"gpu_type": "fake"}):
            for memory in (True, False):
                site = {
                    "gpu_style": style, "memory": memory, "partition": "main", "walltime": "1-00:00:00",
                    "directives": ['--comment="from grafico"', "--exclude=n2"], **kind,
                }  # fmt: skip
                profile = Profile.model_validate({"kind": "slurm", "pools": [gpu], "slurm": site})
                inside = profile.model_copy(update={"workers": "allocation"})
                about = {"name": "a run", "log": folder / "log"}
                refused |= {
                    (style, str(kind), memory, "host"): try_script(host_script(profile, "gpu", folder, "1")),
                    (style, str(kind), memory, "controller"): try_script(controller_script(profile, ["true"], **about)),
                    (style, str(kind), memory, "allocation"): try_script(allocation_script(inside, ["true"], **about)),
                }
    assert not {case: words for case, words in refused.items() if words}
    wrong = host_script(
        Profile.model_validate({"kind": "slurm", "pools": [gpu], "slurm": {"gpu_type": "h100"}}), "gpu", folder, "1"
    )
    assert "Requested node configuration is not available" in try_script(wrong)


def test_a_preempted_host_comes_again_when_there_is_room(slurm: Any) -> None:
    up(slurm, "pools: [{name: cpu, cpus: 8, memory_mib: 4000, hosts: 1, slurm: {partition: low}}]")
    hosts_up(slurm, 1)
    number = slurm.call(
        "sbatch", "--parsable", "-p", "high", "-N2", "-n2", "-c8", "--mem=3000", "--wrap", "sleep 600"
    ).out.strip()
    now = slurm.until(lambda: (now := status(slurm)) and "PREEMPTED" in json.dumps(now["pools"]) and now)
    assert "host 1 was lost: job" in json.dumps(now["pools"])
    slurm.until(lambda: slurm.state(number) == "RUNNING")
    slurm.until(lambda: "job queued (Resources)" in json.dumps(status(slurm)["pools"]))
    slurm.call("scancel", number)
    hosts_up(slurm, 1)
    slurm.grafico("cluster", "down", "mine")
    assert not slurm.queue()


def test_while_slurm_does_not_answer_hosts_work_on(slurm: Any) -> None:
    slurm.job([1, 2, 3], gated=False)
    up(slurm, "idle_s: 600\npools: [{name: cpu, cpus: 1, memory_mib: 1000, hosts: {min: 1, max: 2}}]")
    hosts_up(slurm, 1)
    pid = int((slurm.root / "run" / "slurmctld.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        slurm.grafico("run", "job.yaml", "--cluster", "connect:mine")
        assert result(slurm.run_folder())["total"] == 14
    finally:
        os.kill(pid, signal.SIGCONT)
    slurm.grafico("cluster", "down", "mine")
    slurm.until(lambda: not slurm.queue())


def test_a_job_that_is_held_waits_and_one_that_can_never_start_is_given_up(slurm: Any) -> None:
    up(slurm, f"pools: [{HOST.replace('hosts: 1', 'hosts: 1, slurm: {directives: [--hold]}')}]")
    now = slurm.until(lambda: (now := status(slurm)) and "JobHeldUser" in json.dumps(now["pools"]) and now)
    assert [(pool["queued"], pool["hopeless"]) for pool in now["pools"]] == [(1, False)]
    (number,) = slurm.queue()
    slurm.call("scontrol", "release", number)
    hosts_up(slurm, 1)
    slurm.grafico("cluster", "down", "mine")
    assert not slurm.queue()
    slurm.job([1], gated=False)
    elastic = slurm.files / "elastic.yaml"
    slurm.call("scontrol", "update", "PartitionName=main", "MaxTime=5")
    said = slurm.grafico("run", "job.yaml", "--cluster", str(elastic), check=False)
    assert said.code == 2, said
    assert "PartitionTimeLimit" in said.err or "time limit" in said.err.lower()
    assert not slurm.queue()


def test_calculations_go_to_the_pool_of_their_kind_and_two_jobs_of_a_node_have_different_gpus(slurm: Any) -> None:
    shutil.copy(Path(__file__).parent / "material" / "two_kinds.py", slurm.files)
    (slurm.files / "kinds.yaml").write_text(
        "name: kinds\ngraph: two_kinds:GRAPH\ncluster: laptop\nknowledge: {persist: false}\n"
        f"input: {{numbers: {list(range(24))}}}\n"
    )
    gpu = (
        "{name: gpu, cpus: 1, memory_mib: 1500, gpus: 2, gpu_memory_mib: 900, simulated: true, hosts: 2,"
        " slurm: {gpu_type: fake, directives: [--nodelist=n1]}}"
    )
    up(slurm, f"pools: [{gpu}, {HOST}]")
    hosts_up(slurm, 3)
    slurm.grafico("run", "kinds.yaml", "--cluster", "connect:mine")
    folder = slurm.run_folder()
    places = result(folder)["places"]
    assert len(places) == 24
    assert not faults(folder)
    ran = starts(folder)
    assert {started.worker.split("-")[0] for started in ran if started.gpu} == {"gpu"}
    assert {started.worker.split("-")[0] for started in ran if not started.gpu} == {"cpu"}
    assert len([started for started in ran if started.gpu]) == 12
    hosts = {started.worker: started.gpu for started in ran if started.gpu}
    assert len(set(hosts.values())) == len(hosts), "two workers took the same GPU of the node"
    assert set(hosts.values()) <= {f"simulated-{n}" for n in range(4)}
