"""The dashboard's link, where other commands find it: in the run's folder, which is its owner's alone."""

import contextlib
from collections.abc import Iterator

from grafico.errors import RunError
from grafico.runs import RunPaths, RunStatus, RunView
from grafico.runs.files import disk_errors, read_bytes, write_atomic

__all__ = ["link_of", "published"]


@contextlib.contextmanager
def published(paths: RunPaths, link: str | None) -> Iterator[None]:
    """Keep the link in the run's folder for as long as the cluster is there.

    Raises
    ------
    RunError
        The run folder cannot be written.
    """
    if not link:
        yield
        return
    with disk_errors("the dashboard's link could not be written", paths.dashboard):
        write_atomic(paths.dashboard, f"{link}\n".encode())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            paths.dashboard.unlink(missing_ok=True)


def link_of(view: RunView) -> str:
    """Return the link of a run that goes on now; empty if it has none."""
    if view.status is not RunStatus.RUNNING:
        return ""
    try:
        return (read_bytes(view.paths.dashboard) or b"").decode("utf-8", "replace").strip()
    except (OSError, RunError):
        return ""
