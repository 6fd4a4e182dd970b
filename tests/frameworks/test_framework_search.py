"""Combinations that do not exist yet: on one topology, and from one topology to another."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reticular_support import block, known, net

from grafico.errors import BadInput
from grafico.frameworks.entities import FrameworkEntities, block_entity, topology_entity
from grafico.frameworks.parts import Combination
from grafico.frameworks.search import combine, search_query
from grafico.knowledge import KnowledgeBase, describe, n_quads
from grafico.knowledge.readonly import check_query
from grafico.knowledge.vocabulary import PREFIXES

NETS = {
    roles.name: roles
    for roles in (
        net("bcu", ("8-cube",), ((0, 0),)),
        net("reo", ("8-cube",), ((0, 0),)),
        net("nbo", ("4-square",), ((0, 0),)),
        net("tbo", ("3-triangle", "4-square"), ((0, 1),)),
        net("pts", ("4-square", "4-tetrahedron"), ((0, 1),)),
        net("twice", ("4-square", "3-triangle", "3-triangle"), ((0, 1), (0, 2))),
        net("two", ("4-square", "4-square"), ((0, 1),)),
        # None of these can hold one metal node and one linker: like is joined to like, or there are too many kinds of roles.
        net("mix", ("3-triangle", "4-square"), ((0, 1), (1, 1))),
        net("odd", ("3-triangle", "4-square", "8-cube"), ((0, 1), (1, 2))),
        net("tri", ("4-square", "4-square", "4-square"), ((0, 1), (1, 2))),
    )
}
NODES = {
    name: block(name, shape, symbols=symbols)
    for name, shape, symbols in (
        ("N1", "8-cube", ("Zr", "O")),
        ("N2", "8-cube", ("Hf", "O")),
        ("N3", "4-square", ("Cu", "O")),
        ("N4", "4-square", ("Zn", "O")),
        ("N5", "4-tetrahedron", ("Zn", "N")),
    )
}
LINKERS = {
    name: block(name, shape)
    for name, shape in (
        ("E1", "2-linear"),
        ("E2", "2-bent"),
        ("L3", "3-triangle"),
        ("L4", "4-square"),
        ("L5", "4-tetrahedron"),
    )
}


def fits(topology, node, linker):
    """Return whether a net has room for them, each in a role of its own; written without looking at the searches."""
    shapes = [role.shape for role in NETS[topology].nodes]
    edges = {edge.nodes for edge in NETS[topology].edges}
    pair = {NODES[node].shape, LINKERS[linker].shape}
    if LINKERS[linker].connectivity == 2:
        return set(shapes) == {NODES[node].shape}
    if len(pair) == 1:
        return set(shapes) == pair and edges == {(0, 1)}
    return all({shapes[first], shapes[second]} == pair for first, second in edges)


POSSIBLE = [triple for triple in itertools.product(NETS, NODES, LINKERS) if fits(*triple)]


def combination(topology, node, linker):
    return Combination(topology=topology, metal_node=NODES[node], linker=LINKERS[linker])


def names(proposals):
    return [(p.combination.topology, p.combination.metal_node.name, p.combination.linker.name) for p in proposals]


def store_of(folder, frameworks, nets=()):
    knowledge = KnowledgeBase(folder, wait_s=30)
    made = known(((combination(*triple), status) for triple, status in frameworks), (NETS[name] for name in nets))
    knowledge.persist(*made.all())
    return KnowledgeBase(folder, wait_s=30)


class Rows:
    """Answers searches from memory: a process for each of the examples would take minutes."""

    def __init__(self, made: FrameworkEntities) -> None:
        import pyoxigraph

        self.store = pyoxigraph.Store()
        # As in every store, the default graph is what all runs say together.
        text = "".join(line.rpartition(" <")[0] + " .\n" for line in n_quads(describe(made.all()), "x:y").splitlines())
        self.store.load(input=text.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)

        self.names = {block_entity(each).block.iri: name for name, each in (NODES | LINKERS).items()}
        self.names |= {topology_entity(name).iri: name for name in NETS}

    def found(self, algorithm="recombine", **wanted):
        """Return topology, node and linker of each row."""
        query = search_query(algorithm, **wanted)
        return [tuple(self.names[term.value] for term in row) for row in self.store.query(query, prefixes=PREFIXES)]


def test_what_is_proven_on_a_topology_is_recombined(tmp_path):
    store = store_of(
        tmp_path,
        [
            (("bcu", "N1", "E1"), "built"),
            (("bcu", "N2", "E2"), "experimental"),
            (("reo", "N1", "E2"), "built"),
            (("tbo", "N3", "L3"), "experimental"),
        ],
    )
    assert names(combine(store)) == [("bcu", "N1", "E2"), ("bcu", "N2", "E1")]


def test_what_could_not_be_built_is_neither_proof_nor_proposed_again(tmp_path):
    store = store_of(
        tmp_path,
        [
            (("bcu", "N1", "E1"), "built"),
            (("bcu", "N2", "E2"), "built"),
            (("bcu", "N1", "E2"), "failed"),
            (("reo", "N1", "E1"), "failed"),
            (("reo", "N2", "E2"), "failed"),
        ],
    )
    assert names(combine(store)) == [("bcu", "N2", "E1")]


def test_roles_of_one_topology_are_not_swapped(tmp_path):
    # On pts a square is joined to a tetrahedron; which of them holds the metal differs between the two frameworks.
    store = store_of(tmp_path, [(("pts", "N3", "L5"), "built"), (("pts", "N5", "L4"), "built")], ["pts"])
    assert combine(store) == []
    assert combine(store, "roles") == []


def test_equivalent_roles_are_matched_across_topologies(tmp_path):
    frameworks = [(("bcu", "N1", "E1"), "experimental"), (("tbo", "N3", "L3"), "built"), (("pts", "N5", "L4"), "built")]
    store = store_of(tmp_path, frameworks, NETS)
    assert names(combine(store, "roles")) == [
        ("nbo", "N3", "E1"),
        ("reo", "N1", "E1"),
        ("tri", "N3", "E1"),
        ("twice", "N3", "L3"),
        ("two", "N3", "E1"),
        ("two", "N3", "L4"),
    ]
    # Of a topology whose roles are not known, nothing can be said.
    some = store_of(tmp_path / "some", frameworks, ["bcu", "tbo", "reo"])
    assert names(combine(some, "roles")) == [("reo", "N1", "E1")]


def test_a_linker_in_a_node_role_goes_where_that_role_is(tmp_path):
    frameworks = [(("tbo", "N3", "L3"), "built"), (("pts", "N5", "L4"), "built"), (("pts", "N3", "L5"), "failed")]
    nets = ["tbo", "pts", "nbo", "mix", "odd"]
    store = store_of(tmp_path, [*frameworks, (("tbo", "N4", "L3"), "failed")], nets)
    assert combine(store, "roles") == []
    more = store_of(tmp_path / "more", [*frameworks, (("nbo", "N4", "E1"), "built")], nets)
    assert names(combine(more, "roles")) == [("nbo", "N3", "E1"), ("tbo", "N4", "L3")]


def test_searches_are_narrowed(tmp_path):
    frameworks = [
        (("bcu", "N1", "E1"), "built"),
        (("bcu", "N2", "E2"), "built"),
        (("nbo", "N3", "E1"), "built"),
        (("nbo", "N4", "E2"), "built"),
    ]
    rows = Rows(known((combination(*triple), status) for triple, status in frameworks))
    every = [("bcu", "N1", "E2"), ("bcu", "N2", "E1"), ("nbo", "N3", "E2"), ("nbo", "N4", "E1")]
    assert rows.found() == every
    assert rows.found(topologies=["nbo", "fcu"]) == every[2:]
    assert rows.found(nodes=["N2", NODES["N3"].identifier]) == every[1:3]
    assert rows.found(metals=["Zn", "Hf"]) == every[1::2]
    assert rows.found(linkers=["E1"]) == every[1::2]
    assert rows.found(topologies=["bcu"], metals=["Zr"], linkers=["E2"]) == every[:1]
    assert rows.found(limit=3) == every[:3]
    assert rows.found(nodes=["N9"]) == []
    store = store_of(tmp_path, frameworks)
    narrow = {"topologies": ["bcu", "nbo"], "nodes": ["N2", "N3"], "metals": ["Hf", "Cu"], "linkers": ["E1", "E2"]}
    assert names(combine(store, **narrow, limit=2)) == every[1:3]


def test_one_iri_is_one_object(tmp_path):
    frameworks = [(("bcu", "N1", "E1"), "built"), (("bcu", "N2", "E2"), "built")]
    store = store_of(tmp_path, [*frameworks, (("bcu", "N2", "E1"), "built")], ["bcu", "reo"])
    found = combine(store, "roles")
    assert len(found) > 3
    for name in ("metal_node", "linker", "topology"):
        entities = [getattr(proposal, name) for proposal in found]
        assert len({id(entity) for entity in entities}) == len({entity.iri for entity in entities})
    nodes = {proposal.metal_node.iri: proposal.combination.metal_node for proposal in found}
    assert all(proposal.combination.metal_node is nodes[proposal.metal_node.iri] for proposal in found)
    again = combine(store, "roles")
    assert all(first.metal_node is second.metal_node for first, second in zip(found, again, strict=True))
    assert [first.combination for first in found] == [second.combination for second in again]


def test_coordinates_of_pormake_are_preferred(tmp_path):
    cut = block("AAA-node", "8-cube", graph=NODES["N1"].graph, kind="metal_node", symbols=("Zr", "O"))
    store = store_of(tmp_path, [(("bcu", "N1", "E1"), "built"), (("reo", "N2", "E2"), "built")])
    made = known([(Combination(topology="reo", metal_node=cut, linker=LINKERS["E1"]), "experimental")])
    store.persist(*made.all())
    assert names(combine(store)) == [("reo", "N1", "E2"), ("reo", "N2", "E1")]


def test_a_block_is_never_proposed_as_the_other_kind(tmp_path):
    both = block("N6", "4-square", graph="porphyrin", symbols=("Zn", "N"))
    linker = both.model_copy(update={"name": "L6", "kind": "organic_linker"})
    frameworks = [
        (Combination(topology="pts", metal_node=both, linker=LINKERS["L5"]), "built"),
        (Combination(topology="pts", metal_node=NODES["N5"], linker=linker), "built"),
    ]
    store = KnowledgeBase(tmp_path, wait_s=30)
    store.persist(*known(frameworks, [NETS["pts"], net("sqr", ("4-square", "4-square"), ((0, 1),))]).all())
    # It would be joined to itself.
    assert combine(store, "roles") == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\x00", "tab\t", "N1\\", "\\u0022 }"])
def test_what_can_be_no_name_is_refused(name):
    with pytest.raises(BadInput, match="not a name"):
        search_query(nodes=[name])


def test_wrong_requests_are_refused(tmp_path):
    store = KnowledgeBase(tmp_path, wait_s=30)
    with pytest.raises(BadInput, match="no element"):
        combine(store, metals=["Xx"])
    with pytest.raises(BadInput, match="limit"):
        combine(store, limit=0)
    with pytest.raises(BadInput, match="recombine, roles"):
        combine(store, "guess")
    assert combine(store) == combine(store, "roles") == []


STATUS = st.sampled_from(["built", "experimental", "failed"])
FRAMEWORKS = st.dictionaries(st.sampled_from(POSSIBLE), STATUS, max_size=12)


@given(FRAMEWORKS, st.sets(st.sampled_from(sorted(NETS))))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_searches_find_what_fits_and_does_not_exist_and_nothing_else(frameworks, nets):
    made = known(
        ((combination(*triple), status) for triple, status in frameworks.items()), (NETS[name] for name in nets)
    )
    rows = Rows(made)
    proven = [triple for triple, status in frameworks.items() if status != "failed"]

    def found(algorithm):
        answers = rows.found(algorithm, limit=1000)
        assert len(answers) == len(set(answers))
        return set(answers)

    # What a topology has not shown to go together is not guessed at: each was seen there with a block like the other.
    nodes_seen = {(topology, node, LINKERS[linker].connectivity) for topology, node, linker in proven}
    linkers_seen = {(topology, linker, NODES[node].connectivity) for topology, node, linker in proven}
    assert found("recombine") == {
        (topology, node, linker)
        for topology, node, linker in POSSIBLE
        if (topology, node, LINKERS[linker].connectivity) in nodes_seen
        and (topology, linker, NODES[node].connectivity) in linkers_seen
        and (topology, node, linker) not in frameworks
    }
    at_home = {name for topology, *pair in proven if topology in nets for name in pair}
    edges = {linker for _, _, linker in proven if LINKERS[linker].connectivity == 2}
    assert found("roles") == {
        t for t in POSSIBLE if t[0] in nets and t[1] in at_home and t[2] in (at_home | edges) and t not in frameworks
    }


@given(st.text(max_size=30), st.sampled_from(["topologies", "nodes", "linkers"]))
@settings(max_examples=200, deadline=None)
def test_no_name_becomes_part_of_a_query(name, place):
    try:
        found = ROWS_OF_TWO.found(**{place: [name]})
    except BadInput:
        return
    assert len(found) == (2 if name == "bcu" else 1 if name in ("N1", "N2", "E1", "E2") else 0)


@pytest.mark.parametrize("name", ['N1" } } #', 'bcu" "reo', "'; DROP ALL", '"^^<x>', "<http://x>", "🧪"])
def test_names_that_look_like_sparql_find_nothing_and_pass_the_gate(name):
    for place in ("topologies", "nodes", "linkers"):
        assert check_query(search_query("roles", **{place: [name]})) == "select"
        assert ROWS_OF_TWO.found(**{place: [name]}) == []


ROWS_OF_TWO = Rows(known([(combination("bcu", "N1", "E1"), "built"), (combination("bcu", "N2", "E2"), "built")]))
