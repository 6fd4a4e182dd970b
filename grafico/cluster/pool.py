"""A pool: workers of one kind, and where they come from."""

import re
import shlex
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from grafico.calculations import Model
from grafico.cluster.slurm.settings import Scale, ShellLines, SlurmSettings

__all__ = ["DEFAULT_SLOTS", "SIMULATED_MEMORY_MIB", "Pool"]

DEFAULT_SLOTS = 3
"""Calculations that share one GPU (El Agente Gráfico, Table 1: at most three calculations per GPU)."""

SIMULATED_MEMORY_MIB = 81_559
"""What an H100 of 80 GB reports; the memory of a simulated GPU unless the profile says otherwise."""

OURS = frozenset(
    {
        "CUDA_MPS_LOG_DIRECTORY",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_VISIBLE_DEVICES",
        "GRAFICO_SIMULATED_GPU",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    }
)
"""Variables that follow from a calculation's resources and the pool."""

OF_THE_HOST = frozenset({"PYTHONPATH", "TMPDIR"})
"""Variables that every process gets from whoever starts the workers: what a pool said of them would have no effect."""

LARGEST_MIB = 1_000_000_000
"""No host has more, MiB; what is larger is a slip, and much larger numbers cannot travel."""

LONGEST = 65_536
"""Characters of a variable; the system takes no more than twice that."""


def _devices(value: object) -> object:
    """Device ids may be written as numbers."""
    if not isinstance(value, list):
        return value
    return tuple(str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in value)


Auto: TypeAlias = Literal["auto"]
Mib: TypeAlias = Annotated[int, Field(ge=1, le=LARGEST_MIB, strict=True)]
Device: TypeAlias = Annotated[str, Field(min_length=1, max_length=100)]
Devices: TypeAlias = Annotated[
    Auto | Annotated[int, Field(ge=0, le=64, strict=True)] | tuple[Device, ...], BeforeValidator(_devices)
]
Hosts: TypeAlias = Annotated[
    Annotated[Annotated[int, Field(ge=1, le=1024, strict=True)], Tag("number")] | Annotated[Scale, Tag("scale")],
    Discriminator(lambda value: "scale" if isinstance(value, dict | Scale) else "number"),
]


class Pool(Model):
    """Workers of one kind: the CPUs of a machine, or its GPUs."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,30}$", description="lower-case letters, digits and underscores")
    gpus: Devices = Field(
        default=0, description="of one host: how many, a list of indices or UUIDs, or `auto` for all there are"
    )
    simulated: bool = Field(default=False, description="the GPUs are pretended, to try a profile without any")
    slots: int = Field(default=DEFAULT_SLOTS, ge=1, le=32, description="calculations that share one GPU")
    gpu_memory_mib: Auto | Mib = Field(default="auto", description="memory of one GPU, MiB; `auto`: as the driver says")
    gpu_context_mib: int = Field(
        default=512, ge=0, le=LARGEST_MIB, description="what a warm process keeps of a real GPU's memory, MiB"
    )
    mps: bool | Literal["try"] = Field(
        default=False,
        description="start NVIDIA's multi-process service with the workers; `try`: go on without it if it does not start",
    )
    cpus: Auto | Annotated[int, Field(ge=1, le=4096, strict=True)] = Field(
        default="auto", description="CPU threads of the pool on one host; `auto`: all that the machine allows"
    )
    cpus_per_slot: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="CPU threads of a calculation on a GPU slot; default: the pool's, shared out",
    )
    pin_cpus: bool | None = Field(
        default=None, description="keep each calculation on processors of its own; default: with Slurm only"
    )
    memory_mib: Auto | Mib = Field(
        default="auto", description="memory of the pool on one host, MiB; `auto`: 90 % of what there is, shared out"
    )
    environment: dict[str, str] = Field(default_factory=dict, description="variables set before a process starts")
    preload: tuple[str, ...] = Field(
        default=("gpu4pyscf",), description="modules that a process on a real GPU imports first, where installed"
    )
    hosts: Hosts = Field(default=1, description="Slurm: how many hosts, or {min, max} for as many as the work needs")
    setup: ShellLines = Field(default=(), max_length=64, description="Slurm: shell lines before the workers start")
    container: str = Field(default="", max_length=1000, description="Slurm: what Python is started with, if not alone")
    slurm: SlurmSettings = Field(default_factory=SlurmSettings, description="Slurm: what differs from the profile's")

    @field_validator("environment")
    @classmethod
    def _environment(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name for an environment variable")
            if name in OURS:
                raise ValueError(f"{name} is set by grafico from a calculation's resources; leave it out")
            if name in OF_THE_HOST:
                raise ValueError(f"{name} comes from where grafico is started: set it there (with Slurm, in setup)")
            if "\0" in text:
                raise ValueError(f"the value of {name} holds a NUL character")
            if len(text) > LONGEST:
                raise ValueError(f"the value of {name} has {len(text)} characters; {LONGEST} are possible")
        return value

    @field_validator("container")
    @classmethod
    def _container(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("expected one line, as in apptainer exec --nv image.sif")
        try:
            shlex.split(value)
        except ValueError as error:
            raise ValueError(f"expected a command, as in apptainer exec --nv image.sif: {error}") from None
        return value.strip()

    @model_validator(mode="after")
    def _consistent(self) -> "Pool":
        if not self.has_gpus:
            extra = sorted(self.model_fields_set & {"slots", "gpu_memory_mib", "cpus_per_slot", "preload"})
            if self.simulated:
                raise ValueError("simulated: true needs a number of GPUs, as in gpus: 4")
            if extra:
                raise ValueError(f"{', '.join(extra)}: only for a pool with GPUs; set gpus, or leave it out")
            if self.slurm.gpu_style or self.slurm.gpu_type:
                raise ValueError("slurm.gpu_style and slurm.gpu_type: only for a pool with GPUs; set gpus")
        if self.mps and (not self.has_gpus or self.simulated):
            raise ValueError("mps: true needs real GPUs, as in gpus: 4")
        if self.simulated and self.gpus == "auto":
            raise ValueError("simulated GPUs cannot be detected: give their number, as in gpus: 4")
        if isinstance(self.gpus, tuple):
            doubled = sorted({gpu for gpu in self.gpus if self.gpus.count(gpu) > 1})
            if doubled:
                raise ValueError(f"gpus: each device once; twice: {', '.join(doubled)}")
        return self

    @property
    def has_gpus(self) -> bool:
        """Whether this is a pool of GPUs."""
        return self.gpus not in (0, ())

    @property
    def scale(self) -> Scale:
        """How many hosts it may have; a plain number is both the least and the most."""
        return self.hosts if isinstance(self.hosts, Scale) else Scale(min=self.hosts, max=self.hosts)
