"""Whose a folder is: what another user can write is not acted on.

A run folder names the code of its graph, and a cluster folder the server to talk to, with which functions are exchanged:
whoever can write there decides what runs as us.
"""

import os
import stat
from pathlib import Path

from grafico.errors import GraficoError, RunError

__all__ = ["refuse_others"]


def refuse_others(folder: Path, what: str, error: type[GraficoError] = RunError) -> None:
    """Refuse a folder that is somebody else's, or that others can write to; one that is not there is nobody's.

    Parameters
    ----------
    folder
        Where what is to be acted on stands.
    what
        What is refused, for the message: ``a run cannot be resumed from it``, say.
    error
        What to raise.

    Raises
    ------
    GraficoError
        As given.
    """
    try:
        status = folder.stat()
    except OSError:
        return  # whoever reads there says what is wrong
    if status.st_uid not in {os.getuid(), 0}:
        raise error(
            f"{folder} belongs to another user ({_name(status.st_uid)}), who decides what it makes run: {what}",
            hint="if you trust what is in it, copy it into a folder of your own, or have it given to you (chown)",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise error(
            f"others can write to {folder} ({stat.filemode(status.st_mode)}), and decide what it makes run: {what}",
            hint=f"if nobody has changed anything there: chmod go-w {folder}",
        )


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
