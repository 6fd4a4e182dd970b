"""Names of arrangements, which must not depend on how a block lies, is numbered, or was distorted in a crystal."""

import numpy
import pytest
from block_support import rotation
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.frameworks.blocks import list_blocks, pormake_block, to_pormake
from grafico.frameworks.pormake_engine import load_pormake
from grafico.frameworks.shapes import (
    IRREGULAR_ABOVE,
    direction_rmsd,
    exit_shape,
    ideal_shapes,
    paired_rmsd,
    shape_of,
    unit_directions,
)

COUNTS = (3, 4, 5, 6, 7, 8, 9, 10, 12, 24)
IDEALS = [(count, name) for count in COUNTS for name in ideal_shapes(count)]
SEEDS = st.integers(0, 2**32 - 1)


def test_every_ideal_has_its_number_of_points_all_different():
    for count, name in IDEALS:
        points = ideal_shapes(count)[name]
        assert points.shape == (count, 3)
        assert numpy.linalg.norm(points, axis=1) == pytest.approx(1.0)
        apart = numpy.linalg.norm(points[:, None] - points[None], axis=-1) + 9 * numpy.eye(count)
        assert apart.min() > 0.25


# Angles between neighbors at the center of the solid, from its geometry.
@pytest.mark.parametrize(
    ("name", "angle"),
    [
        ("4-tetrahedron", 109.4712),
        ("6-octahedron", 90.0),
        ("8-cube", 70.5288),
        ("12-cuboctahedron", 60.0),
        ("12-icosahedron", 63.4349),
        ("4-square", 90.0),
        ("3-triangle", 120.0),
    ],
)
def test_ideals_are_the_solids_they_are_named_after(name, angle):
    points = ideal_shapes(int(name.partition("-")[0]))[name]
    cosines = points @ points.T - 9 * numpy.eye(len(points))
    assert numpy.degrees(numpy.arccos(cosines.max(axis=1))) == pytest.approx(angle, abs=1e-3)


@settings(max_examples=120, deadline=None)
@given(ideal=st.sampled_from(IDEALS), seed=SEEDS, scale=st.floats(0.1, 50.0))
def test_a_shape_keeps_its_name_turned_shuffled_scaled_and_a_few_degrees_off(ideal, seed, scale):
    count, name = ideal
    random = numpy.random.default_rng(seed)
    points = ideal_shapes(count)[name]
    # Each component by 0.035: directions are off by some 3 degrees as a rule, the worst by 8.
    found = random.permutation(points + random.normal(scale=0.035, size=points.shape)) @ rotation(random)
    assert shape_of(scale * found + random.normal(size=3)) == name


@settings(max_examples=60, deadline=None)
@given(count=st.integers(3, 12), seed=SEEDS)
def test_the_rmsd_is_that_of_directions_and_not_of_their_order_or_orientation(count, seed):
    random = numpy.random.default_rng(seed)
    points = unit_directions(random.normal(size=(count, 3)))
    turned = random.permutation(points) @ rotation(random)
    assert direction_rmsd(points, turned) == pytest.approx(0.0, abs=1e-6)
    assert shape_of(points) == shape_of(turned)
    assert paired_rmsd(points, points @ rotation(random)) == pytest.approx(0.0, abs=1e-6)


def test_a_node_on_a_cube_has_the_published_rmsd():
    # reference/mof.yaml, rigid bcu_N625: 0.1606, from PORMAKE's Locator. Vertices of bcu are cubes.
    points = unit_directions(pormake_block("N625").atoms.docking_points)
    assert direction_rmsd(ideal_shapes(8)["8-cube"], points) == pytest.approx(0.1606, abs=5e-5)


@pytest.mark.parametrize("name", ["N409", "N10", "N16", "N241", "N419", "N21", "N111"])
def test_the_rmsd_is_no_worse_than_what_pormake_finds(name):
    pormake = load_pormake()
    theirs = to_pormake(pormake_block(name)).local_structure()
    for ideal in ideal_shapes(len(theirs.positions)).values():
        target = pormake.local_structure.LocalStructure(ideal, range(len(ideal)))
        found = pormake.Locator().calculate_rmsd(target, to_pormake(pormake_block(name)), max_n_slices=4)
        assert direction_rmsd(target.positions, theirs.positions) <= found + 1e-4


def test_points_unlike_any_ideal_are_irregular():
    # All within a narrow cone about an axis and one opposite: no solid of six vertices.
    cone = [(0.2 * numpy.cos(a), 0.2 * numpy.sin(a), 1.0) for a in numpy.arange(5) * 1.2566]
    name = shape_of([*cone, (0.0, 0.0, -3.0)])
    assert name.startswith("6-irregular:")
    assert name == shape_of([(0.0, 0.0, -3.0), *reversed(cone)])
    directions = unit_directions([*cone, (0.0, 0.0, -3.0)])
    assert all(direction_rmsd(directions, ideal) > IRREGULAR_ABOVE for ideal in ideal_shapes(6).values())


def test_numbers_without_ideals_are_irregular_and_few_points_have_names():
    assert shape_of(numpy.random.default_rng(1).normal(size=(11, 3))).startswith("11-irregular:")
    assert shape_of([(1.0, 0.0, 0.0)]) == "1-end"
    assert shape_of([]) == "0-none"
    assert shape_of([(0.0, 0.0, 0.0)] * 4).startswith("4-irregular:")
    assert shape_of([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)]).startswith("3-")


@pytest.mark.parametrize(("angle", "shape"), [(180, "2-linear"), (170, "2-linear"), (150, "2-bent"), (120, "2-bent")])
def test_two_bonds_are_linear_or_bent(angle, shape):
    turn = numpy.radians(angle)
    assert exit_shape([(1.0, 0.0, 0.0), (2 * numpy.cos(turn), 2 * numpy.sin(turn), 0.0)]) == shape


def test_all_blocks_of_pormake_have_a_shape_with_their_number_of_docking_points():
    for entry in list_blocks()[::23]:
        assert pormake_block(entry.name).shape.partition("-")[0] == str(entry.connectivity)
