"""Frameworks to the knowledge base and back: identity, round trips, what two runs share."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reticular_support import CELL, block, built, crystal, cut, net, pores

from grafico.atoms import ConceptualAtoms, from_ase, iri_of, read_cif, write_cif
from grafico.errors import BadInput, MoleculeError
from grafico.frameworks.entities import (
    FRAMEWORKS,
    ConstructedMOF,
    ExperimentalMOF,
    FrameworkEntities,
    MetalNode,
    OrganicLinker,
    analysis_of,
    ase_of,
    atoms_of,
    block_entity,
    block_of,
    built_of,
    combination_entity,
    combination_of,
    cut_of,
    net_entity,
    relaxed_of,
    roles_in,
    settings_of,
    tell_topologies,
)
from grafico.frameworks.parts import BuildingBlock, Combination
from grafico.frameworks.steps import BuildInput, RelaxationSettings, RelaxedFramework
from grafico.knowledge import Execution, KnowledgeBase, Run, RunKnowledge, schema_of, validate

NODE, LINKER = block("N625", "8-cube"), block("E14", "2-linear")
COMBINATION = Combination(topology="bcu", metal_node=NODE, linker=LINKER)
RELAXED = RelaxedFramework(
    structure=crystal(0.3),
    energy=-123.456,
    start_energy=-120.5,
    force=0.031,
    stress=0.0004,
    steps=37,
    volume_change=-0.0125,
    model="7net-0 (sevenn 0.13)",
)


@pytest.fixture
def knowledge(tmp_path):
    return KnowledgeBase(tmp_path / "kb", wait_s=30)


def again(knowledge):
    """Return the same store, without any object that was made of it."""
    return KnowledgeBase(knowledge.folder, wait_s=30)


def study():
    made = FrameworkEntities()
    found = made.experimental(cut("IXEJIG", COMBINATION), source="CoRE MOF 2019-ASR", key="aa" * 32)
    start = made.built(COMBINATION, built(COMBINATION), key="bb" * 32)
    relaxed = made.relaxed(start, RELAXED, RelaxationSettings(fmax=0.04), key="cc" * 32)
    analysis = made.analysis(relaxed, pores(), key="dd" * 32)
    return made, found, relaxed, analysis


def test_a_cif_becomes_entities_and_the_same_build_input(knowledge):
    cif = write_cif(crystal(), name="IXEJIG")
    taken = cut("IXEJIG", COMBINATION, structure=read_cif(cif))
    before = BuildInput(
        combination=Combination(topology=taken.topology, metal_node=taken.metal_node, linker=taken.linker)
    )
    made = FrameworkEntities()
    iri = made.experimental(taken, source="CoRE MOF 2019-ASR").iri
    knowledge.persist(*made.all())
    geometry = again(knowledge).fetch(iri, None)
    assert BuildInput(combination=combination_of(geometry.framework)) == before
    assert cut_of(geometry) == taken


def test_a_crystal_of_a_database_goes_through_the_knowledge_base_into_building(knowledge):
    pytest.importorskip("CoRE_MOF")
    pytest.importorskip("pormake")
    from cif_support import cut_of as taken_apart

    taken = taken_apart("EDUSIF")
    made = FrameworkEntities()
    iri = made.experimental(taken, source="CoRE MOF 2019-ASR").iri
    knowledge.persist(*made.all())
    geometry = again(knowledge).fetch(iri, None)
    assert cut_of(geometry) == taken
    assert combination_of(geometry.framework) == Combination(
        topology=taken.topology, metal_node=taken.metal_node, linker=taken.linker
    )
    assert read_cif(geometry.cif).symbols == taken.structure.symbols
    # MOF-5: Zn4O(CO2)6 and 1,4-phenylene on pcu (H. Li et al., Nature 402 (1999) 276).
    framework = geometry.framework
    assert (framework.topology.symbol, framework.metal_node.metals) == ("pcu", {"Zn"})
    assert (framework.metal_node.formula, framework.linker.formula) == ("C6O13Zn4", "C6H4")
    assert validate(knowledge).violations == ()


def test_the_knowledge_base_gives_the_same_cif_back(knowledge):
    made, found, relaxed, _ = study()
    knowledge.persist(*made.all())
    for geometry in (found, relaxed):
        fetched = again(knowledge).fetch(geometry.iri)
        assert fetched.cif == geometry.cif == write_cif(atoms_of(fetched), name=fetched.name)
        assert atoms_of(fetched) == atoms_of(geometry)


def test_an_entity_goes_to_ase_and_back_with_its_identity(knowledge):
    made, _, relaxed, _ = study()
    knowledge.persist(*made.all())
    store = again(knowledge)
    fetched = store.fetch(relaxed.iri)
    atoms = ase_of(fetched)
    assert store.fetch(iri_of(atoms)) is fetched
    assert from_ase(atoms) == atoms_of(fetched)
    # Found again from its coordinates alone, it is the same thing.
    same = FrameworkEntities()
    start = same.built(COMBINATION, built(COMBINATION))
    back = RELAXED.model_copy(update={"structure": from_ase(atoms)})
    assert same.relaxed(start, back, RelaxationSettings(fmax=0.04)).iri == relaxed.iri
    node = block_entity(NODE)
    assert from_ase(ase_of(node)) == NODE.atoms
    assert iri_of(ase_of(node)) == node.iri


def test_what_was_computed_comes_back_equal(knowledge):
    made, _, relaxed, analysis = study()
    knowledge.persist(*made.all())
    fetched = again(knowledge).fetch(analysis.iri, None)
    assert analysis_of(fetched) == pores()
    assert relaxed_of(fetched.geometry) == RELAXED
    assert settings_of(fetched.geometry) == RelaxationSettings(fmax=0.04)
    assert built_of(fetched.geometry.start) == built(COMBINATION)
    assert combination_of(fetched.geometry.framework) == COMBINATION
    assert fetched.geometry.iri == relaxed.iri


def test_what_was_not_done_is_not_given_back():
    made, found, relaxed, _ = study()
    for wrong in (lambda: built_of(found), lambda: relaxed_of(found), lambda: settings_of(relaxed.start)):
        with pytest.raises(BadInput):
            wrong()
    with pytest.raises(BadInput, match="not taken apart"):
        cut_of(relaxed)
    bare = made.uncut("mine.cif", crystal(0.7))
    assert bare.framework.metals == {"Zr"}
    with pytest.raises(BadInput, match="cannot be built"):
        combination_of(bare.framework)
    with pytest.raises(MoleculeError, match="has no one geometry"):
        atoms_of(relaxed.framework)


def test_a_molecule_is_no_framework_and_a_crystal_no_block():
    with pytest.raises(BadInput, match="no cell"):
        FrameworkEntities().uncut("x", NODE.atoms)
    with pytest.raises(BadInput, match="has a cell"):
        block_entity(NODE.model_copy(update={"atoms": NODE.atoms.model_copy(update={"cell": CELL})}))


def test_nodes_and_linkers_are_not_mixed_up():
    with pytest.raises(BadInput, match="a metal node and an organic linker"):
        combination_entity(Combination(topology="bcu", metal_node=LINKER, linker=NODE))
    as_node = block_entity(LINKER.model_copy(update={"kind": "metal_node"})).block
    as_linker = block_entity(LINKER).block
    assert isinstance(as_node, MetalNode)
    assert isinstance(as_linker, OrganicLinker)
    assert as_node.iri != as_linker.iri


def test_a_block_is_the_same_wherever_it_was_met():
    found = block("IXEJIG-linker", "2-linear", graph=LINKER.graph)
    moved = found.model_copy(update={"atoms": found.atoms.moved(((5.0, 0.0, 0.0), (6.0, 0.0, 0.0)))})
    made = FrameworkEntities()
    geometries = [made.block(each) for each in (LINKER, found, moved)]
    assert geometries[0].block is geometries[1].block is geometries[2].block
    assert len({geometry.iri for geometry in geometries}) == 3
    assert [geometry.pormake for geometry in geometries] == ["E14", None, None]
    bent = block("E14", "2-bent", graph=LINKER.graph)
    assert made.block(bent).block.iri != geometries[0].block.iri
    built_of_cut = combination_entity(Combination(topology="bcu", metal_node=NODE, linker=found))
    assert built_of_cut.iri == combination_entity(COMBINATION).iri


def test_frameworks_are_told_apart_by_what_identifies_them():
    made = FrameworkEntities()
    frameworks = [
        made.experimental(cut(name, COMBINATION, shift), source=source).framework
        for name, shift, source in (
            ("A", 0.0, "CoRE MOF 2019-ASR"),
            ("A", 0.5, "CoRE MOF 2019-ASR"),
            ("A", 0.0, "CSD"),
            ("a.cif", 0.0, "file"),
            ("b.cif", 0.0, "file"),
            ("a.cif", 0.5, "file"),
        )
    ]
    assert [frameworks.index(framework) for framework in frameworks] == [0, 0, 2, 3, 3, 5]
    assert all(isinstance(framework, ExperimentalMOF) for framework in frameworks)
    assert isinstance(made.combination(COMBINATION), ConstructedMOF)


def test_geometries_are_told_apart_by_stage_content_and_how_they_were_relaxed():
    made = FrameworkEntities()
    start = made.built(COMBINATION, built(COMBINATION))
    other = RELAXED.model_copy(update={"model": "chgnet 0.4.2"})
    found = [
        start,
        made.built(COMBINATION, built(COMBINATION, 0.1)),
        made.relaxed(start, RELAXED, RelaxationSettings()),
        made.relaxed(start, RELAXED, RelaxationSettings(fmax=0.01)),
        made.relaxed(start, RELAXED, RelaxationSettings(cell=False)),
        made.relaxed(start, other, RelaxationSettings()),
    ]
    assert len({geometry.iri for geometry in found}) == len(found)
    assert made.relaxed(start, RELAXED, RelaxationSettings()) is found[2]


def test_analyses_with_other_settings_or_calculations_are_others():
    made = FrameworkEntities()
    start = made.built(COMBINATION, built(COMBINATION))
    analyses = [
        made.analysis(start, pores()),
        made.analysis(start, pores(probe_radius=1.86)),
        made.analysis(start, pores(high_accuracy=False)),
        made.analysis(start, pores(samples=500)),
        made.analysis(start, pores(), key="ab" * 32),
    ]
    assert len({analysis.iri for analysis in analyses}) == 5
    assert made.analysis(start, pores()) is analyses[0]


def test_two_runs_share_what_is_one_thing(tmp_path, knowledge):
    for name, linker in (("first", LINKER), ("second", block("VEGBUG-linker", "2-linear", graph=LINKER.graph))):
        (tmp_path / name).mkdir()
        run = RunKnowledge(tmp_path / name, run_id=name, store=knowledge)
        combination = Combination(topology="bcu", metal_node=NODE, linker=linker)
        made = FrameworkEntities()
        made.analysis(made.built(combination, built(combination)), pores())
        asyncio.run(run.persist(made.all()))
        assert run.problems == []
    rows = knowledge.query("SELECT ?class (COUNT(DISTINCT ?x) AS ?n) { ?x a ?class } GROUP BY ?class").values()
    counts = {row["class"].removeprefix(FRAMEWORKS): row["n"] for row in rows}
    assert {name: counts[name] for name in ("Topology", "MetalNode", "OrganicLinker", "ConstructedMOF")} == {
        "Topology": 1,
        "MetalNode": 1,
        "OrganicLinker": 1,
        "ConstructedMOF": 1,
    }
    assert (counts["FrameworkGeometry"], counts["PoreAnalysis"], counts["BlockGeometry"]) == (1, 1, 3)
    assert validate(knowledge).violations == ()


def test_a_whole_study_satisfies_the_shapes_of_its_classes(knowledge):
    made, *_ = study()
    made.uncut("mine.cif", crystal(0.7))
    made.combination(Combination(topology="reo", metal_node=NODE, linker=LINKER), failure="too far")
    made.net(net("tbo", ("3-triangle", "4-square"), ((0, 1),)))
    knowledge.persist(*made.all())
    checked = validate(knowledge)
    assert checked.violations == ()
    assert checked.unknown == ()
    assert checked.entities > 20


def test_calculations_are_linked_to_the_geometries_they_made(tmp_path, knowledge):
    made, found, relaxed, analysis = study()
    run = RunKnowledge(tmp_path, run_id="first", store=knowledge)
    asyncio.run(run.persist(made.all()))
    activity = Run(iri=run.graph, name="first")
    names = {"process_cif": "aa" * 32, "relax": "cc" * 32, "analyze": "dd" * 32}
    executions = [Execution(run=activity, key=key, calculation=name) for name, key in names.items()]
    asyncio.run(run.finish([activity, *executions]))
    rows = knowledge.query("SELECT ?name ?made { ?e grafico:calculation ?name ; prov:generated ?made }").values()
    made_by = {(row["name"], row["made"]) for row in rows}
    assert {("process_cif", found.iri), ("relax", relaxed.iri), ("analyze", analysis.iri)} <= made_by
    assert ("analyze", analysis.area.iri) in made_by
    assert ("relax", found.iri) not in made_by


def test_nets_come_back_with_their_roles(knowledge):
    for roles in (
        net("bcu", ("8-cube",), ((0, 0),)),
        net("tbo", ("3-triangle", "4-square"), ((0, 1),)),
        net("odd", ("4-square", "4-tetrahedron", "6-octahedron"), ((0, 1), (1, 1), (0, 2))),
    ):
        assert roles_in(net_entity(roles)) == roles
        knowledge.persist(net_entity(roles))
        assert roles_in(again(knowledge).fetch(net_entity(roles).iri, None)) == roles


def test_a_knowledge_base_is_told_of_the_nets_that_pormake_has(knowledge):
    pytest.importorskip("pormake")
    assert tell_topologies(knowledge, ["pcu", "pts", "pcu"]).added > 0
    assert tell_topologies(knowledge, ["pts"]).added == 0
    rows = knowledge.query(
        "SELECT ?symbol ?group ?shape { ?net a mof:Net ; mof:spaceGroup ?group ; mof:topology/mof:symbol ?symbol ; "
        "mof:nodeRoles/mof:shape ?shape } ORDER BY ?symbol ?shape"
    ).values()
    # RCSR: pcu is 6-coordinated in Pm-3m; pts (cooperite, PtS) joins squares and tetrahedra in P42/mmc.
    assert [(row["symbol"], row["group"], row["shape"]) for row in rows] == [
        ("pcu", "Pm-3m", "6-octahedron"),
        ("pts", "P42/mmc", "4-square"),
        ("pts", "P42/mmc", "4-tetrahedron"),
    ]
    with pytest.raises(BadInput, match="no topology"):
        tell_topologies(knowledge, ["not-a-net"])


def test_blocks_of_pormake_keep_their_identifier():
    pytest.importorskip("pormake")
    from grafico.frameworks.blocks import pormake_block

    paddlewheel = pormake_block("N409")
    entity = block_entity(paddlewheel)
    assert (entity.pormake, entity.block.metals, entity.block.connectivity) == ("N409", {"Cu"}, 4)
    assert block_of(entity) == paddlewheel


def test_the_schema_has_units():
    schema = schema_of([FRAMEWORKS + name for name in ("PoreAnalysis", "FrameworkGeometry")])
    units = {
        name: next((o.rpartition("/")[2] for p, o in schema[f"<{FRAMEWORKS}{name}>"] if p.endswith("hasUnit>")), None)
        for name in ("lcd", "gravimetricArea", "specificVolume", "density", "energy", "force", "cellVolume")
    }
    assert units == {
        "lcd": "ANGSTROM>",
        "gravimetricArea": "M2-PER-GM>",
        "specificVolume": "CentiM3-PER-GM>",
        "density": "GM-PER-CentiM3>",
        "energy": "EV>",
        "force": "EV-PER-ANGSTROM>",
        "cellVolume": "ANGSTROM3>",
    }


COORDINATES = st.floats(-50.0, 50.0, allow_nan=False)
POINTS = st.tuples(COORDINATES, COORDINATES, COORDINATES)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@st.composite
def blocks(draw):
    count, joints = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    indices = st.integers(0, count - 1)
    symbols = draw(st.lists(st.sampled_from(["C", "H", "Zr", "O", "Cu", "Cl"]), min_size=count, max_size=count))
    return BuildingBlock(
        name=draw(NAMES),
        kind=draw(st.sampled_from(["metal_node", "organic_linker"])),
        atoms=ConceptualAtoms(
            symbols=tuple(symbols),
            positions=tuple(draw(st.lists(POINTS, min_size=count, max_size=count))),
            docking_points=tuple(draw(st.lists(POINTS, min_size=joints, max_size=joints))),
            charge=draw(st.integers(-3, 3)),
            multiplicity=draw(st.integers(1, 5)),
        ),
        anchors=tuple(draw(st.lists(indices, min_size=joints, max_size=joints))),
        bonds=tuple(draw(st.lists(st.tuples(indices, indices, st.sampled_from("SDTA")), max_size=6))),
        graph=draw(NAMES),
        shape=draw(NAMES),
    )


@given(blocks())
@settings(max_examples=100, deadline=None)
def test_any_block_is_made_again_exactly(given_block):
    entity = block_entity(given_block)
    assert block_of(entity) == given_block
    assert entity.iri == block_entity(given_block).iri
    renamed = given_block.model_copy(update={"name": given_block.name + "x"})
    assert block_entity(renamed).block.iri == entity.block.iri
    assert block_entity(renamed).iri != entity.iri


@given(st.lists(blocks(), min_size=1, max_size=3))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_blocks_come_back_from_a_store(tmp_path_factory, several):
    knowledge = KnowledgeBase(tmp_path_factory.mktemp("kb"), wait_s=30)
    made = FrameworkEntities()
    iris = [made.block(each).iri for each in several]
    knowledge.persist(*made.all())
    store = again(knowledge)
    assert [block_of(store.fetch(iri, 1)) for iri in iris] == several
