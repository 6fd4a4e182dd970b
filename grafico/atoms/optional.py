"""Engines and libraries that an extra installs."""

import importlib
from types import ModuleType

from grafico.errors import MissingExtra

__all__ = ["require"]


def require(module: str, *, extra: str = "chem", purpose: str = "") -> ModuleType:
    """Import a module that belongs to an extra.

    Parameters
    ----------
    module
        Dotted name, such as ``"rdkit.Chem"``.
    extra
        The pip extra that installs it.
    purpose
        What it is needed for; completes "<package> is needed ...".

    Raises
    ------
    MissingExtra
        The package is not installed, or does not load on this machine.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        package = module.partition(".")[0]
        reason = "is not installed" if isinstance(error, ModuleNotFoundError) else f"does not load ({error})"
        why = f" {purpose}" if purpose else ""
        raise MissingExtra(f"{package} is needed{why}, but {reason}", hint=f"pip install 'grafico[{extra}]'") from error
