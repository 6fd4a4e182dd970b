"""Linkers turned about their own axis where atoms would clash.

What PORMAKE fits, the two docking points of a linker on an edge, leaves its turn about the axis through them open: rounding
decides it. Of all turns that are possible the one that PORMAKE came to stays, unless atoms clash.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Axle", "axles_of", "turn_linkers"]

STEP = 15
"""Degrees between the turns that are tried."""
PASSES = 3
"""How often all linkers are gone through: each finds the others turned."""
MOST = 2_000_000
"""Atoms of all linkers times all atoms beyond which nothing is turned: it would take minutes."""


class Axle(NamedTuple):
    """A linker with two docking points, as it lies in a framework."""

    atoms: Sequence[int]
    """Its real atoms, by index in the framework."""
    places: Any
    """Where they are, Å, shape (atoms, 3): in one piece, while a framework's atoms may be cut apart by the cell's border."""
    start: Any
    """One docking point, Å."""
    direction: Any
    """Unit vector to the other."""


def axles_of(blocks: Sequence[Any]) -> list[Axle]:
    """Return the linkers that can be turned, of PORMAKE's located blocks in the order of their atoms.

    Parameters
    ----------
    blocks
        ``pormake.BuildingBlock`` for each slot, none where a slot is empty.
    """
    import numpy

    found, offset = [], 0
    for block in blocks:
        if block is None:
            continue
        real = [index for index, symbol in enumerate(block.atoms.symbols) if symbol != "X"]
        points = block.atoms.positions[[index for index, symbol in enumerate(block.atoms.symbols) if symbol == "X"]]
        if len(points) == 2 and (length := float(numpy.linalg.norm(points[1] - points[0]))) > 1e-3:
            atoms = range(offset, offset + len(real))
            found.append(Axle(atoms, block.atoms.positions[real], points[0], (points[1] - points[0]) / length))
        offset += len(real)
    return found


def turn_linkers(positions: Any, radii: Any, cell: Any, axles: Sequence[Axle], enough: float) -> tuple[Any, int]:
    """Turn linkers until no atom of one is too close to an atom of another part, and return positions and how many turned.

    A linker that clashes takes the turn that leaves most room, the smallest of equal ones. Its own atoms do not count.

    Parameters
    ----------
    positions
        Å, shape (atoms, 3).
    radii
        Covalent radii, Å, shape (atoms,).
    cell
        Lattice vectors as rows, Å.
    axles
        The linkers, as :func:`axles_of` returns them.
    enough
        Distance over the sum of covalent radii from which on two atoms are no clash.
    """
    import numpy

    found = numpy.array(positions, dtype=float)
    if sum(len(axle.atoms) for axle in axles) * len(found) > MOST:
        return found, 0
    at = found.copy()
    for axle in axles:
        at[list(axle.atoms)] = axle.places
    turned: set[int] = set()
    for _ in range(PASSES):
        again = False
        for number, axle in enumerate(axles):
            room = _rooms(at, radii, cell, axle, (0,))[0]
            if room >= enough:
                continue
            angles = sorted(range(STEP, 360, STEP), key=lambda angle: (min(angle, 360 - angle), angle))
            rooms = _rooms(at, radii, cell, axle, angles)
            best = max(range(len(angles)), key=lambda index: (round(rooms[index], 3), -index))
            if rooms[best] > room + 1e-3:
                at[list(axle.atoms)] = _turned(at, axle, angles[best])
                turned.add(number)
                again = True
        if not again:
            break
    for number in turned:
        own = list(axles[number].atoms)
        found[own] = at[own]
    return found, len(turned)


def _rooms(at: Any, radii: Any, cell: Any, axle: Axle, angles: Sequence[int]) -> list[float]:
    """Return for each turn the smallest distance to an atom of another part, over the sum of radii."""
    import numpy
    from ase.geometry import get_distances

    own = list(axle.atoms)
    others = numpy.setdiff1d(numpy.arange(len(at)), own)
    if not len(others):
        return [float("inf")] * len(angles)
    sums = radii[own][:, None] + radii[others][None, :]
    return [
        float((get_distances(_turned(at, axle, angle), at[others], cell=cell, pbc=True)[1] / sums).min())
        for angle in angles
    ]


def _turned(at: Any, axle: Axle, angle: int) -> Any:
    import numpy
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_rotvec(numpy.deg2rad(angle) * numpy.asarray(axle.direction))
    return turn.apply(at[list(axle.atoms)] - axle.start) + axle.start
