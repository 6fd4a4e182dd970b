"""Frameworks put together from building blocks on a net, by PORMAKE.

Source: S. Lee et al., ACS Appl. Mater. Interfaces 13 (2021) 23647, doi:10.1021/acsami.1c02471.
"""

from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms, from_ase, write_cif
from grafico.atoms.elements import covalent_radius
from grafico.calculations import CalculationError, FailureKind, Resources, Rung, WorkContext, calculation
from grafico.errors import BadInput
from grafico.frameworks.assignment import Assignment, assign, misfit
from grafico.frameworks.blocks import to_pormake
from grafico.frameworks.pormake_engine import load_pormake
from grafico.frameworks.quiet import quiet
from grafico.frameworks.shapes import paired_rmsd
from grafico.frameworks.steps import BuildInput, BuiltFramework
from grafico.frameworks.topologies import Topology, load_topology, roles_of
from grafico.frameworks.turning import axles_of, turn_linkers

__all__ = ["Contact", "build", "build_resources", "built_cif", "closest_contact", "planned_atoms"]

_STRETCHED = 1.6
"""Sum of covalent radii over which a bond is none: blocks that do not meet on a net which could not be adjusted."""


def build_resources(value: BuildInput) -> Resources:
    """Return what a build needs, by the number of vertices and edges of its net.

    PORMAKE adjusts all of them at once, and holds a few tables of all pairs of them.
    """
    try:
        slots = roles_of(value.combination.topology).slots
    except BadInput:
        slots = 0  # fails at once when it runs, and says why
    return Resources(cpus=1, memory_mib=2048 + round(slots**2 * 1.2e-4), walltime_s=900.0 + 3.0 * slots)


_LADDER = {
    FailureKind.TIMEOUT: [Rung(note="four times the walltime", scale_walltime=4.0)],
    FailureKind.OUT_OF_MEMORY: [Rung(note="twice the memory", scale_memory=2.0)],
}


@calculation(version="1", resources=build_resources, ladder=_LADDER, family="pormake", uses=("pormake", "jax"))
def build(value: BuildInput, ctx: WorkContext) -> BuiltFramework:
    """Put a metal node and a linker together on a topology.

    Raises
    ------
    CalculationError
        ``refused``: a block does not fit (which role wants what), its RMSD is above the limit, the framework would have
        too many atoms, atoms clash, or blocks do not meet; ``engine_error`` for what PORMAKE cannot do.
    BadInput
        There is no such topology, or PORMAKE cannot read it.
    """
    combination = value.combination
    assignment = assign(combination.topology, combination.metal_node, combination.linker)
    _small_enough(value, assignment)
    _used(ctx)
    for fit in misfit(combination.topology, assignment.nodes, combination.metal_node, combination.linker):
        _fits(value, fit.rmsd, fit.block, fit.role)
    framework = _put_together(value, assignment)
    rmsd, role = _as_placed(combination.topology, framework)
    kind = assignment.nodes[role]
    block = combination.metal_node if kind == "metal_node" else combination.linker
    _fits(value, rmsd, block.name, role)
    structure = from_ase(framework.atoms)
    _sane(structure, combination.name)
    closest, turned = closest_contact(structure), 0
    if closest.ratio < value.min_distance:
        structure, turned = _with_turned_linkers(framework, structure, value.min_distance)
        framework.atoms.positions[:] = structure.positions
        closest = closest_contact(structure)
    if closest.ratio < value.min_distance:
        raise _clash(value, structure, closest)
    bonds = tuple(
        (int(i), int(j), str(kind)) for (i, j), kind in zip(framework.bonds, framework.bond_types, strict=True)
    )
    _joined(combination.name, framework.atoms, bonds)
    return BuiltFramework(
        name=combination.name, structure=structure, bonds=bonds, rmsd=rmsd, shortest=closest.ratio, turned=turned
    )


def built_cif(framework: BuiltFramework) -> str:
    """Return the CIF text of a framework that was built."""
    return write_cif(framework.structure, name=framework.name)


def planned_atoms(roles: Topology, assignment: Assignment, *, metal_node: int, linker: int) -> int:
    """Return how many atoms a framework will have.

    Parameters
    ----------
    metal_node, linker
        Real atoms of the two blocks.
    """
    size = {"metal_node": metal_node, "organic_linker": linker}
    total = sum(role.slots * size[assignment.nodes[role.index]] for role in roles.nodes)
    return total + (linker * sum(edge.slots for edge in roles.edges) if assignment.linker_on_edges else 0)


class Contact(NamedTuple):
    """Two atoms, or an atom and its own image."""

    ratio: float
    """Distance over the sum of their covalent radii."""
    first: int
    second: int
    distance: float
    """Å"""


def closest_contact(structure: ConceptualAtoms) -> Contact:
    """Return the two atoms of a crystal, images included, that are closest by the sum of their covalent radii.

    Bonds count: in a sound structure it is the shortest bond, at 0.8 to 1.

    Raises
    ------
    CalculationError
        ``engine_error``: no two atoms are within three times that sum, which is no framework.
    """
    import numpy
    from ase import Atoms
    from ase.neighborlist import neighbor_list

    image = Atoms(structure.symbols, positions=structure.positions, cell=structure.cell, pbc=True)
    radii = numpy.array([covalent_radius(symbol) for symbol in structure.symbols])
    for factor in (1.1, 3.0):
        i, j, distance = neighbor_list("ijd", image, factor * radii)
        if len(distance):
            ratio = distance / (radii[i] + radii[j])
            at = int(ratio.argmin())
            return Contact(float(ratio[at]), int(i[at]), int(j[at]), float(distance[at]))
    raise CalculationError(FailureKind.ENGINE_ERROR, "no two atoms are within three times the sum of their radii")


def _small_enough(value: BuildInput, assignment: Assignment) -> None:
    combination = value.combination
    atoms = planned_atoms(
        roles_of(combination.topology),
        assignment,
        metal_node=len(combination.metal_node.atoms),
        linker=len(combination.linker.atoms),
    )
    if atoms > value.max_atoms:
        raise CalculationError(
            FailureKind.REFUSED,
            f"{combination.name} would have {atoms} atoms in its cell, more than {value.max_atoms}; "
            "choose a smaller net or smaller blocks, or raise max_atoms",
            details={"atoms": atoms, "max_atoms": value.max_atoms},
        )


def _fits(value: BuildInput, rmsd: float, block: str, role: int) -> None:
    if rmsd > value.max_rmsd:
        topology = value.combination.topology
        raise CalculationError(
            FailureKind.REFUSED,
            f"{block} does not fit {topology} at node type {role}: its RMSD is {rmsd:.4f}, above the limit of "
            f"{value.max_rmsd:g}",
            details={"rmsd": rmsd, "max_rmsd": value.max_rmsd, "block": block, "role": role, "topology": topology},
        )


def _put_together(value: BuildInput, assignment: Assignment) -> Any:
    """Return ``pormake.Framework``; whatever PORMAKE raises becomes an engine error."""
    combination = value.combination
    pormake = load_pormake()
    net = load_topology(combination.topology)
    blocks = {"metal_node": to_pormake(combination.metal_node), "organic_linker": to_pormake(combination.linker)}
    nodes = {index: blocks[kind] for index, kind in assignment.nodes.items()}
    edges = None
    if assignment.linker_on_edges:
        edges = {tuple(ends): blocks["organic_linker"] for ends in net.unique_edge_types.tolist()}
    try:
        with quiet():
            return pormake.Builder().build_by_type(topology=net, node_bbs=nodes, edge_bbs=edges)
    except MemoryError:
        raise
    except Exception as error:  # it raises bare ones, and what NumPy and SciPy raise
        text = " ".join(str(error).split()) or type(error).__name__
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"PORMAKE cannot build {combination.name}: {text}",
            details={"combination": combination.name},
        ) from error


def _as_placed(topology: str, framework: Any) -> tuple[float, int]:
    """Return the largest RMSD of a block as PORMAKE turned it into its place, and the node type of that place.

    Its search goes through a grid of rotations, and may miss the best one.
    """
    net = load_topology(topology)
    worst, role = 0.0, int(net.node_types[net.node_indices[0]])
    for index in net.node_indices:
        block, order = framework.info["located_bbs"][index], framework.info["permutations"][index]
        rmsd = paired_rmsd(net.local_structure(index).positions, block.local_structure().positions[order])
        if rmsd > worst:
            worst, role = rmsd, int(net.node_types[index])
    return worst, role


def _with_turned_linkers(framework: Any, structure: ConceptualAtoms, enough: float) -> tuple[ConceptualAtoms, int]:
    """Return a framework whose linkers on edges are turned about their axes out of each other's way, and how many are."""
    import numpy

    radii = numpy.array([covalent_radius(symbol) for symbol in structure.symbols])
    axles = axles_of(framework.info["located_bbs"])
    cell = numpy.asarray(structure.cell)
    positions, turned = turn_linkers(numpy.asarray(structure.positions), radii, cell, axles, enough)
    if not turned:
        return structure, 0
    return structure.moved(tuple((float(x), float(y), float(z)) for x, y, z in positions)), turned


def _sane(structure: ConceptualAtoms, name: str) -> None:
    import numpy

    cell = numpy.asarray(structure.cell, dtype=float)
    volume = abs(float(numpy.linalg.det(cell)))
    # A cubic ångström an atom is far denser than anything; a cell that collapsed is what this is about.
    if not numpy.isfinite(cell).all() or volume < len(structure):
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"PORMAKE's cell for {name} is none: {volume:.3g} Å³ for {len(structure)} atoms",
            details={"volume": volume, "combination": name},
        )


def _clash(value: BuildInput, structure: ConceptualAtoms, closest: Contact) -> CalculationError:
    first, second = (f"{structure.symbols[index]}{index + 1}" for index in (closest.first, closest.second))
    return CalculationError(
        FailureKind.REFUSED,
        f"{value.combination.name}: atoms clash; {first} and {second} are {closest.distance:.2f} Å apart, "
        f"{closest.ratio:.2f} of the sum of their covalent radii, less than {value.min_distance:g}",
        details={"shortest": closest.ratio, "min_distance": value.min_distance, "distance": closest.distance},
    )


def _joined(name: str, image: Any, bonds: tuple[tuple[int, int, str], ...]) -> None:
    from ase.geometry import find_mic

    pairs = [(i, j) for i, j, _ in bonds]
    first, second = [i for i, _ in pairs], [j for _, j in pairs]
    _, lengths = find_mic(image.positions[second] - image.positions[first], image.cell, pbc=True)
    for (i, j), length in zip(pairs, lengths, strict=True):
        stretch = float(length) / (covalent_radius(image.symbols[i]) + covalent_radius(image.symbols[j]))
        if stretch > _STRETCHED:
            raise CalculationError(
                FailureKind.REFUSED,
                f"{name}: building blocks do not meet; a bond between {image.symbols[i]} and {image.symbols[j]} would be "
                f"{length:.2f} Å long, {stretch:.1f} times the sum of their covalent radii",
                details={"length": float(length), "stretch": stretch},
            )


def _used(ctx: WorkContext) -> None:
    from importlib.metadata import version

    ctx.used(**{package: version(package) for package in ("pormake", "jax", "scipy", "numpy", "ase")})
