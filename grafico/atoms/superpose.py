"""How alike two geometries of one molecule are."""

from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from grafico.atoms.automorphisms import heavy_automorphisms, heavy_indices
from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.connectivity import bonds
from grafico.errors import MoleculeError

__all__ = [
    "SymmetryOperations",
    "anchor_points",
    "best_rmsd",
    "heavy_rmsd",
    "kabsch_rmsd",
    "rotational_constants",
    "symmetry_operations",
]

Array = NDArray[numpy.float64]

_GHZ_AMU_SQUARE_ANGSTROM = 505.379008784
"""h / (8 π²) in GHz u Å²: a rotational constant is this over the moment of inertia."""


def kabsch_rmsd(first: Any, second: Any) -> float:
    """Return the root mean square distance of two point sets after the best translation and proper rotation.

    Parameters
    ----------
    first, second
        Shape (points, 3), Å, in the same order.

    Source: W. Kabsch, Acta Cryst. A 1976, 32, 922.
    """
    p = numpy.asarray(first, dtype=float)
    q = numpy.asarray(second, dtype=float)
    return float(_rmsd_many(p, q[None])[0])


def _rmsd_many(reference: Array, others: Array) -> Array:
    """Return the RMSD of each of ``others`` (n, points, 3) to ``reference`` (points, 3)."""
    p = reference - reference.mean(axis=0)
    q = others - others.mean(axis=1, keepdims=True)
    covariance = numpy.einsum("pi,npj->nij", p, q)
    singular = numpy.linalg.svd(covariance, compute_uv=False)
    singular[:, 2] *= numpy.where(numpy.linalg.det(covariance) < 0, -1.0, 1.0)
    squared = (p**2).sum() + (q**2).sum(axis=(1, 2)) - 2.0 * singular.sum(axis=1)
    return numpy.asarray(numpy.sqrt(numpy.maximum(squared, 0.0) / len(p)))


def best_rmsd(first: Any, second: Any, permutations: Any, *, mirror: bool = False) -> float:
    """Return the smallest RMSD over relabelings of ``second``, and over its mirror image when asked.

    Parameters
    ----------
    permutations
        Integers, shape (n, points): the relabelings.
    """
    p = numpy.asarray(first, dtype=float)
    q = numpy.asarray(second, dtype=float)[numpy.asarray(permutations, dtype=int)]
    best = float(_rmsd_many(p, q).min())
    if mirror:
        best = min(best, float(_rmsd_many(p, -q).min()))
    return best


def heavy_rmsd(first: ConceptualAtoms, second: ConceptualAtoms, *, mirror: bool = True, limit: int = 2000) -> float:
    """Return the heavy-atom RMSD in Å of two geometries, over automorphisms and, unless told otherwise, mirror images.

    A mirror image of a conformer has the same energy and the same absorption; a molecule with a stereocenter cannot
    reach its mirror image by changing its conformation, so allowing it does no harm there.

    Raises
    ------
    MoleculeError
        The two have different atoms.
    """
    if first.symbols != second.symbols:
        raise MoleculeError("the two geometries do not have the same atoms in the same order")
    heavy = list(heavy_indices(first))
    permutations = heavy_automorphisms(first, limit=limit)
    p, q = numpy.asarray(first.positions)[heavy], numpy.asarray(second.positions)[heavy]
    return best_rmsd(p, q, permutations, mirror=mirror)


def anchor_points(atoms: ConceptualAtoms) -> tuple[Array, tuple[tuple[int, ...], ...]]:
    """Return points that fix a conformation, and the relabelings under which the molecule is the same.

    The points are the heavy atoms followed by the centroid of the hydrogens on each heavy atom that has any: they tell
    apart the rotamers of O-H and N-H bonds, and do not depend on which hydrogen of a methyl group is which.

    Returns
    -------
    points, permutations
        Shape (points, 3), Å, and tuples over the points; a permutation takes a heavy atom's centroid along.
    """
    heavy = heavy_indices(atoms)
    place = {atom: position for position, atom in enumerate(heavy)}
    positions = numpy.asarray(atoms.positions)
    attached: dict[int, list[int]] = {}
    for i, j in bonds(atoms):
        for centre, other in ((i, j), (j, i)):
            if centre in place and other not in place:
                attached.setdefault(place[centre], []).append(other)
    carriers = sorted(attached)
    centroids = [positions[attached[carrier]].mean(axis=0) for carrier in carriers]
    rank = {carrier: len(heavy) + index for index, carrier in enumerate(carriers)}
    points = numpy.vstack([positions[list(heavy)], *centroids]) if centroids else positions[list(heavy)]
    permutations = tuple(
        (*permutation, *(rank[permutation[carrier]] for carrier in carriers))
        for permutation in heavy_automorphisms(atoms)
    )
    return points, permutations


class SymmetryOperations(NamedTuple):
    """Which relabelings of a molecule leave one of its geometries as it is."""

    proper: int
    """Those that a rotation undoes; the identity is one."""
    improper: int
    """Those that a rotation of the mirror image undoes; 0 for a chiral geometry."""
    relabelings: int
    """All relabelings of the molecule, which with their mirrored ones are twice as many."""

    @property
    def versions(self) -> int:
        """Distinguishable versions of the geometry, up to a factor that all conformers of the molecule share.

        Two for a gauche form and its mirror image where a planar form has one.
        """
        return max(1, round(2 * self.relabelings / (self.proper + self.improper)))


def symmetry_operations(atoms: ConceptualAtoms, *, tolerance: float = 0.1) -> SymmetryOperations:
    """Return how many relabelings, and relabelings of the mirror image, leave a geometry as it is.

    Parameters
    ----------
    tolerance
        RMSD in Å of the anchor points up to which two versions are the same.

    Source: H. C. Longuet-Higgins, Mol. Phys. 1963, 6, 445 (the molecular symmetry group).
    """
    points, permutations = anchor_points(atoms)
    relabeled = points[numpy.asarray(permutations, dtype=int)]
    return SymmetryOperations(
        proper=int((_rmsd_many(points, relabeled) < tolerance).sum()),
        improper=int((_rmsd_many(points, -relabeled) < tolerance).sum()),
        relabelings=len(permutations),
    )


def rotational_constants(atoms: ConceptualAtoms, masses: Any) -> Array:
    """Return the three rotational constants in GHz, largest first; infinite about the axis of a linear molecule.

    Parameters
    ----------
    masses
        Atomic masses, u, shape (atoms,).
    """
    mass = numpy.asarray(masses, dtype=float)
    positions = numpy.asarray(atoms.positions)
    centered = positions - (mass[:, None] * positions).sum(axis=0) / mass.sum()
    inertia = numpy.einsum("a,ai,aj->ij", mass, centered, centered)
    moments = numpy.linalg.eigvalsh(numpy.trace(inertia) * numpy.eye(3) - inertia)
    with numpy.errstate(divide="ignore"):
        return numpy.asarray(_GHZ_AMU_SQUARE_ANGSTROM / numpy.maximum(moments, 1e-9))
