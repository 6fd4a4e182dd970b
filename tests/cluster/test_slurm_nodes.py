"""What Slurm says of the nodes of a job, and how hosts are started on them."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.cluster.fleet import HostView
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.allocation import AllocationFleet
from grafico.cluster.slurm.nodes import expand, gpus_by_node
from grafico.errors import ProfileError

PROFILE = Profile.model_validate(
    {
        "kind": "slurm",
        "name": "two",
        "workers": "allocation",
        "pools": [
            {"name": "gpu", "gpus": 1, "simulated": True, "cpus": 1, "memory_mib": 900},
            {"name": "cpu", "cpus": 1, "memory_mib": 900},
        ],
    }
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu[08-11,20],login2", ["gpu08", "gpu09", "gpu10", "gpu11", "gpu20", "login2"]),
        ("r[1-2]c[01-02]", ["r1c01", "r1c02", "r2c01", "r2c02"]),
        ("node-a.site.org,node-b[9-10]-ib", ["node-a.site.org", "node-b9-ib", "node-b10-ib"]),
    ],
)
def test_lists_of_nodes_are_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names


@given(st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,8}[a-z]", fullmatch=True), min_size=1, max_size=6))
def test_plain_names_stay_as_they_are(names: list[str]) -> None:
    assert expand(",".join(names)) == names


@pytest.mark.parametrize("text", ["", "n[1-x]", "[]"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no "):
        expand(text)


def test_gpus_are_counted_by_node() -> None:
    shown = """\
   TresPerNode=gres:gpu:4
     Nodes=n[1-2] CPU_IDs=0-2 Mem=900 GRES=gpu:h100:3(IDX:0-2),shard:0
     Nodes=n3 CPU_IDs=0 Mem=900 GRES=gpu:h100:1(IDX:3),gpu:a100:2(IDX:0-1)
     Nodes=n4 CPU_IDs=0 Mem=900 GRES=
"""
    assert gpus_by_node(shown) == {"n1": 3, "n2": 3, "n3": 3, "n4": 0}


SRUN = """\
#!/bin/bash
case "$1" in --version) echo slurm {version}; exit;; esac
printf '%s\\n' "$@" >"{calls}/$$"
env | grep -E '^(SLURM|CUDA)' >"{calls}/$$.env"
[ -e {stop} ] && {{ echo 'no libnothing here' >&2; exit 1; }}
exec sleep 60
"""


class Site:
    """A folder with an `srun` of our own, which writes down how it is called, and no Slurm behind it."""

    def __init__(self, folder: Path, version: str = "22.05.8", **environ: str) -> None:
        self.calls = folder / "calls"
        self.calls.mkdir()
        self.stop = folder / "stop"
        self.folder = folder / "cluster"
        (folder / "bin").mkdir()
        srun = folder / "bin" / "srun"
        srun.write_text(SRUN.format(version=version, calls=self.calls, stop=self.stop))
        srun.chmod(0o755)
        scontrol = folder / "bin" / "scontrol"
        scontrol.write_text("#!/bin/sh\necho '  Nodes=n[1-2] CPU_IDs=0 Mem=9 GRES=gpu:2(IDX:0-1)'\n")
        scontrol.chmod(0o755)
        self.environ = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_MEM_PER_NODE": "4000",
            "SLURM_NTASKS": "2",
            "CUDA_VISIBLE_DEVICES": "0,1",
            **environ,
        }
        self.fleet = AllocationFleet(PROFILE, self.folder, "tls://10.0.0.1:1", environ=self.environ)

    def asked(self) -> list[list[str]]:
        return [path.read_text().splitlines() for path in sorted(self.calls.glob("*[0-9]"))]

    async def until(self, count: int) -> list[list[str]]:
        deadline = time.monotonic() + 60
        while len(list(self.calls.glob("*.env"))) < count:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        return self.asked()


def views(*labels: str) -> list[HostView]:
    return [
        HostView(label=label.partition("-")[2], pool=label.partition("-")[0], workers=(f"{label}-0",), busy=0, idle_s=0)
        for label in labels
    ]


def test_every_pool_is_started_on_every_node_with_a_step_of_its_own(tmp_path: Path) -> None:
    async def scene() -> None:
        site = Site(tmp_path)
        await site.fleet.start()
        try:
            asked = await site.until(4)
            assert sorted(next(w for w in a if w.startswith("--nodelist")) for a in asked) == [
                "--nodelist=n1", "--nodelist=n1", "--nodelist=n2", "--nodelist=n2",
            ]  # fmt: skip
            assert all({"--jobid=7", "--overlap", "--no-kill", "--mem=0", "--nodes=1"} <= set(a) for a in asked)
            assert sum("--gres=none" in a for a in asked) == 2
            assert all({"export SLURM_MEM_PER_NODE=4000", "export SLURM_GPUS_ON_NODE=2"} <= set(a) for a in asked)
            environments = "".join(path.read_text() for path in site.calls.glob("*.env"))
            assert "SLURM_NTASKS" not in environments, "what the job asked for is not asked for again of each node"
            assert "CUDA" not in environments
            assert [(s.wanted, s.queued, s.up) for s in site.fleet.status()] == [(2, 2, 0), (2, 2, 0)]
            await site.fleet.adjust({}, views("gpu-n1", "gpu-n2", "cpu-n1", "cpu-n2"))
            assert [(s.queued, s.up, s.problem) for s in site.fleet.status()] == [(0, 2, ""), (0, 2, "")]
            await site.fleet.adjust({}, views("gpu-n1", "cpu-n1"))
            assert "host n2 of pool cpu is gone" in site.fleet.status()[1].problem
        finally:
            await site.fleet.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("environ", "options"),
    [({}, []), ({"SLURM_GPUS": "4"}, ["--gpus=2"]), ({"SLURM_GPUS_PER_TASK": "2"}, ["--gpus=2"])],
)
def test_gpus_of_the_whole_job_are_asked_for_again_by_node(
    environ: dict[str, str], options: list[str], tmp_path: Path
) -> None:
    async def scene() -> None:
        site = Site(tmp_path, **environ)
        await site.fleet.start()
        try:
            asked = await site.until(4)
        finally:
            await site.fleet.close()
        for call in asked:
            if "--gres=none" not in call:
                assert [word for word in call if word.startswith("--gpus")] == options

    asyncio.run(scene())


def test_an_old_slurm_is_not_asked_for_what_it_does_not_know(tmp_path: Path) -> None:
    async def scene() -> list[list[str]]:
        site = Site(tmp_path, "20.02.7")
        await site.fleet.start()
        try:
            return await site.until(4)
        finally:
            await site.fleet.close()

    assert not [call for call in asyncio.run(scene()) if "--overlap" in call]


def test_a_host_that_never_comes_up_is_given_up_and_its_last_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grafico.cluster.slurm.allocation.LONGEST_WAIT_S", 0.01)

    async def scene() -> None:
        site = Site(tmp_path)
        site.stop.touch()
        await site.fleet.start()
        deadline = time.monotonic() + 60
        while not all(status.hopeless for status in site.fleet.status()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        said = json.dumps([status.model_dump() for status in site.fleet.status()])
        assert "no libnothing here" in said
        assert "and 1 more" in said
        assert len(site.asked()) == 4 * 5
        await site.fleet.close()

    asyncio.run(scene())


def test_without_an_allocation_or_srun_it_does_not_begin(tmp_path: Path) -> None:
    fleet = AllocationFleet(PROFILE, tmp_path, "tls://10.0.0.1:1", environ={"PATH": "/nowhere"})
    with pytest.raises(ProfileError, match="we are in none"):
        asyncio.run(fleet.start())
    inside = {"PATH": "/nowhere", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    fleet = AllocationFleet(PROFILE, tmp_path, "tls://10.0.0.1:1", environ=inside)
    with pytest.raises(ProfileError, match="srun is not on the PATH in Slurm job 7"):
        asyncio.run(fleet.start())
