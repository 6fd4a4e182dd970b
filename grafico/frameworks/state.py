"""What a frameworks job carries from its beginning to its tables."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef, Failure, Json
from grafico.frameworks.download import PublishedProperties
from grafico.frameworks.parts import Combination
from grafico.frameworks.request import FrameworkRequest, Step, Task
from grafico.frameworks.result import FrameworkResult, FrameworkRow, Origin, Stage
from grafico.frameworks.steps import (
    BuiltFramework,
    CutFramework,
    PoreAnalysis,
    RelaxationSettings,
    RelaxedFramework,
)
from grafico.graphs import GraphState

__all__ = ["Candidate", "FrameworkState", "lane_key"]


@dataclass(kw_only=True)
class Candidate:
    """One framework on its way, and what is known of it."""

    name: str
    """Key of its lanes."""
    origin: Origin
    reference: str | None = None
    """Refcode or file."""
    source: str | None = None
    """The database of an experimental structure; None for a file."""
    cif: str | None = None
    published: PublishedProperties | None = None
    found: ConceptualAtoms | None = None
    """The structure as it came, where it is not to be cut."""
    cut: CutFramework | None = None
    combination: Combination | None = None
    built: BuiltFramework | None = None
    relaxed: RelaxedFramework | None = None
    """Converged, or there is none."""
    pores: PoreAnalysis | None = None
    duplicate_of: str | None = None
    failures: dict[Step, Failure] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def unrelaxed(self) -> ConceptualAtoms | None:
        """The geometry that it has before any relaxation."""
        if self.built is not None:
            return self.built.structure
        return self.cut.structure if self.cut is not None else self.found

    @property
    def structure(self) -> ConceptualAtoms | None:
        """The geometry that it has now: one whose relaxation did not converge is where it was."""
        return self.relaxed.structure if self.relaxed is not None else self.unrelaxed

    @property
    def stage(self) -> Stage | None:
        """How that geometry came about."""
        if self.structure is None:
            return None
        if self.relaxed is not None:
            return "relaxed"
        return "experimental" if self.origin == "experimental" else "built"

    def outstanding(self, task: Task) -> bool:
        """Whether something is still to be done with it, and can be."""
        if self.duplicate_of is not None or task in self.failures:
            return False
        if task == "cut":
            return self.cif is not None and self.cut is None
        if task == "build":
            return self.combination is not None and self.built is None
        if task == "relax":
            return self.structure is not None and self.relaxed is None
        return self.structure is not None and self.pores is None

    def geometries(self) -> Mapping[Stage, ConceptualAtoms]:
        """Return its geometries by stage."""
        found: dict[Stage, ConceptualAtoms] = {}
        if self.unrelaxed is not None:
            found["experimental" if self.origin == "experimental" else "built"] = self.unrelaxed
        if self.relaxed is not None:
            found["relaxed"] = self.relaxed.structure
        return found

    def row(self, rank: int | None, files: Mapping[Stage, str]) -> FrameworkRow:
        """Return its row of the result."""
        parts = self.combination or self.cut
        relaxed, failed = self.relaxed, self.failures.get("relax")
        unrelaxed = self.unrelaxed
        return FrameworkRow(
            name=self.name,
            origin=self.origin,
            reference=self.reference,
            topology=parts.topology if parts else None,
            node=parts.metal_node.name if parts else None,
            linker=parts.linker.name if parts else None,
            duplicate_of=self.duplicate_of,
            atoms=len(unrelaxed) if unrelaxed is not None else None,
            rmsd=self.built.rmsd if self.built else _number(self.failures.get("build"), "rmsd", float),
            stage=self.stage,
            model=relaxed.model if relaxed else None,
            converged=True if relaxed else False if failed else None,
            steps=relaxed.steps if relaxed else _number(failed, "steps", int),
            force=relaxed.force if relaxed else _number(failed, "force", float),
            energy=relaxed.energy if relaxed else None,
            energy_change=relaxed.energy - relaxed.start_energy if relaxed else None,
            volume_change=relaxed.volume_change if relaxed else None,
            pores=self.pores,
            published=self.published,
            rank=rank,
            failures=self.failures,
            notes=tuple(self.notes),
            keys=self.keys,
            files=files,
        )


@dataclass(kw_only=True)
class FrameworkState(GraphState):
    """All frameworks of a job."""

    request: FrameworkRequest
    candidates: dict[str, Candidate] = field(default_factory=dict)
    """By name, in the order in which they came in."""
    downloaded: bool = False
    searched: bool = False
    rebuilt: bool = False
    batched: bool | None = None
    """Whether frameworks were relaxed together; None until something is relaxed."""
    relaxation: RelaxationSettings | None = None
    """As it was done, the weights pinned."""
    notes: list[str] = field(default_factory=list)

    @classmethod
    def for_request(cls, request: FrameworkRequest) -> "FrameworkState":
        """Return the state in which a job begins."""
        return cls(request=request, intent=f"{', '.join(request.given)}: {request.label}")

    def add(self, name: str, **fields: Any) -> Candidate:
        """Take in a framework, under a name that no other has."""
        key, number = lane_key(name), 2
        while key in self.candidates:
            key, number = f"{lane_key(name)}-{number}", number + 1
        self.candidates[key] = Candidate(name=key, **fields)
        return self.candidates[key]

    def due(self, task: Task) -> dict[str, Candidate]:
        """Return the frameworks with which something is still to be done."""
        if task not in self.request.given:
            return {}
        return {name: found for name, found in self.candidates.items() if found.outstanding(task)}

    @property
    def to_download(self) -> bool:
        """Whether structures are still to be fetched by refcode."""
        return bool(self.request.refcodes) and not self.downloaded

    @property
    def to_search(self) -> bool:
        """Whether the knowledge base is still to be searched."""
        return self.request.search is not None and not self.searched

    @property
    def usable(self) -> dict[str, Candidate]:
        """The frameworks of which nothing failed, or that were measured all the same: at the geometry they had before."""
        return {name: found for name, found in self.candidates.items() if not found.failures or found.pores is not None}

    def scalars(self) -> Mapping[str, Json]:
        """Return what a router may know."""
        return {
            "frameworks": len(self.candidates),
            "to_download": len(self.request.refcodes) if self.to_download else 0,
            "to_search": self.to_search,
            "to_cut": len(self.due("cut")),
            "to_build": len(self.due("build")),
            "to_relax": len(self.due("relax")),
            "to_analyze": len(self.due("analyze")),
            "failed": sum(bool(found.failures) for found in self.candidates.values()),
        }

    def result(
        self,
        *,
        cifs: Mapping[str, Mapping[Stage, str]] | None = None,
        files: Mapping[str, ArtifactRef] | None = None,
        persisted: Iterable[str] = (),
    ) -> FrameworkResult:
        """Return the result.

        Parameters
        ----------
        cifs
            Names of CIF files, by framework and stage.
        files
            What else was written, by name.
        persisted
            IRIs of what went to the knowledge base.
        """
        request, ranks = self.request, self._ranks()
        return FrameworkResult(
            label=request.label,
            tasks=request.given,
            rows=tuple(
                found.row(ranks.get(name), (cifs or {}).get(name, {})) for name, found in self.candidates.items()
            ),
            rank=request.rank,
            relaxation=self.relaxation,
            batched=self.batched,
            analysis=request.analysis if "analyze" in request.given else None,
            notes=tuple(self.notes),
            files=files or {},
            persisted=tuple(persisted),
        )

    def _ranks(self) -> Mapping[str, int]:
        sizes = {
            name: _size(found.pores, self.request.rank)
            for name, found in self.candidates.items()
            if found.pores is not None
        }
        return {name: number for number, name in enumerate(sorted(sizes, key=lambda name: -sizes[name]), start=1)}


def lane_key(name: str) -> str:
    """Return a name as the key of a lane."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", name)[:100] or "framework"


def _size(pores: PoreAnalysis, rank: str) -> float:
    sizes = {
        "area": pores.area.accessible_m2_g,
        "lcd": pores.diameters.lcd,
        "pld": pores.diameters.pld,
        "lfpd": pores.diameters.lfpd,
        "volume": pores.volume.accessible_cm3_g,
    }
    return sizes[rank]


def _number(failure: Failure | None, name: str, kind: Any) -> Any:
    """Return a number that explains a failure."""
    value = failure.details.get(name) if failure is not None else None
    return kind(value) if isinstance(value, (int, float)) else None
