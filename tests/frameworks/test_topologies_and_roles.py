"""What roles the vertices of nets are, and which block plays which."""

import functools
import itertools

import numpy
import pytest
from block_support import star
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.calculations import CalculationError, FailureKind
from grafico.errors import BadInput
from grafico.frameworks.assignment import assign, misfit
from grafico.frameworks.blocks import pormake_block
from grafico.frameworks.nets import NetError, read_net
from grafico.frameworks.pormake_engine import pormake_folder
from grafico.frameworks.topologies import pormake_roles, roles_of, topology_names

# Files that give the middles of edges only, or contradict themselves.
BROKEN = ("bcu-b", "cds-b", "eta-c", "koh", "lcw_component_3", "llw-z", "mhq")


# RCSR (M. O'Keeffe et al., Acc. Chem. Res. 41 (2008) 1782; rcsr.net): space group, and coordination figure and number of
# vertices in the conventional cell.
@pytest.mark.parametrize(
    ("name", "space_group", "nodes"),
    [
        ("pcu", "Pm-3m", [("6-octahedron", 1)]),
        ("bcu", "Im-3m", [("8-cube", 2)]),
        ("fcu", "Fm-3m", [("12-cuboctahedron", 4)]),
        ("reo", "Pm-3m", [("8-cube", 3)]),
        ("nbo", "Im-3m", [("4-square", 6)]),
        ("acs", "P63/mmc", [("6-prism", 2)]),
        ("srs", "I4132", [("3-triangle", 8)]),
        ("tbo", "Fm-3m", [("3-triangle", 32), ("4-square", 24)]),
        ("pts", "P42/mmc", [("4-square", 2), ("4-tetrahedron", 2)]),
        ("rht", "Fm-3m", [("3-triangle", 32), ("24-rhombicuboctahedron", 4)]),
        ("ftw", "Pm-3m", [("4-square", 3), ("12-cuboctahedron", 1)]),
        ("scu", "P4/mmm", [("4-square", 2), ("8-cube", 1)]),
    ],
)
def test_nets_are_what_rcsr_says(name, space_group, nodes):
    found = roles_of(name)
    assert (found.name, found.space_group) == (name, space_group)
    assert sorted((role.shape, role.slots) for role in found.nodes) == sorted(nodes)
    assert all(role.shape.startswith(f"{role.connectivity}-") for role in found.nodes)


def test_all_nets_count_each_edge_at_both_of_its_ends():
    names = topology_names()
    assert len(names) == 2404  # files in PORMAKE 0.2.3
    for name in names[::4]:
        try:
            net = read_net(pormake_folder() / "topologies" / f"{name}.cgd")
        except NetError:
            assert name in BROKEN
            continue
        ends = [0] * len(net.vertices)
        for low, high, count in net.edges:
            ends[low] += count
            ends[high] += count
        assert ends == [vertex.slots * vertex.connectivity for vertex in net.vertices], name
        assert all(len(vertex.neighbors) == vertex.connectivity for vertex in net.vertices)


@pytest.mark.parametrize("name", ["bcu", "abf", "soc", "koh"])
def test_nets_are_read_as_pormake_reads_them(name):
    assert roles_of(name) == pormake_roles(name)


def test_unknown_and_broken_nets_are_refused():
    with pytest.raises(BadInput, match="PORMAKE has no topology 'BCU'") as caught:
        roles_of("BCU")
    assert "bcu" in caught.value.hint
    with pytest.raises(BadInput, match="no topology"):
        roles_of("../bbs/N16")
    # Its file is empty of vertices.
    with pytest.raises(BadInput, match="cannot read its file"):
        roles_of("lcw_component_3")


def test_a_cgd_file_that_contradicts_itself_is_told(tmp_path):
    text = (pormake_folder() / "topologies" / "bcu.cgd").read_text()
    for broken, message in (
        (text.replace("NODE 1 8", "NODE 1 6"), "vertex 0 has 8 edges, but is said to have 6"),
        (text.replace("Im-3m", "Xx-3m"), "space group 'Xx-3m' is not known"),
        (text.replace("CELL 1.15470", "CELL -1.0"), "three lengths and three angles"),
        (text.replace("NODE", "KNOT"), "lacks vertices"),
        ("", "lacks vertices"),
    ):
        (tmp_path / "odd.cgd").write_text(broken)
        with pytest.raises(NetError, match=message):
            read_net(tmp_path / "odd.cgd")


def block(name):
    return pormake_block(name)


def test_a_linker_with_two_docking_points_lies_on_every_edge():
    found = assign("bcu", block("N625"), block("E14"))
    assert found.linker_on_edges
    assert found.nodes == {0: "metal_node"}


def test_a_linker_with_more_is_at_vertices():
    # HKUST-1: benzenetricarboxylate at the triangles, paddlewheels at the squares.
    found = assign("tbo", block("N409"), block("N10"))
    assert not found.linker_on_edges
    shapes = {role.index: role.shape for role in roles_of("tbo").nodes}
    assert {shapes[index]: kind for index, kind in found.nodes.items()} == {
        "4-square": "metal_node",
        "3-triangle": "organic_linker",
    }
    assert found.roles("metal_node") != found.roles("organic_linker")


# pts has a square and a tetrahedron, both of four: only the RMSD tells which block is which.
@pytest.mark.parametrize("metal_is_square", [True, False])
def test_equal_numbers_of_docking_points_are_settled_by_how_well_they_fit(metal_is_square):
    square = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)]
    tetrahedron = [(0.6, 0.6, 0.6), (0.6, -0.6, -0.6), (-0.6, 0.6, -0.6), (-0.6, -0.6, 0.6)]
    metal = star(4, "metal", metal=True, points=square if metal_is_square else tetrahedron)
    linker = star(4, "linker", metal=False, points=tetrahedron if metal_is_square else square)
    found = assign("pts", metal, linker)
    shapes = {role.index: role.shape for role in roles_of("pts").nodes}
    assert {kind: shapes[index] for index, kind in found.nodes.items()} == {
        "metal_node": "4-square" if metal_is_square else "4-tetrahedron",
        "organic_linker": "4-tetrahedron" if metal_is_square else "4-square",
    }
    assert (
        max(fit.rmsd for fit in misfit("pts", found.nodes, metal, linker)) < 0.2
    )  # the vertices of pts are no perfect tetrahedra


@pytest.mark.parametrize(
    ("topology", "node", "linker", "message"),
    [
        ("bcu", "N16", "E14", r"bcu does not take N16: node type 0 \(8-cube\) wants 8 docking points, N16 has 6"),
        ("pcu", "N16", "N10", "pcu does not take the linker N10, which has 3 docking points .* not every edge"),
        ("tbo", "N16", "N10", r"node type 1 \(4-square\) wants 4 docking points, N16 has 6"),
        ("tbo", "N409", "E14", r"node type 0 \(3-triangle\) wants 3 docking points, N409 has 4"),
        ("pcu", "E14", "E14", "E14 has 2 docking points; a metal node needs at least 3"),
    ],
)
def test_a_block_that_does_not_fit_is_refused_with_the_role_that_it_does_not_fit(topology, node, linker, message):
    with pytest.raises(CalculationError, match=message) as caught:
        assign(topology, block(node), block(linker))
    assert caught.value.kind is FailureKind.REFUSED
    assert caught.value.details == {"topology": topology}


@functools.cache
def small_nets():
    """Nets with few kinds of vertices, so that all ways of giving them to two blocks can be tried."""
    found = []
    for name in topology_names()[::7]:
        text = (pormake_folder() / "topologies" / f"{name}.cgd").read_text()
        if "EDGE " in text and text.count("NODE") <= 7 and name not in BROKEN:
            found.append(name)
    return found


def test_kinds_of_vertices_keep_their_order_whichever_way_the_net_is_walked():
    found = assign("qom", star(3, "m", metal=True), star(6, "l", metal=False))
    assert list(found.nodes) == [role.index for role in roles_of("qom").nodes]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), metal=st.integers(3, 12), linker=st.integers(2, 12))
def test_blocks_are_assigned_exactly_where_trying_all_ways_finds_one(data, metal, linker):
    name = data.draw(st.sampled_from(small_nets()))
    roles = roles_of(name)
    if data.draw(st.booleans()):
        # Numbers that occur in the net, or nearly nothing would fit.
        numbers = sorted({role.connectivity for role in roles.nodes})
        metal = data.draw(st.sampled_from(numbers))
        linker = data.draw(st.sampled_from([2, *numbers]))
    blocks = {"metal_node": star(metal, "m", metal=True), "organic_linker": star(linker, "l", metal=False)}

    def allowed(way):
        kinds = {role.index: kind for role, kind in zip(roles.nodes, way, strict=True)}
        if any(role.connectivity != blocks[kinds[role.index]].connectivity for role in roles.nodes):
            return False
        if linker == 2:
            return set(way) == {"metal_node"}
        return all(kinds[edge.nodes[0]] != kinds[edge.nodes[1]] for edge in roles.edges)

    ways = [way for way in itertools.product(blocks, repeat=len(roles.nodes)) if allowed(way)]
    if not ways:
        with pytest.raises(CalculationError) as caught:
            assign(name, blocks["metal_node"], blocks["organic_linker"])
        assert caught.value.kind is FailureKind.REFUSED
        return
    found = assign(name, blocks["metal_node"], blocks["organic_linker"])
    assert tuple(found.nodes.values()) in ways
    assert found.linker_on_edges == (linker == 2)
    fits = misfit(name, found.nodes, blocks["metal_node"], blocks["organic_linker"])
    assert all(0 <= fit.rmsd <= 2 and numpy.isfinite(fit.rmsd) for fit in fits)
