"""Frameworks that could be built and are not: two combinatorial searches of the knowledge base, as SPARQL.

``recombine`` stays on a topology: a metal node and a linker that each occur on it, in frameworks that exist, though not
together. ``roles`` goes from one topology to another: a block that is proven in a role may take an equivalent role, one
with the same signature, on any topology whose roles the knowledge base knows (entities :class:`Net`).

Proven is what has a geometry, experimental or built. What is known at all, be it that building it failed, is not
proposed again. A metal node is never proposed as a linker, nor a linker as a metal node, and the two always take
different roles.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from grafico.errors import BadInput
from grafico.frameworks import parts
from grafico.frameworks.concepts import BlockGeometry, MetalNode, OrganicLinker, Topology
from grafico.frameworks.identity import block_of
from grafico.frameworks.terms import check_elements, named_block, values_clause
from grafico.knowledge import Store, check_iri
from grafico.knowledge.vocabulary import iri_term

__all__ = ["Algorithm", "Proposal", "combine", "search_query"]

Algorithm: TypeAlias = Literal["recombine", "roles"]

MOST = 10_000
_CHUNK = 300
"""Blocks that are asked for at once: a query has a limit of 50,000 characters."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A framework that could be built."""

    topology: Topology
    metal_node: MetalNode
    linker: OrganicLinker
    combination: parts.Combination
    """The same, as the input of building: PORMAKE's coordinates where it has them."""


def combine(
    store: Store,
    algorithm: Algorithm = "recombine",
    *,
    topologies: Sequence[str] = (),
    nodes: Sequence[str] = (),
    metals: Sequence[str] = (),
    linkers: Sequence[str] = (),
    limit: int = 100,
    timeout_s: float = 60.0,
) -> list[Proposal]:
    """Return combinations that do not exist yet, in the order of topology, metal node and linker.

    What has one IRI is one object in all that is returned, blocks among it.

    Parameters
    ----------
    store
        The knowledge base.
    algorithm
        ``recombine`` or ``roles``.
    topologies, nodes, metals, linkers
        Only these, where any are given: RCSR symbols, names (N625) or identifiers of metal nodes, their metal elements,
        names or identifiers of linkers.
    limit
        Most combinations.
    timeout_s
        Seconds for each query.

    Raises
    ------
    BadInput
        A name or element that there cannot be, or a limit out of range.
    QueryError
        The search took too long.
    """
    if not 1 <= limit <= MOST:
        raise BadInput(f"a limit between 1 and {MOST} was expected, not {limit}")
    query = search_query(algorithm, topologies=topologies, nodes=nodes, metals=metals, linkers=linkers, limit=limit)
    rows = store.query(query, limit=limit, timeout_s=timeout_s).values()
    blocks = {row[name] for row in rows for name in ("node", "linker")}
    geometries = _geometries(store, sorted(blocks), timeout_s)
    values = {iri: block_of(geometry) for iri, geometry in geometries.items()}
    found = []
    for row in rows:
        topology = store.fetch(row["topology"])
        node, linker = geometries[row["node"]].block, geometries[row["linker"]].block
        assert isinstance(topology, Topology)
        assert isinstance(node, MetalNode)
        assert isinstance(linker, OrganicLinker)
        combination = parts.Combination(
            topology=topology.symbol, metal_node=values[row["node"]], linker=values[row["linker"]]
        )
        found.append(Proposal(topology, node, linker, combination))
    return found


def search_query(
    algorithm: Algorithm = "recombine",
    *,
    topologies: Sequence[str] = (),
    nodes: Sequence[str] = (),
    metals: Sequence[str] = (),
    linkers: Sequence[str] = (),
    limit: int = 100,
) -> str:
    """Return the query of a search, which gives ``?topology``, ``?node`` and ``?linker``.

    Raises
    ------
    BadInput
        A name or element that there cannot be, or an unknown algorithm.
    """
    if algorithm not in _PATTERNS:
        raise BadInput(f"one of {', '.join(_PATTERNS)} was expected, not {algorithm!r}")
    wanted = [
        values_clause("symbol", topologies),
        f"{values_clause('metal', check_elements(metals))} ?node mof:metals ?metal ." if metals else "",
        named_block("node", nodes),
        named_block("linker", linkers),
    ]
    return _QUERY.format(
        wanted="\n  ".join(part for part in wanted if part), pattern=_PATTERNS[algorithm].strip(), limit=int(limit)
    )


# A block occurs in a framework that has a geometry; ?otherConnectivity and ?otherShape are of what it is joined to.
_OCCURS = """
    SELECT DISTINCT ?topology ?{name} ?{name}Connectivity ?{name}Shape ?{name}With ?{name}WithShape {{
      ?{name}Geometry mof:framework ?{name}Framework .
      ?{name}Framework mof:topology ?topology ; mof:{property} ?{name} ; mof:{other} ?{name}Other .
      ?{name} mof:connectivity ?{name}Connectivity ; mof:shape ?{name}Shape .
      ?{name}Other mof:connectivity ?{name}With ; mof:shape ?{name}WithShape .
    }}
"""

# Where both blocks have one number of neighbors, only shapes tell which of a net's roles each takes.
_RECOMBINE = f"""
  {{ {_OCCURS.format(name="node", property="metalNode", other="linker").strip()} }}
  {{ {_OCCURS.format(name="linker", property="linker", other="metalNode").strip()} }}
  FILTER (?nodeConnectivity = ?linkerWith && ?linkerConnectivity = ?nodeWith)
  FILTER (?nodeConnectivity != ?linkerConnectivity || (?nodeShape = ?linkerWithShape && ?linkerShape = ?nodeWithShape))
"""

# A block took the role that has its number of neighbors; where several have, that of its own shape, if there is one.
_PROVEN = """
    SELECT DISTINCT ?{name} ?{name}Signature {{
      {{ SELECT DISTINCT ?{name} ?{name}Topology ?{name}Connectivity ?{name}Shape {{
        ?{name}Geometry mof:framework ?{name}Framework .
        ?{name}Framework mof:{property} ?{name} ; mof:topology ?{name}Topology .
        ?{name} mof:connectivity ?{name}Connectivity ; mof:shape ?{name}Shape .
      }} }}
      ?{name}Role a mof:NodeRole ; mof:topology ?{name}Topology ; mof:connectivity ?{name}Connectivity ;
        mof:shape ?{name}RoleShape ; mof:signature ?{name}Signature .
      OPTIONAL {{ ?{name}Better a mof:NodeRole ; mof:topology ?{name}Topology ; mof:shape ?{name}Shape }}
      FILTER (?{name}RoleShape = ?{name}Shape || !BOUND(?{name}Better))
    }}
"""

# The two ways in which a net has room for both: the node in every node role and the linker on the edges; or both in node
# roles, with every edge from one of the node's to one of the linker's. Signatures tell these apart; where both have the
# same, only a net of two node roles leaves no doubt. Counting is many times faster here than NOT EXISTS in each row.
_ROLES = f"""
  {{
    {{ {_PROVEN.format(name="node", property="metalNode").strip()} }}
    {{ SELECT ?net (MIN(?nodeRoleSignature) AS ?nodeSignature) {{
      ?net a mof:Net ; mof:nodeRoles/mof:signature ?nodeRoleSignature .
    }} GROUP BY ?net HAVING (COUNT(DISTINCT ?nodeRoleSignature) = 1) }}
    {{ SELECT DISTINCT ?linker {{
      ?linkerGeometry mof:framework/mof:linker ?linker . ?linker mof:connectivity 2 .
    }} }}
  }} UNION {{
    {{ {_PROVEN.format(name="node", property="metalNode").strip()} }}
    {{ SELECT ?net ?nodeSignature ?linkerSignature (COUNT(DISTINCT ?edge) AS ?edgesBetween) {{
      ?net a mof:Net ; mof:edgeRoles ?edge .
      ?edge mof:ends ?nodeEnd , ?linkerEnd .
      FILTER (?nodeEnd != ?linkerEnd)
      ?nodeEnd mof:signature ?nodeSignature .
      ?linkerEnd mof:signature ?linkerSignature .
    }} GROUP BY ?net ?nodeSignature ?linkerSignature }}
    {{ SELECT ?net (COUNT(DISTINCT ?anyEdge) AS ?edges) (COUNT(DISTINCT ?anyRole) AS ?roles) {{
      ?net a mof:Net ; mof:edgeRoles ?anyEdge ; mof:nodeRoles ?anyRole .
    }} GROUP BY ?net }}
    FILTER (?edgesBetween = ?edges && (?nodeSignature != ?linkerSignature || ?roles = 2))
    {{ {_PROVEN.format(name="linker", property="linker").strip()} }}
  }}
  ?net mof:topology ?topology .
"""

_PATTERNS: Mapping[str, str] = {"recombine": _RECOMBINE, "roles": _ROLES}

_QUERY = """
SELECT DISTINCT ?topology ?node ?linker {{
  {wanted}
  {pattern}
  MINUS {{ ?known mof:topology ?topology ; mof:metalNode ?node ; mof:linker ?linker }}
  ?topology mof:symbol ?symbol .
  ?node a mof:MetalNode ; mof:identifier ?nodeIdentifier .
  ?linker a mof:OrganicLinker ; mof:identifier ?linkerIdentifier .
  FILTER (?nodeIdentifier != ?linkerIdentifier)
  FILTER EXISTS {{ ?nodeShown mof:block ?node }}
  FILTER EXISTS {{ ?linkerShown mof:block ?linker }}
}} ORDER BY ?symbol ?nodeIdentifier ?linkerIdentifier LIMIT {limit}
"""


def _geometries(store: Store, blocks: Sequence[str], timeout_s: float) -> dict[str, BlockGeometry]:
    """Return coordinates for each block: PORMAKE's, else those of the first name."""
    chosen: dict[str, tuple[tuple[bool, tuple[tuple[int, str], ...], str], str]] = {}
    for start in range(0, len(blocks), _CHUNK):
        terms = " ".join(iri_term(check_iri(iri)) for iri in blocks[start : start + _CHUNK])
        query = f"""SELECT ?block ?geometry ?name ?pormake {{
          VALUES ?block {{ {terms} }} ?geometry mof:block ?block ; mof:name ?name .
          OPTIONAL {{ ?geometry mof:pormake ?pormake }}
        }}"""
        for row in store.query(query, limit=100_000, timeout_s=timeout_s).values():
            rank = (row["pormake"] is None, _natural(row["name"]), row["geometry"])
            held = chosen.get(row["block"])
            if held is None or rank < held[0]:
                chosen[row["block"]] = (rank, row["geometry"])
    found = {}
    for iri, (_, geometry) in chosen.items():
        entity = store.fetch(geometry, 1)
        assert isinstance(entity, BlockGeometry)
        found[iri] = entity
    return found


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
