"""What the knowledge base holds of frameworks: the entity classes.

Natural keys are made of what identifies a thing in reticular chemistry, so runs that meet the same net, building block
or framework speak of the same thing, without asking each other. What may differ between two sights of one thing, such
as the coordinates of a building block, is an entity of its own, so no run contradicts another.

::

    Net ──▶ Topology ◀── NodeRole, EdgeRole
                ▲
    ConstructedMOF, ExperimentalMOF ──▶ MetalNode, OrganicLinker ◀── BlockGeometry
                ▲
    FrameworkGeometry ◀── PoreAnalysis ──▶ PoreDiameters, SurfaceArea, PoreVolume, Channels
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from grafico.knowledge import Array, Entity, Property, Unit
from grafico.knowledge.vocabulary import BASE, GRAFICO

__all__ = [
    "FRAMEWORKS",
    "BlockGeometry",
    "BuildingBlock",
    "Channels",
    "ConstructedMOF",
    "EdgeRole",
    "ExperimentalMOF",
    "Framework",
    "FrameworkEntity",
    "FrameworkGeometry",
    "LocalStructure",
    "MetalNode",
    "Net",
    "NodeRole",
    "OrganicLinker",
    "PoreAnalysis",
    "PoreDiameters",
    "PoreProperty",
    "PoreVolume",
    "SurfaceArea",
    "Topology",
]

FRAMEWORKS = BASE + "frameworks#"

Length = Annotated[float, Unit("Å")]
Energy = Annotated[float, Unit("eV")]
Coordinates = Annotated[Array, Unit("Å")]
Keys = Annotated[frozenset[str], Property(GRAFICO + "key")]
Content = Annotated[str, Property(GRAFICO + "content")]

OF_KEYS = "content keys of the calculations that it is made of"
OF_CONTENT = "digest of symbols, positions and cell, by which calculations know it"


class FrameworkEntity(Entity):
    """Something of the frameworks wing."""

    namespace: ClassVar[str] = FRAMEWORKS


class Topology(FrameworkEntity):
    """A net, apart from what its nodes and edges are made of (http://rcsr.net)."""

    natural_key: ClassVar[tuple[str, ...]] = ("symbol",)

    symbol: str = Field(min_length=1, description="RCSR symbol, such as bcu")


class LocalStructure(FrameworkEntity):
    """A role that a building block can take on a topology."""

    topology: Topology = Field(description="whose role it is")
    connectivity: int = Field(ge=1, description="how many others a block in this role is joined to")
    shape: str = Field(description="arrangement of these others: coordination number and polyhedron, as 8-cube")
    signature: str = Field(description="roles of different topologies that share it are equivalent: node 8-cube, edge")
    slots: int = Field(ge=1, description="places with this role in the cell of PORMAKE's net")


class NodeRole(LocalStructure):
    """A type of node of a topology."""

    natural_key: ClassVar[tuple[str, ...]] = ("topology", "index")

    index: int = Field(ge=0, description="number of the node type in PORMAKE's file of the topology, from 0")


class EdgeRole(LocalStructure):
    """A type of edge of a topology, by the node types that it joins."""

    natural_key: ClassVar[tuple[str, ...]] = ("topology", "ends")

    ends: frozenset[NodeRole] = Field(description="node types at its ends: two, or one that is joined to its like")


class Net(FrameworkEntity):
    """A topology as it is embedded in space, with all of its roles."""

    natural_key: ClassVar[tuple[str, ...]] = ("topology",)

    topology: Topology = Field(description="which")
    space_group: str = Field(description="of its most symmetric embedding, Hermann-Mauguin symbol")
    node_roles: list[NodeRole] = Field(description="by index")
    edge_roles: list[EdgeRole] = Field(description="by the indices of their ends")


class BuildingBlock(FrameworkEntity):
    """A part of frameworks, apart from any coordinates."""

    identifier: str = Field(description="what tells it from others: its graph and its shape")
    graph: str = Field(description="digest of elements, bonds and docking points: the same for the same chemistry")
    shape: str = Field(description="arrangement of its docking points: coordination number and polyhedron, as 8-cube")
    connectivity: int = Field(ge=1, description="how many others it is joined to")
    formula: str = Field(description="Hill formula of its real atoms")


class MetalNode(BuildingBlock):
    """A building block with metal atoms, which takes a node role."""

    natural_key: ClassVar[tuple[str, ...]] = ("identifier",)

    metals: frozenset[str] = Field(default=frozenset(), description="symbols of its metal elements")


class OrganicLinker(BuildingBlock):
    """A building block that joins metal nodes: on an edge if it joins two, else in a node role of its own."""

    natural_key: ClassVar[tuple[str, ...]] = ("identifier",)


class BlockGeometry(FrameworkEntity):
    """A building block with coordinates: as PORMAKE's database has it, or as it was cut from a crystal."""

    natural_key: ClassVar[tuple[str, ...]] = ("block", "digest")

    block: BuildingBlock = Field(description="what it is")
    digest: str = Field(description="digest of all that its name, atoms, docking points and bonds say")
    name: str = Field(description="N625, or IXEJIG-node of a block that was cut from IXEJIG")
    pormake: str | None = Field(default=None, description="identifier in PORMAKE's database, if it is from there")
    content: Content = Field(description=OF_CONTENT)
    symbols: Array = Field(description="element symbols of the real atoms")
    positions: Coordinates = Field(description="Cartesian coordinates of the real atoms, shape (atoms, 3)")
    docking_points: Coordinates = Field(description="points at which it is joined to others, shape (connectivity, 3)")
    anchors: Array = Field(description="index of the atom that each docking point hangs on, from 0")
    bonds: Array = Field(description="pairs of indices of bonded atoms, from 0, shape (bonds, 2)")
    bond_types: Array = Field(description="S, D, T or A for single, double, triple, aromatic, one a bond")
    charge: Annotated[int, Unit("e")] = Field(default=0, description="total charge")
    multiplicity: int = Field(default=1, description="2S + 1")


class Framework(FrameworkEntity):
    """A metal-organic framework, apart from any geometry."""

    topology: Topology | None = Field(default=None, description="its net")
    metal_node: MetalNode | None = Field(default=None, description="the one kind of metal node")
    linker: OrganicLinker | None = Field(default=None, description="the one kind of organic linker")
    metal_node_geometry: BlockGeometry | None = Field(default=None, description="the metal node, with coordinates")
    linker_geometry: BlockGeometry | None = Field(default=None, description="the linker, with coordinates")


class ConstructedMOF(Framework):
    """A framework that is put together on a topology from one metal node and one organic linker."""

    natural_key: ClassVar[tuple[str, ...]] = ("topology", "metal_node", "linker")

    topology: Topology = Field(description="its net")
    metal_node: MetalNode = Field(description="the one kind of metal node")
    linker: OrganicLinker = Field(description="the one kind of organic linker")
    failure: str | None = Field(default=None, description="why it could not be built; it has no geometry then")


class ExperimentalMOF(Framework):
    """A framework that was made, as a database or a file has it."""

    natural_key: ClassVar[tuple[str, ...]] = ("source", "reference")

    source: str = Field(description="where its structure is from: a database, or file")
    reference: str = Field(description="refcode in that database, or digest of the structure in the file")
    name: str = Field(description="refcode, or the file's name")
    metals: frozenset[str] = Field(default=frozenset(), description="symbols of its metal elements")
    net: str | None = Field(default=None, description="digest of its net's canonical form")
    nodes_in_cell: int | None = Field(default=None, ge=1, description="metal nodes in the cell")
    linkers_in_cell: int | None = Field(default=None, ge=1, description="linkers in the cell")
    guests: dict[str, int] = Field(default_factory=dict, description="formulas of guests taken out, with counts")


class FrameworkGeometry(FrameworkEntity):
    """A framework with coordinates: as an experiment found it, as it was built, or relaxed to a minimum."""

    natural_key: ClassVar[tuple[str, ...]] = (
        "framework",
        "stage",
        "content",
        "potential",
        "optimizer",
        "cell_relaxed",
        "force_threshold",
        "step_limit",
    )

    framework: Framework = Field(description="of what")
    stage: Literal["experimental", "built", "relaxed"] = Field(description="how it came about")
    content: Content = Field(description=OF_CONTENT)
    keys: Keys = Field(default=frozenset(), description=OF_KEYS)
    name: str = Field(description="what the run calls it")
    atom_count: int = Field(ge=1, description="atoms in the cell")
    symbols: Array = Field(description="element symbols, one an atom")
    positions: Coordinates = Field(description="Cartesian coordinates, shape (atoms, 3)")
    cell: Coordinates = Field(description="lattice vectors as rows, shape (3, 3)")
    cell_volume: Annotated[float, Unit("Å³")] = Field(description="volume of the cell")
    charge: Annotated[int, Unit("e")] = Field(default=0, description="total charge")
    multiplicity: int = Field(default=1, description="2S + 1")
    cif: str = Field(description="CIF text, all atoms in P1")

    build_rmsd: float | None = Field(
        default=None, ge=0, description="of building: largest RMSD between a block and its place on the net"
    )
    shortest: float | None = Field(
        default=None, gt=0, description="of building: shortest distance over the sum of the atoms' covalent radii"
    )
    bonds: Array | None = Field(default=None, description="of building: pairs of bonded atoms, from 0")
    bond_types: Array | None = Field(default=None, description="of building: S, D, T or A, one a bond")

    start: "FrameworkGeometry | None" = Field(default=None, description="of relaxation: where it began")
    model: str | None = Field(default=None, description="of relaxation: machine-learned potential, as it was asked for")
    potential: str | None = Field(
        default=None, description="of relaxation: machine-learned potential, with the version of its package"
    )
    optimizer: str | None = Field(default=None, description="of relaxation: fire or lbfgs")
    cell_relaxed: bool | None = Field(default=None, description="of relaxation: whether the cell was relaxed too")
    force_threshold: Annotated[float, Unit("eV/Å")] | None = Field(
        default=None, description="of relaxation: force at which it counts as converged"
    )
    step_limit: int | None = Field(default=None, description="of relaxation: most steps that were allowed")
    steps: int | None = Field(default=None, description="of relaxation: steps that were taken")
    energy: Energy | None = Field(default=None, description="of relaxation: energy of the cell")
    start_energy: Energy | None = Field(default=None, description="of relaxation: energy of the cell before")
    force: Annotated[float, Unit("eV/Å")] | None = Field(
        default=None, description="of relaxation: largest force on an atom at the end"
    )
    stress: Annotated[float, Unit("eV/Å³")] | None = Field(
        default=None, description="of relaxation: largest component of the stress at the end"
    )
    volume_change: float | None = Field(default=None, description="of relaxation: relative change of the volume")


class PoreProperty(FrameworkEntity):
    """Something that Zeo++ measures in a geometry, with what it was measured with."""

    geometry: FrameworkGeometry = Field(description="of what")
    keys: Keys = Field(default=frozenset(), description=OF_KEYS)
    high_accuracy: bool = Field(description="whether Zeo++'s high accuracy was on")


class PoreDiameters(PoreProperty):
    """Diameters of spheres that fit into the pores."""

    natural_key: ClassVar[tuple[str, ...]] = ("geometry", "keys", "high_accuracy")

    lcd: Length = Field(ge=0, description="largest cavity diameter: largest included sphere")
    pld: Length = Field(ge=0, description="pore-limiting diameter: largest free sphere")
    lfpd: Length = Field(ge=0, description="largest included sphere along the free sphere's path")


class SurfaceArea(PoreProperty):
    """Surface that a probe's center reaches, and that of closed pockets."""

    natural_key: ClassVar[tuple[str, ...]] = (
        "geometry",
        "keys",
        "high_accuracy",
        "probe_radius",
        "channel_radius",
        "samples",
    )

    probe_radius: Length = Field(ge=0, description="radius of the probe")
    channel_radius: Length = Field(ge=0, description="radius that channels are found with")
    samples: int = Field(ge=1, description="Monte Carlo samples an atom")
    accessible_area: Annotated[float, Unit("Å²")] = Field(ge=0, description="accessible area a cell")
    pocket_area: Annotated[float, Unit("Å²")] = Field(ge=0, description="non-accessible area a cell")
    gravimetric_area: Annotated[float, Unit("m²/g")] = Field(ge=0, description="accessible area a mass")
    gravimetric_pocket_area: Annotated[float, Unit("m²/g")] = Field(ge=0, description="non-accessible area a mass")
    volumetric_area: Annotated[float, Unit("m²/cm³")] = Field(ge=0, description="accessible area a volume")


class PoreVolume(PoreProperty):
    """Volume that a probe's center reaches, and that of closed pockets."""

    natural_key: ClassVar[tuple[str, ...]] = (
        "geometry",
        "keys",
        "high_accuracy",
        "probe_radius",
        "channel_radius",
        "volume_samples",
    )

    probe_radius: Length = Field(ge=0, description="radius of the probe")
    channel_radius: Length = Field(ge=0, description="radius that channels are found with")
    volume_samples: int = Field(ge=1, description="Monte Carlo samples")
    accessible_volume: Annotated[float, Unit("Å³")] = Field(ge=0, description="accessible volume a cell")
    pocket_volume: Annotated[float, Unit("Å³")] = Field(ge=0, description="non-accessible volume a cell")
    specific_volume: Annotated[float, Unit("cm³/g")] = Field(ge=0, description="accessible volume a mass")
    specific_pocket_volume: Annotated[float, Unit("cm³/g")] = Field(ge=0, description="non-accessible volume a mass")
    accessible_fraction: float = Field(ge=0, le=1, description="accessible volume as a share of the cell's")


class Channels(PoreProperty):
    """Systems of pores that a probe travels through, and the framework around them."""

    natural_key: ClassVar[tuple[str, ...]] = ("geometry", "keys", "high_accuracy", "channel_radius")

    channel_radius: Length = Field(ge=0, description="radius that channels are found with")
    channel_count: int = Field(ge=0, description="distinct channels in the cell")
    channel_dimensionality: tuple[int, ...] = Field(description="1, 2 or 3 of each channel, largest first")
    pockets: int = Field(ge=0, description="closed voids in the cell")
    framework_dimensionality: int = Field(ge=0, le=3, description="of the bonded network of atoms")


class PoreAnalysis(PoreProperty):
    """One analysis of the pores of a geometry: what was measured together, with one set of settings."""

    natural_key: ClassVar[tuple[str, ...]] = (
        "geometry",
        "keys",
        "high_accuracy",
        "probe_radius",
        "channel_radius",
        "samples",
        "volume_samples",
    )

    probe_radius: Length = Field(ge=0, description="radius of the probe")
    channel_radius: Length = Field(ge=0, description="radius that channels are found with")
    samples: int = Field(ge=1, description="Monte Carlo samples an atom, for the area")
    volume_samples: int = Field(ge=1, description="Monte Carlo samples, for the volume")
    time_limit: Annotated[float, Unit("s")] = Field(gt=0, description="after which one run of Zeo++ is ended")
    density: Annotated[float, Unit("g/cm³")] = Field(gt=0, description="of the crystal")
    diameters: PoreDiameters = Field(description="spheres that fit in")
    area: SurfaceArea = Field(description="surface that the probe reaches")
    volume: PoreVolume = Field(description="volume that the probe reaches")
    channels: Channels = Field(description="systems of pores")
