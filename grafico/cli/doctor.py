"""`grafico doctor`: each engine and tool with its version, or how to get it."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from grafico.cli.output import JsonFlag, RunsFolder, out, print_json
from grafico.cli.tables import show_table

__all__ = ["doctor", "examine"]


TOOL_S = 20.0
"""Seconds that a program has to tell its version; a driver in trouble never does."""


class Part(NamedTuple):
    """An optional or required package."""

    name: str
    """Of the distribution."""
    module: str
    what: str
    extra: str | None
    """The extra that brings it; ``None`` for what grafico always needs."""
    note: str = ""
    """What to know before it is installed."""


class Tool(NamedTuple):
    """A program on PATH."""

    name: str
    version: tuple[str, ...]
    what: str
    get: str


PARTS = (
    Part("distributed", "distributed", "lanes on Dask", None),
    Part("cryptography", "cryptography", "TLS between workers", None),
    Part("pydantic", "pydantic", "models", None),
    Part("pydantic-graph", "pydantic_graph", "graphs", None),
    Part("pyoxigraph", "pyoxigraph", "knowledge base", None),
    Part("rdflib", "rdflib", "knowledge base", None),
    Part("numpy", "numpy", "arrays", None),
    Part("pyscf", "pyscf", "DFT, TDDFT, frequencies", "chem"),
    Part("pyscf-dispersion", "pyscf.dispersion", "D3 and D4 dispersion", "chem"),
    Part("geometric", "geometric", "geometry optimization", "chem"),
    Part("tblite", "tblite.interface", "GFN2-xTB", "chem"),
    Part("xtb", "xtb.interface", "GFN2-xTB, second engine", "chem"),
    Part("rdkit", "rdkit", "SMILES, conformers", "chem"),
    Part("ase", "ase", "structures", "chem"),
    Part("scipy", "scipy", "numerics", "chem"),
    Part("matplotlib", "matplotlib", "plots", "chem"),
    Part("pormake", "pormake", "frameworks: building", "mof"),
    Part("pyzeo", "pyzeo", "frameworks: pores (Zeo++)", "mof"),
    Part("mofstructure", "mofstructure", "frameworks: nets", "mof"),
    Part("core-mof", "CoRE_MOF", "frameworks: structures by refcode", "mof"),
    Part("torch", "torch", "machine-learned potentials", "mlip", "; without a GPU a CPU build of torch first"),
    Part("sevenn", "sevenn", "potentials 7net", "mlip"),
    Part("chgnet", "chgnet", "potentials chgnet", "mlip"),
    Part("torch-sim-atomistic", "torch_sim", "many relaxations at once", "mlip"),
    Part("dask-jobqueue", "dask_jobqueue", "Slurm", "slurm"),
    Part("bokeh", "bokeh", "dashboard", "dashboard"),
    Part("litellm", "litellm", "language models", "llm"),
    Part("mcp", "mcp", "grafico mcp", "llm"),
    Part("gemmi", "gemmi", "exchange: CIF", "chem"),
    Part("rocrate", "rocrate", "exchange: runs as RO-Crates", "crate"),
    Part("qcelemental", "qcelemental", "exchange: QCSchema", "qcschema"),
    Part("pyshacl", "pyshacl", "grafico kb validate", "shacl"),
    Part("pyarrow", "pyarrow", "grafico table --parquet", "parquet"),
)

GPU_PARTS = (
    Part("gpu4pyscf-cuda12x", "gpu4pyscf", "DFT on GPUs, CUDA 12", "gpu12"),
    Part("cupy-cuda12x", "cupy", "arrays on GPUs, CUDA 12", "gpu12"),
    Part("gpu4pyscf-cuda13x", "gpu4pyscf", "DFT on GPUs, CUDA 13", "gpu13"),
    Part("cupy-cuda13x", "cupy", "arrays on GPUs, CUDA 13", "gpu13"),
)

TOOLS = (
    Tool("crest", ("--version",), "conformers by metadynamics", "conda: crest (crest-lab.github.io/crest-docs)"),
    Tool("xtb", ("--version",), "GFN2-xTB as a program", "Debian: apt install xtb (conda: xtb)"),
    Tool("packmol", (), "boxes of solvent", "Debian: apt install packmol (conda: packmol)"),
    Tool("nvidia-smi", ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"), "NVIDIA GPUs",
         "comes with the NVIDIA driver"),
    Tool("nvidia-cuda-mps-control", (), "sharing of GPUs (MPS)", "comes with the NVIDIA driver"),
)  # fmt: skip


def examine(runs_dir: Path, *, imports: bool = True) -> list[dict[str, Any]]:
    """Look at every engine and tool.

    Parameters
    ----------
    runs_dir
        Folder of runs, whose file system is looked at.
    imports
        Import each package in a process of its own, which finds broken installations.

    Returns
    -------
    One mapping for each, with ``name``, ``kind``, ``what``, ``state`` (ok, missing, broken), ``version`` and ``get``.
    """
    found = [_part(part) for part in (*PARTS, *GPU_PARTS)]
    tools = [_tool(tool) for tool in TOOLS]
    if imports:
        # Without a GPU, what is made for one may be installed but not imported.
        gpu = any(row["name"] == "nvidia-smi" and row["state"] == "ok" for row in tools)
        modules = {part.name: part.module for part in (*PARTS, *(GPU_PARTS if gpu else ()))}
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            present = [row for row in found if row["state"] == "ok" and row["name"] in modules]
            for row, problem in zip(present, pool.map(_import, (modules[row["name"]] for row in present)), strict=True):
                if problem:
                    row.update(state="broken", version=f"{row['version']}: {problem}")
    return [*found, *tools, _links(runs_dir), *_clusters()]


def _clusters() -> list[dict[str, Any]]:
    """What there is for clusters, and those that are up."""
    from grafico.cluster.survey import survey

    return [{"kind": "cluster", **finding.model_dump()} for finding in survey()]


def _part(part: Part) -> dict[str, Any]:
    get = f'pip install "grafico[{part.extra}]"{part.note}' if part.extra else "pip install --force-reinstall grafico"
    row = {"name": part.name, "kind": part.extra or "core", "what": part.what, "state": "ok", "version": "", "get": ""}
    try:
        row["version"] = installed_version(part.name)
    except PackageNotFoundError:
        row.update(state="missing", get=get)
    return row


def _import(module: str) -> str:
    """Import a module in a process of its own; return what went wrong, or nothing."""
    command = [sys.executable, "-c", f"import {module}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    try:
        # Elsewhere: PORMAKE leaves a file wherever it is imported.
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command, capture_output=True, timeout=120, check=False, env=environment, cwd=folder,
                encoding="utf-8", errors="replace",
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "its import takes more than two minutes"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1][:200] if lines else f"its import ended with exit code {done.returncode}"


def _tool(tool: Tool) -> dict[str, Any]:
    row = {"name": tool.name, "kind": "program", "what": tool.what, "state": "ok", "version": "", "get": ""}
    path = shutil.which(tool.name)
    if path is None:
        row.update(state="missing", get=tool.get)
        return row
    row["version"] = path
    if not tool.version:
        return row
    try:
        done = subprocess.run(
            [path, *tool.version], stdin=subprocess.DEVNULL, capture_output=True, timeout=TOOL_S, check=False,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        row.update(state="broken", version=f"{path} did not answer within {TOOL_S:g} s")
        return row
    except OSError as error:
        row.update(state="broken", version=f"{path} cannot be run: {error.strerror or error}")
        return row
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    named = [line for line in lines if "version" in line.lower()] or lines
    if done.returncode != 0:
        row.update(state="broken", version=(named or [f"exit code {done.returncode}"])[0][:200])
    elif tool.name == "nvidia-smi":
        row["version"] = "; ".join(lines)[:500]
    elif named:
        row["version"] = named[0].strip("* ")[:100]
    return row


def _links(folder: Path) -> dict[str, Any]:
    """Whether the file system of the runs has hard links, by which outcomes are committed."""
    import tempfile

    row = {
        "name": f"hard links in {folder}",
        "kind": "system",
        "what": "commits",
        "state": "ok",
        "version": "",
        "get": "",
    }
    around = folder.absolute()
    while not around.is_dir():
        around = around.parent
    try:
        with tempfile.TemporaryDirectory(dir=around, prefix=".grafico-doctor-") as place:
            first = Path(place) / "one"
            first.touch()
            (Path(place) / "two").hardlink_to(first)
    except OSError as error:
        row.update(state="broken", version=error.strerror or str(error), get="put runs elsewhere: --runs-dir FOLDER")
    return row


def doctor(
    as_json: JsonFlag = False,
    runs_dir: RunsFolder = Path("runs"),
    imports: Annotated[
        bool, typer.Option("--import/--no-import", help="Import each package, which finds broken installations.")
    ] = True,
) -> None:
    """Show each engine and tool: its version, or how to get it."""
    import platform

    from grafico import __version__

    rows = examine(runs_dir, imports=imports)
    system = {"grafico": __version__, "python": platform.python_version(), "platform": platform.platform(),
              "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()}  # fmt: skip
    if as_json:
        print_json({"system": system, "parts": rows})
    else:
        console = out()
        console.print(
            f"grafico {__version__} · Python {system['python']} · {system['platform']} · {system['cpus']} CPUs"
        )
        marks = {"ok": "✓", "missing": "–", "broken": "✗"}
        show_table(
            console,
            "",
            ("  name", "for", "version, or how to get it"),
            [
                (
                    f"{marks[row['state']]} {row['name']}",
                    row["what"],
                    " → ".join(said for said in (row["version"], row["get"]) if said),
                )
                for row in rows
            ],
        )
    if any(row["kind"] == "core" and row["state"] != "ok" for row in rows):
        raise typer.Exit(4)
