"""`grafico doctor` on machines with and without Slurm, GPUs and clusters that are up."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafico.cluster.builtin import LAPTOP
from grafico.cluster.connection import ClusterFolder, Connection, Server, this_server, versions_here
from grafico.cluster.slurm import commands


@pytest.fixture
def tools(bench: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have PATH hold only what a test puts there."""
    folder = bench / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("GRAFICO_CLUSTERS", str(bench / "clusters"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(name: str, body: str) -> None:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(stat.S_IRWXU)

    return make


def rows(grafico: Callable[..., Any]) -> dict[str, Any]:
    said = grafico("doctor", "--json", "--no-import")
    assert said.code == 0, said.err
    return {row["name"]: row for row in said.json["parts"]}


def test_without_slurm_it_is_named_once(grafico: Callable[..., Any], tools: Callable[..., None]) -> None:
    found = rows(grafico)
    assert found["Slurm"]["state"] == "missing"
    assert found["Slurm"]["version"] == "sinfo is not there"
    assert not [name for name in found if name.startswith("Slurm ")]
    assert found["cryptography"]["state"] == "ok"
    assert found["dask-jobqueue"]["what"] == "Slurm"
    assert found["nvidia-cuda-mps-control"]["state"] == "missing"


def test_slurm_is_told_with_its_partitions_limits_and_accounting(
    grafico: Callable[..., Any], tools: Callable[..., None]
) -> None:
    tools("sinfo", '[ "$1" = --version ] && echo "slurm 24.05.3" && exit\n'
          'echo "gpu*|up|2-00:00:00|3/1/0/4|64|512000|gpu:h100:4"\necho "old|down|infinite|0/0/2/2|16|64000|(null)"')  # fmt: skip
    tools("sacctmgr", 'echo "chem||normal,long|10|100|2-00:00:00"')
    tools("sacct", 'echo "sacct: error: Problem talking to the database: Connection refused" >&2; exit 1')
    found = rows(grafico)
    assert found["Slurm"]["version"] == "24.05.3"
    gpu = found["Slurm partition gpu (default)"]
    assert gpu["version"] == "4 nodes (1 idle), 64 CPUs, 512000 MiB, gpu:h100:4, at most 2-00:00:00"
    assert gpu["facts"]["gres"] == "gpu:h100:4"
    assert found["Slurm partition old"]["state"] == "broken"
    assert "QOS normal,long" in found["Slurm limits"]["version"]
    assert found["Slurm limits"]["facts"]["MaxSubmitJobs"] == "100"
    sacct = found["Slurm accounting (sacct)"]
    assert sacct["state"] == "broken"
    assert "Connection refused" in sacct["version"]
    assert "goes on without" in sacct["get"]
    assert "Slurm partition gpu (default)" in grafico("doctor", "--no-import").out


def test_a_slurm_that_does_not_answer_is_told_and_not_waited_for(
    grafico: Callable[..., Any], tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "QUICK_S", 0.2)
    for name in ("sinfo", "sacct", "sacctmgr"):
        tools(name, "exec /bin/sleep 600")
    found = rows(grafico)
    assert found["Slurm"]["state"] == "broken"
    assert found["Slurm"]["version"] == "sinfo did not answer within 0.2 s"
    assert found["Slurm accounting (sacct)"]["version"] == "sacct did not answer within 0.2 s"


def test_programs_that_talk_nonsense_are_told_in_words(
    grafico: Callable[..., Any], tools: Callable[..., None], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grafico.cli.doctor.TOOL_S", 0.5)
    noise = r"printf '\377\376\033[31m\001 noise %s|%s|%s\n' a b c"
    for name in ("sinfo", "nvidia-smi", "xtb"):
        tools(name, noise)
    tools("sacctmgr", f"{noise} >&2; exit 3")
    tools("sacct", "exit 1")
    tools("crest", "exec /bin/sleep 600")
    (bench / "bin" / "nvidia-cuda-mps-control").write_bytes(b"\177ELF")
    found = rows(grafico)
    assert found["Slurm"]["state"] == "broken"
    assert found["Slurm"]["version"] == "sinfo tells no version"
    assert "SLURM_CONF" in found["Slurm"]["get"]
    assert found["Slurm partitions"]["version"] == "sinfo lists none"
    assert found["Slurm accounting (sacct)"]["version"] == "sacct: exit code 1"
    assert "noise a|b|c" in found["Slurm limits"]["version"]
    assert found["crest"]["version"] == f"{bench / 'bin' / 'crest'} did not answer within 0.5 s"
    assert not [name for name in found if name.startswith("GPU")]
    shown = grafico("doctor", "--no-import")
    assert shown.code == 0
    assert "\033" not in shown.out


def test_gpus_are_told_by_uuid_those_that_this_process_may_use(
    grafico: Callable[..., Any], tools: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools("nvidia-smi", 'echo "0, GPU-aaaa, 81559, NVIDIA H100"; echo "1, GPU-bbbb, 81559, NVIDIA H100"')
    assert rows(grafico)["GPU 0"]["version"] == "NVIDIA H100, 81559 MiB, GPU-aaaa"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = rows(grafico)
    assert "GPU 0" not in found
    assert found["GPU 1"]["facts"]["uuid"] == "GPU-bbbb"


def test_clusters_that_are_up_are_told_and_those_whose_server_is_gone(
    grafico: Callable[..., Any], tools: Callable[..., None], bench: Path
) -> None:
    ended = Server(host=this_server().host, pid=2**22 - 7, start="1")
    for name, server in (("here", this_server()), ("gone", ended)):
        folder = ClusterFolder(bench / "clusters" / name)
        folder.create()
        folder.profile.write_text("{}")
        connection = Connection(
            id=name, name=name, folder=str(folder.root), scheduler="tls://127.0.0.1:4711", tls=name == "here",
            server=server, profile=LAPTOP, expected=(), versions=versions_here(), started="2026-11-30T12:00:00Z",
        )  # fmt: skip
        folder.connection.write_text(connection.to_json())
    found = rows(grafico)
    assert found["cluster here"]["version"] == "up since 2026-11-30T12:00:00Z, tls://127.0.0.1:4711"
    assert found["cluster gone"]["state"] == "broken"
    assert found["cluster gone"]["get"] == "grafico cluster down gone"
