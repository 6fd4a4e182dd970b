"""A framework cut into metal nodes and linkers, each bond with the image that it leads to.

The rule is that of PORMAKE's decomposer (S. Lee et al., ACS Appl. Mater. Interfaces 13 (2021) 23647): of an organic part,
the bonds are cut that are in no ring, have atoms on both sides that hold a metal, and end in a piece that does. So a
carboxylate stays with the metals, and what is between two of them is the linker. A piece that is joined to one node only
stays with that node. The rule is written out here and not called, because PORMAKE's own works without images: in an
oblique cell it puts docking points in wrong places, in a small one it takes a node's image for the node, and it cannot
be told the bonds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms
from grafico.atoms.elements import hill_formula
from grafico.frameworks.molecular_graph import METALS
from grafico.frameworks.periodic import Image, Link, Part, laid_out, minus, parts_of, plus
from grafico.frameworks.refusals import refuse

__all__ = ["Cut", "Fragment", "Joint", "cut_framework"]


class Joint(NamedTuple):
    """A bond that was cut: from a block in the cell at the origin to another in the cell that the image tells."""

    block: int
    other: int
    image: Image
    atom: int
    other_atom: int
    bond: Image
    """Image of the other atom, as seen from the first in the cell at the origin."""


class Fragment(NamedTuple):
    """A piece of a framework, laid out, with a mark half way along each bond that was cut."""

    symbols: tuple[str, ...]
    positions: Any
    """Å, shape (atoms, 3)."""
    marks: Any
    """Å, shape (cut bonds, 3)."""
    anchors: tuple[int, ...]
    """The atom, from 0, that each mark hangs on."""
    is_node: bool

    @property
    def formula(self) -> str:
        """Hill formula with the number of cut bonds: ``C6H4X2``."""
        return f"{hill_formula(self.symbols)}X{len(self.anchors)}"

    def to_ase(self) -> Any:
        """Return ``ase.Atoms`` without a cell, X for the marks, behind the real atoms."""
        from ase import Atoms

        places = [*self.positions.tolist(), *self.marks.tolist()]
        return Atoms([*self.symbols, *("X" for _ in self.anchors)], positions=places)


class Cut(NamedTuple):
    """A framework in pieces."""

    blocks: tuple[Part, ...]
    joints: tuple[Joint, ...]
    fragments: tuple[Fragment, ...]
    """One a block, in the same order."""


def cut_framework(atoms: ConceptualAtoms, bonds: Sequence[Link], name: str) -> Cut:
    """Cut a framework into metal nodes and linkers.

    Parameters
    ----------
    atoms
        One framework, without guests.
    bonds
        As :func:`~grafico.frameworks.periodic.crystal_bonds` finds them.

    Raises
    ------
    CalculationError
        ``refused``: ``organic_chain``, ``nothing_to_cut``, ``rod_node``, ``no_linker``.
    """
    metals = {index for index, symbol in enumerate(atoms.symbols) if symbol in METALS}
    seams = _seams(atoms, bonds, metals, name)
    if not seams:
        refuse(
            "nothing_to_cut",
            f"in {name} no bond parts metal nodes from linkers: the linkers hold the metals with atoms of their own rings, "
            "or with single atoms",
        )
    while True:
        blocks = parts_of(range(len(atoms)), [bond for bond in bonds if bond not in seams])
        _check_blocks(atoms, blocks, metals, name)
        joints = _joints(blocks, [bond for bond in bonds if bond in seams])
        hanging = _hanging(blocks, joints, metals)
        if not hanging:
            break
        seams -= {bond for bond in seams if {bond[0], bond[1]} & hanging}
        if not seams:
            refuse("nothing_to_cut", f"in {name} every linker is joined to a single metal node")
    fragments = tuple(_fragment(atoms, number, blocks, joints, metals) for number in range(len(blocks)))
    _check_joints(fragments, joints, name)
    return Cut(tuple(blocks), tuple(joints), fragments)


def _seams(atoms: ConceptualAtoms, bonds: Sequence[Link], metals: set[int], name: str) -> set[Link]:
    """Return the bonds that PORMAKE's rule cuts."""
    import networkx

    holding = {i for bond in bonds if metals & {bond[0], bond[1]} for i in bond[:2]} - metals
    organic = [bond for bond in bonds if bond[0] not in metals and bond[1] not in metals]
    seams: set[Link] = set()
    for part in parts_of(set(range(len(atoms))) - metals, organic):
        held = holding & set(part.atoms)
        if len(part.atoms) == 1 or len(held) < 2:
            continue
        if part.dimension:
            formula = hill_formula(atoms.symbols[index] for index in part.atoms)
            refuse(
                "organic_chain", f"{name} has an organic part ({formula} in a cell) that is endless without the metals"
            )
        inside = [bond for bond in organic if bond[0] in part.images]
        graph = networkx.Graph([bond[:2] for bond in inside])
        candidates = []
        for i, j in networkx.bridges(graph):
            graph.remove_edge(i, j)
            near = networkx.node_connected_component(graph, i)
            graph.add_edge(i, j)
            # A side of one atom is an oxygen or nitrogen that holds the metal: it stays a part of the linker.
            if 1 < len(near) < len(part.atoms) - 1 and held & near and held - near:
                candidates.append((i, j))
        graph.remove_edges_from(candidates)
        pieces = [piece for piece in networkx.connected_components(graph) if piece & held]
        ends = set().union(*pieces)
        cut = {frozenset(pair) for pair in candidates if set(pair) & ends}
        seams |= {bond for bond in inside if frozenset(bond[:2]) in cut}
    return seams


def _check_blocks(atoms: ConceptualAtoms, blocks: Sequence[Part], metals: set[int], name: str) -> None:
    for block in blocks:
        if block.dimension and metals.intersection(block.atoms):
            formula = hill_formula(atoms.symbols[index] for index in block.atoms)
            what = ("", "an endless rod", "an endless layer", "a framework of its own")[block.dimension]
            refuse(
                "rod_node",
                f"the metal node of {name} is {what} ({formula} in a cell), which no finite building block stands for",
                dimension=block.dimension,
            )


def _joints(blocks: Sequence[Part], cut: Sequence[Link]) -> list[Joint]:
    """Return the cut bonds, each seen from both of its blocks, sorted."""
    owner = {index: number for number, block in enumerate(blocks) for index in block.atoms}
    joints = []
    for i, j, shift in cut:
        a, b = owner[i], owner[j]
        # The block of i is shifted so that i is in the cell at the origin.
        image = plus(plus(shift, minus(blocks[b].images[j])), blocks[a].images[i])
        joints += [Joint(a, b, image, i, j, shift), Joint(b, a, minus(image), j, i, minus(shift))]
    return sorted(joints)


def _hanging(blocks: Sequence[Part], joints: Sequence[Joint], metals: set[int]) -> set[int]:
    """Return the atoms of pieces without a metal that are joined to one node in one image only."""
    reached: dict[int, set[tuple[int, Image]]] = {}
    for joint in joints:
        reached.setdefault(joint.block, set()).add((joint.other, joint.image))
    return {
        index
        for number, found in reached.items()
        if len(found) == 1 and not metals.intersection(blocks[number].atoms)
        for index in blocks[number].atoms
    }


def _fragment(
    atoms: ConceptualAtoms, number: int, blocks: Sequence[Part], joints: Sequence[Joint], metals: set[int]
) -> Fragment:
    import numpy

    block = blocks[number]
    places = laid_out(atoms, block.images, block.atoms)
    cell, positions = numpy.asarray(atoms.cell), numpy.asarray(atoms.positions)
    order = {index: place for place, index in enumerate(block.atoms)}
    mine = [joint for joint in joints if joint.block == number]
    marks = [
        places[order[joint.atom]]
        + 0.5 * (positions[joint.other_atom] + numpy.asarray(joint.bond) @ cell - positions[joint.atom])
        for joint in mine
    ]
    center = places.mean(axis=0)
    return Fragment(
        symbols=tuple(atoms.symbols[index] for index in block.atoms),
        positions=places - center,
        marks=numpy.asarray(marks).reshape(-1, 3) - center,
        anchors=tuple(order[joint.atom] for joint in mine),
        is_node=bool(metals.intersection(block.atoms)),
    )


def _check_joints(fragments: Sequence[Fragment], joints: Sequence[Joint], name: str) -> None:
    if all(fragment.is_node for fragment in fragments):
        found = Counter(fragment.formula for fragment in fragments)
        refuse("no_linker", f"the metal nodes of {name} are joined directly, without a linker: {_listed(found)}")
    direct = [joint for joint in joints if fragments[joint.block].is_node and fragments[joint.other].is_node]
    if direct:
        found = Counter(fragments[joint.block].formula for joint in direct)
        refuse(
            "no_linker",
            f"{len(direct) // 2} of the bonds of {name} join metal nodes without a linker between, as in 4,4'-bipyridine, whose "
            f"halves stay with the metals: {_listed(found)}",
            bonds=len(direct) // 2,
        )


def _listed(found: Counter[str]) -> str:
    return ", ".join(f"{count} {formula}" for formula, count in sorted(found.items()))
