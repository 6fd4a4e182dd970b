"""The net of a framework: what its blocks are joined to, identified by its canonical form, named by the RCSR.

Two ways lead to a net, and must not give different ones: the blocks that were cut, with the images their joints lead to,
and mofstructure's own reading of the crystal (its method ``sbus``), where it can cut it. Both nets are brought into the same canonical form
(O. Delgado-Friedrichs, M. O'Keeffe, Acta Cryst. A59 (2003) 351) and looked up in the archive of the RCSR that mofstructure
ships; nothing is downloaded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from grafico.atoms import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.frameworks.cutting import Cut
from grafico.frameworks.periodic import Image, minus, plus
from grafico.frameworks.quiet import OutOfTime, quiet, time_limit
from grafico.frameworks.refusals import refuse

__all__ = ["CrystalNet", "Edge", "identify_net", "net_edges"]

Edge: TypeAlias = tuple[int, int, Image]
"""Two vertices, the second in the cell that the image tells."""


_NO_OPINION = ("deconstruction_failed", "no_net", "error")
"""What mofstructure answers where it could not cut the crystal at all."""


class CrystalNet(NamedTuple):
    """A net with a name."""

    symbol: str
    """RCSR symbol."""
    digest: str
    """Of its canonical form: the same for the same net."""


def net_edges(cut: Cut, name: str) -> tuple[int, tuple[Edge, ...]]:
    """Return how many vertices the net of a framework has, and its edges, each seen from both of its ends.

    Metal nodes and linkers are vertices; those that join two others only are edges.

    Raises
    ------
    CalculationError
        ``refused``, ``double_links``: two linkers join the same nodes.
    """
    joined: dict[int, list[tuple[int, Image]]] = {number: [] for number in range(len(cut.blocks))}
    for joint in cut.joints:
        joined[joint.block].append((joint.other, joint.image))
    # Linkers first: a metal node may join two others too, but not vanish together with its linkers.
    for number in sorted(joined, key=lambda number: (cut.fragments[number].is_node, number)):
        ends = joined[number]
        if len(ends) != 2 or number in {other for other, _ in ends}:
            continue
        (a, first), (b, second) = ends
        del joined[number]
        # From a to b, by way of what is taken out.
        _replace(joined[a], (number, minus(first)), (b, plus(second, minus(first))))
        _replace(joined[b], (number, minus(second)), (a, plus(first, minus(second))))
    vertices = {number: vertex for vertex, number in enumerate(sorted(joined))}
    edges: list[Edge] = []
    for number, ends in joined.items():
        edges += [(vertices[number], vertices[other], image) for other, image in ends]
    if len(set(edges)) < len(edges):
        refuse(
            "double_links",
            f"in {name} two linkers join the same two metal nodes side by side, so more connections leave a node than its "
            "net has edges",
        )
    return len(vertices), tuple(sorted(edges))


def _replace(ends: list[tuple[int, Image]], old: tuple[int, Image], new: tuple[int, Image]) -> None:
    ends[ends.index(old)] = new


def identify_net(atoms: ConceptualAtoms, cut: Cut, name: str, *, seconds: float) -> CrystalNet:
    """Return the net of a framework.

    Parameters
    ----------
    seconds
        For both ways together; see :func:`~grafico.frameworks.quiet.time_limit`.

    Raises
    ------
    CalculationError
        ``refused``: ``double_links``, ``unknown_net``, ``topology_disputed``; ``timeout``: ``net_timeout``.
    MissingExtra
        mofstructure is not installed.
    """
    size, edges = net_edges(cut, name)
    with quiet():
        graphs = require("mofstructure.graph_net", extra="mof", purpose="to identify nets")
        topology = require("mofstructure.topology", extra="mof", purpose="to identify nets")
    try:
        with quiet(), time_limit(seconds):
            net = graphs.PeriodicGraph.build(3, size, edges)
            ours = graphs.identify(net, descriptors=False, symmetry=False, prefer=("rcsr",))
            theirs = _other_way(topology, atoms) if len(ours) == 1 and ours[0].get("topology") else {"status": "error"}
    except OutOfTime:
        refuse(
            "net_timeout",
            f"the net of {name}, with {size} vertices in the cell, was not identified within {seconds:g} s",
            vertices=size,
            seconds=seconds,
        )
    except ValueError as error:
        refuse("unknown_net", f"the blocks of {name} make no net: {error}")
    _check_named(ours, name)
    symbol, digest = str(ours[0]["topology"]), str(ours[0]["key_hash"])
    if theirs["status"] not in _NO_OPINION and theirs.get("key_hash") != digest:
        said = theirs.get("topology") if theirs["status"] == "ok" else theirs["status"]
        refuse(
            "topology_disputed",
            f"cut into blocks, {name} has the net {symbol}; mofstructure's own way to cut it gives {said!r}. Bonds of an "
            "unusual length are a frequent reason",
            cut=symbol,
            mofstructure=str(said),
        )
    return CrystalNet(symbol, digest)


def _check_named(found: Sequence[dict[str, Any]], name: str) -> None:
    if len(found) != 1 or found[0].get("interpenetration") != 1:
        refuse("interpenetrated", f"the blocks of {name} make {len(found)} nets; a single one is expected")
    if found[0].get("error"):
        refuse("unknown_net", f"the net of {name} has no canonical form: {found[0]['error']}")
    if not found[0].get("topology"):
        refuse(
            "unknown_net",
            f"the net of {name} is in no archive under an RCSR symbol (digest {found[0].get('key_hash')})",
            net=str(found[0].get("key_hash")),
        )


def _other_way(topology: Any, atoms: ConceptualAtoms) -> dict[str, Any]:
    from ase import Atoms

    crystal = Atoms(list(atoms.symbols), positions=list(atoms.positions), cell=atoms.cell, pbc=True)
    # No time-out of its own: it would take the process's alarm, and leave its handler behind.
    try:
        record: dict[str, Any] = topology.analyse(crystal, method="sbus", timeout=None)
    except Exception as error:  # noqa: BLE001 - a second opinion that it does not give is no fault of the crystal
        return {"status": "error", "detail": f"{type(error).__name__}: {error}"}
    return record
