"""Re-exports that are imported on first use."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["reexports"]


def reexports(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562).

    Parameters
    ----------
    package
        Its ``__name__``.
    homes
        The names that each of its modules defines.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return look_up
