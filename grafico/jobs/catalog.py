"""The graphs that a job can name, found without importing any of them before it is asked for."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.errors import GraficoError, GraphDefinitionError, JobError, MissingExtra
from grafico.jobs.problems import did_you_mean

__all__ = [
    "BUILT_IN",
    "ENTRY_POINTS",
    "blame",
    "extra_for",
    "graph_ids",
    "import_path",
    "load_graph",
    "missing_extra",
    "said",
]

BUILT_IN = {
    "quantum-chemistry": "grafico.chemistry.quantum_chemistry:GRAPH",
    "ensemble-spectrum": "grafico.chemistry.ensemble:GRAPH",
    "framework-design": "grafico.frameworks.graph:GRAPH",
}

ENTRY_POINTS = "grafico.graphs"
"""Group of entry points by which an installed package adds graphs."""

_EXTRAS = {
    **dict.fromkeys(
        ("ase", "gemmi", "geometric", "matplotlib", "pyscf", "rdkit", "scipy", "tblite", "xtb", "dftd3", "dftd4"),
        "chem",
    ),
    **dict.fromkeys(("dask_jobqueue",), "slurm"),
    **dict.fromkeys(("litellm",), "llm"),
    **dict.fromkeys(("CoRE_MOF", "jax", "mofstructure", "networkx", "pormake", "pymatgen", "pyzeo"), "mof"),
    **dict.fromkeys(("chgnet", "sevenn", "torch", "torch_sim"), "mlip"),
    **dict.fromkeys(("bokeh",), "dashboard"),
    **dict.fromkeys(("pyarrow",), "parquet"),
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


def _broken(name: str, error: BaseException) -> GraficoError:
    message = f"the graph '{name}' cannot be imported: {said(error)}"
    if name in BUILT_IN:
        return GraficoError(message)
    return JobError(message, hint="GRAFICO_DEBUG=1 shows the traceback")


def said(error: BaseException) -> str:
    """Return what an exception says, and the file and line that it comes from."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    # Rather the author's own line than one deep in a library.
    own = [frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith("<")]
    at = f" ({Path((own or frames)[-1].filename).name}, line {(own or frames)[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}{at}"


@contextmanager
def blame(name: str, part: str) -> Iterator[None]:
    """Say which part of a graph is at fault when it raises what it should not.

    Raises
    ------
    GraphDefinitionError
        The code of a graph of one's own raised; of the built-in graphs, the exception itself is raised.
    """
    try:
        yield
    except (GraficoError, ValidationError, ImportError):
        raise
    except Exception as error:
        if name in BUILT_IN:
            raise
        raise GraphDefinitionError(
            f"{part} of the graph '{name}' raised {said(error)}",
            hint="this is a fault of that graph; GRAFICO_DEBUG=1 shows the traceback",
        ) from error


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
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise JobError(
                f"the graph '{name}': there is no module {error.name}", hint="put it beside the job file, or install it"
            ) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error
    if not isinstance(found, Graph):
        origin = getattr(sys.modules[module], "__file__", None) or "a built-in module"
        graphs = [key for key, value in vars(sys.modules[module]).items() if isinstance(value, Graph)]
        raise JobError(
            f"the graph '{name}': {module} has no graph called {attribute or 'nothing'} ({origin})",
            hint=f"it has {', '.join(graphs)}"
            if graphs
            else "if another file was meant, rename it: installed modules come first",
        )
    if found.request_type is None or found.begin is None:
        raise JobError(f"the graph '{name}' cannot be a job: it has no request", hint="give it request_type and begin")
    return found
