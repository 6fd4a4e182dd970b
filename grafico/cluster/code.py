"""Where a calculation's code comes from when it is not installed: beside a job file, say.

A cluster that stays up was started before the job was written. So what it has to import travels with the task, by path;
and with a stamp, so that no process goes on with what it had imported before the file was changed.
"""

import hashlib
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from grafico.calculations import Model

__all__ = ["NOTHING", "Code", "code_of"]


class Code(Model):
    """What has to be importable for a calculation, besides what is installed."""

    folder: str = ""
    """Empty for what is installed."""
    stamp: str = ""
    """Changes with the files in it."""

    def __bool__(self) -> bool:
        return bool(self.folder)


NOTHING = Code()


@lru_cache(maxsize=1024)
def code_of(reference: str) -> Code:
    """Return where the code of ``module:attribute`` comes from, as it was imported here."""
    top = reference.partition(":")[0].partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if top == "grafico" or file is None:
        return NOTHING
    path = Path(file).resolve()
    folder = path.parent.parent if path.stem == "__init__" else path.parent
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if any(folder == known or known in folder.parents for known in installed):
        return NOTHING
    return Code(folder=str(folder), stamp=_stamp(folder))


def _stamp(folder: Path) -> str:
    facts = []
    for path in sorted(folder.glob("*.py")):
        status = path.stat()
        facts.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
