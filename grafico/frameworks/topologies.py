"""Topologies that PORMAKE knows: what roles there are for building blocks.

A role is a kind of vertex that symmetry makes equal: so many connections in such an arrangement.
"""

import functools
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import Field

from grafico.calculations import Model
from grafico.errors import BadInput
from grafico.frameworks.nets import NetError, read_net
from grafico.frameworks.pormake_engine import load_pormake, pormake_folder
from grafico.frameworks.shapes import shape_of, unit_directions

__all__ = [
    "EdgeRole",
    "NodeRole",
    "Topology",
    "directions_of",
    "load_topology",
    "pormake_roles",
    "roles_of",
    "topology_names",
]


class NodeRole(Model):
    """A kind of vertex of a net."""

    index: int = Field(ge=0, description="PORMAKE's node type")
    connectivity: int = Field(ge=1, description="edges that meet in it")
    shape: str = Field(description="arrangement of its neighbors, as 8-cube")
    slots: int = Field(ge=1, description="such vertices in the net's cell")


class EdgeRole(Model):
    """A kind of edge of a net, by what it joins; edges that symmetry tells apart are not told apart here."""

    nodes: tuple[int, int] = Field(description="node types at its ends, the lower first")
    slots: int = Field(ge=1, description="such edges in the net's cell")


class Topology(Model):
    """A net and the roles in it."""

    name: str = Field(description="RCSR symbol, such as bcu")
    space_group: str = Field(description="Hermann-Mauguin symbol of its most symmetric form")
    nodes: tuple[NodeRole, ...] = Field(min_length=1, description="in the order of PORMAKE's node types")
    edges: tuple[EdgeRole, ...] = Field(min_length=1)

    @property
    def slots(self) -> int:
        """Vertices and edges in the cell."""
        return sum(node.slots for node in self.nodes) + sum(edge.slots for edge in self.edges)

    def node(self, index: int) -> NodeRole:
        """Return the role of a node type."""
        return next(role for role in self.nodes if role.index == index)


def topology_names() -> tuple[str, ...]:
    """Return the symbols of all nets that PORMAKE has, sorted."""
    return tuple(_files())


@functools.lru_cache(maxsize=4096)
def roles_of(name: str) -> Topology:
    """Return the roles of a net; some milliseconds the first time.

    Raises
    ------
    BadInput
        PORMAKE has no such net (says which are spelled alike), or its file contradicts itself.
    """
    try:
        net = read_net(_known(name))
    except NetError:
        # A few files give only the middles of their edges, which PORMAKE knows how to read.
        return pormake_roles(name)
    return Topology(
        name=name,
        space_group=net.space_group,
        nodes=tuple(
            NodeRole(
                index=index, connectivity=vertex.connectivity, shape=shape_of(vertex.neighbors), slots=vertex.slots
            )
            for index, vertex in enumerate(net.vertices)
        ),
        edges=tuple(EdgeRole(nodes=(low, high), slots=slots) for low, high, slots in net.edges),
    )


@functools.lru_cache(maxsize=256)
def directions_of(name: str) -> dict[int, Any]:
    """Return for each node type of a net the unit vectors to its neighbors, shape (connectivity, 3), from their centroid.

    Raises
    ------
    BadInput
        As :func:`roles_of`.
    """
    try:
        found = {index: vertex.neighbors for index, vertex in enumerate(read_net(_known(name)).vertices)}
    except NetError:
        net = load_topology(name)
        found = {
            int(net.node_types[index]): [near.distance_vector for near in net.neighbor_list[index]]
            for index in net.node_indices
        }
    return {index: unit_directions(vectors) for index, vectors in found.items()}


def pormake_roles(name: str) -> Topology:
    """Return the roles of a net as PORMAKE itself reads it; up to minutes.

    Raises
    ------
    BadInput
        PORMAKE has no such net, or cannot read its file.
    """
    net = load_topology(name)
    kinds = Counter(int(net.node_types[index]) for index in net.node_indices)
    pairs = Counter(tuple(sorted(int(end) for end in net.edge_types[index])) for index in net.edge_indices)
    first = {int(net.node_types[index]): index for index in reversed(net.node_indices)}
    return Topology(
        name=name,
        space_group=str(net.spacegroup),
        nodes=tuple(
            NodeRole(
                index=kind,
                connectivity=len(net.neighbor_list[first[kind]]),
                shape=shape_of([near.distance_vector for near in net.neighbor_list[first[kind]]]),
                slots=kinds[kind],
            )
            for kind in sorted(kinds)
        ),
        edges=tuple(EdgeRole(nodes=(low, high), slots=count) for (low, high), count in sorted(pairs.items())),
    )


@functools.lru_cache(maxsize=16)
def load_topology(name: str) -> Any:
    """Return ``pormake.Topology``, which is shared: it must not be changed.

    Raises
    ------
    BadInput
        PORMAKE has no such net, or cannot read its file.
    MissingExtra
        PORMAKE is not installed.
    """
    path = _known(name)
    pormake = load_pormake()
    try:
        with warnings.catch_warnings():
            # pymatgen about spellings of space groups
            warnings.simplefilter("ignore")
            # Its Database would write a pickle into the installed package.
            return pormake.Topology(path)
    except Exception as error:  # a bare Exception is what it raises
        raise _unreadable(name) from error


def _unreadable(name: str) -> BadInput:
    return BadInput(
        f"PORMAKE has the topology {name}, but cannot read its file: coordination numbers and edges do not agree",
        hint="choose another topology",
    )


def _known(name: str) -> Path:
    path = _files().get(name)
    if path is None:
        from difflib import get_close_matches

        alike = get_close_matches(name.strip().lower(), _files(), n=3, cutoff=0.0)
        raise BadInput(
            f"PORMAKE has no topology {name!r}",
            hint=f"topologies are named by RCSR symbols of small letters; did you mean {' or '.join(alike)}?",
        )
    return path


@functools.cache
def _files() -> dict[str, Path]:
    return {path.stem: path for path in sorted((pormake_folder() / "topologies").glob("*.cgd"))}
