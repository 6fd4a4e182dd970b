"""What a job file says: which graph, on what input, where, and what to do with the result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from grafico.calculations import Json, Model
from grafico.control import ModelSettings
from grafico.errors import BadInput

__all__ = ["Job", "KnowledgeChoice", "TableChoice"]


class KnowledgeChoice(Model):
    """Whether results go into the knowledge base, and into which."""

    persist: bool = Field(default=True, description="persist the result and its parts")
    store: str | None = Field(
        default=None,
        min_length=1,
        description="folder of the store, relative to the job file, or address of a SPARQL endpoint; default: your own",
    )

    @field_validator("store")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        from grafico.knowledge.address import is_address, read_address

        if is_address(value):
            try:
                read_address(str(value))
            except BadInput as error:
                raise ValueError(f"must be a folder or an address: {error.message}") from error
        return value

    @property
    def place(self) -> Path | str | None:
        """The store's folder, or its address as text."""
        if self.store is None or "://" in self.store:
            return self.store
        return Path(self.store).expanduser()


class TableChoice(Model):
    """What is made of a sweep's results beside ``table.csv``."""

    parquet: bool = Field(default=False, description="also write table.parquet (needs pyarrow)")
    plot: str = Field(
        default="auto",
        min_length=1,
        description="column of the table that is drawn over the matrix; `auto`: the first with numbers; or `off`",
    )

    @field_validator("plot", mode="before")
    @classmethod
    def _off(cls, value: object) -> object:
        return "off" if value is False else value


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
    router: Literal["rules"] | ModelSettings = Field(
        default="rules",
        description="who chooses where several steps may follow: the graph's rules, or a language model before them",
    )
    knowledge: KnowledgeChoice = Field(default_factory=KnowledgeChoice, description="the knowledge base")
    on_version_change: Literal["reuse", "recompute"] = Field(
        default="reuse", description="what `resume` does with outcomes of other engine versions"
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**63, description="makes the graph's random numbers the same in every run of this job"
    )
    matrix: Mapping[str, Json] = Field(
        default_factory=dict,
        description="makes the job a sweep: each key is a place of the input (input.level.basis) with a list of its values, "
        "or a name with a list of mappings that vary together; one member for each combination",
    )
    include: tuple[Mapping[str, Json], ...] = Field(
        default=(), description="further members of a sweep: each a mapping of places of the input, and perhaps a name"
    )
    exclude: tuple[Mapping[str, Json], ...] = Field(
        default=(), description="combinations of the matrix that are left out: each a mapping of its keys to values"
    )
    table: TableChoice = Field(default_factory=TableChoice, description="of a sweep's results")

    @property
    def is_sweep(self) -> bool:
        """Whether it has members instead of one input."""
        return bool(self.matrix or self.include)

    @model_validator(mode="after")
    def _only_of_a_sweep(self) -> "Job":
        if not self.is_sweep:
            for name, nothing in (("exclude", ()), ("table", TableChoice())):
                # A frozen job has the defaults in it.
                if getattr(self, name) != nothing:
                    raise ValueError(f"{name}: only for a sweep; give a matrix, or leave it out")
        return self
