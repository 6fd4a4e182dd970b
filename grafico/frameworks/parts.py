"""What frameworks are made of, as values that cross every boundary: building blocks and combinations of them."""

from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Model

__all__ = ["BlockKind", "BuildingBlock", "Combination"]

BlockKind: TypeAlias = Literal["metal_node", "organic_linker"]


class BuildingBlock(Model):
    """A metal node or an organic linker: real atoms, and apart from them the points at which it is joined to others."""

    name: str = Field(
        min_length=1, description="PORMAKE identifier such as N625, or of a block that was cut: IXEJIG-node"
    )
    kind: BlockKind = Field(description="which part it plays in a framework")
    atoms: ConceptualAtoms = Field(
        description="real atoms without a cell; its docking points are the connection points, Å"
    )
    anchors: tuple[int, ...] = Field(description="the atom that each docking point hangs on, from 0")
    bonds: tuple[tuple[int, int, str], ...] = Field(
        default=(), description="bonds among real atoms, from 0, with S, D, T or A for single, double, triple, aromatic"
    )
    graph: str = Field(
        min_length=1, description="digest of elements, bonds and docking points: the same for the same chemistry"
    )
    shape: str = Field(
        min_length=1, description="arrangement of its docking points: coordination number and polyhedron, as 8-cube"
    )

    @model_validator(mode="after")
    def _anchored(self) -> "BuildingBlock":
        if len(self.anchors) != len(self.atoms.docking_points):
            raise ValueError(f"{len(self.anchors)} anchors but {len(self.atoms.docking_points)} docking points")
        if any(not 0 <= index < len(self.atoms) for index in self.anchors):
            raise ValueError("a docking point hangs on an atom that is not there")
        return self

    @property
    def connectivity(self) -> int:
        """How many others it is joined to."""
        return len(self.anchors)

    @property
    def identifier(self) -> str:
        """What tells it from other blocks in the knowledge base: its chemistry and the arrangement of its docking points."""
        return f"{self.graph}:{self.shape}"


class Combination(Model):
    """A framework that can be built: one metal node and one organic linker on a topology."""

    topology: str = Field(min_length=1, description="RCSR symbol as PORMAKE knows it, such as bcu")
    metal_node: BuildingBlock
    linker: BuildingBlock

    @property
    def name(self) -> str:
        """Topology, node and linker: ``bcu_N625_E14``."""
        return f"{self.topology}_{self.metal_node.name}_{self.linker.name}"
