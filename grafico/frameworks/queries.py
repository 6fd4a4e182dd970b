"""What a later session asks: which frameworks there are with a metal, a node or a topology, and what their pores are.

The same in SPARQL, for ``grafico kb query``. All frameworks with node N625 by topology, pore size against area::

    SELECT DISTINCT ?symbol ?name ?stage ?lcd ?area {
      [] mof:name "N625" ; mof:block ?node .
      ?framework mof:metalNode ?node ; mof:topology/mof:symbol ?symbol .
      ?geometry mof:framework ?framework ; mof:name ?name ; mof:stage ?stage .
      ?analysis a mof:PoreAnalysis ; mof:geometry ?geometry ; mof:diameters/mof:lcd ?lcd ; mof:area/mof:gravimetricArea ?area .
    } ORDER BY ?symbol DESC(?area)

Zirconium frameworks whose pores let a molecule of 6 Å pass, widest first::

    SELECT DISTINCT ?name ?stage ?pld {
      ?framework mof:metalNode/mof:metals "Zr" .
      ?geometry mof:framework ?framework ; mof:name ?name ; mof:stage ?stage .
      ?pores a mof:PoreDiameters ; mof:geometry ?geometry ; mof:pld ?pld .
      FILTER (?pld >= 6.0)
    } ORDER BY DESC(?pld)

Which calculation of which run made each relaxed geometry, and with which potential::

    SELECT DISTINCT ?name ?potential ?energy ?run {
      ?geometry a mof:FrameworkGeometry ; mof:stage "relaxed" ; mof:name ?name ; mof:potential ?potential ; mof:energy ?energy .
      OPTIONAL { ?execution a grafico:Execution ; prov:generated ?geometry ; dcterms:isPartOf ?run }
    } ORDER BY ?name
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from grafico.calculations import Model
from grafico.frameworks.terms import check_elements, named_block, values_clause
from grafico.knowledge import Store

__all__ = ["KnownFramework", "by_topology", "failed_combinations", "known_frameworks", "pareto_front"]


class KnownFramework(Model):
    """A geometry of a framework that the knowledge base knows, with its pores where they were analyzed."""

    framework: str = Field(description="IRI")
    geometry: str = Field(description="IRI")
    analysis: str | None = Field(default=None, description="IRI; none if its pores were not analyzed")
    name: str = Field(description="what its run calls it")
    stage: Literal["experimental", "built", "relaxed"]
    topology: str | None = Field(default=None, description="RCSR symbol")
    node: str | None = Field(default=None, description="PORMAKE identifier of the metal node, else its first name")
    linker: str | None = Field(default=None, description="PORMAKE identifier of the linker, else its first name")
    atoms: int = Field(description="in the cell")
    potential: str | None = Field(default=None, description="that it was relaxed with, with its version")
    energy: float | None = Field(default=None, description="of the relaxed cell, eV")
    rmsd: float | None = Field(default=None, description="of building: largest RMSD of a block (dimensionless)")
    lcd: float | None = Field(default=None, description="largest cavity diameter, Å")
    pld: float | None = Field(default=None, description="pore-limiting diameter, Å")
    lfpd: float | None = Field(default=None, description="largest sphere along the free path, Å")
    area_m2_g: float | None = Field(default=None, description="accessible area, m²/g")
    area_m2_cm3: float | None = Field(default=None, description="accessible area, m²/cm³")
    volume_cm3_g: float | None = Field(default=None, description="accessible volume, cm³/g")
    density: float | None = Field(default=None, description="g/cm³")
    probe_radius: float | None = Field(default=None, description="of area and volume, Å")
    high_accuracy: bool | None = Field(default=None, description="whether Zeo++'s high accuracy was on")


def known_frameworks(
    store: Store,
    *,
    topologies: Sequence[str] = (),
    nodes: Sequence[str] = (),
    metals: Sequence[str] = (),
    linkers: Sequence[str] = (),
    stage: Literal["experimental", "built", "relaxed"] | None = None,
    limit: int = 10_000,
) -> list[KnownFramework]:
    """Return the frameworks that a knowledge base has, by topology and then the largest area first.

    A row for each geometry and each analysis of it; those of one content, whatever run they are from, are one.

    Parameters
    ----------
    store
        The knowledge base.
    topologies, nodes, metals, linkers
        Only these, where any are given: RCSR symbols, names (N625) or identifiers of metal nodes, metal elements, names
        or identifiers of linkers.
    stage
        Only geometries of this stage.
    limit
        Most rows to look at.

    Raises
    ------
    BadInput
        A name or an element that there cannot be.
    """
    wanted = [
        named_block("node", nodes) + (" ?framework mof:metalNode ?node ." if nodes else ""),
        named_block("linker", linkers) + (" ?framework mof:linker ?linker ." if linkers else ""),
        values_clause("topologySymbol", topologies)
        + (" ?framework mof:topology/mof:symbol ?topologySymbol ." if topologies else ""),
        values_clause("metal", check_elements(metals))
        + (" ?framework (mof:metalNode/mof:metals)|mof:metals ?metal ." if metals else ""),
        values_clause("stage", [stage] if stage else []),
    ]
    query = _FRAMEWORKS.replace("WANTED", "\n  ".join(part for part in wanted if part.strip()))
    found: dict[tuple[str, str | None], KnownFramework] = {}
    for row in store.query(query, limit=limit).values():
        known = KnownFramework(node=row.pop("nodeName"), linker=row.pop("linkerName"), **row)
        found.setdefault((known.geometry, known.analysis), known)
    return sorted(found.values(), key=_order)


def _order(row: KnownFramework) -> tuple[Any, ...]:
    return (row.topology is None, row.topology or "", -(row.area_m2_g or 0.0), row.name, row.stage, row.geometry)


# A block has a name for each place that it was met in.
_NAMED = """
  OPTIONAL {{
    ?framework mof:{property} ?{name}Block .
    {{ SELECT ?{name}Block (COALESCE(MIN(?{name}Pormake), MIN(?{name}Met)) AS ?{name}Name) {{
      ?{name}Geometry mof:block ?{name}Block ; mof:name ?{name}Met .
      OPTIONAL {{ ?{name}Geometry mof:pormake ?{name}Pormake }}
    }} GROUP BY ?{name}Block }}
  }}
"""

_FRAMEWORKS = (
    """
SELECT DISTINCT ?framework ?geometry ?analysis ?name ?stage ?topology ?nodeName ?linkerName ?atoms
  ?potential ?energy ?rmsd ?lcd ?pld ?lfpd ?area_m2_g ?area_m2_cm3 ?volume_cm3_g ?density ?probe_radius ?high_accuracy {
  WANTED
  ?geometry a mof:FrameworkGeometry ; mof:framework ?framework ; mof:name ?name ; mof:stage ?stage ;
    mof:atomCount ?atoms .
  OPTIONAL { ?framework mof:topology/mof:symbol ?topology }
"""
    + _NAMED.format(name="node", property="metalNode")
    + _NAMED.format(name="linker", property="linker")
    + """
  OPTIONAL { ?geometry mof:potential ?potential ; mof:energy ?energy }
  OPTIONAL { ?geometry mof:buildRmsd ?rmsd }
  OPTIONAL {
    ?analysis a mof:PoreAnalysis ; mof:geometry ?geometry ; mof:density ?density ; mof:probeRadius ?probe_radius ;
      mof:highAccuracy ?high_accuracy ; mof:diameters ?diameters ; mof:area ?areaFound ; mof:volume ?volumeFound .
    ?diameters mof:lcd ?lcd ; mof:pld ?pld ; mof:lfpd ?lfpd .
    ?areaFound mof:gravimetricArea ?area_m2_g ; mof:volumetricArea ?area_m2_cm3 .
    ?volumeFound mof:specificVolume ?volume_cm3_g .
  }
} ORDER BY ?topology ?name ?geometry ?analysis
"""
)


def by_topology(rows: Iterable[KnownFramework]) -> dict[str, list[KnownFramework]]:
    """Return rows by their topology; those without one under the empty text."""
    found: dict[str, list[KnownFramework]] = {}
    for row in rows:
        found.setdefault(row.topology or "", []).append(row)
    return found


def pareto_front(rows: Iterable[KnownFramework]) -> list[KnownFramework]:
    """Return the rows that no other one beats in both pore size (LCD) and area (m²/g), widest pores first."""
    measured = [row for row in rows if row.lcd is not None and row.area_m2_g is not None]
    front: list[KnownFramework] = []
    for row in sorted(measured, key=lambda row: (-(row.lcd or 0.0), -(row.area_m2_g or 0.0), row.name)):
        if not front or (row.area_m2_g or 0.0) > (front[-1].area_m2_g or 0.0):
            front.append(row)
    return front


def failed_combinations(store: Store, *, limit: int = 10_000) -> list[tuple[str, str]]:
    """Return the labels of combinations that could not be built, and why; the searches propose none of them again."""
    query = """
      SELECT DISTINCT ?label ?failure {
        ?framework a mof:ConstructedMOF ; rdfs:label ?label ; mof:failure ?failure .
        FILTER NOT EXISTS { ?geometry mof:framework ?framework }
      } ORDER BY ?label ?failure
    """
    return [(str(row["label"]), str(row["failure"])) for row in store.query(query, limit=limit).values()]
