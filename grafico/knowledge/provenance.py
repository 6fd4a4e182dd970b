"""Where entities come from, in PROV-O: runs, the calculations they made, the routes they took, the software that did it."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from grafico.calculations import ArtifactRef, Json
from grafico.knowledge.entity import Entity
from grafico.knowledge.fields import Property, Unit
from grafico.knowledge.vocabulary import DCTERMS, GRAFICO, PROV, RUN, check_iri

__all__ = ["Execution", "RouteTaken", "Run", "Software", "grafico_agent", "run_iri", "software"]


class Software(Entity):
    """A program or library in one version."""

    namespace: ClassVar[str] = GRAFICO
    natural_key: ClassVar[tuple[str, ...]] = ("name", "version")
    also: ClassVar[tuple[str, ...]] = (PROV + "SoftwareAgent",)

    name: str = Field(description="name of the program or library")
    version: str = Field(description="its version")


class Run(Entity):
    """One execution of a job. Its IRI is also the name of the graph that holds what it found."""

    namespace: ClassVar[str] = GRAFICO
    also: ClassVar[tuple[str, ...]] = (PROV + "Activity",)

    name: str = Field(description="name of the run")
    graph: str | None = Field(default=None, description="id of the execution graph")
    graph_version: str | None = Field(default=None, description="version of the execution graph")
    folder: str | None = Field(default=None, description="run folder, when the run was persisted")
    started_at: Annotated[datetime | None, Property(PROV + "startedAtTime")] = Field(default=None, description="start")
    ended_at: Annotated[datetime | None, Property(PROV + "endedAtTime")] = Field(default=None, description="end")
    status: str | None = Field(default=None, description="how the run ended")
    agents: Annotated[frozenset[Software], Property(PROV + "wasAssociatedWith")] = Field(
        default=frozenset(), description="software that acted"
    )
    generated: Annotated[frozenset[Entity], Property(PROV + "generated")] = Field(
        default=frozenset(), description="what came out"
    )


class Execution(Entity):
    """A calculation as it was carried out in one run."""

    namespace: ClassVar[str] = GRAFICO
    natural_key: ClassVar[tuple[str, ...]] = ("run", "key")
    also: ClassVar[tuple[str, ...]] = (PROV + "Activity",)

    run: Annotated[Run, Property(DCTERMS + "isPartOf")] = Field(description="the run that it was part of")
    key: str = Field(description="content key: digest of name, version and input")
    calculation: str | None = Field(default=None, description="name of the calculation")
    started_at: Annotated[datetime | None, Property(PROV + "startedAtTime")] = Field(default=None, description="start")
    seconds: Annotated[float | None, Unit("s")] = Field(default=None, description="wall time")
    device: str | None = Field(default=None, description="cpu, or the GPU's name")
    threads: int | None = Field(default=None, description="CPU threads")
    host: str | None = Field(default=None, description="machine that it ran on")
    attempt: int | None = Field(default=None, description="number of the attempt that succeeded")
    settings: dict[str, Json] = Field(default_factory=dict, description="what the recovery ladder had changed")
    agents: Annotated[frozenset[Software], Property(PROV + "wasAssociatedWith")] = Field(
        default=frozenset(), description="software that acted"
    )
    produced: frozenset[ArtifactRef] = Field(default=frozenset(), description="files of the run that it wrote")
    used: Annotated[frozenset[Entity], Property(PROV + "used")] = Field(
        default=frozenset(), description="what its input held, to the bit"
    )
    read: frozenset[ArtifactRef] = Field(default=frozenset(), description="files of the run that its input named")
    informed_by: Annotated[frozenset["Execution"], Property(PROV + "wasInformedBy")] = Field(
        default=frozenset(),
        description="calculations before it whose output held a structure or file that its input held, to the bit",
    )
    generated: Annotated[frozenset[Entity], Property(PROV + "generated")] = Field(
        default=frozenset(), description="what came out"
    )


class RouteTaken(Entity):
    """A decision of a run: which node followed which, and who chose."""

    namespace: ClassVar[str] = GRAFICO
    natural_key: ClassVar[tuple[str, ...]] = ("run", "position")
    also: ClassVar[tuple[str, ...]] = (PROV + "Activity",)

    run: Annotated[Run, Property(DCTERMS + "isPartOf")] = Field(description="the run that it was part of")
    position: str = Field(description="where in the run: lane, step and ordinal")
    node: str = Field(description="node that was left")
    successor: str = Field(description="node that followed")
    chosen_by: str = Field(description="forced, rule, model, fallback or exit")
    model: str | None = Field(default=None, description="language model that chose, where one did")
    reasoning: str | None = Field(default=None, description="why, in the words of who chose")
    confidence: float | None = Field(default=None, description="0 to 1")


def run_iri(run_id: str) -> str:
    """Return the IRI of a run, which is also the name of its graph."""
    from urllib.parse import quote

    return check_iri(RUN + quote(run_id, safe=""))


def software(versions: "dict[str, str]") -> frozenset[Software]:
    """Return the software of a mapping from names to versions."""
    return frozenset(
        Software(name=name, version=version, label=f"{name} {version}") for name, version in versions.items()
    )


def grafico_agent() -> Software:
    """Return grafico itself, in this version."""
    import grafico

    return Software(name="grafico", version=grafico.__version__, label=f"grafico {grafico.__version__}")
