"""Point groups of exact, distorted and optimized geometries."""

import random

import pytest
from ase import Atoms
from ase.build import molecule

from grafico.atoms import from_ase
from grafico.chemistry.symmetry import point_group, symmetry_number

GROUPS = {
    "H2O": ("C2v", 2),
    "NH3": ("C3v", 3),
    "CH4": ("Td", 12),
    "C6H6": ("D6h", 12),
    "CO2": ("D∞h", 2),
    "HCN": ("C∞v", 1),
    "C2H4": ("D2h", 4),
    "C2H6": ("D3d", 6),
    "BCl3": ("D3h", 6),
    "C3H4_D2d": ("D2d", 4),
    "H2O2": ("C2", 2),
    "CH3OH": ("Cs", 1),
    "H": ("K", 1),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("noise", [0.0, 1e-4, 3e-3])
def test_point_groups_are_found_through_the_noise_of_an_optimization(name, noise):
    atoms = from_ase(molecule(name))
    shake = random.Random(name).uniform
    shaken = atoms.moved(tuple(tuple(x + shake(-noise, noise) for x in p) for p in atoms.positions))
    group = point_group(shaken)
    assert (group, symmetry_number(group)) == GROUPS[name]


def octahedron(distance):
    axes = [
        (s * distance * (i == 0), s * distance * (i == 1), s * distance * (i == 2)) for i in range(3) for s in (1, -1)
    ]
    return from_ase(Atoms("SF6", positions=[(0, 0, 0), *axes]))


def test_cubic_groups():
    group = point_group(octahedron(1.56))
    assert (group, symmetry_number(group)) == ("Oh", 24)
    from ase.build import molecule as build

    fullerene = point_group(from_ase(build("C60")))
    assert (fullerene, symmetry_number(fullerene)) == ("Ih", 60)


def test_a_chiral_molecule_has_no_symmetry():
    chiral = Atoms(
        "CHFClBr", positions=[(0, 0, 0), (0.63, 0.63, 0.63), (-0.8, -0.8, 0.8), (-1.0, 1.0, -1.0), (1.1, -1.1, -1.1)]
    )
    assert point_group(from_ase(chiral)) == "C1"


def test_a_real_distortion_lowers_the_symmetry():
    atoms = from_ase(molecule("CH4"))
    stretched = list(atoms.positions)
    stretched[1] = tuple(1.2 * x for x in stretched[1])
    assert point_group(atoms.moved(tuple(stretched))) == "C3v"


@pytest.mark.parametrize(
    ("group", "number"),
    [
        ("C1", 1),
        ("Ci", 1),
        ("Cs", 1),
        ("C3", 3),
        ("C3v", 3),
        ("C2h", 2),
        ("S4", 2),
        ("D3", 6),
        ("D5h", 10),
        ("D2d", 4),
        ("T", 12),
        ("Ih", 60),
    ],
)
def test_symmetry_numbers(group, number):
    assert symmetry_number(group) == number
