"""Impossible structures are refused; bonds and their changes are found."""

import pytest

from grafico.atoms import ConceptualAtoms, bond_changes, bonds, check_structure, electron_count, fragments
from grafico.errors import MoleculeError

WATER = ConceptualAtoms(
    symbols=("O", "H", "H"), positions=((0, 0, 0.119262), (0, 0.763239, -0.477047), (0, -0.763239, -0.477047))
)


def changed(**fields) -> ConceptualAtoms:
    return ConceptualAtoms(**{**WATER.model_dump(), **fields})


def test_water_passes_and_has_ten_electrons():
    check_structure(WATER)
    assert electron_count(WATER) == 10
    assert electron_count(changed(charge=1)) == 9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"multiplicity": 2}, "10 electrons .* cannot have the multiplicity 2"),
        ({"charge": 1}, "9 electrons"),
        ({"multiplicity": 13}, "10 electrons .* cannot have the multiplicity 13"),
        ({"charge": 10}, "no electrons"),
        ({"symbols": ("O", "H", "Q")}, "atom 3 is 'Q'"),
        ({"positions": ((0, 0, 0), (0, 0, 0.39), (0, 2, 0))}, r"atoms 1 \(O\) and 2 \(H\) are 0.390 Å apart"),
    ],
)
def test_impossible_structures_are_refused(fields, message):
    with pytest.raises(MoleculeError, match=message):
        check_structure(changed(**fields))


def test_bonds_follow_covalent_radii():
    assert bonds(WATER) == {(0, 1), (0, 2)}


def test_broken_and_made_bonds_are_told_with_names():
    moved = changed(positions=((0, 0, 0), (0, 0.763239, -0.6), (0, -3.0, 0)))
    changes = bond_changes(WATER, moved)
    assert changes
    assert changes.broken == ((0, 2),)
    assert changes.describe(WATER.symbols) == "broken O1-H3"
    assert bond_changes(moved, WATER).made == ((0, 2),)
    assert not bond_changes(WATER, WATER)


def test_a_distance_at_the_limit_changes_nothing():
    limit = 1.25 * (0.66 + 0.31)
    inside = changed(positions=((0, 0, 0), (0, 0, limit - 0.01), (0, 0.96, 0)))
    outside = changed(positions=((0, 0, 0), (0, 0, limit + 0.01), (0, 0.96, 0)))
    assert not bond_changes(inside, outside)
    assert not bond_changes(outside, inside)


def test_other_atoms_cannot_be_compared():
    with pytest.raises(MoleculeError, match="same atoms"):
        bond_changes(WATER, changed(symbols=("O", "H", "F")))


def test_fragments_are_the_molecules():
    pair = ConceptualAtoms(
        symbols=WATER.symbols * 2,
        positions=WATER.positions + tuple((x + 4, y, z) for x, y, z in WATER.positions),
    )
    assert fragments(pair) == ((0, 1, 2), (3, 4, 5))
