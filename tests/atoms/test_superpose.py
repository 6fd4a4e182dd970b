"""Automorphisms and RMSD: known groups, and what rotations, relabelings and mirrors must not change."""

import itertools
import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms
from grafico.atoms.automorphisms import heavy_automorphisms, permutations_of_graph
from grafico.atoms.superpose import anchor_points, best_rmsd, heavy_rmsd, kabsch_rmsd, symmetry_operations
from grafico.errors import MoleculeError

CUBE = [(i, j) for i, j in itertools.combinations(range(8), 2) if (i ^ j).bit_count() == 1]


@pytest.mark.parametrize(
    ("labels", "edges", "order"),
    [
        (["C"] * 6, [(i, (i + 1) % 6) for i in range(6)], 12),
        (["C"] * 5, [(0, i) for i in range(1, 5)], 24),
        (["C"] * 8, CUBE, 48),
        (["C"] * 4, [(0, 1), (1, 2), (2, 3)], 2),
        (["C", "C", "C", "N"], [(0, 1), (1, 2), (2, 3)], 1),
        (["O"], [], 1),
        (["O", "O"], [], 2),
    ],
)
def test_automorphism_groups_have_their_known_order(labels, edges, order):
    found = permutations_of_graph(labels, edges)
    assert len(found) == order
    assert len(set(found)) == order
    assert found[0] == tuple(range(len(labels)))
    bonds = {frozenset(edge) for edge in edges}
    for permutation in found:
        assert {frozenset((permutation[i], permutation[j])) for i, j in edges} == bonds


def test_many_equal_molecules_do_not_explode():
    grid = [(3.0 * i, 3.0 * j, 0.0) for i in range(6) for j in range(6)]
    waters = ConceptualAtoms(symbols=("O",) * 36, positions=tuple(grid))
    assert len(heavy_automorphisms(waters, limit=100)) == 100


def rotation(a: float, b: float, c: float) -> numpy.ndarray:
    def about(axis: int, angle: float) -> numpy.ndarray:
        matrix = numpy.eye(3)
        i, j = [k for k in range(3) if k != axis]
        matrix[i, i] = matrix[j, j] = math.cos(angle)
        matrix[i, j], matrix[j, i] = -math.sin(angle), math.sin(angle)
        return matrix

    return about(0, a) @ about(1, b) @ about(2, c)


angles = st.floats(0, 2 * math.pi)
points = st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=1, max_size=8)


@settings(deadline=None)
@given(points, angles, angles, angles, st.floats(-10, 10))
def test_rotation_and_translation_leave_no_distance(cloud, a, b, c, shift):
    first = numpy.array(cloud)
    second = first @ rotation(a, b, c).T + shift
    assert kabsch_rmsd(first, second) < 1e-5


@settings(deadline=None)
@given(points, points)
def test_rmsd_is_symmetric_and_never_negative(one, two):
    size = min(len(one), len(two))
    first, second = numpy.array(one[:size]), numpy.array(two[:size])
    there, back = kabsch_rmsd(first, second), kabsch_rmsd(second, first)
    assert there >= 0
    assert there == pytest.approx(back, abs=1e-5)


def test_a_chiral_cloud_meets_its_mirror_image_only_when_allowed():
    cloud = numpy.array([(0, 0, 0), (1.5, 0, 0), (0, 1.2, 0), (0, 0, 0.9)])
    mirrored = cloud * [1, 1, -1]
    same = [tuple(range(4))]
    assert best_rmsd(cloud, mirrored, same) > 0.2
    assert best_rmsd(cloud, mirrored, same, mirror=True) < 1e-7


def test_methyl_hydrogens_do_not_make_shapes_differ():
    def methanol(turn: float) -> ConceptualAtoms:
        hydrogens = [
            (-0.36, 1.03 * math.cos(turn + k * 2 * math.pi / 3), 1.03 * math.sin(turn + k * 2 * math.pi / 3))
            for k in range(3)
        ]
        return ConceptualAtoms(
            symbols=("C", "O", "H", "H", "H", "H"),
            positions=((0.0, 0.0, 0.0), (1.42, 0.0, 0.0), *hydrogens, (1.75, 0.9, 0.0)),
        )

    first, permutations = anchor_points(methanol(0.0))
    turned, _ = anchor_points(methanol(2 * math.pi / 3))
    assert best_rmsd(first, turned, permutations) < 1e-6
    operations = symmetry_operations(methanol(math.pi))
    assert (operations.proper, operations.improper, operations.versions) == (1, 1, 1)


def test_other_molecules_cannot_be_compared():
    one = ConceptualAtoms(symbols=("C", "O"), positions=((0, 0, 0), (0, 0, 1.1)))
    two = ConceptualAtoms(symbols=("O", "C"), positions=((0, 0, 0), (0, 0, 1.1)))
    with pytest.raises(MoleculeError, match="same atoms"):
        heavy_rmsd(one, two)
