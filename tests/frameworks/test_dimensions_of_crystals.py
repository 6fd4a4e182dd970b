"""In how many directions frameworks and voids go on."""

import itertools

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms, from_ase
from grafico.frameworks.dimensions import framework_dimensionality, voids_of


def diamond():
    from ase.build import bulk

    return from_ase(bulk("C", "diamond", 3.567))


def graphite():
    from ase.lattice.hexagonal import Graphite

    return from_ase(Graphite(symbol="C", latticeconstant={"a": 2.461, "c": 6.708}))


def polyyne():
    return ConceptualAtoms(
        symbols=("C", "C"),
        positions=((0, 0, 0), (0, 0, 1.21)),
        cell=((8.0, 0, 0), (1.0, 8.0, 0), (0, 0, 2.57)),
    )


def dry_ice():
    return ConceptualAtoms(
        symbols=("C", "O", "O"),
        positions=((0, 0, 0), (0, 0, 1.16), (0, 0, -1.16)),
        cell=((4.0, 0, 0), (0, 4.0, 0), (0, 0, 5.6)),
    )


@pytest.mark.parametrize(("crystal", "expected"), [(diamond, 3), (graphite, 2), (polyyne, 1), (dry_ice, 0)])
def test_dimensionality_of_the_bonded_network(crystal, expected):
    assert framework_dimensionality(crystal()) == expected


def test_it_is_that_of_the_framework_and_not_of_a_guest_in_it():
    guest, host = dry_ice(), polyyne()
    shifted = tuple((x + 4.0, y + 4.0, 0.1 * z) for x, y, z in guest.positions)
    both = host.model_copy(update={"symbols": (*host.symbols, "Xe"), "positions": (*host.positions, shifted[0])})
    assert framework_dimensionality(both) == 1


@pytest.mark.parametrize(("crystal", "expected"), [(diamond, 3), (graphite, 2), (polyyne, 1)])
def test_it_does_not_depend_on_the_cell(crystal, expected):
    """The lattice vectors of another cell are combinations of the old ones, and its atoms lie where they did."""
    atoms = crystal()
    a, b, c = (numpy.array(vector) for vector in atoms.cell)
    skewed = (tuple(a), tuple(b + 2 * a), tuple(c - a - b))
    assert framework_dimensionality(atoms.model_copy(update={"cell": skewed})) == expected


def test_a_bond_to_its_own_image_makes_a_chain():
    assert voids_of(1, [(0, 0, (1, 0, 0))]).channels == (1,)
    assert voids_of(1, [(0, 0, (1, 0, 0)), (0, 0, (-2, 0, 0))]).channels == (1,)
    assert voids_of(1, [(0, 0, (1, 1, 0)), (0, 0, (1, -1, 0))]).channels == (2,)


def test_channels_come_highest_first_and_pockets_are_counted():
    passages = [(0, 1, (0, 0, 0)), (1, 0, (0, 0, 1)), (2, 2, (1, 0, 0)), (2, 2, (0, 1, 0)), (3, 4, (1, 0, 0))]
    found = voids_of(6, passages)
    assert found.channels == (2, 1)
    assert found.pockets == 2


def test_nothing_has_no_voids():
    assert voids_of(0, []) == ((), 0)


SHIFT = st.tuples(*[st.integers(-2, 2)] * 3)


@st.composite
def networks(draw):
    count = draw(st.integers(1, 6))
    vertex = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(vertex, vertex, SHIFT), max_size=10))


@given(networks())
@settings(deadline=None)
def test_it_agrees_with_linear_algebra(network):
    """The cycles are the left null space of the incidence matrix; their shifts add as much to its rank as they span."""
    count, passages = network
    left, dimensions = set(range(count)), []
    while left:
        part = {min(left)}
        while more := {v for i, j, _ in passages for v in (i, j) if {i, j} & part} - part:
            part |= more
        left -= part
        rows = [[(j == v) - (i == v) for v in sorted(part)] + list(shift) for i, j, shift in passages if i in part] or [
            [0] * (len(part) + 3)
        ]
        matrix = numpy.array(rows)
        ranks = [numpy.linalg.matrix_rank(piece) for piece in (matrix, matrix[:, : len(part)])]
        dimensions.append(int(ranks[0] - ranks[1]))
    found = voids_of(count, passages)
    assert sorted((*found.channels, *[0] * found.pockets)) == sorted(dimensions)


@given(networks(), st.permutations(range(6)), st.data())
@settings(deadline=None)
def test_neither_order_nor_direction_nor_the_choice_of_cells_matters(network, order, data):
    count, passages = network
    names = [place for place in order if place < count]
    moved = [data.draw(SHIFT) for _ in range(count)]
    other = []
    for (i, j, shift), turned in zip(reversed(passages), itertools.cycle((True, False))):
        there = tuple(x + a - b for x, a, b in zip(shift, moved[i], moved[j], strict=True))
        first, second = names.index(i), names.index(j)
        other.append((second, first, tuple(-x for x in there)) if turned else (first, second, there))
    assert voids_of(count, other) == voids_of(count, passages)
