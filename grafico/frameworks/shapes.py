"""Which ideal arrangement a set of directions is closest to: a square, an octahedron, a cuboctahedron.

Docking points of a building block and neighbors around a vertex of a net are compared as PORMAKE compares them: as unit
vectors from the centroid of the points, by the RMSD after the best rotation and pairing. So three points lie in a plane
always. Two points are always opposite each other; there the bonds that end in them tell a bent block from a linear one.
"""

import functools
import hashlib
import math
from itertools import product
from typing import Any

__all__ = [
    "IRREGULAR_ABOVE",
    "direction_rmsd",
    "exit_shape",
    "ideal_shapes",
    "paired_rmsd",
    "shape_of",
    "unit_directions",
]

IRREGULAR_ABOVE = 0.3
"""RMSD from every ideal arrangement above which a shape is irregular: PORMAKE's usual limit for a block on a net."""

_BENT_BELOW = 165.0
"""Angle in degrees between two outgoing bonds. 1,4-phenylene has 180, 2,5-thiophenediyl 150, 1,3-phenylene 120."""

_CANDIDATES = 24


def unit_directions(points: Any) -> Any:
    """Return unit vectors from the centroid of points, shape (points, 3); a point in the centroid stays a zero vector."""
    import numpy

    found = numpy.asarray(points, dtype=float).reshape(-1, 3)
    found = found - found.mean(axis=0)
    lengths = numpy.linalg.norm(found, axis=1, keepdims=True)
    return numpy.where(lengths > 1e-6, found / numpy.maximum(lengths, 1e-6), 0.0)


def shape_of(points: Any) -> str:
    """Return coordination number and nearest ideal arrangement of points, such as ``6-octahedron``.

    Turning, permuting or scaling the points changes nothing. ``6-irregular:<digest>`` is for points whose RMSD from
    every ideal arrangement is above :data:`IRREGULAR_ABOVE`; the digest is a coarse one, of how far the directions
    stretch along their principal axes.

    Parameters
    ----------
    points
        Docking points, or vectors to neighbors; shape (points, 3), any unit.
    """
    import numpy

    count = len(points)
    if count <= 2:
        return ("0-none", "1-end", "2-linear")[count]
    directions = unit_directions(points)
    best, name = math.inf, ""
    for shape, ideal in ideal_shapes(count).items():
        if _lower_bound(directions, ideal) < best:
            rmsd = direction_rmsd(directions, ideal)
            if rmsd < best:
                best, name = rmsd, shape
    if best <= IRREGULAR_ABOVE:
        return name
    stretch = numpy.linalg.eigvalsh(directions.T @ directions / count)
    rounded = "/".join(f"{abs(value):.1f}" for value in stretch)
    return f"{count}-irregular:{hashlib.sha256(rounded.encode()).hexdigest()[:8]}"


def exit_shape(vectors: Any) -> str:
    """Return ``2-linear`` or ``2-bent`` for the two bonds, shape (2, 3), by which a block is joined to others.

    Bent is what deviates from a straight line by more than 15°. Angles of linkers are spread without a gap, so one close
    to that limit may be called the one in one crystal and the other in the next.
    """
    import numpy

    first, second = numpy.asarray(vectors, dtype=float)
    norm = float(numpy.linalg.norm(first) * numpy.linalg.norm(second))
    if norm < 1e-9:
        return "2-linear"
    angle = math.degrees(math.acos(max(-1.0, min(1.0, float(first @ second) / norm))))
    return "2-linear" if angle >= _BENT_BELOW else "2-bent"


def direction_rmsd(target: Any, directions: Any) -> float:
    """Return the RMSD (dimensionless) of unit vectors after the best rotation and pairing; mirror images are not tried.

    Parameters
    ----------
    target, directions
        Unit vectors, shape (n, 3).

    Each pair of directions is laid on one pair of the target's; the best of these rotations are refined by pairing
    (Hungarian method) and superposition (Kabsch) in turn. It is exact where the two are alike, and an upper bound where
    they are not.
    """
    import numpy
    from scipy.optimize import linear_sum_assignment

    p = numpy.asarray(target, dtype=float)
    q = numpy.asarray(directions, dtype=float)
    rotations = _candidate_rotations(p, q)
    overlap = numpy.einsum("ia,mja->mij", p, numpy.einsum("ja,mab->mjb", q, rotations))
    promise = overlap.max(axis=2).sum(axis=1) + overlap.max(axis=1).sum(axis=1)
    best = math.inf
    for index in numpy.argsort(-promise, kind="stable")[:_CANDIDATES]:
        rotation, last = rotations[index], None
        for _ in range(20):
            _, order = linear_sum_assignment(-(p @ (q @ rotation).T))
            if last is not None and (order == last).all():
                break
            last = order
            rotation = _superposition(p, q[order])
        best = min(best, float(numpy.sqrt(((p - q[last] @ rotation) ** 2).sum() / len(p))))
        if best < 1e-6:
            break
    return best


def paired_rmsd(target: Any, directions: Any) -> float:
    """Return the RMSD of unit vectors after the best rotation, the pairs as they stand; shape (n, 3) both."""
    import numpy

    p, q = numpy.asarray(target, dtype=float), numpy.asarray(directions, dtype=float)
    return float(numpy.sqrt(((p - q @ _superposition(p, q)) ** 2).sum() / len(p)))


def _candidate_rotations(p: Any, q: Any) -> Any:
    """Return matrices, shape (m, 3, 3), that turn rows of ``q`` onto rows of ``p`` when multiplied from the right."""
    import numpy

    # Two directions at about a right angle fix a rotation best.
    spread = numpy.linalg.norm(numpy.cross(p[:, None], p[None]), axis=-1)
    i, j = divmod(int(spread.argmax()), len(p))
    k, m = numpy.nonzero(numpy.linalg.norm(numpy.cross(q[:, None], q[None]), axis=-1) > 0.1)
    if spread[i, j] < 0.1 or len(k) == 0:
        return numpy.eye(3)[None]
    return numpy.einsum("mab,ac->mbc", _frames(q[k], q[m]), _frames(p[i][None], p[j][None])[0])


def _frames(first: Any, second: Any) -> Any:
    """Return orthonormal frames as rows, shape (m, 3, 3), symmetric in how they treat both vectors of a pair."""
    import numpy

    total, difference = first + second, first - second
    total = total / numpy.linalg.norm(total, axis=1, keepdims=True)
    difference = difference / numpy.linalg.norm(difference, axis=1, keepdims=True)
    # Vectors of unequal length (a zero vector among unit ones) would give skew frames.
    difference = difference - (difference * total).sum(axis=1, keepdims=True) * total
    difference = difference / numpy.linalg.norm(difference, axis=1, keepdims=True)
    return numpy.stack([total, difference, numpy.cross(total, difference)], axis=1)


def _superposition(p: Any, q: Any) -> Any:
    """Return the proper rotation that brings ``q @ rotation`` closest to ``p`` (W. Kabsch, Acta Cryst. A32, 922)."""
    import numpy

    left, _, right = numpy.linalg.svd(q.T @ p)
    sign = 1.0 if numpy.linalg.det(left) * numpy.linalg.det(right) > 0 else -1.0
    return left @ numpy.diag([1.0, 1.0, sign]) @ right


def _lower_bound(p: Any, q: Any) -> float:
    """Return what no rotation or pairing can go below: the trace inequality of von Neumann."""
    import numpy

    reach = float((numpy.linalg.svd(p, compute_uv=False) * numpy.linalg.svd(q, compute_uv=False)).sum())
    squares = float((p**2).sum() + (q**2).sum())
    return math.sqrt(max(0.0, (squares - 2.0 * reach) / len(p)))


@functools.cache
def ideal_shapes(count: int) -> dict[str, Any]:
    """Return the ideal arrangements of a number of points: unit vectors, shape (points, 3), by name."""
    found = {name: points() for name, points in _IDEALS.items() if name.partition("-")[0] == str(count)}
    return {name: unit_directions(points) for name, points in found.items()}


def _ring(count: int, height: float = 0.0, *, turned: float = 0.0, radius: float = 1.0) -> list[tuple[float, ...]]:
    angles = [2.0 * math.pi * (index + turned) / count for index in range(count)]
    return [(radius * math.cos(angle), radius * math.sin(angle), height) for angle in angles]


def _prism(count: int) -> list[tuple[float, ...]]:
    """Return a prism with square sides."""
    half = math.sin(math.pi / count)
    return _ring(count, half) + _ring(count, -half)


def _antiprism(count: int) -> list[tuple[float, ...]]:
    """Return an antiprism whose sides are equilateral triangles."""
    side, skew = 2.0 * math.sin(math.pi / count), 2.0 * math.sin(math.pi / (2 * count))
    half = math.sqrt(side**2 - skew**2) / 2.0
    return _ring(count, half) + _ring(count, -half, turned=0.5)


def _poles(height: float = 1.0) -> list[tuple[float, ...]]:
    return [(0.0, 0.0, height), (0.0, 0.0, -height)]


def _signs(*coordinates: float, cyclic: bool = False, even: bool | None = None) -> list[tuple[float, ...]]:
    """Return a point with all signs, in all (or only the cyclic) orders of its coordinates, each once.

    ``even`` keeps the points with an even (or odd) number of minus signs.
    """
    from itertools import permutations

    a, b, c = coordinates
    orders = {(a, b, c), (b, c, a), (c, a, b)} if cyclic else set(permutations((a, b, c)))
    points = set()
    for order, signs in product(sorted(orders), product((1.0, -1.0), repeat=3)):
        if even is None or (signs.count(-1.0) % 2 == 0) is even:
            points.add(tuple(sign * value + 0.0 for sign, value in zip(signs, order, strict=True)))
    return sorted(points)


_GOLDEN = (1.0 + math.sqrt(5.0)) / 2.0
_SILVER = 1.0 + math.sqrt(2.0)
_CAPS = math.sqrt(3.0) / 2.0

_IDEALS: dict[str, Any] = {
    "3-triangle": lambda: _ring(3),
    "4-square": lambda: _ring(4),
    "4-tetrahedron": lambda: _signs(1, 1, 1, even=True),
    "5-pentagon": lambda: _ring(5),
    "5-trigonal_bipyramid": lambda: _ring(3) + _poles(),
    "5-square_pyramid": lambda: [*_ring(4), (0.0, 0.0, 1.0)],
    "6-octahedron": lambda: _signs(1, 0, 0),
    "6-prism": lambda: _prism(3),
    "6-hexagon": lambda: _ring(6),
    "7-pentagonal_bipyramid": lambda: _ring(5) + _poles(),
    "7-capped_prism": lambda: [*_prism(3), (-1.25, 0.0, 0.0)],
    "8-cube": lambda: _signs(1, 1, 1),
    "8-antiprism": lambda: _antiprism(4),
    "8-hexagonal_bipyramid": lambda: _ring(6) + _poles(),
    "9-tricapped_prism": lambda: _prism(3) + _ring(3, turned=0.5, radius=1.25),
    "10-bicapped_antiprism": lambda: _antiprism(4) + _poles(),
    "10-pentagonal_prism": lambda: _prism(5),
    "12-cuboctahedron": lambda: _signs(1, 1, 0),
    "12-icosahedron": lambda: _signs(0, 1, _GOLDEN, cyclic=True),
    "12-hexagonal_prism": lambda: _prism(6),
    "12-truncated_tetrahedron": lambda: _signs(3, 1, 1, even=True),
    "24-rhombicuboctahedron": lambda: _signs(1, 1, _SILVER),
    "24-truncated_cube": lambda: _signs(_SILVER - 2.0, 1, 1),
    "24-truncated_octahedron": lambda: _signs(0, 1, 2),
}
