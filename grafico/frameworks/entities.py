"""From what the calculations of the frameworks wing return to entities of the knowledge base, and back.

To entities, one object for one thing, all that belongs to one run in one :class:`FrameworkEntities`::

    made = FrameworkEntities()
    found = made.experimental(cut, source="CoRE MOF 2019-ASR", key=key)        # CutFramework -> FrameworkGeometry
    built = made.built(combination, built_framework, key=key)                   # BuiltFramework -> FrameworkGeometry
    relaxed = made.relaxed(built, relaxed_framework, settings, key=key)         # RelaxedFramework -> FrameworkGeometry
    made.analysis(relaxed, pore_analysis, key=key)                              # steps.PoreAnalysis -> PoreAnalysis
    made.uncut(name, structure, source="file")                                  # no blocks known -> FrameworkGeometry
    made.combination(combination, failure="too far")                            # could not be built -> ConstructedMOF
    made.net(roles_of("bcu"))                                                   # topologies.Topology -> Net, for the role search
    await ctx.persist(made.all())

And back: ``block_of(BlockGeometry)``, ``combination_of(Framework)``, ``cut_of``, ``built_of`` and
``relaxed_of(FrameworkGeometry)``, ``settings_of``, ``analysis_of(PoreAnalysis)``, ``atoms_of`` and ``ase_of``.
"""

from typing import Any, TypeVar

from grafico.atoms import ConceptualAtoms, write_cif
from grafico.errors import BadInput
from grafico.frameworks import parts, steps, topologies
from grafico.frameworks.analyses import analysis_entity, analysis_of
from grafico.frameworks.concepts import (
    FRAMEWORKS,
    BlockGeometry,
    BuildingBlock,
    Channels,
    ConstructedMOF,
    EdgeRole,
    ExperimentalMOF,
    Framework,
    FrameworkGeometry,
    LocalStructure,
    MetalNode,
    Net,
    NodeRole,
    OrganicLinker,
    PoreAnalysis,
    PoreDiameters,
    PoreVolume,
    SurfaceArea,
    Topology,
)
from grafico.frameworks.identity import (
    ase_of,
    atoms_of,
    block_geometry,
    block_identity,
    block_of,
    bond_letters,
    bond_pairs,
    metals_of,
    net_entity,
    roles_in,
    tell_topologies,
    topology_entity,
)
from grafico.frameworks.restoring import built_of, combination_of, cut_of, relaxed_of, settings_of
from grafico.knowledge import Entity

__all__ = [
    "FILE",
    "FRAMEWORKS",
    "BlockGeometry",
    "BuildingBlock",
    "Channels",
    "ConstructedMOF",
    "EdgeRole",
    "ExperimentalMOF",
    "Framework",
    "FrameworkEntities",
    "FrameworkGeometry",
    "LocalStructure",
    "MetalNode",
    "Net",
    "NodeRole",
    "OrganicLinker",
    "PoreAnalysis",
    "PoreDiameters",
    "PoreVolume",
    "SurfaceArea",
    "Topology",
    "analysis_of",
    "ase_of",
    "atoms_of",
    "block_entity",
    "block_of",
    "built_of",
    "combination_entity",
    "combination_of",
    "cut_of",
    "net_entity",
    "relaxed_of",
    "roles_in",
    "settings_of",
    "tell_topologies",
    "topology_entity",
]

FILE = "file"
"""Source of structures that are from no database."""

EntityT = TypeVar("EntityT", bound=Entity)


class FrameworkEntities:
    """Makes entities of results; what has one IRI is one object, so all of it can be persisted together."""

    def __init__(self) -> None:
        self._known: dict[str, Entity] = {}

    def all(self) -> list[Entity]:
        """Return what was made so far, in order."""
        return list(self._known.values())

    def net(self, roles: topologies.Topology) -> Net:
        """Return the entity of a net with its roles; the searches look at nets that were persisted."""
        return self._once(net_entity(roles))

    def block(self, block: parts.BuildingBlock) -> BlockGeometry:
        """Return the entity of a building block with its coordinates; its ``block`` is the node or linker itself."""
        return self._once(block_geometry(block, self._once(block_identity(block))))

    def combination(self, combination: parts.Combination, *, failure: str | None = None) -> ConstructedMOF:
        """Return the entity of a framework that can be built, or that was tried.

        What was persisted counts as known to the searches, which propose it no more. Only with a geometry does it
        prove that its parts go together.

        Parameters
        ----------
        combination
            Topology, metal node and linker.
        failure
            Why it could not be built.

        Raises
        ------
        BadInput
            Its metal node is a linker, or the other way round.
        """
        node, linker = self._blocks(combination.metal_node, combination.linker)
        return self._once(
            ConstructedMOF(
                label=combination.name,
                topology=self._once(topology_entity(combination.topology)),
                metal_node=_node(node),
                linker=_linker(linker),
                metal_node_geometry=node,
                linker_geometry=linker,
                failure=failure,
            )
        )

    def experimental(
        self, cut: steps.CutFramework, *, source: str = FILE, reference: str | None = None, key: str | None = None
    ) -> FrameworkGeometry:
        """Return the entity of an experimental framework's geometry, whose ``framework`` is an ExperimentalMOF.

        Parameters
        ----------
        cut
            What it was taken apart into.
        source
            The database that it is from; or :data:`FILE`, where the content tells it from others.
        reference
            The entry's name in that database, such as ``IXEJIG_clean``; default ``cut.name``.
        key
            Content key of the calculation.
        """
        node, linker = self._blocks(cut.metal_node, cut.linker)
        framework = ExperimentalMOF(
            label=cut.name,
            source=source,
            reference=_reference(source, reference or cut.name, cut.structure),
            name=cut.name,
            metals=frozenset(cut.metals),
            topology=self._once(topology_entity(cut.topology)),
            metal_node=_node(node),
            linker=_linker(linker),
            metal_node_geometry=node,
            linker_geometry=linker,
            net=cut.net,
            nodes_in_cell=cut.nodes,
            linkers_in_cell=cut.linkers,
            guests=dict(cut.guests),
        )
        return self._geometry(self._once(framework), "experimental", cut.name, cut.structure, key)

    def uncut(
        self,
        name: str,
        structure: ConceptualAtoms,
        *,
        source: str = FILE,
        reference: str | None = None,
        key: str | None = None,
    ) -> FrameworkGeometry:
        """Return the entity of the geometry of an experimental framework of which no building blocks are known."""
        framework = ExperimentalMOF(
            label=name,
            source=source,
            reference=_reference(source, reference or name, structure),
            name=name,
            metals=metals_of(structure.symbols),
        )
        return self._geometry(self._once(framework), "experimental", name, structure, key)

    def built(
        self, combination: parts.Combination, built: steps.BuiltFramework, *, key: str | None = None
    ) -> FrameworkGeometry:
        """Return the entity of a geometry as it was built, whose ``framework`` is a ConstructedMOF."""
        return self._geometry(
            self.combination(combination),
            "built",
            built.name,
            built.structure,
            key,
            build_rmsd=built.rmsd,
            shortest=built.shortest,
            bonds=bond_pairs(built.bonds),
            bond_types=bond_letters(built.bonds),
        )

    def relaxed(
        self,
        start: FrameworkGeometry,
        relaxed: steps.RelaxedFramework,
        settings: steps.RelaxationSettings,
        *,
        key: str | None = None,
    ) -> FrameworkGeometry:
        """Return the entity of a geometry that was relaxed from another one."""
        return self._geometry(
            start.framework,
            "relaxed",
            start.name,
            relaxed.structure,
            key,
            start=start,
            model=settings.model,
            potential=relaxed.model,
            optimizer=settings.optimizer,
            cell_relaxed=settings.cell,
            force_threshold=settings.fmax,
            step_limit=settings.steps,
            steps=relaxed.steps,
            energy=relaxed.energy,
            start_energy=relaxed.start_energy,
            force=relaxed.force,
            stress=relaxed.stress,
            volume_change=relaxed.volume_change,
        )

    def analysis(
        self, geometry: FrameworkGeometry, analysis: steps.PoreAnalysis, *, key: str | None = None
    ) -> PoreAnalysis:
        """Return the entity of an analysis of a geometry's pores, with its diameters, area, volume and channels."""
        keys = frozenset() if key is None else frozenset({key})
        return self._once(analysis_entity(geometry, analysis, keys, self._once))

    def _blocks(self, node: parts.BuildingBlock, linker: parts.BuildingBlock) -> tuple[BlockGeometry, BlockGeometry]:
        if node.kind != "metal_node" or linker.kind != "organic_linker":
            raise BadInput(
                f"a metal node and an organic linker were expected, came {node.name} as {node.kind} and {linker.name} "
                f"as {linker.kind}",
                hint="a framework is made of one of each",
            )
        return self.block(node), self.block(linker)

    def _geometry(
        self,
        framework: Framework,
        stage: str,
        name: str,
        structure: ConceptualAtoms,
        key: str | None,
        **more: Any,
    ) -> FrameworkGeometry:
        import numpy

        if structure.cell is None or structure.docking_points:
            raise BadInput(
                f"{name} is no framework: it has no cell, or docking points that are left open",
                hint="give all atoms of the cell of a crystal",
            )
        cell = numpy.asarray(structure.cell, dtype="<f8")
        fields: dict[str, Any] = {
            "label": f"{name}, {stage}",
            "framework": framework,
            "stage": stage,
            "content": structure.content_digest,
            "keys": frozenset() if key is None else frozenset({key}),
            "name": name,
            "atom_count": len(structure),
            "symbols": numpy.asarray(structure.symbols),
            "positions": numpy.asarray(structure.positions, dtype="<f8"),
            "cell": cell,
            "cell_volume": abs(float(numpy.linalg.det(cell))),
            "charge": structure.charge,
            "multiplicity": structure.multiplicity,
            "cif": write_cif(structure, name=name),
            **more,
        }
        found = FrameworkGeometry(**fields)
        known = self._once(found)
        known.keys = known.keys | found.keys
        return known

    def _once(self, entity: EntityT) -> EntityT:
        """Return the object of that IRI that came first."""
        found = self._known.setdefault(entity.iri, entity)
        assert isinstance(found, type(entity))
        return found


def block_entity(block: parts.BuildingBlock) -> BlockGeometry:
    """Return the entity of one building block with its coordinates."""
    return FrameworkEntities().block(block)


def combination_entity(combination: parts.Combination) -> ConstructedMOF:
    """Return the entity of one framework that can be built."""
    return FrameworkEntities().combination(combination)


def _node(geometry: BlockGeometry) -> MetalNode:
    assert isinstance(geometry.block, MetalNode)
    return geometry.block


def _linker(geometry: BlockGeometry) -> OrganicLinker:
    assert isinstance(geometry.block, OrganicLinker)
    return geometry.block


def _reference(source: str, name: str, structure: ConceptualAtoms) -> str:
    return structure.content_digest if source == FILE else name
