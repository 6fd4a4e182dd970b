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

NET_SECONDS = 120.0
"""For the net; it takes about 3 s for 570 atoms. A net with many vertices that are alike may take hours."""

_ATOM_LINE = 40
"""Characters that a CIF spends on an atom, at least."""


def _resources(value: ProcessCIFInput) -> Resources:
    # Loading mofstructure takes most of the memory, and up to ten seconds; mofstructure's own cutting most of the time.
    size = len(value.cif) / _ATOM_LINE
    return Resources(memory_mib=1500 + round(min(0.5 * size, 6000)), walltime_s=300.0 + min(0.2 * size, 3000.0))


_LADDER = {
    FailureKind.TIMEOUT: [
        Rung(note="ten times as long", settings={"net_seconds": 10 * NET_SECONDS}, scale_walltime=5.0)
    ]
}


@calculation(version="1", resources=_resources, ladder=_LADDER, family="mofstructure")
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
