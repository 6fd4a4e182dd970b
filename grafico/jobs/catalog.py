"""The graphs that a job can name, found without importing any of them before it is asked for."""

import importlib
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from grafico.errors import GraficoError, JobError, MissingExtra
from grafico.jobs.problems import did_you_mean

__all__ = ["BUILT_IN", "ENTRY_POINTS", "extra_for", "graph_ids", "import_path", "load_graph", "missing_extra"]

BUILT_IN = {
    "quantum-chemistry": "grafico.chemistry.quantum_chemistry:GRAPH",
    "ensemble-spectrum": "grafico.chemistry.ensemble:GRAPH",
}

ENTRY_POINTS = "grafico.graphs"
"""Group of entry points by which an installed package adds graphs."""

_EXTRAS = {
    **dict.fromkeys(
        ("ase", "geometric", "matplotlib", "pyscf", "rdkit", "scipy", "tblite", "xtb", "dftd3", "dftd4"), "chem"
    ),
    **dict.fromkeys(("dask_jobqueue",), "slurm"),
    **dict.fromkeys(("litellm",), "llm"),
    **dict.fromkeys(("bokeh",), "dashboard"),
    **dict.fromkeys(("cupy", "gpu4pyscf"), "gpu12"),
}


def extra_for(module: str) -> str | None:
    """Return the extra of grafico that brings a top-level module."""
    return _EXTRAS.get(module.partition(".")[0])


def missing_extra(error: ImportError) -> MissingExtra | None:
    """Turn the failed import of an optional package into what to install; ``None`` for any other."""
    extra = extra_for(error.name or "")
    if extra is None:
        return None
    return MissingExtra(f"{error.name} is not installed", hint=f'pip install "grafico[{extra}]"')


def graph_ids() -> dict[str, str]:
    """Return the import string of every graph id: the built-in ones and those of installed packages."""
    found = dict(BUILT_IN)
    for point in entry_points(group=ENTRY_POINTS):
        found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


def import_path(folder: Path) -> None:
    """Let modules beside a job file be imported, here and in the workers that start from here.

    They come last, so that nothing beside a job file can replace an installed module.
    """
    text = str(folder.resolve())
    if text not in sys.path:
        sys.path.append(text)
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if text not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*inherited, text])


def load_graph(name: str, *, beside: Path | None = None) -> Any:
    """Return the graph of an id, or of ``module:NAME``.

    Parameters
    ----------
    name
        Id in the catalog, or an import string.
    beside
        Folder of the job file, where a module of one's own may lie.

    Raises
    ------
    JobError
        There is no such graph.
    MissingExtra
        A package that it needs is not installed.
    """
    known = graph_ids()
    if ":" not in name:
        if name not in known:
            raise JobError(
                f"there is no graph '{name}'{did_you_mean(name, known)}",
                hint=f"graphs: {', '.join(known)}; or module:NAME for one of your own",
            )
        return _imported(known[name], name)
    if beside is not None:
        import_path(beside)
    return _imported(name, name)


def _imported(reference: str, name: str) -> Any:
    from grafico.graphs import Graph

    module, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise JobError(f"the graph '{name}': '{module}' is no name of a module", hint="write module:NAME")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is not None:
            raise missing from error
        if error.name and module.startswith(error.name):
            raise JobError(
                f"the graph '{name}': there is no module {error.name}", hint="put it beside the job file, or install it"
            ) from None
        raise GraficoError(f"the graph '{name}' cannot be imported: {error}") from error
    except (ValueError, SyntaxError) as error:
        raise JobError(f"the graph '{name}' cannot be imported: {error}") from error
    if not isinstance(found, Graph):
        raise JobError(f"the graph '{name}': {module} has no graph called {attribute}")
    if found.request_type is None or found.begin is None:
        raise JobError(f"the graph '{name}' cannot be a job: it has no request", hint="give it request_type and begin")
    return found
