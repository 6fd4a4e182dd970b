"""Which net, building block or structure something is: from values to entities that have no coordinates, and back."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from grafico.atoms import ConceptualAtoms, Vector
from grafico.atoms.elements import hill_formula
from grafico.calculations import canonical_json
from grafico.errors import BadInput, MoleculeError
from grafico.frameworks import parts, topologies
from grafico.frameworks.concepts import (
    BlockGeometry,
    EdgeRole,
    FrameworkGeometry,
    MetalNode,
    Net,
    NodeRole,
    OrganicLinker,
    Topology,
)
from grafico.frameworks.molecular_graph import METALS
from grafico.knowledge import Entity, Persisted, Store

__all__ = [
    "ase_of",
    "atoms_of",
    "block_of",
    "metals_of",
    "net_entity",
    "roles_in",
    "tell_topologies",
    "topology_entity",
]

_PORMAKE = re.compile(r"[NE]\d+")


def metals_of(symbols: Iterable[str]) -> frozenset[str]:
    """Return the metal elements among symbols."""
    return METALS & frozenset(symbols)


def topology_entity(symbol: str) -> Topology:
    """Return the entity of a net."""
    return Topology(label=symbol, symbol=symbol)


def net_entity(roles: topologies.Topology) -> Net:
    """Return the entity of a net with its roles."""
    topology = topology_entity(roles.name)
    nodes = {
        node.index: NodeRole(
            label=f"{roles.name} node {node.index}",
            topology=topology,
            index=node.index,
            connectivity=node.connectivity,
            shape=node.shape,
            signature=f"node {node.shape}",
            slots=node.slots,
        )
        for node in roles.nodes
    }
    edges = [
        EdgeRole(
            label=f"{roles.name} edge {edge.nodes[0]}-{edge.nodes[1]}",
            topology=topology,
            ends=frozenset({nodes[index] for index in edge.nodes}),
            connectivity=2,
            shape="2-linear",
            signature="edge",
            slots=edge.slots,
        )
        for edge in roles.edges
    ]
    return Net(
        label=roles.name,
        topology=topology,
        space_group=roles.space_group,
        node_roles=list(nodes.values()),
        edge_roles=edges,
    )


def roles_in(net: Net) -> topologies.Topology:
    """Return the roles that the entity of a net holds."""
    return topologies.Topology(
        name=net.topology.symbol,
        space_group=net.space_group,
        nodes=tuple(
            topologies.NodeRole(index=role.index, connectivity=role.connectivity, shape=role.shape, slots=role.slots)
            for role in net.node_roles
        ),
        edges=tuple(topologies.EdgeRole(nodes=_ends(role), slots=role.slots) for role in net.edge_roles),
    )


def _ends(role: EdgeRole) -> tuple[int, int]:
    found = sorted(end.index for end in role.ends)
    return found[0], found[-1]


def tell_topologies(store: Store, symbols: Iterable[str]) -> Persisted:
    """Let a knowledge base know the roles of topologies, so that the search by roles reaches them.

    Idempotent.

    Parameters
    ----------
    store
        Where to; not a run's, but the store's own graph.
    symbols
        RCSR symbols as PORMAKE knows them.

    Raises
    ------
    BadInput
        PORMAKE has no such net.
    """
    return store.persist(*(net_entity(topologies.roles_of(symbol)) for symbol in dict.fromkeys(symbols)))


def block_identity(block: parts.BuildingBlock) -> MetalNode | OrganicLinker:
    """Return the entity of what a building block is, apart from its coordinates and name."""
    formula = hill_formula(block.atoms.symbols)
    common: dict[str, Any] = {
        "label": f"{formula} {block.shape}",
        "identifier": block.identifier,
        "graph": block.graph,
        "shape": block.shape,
        "connectivity": block.connectivity,
        "formula": formula,
    }
    if block.kind == "metal_node":
        return MetalNode(**common, metals=metals_of(block.atoms.symbols))
    return OrganicLinker(**common)


def block_geometry(block: parts.BuildingBlock, identity: MetalNode | OrganicLinker) -> BlockGeometry:
    """Return the entity of a building block with its coordinates.

    Raises
    ------
    BadInput
        It has a cell, so it is no block.
    """
    import numpy

    atoms = block.atoms
    if atoms.cell is not None:
        raise BadInput(f"the building block {block.name} has a cell", hint="a block is a molecule with docking points")
    return BlockGeometry(
        label=block.name,
        block=identity,
        digest=hashlib.sha256(canonical_json(block.model_dump(mode="json"))).hexdigest()[:32],
        name=block.name,
        pormake=block.name if _PORMAKE.fullmatch(block.name) else None,
        content=atoms.content_digest,
        symbols=numpy.asarray(atoms.symbols),
        positions=numpy.asarray(atoms.positions, dtype="<f8"),
        docking_points=numpy.asarray(atoms.docking_points, dtype="<f8").reshape(-1, 3),
        anchors=numpy.asarray(block.anchors, dtype="<i4"),
        bonds=bond_pairs(block.bonds),
        bond_types=bond_letters(block.bonds),
        charge=atoms.charge,
        multiplicity=atoms.multiplicity,
    )


def bond_pairs(bonds: Sequence[tuple[int, int, str]]) -> Any:
    """Return the pairs of indices of bonds, shape (bonds, 2)."""
    import numpy

    return numpy.asarray([bond[:2] for bond in bonds], dtype="<i4").reshape(-1, 2)


def bond_letters(bonds: Sequence[tuple[int, int, str]]) -> Any:
    """Return the types of bonds."""
    import numpy

    return numpy.asarray([bond[2] for bond in bonds] or [], dtype=None if bonds else "<U1")


def bonds_of(pairs: Any, letters: Any) -> tuple[tuple[int, int, str], ...]:
    """Return bonds from the pairs and types that an entity holds."""
    return tuple((int(i), int(j), str(kind)) for (i, j), kind in zip(pairs, letters, strict=True))


def block_of(geometry: BlockGeometry) -> parts.BuildingBlock:
    """Return the building block of an entity, equal to that which the entity was made of."""
    identity = geometry.block
    return parts.BuildingBlock(
        name=geometry.name,
        kind="metal_node" if isinstance(identity, MetalNode) else "organic_linker",
        atoms=atoms_of(geometry),
        anchors=tuple(int(index) for index in geometry.anchors),
        bonds=bonds_of(geometry.bonds, geometry.bond_types),
        graph=identity.graph,
        shape=identity.shape,
    )


def atoms_of(entity: Entity) -> ConceptualAtoms:
    """Return the structure that an entity stands for.

    Raises
    ------
    MoleculeError
        It is nothing that has one geometry.
    """
    if isinstance(entity, FrameworkGeometry):
        first, second, third = vectors(entity.cell)
        cell, docking = (first, second, third), ()
    elif isinstance(entity, BlockGeometry):
        return _structure(entity, None, vectors(entity.docking_points))
    else:
        raise MoleculeError(
            f"<{entity.iri}> is a {type(entity).__name__}, which has no one geometry",
            hint="name the geometry of a framework, or that of a building block",
        )
    return _structure(entity, cell, docking)


def _structure(
    entity: BlockGeometry | FrameworkGeometry,
    cell: tuple[Vector, Vector, Vector] | None,
    docking: tuple[Vector, ...],
) -> ConceptualAtoms:
    return ConceptualAtoms(
        symbols=tuple(str(symbol) for symbol in entity.symbols),
        positions=vectors(entity.positions),
        charge=entity.charge,
        multiplicity=entity.multiplicity,
        cell=cell,
        docking_points=docking,
    )


def vectors(rows: Any) -> tuple[Vector, ...]:
    """Return the rows of an array of shape (n, 3)."""
    return tuple((float(x), float(y), float(z)) for x, y, z in rows)


def ase_of(entity: Entity) -> Any:
    """Return an entity's structure as ``ase.Atoms``, which carries the IRI: ``grafico.atoms.iri_of`` reads it back.

    Raises
    ------
    MoleculeError
        It is nothing that has one geometry.
    """
    from grafico.atoms import to_ase

    return to_ase(atoms_of(entity), iri=entity.iri)
