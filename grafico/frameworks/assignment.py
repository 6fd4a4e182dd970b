"""Which building block goes where on a topology, or why it cannot go there."""

from collections.abc import Mapping

from pydantic import Field

from grafico.calculations import CalculationError, FailureKind, Model
from grafico.frameworks.parts import BlockKind, BuildingBlock
from grafico.frameworks.shapes import direction_rmsd, unit_directions
from grafico.frameworks.topologies import NodeRole, Topology, directions_of, roles_of

__all__ = ["Assignment", "Misfit", "assign", "misfit"]


class Misfit(Model):
    """How badly a block fits a kind of vertex."""

    role: int = Field(description="PORMAKE's node type")
    block: str = Field(description="the block's name")
    rmsd: float = Field(ge=0, description="RMSD of unit directions (dimensionless), the better of both hands")


class Assignment(Model):
    """A block for every vertex of a net, and what lies on its edges."""

    topology: str
    nodes: Mapping[int, BlockKind] = Field(description="which of the two blocks is at each node type")
    linker_on_edges: bool = Field(description="the linker lies on every edge; otherwise edges are bonds")

    def roles(self, kind: BlockKind) -> tuple[int, ...]:
        """Return the node types that a block plays."""
        return tuple(index for index, other in self.nodes.items() if other == kind)


def assign(topology: str, metal_node: BuildingBlock, linker: BuildingBlock) -> Assignment:
    """Return which block goes where.

    A linker with two docking points lies on every edge, and the metal node is at every vertex. A linker with more is
    at vertices too: each edge then joins a metal node with a linker. Where both have the same number of docking points,
    so that two ways are possible, the one with the smaller RMSD is taken.

    Raises
    ------
    CalculationError
        ``refused``: a block does not fit; says which role wants what.
    BadInput
        There is no such topology.
    """
    roles = roles_of(topology)
    for block, least, what in ((metal_node, 3, "metal node"), (linker, 2, "linker")):
        if block.connectivity < least:
            raise _refused(
                f"{block.name} has {block.connectivity} docking point{'s' if block.connectivity > 1 else ''}; a {what} "
                f"needs at least {least}",
                topology,
            )
    if linker.connectivity == 2:
        everywhere: dict[int, BlockKind] = {role.index: "metal_node" for role in roles.nodes}
        if wrong := _wrong(roles, everywhere, metal_node, linker):
            raise _refused(f"{topology} does not take {metal_node.name}: {wrong}", topology)
        return Assignment(topology=topology, nodes=everywhere, linker_on_edges=True)
    sides = _two_sides(roles)
    if sides is None:
        raise _refused(
            f"{topology} does not take the linker {linker.name}, which has {linker.connectivity} docking points and is "
            f"at vertices: not every edge of this net can join a metal node with a linker",
            topology,
        )
    fitting: list[dict[int, BlockKind]] = []
    reasons = []
    for metal_side in (0, 1):
        nodes: dict[int, BlockKind] = {
            role.index: "metal_node" if sides[role.index] == metal_side else "organic_linker" for role in roles.nodes
        }
        wrong = _wrong(roles, nodes, metal_node, linker)
        reasons.append(wrong)
        if not wrong:
            fitting.append(nodes)
    if not fitting:
        # Of the two ways, the one with less wrong says best what is missing.
        raise _refused(
            f"{topology} does not take {metal_node.name} with {linker.name}: "
            f"{min(reasons, key=lambda reason: reason.count(';'))}",
            topology,
        )
    if len(fitting) == 2:
        fitting.sort(key=lambda way: max(fit.rmsd for fit in misfit(topology, way, metal_node, linker)))
    return Assignment(topology=topology, nodes=fitting[0], linker_on_edges=False)


def misfit(
    topology: str, nodes: Mapping[int, BlockKind], metal_node: BuildingBlock, linker: BuildingBlock
) -> tuple[Misfit, ...]:
    """Return how well each block fits its kind of vertex at best, before the net is adjusted to it.

    Raises
    ------
    BadInput
        There is no such topology.
    """
    places = directions_of(topology)
    found = []
    for role, kind in nodes.items():
        block = metal_node if kind == "metal_node" else linker
        directions = unit_directions(block.atoms.docking_points)
        rmsd = min(direction_rmsd(places[role], directions), direction_rmsd(places[role], -directions))
        found.append(Misfit(role=role, block=block.name, rmsd=rmsd))
    return tuple(found)


def _wrong(roles: Topology, nodes: Mapping[int, BlockKind], metal_node: BuildingBlock, linker: BuildingBlock) -> str:
    """Return which roles do not fit, in words; empty where all fit."""
    found = []
    for role in roles.nodes:
        block = metal_node if nodes[role.index] == "metal_node" else linker
        if block.connectivity != role.connectivity:
            found.append(
                f"{_called(role)} wants {role.connectivity} docking points, {block.name} has {block.connectivity}"
            )
    return "; ".join(found)


def _called(role: NodeRole) -> str:
    return f"node type {role.index} ({role.shape.partition(':')[0]})"


def _two_sides(roles: Topology) -> dict[int, int] | None:
    """Return a side (0 or 1) for each node type so that every edge goes across; none where that cannot be."""
    sides = {roles.nodes[0].index: 0}
    pending = [roles.nodes[0].index]
    while pending:
        index = pending.pop()
        for edge in roles.edges:
            if index not in edge.nodes:
                continue
            other = edge.nodes[1] if edge.nodes[0] == index else edge.nodes[0]
            if sides.get(other, 1 - sides[index]) == sides[index]:
                return None
            if other not in sides:
                sides[other] = 1 - sides[index]
                pending.append(other)
    # A net is connected; several in one cell are not, and each of them could be turned over by itself.
    return sides if len(sides) == len(roles.nodes) else None


def _refused(message: str, topology: str) -> CalculationError:
    return CalculationError(FailureKind.REFUSED, message, details={"topology": topology})
