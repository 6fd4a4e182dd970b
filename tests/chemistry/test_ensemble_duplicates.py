"""Duplicates after refinement: the published clusters, and independence of the order."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms, read_xyz
from grafico.atoms.superpose import heavy_rmsd
from grafico.chemistry.boltzmann import boltzmann_join
from grafico.chemistry.deduplicate import DuplicateRule, Refined, deduplicate
from grafico.units import KCAL_MOL_PER_HARTREE

DATA = Path(__file__).parent / "data"


def test_published_clusters_and_weights_of_merocyanine():
    published = json.loads((DATA / "merocyanine-water.json").read_text())
    refined = [
        Refined(f"conf-{number}", c["energy_hartree"], read_xyz(c["xyz"]), c["degeneracy"])
        for number, c in enumerate(published["conformers"])
    ]
    clusters = deduplicate(refined)
    expected = published["expected"]
    weights = boltzmann_join(
        [cluster.representative for cluster in clusters],
        [cluster.energy for cluster in clusters],
        temperature=published["temperature_kelvin"],
        degeneracies=[cluster.degeneracy for cluster in clusters],
    )
    for cluster, population, target in zip(clusters, weights, expected["clusters"], strict=True):
        assert len(cluster.members) == target["members"]
        assert cluster.degeneracy == target["degeneracy"]
        assert cluster.energy == target["energy_hartree"]
        assert population.relative == pytest.approx(target["relative_kcal_mol"], abs=1e-3)
        assert population.weight == pytest.approx(target["weight"], abs=expected["tolerance_weight"])


def chain(angle: float, *, mirrored: bool = False, turned: float = 0.0) -> ConceptualAtoms:
    """A four-carbon chain with a torsion angle, turned about z."""
    torsion = math.radians(angle)
    points = [
        (1.4, 1.4, 0.0),
        (0.0, 0.7, 0.0),
        (0.0, -0.8, 0.0),
        (1.4 * math.cos(torsion), -1.5, 1.4 * math.sin(torsion)),
    ]
    cos, sin = math.cos(turned), math.sin(turned)
    points = [(x * cos - y * sin, x * sin + y * cos, -z if mirrored else z) for x, y, z in points]
    return ConceptualAtoms(symbols=("C", "C", "C", "C"), positions=tuple(points))


conformers = st.lists(
    st.builds(
        lambda angle, level, turned, mirrored, count: (angle, level, turned, mirrored, count),
        st.sampled_from([0.0, 8.0, 60.0, 62.0, 120.0, 180.0]),
        st.integers(0, 8),
        st.floats(0, 6),
        st.booleans(),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=7,
)


@settings(deadline=None, max_examples=60)
@given(conformers, st.randoms(use_true_random=False))
def test_the_order_of_lanes_does_not_matter(drawn, random):
    refined = [
        Refined(
            f"c{n}", -100.0 + 0.02 * level / KCAL_MOL_PER_HARTREE, chain(angle, mirrored=mirrored, turned=turned), count
        )
        for n, (angle, level, turned, mirrored, count) in enumerate(drawn)
    ]
    shuffled = list(refined)
    random.shuffle(shuffled)
    first, second = deduplicate(refined), deduplicate(shuffled)
    assert first == second
    assert sum(cluster.degeneracy for cluster in first) == sum(r.degeneracy for r in refined)
    assert sorted(name for cluster in first for name in cluster.members) == sorted(r.id for r in refined)


def test_both_limits_must_hold():
    same_shape = [Refined("a", 0.0, chain(60)), Refined("b", 0.01, chain(60))]
    same_energy = [Refined("a", 0.0, chain(60)), Refined("b", 0.0, chain(180))]
    assert len(deduplicate(same_shape)) == 2
    assert len(deduplicate(same_energy)) == 2
    assert len(deduplicate([Refined("a", 0.0, chain(60)), Refined("b", 0.0, chain(60, turned=1.0))])) == 1


def test_the_representative_is_the_lowest_in_energy():
    step = 0.03 / KCAL_MOL_PER_HARTREE
    clusters = deduplicate([Refined("high", step, chain(60), 3), Refined("low", 0.0, chain(61), 4)])
    assert len(clusters) == 1
    assert (clusters[0].representative, clusters[0].members, clusters[0].degeneracy) == ("low", ("low", "high"), 7)


def test_mirror_images_are_one_conformer_unless_told_otherwise():
    pair = [Refined("a", 0.0, chain(60)), Refined("b", 0.0, chain(60, mirrored=True))]
    assert len(deduplicate(pair)) == 1
    assert len(deduplicate(pair, DuplicateRule(mirror=False))) == 2


def test_rmsd_looks_through_relabeled_atoms():
    straight = chain(60)
    reversed_ = straight.moved(tuple(reversed(straight.positions)))
    assert heavy_rmsd(straight, reversed_, mirror=False) == pytest.approx(0.0, abs=1e-6)
