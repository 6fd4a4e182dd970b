"""Profiles of Slurm clusters and of clusters that are up: what they may say, and the workers that they mean."""

import pytest
import yaml

from grafico.cluster import Profile, lay_out, load_profile
from grafico.cluster import layout as layout_module
from grafico.cluster.builtin import ALLOCATION, BUILTIN, H100X4, SLURM_H100
from grafico.cluster.hardware import Gpu
from grafico.cluster.layout import lay_out_host
from grafico.cluster.slurm.settings import Scale, SlurmSettings, walltime_seconds
from grafico.errors import ProfileError

CPU = "{name: cpu, cpus: 2, memory_mib: 4000}"
GPU = "{name: gpu, cpus: 8, memory_mib: 9000, gpus: 2, gpu_memory_mib: 9000}"


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return load_profile(str(path))

    return read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"kind: pbs\npools: [{CPU}]", "kind: input should be 'local', 'slurm' or 'connect', got 'pbs'"),
        ("kind: slurm", "pools: at least one is needed"),
        ("kind: local", "pools: at least one is needed"),
        ("kind: slurm\npools: [{name: cpu}]", "pool 'cpu': cpus, memory_mib: give numbers"),
        ("kind: slurm\npools: [{name: cpu, cpus: auto, memory_mib: 9}]", "pool 'cpu': cpus: give numbers"),
        ("kind: slurm\npools: [{name: gpu, cpus: 1, memory_mib: 9, gpus: 2}]", "gpu_memory_mib: give numbers"),
        ("kind: slurm\npools: [{name: gpu, cpus: 1, memory_mib: 9, gpus: [a]}]", "Slurm chooses the devices"),
        (f"pools: [{CPU}]\nslurm: {{partition: x}}", "slurm: only with kind: slurm"),
        (f"pools: [{CPU}]\npartition: x", "unknown key 'partition'"),
        (f"pools: [{CPU}]\nworkers: allocation", "workers: only with kind: slurm"),
        (f"pools: [{CPU}]\nhost: ib0\npython: x", "host, python: only with kind: slurm"),
        ("pools: [{name: cpu, hosts: 3}]", "pool 'cpu': hosts: only with kind: slurm"),
        ("pools: [{name: cpu, container: apptainer}]", "container: only with kind: slurm"),
        (f"pools: [{CPU}]\nconnect: x", "connect: only with kind: connect, not with kind: local"),
        ("kind: connect", "connect: is missing"),
        (f"kind: connect\nconnect: x\npools: [{CPU}]", "pools: not with kind: connect"),
        ("kind: connect\nconnect: x\ndashboard: 0", "dashboard: not with kind: connect"),
        ("kind: connect\nconnect: 'a b'", "connect: "),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{partitoin: x}}", "slurm: unknown key 'partitoin' (did you mean 'partition'?)"),
        ("kind: slurm\npools: [{name: cpu, slurm: {qoss: x}}]", "pools.0.slurm: unknown key 'qoss' (did you mean 'qos'?)"),
        ("kind: slurm\npools: [{name: cpu, hosts: {mix: 1}}]", "pools.0.hosts: unknown key 'mix' (did you mean"),
        ("kind: slurm\npools: [{name: cpu, hosts: {min: 3, max: 1}}]", "pools.0.hosts: min (3) is above max (1)"),
        ("kind: slurm\npools: [{name: cpu, hosts: {min: 3}}]", "pools.0.hosts.max: is missing"),
        ("kind: slurm\npools: [{name: cpu, hosts: 0}]", "pools.0.hosts"),
        ("kind: slurm\npools: [{name: cpu, hosts: many}]", "pools.0.hosts"),
        (f"kind: slurm\npools: [{CPU}]\ncontroller: {{memory: 3}}", "controller.memory"),
        (f"kind: slurm\npools: [{CPU}]\ncontroller: {{cpu: 3}}", "controller: unknown key 'cpu' (did you mean 'cpus'?)"),
        ("kind: slurm\npools: [{name: cpu, slurm: {gpu_type: h100}}]", "only for a pool with GPUs"),
        ("pools: [{name: cpu, mps: true}]", "mps: true needs real GPUs"),
        ("pools: [{name: gpu, gpus: 1, simulated: true, mps: true}]", "mps: true needs real GPUs"),
        ("pools: [{name: cpu, environment: {CUDA_MPS_PIPE_DIRECTORY: x}}]", "is set by grafico"),
        ("kind: slurm\nworkers: allocation\npools: [{name: cpu, hosts: {max: 2}}]", "an allocation has one number of nodes"),
        ("kind: slurm\nworkers: allocation\npools: [{name: cpu}, {name: two}]", "a machine has one pool of CPUs"),
        (
            "kind: slurm\nworkers: allocation\ncontroller: {requeue: false, directives: [--hold], walltime: 01:00:00}\npools: [{name: cpu}]",
            "controller: directives, walltime: an allocation is one job",
        ),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{walltime: 60}}", "as HH:MM:SS, or with days as D-HH:MM:SS"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{walltime: 4:00}}", "slurm.walltime: expected hours, minutes and seconds"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{walltime: 00:00:00}}", "slurm.walltime"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{walltime: 1-30:00:00}}", "slurm.walltime"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{account: a b}}", "slurm.account: expected one word"),
        (f'kind: slurm\npools: [{CPU}]\nslurm: {{account: "a\\n#SBATCH --uid=0"}}', "slurm.account: expected one word"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{qos: --wrap=id}}", "slurm.qos: expected one word"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{gpu_style: shards}}", "slurm.gpu_style"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: [hello]}}", "is no sbatch option, such as"),
        (f'kind: slurm\npools: [{CPU}]\nslurm: {{directives: ["--x\\n--y"]}}', "one line of printable text"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['--comment=\"a']}}", "No closing quotation"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['--requeue']}}", "--requeue is set by grafico (a lost host is"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['-N 4']}}", "--nodes is set by grafico"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['--exclusive --array=1-9']}}", "--array is set by grafico"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['--arr=1-9']}}", "--array is set by grafico"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['-Mother']}}", "--clusters is set by grafico"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{directives: ['--signal=TERM@9']}}", "controller.warn_s says how long"),
        (f"kind: slurm\npools: [{CPU}]\ncontroller: {{directives: [--no-requeue]}}", "controller: {requeue: false}"),
        (f"kind: slurm\npools: [{CPU}]\nslurm: {{omit: [--memory]}}", "'--memory' is no option that grafico writes"),
        (f'kind: slurm\npools: [{CPU}]\nsetup: ["a\\nb"]', "one line of shell"),
        (f"kind: slurm\npools: [{CPU}]\nsetup: ['#SBATCH --mem=3']", "go under slurm.directives"),
        ("kind: slurm\npools: [{name: cpu, container: \"apptainer 'x\"}]", "No closing quotation"),
        (f"kind: slurm\npools: [{CPU}]\nhost: 'a b'", "host: "),
        (f"kind: slurm\npools: [{CPU}]\npython: '$(id)'", "python: "),
        (f"pools: [{CPU}]\nsecurity: off", "security: "),
    ],
)  # fmt: skip
def test_each_mistake_gets_one_clear_message(text, said, read):
    with pytest.raises(ProfileError) as caught:
        read(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_times_and_names_are_read_as_they_are_written(read):
    settings = read(
        f"kind: slurm\npools: [{CPU}]\nslurm: {{walltime: 12:30:00, account: 007, qos: on, partition: 1e3, constraint: ~}}"
    ).slurm
    assert (settings.walltime, settings.account, settings.qos, settings.partition) == ("12:30:00", "007", "on", "1e3")
    assert settings.constraint is None
    assert settings.walltime_s == 45_000
    assert walltime_seconds("1-02:03:04") == 93_784
    assert walltime_seconds("100:00:00") == 360_000


def test_a_pool_lays_its_own_settings_over_the_profiles():
    base = SlurmSettings(partition="a", account="b", directives=("--x",), omit=("--mem",), memory=False)
    merged = base.under(SlurmSettings(partition="c", walltime="01:00:00", directives=("--y=1",), memory=True))
    assert (merged.partition, merged.account, merged.walltime, merged.memory) == ("c", "b", "01:00:00", True)
    assert (merged.directives, merged.omit) == (("--x", "--y=1"), ("--mem",))


def test_profiles_survive_being_written_to_json():
    for profile in BUILTIN.values():
        assert Profile.model_validate(profile.to_json()) == profile
        assert Profile.model_validate(yaml.safe_load(yaml.safe_dump(profile.to_json()))).to_json() == profile.to_json()


def test_four_real_gpus_are_refused_where_there_are_none(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProfileError, match="'h100x4', pool 'gpu': 4 GPUs asked for, this machine has no visible GPUs"):
        lay_out(H100X4)


def test_what_slurm_will_start_is_expected_at_its_largest(monkeypatch):
    monkeypatch.setenv("PATH", "")  # nobody asks for GPUs here
    workers = lay_out(SLURM_H100)
    assert [w.name for w in workers][:5] == ["gpu-1-0", "gpu-1-1", "gpu-1-2", "gpu-1-3", "gpu-2-0"]
    assert sum(w.slots for w in workers) == 24
    assert sum(w.cpus for w in workers) == 64
    assert {w.host for w in workers if w.pool == "cpu"} == {"1", "2", "3", "4"}
    gpu, cpu = workers[0], workers[-1]
    assert gpu.vram_mib == 81_559 - 3 * 512
    assert gpu.threads == 4
    assert gpu.walltime_s == 24 * 3600
    assert (gpu.pin_cpus, gpu.mps) == (True, False)
    assert cpu.memory_mib == 65_536 - 512, "the workers themselves need some of what Slurm is asked for"
    assert len({w.gpu for w in workers if w.gpu}) == 8


def small(**more):
    pool = {"name": "gpu", "cpus": 8, "memory_mib": 8000, "gpus": 2, "gpu_memory_mib": 900, "simulated": True}
    return Profile.model_validate({"kind": "slurm", "pools": [{**pool, **more}], "slurm": {"walltime": "01:00:00"}})


def test_a_host_divides_what_slurm_gave_it():
    given = {
        "SLURM_JOB_ID": "1",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "SLURM_CPUS_ON_NODE": "8",
        "SLURM_MEM_PER_NODE": "8000",
    }
    workers = lay_out_host(small(), "gpu", "17", given)
    assert [w.name for w in workers] == ["gpu-17-0", "gpu-17-1"]
    assert [w.gpu for w in workers] == ["simulated-2", "simulated-3"], "two jobs of a node have different GPUs"
    assert {w.host for w in workers} == {"17"}
    assert [w.threads for w in workers] == [1, 1]
    assert sum(w.memory_mib for w in workers) <= 8000 - 256 * 3


def test_a_host_that_got_less_than_the_profile_says_is_refused():
    """What was admitted by the profile's numbers would wait for ever on a smaller one."""
    cpu = {"name": "cpu", "cpus": 16, "memory_mib": 9000}
    profile = Profile.model_validate({"kind": "slurm", "name": "mine", "pools": [cpu]})
    given = {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "16", "SLURM_MEM_PER_NODE": "9000"}
    (worker,) = lay_out_host(profile, "cpu", "1", given)
    assert (
        (worker.cpus, worker.memory_mib)
        == (16, 9000 - 512)
        == (lay_out(profile)[0].cpus, lay_out(profile)[0].memory_mib)
    )
    with pytest.raises(ProfileError, match="pool 'cpu': this host has 4 CPUs, less than cpus says"):
        lay_out_host(profile, "cpu", "1", {**given, "SLURM_CPUS_ON_NODE": "4"})
    of_site = {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "16", "SLURM_MEM_PER_CPU": "500"}
    with pytest.raises(ProfileError, match="this host has 8000 MiB of memory, less than memory_mib says"):
        lay_out_host(profile, "cpu", "1", of_site)


def test_the_pools_of_an_allocation_share_what_its_nodes_have():
    given = {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "1", "SLURM_MEM_PER_CPU": "1000"}
    (worker,) = lay_out_host(ALLOCATION, "cpu", "n1", given)
    assert (worker.cpus, worker.memory_mib) == (1, 900)
    (worker,) = lay_out_host(ALLOCATION, "cpu", "n1", {**given, "SLURM_GPUS_ON_NODE": "2"})
    assert worker.memory_mib == 450, "the other half is for what runs on the GPUs"


def test_real_gpus_of_a_host_are_those_of_its_job(monkeypatch):
    cards = tuple(Gpu(str(n), f"GPU-{n}", 40_000, "NVIDIA A100") for n in range(2))
    masks = []
    monkeypatch.setattr(
        layout_module, "detect_gpus", lambda environ: masks.append(environ["CUDA_VISIBLE_DEVICES"]) or cards
    )
    given = {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
    workers = lay_out_host(small(simulated=False, gpu_memory_mib=40_960), "gpu", "3", given)
    assert masks == ["0,1"]
    assert [w.device for w in workers] == ["GPU-0", "GPU-1"]
    assert workers[0].vram_mib == 40_000 - 3 * 512, "what the driver says, where it is nearly what the profile says"
    with pytest.raises(ProfileError, match="this host has 40000 MiB on its NVIDIA A100, less than gpu_memory_mib says"):
        lay_out_host(small(simulated=False, gpu_memory_mib=81_559), "gpu", "3", given)
    with pytest.raises(ProfileError, match="3 GPUs asked for, this machine has 2 visible GPUs"):
        lay_out_host(small(simulated=False, gpus=3), "gpu", "3", given)


def test_processors_are_divided_only_where_slurm_confines_jobs(monkeypatch):
    monkeypatch.setattr(layout_module, "_processors", lambda: tuple(range(8, 16)))
    confined = lay_out_host(small(), "gpu", "1", {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "8"})
    assert [w.cpu_set for w in confined] == [(8, 9, 10, 11), (12, 13, 14, 15)]
    assert all(w.pin_cpus for w in confined)
    shared = lay_out_host(small(cpus=2), "gpu", "1", {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "2"})
    assert not any(w.pin_cpus for w in shared), "a neighbor's job would be pinned to the same ones"
    unpinned = lay_out_host(small(pin_cpus=False), "gpu", "1", {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "8"})
    assert [w.cpu_set for w in unpinned] == [(), ()]


def test_the_nodes_of_an_allocation_are_seen_only_inside(monkeypatch):
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProfileError, match="takes what the nodes of an allocation have, which is seen only inside one"):
        lay_out(ALLOCATION)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "4000")
    workers = lay_out(ALLOCATION)
    assert [w.name for w in workers] == ["cpu-1-0", "cpu-2-0", "cpu-3-0"]
    assert workers[0].memory_mib == 3600


def test_an_allocation_in_numbers_is_known_from_outside(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    pools = [{"name": "cpu", "cpus": 4, "memory_mib": 9000, "hosts": 2}]
    workers = lay_out(Profile.model_validate({"kind": "slurm", "workers": "allocation", "pools": pools}))
    assert [(w.name, w.cpus) for w in workers] == [("cpu-1-0", 4), ("cpu-2-0", 4)]


def test_a_scale_is_a_number_or_a_range():
    pool = SLURM_H100.pool("gpu")
    assert pool.scale == Scale(min=0, max=2)
    assert pool.model_copy(update={"hosts": 3}).scale == Scale(min=3, max=3)
