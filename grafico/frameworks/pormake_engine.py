"""PORMAKE, loaded without the marks that it leaves: a log file in the working directory, and messages on the console.

Source: S. Lee et al., ACS Appl. Mater. Interfaces 13 (2021) 23647, doi:10.1021/acsami.1c02471;
https://github.com/Sangwon91/PORMAKE.
"""

import functools
import importlib.util
import logging
import threading
from pathlib import Path
from typing import Any

from grafico.atoms.optional import require
from grafico.errors import MissingExtra

__all__ = ["load_pormake", "pormake_folder", "pormake_version"]

_LOGGER = "unique_logger"  # PORMAKE's own name for it
_lock = threading.Lock()


def load_pormake() -> Any:
    """Return the module ``pormake``, silent and on the CPU.

    Its submodules may be imported afterwards. JAX, with which it scales nets, is told to use the CPU: the problems are
    far too small for a GPU, whose memory JAX would take at once.

    Raises
    ------
    MissingExtra
        PORMAKE is not installed.
    """
    with _lock:
        return _load()


@functools.cache
def _load() -> Any:
    require("jax", extra="mof", purpose="by PORMAKE").config.update("jax_platforms", "cpu")
    opened = logging.FileHandler

    class Unopened(opened):  # type: ignore[misc, valid-type]
        """A handler that opens no file before the first message, of which there is none."""

        def __init__(self, filename: Any, mode: str = "a", **options: Any) -> None:
            super().__init__(filename, mode, **{**options, "delay": True})

    logging.FileHandler = Unopened  # type: ignore[assignment, misc]
    try:
        module = require("pormake", extra="mof", purpose="to build frameworks")
    finally:
        logging.FileHandler = opened  # type: ignore[misc]
    logger = logging.getLogger(_LOGGER)
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(logging.NullHandler())
    # Its messages are built at every step; above this level they cost nothing.
    logger.setLevel(logging.CRITICAL)
    return module


@functools.cache
def pormake_folder() -> Path:
    """Return PORMAKE's database, a folder, without loading PORMAKE (which takes seconds).

    Raises
    ------
    MissingExtra
        PORMAKE is not installed.
    """
    found = importlib.util.find_spec("pormake")
    places = tuple(found.submodule_search_locations or ()) if found else ()
    for place in places:
        folder = Path(place) / "database"
        if folder.is_dir():
            return folder
    raise MissingExtra(
        "pormake is needed for its building blocks and topologies, but is not installed",
        hint="pip install 'grafico[mof]'",
    )


def pormake_version() -> str:
    """Return the version of PORMAKE that is installed."""
    from importlib.metadata import version

    return version("pormake")
