"""Conformer searches: what is found, what counts as one conformer, how often, and what is never mixed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms
from grafico.atoms.superpose import rotational_constants, symmetry_operations
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.chemistry.calculations.conformers import (
    EmbedInput,
    PruneInput,
    embed_conformers,
    prune_conformers,
    require_defined_stereo,
    stereoisomers,
)
from grafico.chemistry.calculations.xtb import XTBOptimizationInput, xtb_optimization
from grafico.chemistry.conformers import Candidate, PruneSettings, prune, relative_degeneracies, symmetry_degeneracy
from grafico.errors import MoleculeError
from grafico.graphs import FolderArtifacts


@pytest.fixture
def ctx(tmp_path):
    return WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)


def search(ctx, smiles, seeds, **rules):
    start = embed_conformers.function(EmbedInput(smiles=smiles, seeds=seeds), ctx)
    relaxed = []
    for candidate in start.candidates:
        found = xtb_optimization.function(XTBOptimizationInput(atoms=candidate.atoms), ctx)
        if not found.bonds:
            relaxed.append(candidate.model_copy(update={"atoms": found.atoms, "energy": found.energy}))
    return prune_conformers.function(
        PruneInput(candidates=tuple(relaxed), settings=PruneSettings(**rules), batches=5), ctx
    )


def test_glycolaldehyde_has_at_least_three_conformers(ctx):
    found = search(ctx, "OCC=O", 200, window=8.0)
    assert len(found.conformers) >= 3
    assert found.conformers[0].relative == 0.0
    assert found.conformers[0].degeneracy == 1
    assert sum(batch.new for batch in found.batches) == len(found.conformers)
    assert found.batches[-1].total == len(found.conformers)


def test_gauche_butane_counts_twice_and_anti_once(ctx):
    found = search(ctx, "CCCC", 30)
    anti, gauche = found.conformers
    assert (anti.degeneracy, gauche.degeneracy) == (1, 2)
    # GFN2-xTB: 0.6 kcal/mol, close to the experimental value.
    assert 0.3 < gauche.relative < 1.0


def test_the_same_seed_gives_the_same_structures(ctx):
    first = embed_conformers.function(EmbedInput(smiles="OCC=O", seeds=10), ctx)
    assert embed_conformers.function(EmbedInput(smiles="OCC=O", seeds=10), ctx) == first
    assert embed_conformers.function(EmbedInput(smiles="OCC=O", seeds=10, seed=1), ctx) != first


def test_a_structure_can_be_searched_without_its_smiles(ctx):
    start = embed_conformers.function(EmbedInput(smiles="OCC=O", seeds=3), ctx)
    atoms = start.candidates[0].atoms
    found = embed_conformers.function(EmbedInput(atoms=atoms, seeds=20), ctx)
    assert found.smiles == "O=CCO"
    assert all(candidate.atoms.symbols == atoms.symbols for candidate in found.candidates)


def test_elements_without_mmff_parameters_fall_back_to_uff(ctx):
    assert embed_conformers.function(EmbedInput(smiles="C[Se]CC", seeds=5), ctx).force_field == "UFF"


def test_open_stereocenters_are_listed_and_never_mixed(ctx):
    assert len(stereoisomers("CC1OC1CO")) == 4
    with pytest.raises(MoleculeError, match="any of 4 isomers: C"):
        require_defined_stereo("CC1OC1CO")
    with pytest.raises(MoleculeError, match="any of 2 isomers"):
        require_defined_stereo("CC=CC")
    with pytest.raises(CalculationError, match="stereocenters undefined") as caught:
        embed_conformers.function(EmbedInput(smiles="CC1OC1CO", seeds=5), ctx)
    assert caught.value.kind is FailureKind.BAD_INPUT


def test_all_embedded_structures_are_the_isomer_that_was_asked_for(ctx):
    from rdkit import Chem

    smiles = "C[C@H]1O[C@@H]1CO"
    require_defined_stereo(smiles)
    found = embed_conformers.function(EmbedInput(smiles=smiles, seeds=8), ctx)
    assert found.smiles == Chem.CanonSmiles(smiles)


def chain(angle: float, *, flip: bool = False) -> ConceptualAtoms:
    """Four heavy atoms with one torsion angle and no two alike."""
    torsion = math.radians(-angle if flip else angle)
    return ConceptualAtoms(
        symbols=("F", "C", "C", "Cl"),
        positions=(
            (1.3, 0.5, 0.0),
            (0.0, 0.0, 0.0),
            (0.0, -1.5, 0.0),
            (1.6 * math.cos(torsion), -2.1, 1.6 * math.sin(torsion)),
        ),
    )


MASSES = [18.998, 12.011, 12.011, 35.45]


def test_versions_of_a_geometry_are_counted_by_symmetry():
    assert symmetry_degeneracy(chain(180)) == 1
    assert symmetry_degeneracy(chain(60)) == 2
    assert symmetry_operations(chain(60)).improper == 0
    # Beside a free energy only the mirror image counts: its symmetry number is in the entropy already.
    assert symmetry_degeneracy(chain(180), rotation=False) == 1
    assert symmetry_degeneracy(chain(60), rotation=False) == 2
    assert relative_degeneracies([2, 4, 6]) == (1, 2, 3)


def test_mirror_images_are_rotamers_and_other_shapes_are_not():
    found = prune(
        [
            Candidate(id="plus", atoms=chain(60), energy=0.0),
            Candidate(id="minus", atoms=chain(60, flip=True), energy=1e-6),
            Candidate(id="anti", atoms=chain(180), energy=1e-6),
        ],
        MASSES,
    )
    assert [conformer.members for conformer in found.conformers] == [("plus", "minus"), ("anti",)]
    assert found.duplicates == 1


def test_window_and_limit_leave_conformers_out_and_say_so():
    candidates = [
        Candidate(id=f"c{number}", atoms=chain(angle), energy=number * 0.004)
        for number, angle in enumerate([180, 120, 60, 0])
    ]
    found = prune(candidates, MASSES, PruneSettings(window=6.0, limit=2))
    assert len(found.conformers) == 2
    assert (found.beyond_limit, found.above_window) == (1, 1)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 60, 61, 120, 180]), st.integers(0, 5), st.booleans()), min_size=1, max_size=7
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_candidates_does_not_matter(drawn, random):
    candidates = [
        Candidate(id=f"c{n}", atoms=chain(angle, flip=flip), energy=level * 1e-3, batch=n % 3)
        for n, (angle, level, flip) in enumerate(drawn)
    ]
    shuffled = list(candidates)
    random.shuffle(shuffled)
    assert prune(candidates, MASSES, batches=3) == prune(shuffled, MASSES, batches=3)


def test_rotational_constants_of_water_are_those_of_the_rigid_rotor():
    water = ConceptualAtoms(
        symbols=("O", "H", "H"), positions=((0, 0, 0.119262), (0, 0.763239, -0.477047), (0, -0.763239, -0.477047))
    )
    constants = rotational_constants(water, [15.99491, 1.007825, 1.007825])
    # At the G2 (MP2) geometry; experiment (ground state): 835.8, 435.4, 278.1 GHz.
    assert constants == pytest.approx([790, 432, 279], rel=0.02)
