"""How a calculation is declared: its types, version, resources and recovery ladder."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field

from grafico.calculations.keys import content_key
from grafico.calculations.outcomes import ArtifactRef, FailureKind, Json, Model, Resources, Success
from grafico.calculations.work import WorkContext
from grafico.errors import GraficoError

__all__ = ["Calculation", "CalculationTask", "Rung", "calculation", "load_calculation"]

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)


class Rung(Model):
    """One step of a recovery ladder: what the next attempt changes."""

    note: str = Field(description="what changes, for the journal")
    settings: Mapping[str, Json] = Field(default_factory=dict, description="merged into ctx.settings")
    gpu: Literal["none", "slot", "exclusive"] | None = Field(default=None, description="placement of the next attempt")
    scale_memory: float = Field(
        default=1.0, ge=1.0, description="factor on memory and GPU memory; a whole GPU gives all that it has as it is"
    )
    scale_walltime: float = Field(default=1.0, ge=1.0, description="factor on the walltime")

    def apply(self, resources: Resources) -> Resources:
        """Return the resources of the next attempt."""
        if self.gpu == "none":
            resources = resources.without_gpu()
        gpu = resources.gpu if self.gpu is None or resources.gpu == "none" else self.gpu
        # Twice what a slot was given may be more than any card has, and then nothing would be tried at all.
        gpu_memory = resources.gpu_memory_mib * (1.0 if gpu == "exclusive" else self.scale_memory)
        return resources.model_copy(
            update={
                "gpu": gpu,
                "gpu_memory_mib": round(gpu_memory),
                "memory_without_gpu_mib": round(resources.memory_without_gpu_mib * self.scale_memory),
                "memory_mib": round(resources.memory_mib * self.scale_memory),
                "walltime_s": resources.walltime_s * self.scale_walltime,
                "walltime_without_gpu_s": resources.walltime_without_gpu_s * self.scale_walltime,
            }
        )


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
    uses: tuple[str, ...] = ()
    """What it cannot do without: packages as they are imported (``pyscf``), and programs (``program:packmol``)."""
    uses_on_gpu: tuple[str, ...] = ()
    """Packages without which it computes on CPUs where it was given a GPU."""

    def resources(self, value: InputT) -> Resources:
        """Return what this input needs."""
        rule = self.resource_rule
        return rule if isinstance(rule, Resources) else rule(value)

    def key(self, value: InputT) -> str:
        """Return the content key: name, version and canonical input (artifacts by digest)."""
        return content_key(self.name, self.version, value)

    def task(
        self,
        value: InputT,
        *,
        key: str | None = None,
        resources: Resources | None = None,
        attempt: int = 1,
        settings: Mapping[str, Json] | None = None,
        hints: Mapping[str, ArtifactRef] | None = None,
        lane: str = "",
        label: str = "",
    ) -> "CalculationTask":
        """Return one attempt at this input, for ``Compute.run``.

        Parameters
        ----------
        value
            The input.
        key, resources
            Where they are known already, or are to be others; default those of the input.
        attempt, settings, hints, lane, label
            See :class:`CalculationTask`.
        """
        return CalculationTask(
            reference=self.reference,
            name=self.name,
            version=self.version,
            family=self.family,
            key=self.key(value) if key is None else key,
            input=value.model_dump(mode="json"),
            resources=self.resources(value) if resources is None else resources,
            attempt=attempt,
            settings=settings or {},
            hints=hints or {},
            lane=lane,
            label=label,
        )

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
    uses: Sequence[str] = (),
    uses_on_gpu: Sequence[str] = (),
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
    uses, uses_on_gpu
        Packages and programs that must be there, or are needed to use a GPU: a job is refused before it begins where
        they are not; see :class:`Calculation`.
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
            uses=tuple(uses),
            uses_on_gpu=tuple(uses_on_gpu),
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
