"""What a calculation is: typed input and output, resources, version, failure, recovery.

A calculation is a pure function that a worker runs in a process of its own. It is declared with
:func:`calculation` and referred to by the import path of its module and its name, so that nothing
but JSON and digests travels between controller and worker.
"""

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, Union

import rfc8785
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from grafico.errors import BadInput, GraficoError

__all__ = [
    "ArtifactRef",
    "Artifacts",
    "Attempt",
    "Calculation",
    "CalculationError",
    "CalculationTask",
    "Failure",
    "FailureKind",
    "Json",
    "Model",
    "Outcome",
    "Provenance",
    "Resources",
    "Rung",
    "Success",
    "WorkContext",
    "calculation",
    "canonical_json",
    "content_key",
    "load_calculation",
]

Json: TypeAlias = Any
"""A JSON value: ``None``, ``bool``, ``int``, ``float``, ``str``, or lists and string-keyed dicts of these."""


class Model(BaseModel):
    """Base of all that crosses a boundary: frozen, and without room for unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


InputT = TypeVar("InputT", bound=BaseModel)
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
    memory_mib: int = Field(default=2048, ge=1, description="memory, MiB")
    walltime_s: float = Field(default=3600.0, gt=0, description="seconds after which it is killed")


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
    details: Mapping[str, Json] = Field(default_factory=dict, description="numbers that explain it")

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


class Rung(Model):
    """One step of a recovery ladder: what the next attempt changes."""

    note: str = Field(description="what changes, for the journal")
    settings: Mapping[str, Json] = Field(default_factory=dict, description="merged into ctx.settings")
    gpu: Literal["none", "slot", "exclusive"] | None = Field(default=None, description="placement of the next attempt")
    scale_memory: float = Field(default=1.0, ge=1.0, description="factor on memory and GPU memory")
    scale_walltime: float = Field(default=1.0, ge=1.0, description="factor on the walltime")

    def apply(self, resources: Resources) -> Resources:
        """Return the resources of the next attempt."""
        gpu = resources.gpu if self.gpu is None or resources.gpu == "none" else self.gpu
        return resources.model_copy(
            update={
                "gpu": gpu,
                "gpu_memory_mib": 0 if gpu == "none" else round(resources.gpu_memory_mib * self.scale_memory),
                "memory_mib": round(resources.memory_mib * self.scale_memory),
                "walltime_s": resources.walltime_s * self.scale_walltime,
            }
        )


class Artifacts(Protocol):
    """Where the files of a run are kept, by digest."""

    def put(self, data: bytes, media_type: str) -> ArtifactRef:
        """Store ``data``; storing the same bytes again is free."""
        ...

    def path(self, ref: ArtifactRef) -> Path:
        """Return the file's path; the caller must not write to it."""
        ...


@dataclass
class WorkContext:
    """What a calculation is given beside its input.

    Nothing in it may change the meaning of the result: it is not part of the key.
    """

    artifacts: Artifacts
    scratch: Path
    """An empty folder that is removed afterwards."""
    threads: int = 1
    device: str = "cpu"
    """``cpu``, or ``gpu`` when this process was given one."""
    gpu_memory_mib: int = 0
    memory_mib: int = 2048
    settings: Mapping[str, Json] = field(default_factory=dict)
    """What the recovery ladder changed for this attempt."""
    hints: Mapping[str, ArtifactRef] = field(default_factory=dict)
    """Optional aids, such as a wavefunction for an initial guess."""
    versions: dict[str, str] = field(default_factory=dict)
    """Engine and library versions, filled in by :meth:`used`."""
    reused_hints: list[str] = field(default_factory=list)

    def used(self, **versions: str) -> None:
        """Record the versions of the engines and libraries that were used."""
        self.versions.update(versions)

    def save_array(self, array: Any) -> ArtifactRef:
        """Store a NumPy array (``.npy``, no pickles) and return its reference."""
        import io

        import numpy

        buffer = io.BytesIO()
        numpy.save(buffer, numpy.ascontiguousarray(array), allow_pickle=False)
        return self.artifacts.put(buffer.getvalue(), "application/x-npy")

    def load_array(self, ref: ArtifactRef) -> Any:
        """Load an array that :meth:`save_array` stored."""
        import numpy

        return numpy.load(self.artifacts.path(ref), allow_pickle=False)

    def hint_array(self, name: str) -> Any | None:
        """Return the array of a hint and record its use; ``None`` if it is absent or unreadable."""
        ref = self.hints.get(name)
        if ref is None:
            return None
        try:
            array = self.load_array(ref)
        except (OSError, ValueError, EOFError, GraficoError):  # the last one from a run whose artifact is gone
            return None
        self.reused_hints.append(name)
        return array


Function: TypeAlias = Callable[[InputT, WorkContext], OutputT]
ResourceRule: TypeAlias = Resources | Callable[[InputT], Resources]
Ladder: TypeAlias = Mapping[FailureKind, Sequence[Rung]]


@dataclass(frozen=True)
class Calculation(Generic[InputT, OutputT]):
    """A typed function that a worker runs. Make one with :func:`calculation`."""

    name: str
    version: str
    function: Callable[[InputT, WorkContext], OutputT]
    input_type: type[InputT]
    output_type: type[OutputT]
    resource_rule: Resources | Callable[[InputT], Resources]
    ladder: Mapping[FailureKind, tuple[Rung, ...]]
    family: str
    """Processes of one family are interchangeable and kept warm together (an engine's name)."""
    reference: str
    """``module:attribute``, from which a worker loads it."""

    def resources(self, value: InputT) -> Resources:
        """Return what this input needs."""
        rule = self.resource_rule
        return rule if isinstance(rule, Resources) else rule(value)

    def key(self, value: InputT) -> str:
        """Return the content key: name, version and canonical input (artifacts by digest)."""
        return content_key(self.name, self.version, value)

    @property
    def outcome_type(self) -> type[Success[OutputT]]:
        """The concrete type of this calculation's success."""
        return Success[self.output_type]  # type: ignore[name-defined]


def calculation(
    *,
    version: str,
    name: str | None = None,
    resources: Resources | Callable[[InputT], Resources] | None = None,
    ladder: Ladder | None = None,
    family: str = "python",
) -> Callable[[Callable[[InputT, WorkContext], OutputT]], Calculation[InputT, OutputT]]:
    """Declare a function ``(input, ctx) -> output`` as a calculation.

    Parameters
    ----------
    version
        Part of the key: change it when the same input would give another result.
    name
        Part of the key; default the function's name.
    resources
        Constant, or a function of the input. Default: one CPU, 2 GiB, one hour, no GPU.
    ladder
        For each kind of failure, the rungs to try in turn.
    family
        Name of the engine, for keeping processes warm.
    """

    def declare(function: Callable[[InputT, WorkContext], OutputT]) -> Calculation[InputT, OutputT]:
        import typing

        hints = typing.get_type_hints(function)
        parameters = [hint for key, hint in hints.items() if key != "return"]
        output_type = hints.get("return")
        if not parameters or not _is_model(parameters[0]) or not _is_model(output_type):
            raise TypeError(f"{function.__qualname__}: a calculation takes and returns annotated Pydantic models")
        assert output_type is not None
        if unordered := _unordered_field(parameters[0]):
            raise TypeError(
                f"{function.__qualname__}: {unordered} is a set, whose order differs between processes and would change "
                "the key; use a sorted tuple"
            )
        return Calculation(
            name=name or function.__name__,
            version=version,
            function=function,
            input_type=parameters[0],
            output_type=output_type,
            resource_rule=resources or Resources(),
            ladder={kind: tuple(rungs) for kind, rungs in (ladder or {}).items()},
            family=family,
            reference=f"{function.__module__}:{function.__name__}",
        )

    return declare


def _is_model(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _unordered_field(model: type[BaseModel]) -> str | None:
    """Return the dotted name of a field, however deep, that holds a set."""
    import typing

    seen: set[object] = set()
    todo: list[tuple[str, object]] = [(model.__name__, model)]
    while todo:
        name, hint = todo.pop()
        if hint in (set, frozenset) or typing.get_origin(hint) in (set, frozenset):
            return name
        if isinstance(hint, type) and issubclass(hint, BaseModel) and hint not in seen:
            seen.add(hint)
            todo += [(f"{name}.{key}", field.annotation) for key, field in hint.model_fields.items()]
        todo += [(name, part) for part in typing.get_args(hint) if isinstance(part, type) or typing.get_origin(part)]
    return None


def load_calculation(reference: str) -> Calculation[Any, Any]:
    """Return the calculation that ``module:attribute`` names."""
    module, _, attribute = reference.partition(":")
    found = getattr(importlib.import_module(module), attribute, None)
    if not isinstance(found, Calculation):
        raise GraficoError(f"{reference} is no calculation", hint="declare it with @calculation at module level")
    return found


class CalculationTask(Model):
    """One attempt at a calculation, as it travels to a worker."""

    reference: str
    name: str
    version: str
    family: str
    key: str
    input: Mapping[str, Json]
    resources: Resources
    attempt: Annotated[int, Field(ge=1)] = 1
    settings: Mapping[str, Json] = Field(default_factory=dict)
    hints: Mapping[str, ArtifactRef] = Field(default_factory=dict)
    lane: str = Field(default="", description="path of the lane, for logs and names")
    label: str = Field(default="", description="what people call it: 'tddft · conformer 3'")


def canonical_json(value: Json) -> bytes:
    """Return RFC 8785 bytes; NaN and infinities are refused.

    Raises
    ------
    BadInput
        The value holds a number or an object that canonical JSON cannot.
    """
    try:
        return bytes(rfc8785.dumps(value))
    except rfc8785.CanonicalizationError as error:
        raise BadInput(f"an input cannot be written as canonical JSON: {error}", hint="use finite numbers") from error


def content_key(name: str, version: str, value: BaseModel) -> str:
    """Return the SHA-256 of name, version and canonical input, as 64 hexadecimal digits."""
    body = {"name": name, "version": version, "input": value.model_dump(mode="json")}
    return hashlib.sha256(canonical_json(body)).hexdigest()
