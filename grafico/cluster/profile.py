"""A profile: a description of a cluster, validated, with nothing in it that depends on the machine that reads it."""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from grafico.calculations import Model

__all__ = ["DEFAULT_SLOTS", "GPU1", "LAPTOP", "Pool", "Profile"]

DEFAULT_SLOTS = 3
"""Calculations that share one GPU (El Agente Gráfico, Table 1: at most three calculations per GPU)."""

SIMULATED_MEMORY_MIB = 81_559
"""What an H100 of 80 GB reports; the memory of a simulated GPU unless the profile says otherwise."""

OURS = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "GRAFICO_SIMULATED_GPU",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
    }
)
"""Variables that follow from a calculation's resources."""


def _switch(value: object) -> object:
    """YAML reads a bare ``off`` as false and ``on`` as true."""
    if value is False:
        return "off"
    if value is True:
        return 0
    return value


def _devices(value: object) -> object:
    """Device ids may be written as numbers."""
    return tuple(str(item) for item in value) if isinstance(value, list) else value


Auto: TypeAlias = Literal["auto"]
Devices: TypeAlias = Annotated[
    Auto | Annotated[int, Field(ge=0, le=64, strict=True)] | tuple[str, ...], BeforeValidator(_devices)
]
Dashboard: TypeAlias = Annotated[
    Literal["off"] | Annotated[int, Field(ge=0, le=65535, strict=True)], BeforeValidator(_switch)
]


class Pool(Model):
    """Workers of one kind: the CPUs of a machine, or its GPUs."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,30}$", description="lower-case letters, digits and underscores")
    gpus: Devices = Field(default=0, description="how many, a list of indices or UUIDs, or `auto` for all there are")
    simulated: bool = Field(default=False, description="the GPUs are pretended, to try a profile without any")
    slots: int = Field(default=DEFAULT_SLOTS, ge=1, le=32, description="calculations that share one GPU")
    gpu_memory_mib: Auto | Annotated[int, Field(ge=1, strict=True)] = Field(
        default="auto", description="memory of one GPU, MiB; `auto`: as the driver says"
    )
    gpu_context_mib: int = Field(default=512, ge=0, description="what a warm process keeps of a real GPU's memory, MiB")
    cpus: Auto | Annotated[int, Field(ge=1, le=4096, strict=True)] = Field(
        default="auto", description="CPU threads of the pool; `auto`: all that this machine allows"
    )
    cpus_per_slot: int | None = Field(
        default=None, ge=1, description="CPU threads of a calculation on a GPU slot; default: the pool's, shared out"
    )
    memory_mib: Auto | Annotated[int, Field(ge=1, strict=True)] = Field(
        default="auto", description="memory of the pool, MiB; `auto`: 90 % of the machine's, shared among pools"
    )
    environment: dict[str, str] = Field(default_factory=dict, description="variables set before a process starts")
    preload: tuple[str, ...] = Field(
        default=("gpu4pyscf",), description="modules that a process on a real GPU imports first, where installed"
    )

    @field_validator("environment")
    @classmethod
    def _environment(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name for an environment variable")
            if name in OURS:
                raise ValueError(f"{name} is set by grafico from a calculation's resources; leave it out")
            if "\0" in text:
                raise ValueError(f"the value of {name} holds a NUL character")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Pool":
        if not self.has_gpus:
            extra = sorted(self.model_fields_set & {"slots", "gpu_memory_mib", "cpus_per_slot", "preload"})
            if self.simulated:
                raise ValueError("simulated: true needs a number of GPUs, as in gpus: 4")
            if extra:
                raise ValueError(f"{', '.join(extra)}: only for a pool with GPUs; set gpus, or leave it out")
        if self.simulated and self.gpus == "auto":
            raise ValueError("simulated GPUs cannot be detected: give their number, as in gpus: 4")
        if isinstance(self.gpus, tuple):
            doubled = sorted({gpu for gpu in self.gpus if self.gpus.count(gpu) > 1})
            if doubled or not all(self.gpus):
                raise ValueError(f"gpus: each device once, and none empty (twice: {', '.join(doubled) or 'none'})")
        return self

    @property
    def has_gpus(self) -> bool:
        """Whether this is a pool of GPUs."""
        return self.gpus not in (0, ())


class Profile(Model):
    """A cluster: pools of workers, and how they are looked after."""

    kind: Literal["local"] = Field(default="local", description="`local`: this machine")
    name: str = Field(default="unnamed", min_length=1, max_length=80)
    description: str = ""
    pools: tuple[Pool, ...] = Field(min_length=1, max_length=16)
    dashboard: Dashboard = Field(default="off", description="`off`, or a port on the loopback interface (0: any)")
    max_tasks_per_process: int = Field(
        default=200, ge=1, description="a process is replaced after so many calculations"
    )
    walltime_grace_s: float = Field(default=0.0, ge=0.0, le=3600.0, description="seconds added to every walltime")

    @model_validator(mode="after")
    def _consistent(self) -> "Profile":
        names = [pool.name for pool in self.pools]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"pools: two are called {doubled[0]!r}; names must differ")
        if sum(not pool.has_gpus for pool in self.pools) > 1:
            raise ValueError("pools: a machine has one pool of CPUs; give one without gpus")
        return self


GPU1 = Profile(
    name="gpu1",
    description="one GPU of this machine, shared by three calculations, and its CPUs",
    pools=(Pool(name="gpu", gpus=1), Pool(name="cpu")),
)
"""One GPU; needs no configuration either."""

LAPTOP = Profile(
    name="laptop", description="the CPUs of this machine; needs no configuration", pools=(Pool(name="cpu"),)
)
"""The profile that a job gets when it names none."""
