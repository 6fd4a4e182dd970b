"""What a frameworks job ends with: a row for each framework, whatever became of it."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from grafico.calculations import ArtifactRef, Failure, Json, Model
from grafico.frameworks.download import PublishedProperties
from grafico.frameworks.report import result_csv, result_json, result_row, result_tables
from grafico.frameworks.request import Rank, Step, Task
from grafico.frameworks.steps import AnalysisSettings, PoreAnalysis, RelaxationSettings

__all__ = ["FrameworkResult", "FrameworkRow", "Origin", "Stage"]

Origin: TypeAlias = Literal["experimental", "built", "rebuilt"]
Stage: TypeAlias = Literal["experimental", "built", "relaxed"]


class FrameworkRow(Model):
    """One framework: what it is, how far it came, and what was found there."""

    name: str
    origin: Origin = Field(description="as it was found, put together, or put together again from its own parts")
    reference: str | None = Field(default=None, description="refcode or file that it, or its parts, come from")
    topology: str | None = None
    node: str | None = Field(default=None, description="metal node")
    linker: str | None = Field(default=None, description="organic linker")
    duplicate_of: str | None = Field(default=None, description="the framework of this job that it is another copy of")
    atoms: int | None = Field(default=None, description="in its cell")
    rmsd: float | None = Field(default=None, description="of building: largest RMSD of a block (dimensionless)")
    stage: Stage | None = Field(default=None, description="the geometry that was analyzed, or the last one there is")
    model: str | None = Field(default=None, description="potential that it was relaxed with, with its version")
    converged: bool | None = Field(default=None, description="whether its relaxation did; none if it was not relaxed")
    steps: int | None = Field(default=None, description="of relaxation")
    force: float | None = Field(default=None, description="largest force at the end of relaxation, eV/Å")
    energy: float | None = Field(default=None, description="of the relaxed cell, eV")
    energy_change: float | None = Field(default=None, description="of the cell, by relaxation, eV")
    volume_change: float | None = Field(default=None, description="of the cell, by relaxation, relative")
    pores: PoreAnalysis | None = None
    published: PublishedProperties | None = Field(default=None, description="what the data set says about it")
    rank: int | None = Field(default=None, description="from 1, largest first")
    failures: Mapping[Step, Failure] = Field(
        default_factory=dict, description="what went wrong, by what was to be done"
    )
    notes: tuple[str, ...] = Field(default=(), description="what a reader of the numbers should know")
    keys: Mapping[str, str] = Field(default_factory=dict, description="content keys of its calculations, by task")
    files: Mapping[Stage, str] = Field(default_factory=dict, description="its CIF files, by stage")

    @property
    def failure(self) -> Failure | None:
        """What went wrong last."""
        return tuple(self.failures.values())[-1] if self.failures else None


class FrameworkResult(Model):
    """The end of a frameworks job."""

    label: str = Field(description="what people call it")
    tasks: tuple[Task, ...] = Field(description="what was done")
    rows: tuple[FrameworkRow, ...] = Field(description="a framework each, in the order in which they came in")
    rank: Rank = Field(description="what they are ranked by")
    relaxation: RelaxationSettings | None = None
    batched: bool | None = Field(
        default=None, description="whether they were relaxed together; none: nothing was relaxed"
    )
    analysis: AnalysisSettings | None = None
    notes: tuple[str, ...] = Field(default=(), description="what a reader should know")
    files: Mapping[str, ArtifactRef] = Field(default_factory=dict, description="pictures, by name")
    persisted: tuple[str, ...] = Field(default=(), description="IRIs of what went to the knowledge base")

    @property
    def ranked(self) -> tuple[FrameworkRow, ...]:
        """Those that have a rank, first things first."""
        found = [(row.rank, row) for row in self.rows if row.rank is not None]
        return tuple(row for _, row in sorted(found, key=lambda item: item[0]))

    def row_of(self, name: str) -> FrameworkRow:
        """Return the row of a framework."""
        return next(row for row in self.rows if row.name == name)

    def tables(self) -> tuple[Mapping[str, Json], ...]:
        """Return the tables that people are shown: the frameworks, and what went wrong."""
        return result_tables(self)

    def as_csv(self) -> bytes:
        """Return the rows as CSV: UTF-8, numbers in full, first things first."""
        return result_csv(self)

    def as_json(self) -> bytes:
        """Return all that is known as JSON, without what was made of it."""
        return result_json(self)

    def row(self) -> Mapping[str, Json]:
        """Return one row of a sweep's table: of the first in rank, or of the only one."""
        return result_row(self)
