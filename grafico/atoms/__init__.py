"""Structures, shared by the sciences."""

from grafico.atoms.conceptual import ConceptualAtoms, Vector

__all__ = ["ConceptualAtoms", "Vector"]
