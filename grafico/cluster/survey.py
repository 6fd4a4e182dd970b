"""What this machine has for clusters: Slurm and what it allows, GPUs, clusters that are up; each or why it is not seen.

Nothing here waits long: every program has a time-out, all are asked at once, and no cluster is called over the network.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import Field

from grafico.calculations import Json, Model
from grafico.cluster.hardware import detect_gpus
from grafico.cluster.slurm import commands

__all__ = ["Finding", "survey"]

SHOWN = 12
"""Associations that are told at most: an account manager may see very many."""

SHOWN_TEXT = 200
"""Characters of what a program said that are told at most."""

NO_SLURM = "is there only on clusters with Slurm"
MUTE_SLURM = "its commands are here, but do not work: see whether SLURM_CONF names its configuration, or ask the site"


class Finding(Model):
    """One thing that a cluster needs, or that is one."""

    name: str
    what: str = Field(description="what it is for")
    state: Literal["ok", "missing", "broken"]
    version: str = Field(default="", description="what was found, or what is wrong")
    get: str = Field(default="", description="what to do where it is missing or broken")
    facts: dict[str, Json] = Field(default_factory=dict, description="the same for programs")


def survey() -> list[Finding]:
    """Look at all of it."""
    parts: Sequence[Callable[[], list[Finding]]] = (_slurm, _partitions, _limits, _accounting, _gpus, _clusters)
    with ThreadPoolExecutor(max_workers=len(parts)) as pool:
        found = [each for findings in pool.map(lambda part: part(), parts) for each in findings]
    # Where there is no Slurm at all, once is enough.
    slurm = any(each.name == "Slurm" and each.state != "missing" for each in found)
    return [each for each in found if slurm or each.state != "missing" or not each.name.startswith("Slurm ")]


def _slurm() -> list[Finding]:
    said = commands.version()
    what = "hosts as jobs"
    if said.ok and said.out[:1].isdecimal():
        return [Finding(name="Slurm", what=what, state="ok", version=said.out[:SHOWN_TEXT])]
    if said.problem.endswith("is not there"):
        return [Finding(name="Slurm", what=what, state="missing", version=said.problem, get=NO_SLURM)]
    problem = said.problem or "sinfo tells no version"
    return [Finding(name="Slurm", what=what, state="broken", version=problem, get=MUTE_SLURM)]


def _partitions() -> list[Finding]:
    found = commands.partitions()
    if isinstance(found, str):
        return [_unseen("Slurm partitions", "where jobs go", found, "ask the site how partitions are listed")]
    rows = []
    for part in found:
        words = [
            f"{part.nodes} node{'s' if part.nodes != 1 else ''} ({part.idle} idle)", f"{part.cpus} CPUs",
            f"{part.memory_mib} MiB", part.gres, f"at most {part.walltime}",
        ]  # fmt: skip
        rows.append(
            Finding(
                name=f"Slurm partition {part.name}{' (default)' if part.default else ''}",
                what="where jobs go",
                state="ok" if part.available else "broken",
                version=", ".join(word for word in words if word) + ("" if part.available else "; it is down"),
                get="" if part.available else "give another partition in the profile",
                facts=part.model_dump(mode="json"),
            )
        )
    return rows or [_unseen("Slurm partitions", "where jobs go", "sinfo lists none", "ask the site for access")]


def _limits() -> list[Finding]:
    """Return the accounts and limits that Slurm knows for this user; sites without accounting have none."""
    columns = ("Account", "Partition", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall")
    said = commands.call(
        "sacctmgr", "-n", "-P", "show", "assoc", f"user={commands.user_name()}", f"format={','.join(columns)}",
        timeout_s=commands.QUICK_S,
    )  # fmt: skip
    name, what = "Slurm limits", "accounts, qos"
    if not said.ok:
        return [_unseen(name, what, said.problem, "profiles work without; the site's web pages tell its limits")]
    rows = []
    for line in said.out.splitlines()[:SHOWN]:
        facts = {column: text for column, text in zip(columns, line.split("|"), strict=False) if text}
        told = ", ".join(f"{column} {text}" for column, text in facts.items())
        rows.append(Finding(name=name, what=what, state="ok", version=told or "none that is known", facts=facts))
    return rows or [Finding(name=name, what=what, state="ok", version="no account is known for this user")]


def _accounting() -> list[Finding]:
    said = commands.call("sacct", "-n", "-X", "-P", "-S", "now-1hour", "-o", "JobID", timeout_s=commands.QUICK_S)
    name, what = "Slurm accounting (sacct)", "what became of jobs"
    if said.ok:
        return [Finding(name=name, what=what, state="ok", version="can be read")]
    return [_unseen(name, what, said.problem, "grafico goes on without: squeue and scontrol tell most of it")]


def _gpus() -> list[Finding]:
    return [
        Finding(
            name=f"GPU {gpu.index}",
            what="GPU slots",
            state="ok",
            version=f"{gpu.name}, {gpu.memory_mib} MiB, {gpu.uuid}",
            facts={"index": gpu.index, "uuid": gpu.uuid, "memory_mib": gpu.memory_mib, "name": gpu.name},
        )
        for gpu in detect_gpus()
    ]


def _clusters() -> list[Finding]:
    from grafico.cluster.connection import known_clusters, read_connection
    from grafico.errors import GraficoError

    rows = []
    for folder in known_clusters():
        name, what = f"cluster {folder.root.name}", "runs connect to it"
        try:
            connection = read_connection(folder)
        except GraficoError as error:
            rows.append(Finding(name=name, what=what, state="broken", version=error.message, get=error.hint or ""))
            continue
        if connection is None:
            continue
        alive = connection.server.process.alive()
        facts = {"scheduler": connection.scheduler, "tls": connection.tls, "server": str(connection.server)}
        if alive is False:
            gone = f"its server ({connection.server}) has ended"
            clear = f"grafico cluster down {folder.root.name}"
            rows.append(Finding(name=name, what=what, state="broken", version=gone, get=clear, facts=facts))
            continue
        since = f"up since {connection.started}, {connection.scheduler}"
        told = since if alive else f"{since}, as its folder says; its server is {connection.server}"
        unsafe = "" if connection.tls else "; without TLS"
        rows.append(Finding(name=name, what=what, state="ok", version=told + unsafe, facts=facts))
    return rows


def _unseen(name: str, what: str, problem: str, get: str) -> Finding:
    """Return a finding about what cannot be seen: missing with Slurm itself, else broken."""
    state: Literal["missing", "broken"] = "missing" if problem.endswith("is not there") else "broken"
    return Finding(name=name, what=what, state=state, version=problem, get=get)
