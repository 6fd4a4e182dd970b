"""What a calculation needs and what comes of it: resources, artifacts, outcomes, failures."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from typing_extensions import TypeAliasType

from grafico.errors import GraficoError

__all__ = [
    "ArtifactRef",
    "Attempt",
    "CalculationError",
    "Failure",
    "FailureKind",
    "Json",
    "Model",
    "Outcome",
    "Provenance",
    "Resources",
    "Success",
    "unfit",
]

Json: TypeAlias = Any
"""A JSON value: ``None``, ``bool``, ``int``, ``float``, ``str``, or lists and string-keyed dicts of these."""


def plain(value: Any) -> Json:
    """Return a value as JSON; what JSON cannot hold (NaN, an object) becomes text."""
    if isinstance(value, float):
        return float(value) if isfinite(value) else str(float(value))
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, BaseModel):
        return plain(value.model_dump())
    # Numbers and arrays of NumPy and its kin.
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def unfit(value: Any, place: str = "") -> str:
    """Return what in a value JSON cannot hold, with its place: ``result.total is nan``; empty if it holds all."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        parts: Iterator[tuple[str, Any]] = ((f"{place}.{key}" if place else str(key), v) for key, v in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{place}[{index}]", v) for index, v in enumerate(value))
    elif value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return ""
    else:
        return f"{place} is {value if isinstance(value, float) else 'a ' + type(value).__name__}"
    return next((found for where, part in parts if (found := unfit(part, where))), "")


class Model(BaseModel):
    """Base of all that crosses a boundary: frozen, and without room for unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


OutputT = TypeVar("OutputT", bound=BaseModel)


class ArtifactRef(Model):
    """A content-addressed file of a run."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content")
    media_type: str = Field(default="application/octet-stream", description="what the bytes are")
    size: int = Field(ge=0, description="bytes")


class Resources(Model):
    """What one calculation needs while it runs."""

    gpu: Literal["none", "slot", "exclusive"] = Field(
        default="none", description="no GPU, one slot of one, or a whole one"
    )
    gpu_memory_mib: int = Field(default=0, ge=0, description="GPU memory, MiB")
    cpus: int = Field(default=1, ge=1, description="CPU threads")
    memory_mib: int = Field(default=2048, ge=1, description="memory of the host, MiB")
    memory_without_gpu_mib: int = Field(
        default=0, ge=0, description="memory of the host where it gets no GPU, if that is more, MiB"
    )
    walltime_s: float = Field(default=3600.0, gt=0, description="seconds after which it is killed")
    walltime_without_gpu_s: float = Field(
        default=0.0, ge=0, description="seconds after which it is killed where it gets no GPU, if that is more"
    )

    def without_gpu(self) -> "Resources":
        """Return what it needs on CPUs alone."""
        return self.model_copy(
            update={
                "gpu": "none",
                "gpu_memory_mib": 0,
                "memory_mib": max(self.memory_mib, self.memory_without_gpu_mib),
                "memory_without_gpu_mib": 0,
                "walltime_s": max(self.walltime_s, self.walltime_without_gpu_s),
                "walltime_without_gpu_s": 0.0,
            }
        )


class FailureKind(StrEnum):
    """Why a calculation or a lane failed."""

    BAD_INPUT = "bad_input"
    SCF_NOT_CONVERGED = "scf_not_converged"
    NOT_CONVERGED = "not_converged"
    IMAGINARY_MODE = "imaginary_mode"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASH = "crash"
    WORKER_LOST = "worker_lost"
    ENGINE_ERROR = "engine_error"
    REFUSED = "refused"


class Attempt(Model):
    """One attempt at a calculation that did not succeed."""

    number: int = Field(ge=1)
    kind: FailureKind
    message: str
    settings: Mapping[str, Json] = Field(default_factory=dict, description="what this attempt changed")
    resources: Resources
    worker: str = Field(default="", description="host and process that ran it, where known")
    seconds: float = Field(default=0.0, ge=0)


class Provenance(Model):
    """What was actually used to obtain an outcome."""

    versions: Mapping[str, str] = Field(default_factory=dict, description="engines and libraries")
    device: str = Field(default="cpu", description="cpu, or the GPU's name")
    threads: int = Field(default=1, ge=1)
    settings: Mapping[str, Json] = Field(default_factory=dict, description="what the recovery ladder had changed")
    host: str = ""
    pid: int = 0
    attempt: int = Field(default=1, ge=1)
    started: str = Field(default="", description="UTC, ISO 8601")
    seconds: float = Field(default=0.0, ge=0)
    reused_hints: tuple[str, ...] = Field(default=(), description="names of hints that were used")
    consumed: tuple[str, ...] = Field(default=(), description="structures and files of the input, by digest")
    made: tuple[str, ...] = Field(default=(), description="structures and files of the output, by digest")


class Success(Model, Generic[OutputT]):
    """A finished calculation (or lane): its output and where it came from."""

    status: Literal["success"] = "success"
    output: OutputT
    key: str = Field(default="", description="the calculation's content key; empty for a lane")
    provenance: Provenance = Field(default_factory=Provenance)

    @property
    def ok(self) -> Literal[True]:
        """True: narrows the type of an outcome."""
        return True


class Failure(Model):
    """A failed calculation or lane: a value, never a crash of its neighbours."""

    status: Literal["failure"] = "failure"
    kind: FailureKind
    message: str
    history: tuple[Attempt, ...] = ()
    signal: int | None = Field(default=None, description="signal that ended the process, for a crash")
    where: str = Field(default="", description="calculation or node that failed")
    # A failure must always be told: what explains it is often a number that has gone wrong.
    details: Annotated[Mapping[str, Json], BeforeValidator(plain)] = Field(
        default_factory=dict, description="numbers that explain it"
    )

    @property
    def ok(self) -> Literal[False]:
        """False: narrows the type of an outcome."""
        return False


# Union and a lazily subscripted alias: a pydantic generic in a plain `X | Y` cannot be subscripted at run time.
Outcome = TypeAliasType("Outcome", Union[Success[OutputT], Failure], type_params=(OutputT,))  # noqa: UP007


class CalculationError(GraficoError):
    """Raised inside a calculation (or a node) to fail with a kind.

    Parameters
    ----------
    kind
        Which rung of the recovery ladder applies.
    message
        What happened, in the words of the field.
    details
        Small JSON values that explain it (an energy change, a gradient norm).
    """

    def __init__(self, kind: FailureKind, message: str, *, details: Mapping[str, Json] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = dict(details or {})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_error, (self.kind, self.message, self.details))


def _rebuild_error(kind: FailureKind, message: str, details: Mapping[str, Json]) -> CalculationError:
    return CalculationError(kind, message, details=details)
