"""What a job says about frameworks; every field with its default and its range."""

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from grafico.calculations import Model
from grafico.frameworks.steps import AnalysisSettings, RelaxationSettings

__all__ = ["TASKS", "Blocks", "FrameworkRequest", "Names", "Rank", "Search", "Step", "Task"]

Task: TypeAlias = Literal["cut", "build", "relax", "analyze"]
Step: TypeAlias = Literal["download", "cut", "build", "relax", "analyze"]
"""Where something may go wrong."""
TASKS: tuple[Task, ...] = ("cut", "build", "relax", "analyze")

Rank: TypeAlias = Literal["area", "lcd", "pld", "lfpd", "volume"]

MOST = 10_000
"""Frameworks of one job."""


def _listed(value: object) -> object:
    """Take one for a list of one."""
    return value if value is None or isinstance(value, (list, tuple)) else (value,)


Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=80)]
Names: TypeAlias = Annotated[tuple[Name, ...], BeforeValidator(_listed)]
"""A name, or a list of names."""


class Blocks(Model):
    """Frameworks to build: every combination of the topologies, metal nodes and linkers that are named."""

    topology: Names = Field(
        min_length=1, max_length=MOST, description="RCSR symbol as PORMAKE knows it, such as bcu; or a list of them"
    )
    node: Names = Field(
        min_length=1, max_length=MOST, description="PORMAKE metal node, such as N625; or a list of them"
    )
    linker: Names = Field(min_length=1, max_length=MOST, description="PORMAKE linker, such as E14; or a list of them")

    def combinations(self) -> Iterator[tuple[str, str, str]]:
        """Yield topology, metal node and linker of each combination."""
        yield from product(*map(dict.fromkeys, (self.topology, self.node, self.linker)))

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return prod(len(set(names)) for names in (self.topology, self.node, self.linker))


class Search(Model):
    """Combinations to look for in the knowledge base, of what earlier jobs have cut and built."""

    algorithm: Literal["recombine", "roles"] = Field(
        default="recombine",
        description="recombine: nodes and linkers that are proven on the same topology; roles: also blocks of other "
        "topologies that have the same local structure there",
    )
    topologies: Names = Field(default=(), description="only these topologies; default any")
    nodes: Names = Field(default=(), description="only these metal nodes, by name or identifier; default any")
    metals: Names = Field(default=(), description="only metal nodes with one of these elements; default any")
    linkers: Names = Field(default=(), description="only these linkers, by name or identifier; default any")
    limit: int = Field(default=10, ge=1, le=MOST, description="most combinations to take")


def _choices(value: object) -> object:
    return _listed(value) if isinstance(value, dict) else value


class FrameworkRequest(Model):
    """Frameworks to take apart, build, relax and analyze; they may come in by four ways at once."""

    refcodes: Names = Field(
        default=(), max_length=MOST, description="structures by refcode, such as IXEJIG, from the data set"
    )
    dataset: str = Field(
        default="2019-ASR",
        min_length=1,
        description="data set of CoRE MOF (2014, 2019-ASR, 2019-FSR), or a folder with a CIF for each refcode",
    )
    files: Annotated[tuple[Path, ...], BeforeValidator(_listed)] = Field(
        default=(), max_length=MOST, description="CIF files"
    )
    build: Annotated[tuple[Blocks, ...], BeforeValidator(_choices)] = Field(
        default=(), description="frameworks to build, by topology, node and linker; one mapping or a list of them"
    )
    search: Search | None = Field(default=None, description="combinations to look for in the knowledge base")
    tasks: Annotated[tuple[Task, ...] | None, BeforeValidator(_listed)] = Field(
        default=None,
        min_length=1,
        description="what is done: cut, build, relax, analyze. Default: cut what comes as a structure; build what is to be "
        "built, and relax where anything is built or searched; analyze",
    )
    rebuild: bool = Field(default=False, description="put together again what was cut, from its own parts")
    max_rmsd: float = Field(
        default=0.3, gt=0, le=2.0, description="largest RMSD between a block and its place on the net (dimensionless)"
    )
    remove_guests: bool = Field(
        default=True, description="take out molecules that are bonded to no framework; refuse them otherwise"
    )
    relaxation: RelaxationSettings = Field(default_factory=RelaxationSettings)
    batching: Literal["auto", "batched", "separate"] = Field(
        default="auto",
        description="relax many frameworks in one calculation, or each in its own; auto: batched where the cluster has GPUs",
    )
    analysis: AnalysisSettings = Field(default_factory=AnalysisSettings)
    rank: Rank = Field(
        default="area",
        description="what the frameworks are ranked by, largest first: accessible area (m²/g), largest cavity, "
        "pore-limiting or free-path diameter, or accessible volume (cm³/g)",
    )
    lanes: int | None = Field(
        default=None, ge=1, le=MOST, description="most lanes open at once; default the run's limit"
    )

    @property
    def given(self) -> tuple[Task, ...]:
        """What is done, in the order in which it is done."""
        if self.tasks is not None:
            return tuple(task for task in TASKS if task in self.tasks)
        done: dict[Task, bool] = {
            "cut": self.has_structures,
            "build": self.has_combinations or self.rebuild,
            "relax": self.has_combinations,
            "analyze": True,
        }
        return tuple(task for task in TASKS if done[task])

    @property
    def has_structures(self) -> bool:
        """Whether structures come in, by refcode or as files."""
        return bool(self.refcodes or self.files)

    @property
    def has_combinations(self) -> bool:
        """Whether combinations come in, named or from a search."""
        return bool(self.build) or self.search is not None

    @property
    def combinations(self) -> tuple[tuple[str, str, str], ...]:
        """Topology, metal node and linker of each framework that is named, each once."""
        return tuple(dict.fromkeys(found for blocks in self.build for found in blocks.combinations()))

    @property
    def label(self) -> str:
        """What people call it."""
        parts = [*self.refcodes[:4], *(path.name for path in self.files[:4])]
        parts += ["_".join(found) for found in self.combinations[:4]]
        total = len(self.refcodes) + len(self.files) + len(self.combinations)
        shown = ", ".join(parts[:4]) + (f" and {total - 4} more" if total > 4 else "")
        return ", ".join(part for part in (shown, "combinations not built before" if self.search else "") if part)

    @model_validator(mode="after")
    def _consistent(self) -> "FrameworkRequest":
        if not (self.has_structures or self.has_combinations):
            raise ValueError("nothing to work on: give refcodes, files, build or search")
        # Counted before they are listed: three long lists name more than memory holds.
        if (size := sum(blocks.size for blocks in self.build)) > MOST:
            raise ValueError(f"build names {size} frameworks; at most {MOST} in one job")
        tasks = self.given
        if self.rebuild and not self.has_structures:
            raise ValueError("rebuild: there is nothing to rebuild; give refcodes or files")
        if self.rebuild and not {"cut", "build"} <= set(tasks):
            raise ValueError("rebuild needs the tasks cut and build")
        if self.has_combinations and "build" not in tasks:
            raise ValueError("tasks: what is given to build needs the task build")
        if "cut" in tasks and not self.has_structures:
            raise ValueError("tasks: there is nothing to cut; give refcodes or files")
        if "build" in tasks and not (self.has_combinations or self.rebuild):
            raise ValueError("tasks: there is nothing to build; give build or search, or rebuild: true")
        return self
