"""Point group and rotational symmetry number of a geometry that is symmetric only to within an optimizer's threshold.

PySCF's own search loses degenerate axes as soon as atoms are 0.001 Å off, and with them up to 6 kJ/mol of free energy
(a factor of 12 in the symmetry number). Here every operation that maps the atoms onto each other is found directly.
"""

import math
from collections.abc import Iterator
from typing import Any

from grafico.atoms import ConceptualAtoms
from grafico.atoms.elements import atomic_number

__all__ = ["point_group", "symmetry_number"]

_CUBIC = {"T": 12, "Td": 12, "Th": 12, "O": 24, "Oh": 24, "I": 60, "Ih": 60}


def point_group(atoms: ConceptualAtoms, *, tolerance: float = 0.05) -> str:
    """Return the Schoenflies symbol; ``K`` for an atom, ``C∞v`` and ``D∞h`` for linear molecules.

    Parameters
    ----------
    tolerance
        How far an atom may be from where an operation puts its partner, Å. It is tightened until the operations
        found form a group.
    """
    import numpy

    charges = numpy.array([float(atomic_number(symbol) or 0) for symbol in atoms.symbols])
    positions = numpy.array(atoms.positions)
    positions = positions - (charges @ positions) / charges.sum()
    spread = numpy.linalg.svd(positions, compute_uv=False)
    if len(atoms) == 1:
        return "K"
    while tolerance > 1e-4:
        if spread[1] < tolerance:
            return "D∞h" if _permutation(-numpy.eye(3), positions, charges, tolerance) is not None else "C∞v"
        operations = _operations(positions, charges, tolerance)
        if _closed(operations):
            return _name(list(operations.values()))
        tolerance /= 2
    return "C1"


def symmetry_number(group: str) -> int:
    """Return the number of rotations in a point group.

    Source: https://cccbdb.nist.gov/thermo.asp (symmetry number).
    """
    if group in _CUBIC:
        return _CUBIC[group]
    if group in ("K", "C1", "Ci", "Cs", "C∞v"):
        return 1
    if group == "D∞h":
        return 2
    order = int("".join(character for character in group if character.isdigit()))
    if group.startswith("D"):
        return 2 * order
    return order // 2 if group.startswith("S") else order


Operation = tuple[tuple[int, ...], bool]
"""Where each atom goes, and whether the operation is a proper rotation (planar molecules need both)."""


def _permutation(matrix: Any, positions: Any, charges: Any, tolerance: float) -> tuple[int, ...] | None:
    """Return which atom each atom is mapped onto, or None if one has no partner."""
    import numpy

    moved = positions @ matrix.T
    distances = numpy.linalg.norm(moved[:, None] - positions[None], axis=2)
    distances[charges[:, None] != charges[None]] = numpy.inf
    partners = distances.argmin(axis=1)
    if distances[numpy.arange(len(partners)), partners].max() > tolerance:
        return None
    return tuple(int(p) for p in partners) if len(set(partners.tolist())) == len(partners) else None


def _operations(positions: Any, charges: Any, tolerance: float) -> dict[Operation, Any]:
    """Return all operations: two atoms fix one, so every pair of images of two reference atoms is tried."""
    import numpy

    found: dict[Operation, Any] = {}
    for matrix in _candidates(positions, charges, 4 * tolerance):
        partners = _permutation(matrix, positions, charges, 4 * tolerance)
        if partners is None:
            continue
        proper = bool(numpy.linalg.det(matrix) > 0)
        # The best orthogonal matrix of the same kind for this permutation (Kabsch).
        u, _, vt = numpy.linalg.svd(positions.T @ positions[list(partners)])
        flip = numpy.diag([1.0, 1.0, numpy.linalg.det(u @ vt) * (1.0 if proper else -1.0)])
        best = (u @ flip @ vt).T
        if numpy.linalg.norm(positions @ best.T - positions[list(partners)], axis=1).max() < tolerance:
            found[partners, proper] = best
    return found


def _candidates(positions: Any, charges: Any, slack: float) -> Iterator[Any]:
    import numpy

    radii = numpy.linalg.norm(positions, axis=1)

    def alike(index: int) -> list[int]:
        same = (charges == charges[index]) & (abs(radii - radii[index]) < slack)
        return [int(i) for i in numpy.flatnonzero(same)]

    away = [int(i) for i in numpy.flatnonzero(radii > 0.3)]
    first = min(away, key=lambda i: (len(alike(i)), i))
    sine = numpy.linalg.norm(numpy.cross(positions[away], positions[first]), axis=1) / radii[away] / radii[first]
    second = min(
        (i for i, s in zip(away, sine, strict=True) if s > 0.2), key=lambda i: (len(alike(i)), i), default=None
    )
    if second is None:
        yield numpy.eye(3)
        return
    separation = numpy.linalg.norm(positions[first] - positions[second])
    frame = _frame(positions[first], positions[second])
    for i in alike(first):
        for j in alike(second):
            if i == j or abs(numpy.linalg.norm(positions[i] - positions[j]) - separation) > slack:
                continue
            image = _frame(positions[i], positions[j])
            yield image @ frame.T
            yield image @ numpy.diag([1.0, 1.0, -1.0]) @ frame.T


def _frame(a: Any, b: Any) -> Any:
    import numpy

    x = a / numpy.linalg.norm(a)
    y = b - (b @ x) * x
    y = y / numpy.linalg.norm(y)
    return numpy.stack([x, y, numpy.cross(x, y)], axis=1)


def _closed(operations: dict[Operation, Any]) -> bool:
    """Whether the product of any two operations is one of them."""
    return bool(operations) and all(
        (tuple(q[i] for i in p), proper_p == proper_q) in operations
        for p, proper_p in operations
        for q, proper_q in operations
    )


def _name(matrices: list[Any]) -> str:
    """Return the Schoenflies symbol of a finite group from its matrices."""
    import numpy

    rotations = [m for m in matrices if numpy.linalg.det(m) > 0]
    improper = [m for m in matrices if numpy.linalg.det(m) < 0]
    inversion = any(numpy.trace(m) < -2.5 for m in improper)
    mirrors = sum(bool(abs(numpy.trace(m) - 1) < 0.2) for m in improper)
    orders = [_order(m) for m in rotations]
    if orders.count(3) >= 8:
        family = {12: "T", 24: "O", 60: "I"}.get(len(rotations), "T")
        if not improper:
            return family
        return family + ("h" if inversion else "d")
    n = max(orders)
    if len(rotations) == n:
        if not improper:
            return f"C{n}"
        if n == 1:
            return "Cs" if mirrors else "Ci"
        if mirrors == n:
            return f"C{n}v"
        return f"C{n}h" if mirrors else f"S{2 * n}"
    if not improper:
        return f"D{n}"
    return f"D{n}h" if mirrors == n + 1 else f"D{n}d"


def _order(rotation: Any) -> int:
    """Return how often a rotation is repeated until nothing has changed."""
    import numpy

    angle = math.acos(max(-1.0, min(1.0, (float(numpy.trace(rotation)) - 1) / 2)))
    if angle < 0.1:
        return 1
    return next(
        (n for n in range(2, 13) if abs(n * angle / (2 * math.pi) - round(n * angle / (2 * math.pi))) < 0.03), 1
    )
