"""The exception tree of grafico.

::

    GraficoError
    ├── BadInput                what the user gave cannot be used (exit code 2)
    │   ├── JobError            the job file
    │   ├── MoleculeError       a molecule or a structure file
    │   ├── LevelError          a functional, basis, solvent or other part of a level of theory
    │   ├── ProfileError        a cluster profile, or a request that no worker of it can satisfy
    │   ├── QueryError          a query or an identifier for the knowledge base
    │   └── MissingExtra        an optional engine or package is not installed
    ├── GraphDefinitionError    a graph whose nodes, routes or annotations do not fit together
    ├── GraphStopped            a walk that cannot go on, with its reason
    ├── ReplayMismatch          the journal does not match the code
    ├── ClusterLost             the cluster is gone that a run was on
    ├── RunError                a run folder
    │   ├── RunNotFound         no such run
    │   ├── RunLocked           another controller has the run
    │   ├── RunBroken           what a run cannot go on with: a full disk, a file system that fails, a folder that is gone
    │   ├── StaleController     a newer controller has taken over; this one must stop
    │   ├── JournalDamaged      a journal line that is neither whole nor merely torn
    │   └── UnfitRecord         something that JSON cannot hold was to be journalled: fails the walk that asked for it
    ├── KnowledgeError          the knowledge base
    │   └── Conflict            a change by somebody else that must not be overwritten
    ├── ModelError              a language model that is asked
    │   ├── ModelUnavailable    no answer came: network, rate limit, time-out, refused key
    │   ├── PromptTruncated     the server read less of the prompt than was sent
    │   ├── BadAnswer           an answer came, and it is not what was asked for
    │   └── BudgetSpent         tokens or money of the run are used up
    └── CalculationError        raised by a calculation to fail with a kind (see calculations.py)

Each message says what was expected, what came, and what to do.
"""

from typing import Any

__all__ = [
    "BadAnswer",
    "BadInput",
    "BudgetSpent",
    "ClusterLost",
    "Conflict",
    "GraficoError",
    "GraphDefinitionError",
    "GraphStopped",
    "JobError",
    "JournalDamaged",
    "KnowledgeError",
    "LevelError",
    "MissingExtra",
    "ModelError",
    "ModelUnavailable",
    "MoleculeError",
    "ProfileError",
    "PromptTruncated",
    "QueryError",
    "ReplayMismatch",
    "RunBroken",
    "RunError",
    "RunLocked",
    "RunNotFound",
    "StaleController",
    "UnfitRecord",
]


class GraficoError(Exception):
    """Base of all errors that grafico raises on purpose.

    Parameters
    ----------
    message
        What was expected and what came.
    hint
        What to do about it; shown on a line of its own.
    """

    exit_code = 4

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(cls: type[GraficoError], message: str, hint: str | None) -> GraficoError:
    return cls(message, hint=hint)


class BadInput(GraficoError):
    """What the user gave cannot be used."""

    exit_code = 2


class JobError(BadInput):
    """A job file that cannot be read or does not satisfy its schema."""


class MoleculeError(BadInput):
    """A molecule or structure file that cannot be used."""


class LevelError(BadInput):
    """A level of theory that the engine does not have."""


class ProfileError(BadInput):
    """A cluster profile, or a request that no worker of it can satisfy."""


class QueryError(BadInput):
    """A query or an identifier that the knowledge base refuses."""


class MissingExtra(BadInput):
    """An optional engine or package is not installed."""


class GraphDefinitionError(GraficoError):
    """A graph whose nodes, routes or annotations do not fit together."""


class GraphStopped(GraficoError):
    """A walk that cannot go on, with its reason."""


class ReplayMismatch(GraficoError):
    """The journal does not match the code; names the first difference."""


class ClusterLost(GraficoError):
    """The cluster is gone that a run was on: nothing is wrong with the run, which goes on once there is one again."""


class RunError(GraficoError):
    """A run folder that cannot be used."""

    exit_code = 2


class RunNotFound(RunError):
    """No such run."""


class RunLocked(RunError):
    """Another controller has the run."""


class RunBroken(RunError):
    """A run cannot go on: the disk is full, the file system fails, or the folder is gone. Nothing was wrong with the input."""

    exit_code = 4


class StaleController(RunError):
    """A newer controller has taken over; this one must stop."""

    exit_code = 4


class JournalDamaged(RunError):
    """A journal line that is neither whole nor merely torn."""


class UnfitRecord(RunError):
    """Something that JSON cannot hold was to be journalled: a fault of the walk that asked for it, not of the folder."""


class KnowledgeError(GraficoError):
    """The knowledge base cannot do what was asked."""


class Conflict(KnowledgeError):
    """A change by somebody else that must not be overwritten.

    Parameters
    ----------
    clashes
        What was changed here and there: entity, property, the value before, theirs and ours.
    """

    def __init__(self, message: str, *, hint: str | None = None, clashes: tuple[Any, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.clashes = clashes

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_conflict, (self.message, self.hint, self.clashes))


def _rebuild_conflict(message: str, hint: str | None, clashes: tuple[Any, ...]) -> Conflict:
    return Conflict(message, hint=hint, clashes=clashes)


class ModelError(GraficoError):
    """A language model that was asked could not be used."""


class ModelUnavailable(ModelError):
    """No answer came, after all tries: network, rate limit, time-out, a refused key."""


class PromptTruncated(ModelError):
    """The server read less of the prompt than was sent, so its answer counts for nothing."""


class BadAnswer(ModelError):
    """An answer came, and it is not the JSON object that was asked for."""


class BudgetSpent(ModelError):
    """The tokens or the money that the job allows are used up."""
