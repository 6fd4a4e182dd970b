"""Small nets, building blocks and frameworks that the tests of the knowledge base share."""

from collections.abc import Iterable

from grafico.atoms import ConceptualAtoms
from grafico.frameworks.entities import FrameworkEntities
from grafico.frameworks.parts import BuildingBlock, Combination
from grafico.frameworks.steps import (
    AnalysisSettings,
    BuiltFramework,
    Channels,
    CutFramework,
    PoreAnalysis,
    PoreDiameters,
    PoreVolume,
    SurfaceArea,
)
from grafico.frameworks.topologies import EdgeRole, NodeRole, Topology

CELL = ((12.5, 0.0, 0.0), (0.25, 11.0, 0.0), (1.0, -0.5, 9.75))


def block(name, shape, *, kind=None, symbols=None, graph=None):
    """Return a building block; its number of docking points is the first number of its shape."""
    count = int(shape.partition("-")[0])
    kind = kind or ("metal_node" if name.startswith(("N", "m")) else "organic_linker")
    symbols = symbols or (("Zr", "O") if kind == "metal_node" else ("C", "H"))
    return BuildingBlock(
        name=name,
        kind=kind,
        atoms=ConceptualAtoms(
            symbols=symbols,
            positions=tuple((1.1 * index, 0.1, -0.2) for index in range(len(symbols))),
            docking_points=tuple((0.3, 0.7 * index, 0.1) for index in range(count)),
        ),
        anchors=tuple(index % len(symbols) for index in range(count)),
        bonds=((0, 1, "S"),),
        graph=graph or f"graph-of-{name}",
        shape=shape,
    )


def net(name, shapes, edges):
    """Return a net's roles; node types are numbered in order."""
    nodes = [
        NodeRole(index=index, connectivity=int(shape.partition("-")[0]), shape=shape, slots=2)
        for index, shape in enumerate(shapes)
    ]
    return Topology(
        name=name, space_group="P1", nodes=tuple(nodes), edges=tuple(EdgeRole(nodes=ends, slots=4) for ends in edges)
    )


def crystal(shift=0.0, symbols=("Zr", "O", "C", "H")):
    """Return a small periodic structure."""
    return ConceptualAtoms(
        symbols=symbols, positions=tuple((1.3 * index + shift, 0.1, 2.0) for index in range(len(symbols))), cell=CELL
    )


def built(combination, shift=0.0):
    """Return what building a combination might give."""
    return BuiltFramework(
        name=combination.name, structure=crystal(shift), bonds=((0, 1, "S"), (1, 2, "A")), rmsd=0.125, shortest=0.9
    )


def cut(name, combination, shift=0.0, **changes):
    """Return what taking an experimental framework apart might give."""
    fields = {
        "name": name,
        "structure": crystal(shift),
        "topology": combination.topology,
        "net": "net-digest",
        "metal_node": combination.metal_node,
        "linker": combination.linker,
        "nodes": 2,
        "linkers": 8,
        "guests": {"H2O": 3},
        "metals": ("Zr",),
    }
    return CutFramework(**fields | changes)


def pores(*, lcd=9.0, pld=6.0, area=1500.0, **settings):
    """Return what Zeo++ might find."""
    return PoreAnalysis(
        diameters=PoreDiameters(lcd=lcd, pld=pld, lfpd=(lcd + pld) / 2),
        area=SurfaceArea(
            accessible=350.5,
            non_accessible=0.0,
            accessible_m2_g=area,
            non_accessible_m2_g=0.0,
            accessible_m2_cm3=area * 0.8,
        ),
        volume=PoreVolume(
            accessible=410.25,
            non_accessible=1.5,
            accessible_cm3_g=0.7,
            non_accessible_cm3_g=0.01,
            accessible_fraction=0.31,
        ),
        channels=Channels(count=2, dimensionality=(3, 1), pockets=1, framework_dimensionality=3),
        density=0.8,
        settings=AnalysisSettings(**settings),
    )


def known(frameworks: Iterable[tuple[Combination, str]], nets=()) -> FrameworkEntities:
    """Return entities of combinations that are ``built``, ``experimental`` or ``failed``, and of nets."""
    made = FrameworkEntities()
    for roles in nets:
        made.net(roles)
    for number, (combination, status) in enumerate(frameworks):
        if status == "built":
            made.built(combination, built(combination, 0.01 * number))
        elif status == "experimental":
            made.experimental(cut(f"REF{number}", combination, 0.01 * number), source="test set")
        else:
            made.combination(combination, failure="too far from its place")
    return made
