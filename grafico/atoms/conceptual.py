"""Structures: what a calculation is about, apart from any engine's own object."""

import hashlib
from typing import TypeAlias

from pydantic import Field, field_validator, model_validator

from grafico.calculations import Model, canonical_json

__all__ = ["ConceptualAtoms", "Vector"]

Vector: TypeAlias = tuple[float, float, float]


class ConceptualAtoms(Model):
    """Species and coordinates with charge and multiplicity; docking points are kept apart from real atoms."""

    symbols: tuple[str, ...] = Field(min_length=1, description="element symbols, one an atom")
    positions: tuple[Vector, ...] = Field(description="Cartesian coordinates, Å, shape (atoms, 3)")
    charge: int = Field(default=0, ge=-20, le=20, description="total charge, e")
    multiplicity: int = Field(default=1, ge=1, le=20, description="2S + 1")
    cell: tuple[Vector, Vector, Vector] | None = Field(
        default=None, description="lattice vectors as rows, Å; None for a molecule"
    )
    docking_points: tuple[Vector, ...] = Field(default=(), description="connection points that are no atoms, Å")

    @field_validator("positions", "docking_points")
    @classmethod
    def _finite(cls, vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        for index, vector in enumerate(vectors):
            if not all(abs(component) < 1e6 for component in vector):
                raise ValueError(f"coordinates of point {index + 1} are not finite numbers below 10^6 Å: {vector}")
        return vectors

    @model_validator(mode="after")
    def _same_length(self) -> "ConceptualAtoms":
        if len(self.symbols) != len(self.positions):
            raise ValueError(f"{len(self.symbols)} symbols but {len(self.positions)} positions")
        return self

    @property
    def content_digest(self) -> str:
        """What tells species and coordinates from any others, to the bit; charge and spin are not part of it."""
        body = {"symbols": list(self.symbols), "positions": [list(position) for position in self.positions]}
        if self.cell is not None:
            body["cell"] = [list(vector) for vector in self.cell]
        return f"structure:{hashlib.sha256(canonical_json(body)).hexdigest()}"

    def __len__(self) -> int:
        return len(self.symbols)

    def moved(self, positions: tuple[Vector, ...]) -> "ConceptualAtoms":
        """Return the same atoms at other positions (Å)."""
        return ConceptualAtoms(**{**self.model_dump(), "positions": positions})
