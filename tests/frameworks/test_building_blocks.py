"""PORMAKE's building blocks, and blocks cut from crystals that are the same."""

import subprocess
import sys

import numpy
import pytest
from block_support import another_view, framework
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import write_cif
from grafico.errors import BadInput
from grafico.frameworks.blocks import (
    block_from_fragment,
    list_blocks,
    make_block,
    pormake_block,
    pormake_name,
    to_pormake,
)
from grafico.frameworks.molecular_graph import block_bonds, graph_digest
from grafico.frameworks.pormake_engine import load_pormake


# What these identifiers are is said in PORMAKE's paper and tutorials (N409: copper paddlewheel, N16: the zinc oxide
# cluster of IRMOF-1, N10: benzene-1,3,5-triyl, E14: 1,4-phenylene); N625 is read from the file: six Hf, eight docking points.
@pytest.mark.parametrize(
    ("name", "kind", "formula", "shape"),
    [
        ("N16", "metal_node", "C6O13Zn4X6", "6-octahedron"),
        ("N409", "metal_node", "C4Cu2O8X4", "4-square"),
        ("N625", "metal_node", "C8Hf6O24X8", "8-cube"),
        ("N10", "organic_linker", "C6H3X3", "3-triangle"),
        ("E14", "organic_linker", "C6H4X2", "2-linear"),
    ],
)
def test_known_blocks_are_what_they_are_called(name, kind, formula, shape):
    block = pormake_block(name)
    assert (block.name, block.kind, block.shape) == (name, kind, shape)
    assert block.graph.partition("-")[0] == formula
    assert block.connectivity == int(shape.partition("-")[0])
    assert "X" not in block.atoms.symbols


def test_docking_points_lie_half_way_along_bonds():
    # A usual C-C bond has 1.54 Å in E14's file.
    block = pormake_block("E14")
    for point, anchor in zip(block.atoms.docking_points, block.anchors, strict=True):
        assert numpy.linalg.norm(numpy.subtract(point, block.atoms.positions[anchor])) == pytest.approx(0.76, abs=0.02)


def test_the_list_has_all_blocks_and_says_what_they_are():
    listed = list_blocks()
    assert len(listed) == 867  # files in PORMAKE 0.2.3
    chosen = {entry.name: entry for entry in listed}
    assert chosen["N241"].metals == ("Zr",)
    assert chosen["N241"].kind == "metal_node"
    assert chosen["E14"].formula == "C6H4"
    assert [entry.name for entry in listed[:3]] == ["E1", "E2", "E3"]
    for name in ("N16", "E14", "N210", "N650"):
        block = pormake_block(name)
        assert (chosen[name].kind, chosen[name].connectivity) == (block.kind, block.connectivity)


@pytest.mark.parametrize(
    ("name", "alike"), [("n16", "N16"), ("N6250", "N625"), ("E9999", "E"), ("../bbs/N16", "N"), ("", "N")]
)
def test_an_unknown_block_is_refused_with_the_ones_like_it(name, alike):
    with pytest.raises(BadInput, match="PORMAKE has no building block") as caught:
        pormake_block(name)
    assert alike in caught.value.hint


# N210 has its docking points among the atoms.
@pytest.mark.parametrize("name", ["N625", "E14", "N409", "N210", "N16"])
def test_a_block_goes_back_to_pormake_as_it_was(name):
    theirs = load_pormake().Database().get_building_block(name)
    ours = to_pormake(pormake_block(name))
    assert ours.name == name
    order = [index for index, symbol in enumerate(theirs.atoms.symbols) if symbol != "X"]
    order += list(theirs.connection_point_indices)
    assert list(ours.atoms.symbols) == [theirs.atoms.symbols[index] for index in order]
    assert (ours.atoms.positions == theirs.atoms.positions[order]).all()
    number = {old: new for new, old in enumerate(order)}

    def bonds(block, renumber):
        pairs = zip(block.bonds.tolist(), block.bond_types, strict=True)
        return sorted((*sorted(renumber(index) for index in pair), kind) for pair, kind in pairs)

    assert bonds(ours, int) == bonds(theirs, number.__getitem__)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(["E14", "E202", "N10", "N409", "N241", "N16", "N419"]), seed=st.integers(0, 2**32 - 1))
def test_a_block_is_recognized_however_it_lies_and_is_numbered_and_shaken(name, seed):
    found = another_view(pormake_block(name), seed, noise=0.02)
    assert found.identifier == pormake_block(name).identifier
    assert pormake_name(found) == name


def test_isomers_are_told_apart():
    # 1,4-, 1,3- and 1,2-phenylene from the same ring: hydrogen and docking point exchanged.
    ring = numpy.array([[numpy.cos(angle), numpy.sin(angle), 0.0] for angle in numpy.arange(6) * numpy.pi / 3])
    found = []
    for other in (1, 2, 3):
        hydrogens = [index for index in range(6) if index not in (0, other)]
        found.append(
            make_block(
                f"1,{other + 1}-phenylene",
                ["C"] * 6 + ["H"] * 4,
                [*(1.39 * ring), *(2.48 * ring[hydrogens])],
                2.14 * ring[[0, other]],
            )
        )
    assert len({block.graph for block in found}) == 3
    assert [block.shape for block in found] == ["2-bent", "2-bent", "2-linear"]
    assert found[2].identifier == pormake_block("E14").identifier


def test_the_digest_does_not_change_between_versions():
    # Written down from the first version: whoever changes it gives every block in every knowledge base another identity.
    assert pormake_block("E14").graph == "C6H4X2-b9780fa27e619800"
    assert pormake_block("N16").graph == "C6O13Zn4X6-f5dbe427daaa190a"


def test_the_carbon_of_a_chelating_carboxylate_is_not_bonded_to_the_metal():
    # Zinc acetate-like: Zn-O 2.10, O-C 1.27 Å, O-C-O 120°; the carbon is 2.47 Å from zinc, at 1.25 of the radii.
    symbols = ["Zn", "O", "O", "C"]
    positions = [(0.0, 0.0, 0.0), (1.10, 1.79, 0.0), (-1.10, 1.79, 0.0), (0.0, 2.42, 0.0)]
    assert block_bonds(symbols, positions) == ((0, 1), (0, 2), (1, 3), (2, 3))
    closer = [(0.0, 0.0, 0.0), (1.10, 1.60, 0.0), (-1.10, 1.60, 0.0), (0.0, 2.20, 0.0)]
    assert (0, 3) not in block_bonds(symbols, closer)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_the_digest_is_that_of_the_graph_and_not_of_its_numbering(data):
    size = data.draw(st.integers(1, 12))
    symbols = data.draw(st.lists(st.sampled_from("CNO"), min_size=size, max_size=size))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1])
    bonds = sorted(data.draw(st.sets(pairs, max_size=20))) if size > 1 else []
    anchors = data.draw(st.lists(st.integers(0, size - 1), max_size=4))
    order = data.draw(st.permutations(range(size)))
    place = {old: new for new, old in enumerate(order)}
    same = graph_digest(
        [symbols[index] for index in order],
        [(place[i], place[j]) for i, j in reversed(bonds)],
        [place[index] for index in reversed(anchors)],
    )
    assert same == graph_digest(symbols, bonds, anchors)
    assert graph_digest(symbols, bonds, [*anchors, 0]) != same
    if bonds:
        assert graph_digest(symbols, bonds[1:], anchors) != same


def test_what_pormake_builds_and_takes_apart_again_are_the_blocks_it_was_built_from(tmp_path):
    load_pormake()
    from pormake.experimental.decomposer import MOFDecomposer

    found = framework("pcu", "N16", "E14")
    (tmp_path / "irmof-1.cif").write_text(write_cif(found.structure))
    parts = MOFDecomposer(tmp_path / "irmof-1.cif").building_blocks
    names = [pormake_name(block_from_fragment("cut", part)) for part in parts]
    assert sorted(names) == ["E14", "E14", "E14", "N16"]


def test_a_fragment_whose_mark_hangs_on_nothing_is_refused():
    from ase import Atoms

    with pytest.raises(BadInput, match=r"a docking point of wrong is 3\.00 Å from the nearest atom"):
        block_from_fragment("wrong", Atoms("CCX", positions=[(0, 0, 0), (1.5, 0, 0), (4.5, 0, 0)]))
    with pytest.raises(BadInput, match="2 atoms and 0 docking points"):
        block_from_fragment("closed", Atoms("CC", positions=[(0, 0, 0), (1.5, 0, 0)]))


def test_a_block_that_pormake_does_not_have_has_no_name():
    found = make_block("odd", ["Zn", "Cl"], [(0, 0, 0), (2.2, 0, 0)], [(-1, 0, 0), (0, 1, 0), (0, -1, 0)])
    assert found.kind == "metal_node"
    assert pormake_name(found) is None


def test_loading_pormake_leaves_no_log_and_says_nothing(tmp_path):
    script = (
        "import logging; before = logging.FileHandler\n"
        "from grafico.frameworks.pormake_engine import load_pormake\n"
        "from grafico.frameworks.blocks import pormake_block, to_pormake\n"
        "load_pormake(); to_pormake(pormake_block('E14'))\n"
        "import jax; assert jax.default_backend() == 'cpu'\n"
        "assert logging.FileHandler is before\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
