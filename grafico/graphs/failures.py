"""How a walk fails: the exceptions that end it, and the failure that each becomes."""

import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafico.calculations import CalculationError, Failure, FailureKind
from grafico.errors import (
    BadInput,
    ClusterLost,
    GraficoError,
    GraphDefinitionError,
    GraphStopped,
    ProfileError,
    ReplayMismatch,
    RunError,
    UnfitRecord,
)

__all__ = ["JoinFailed", "WalkFailed", "ends_the_run", "failure_from", "unwrap"]

FAULTS = (ClusterLost, GraphDefinitionError, ProfileError, ReplayMismatch, RunError)
"""What no walk can do anything about."""


class WalkFailed(GraficoError):
    """Ends a walk; its outcome is the failure that this carries. Made by ``ctx.fail``."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> tuple[object, ...]:
        return (WalkFailed, (self.failure,))


class JoinFailed(GraficoError):
    """A join that has too few successes; names the failed lanes."""

    def __init__(self, need: str, failed: Mapping[str, Failure], total: int) -> None:
        listed = "; ".join(f"{key}: {failure.kind}, {failure.message}" for key, failure in list(failed.items())[:5])
        more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
        super().__init__(f"the join needs {need}, but {len(failed)} of {total} lanes failed ({listed}{more})")
        self.need = need
        self.failed = dict(failed)
        self.total = total

    def __reduce__(self) -> tuple[object, ...]:
        return (JoinFailed, (self.need, self.failed, self.total))


def unwrap(error: Exception) -> Exception:
    """Return what counts in a group of exceptions: a fault of the machinery, else the first one."""
    if not isinstance(error, ExceptionGroup):
        return error
    leaves = [unwrap(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if ends_the_run(leaf)), leaves[0])


def ends_the_run(error: BaseException) -> bool:
    """Tell faults of the machinery, which end the whole run, from what fails one walk."""
    if isinstance(error, UnfitRecord):
        return False
    return not isinstance(error, Exception) or isinstance(error, FAULTS)


def failure_from(error: Exception, node: str) -> Failure:
    """Return the outcome of a walk that ``error`` ended at ``node``."""
    if isinstance(error, WalkFailed):
        failure = error.failure
        return failure if failure.where else failure.model_copy(update={"where": node})
    if isinstance(error, CalculationError):
        return Failure(kind=error.kind, message=str(error), where=node, details=error.details)
    if isinstance(error, JoinFailed):
        kinds = {failure.kind for failure in error.failed.values()}
        kind = kinds.pop() if len(kinds) == 1 else FailureKind.REFUSED
        details: dict[str, Any] = {"failed_lanes": {key: str(failure.kind) for key, failure in error.failed.items()}}
        return Failure(kind=kind, message=error.message, where=node, details=details)
    if isinstance(error, UnfitRecord):
        return Failure(kind=FailureKind.ENGINE_ERROR, message=f"node {node}: {error.message}", where=node)
    if isinstance(error, GraphStopped):
        return Failure(kind=FailureKind.REFUSED, message=error.message, where=node)
    if isinstance(error, BadInput):
        message = f"{error.message} ({error.hint})" if error.hint else error.message
        return Failure(kind=FailureKind.BAD_INPUT, message=message, where=node)
    return Failure(
        kind=FailureKind.ENGINE_ERROR, message=f"{type(error).__name__}: {error}", where=node, details=_lines(error)
    )


def _lines(error: Exception) -> dict[str, Any]:
    """Return file and line that raised, and where that is deep in a library, the author's own line that led there."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_ENGINE, "<")) and "pydantic_graph" not in frame.filename
    ]
    if not frames:
        return {}
    own = [frame for frame in frames if frame.filename.startswith(_GRAFICO) or not _is_library(frame.filename)]
    lines = {"line": f"{frames[-1].filename}:{frames[-1].lineno}"}
    if own and own[-1] is not frames[-1]:
        lines["called_at"] = f"{own[-1].filename}:{own[-1].lineno}"
    return lines


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(_LIBRARY)


_ENGINE = f"{Path(__file__).parent}{os.sep}"
_GRAFICO = f"{Path(__file__).parent.parent}{os.sep}"
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
