"""A crystal taken apart: cleaned, cut into one kind of metal node and one kind of linker, its net identified.

Why a structure is refused stands in ``details["reason"]``; the codes are those of
:data:`~grafico.frameworks.refusals.REASONS`.
"""

from importlib.metadata import version

from grafico.calculations import FailureKind, Resources, Rung, WorkContext, calculation
from grafico.frameworks.cleaning import clean, read_structure
from grafico.frameworks.crystal_net import identify_net
from grafico.frameworks.cutting import cut_framework
from grafico.frameworks.kinds import building_block, the_two_kinds
from grafico.frameworks.molecular_graph import METALS
from grafico.frameworks.steps import CutFramework, ProcessCIFInput

__all__ = ["NET_SECONDS", "process_cif"]

NET_SECONDS = 300.0
"""Seconds for the net. A net with many vertices that are alike may take hours."""

_ATOM_LINE = 40
"""Characters that a CIF spends on an atom, at least."""


def _resources(value: ProcessCIFInput) -> Resources:
    # Measured on one core: 2.3 s and 300 MiB to load mofstructure, then 0.65 s for 568 atoms, 7.7 s and 115 MiB for 4,544.
    # A CIF with symmetry holds up to 192 atoms a line; what is added for all of them covers the largest that is read.
    size = min(len(value.cif) / _ATOM_LINE, 12_000.0)
    return Resources(memory_mib=1536 + round(0.1 * size), walltime_s=900.0 + 0.1 * size)


_LADDER = {
    FailureKind.TIMEOUT: [
        Rung(note="ten times as long", settings={"net_seconds": 10 * NET_SECONDS}, scale_walltime=5.0)
    ]
}


@calculation(version="1", resources=_resources, ladder=_LADDER, family="mofstructure", uses=("gemmi", "mofstructure"))
def process_cif(value: ProcessCIFInput, ctx: WorkContext) -> CutFramework:
    """Take a structure apart: one framework, one topology, one kind of metal node, one kind of linker.

    Raises
    ------
    CalculationError
        ``bad_input`` for a file that is at fault, ``refused`` for a structure that is no such framework, ``timeout`` for a
        net that takes too long; ``details["reason"]`` says which.
    """
    ctx.used(**{package: version(package) for package in ("gemmi", "ase", "networkx", "mofstructure")})
    cleaned = clean(read_structure(value.cif, value.name), value.name, remove_guests=value.remove_guests)
    structure = cleaned.structure
    cut = cut_framework(structure, cleaned.bonds, value.name)
    node, linker = the_two_kinds(cut.fragments, value.name)
    seconds = float(ctx.settings.get("net_seconds", NET_SECONDS))
    net = identify_net(structure, cut, value.name, seconds=seconds)
    return CutFramework(
        name=value.name,
        structure=structure,
        topology=net.symbol,
        net=net.digest,
        metal_node=building_block(node, f"{value.name}-node"),
        linker=building_block(linker, f"{value.name}-linker"),
        nodes=node.number,
        linkers=linker.number,
        guests=cleaned.guests,
        metals=tuple(sorted(METALS & set(structure.symbols))),
    )
