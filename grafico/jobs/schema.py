"""What a job file says: which graph, on what input, where, and what to do with the result."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from grafico.calculations import Json, Model

__all__ = ["Job", "KnowledgeChoice"]


class KnowledgeChoice(Model):
    """Whether results go into the knowledge base, and into which."""

    persist: bool = Field(default=True, description="persist the result and its parts")
    store: str | None = Field(
        default=None, min_length=1, description="folder of the store, relative to the job file; default: your own"
    )

    @field_validator("store")
    @classmethod
    def _folder(cls, value: str | None) -> str | None:
        if value is not None and "://" in value:
            raise ValueError(f"must be a folder, came the address {value}; this version has no remote stores")
        return value


class Job(Model):
    """A request on disk. ``input`` is validated by the graph's own request model."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$",
        description="what people call it: letters, digits and _ . + -, at most 64; default: the file's name",
    )
    description: str = Field(default="", max_length=2000, description="for people")
    graph: str = Field(
        min_length=1, description="id of a graph (see `grafico graph list`), or module:NAME for one of your own"
    )
    input: Mapping[str, Json] = Field(description="the graph's input (see `grafico graph show GRAPH`)")
    cluster: str = Field(
        default="laptop", min_length=1, description="cluster profile: a name, or a path of a YAML file"
    )
    knowledge: KnowledgeChoice = Field(default_factory=KnowledgeChoice, description="the knowledge base")
    on_version_change: Literal["reuse", "recompute"] = Field(
        default="reuse", description="what `resume` does with outcomes of other engine versions"
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**63, description="makes the graph's random numbers the same in every run of this job"
    )
