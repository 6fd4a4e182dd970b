"""Finding a run by what a person types."""

from pathlib import Path

from grafico.errors import RunNotFound
from grafico.runs import find_run, find_runs

__all__ = ["find"]


def find(text: str, base: Path) -> Path:
    """Return the folder of a run.

    Parameters
    ----------
    text
        Path, name, start of a name or short id; ``last`` is the newest run, unless one is called that.
    base
        Folder of the runs.

    Raises
    ------
    RunNotFound
        No run matches, or several do.
    """
    if not text:
        raise RunNotFound("the name of a run is missing", hint="`grafico list` shows them; 'last' is the newest")
    if text == "last" and not (base / "last").exists():
        runs = find_runs(base)
        if not runs:
            raise RunNotFound(f"there are no runs in {base}/", hint="`grafico run JOB` makes one")
        return runs[-1]
    return find_run(text, base)
