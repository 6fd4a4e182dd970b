"""Profiles: what is read, and how each mistake is answered."""

import os
from pathlib import Path

import pytest

from grafico.cluster import Pool, Profile, known_profiles, load_profile
from grafico.cluster.builtin import BUILTIN, GPU1, LAPTOP
from grafico.cluster.hardware import parse_gpus, visible
from grafico.cluster.layout import lay_out
from grafico.errors import ProfileError


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_the_laptop_needs_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    profile = load_profile("laptop")
    (worker,) = lay_out(profile)
    assert worker.cpus >= 1
    assert worker.memory_mib > 100
    assert not worker.is_gpu
    assert known_profiles() == ["allocation", "gpu1", "h100x4", "laptop", "sim-h100x4", "slurm-cpu", "slurm-h100"]


def test_profiles_of_the_checkout_are_read_by_name_and_by_path(pytestconfig, monkeypatch):
    monkeypatch.chdir(pytestconfig.rootpath)
    assert load_profile("laptop") == LAPTOP
    assert load_profile("cluster/laptop.yaml") == LAPTOP
    assert load_profile("cluster/gpu1.yaml") == GPU1 == load_profile("gpu1")
    for name, profile in BUILTIN.items():
        assert load_profile(f"cluster/{name}.yaml") == profile, name
    simulated = load_profile("sim-h100x4")
    workers = lay_out(simulated)
    assert [w.name for w in workers] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "cpu"]
    assert sum(w.slots for w in workers) == 12
    assert {"laptop", "sim-h100x4"} <= set(known_profiles())


def test_yaml_switches_are_understood(write):
    assert load_profile(write("dashboard: off\npools: [{name: cpu}]")).dashboard == "off"
    assert load_profile(write("dashboard: on\npools: [{name: cpu}]")).dashboard == 0
    assert load_profile(write("dashboard: 8900\npools: [{name: cpu}]")).dashboard == 8900
    assert load_profile(write("pools: [{name: gpu, gpus: [0, 1], simulated: true}]")).pools[0].gpus == ("0", "1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found nothing"),
        ("- a\n- b", "found a list"),
        ("just words", "found only 'just words'"),
        ("pools: []", "pools: "),
        ("pool: [{name: cpu}]", "did you mean 'pools'"),
        ("pools: [{name: cpu, cpu: 3}]", "did you mean 'cpus'"),
        ("pools: [{name: cpu, wizards: 3}]", "unknown key 'wizards'"),
        ("pools: [{cpus: 3}]", "pools.0.name: is missing"),
        ("pools: [{name: CPU 1}]", "pools.0.name"),
        ("pools: [{name: cpu, cpus: many}]", "pools.0.cpus"),
        ("pools: [{name: cpu, cpus: 0}]", "pools.0.cpus: input should be 'auto' or greater than or equal to 1, got 0"),
        ("pools: [{name: cpu, cpus: 2.5}]", "pools.0.cpus"),
        ("pools: [{name: cpu, memory_mib: 8 GB}]", "pools.0.memory_mib"),
        ("pools: [{name: cpu, slots: 3}]", "only for a pool with GPUs"),
        ("pools: [{name: cpu, simulated: true}]", "needs a number of GPUs"),
        ("pools: [{name: gpu, gpus: auto, simulated: true}]", "cannot be detected"),
        ("pools: [{name: gpu, gpus: 1, simulated: true, slots: 0}]", "pools.0.slots"),
        ("pools: [{name: gpu, gpus: -1}]", "pools.0.gpus"),
        (
            "pools: [{name: gpu, gpus: 1.5}]",
            "pools.0.gpus: input should be 'auto' or a valid integer or a list, got 1.5",
        ),
        (
            "pools: [{name: gpu, gpus: [null], simulated: true}]",
            "pools.0.gpus.0: input should be a valid string, got None",
        ),
        ("pools: [{name: gpu, gpus: [''], simulated: true}]", "pools.0.gpus.0"),
        (f"pools: [{{name: gpu, gpus: [{'x' * 300}], simulated: true}}]", "pools.0.gpus.0"),
        (f"pools: [{{name: cpu, memory_mib: {'9' * 30}}}]", "pools.0.memory_mib: input should be 'auto' or less than"),
        (f"pools: [{{name: gpu, gpus: 1, simulated: true, gpu_memory_mib: {'9' * 30}}}]", "pools.0.gpu_memory_mib"),
        (f"pools: [{{name: gpu, gpus: 1, simulated: true, cpus_per_slot: {'9' * 30}}}]", "pools.0.cpus_per_slot"),
        ("pools:", "pools: input should be a list, got None"),
        ("pools: [{name: gpu, gpus: [0, 0], simulated: true}]", "each device once"),
        ("pools: [{name: cpu}, {name: cpu, gpus: 1, simulated: true}]", "two are called 'cpu'"),
        ("pools: [{name: one}, {name: two}]", "one pool of CPUs"),
        ("pools: [{name: cpu, environment: {OMP_NUM_THREADS: '4'}}]", "OMP_NUM_THREADS is set by grafico"),
        ("pools: [{name: cpu, environment: {RAYON_NUM_THREADS: '4'}}]", "RAYON_NUM_THREADS is set by grafico"),
        ("pools: [{name: cpu, environment: {PYTHONPATH: /opt}}]", "PYTHONPATH comes from where grafico is started"),
        ("pools: [{name: cpu, environment: {TMPDIR: /big}}]", "TMPDIR comes from where grafico is started"),
        ("pools: [{name: cpu, environment: {'A B': '4'}}]", "no name for an environment variable"),
        (f"pools: [{{name: cpu, environment: {{A: {'x' * 200_000}}}}}]", "the value of A has 200000 characters"),
        ("pools: [{name: cpu}]\ndashboard: 99999", "dashboard: input should be 'off' or less than or equal to 65535"),
        ("pools: [{name: cpu}]\ndashboard: everywhere", "dashboard"),
        ("pools: [{name: cpu}]\nkind: pbs", "'local', 'slurm' or 'connect', got 'pbs'"),
        ("pools: [{name: cpu}]\nkind: local\nkind: local", "line 3: 'kind' is given twice"),
        ("pools: [{name: cpu", "line 1"),
        ("pools: &a [{name: cpu}]\nmore: *a", "aliases"),
        ("pools: [{name: cpu}]\n? [a]\n: 1", "line 2: a list or mapping stands for a key"),
        ("pools: [{name: cpu, cpus: !!bool maybe}]", "line 1: tags (tag:yaml.org,2002:bool) are not allowed"),
        ("name: !!timestamp today\npools: [{name: cpu}]", "line 1: tags"),
        ("\tpools: []", "line 1"),
        (b"\xff\xfe", "not UTF-8"),
        ("a: " + "x" * 300_000, "too large"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_each_mistake_gets_one_clear_message(text, said, write):
    path = write(text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert said in f"{caught.value.message} ({caught.value.hint})"
    assert path in caught.value.message
    assert "\n" not in caught.value.message


def test_unknown_names_and_places_are_answered_with_what_there_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProfileError) as caught:
        load_profile("labtop")
    assert "did you mean 'laptop'" in str(caught.value.hint)
    with pytest.raises(ProfileError, match=r"no cluster profile at nowhere\.yaml"):
        load_profile("nowhere.yaml")
    with pytest.raises(ProfileError, match="is a folder"):
        load_profile(f"{tmp_path}/")
    os.mkfifo(tmp_path / "pipe.yaml")  # nobody writes into it
    with pytest.raises(ProfileError, match="is not a regular file"):
        load_profile(f"{tmp_path}/pipe.yaml")


def test_gpus_that_are_not_there_are_missed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    pool = Pool(name="gpu", gpus=2)
    with pytest.raises(ProfileError, match="2 GPUs asked for, this machine has no visible GPUs"):
        lay_out(Profile(pools=(pool,)))
    with pytest.raises(ProfileError, match="no GPU 'GPU-1234'"):
        lay_out(Profile(pools=(Pool(name="gpu", gpus=("GPU-1234",)),)))
    with pytest.raises(ProfileError, match="comes to no workers"):
        lay_out(Profile(pools=(Pool(name="gpu", gpus="auto"),)))
    assert [w.name for w in lay_out(Profile(pools=(Pool(name="gpu", gpus="auto"), Pool(name="cpu"))))] == ["cpu"]


def test_a_gpu_belongs_to_one_pool():
    pools = tuple(Pool(name=name, gpus=1, simulated=True) for name in ("one", "two"))
    with pytest.raises(ProfileError, match="is in pool 'one' and in pool 'two'"):
        lay_out(Profile(pools=pools))


def test_what_the_driver_says_is_read_and_a_mask_is_subdivided():
    said = "0, GPU-aaaa, 81559, NVIDIA H100 80GB HBM3\n1, GPU-bbbb, 81559, NVIDIA H100 80GB HBM3\nnonsense\n"
    gpus = parse_gpus(said)
    assert [gpu.uuid for gpu in gpus] == ["GPU-aaaa", "GPU-bbbb"]
    assert visible(gpus, None) == gpus
    assert visible(gpus, "1") == gpus[1:]
    assert visible(gpus, "GPU-bb,0") == (gpus[1], gpus[0])
    assert visible(gpus, "") == ()
    assert visible(gpus, "0,7,1") == gpus[:1]


def test_what_a_wrong_profile_is_told_is_there_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("- 1\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    hint = caught.value.hint or ""
    path.write_text(hint.split("`")[1])
    assert load_profile(str(path)).pools[0].cpus == 4
    path.write_text("pools: [{name: cpu, cpus: none}]")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    assert "gpu_memory_mib" in (caught.value.hint or "")
    assert "laptop.yaml" not in hint + (caught.value.hint or "")
