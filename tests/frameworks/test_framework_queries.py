"""What a later session asks of the frameworks that earlier ones found."""

import asyncio
import re

import pytest
from reticular_support import block, built, crystal, cut, pores

from grafico.errors import BadInput
from grafico.frameworks import queries
from grafico.frameworks.entities import FrameworkEntities
from grafico.frameworks.parts import Combination
from grafico.frameworks.queries import by_topology, failed_combinations, known_frameworks, pareto_front
from grafico.frameworks.steps import RelaxationSettings, RelaxedFramework
from grafico.knowledge import KnowledgeBase, RunKnowledge

HAFNIUM = block("N625", "8-cube", symbols=("Hf", "O"))
ZIRCONIUM = block("IXEJIG-node", "8-cube", kind="metal_node", symbols=("Zr", "O"))
E14, E34 = block("E14", "2-linear"), block("E34", "2-linear")
LIKE_E14 = block("IXEJIG-linker", "2-linear", graph=E14.graph)


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    """The knowledge base after two runs: frameworks that were built, and one that was taken apart."""
    folder = tmp_path_factory.mktemp("queries")
    store = KnowledgeBase(folder / "kb", wait_s=30)
    first, second = FrameworkEntities(), FrameworkEntities()
    for number, (topology, linker, lcd, area) in enumerate(
        (("reo", E34, 20.0, 4000.0), ("bcu", E14, 9.0, 1700.0), ("bcu", E34, 13.0, 2800.0))
    ):
        combination = Combination(topology=topology, metal_node=HAFNIUM, linker=linker)
        start = first.built(combination, built(combination, 0.1 * number))
        first.analysis(start, pores(lcd=lcd - 1, area=area + 100))
        relaxed = RelaxedFramework(
            structure=crystal(0.1 * number + 0.02),
            energy=-10.5,
            start_energy=-10.0,
            force=0.02,
            steps=5,
            volume_change=0.01,
            model="7net-0 (sevenn 0.13)",
        )
        first.analysis(first.relaxed(start, relaxed, RelaxationSettings()), pores(lcd=lcd, pld=6.0, area=area))
    first.combination(Combination(topology="pcu", metal_node=HAFNIUM, linker=E14), failure="wants 6 docking points")
    found = Combination(topology="bcu", metal_node=ZIRCONIUM, linker=LIKE_E14)
    second.analysis(second.experimental(cut("IXEJIG", found, 3.0), source="CoRE MOF 2019-ASR"), pores(lcd=8.0))
    second.uncut("mine.cif", crystal(4.0, ("Cu", "O", "C", "H")))
    for name, made in (("first", first), ("second", second)):
        (folder / name).mkdir()
        run = RunKnowledge(folder / name, run_id=name, store=store)
        asyncio.run(run.persist(made.all()))
        assert run.problems == []
    return KnowledgeBase(folder / "kb", wait_s=30)


def test_all_frameworks_with_a_node_by_topology_with_pore_size_and_area(knowledge):
    rows = known_frameworks(knowledge, nodes=["N625"], stage="relaxed")
    table = {
        topology: [(row.name, row.linker, row.lcd, row.area_m2_g) for row in found]
        for topology, found in by_topology(rows).items()
    }
    assert table == {
        "bcu": [("bcu_N625_E34", "E34", 13.0, 2800.0), ("bcu_N625_E14", "E14", 9.0, 1700.0)],
        "reo": [("reo_N625_E34", "E34", 20.0, 4000.0)],
    }
    assert {row.potential for row in rows} == {"7net-0 (sevenn 0.13)"}
    assert {(row.node, row.atoms, row.energy, row.probe_radius) for row in rows} == {("N625", 4, -10.5, 1.655)}


def test_frameworks_are_asked_for_by_metal_topology_linker_and_stage(knowledge):
    def asked(**wanted):
        return [(row.name, row.stage) for row in known_frameworks(knowledge, **wanted)]

    assert asked(metals=["Zr"]) == [("IXEJIG", "experimental")]
    # Of one that was not taken apart, the metals are known all the same.
    assert asked(metals=["Cu"]) == [("mine.cif", "experimental")]
    assert asked(topologies=["reo"]) == [("reo_N625_E34", "built"), ("reo_N625_E34", "relaxed")]
    assert len(asked()) == 8
    # A linker that was cut from a crystal and PORMAKE's are one.
    assert asked(linkers=["IXEJIG-linker"]) == asked(linkers=["E14"])
    assert [name for name, _ in asked(linkers=["E14"], topologies=["bcu"])] == [
        "bcu_N625_E14",
        "bcu_N625_E14",
        "IXEJIG",
    ]
    assert asked(nodes=["N1"]) == []


def test_a_block_is_called_by_its_name_in_pormake(knowledge):
    (row,) = known_frameworks(knowledge, metals=["Zr"])
    assert (row.node, row.linker, row.topology) == ("IXEJIG-node", "E14", "bcu")
    (bare,) = known_frameworks(knowledge, metals=["Cu"])
    assert (bare.node, bare.linker, bare.topology, bare.analysis, bare.lcd) == (None, None, None, None, None)


def test_the_trade_off_between_pore_size_and_area():
    def row(name, lcd, area):
        return queries.KnownFramework(
            framework="x:f", geometry="x:g", name=name, stage="built", atoms=1, lcd=lcd, area_m2_g=area
        )

    rows = [row("a", 10, 1000), row("b", 12, 900), row("c", 9, 950), row("d", 8, 2000), row("e", None, 9000)]
    assert [found.name for found in pareto_front(rows)] == ["b", "a", "d"]
    assert pareto_front([]) == []


def test_what_could_not_be_built_is_told(knowledge):
    assert failed_combinations(knowledge) == [("pcu_N625_E14", "wants 6 docking points")]


def test_the_queries_of_the_documentation_are_answered(knowledge):
    examples = re.findall(r"::\n\n((?:    .*\n|\n)+)", queries.__doc__)
    assert len(examples) == 3
    node, metal, relaxed = (knowledge.query(example).values() for example in examples)
    assert [(row["symbol"], row["name"], row["stage"], row["lcd"]) for row in node] == [
        ("bcu", "bcu_N625_E34", "built", 12.0),
        ("bcu", "bcu_N625_E34", "relaxed", 13.0),
        ("bcu", "bcu_N625_E14", "built", 8.0),
        ("bcu", "bcu_N625_E14", "relaxed", 9.0),
        ("reo", "reo_N625_E34", "built", 19.0),
        ("reo", "reo_N625_E34", "relaxed", 20.0),
    ]
    assert metal == [{"name": "IXEJIG", "stage": "experimental", "pld": 6.0}]
    assert [row["energy"] for row in relaxed] == [-10.5] * 3


def test_wrong_questions_are_refused(knowledge):
    with pytest.raises(BadInput, match="no element"):
        known_frameworks(knowledge, metals=["zirconium"])
    with pytest.raises(BadInput, match="not a name"):
        known_frameworks(knowledge, nodes=["N625\n"])
