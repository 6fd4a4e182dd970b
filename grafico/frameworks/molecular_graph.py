"""The chemistry of a building block as a graph, and a digest of it that does not depend on coordinates."""

import hashlib
from collections.abc import Sequence

from grafico.atoms import Vector
from grafico.atoms.elements import covalent_radius, hill_formula

__all__ = ["METALS", "block_bonds", "graph_digest"]

_METALS = """
    Li Be Na Mg Al K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Cs Ba La Ce Pr Nd Pm Sm
    Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr
"""

METALS = frozenset(_METALS.split())
"""Elements that make a block a metal node. Metalloids (B, Si, Ge, As, Sb, Te) do not: they occur in linkers."""

# Factors on the sum of covalent radii, from the histogram of all pairs of atoms in PORMAKE's 867 blocks: among
# nonmetals there is nothing between 1.15 and 1.35; metal-oxygen bonds thin out until 1.3, metal-nitrogen until 1.2.
_NONMETALS = 1.25
_METAL = {"O": 1.3, "F": 1.3, "C": 1.15, "H": 1.1}
_METAL_OTHERS = 1.2


def block_bonds(symbols: Sequence[str], positions: Sequence[Vector]) -> tuple[tuple[int, int], ...]:
    """Return the bonds of a molecule with metals, from distances; each with the lower index (from 0) first, sorted.

    Bonds between metals are left out: whether there is one is a matter of opinion, and each metal is held by others. An
    atom is not bonded to a metal when an atom that it is bonded to is, and is closer to it: so the carbon of a
    chelating carboxylate is not.

    Parameters
    ----------
    symbols, positions
        Å.
    """
    import numpy

    places = numpy.asarray(positions, dtype=float).reshape(-1, 3)
    radii = numpy.array([covalent_radius(symbol) for symbol in symbols])
    ratio = numpy.linalg.norm(places[:, None] - places[None], axis=-1) / (radii[:, None] + radii[None])
    metal = numpy.array([symbol in METALS for symbol in symbols])
    found = set()
    neighbors: dict[int, list[int]] = {}
    for i, j in numpy.argwhere(numpy.triu(ratio < _NONMETALS, 1) & ~metal[:, None] & ~metal[None]).tolist():
        found.add((i, j))
        neighbors.setdefault(i, []).append(j)
        neighbors.setdefault(j, []).append(i)
    limits = numpy.array([_METAL.get(symbol, _METAL_OTHERS) for symbol in symbols])
    for center in numpy.flatnonzero(metal).tolist():
        reach = ratio[center] < limits
        for other in numpy.flatnonzero(reach & ~metal).tolist():
            nearer = (near for near in neighbors.get(other, ()) if reach[near])
            if not any(ratio[center, near] < 0.95 * ratio[center, other] for near in nearer):
                found.add((min(center, other), max(center, other)))
    return tuple(sorted(found))


def graph_digest(symbols: Sequence[str], bonds: Sequence[tuple[int, int]], anchors: Sequence[int]) -> str:
    """Return formula and digest of a block's graph, such as ``C6H4X2-0f1e…``: the same in any order of atoms.

    Colors are refined by those of the neighbors until no more atoms are told apart, and the digest is that of the
    sorted colors (B. Yu. Weisfeiler, A. A. Leman, Nauchno-Tekh. Inf. 2 (9) (1968) 12). Docking points are vertices of
    their own. Bond orders are not looked at. Written out here, since a library's digest changes with its version.

    Parameters
    ----------
    symbols, bonds, anchors
        Real atoms, pairs of them from 0, and the atom that each docking point hangs on.
    """
    size = len(symbols)
    labels = [*symbols, *("X" for _ in anchors)]
    neighbors: list[list[int]] = [[] for _ in labels]
    for i, j in (*bonds, *((size + point, anchor) for point, anchor in enumerate(anchors))):
        neighbors[i].append(j)
        neighbors[j].append(i)
    colors = [_hash(label) for label in labels]
    known = len(set(colors))
    while True:
        colors = [
            _hash(" ".join([colors[index], *sorted(colors[other] for other in near)]))
            for index, near in enumerate(neighbors)
        ]
        now = len(set(colors))
        if now == known:
            break
        known = now
    return f"{hill_formula(symbols)}X{len(anchors)}-{_hash(' '.join(sorted(colors)))}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
