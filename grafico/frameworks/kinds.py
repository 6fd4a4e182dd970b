"""Which fragments of a framework are the same building block.

Fragments are put together by a digest of their graph. A digest may collide, and the same chemistry may stand in two
shapes, so members are compared one by one: their graphs by an exact isomorphism, the arrangement of their docking points
by distances and angles. Superposing them as crystals (pymatgen's StructureMatcher) would not do, since it compares
lattices, and fragments have none; nor do conformers of one linker superpose that are one linker to a chemist.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from grafico.calculations import Json
from grafico.errors import MoleculeError
from grafico.frameworks.blocks import block_from_fragment
from grafico.frameworks.cutting import Fragment
from grafico.frameworks.molecular_graph import METALS, block_bonds, graph_digest
from grafico.frameworks.parts import BuildingBlock
from grafico.frameworks.refusals import refuse

__all__ = ["Kind", "building_block", "the_two_kinds", "unique_fragments"]

_LENGTH = 0.1
"""Relative difference of distances between docking points up to which two fragments have one shape."""

_ANGLE = 15.0
"""Difference of the angle between two outgoing bonds, degrees, up to which two fragments have one shape."""


class Kind(NamedTuple):
    """Fragments that are the same building block."""

    fragment: Fragment
    """One of them: the first that has the bonds most of them have."""
    number: int

    def describe(self) -> dict[str, Json]:
        """Return formula, connections and number, for the details of a failure."""
        return {"formula": self.fragment.formula, "connections": len(self.fragment.anchors), "count": self.number}


def the_two_kinds(fragments: Sequence[Fragment], name: str) -> tuple[Kind, Kind]:
    """Return the one kind of metal node and the one kind of linker of a framework.

    Raises
    ------
    CalculationError
        ``refused``: ``two_metal_nodes``, ``two_linkers``.
    """
    kinds = unique_fragments(fragments)
    nodes = [kind for kind in kinds if kind.fragment.is_node]
    linkers = [kind for kind in kinds if not kind.fragment.is_node]
    for reason, what, found in (("two_metal_nodes", "metal node", nodes), ("two_linkers", "linker", linkers)):
        if len(found) > 1:
            same = len({kind.fragment.formula for kind in found}) == 1
            refuse(
                reason,
                f"{name} has {len(found)} kinds of {what}{', of one formula but not of one shape' if same else ''}: "
                f"{'; '.join(_text(kind) for kind in found)}. A single one is expected",
                kinds=[kind.describe() for kind in found],
            )
    if not nodes or not linkers:
        refuse("no_linker", f"{name} has no {'linker' if nodes else 'metal node'} of its own")
    return nodes[0], linkers[0]


def _text(kind: Kind) -> str:
    marks = len(kind.fragment.anchors)
    return f"{kind.number} {kind.fragment.formula} with {marks} connection{'s' * (marks != 1)}"


def unique_fragments(fragments: Sequence[Fragment]) -> list[Kind]:
    """Return the kinds of fragments, metal nodes first, the most frequent first."""
    groups: list[tuple[str, list[tuple[str, Fragment]]]] = []
    graphs: list[Any] = []
    for fragment in fragments:
        bonds = block_bonds(fragment.symbols, [(row[0], row[1], row[2]) for row in fragment.positions.tolist()])
        exact = graph_digest(fragment.symbols, bonds, fragment.anchors)
        # How far a metal's bonds reach is a matter of opinion, and may differ between copies: what it holds does not.
        sure = [bond for bond in bonds if not METALS & {fragment.symbols[bond[0]], fragment.symbols[bond[1]]}]
        digest = graph_digest(fragment.symbols, sure, fragment.anchors)
        graph = _graph(fragment, sure)
        for (known, members), other in zip(groups, graphs, strict=True):
            if known == digest and _isomorphic(graph, other) and _same_shape(fragment, members[0][1]):
                members.append((exact, fragment))
                break
        else:
            groups.append((digest, [(exact, fragment)]))
            graphs.append(graph)
    kinds = [_kind(members) for _, members in groups]
    return sorted(kinds, key=lambda kind: (not kind.fragment.is_node, -kind.number, kind.fragment.formula))


def _kind(members: Sequence[tuple[str, Fragment]]) -> Kind:
    votes: dict[str, int] = {}
    for exact, _ in members:
        votes[exact] = votes.get(exact, 0) + 1
    usual = min(votes, key=lambda exact: (-votes[exact], exact))
    return Kind(next(fragment for exact, fragment in members if exact == usual), len(members))


def _graph(fragment: Fragment, bonds: Sequence[tuple[int, int]]) -> Any:
    import networkx

    size = len(fragment.symbols)
    graph = networkx.Graph()
    graph.add_nodes_from((index, {"label": symbol}) for index, symbol in enumerate(fragment.symbols))
    graph.add_nodes_from((size + mark, {"label": "X"}) for mark in range(len(fragment.anchors)))
    graph.add_edges_from(bonds)
    graph.add_edges_from((size + mark, anchor) for mark, anchor in enumerate(fragment.anchors))
    return graph


def _isomorphic(first: Any, second: Any) -> bool:
    import networkx

    return bool(networkx.vf2pp_is_isomorphic(first, second, node_label="label"))


def _same_shape(first: Fragment, second: Fragment) -> bool:
    import numpy

    one, two = _distances(first), _distances(second)
    if len(one) != len(two):
        return False
    if len(one) and numpy.abs(one - two).max() > _LENGTH * max(one.max(), two.max()):
        return False
    return len(first.anchors) != 2 or abs(_angle(first) - _angle(second)) <= _ANGLE


def _distances(fragment: Fragment) -> Any:
    import numpy

    marks = fragment.marks
    pairs = numpy.triu_indices(len(marks), 1)
    return numpy.sort(numpy.linalg.norm(marks[:, None] - marks[None], axis=-1)[pairs])


def _angle(fragment: Fragment) -> float:
    """Return the angle between the two bonds that leave a fragment, degrees."""
    import numpy

    first, second = fragment.marks - fragment.positions[list(fragment.anchors)]
    cosine = float(first @ second / (numpy.linalg.norm(first) * numpy.linalg.norm(second)))
    return float(numpy.degrees(numpy.arccos(max(-1.0, min(1.0, cosine)))))


def building_block(kind: Kind, name: str) -> BuildingBlock:
    """Return a kind as a building block.

    Raises
    ------
    CalculationError
        ``bad_input``: it has a geometry that no building block has.
    """
    try:
        return block_from_fragment(name, kind.fragment.to_ase(), anchors=kind.fragment.anchors)
    except MoleculeError as error:
        refuse("unusable", f"{kind.fragment.formula} of {name} is no building block: {error.message}")
