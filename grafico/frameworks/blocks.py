"""Building blocks: PORMAKE's database, blocks cut from crystals, and how they are recognized as the same.

A docking point lies half way along the bond by which a block is joined to others, in PORMAKE's database as in the
fragments that its decomposer cuts.
"""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from grafico.atoms import ConceptualAtoms, Vector
from grafico.atoms.elements import hill_formula
from grafico.calculations import Model
from grafico.errors import MoleculeError
from grafico.frameworks.molecular_graph import METALS, block_bonds, graph_digest
from grafico.frameworks.parts import BlockKind, BuildingBlock
from grafico.frameworks.pormake_engine import load_pormake, pormake_folder
from grafico.frameworks.shapes import exit_shape, shape_of

__all__ = [
    "BlockEntry",
    "block_from_fragment",
    "list_blocks",
    "make_block",
    "pormake_block",
    "pormake_name",
    "to_pormake",
]

_REACH = 1.4
"""Å. The farthest docking point of PORMAKE's database is 1.28 Å from its atom; half of a usual bond is 0.75 Å."""

Bonds = Sequence[tuple[int, int, str]]


class BlockEntry(Model):
    """A building block of PORMAKE's database, as a list shows it."""

    name: str = Field(description="PORMAKE identifier, such as N625")
    kind: BlockKind
    connectivity: int = Field(description="docking points")
    formula: str = Field(description="real atoms, in Hill's order")
    metals: tuple[str, ...] = Field(default=(), description="metal elements, sorted")


class _Raw(NamedTuple):
    """A file of PORMAKE's database, its atoms and docking points apart."""

    symbols: tuple[str, ...]
    positions: tuple[Vector, ...]
    docking: tuple[Vector, ...]
    anchors: tuple[int, ...]
    bonds: tuple[tuple[int, int, str], ...]


def make_block(
    name: str,
    symbols: Sequence[str],
    positions: Sequence[Sequence[float]],
    docking_points: Sequence[Sequence[float]],
    *,
    anchors: Sequence[int] | None = None,
    bonds: Bonds | None = None,
) -> BuildingBlock:
    """Return a building block with its kind, the digest of its graph, and its shape.

    Parameters
    ----------
    name
        What people call it.
    symbols, positions
        Real atoms, Å.
    docking_points
        Å; half way along the bonds that join it to others.
    anchors
        The atom that each docking point hangs on, from 0; default the nearest.
    bonds
        Among real atoms, from 0, with S, D, T or A; default those found from distances, all S.

    Raises
    ------
    MoleculeError
        No atoms, no docking points, or a docking point that hangs on nothing.
    """
    if len(symbols) == 0 or len(docking_points) == 0:
        raise MoleculeError(
            f"the building block {name} has {len(symbols)} atoms and {len(docking_points)} docking points",
            hint="it needs at least one of each",
        )
    places, points = _vectors(positions), _vectors(docking_points)
    found = block_bonds(symbols, places)
    holds = tuple(anchors) if anchors is not None else _nearest(name, places, points)
    return BuildingBlock(
        name=name,
        kind="metal_node" if set(symbols) & METALS else "organic_linker",
        atoms=ConceptualAtoms(symbols=tuple(symbols), positions=places, docking_points=points),
        anchors=holds,
        bonds=tuple((i, j, "S") for i, j in found) if bonds is None else tuple(bonds),
        # From distances whatever bonds were given: PORMAKE's lists and other programs' disagree about metals.
        graph=graph_digest(symbols, found, holds),
        shape=_shape(places, points, holds),
    )


def block_from_fragment(name: str, fragment: Any, *, anchors: Sequence[int] | None = None) -> BuildingBlock:
    """Return the building block of a fragment in which X atoms mark the cut bonds.

    Parameters
    ----------
    name
        What people call it, such as ``IXEJIG-node``.
    fragment
        ``ase.Atoms`` in one piece (its cell is not looked at), X half way along each bond that was cut.
    anchors
        For each X in turn, the atom (from 0, counted among the real atoms) that it hangs on; default the nearest.

    Raises
    ------
    MoleculeError
        No atoms, no X, or an X that hangs on nothing.
    """
    symbols = fragment.get_chemical_symbols()
    places = fragment.get_positions().tolist()
    real = [index for index, symbol in enumerate(symbols) if symbol != "X"]
    marks = [index for index, symbol in enumerate(symbols) if symbol == "X"]
    return make_block(
        name,
        [symbols[index] for index in real],
        [places[index] for index in real],
        [places[index] for index in marks],
        anchors=anchors,
    )


def pormake_block(name: str) -> BuildingBlock:
    """Return a building block of PORMAKE's database.

    Raises
    ------
    MoleculeError
        There is no such identifier; says which ones are like it.
    """
    if name not in _names():
        raise MoleculeError(
            f"PORMAKE has no building block {name!r}",
            hint=f"did you mean {_like(name)}? Nodes are N1 to N{_last('N')}, edges E1 to E{_last('E')}, with gaps",
        )
    return _block(name)


@functools.lru_cache(maxsize=2048)
def _block(name: str) -> BuildingBlock:
    raw = _read(name)
    return make_block(name, raw.symbols, raw.positions, raw.docking, anchors=raw.anchors, bonds=raw.bonds)


@functools.cache
def list_blocks() -> tuple[BlockEntry, ...]:
    """Return what PORMAKE's database has, in the order of identifiers. Costs about a second, once in a process."""
    entries = []
    for name in _names():
        raw = _read(name)
        metals = tuple(sorted(set(raw.symbols) & METALS))
        entries.append(
            BlockEntry(
                name=name,
                kind="metal_node" if metals else "organic_linker",
                connectivity=len(raw.docking),
                formula=hill_formula(raw.symbols),
                metals=metals,
            )
        )
    return tuple(entries)


@functools.lru_cache(maxsize=4096)
def _named(graph: str, shape: str, formula: str, connectivity: int) -> str | None:
    for entry in list_blocks():
        if entry.formula == formula and entry.connectivity == connectivity:
            block = _block(entry.name)
            if (block.graph, block.shape) == (graph, shape):
                return entry.name
    return None


def pormake_name(block: BuildingBlock) -> str | None:
    """Return the PORMAKE identifier of a block with the same graph and shape; the first, where there are several."""
    return _named(block.graph, block.shape, hill_formula(block.atoms.symbols), block.connectivity)


def to_pormake(block: BuildingBlock) -> Any:
    """Return ``pormake.BuildingBlock``: the real atoms, then the docking points as X, at exactly the same positions.

    Raises
    ------
    MissingExtra
        PORMAKE is not installed.
    """
    pormake = load_pormake()
    size = len(block.atoms)
    rows = [
        f"{symbol} {x!r} {y!r} {z!r}"
        for symbol, (x, y, z) in zip(
            (*block.atoms.symbols, *("X" for _ in block.anchors)),
            (*block.atoms.positions, *block.atoms.docking_points),
            strict=True,
        )
    ]
    bonds = [*block.bonds, *((size + point, anchor, "S") for point, anchor in enumerate(block.anchors))]
    lines = [str(len(rows)), " ".join(str(size + point) for point in range(len(block.anchors))), *rows]
    lines += [f"{i} {j} {kind}" for i, j, kind in bonds]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.xyz"
        path.write_text("\n".join(lines) + "\n")
        found = pormake.BuildingBlock(path)
    found.name = block.name
    return found


@functools.cache
def _names() -> dict[str, None]:
    names = (path.stem for path in (pormake_folder() / "bbs").glob("*.xyz"))
    return dict.fromkeys(sorted(names, key=lambda name: (name[0], int(name[1:]) if name[1:].isdigit() else 0, name)))


def _last(kind: str) -> str:
    return [name for name in _names() if name.startswith(kind)][-1][1:]


def _like(name: str) -> str:
    from difflib import get_close_matches

    return " or ".join(get_close_matches(name.strip().upper(), _names(), n=3, cutoff=0.0))


def _read(name: str) -> _Raw:
    """Read PORMAKE's extended XYZ: atoms and X, then bonds as two indices and a type."""
    lines = (pormake_folder() / "bbs" / f"{name}.xyz").read_text().splitlines()
    count = int(lines[0])
    rows = [line.split() for line in lines[2 : count + 2]]
    bonds = [(int(row[0]), int(row[1]), row[2]) for row in map(str.split, lines[count + 2 :]) if len(row) >= 3]
    places = [(float(row[1]), float(row[2]), float(row[3])) for row in rows]
    real = [index for index, row in enumerate(rows) if row[0] != "X"]
    number = {index: position for position, index in enumerate(real)}
    marks = [index for index, row in enumerate(rows) if row[0] == "X"]
    anchors = []
    for mark in marks:
        # A few have two bonds, where X is close to a second atom; the shorter one is meant.
        held = [j if i == mark else i for i, j, _ in bonds if mark in (i, j)]
        anchors.append(number[min(held, key=lambda index: _squared(places[index], places[mark]))])
    return _Raw(
        symbols=tuple(rows[index][0] for index in real),
        positions=tuple(places[index] for index in real),
        docking=tuple(places[index] for index in marks),
        anchors=tuple(anchors),
        bonds=tuple((number[i], number[j], kind) for i, j, kind in bonds if i in number and j in number),
    )


def _nearest(name: str, places: Sequence[Vector], points: Sequence[Vector]) -> tuple[int, ...]:
    anchors = []
    for point in points:
        index = min(range(len(places)), key=lambda index: _squared(places[index], point))
        distance = _squared(places[index], point) ** 0.5
        if distance > _REACH:
            raise MoleculeError(
                f"a docking point of {name} is {distance:.2f} Å from the nearest atom, so it hangs on nothing",
                hint="docking points lie half way along the bonds that join a block to others, at about 0.75 Å",
            )
        anchors.append(index)
    return tuple(anchors)


def _shape(places: Sequence[Vector], points: Sequence[Vector], anchors: Sequence[int]) -> str:
    import numpy

    if len(points) != 2:
        return shape_of(points)
    return exit_shape(numpy.asarray(points) - numpy.asarray(places)[list(anchors)])


def _squared(a: Sequence[float], b: Sequence[float]) -> float:
    return sum((p - q) ** 2 for p, q in zip(a, b, strict=True))


def _vectors(rows: Sequence[Sequence[float]]) -> tuple[Vector, ...]:
    return tuple((float(row[0]), float(row[1]), float(row[2])) for row in rows)
