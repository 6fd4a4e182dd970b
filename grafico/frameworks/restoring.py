"""From entities of the knowledge base back to what the calculations of the frameworks wing take and give."""

from grafico.errors import BadInput
from grafico.frameworks import parts, steps
from grafico.frameworks.concepts import ExperimentalMOF, Framework, FrameworkGeometry
from grafico.frameworks.identity import atoms_of, block_of, bonds_of

__all__ = ["built_of", "combination_of", "cut_of", "relaxed_of", "settings_of"]


def combination_of(framework: Framework) -> parts.Combination:
    """Return what a framework can be built of.

    Raises
    ------
    BadInput
        Its topology or a building block is not known.
    """
    node, linker = framework.metal_node_geometry, framework.linker_geometry
    if framework.topology is None or node is None or linker is None:
        raise BadInput(
            f"{framework!r} cannot be built: its topology and building blocks are not known",
            hint="take it apart first",
        )
    return parts.Combination(topology=framework.topology.symbol, metal_node=block_of(node), linker=block_of(linker))


def cut_of(geometry: FrameworkGeometry) -> steps.CutFramework:
    """Return an experimental framework with what it is made of.

    Raises
    ------
    BadInput
        It is no experimental geometry, or has not been taken apart.
    """
    framework = geometry.framework
    if (
        not isinstance(framework, ExperimentalMOF)
        or framework.net is None
        or framework.nodes_in_cell is None
        or framework.linkers_in_cell is None
    ):
        raise BadInput(f"{geometry!r} was not taken apart", hint="take a geometry whose framework has building blocks")
    combination = combination_of(framework)
    return steps.CutFramework(
        name=framework.name,
        structure=atoms_of(geometry),
        topology=combination.topology,
        net=framework.net,
        metal_node=combination.metal_node,
        linker=combination.linker,
        nodes=framework.nodes_in_cell,
        linkers=framework.linkers_in_cell,
        guests=framework.guests,
        metals=tuple(sorted(framework.metals)),
    )


def built_of(geometry: FrameworkGeometry) -> steps.BuiltFramework:
    """Return a framework as it was built.

    Raises
    ------
    BadInput
        It was not built.
    """
    if geometry.build_rmsd is None or geometry.shortest is None:
        raise BadInput(f"{geometry!r} was not built, it is {geometry.stage}", hint="take the geometry that was built")
    return steps.BuiltFramework(
        name=geometry.name,
        structure=atoms_of(geometry),
        bonds=bonds_of(geometry.bonds, geometry.bond_types),
        rmsd=geometry.build_rmsd,
        shortest=geometry.shortest,
    )


def relaxed_of(geometry: FrameworkGeometry) -> steps.RelaxedFramework:
    """Return a framework as it was relaxed.

    Raises
    ------
    BadInput
        It was not relaxed.
    """
    _relaxed(geometry)
    return steps.RelaxedFramework.model_validate(
        {name: getattr(geometry, name) for name in ("energy", "start_energy", "force", "stress", "steps")}
        | {"structure": atoms_of(geometry), "volume_change": geometry.volume_change, "model": geometry.potential}
    )


def settings_of(geometry: FrameworkGeometry) -> steps.RelaxationSettings:
    """Return how a geometry was relaxed.

    Raises
    ------
    BadInput
        It was not relaxed.
    """
    _relaxed(geometry)
    return steps.RelaxationSettings.model_validate(
        {
            "model": geometry.model,
            "optimizer": geometry.optimizer,
            "cell": geometry.cell_relaxed,
            "fmax": geometry.force_threshold,
            "steps": geometry.step_limit,
        }
    )


def _relaxed(geometry: FrameworkGeometry) -> None:
    if geometry.stage != "relaxed":
        raise BadInput(f"{geometry!r} was not relaxed, it is {geometry.stage}", hint="take one whose stage is relaxed")
