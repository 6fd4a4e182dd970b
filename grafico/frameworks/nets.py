"""Nets read from Systre's CGD files: vertices and edges of a crystal's underlying graph, by symmetry.

Only what is asked of every net is read here, and fast: kinds of vertices, how many there are, where their neighbors lie.
Source of the format: O. Delgado-Friedrichs, http://www.gavrog.org/Systre-Help.html.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafico.atoms.optional import require

__all__ = ["Net", "NetError", "Vertex", "read_net"]

_SAME = 2e-3
"""Fractional coordinates are written with five digits or fewer; the closest two vertices are 0.02 apart."""


class NetError(ValueError):
    """A CGD file that contradicts itself, or that has another form than PORMAKE's."""


class Vertex(NamedTuple):
    """A kind of vertex."""

    connectivity: int
    slots: int
    """How many there are in the cell."""
    neighbors: Any
    """Vectors to its neighbors, shape (connectivity, 3), in units of an edge."""


class _File(NamedTuple):
    """What a CGD file says: a space group, and what of the net is not made by its symmetry."""

    group: str
    cell: tuple[float, ...]
    nodes: tuple[tuple[int, tuple[float, ...]], ...]
    """Number of edges and place, in fractional coordinates, of each vertex."""
    edges: tuple[tuple[float, ...], ...]
    """Places of both ends."""


class Net(NamedTuple):
    """A net in the cell of its space group."""

    name: str
    space_group: str
    vertices: tuple[Vertex, ...]
    edges: tuple[tuple[int, int, int], ...]
    """Kinds of vertices that an edge joins, the lower first, and how many such edges there are in the cell."""


def read_net(path: Path) -> Net:
    """Read a CGD file of PORMAKE's database.

    Raises
    ------
    NetError
        Vertices do not have the number of edges that they are said to have, or something is missing.
    MissingExtra
        gemmi is not installed.
    """
    name, file = path.stem, _parse(path.stem, path.read_text())
    last: NetError | None = None
    for operations in _settings(file.group):
        try:
            return _expand(name, file, operations)
        except NetError as error:
            last = error
    raise last or NetError(f"{name}: the space group {file.group!r} is not known")


def _parse(name: str, text: str) -> _File:
    found: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        key, *rest = line.split() or [""]
        found.setdefault(key, []).append(rest)
    try:
        file = _File(
            group=found["GROUP"][0][0],
            cell=tuple(map(float, found["CELL"][0])),
            nodes=tuple((int(row[1]), tuple(map(float, row[2:5]))) for row in found["NODE"]),
            edges=tuple(tuple(map(float, row[:6])) for row in found["EDGE"]),
        )
    except (KeyError, IndexError, ValueError) as error:
        raise NetError(f"{name} lacks vertices, edges given by both ends, a space group or a cell") from error
    if len(file.cell) != 6 or min(file.cell) <= 0:
        raise NetError(f"{name}: a cell takes three lengths and three angles")
    return file


def _settings(group: str) -> list[Any]:
    """Return rotations and translations (m, 3, 3) and (m, 3) of a space group; of both, where it has two settings."""
    import numpy

    gemmi = require("gemmi", extra="mof", purpose="for the space groups of nets")
    found, seen = [], set()
    for prefer in ("2H", "1H"):
        space_group = gemmi.find_spacegroup_by_name(_SPELLED.get(group, group), prefer=prefer)
        if space_group is None or space_group.xhm() in seen:
            continue
        seen.add(space_group.xhm())
        operations = list(space_group.operations())
        rotations = numpy.array([operation.rot for operation in operations], dtype=float) / operations[0].DEN
        shifts = numpy.array([operation.tran for operation in operations], dtype=float) / operations[0].DEN
        found.append((rotations, shifts))
    return found


_SPELLED = {"Cmca": "Cmce"}


def _expand(name: str, file: _File, operations: Any) -> Net:
    import numpy

    rotations, shifts = operations
    lattice = _lattice(file.cell)
    # Each edge in both directions, so that every one starts at the vertex that is looked at.
    ends = numpy.array(file.edges).reshape(-1, 2, 3)
    images = numpy.einsum("mab,ekb->meka", rotations, ends) + shifts[:, None, None, :]
    starts = numpy.concatenate([images[:, :, 0], images[:, :, 1]]).reshape(-1, 3)
    steps = numpy.concatenate([images[:, :, 1] - images[:, :, 0], images[:, :, 0] - images[:, :, 1]]).reshape(-1, 3)
    vertices = []
    for kind, (connectivity, place) in enumerate(file.nodes):
        orbit = _distinct((numpy.array(place) @ rotations.transpose(0, 2, 1) + shifts), periodic=True)
        here = _near(starts, numpy.array(place))
        around = _distinct(steps[here], periodic=False)
        if len(around) != connectivity:
            raise NetError(f"{name}: vertex {kind} has {len(around)} edges, but is said to have {connectivity}")
        vertices.append(Vertex(connectivity, len(orbit), around @ lattice))
    return Net(name, file.group, tuple(vertices), _edge_kinds(name, file, images, operations))


def _edge_kinds(name: str, file: _File, images: Any, operations: Any) -> tuple[tuple[int, int, int], ...]:
    """Count the distinct edges of the cell by the kinds of vertices at their ends."""
    import numpy

    rotations, shifts = operations
    orbits = [numpy.array(place) @ rotations.transpose(0, 2, 1) + shifts for _, place in file.nodes]

    def kind(point: Any) -> int:
        for index, orbit in enumerate(orbits):
            if _near(orbit, point).any():
                return index
        raise NetError(f"{name}: an edge ends where no vertex is")

    pairs = [tuple(sorted((kind(first), kind(second)))) for first, second in numpy.array(file.edges).reshape(-1, 2, 3)]
    # Two edges may have their middle in one place (they cross there), so the step is told apart too, up to its sign.
    middles = images.mean(axis=2)
    steps = images[:, :, 1] - images[:, :, 0]
    leading = numpy.where(numpy.abs(steps) > _SAME, numpy.sign(steps), 0.0) @ numpy.array([9.0, 3.0, 1.0])
    steps = steps * numpy.where(leading < 0, -1.0, 1.0)[..., None]
    counts = []
    for pair in sorted(set(pairs)):
        chosen = [index for index, other in enumerate(pairs) if other == pair]
        found = numpy.concatenate([middles[:, chosen], steps[:, chosen]], axis=2).reshape(-1, 6)
        found[:, :3] -= numpy.floor(found[:, :3] + _SAME)
        counts.append((pair[0], pair[1], len(_distinct(found, periodic=False))))
    return tuple(counts)


def _near(points: Any, place: Any) -> Any:
    """Return which points are a place, or a translation of it."""
    import numpy

    apart = points - place
    return (numpy.abs(apart - numpy.round(apart)) < _SAME).all(axis=-1)


def _distinct(points: Any, *, periodic: bool) -> Any:
    """Return points, each once; translations by lattice vectors are the same when ``periodic``."""
    import numpy

    left = numpy.asarray(points)
    if periodic:
        left = left - numpy.floor(left + _SAME)
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[~(numpy.abs(left - left[0]) < _SAME).all(axis=-1)]
    return numpy.array(kept).reshape(-1, numpy.shape(points)[-1])


def _lattice(cell: Sequence[float]) -> Any:
    """Return lattice vectors as rows from lengths and angles in degrees."""
    import numpy

    a, b, c = cell[:3]
    cosines = [math.cos(math.radians(angle)) for angle in cell[3:]]
    sine = math.sqrt(1.0 - cosines[2] ** 2)
    y = (cosines[0] - cosines[1] * cosines[2]) / sine
    z = math.sqrt(max(1e-12, 1.0 - cosines[1] ** 2 - y**2))
    return numpy.array([[a, 0.0, 0.0], [b * cosines[2], b * sine, 0.0], [c * cosines[1], c * y, c * z]])
