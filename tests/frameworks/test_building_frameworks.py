"""Frameworks that PORMAKE builds, and combinations that are refused."""

import hashlib
import subprocess
import sys

import numpy
import pytest
from block_support import another_view, built, combined, framework, refusal, star
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms, read_cif
from grafico.atoms.elements import hill_formula
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.errors import BadInput
from grafico.frameworks.assignment import assign
from grafico.frameworks.blocks import pormake_block
from grafico.frameworks.calculations.build import build, build_resources, built_cif, closest_contact, planned_atoms
from grafico.frameworks.parts import Combination
from grafico.frameworks.pormake_engine import load_pormake
from grafico.frameworks.steps import BuildInput
from grafico.frameworks.topologies import roles_of
from grafico.graphs import FolderArtifacts


def volume(structure):
    return abs(numpy.linalg.det(numpy.array(structure.cell)))


# The numbers of atoms and RMSD of both bcu frameworks are those of the paper's PORMAKE builds (El Agente Gráfico, arXiv
# 2602.17902) and of a rigid build with PORMAKE 0.2.3.
@pytest.mark.parametrize(("linker", "atoms"), [("E14", 156), ("E34", 236)])
def test_bcu_frameworks_have_the_published_numbers(tmp_path, linker, atoms):
    found, ctx = built(tmp_path, "bcu", "N625", linker)
    assert found.name == f"bcu_N625_{linker}"
    assert len(found.structure) == atoms
    assert found.rmsd == pytest.approx(0.1606, abs=5e-5)
    assert {"pormake", "jax", "scipy"} <= set(ctx.versions)


def test_irmof_1_is_built_in_its_primitive_cubic_net():
    # IRMOF-1: Zn4O(BDC)3; a = 25.67 Å with eight nodes (H. Li et al., Nature 402 (1999) 276), so 12.83 Å with one. The
    # blocks of PORMAKE are not relaxed: bonds of 1.54 Å in its ring make it larger.
    found = framework("pcu", "N16", "E14")
    assert hill_formula(found.structure.symbols) == "C24H12O13Zn4"
    assert found.rmsd == pytest.approx(0.0, abs=1e-4)
    assert volume(found.structure) ** (1 / 3) == pytest.approx(12.83, rel=0.04)


def test_hkust_1_has_its_linker_at_vertices():
    # HKUST-1, Cu3(BTC)2 without water: 16 formulas in a = 26.34 Å (S. S.-Y. Chui et al., Science 283 (1999) 1148).
    found = framework("tbo", "N409", "N10")
    assert len(found.structure) == 16 * 39
    assert hill_formula(found.structure.symbols) == hill_formula(["Cu"] * 48 + ["C"] * 288 + ["O"] * 192 + ["H"] * 96)
    assert volume(found.structure) ** (1 / 3) == pytest.approx(26.34, rel=0.04)


def test_the_fourth_framework_of_the_paper_is_built():
    found = framework("reo", "N625", "E34")
    assert len(found.structure) == 3 * 38 + 12 * 20
    assert found.rmsd < 0.05


def test_a_cif_of_it_reads_back_as_the_same_crystal():
    found = framework("bcu", "N625", "E14")
    text = built_cif(found)
    again = read_cif(text)
    assert again.symbols == found.structure.symbols
    assert volume(again) == pytest.approx(volume(found.structure), rel=1e-9)
    assert closest_contact(again).ratio == pytest.approx(found.shortest, rel=1e-6)
    assert text.startswith("data_bcu_N625_E14\n")


def test_each_atom_has_the_bonds_of_its_block_and_none_is_stretched():
    found = framework("pcu", "N16", "E14")
    # Bonds inside one node and three linkers, and six between them.
    inside = len(pormake_block("N16").bonds) + 3 * len(pormake_block("E14").bonds)
    assert len(found.bonds) == inside + 6
    assert {kind for _, _, kind in found.bonds} <= {"S", "D", "T", "A"}
    assert all(0 <= i < len(found.structure) and 0 <= j < len(found.structure) for i, j, _ in found.bonds)
    bonded = {index for i, j, _ in found.bonds for index in (i, j)}
    assert bonded == set(range(len(found.structure)))


SCRIPT = """
import hashlib, pathlib, sys, tempfile
from block_support import built
with tempfile.TemporaryDirectory() as folder:
    found, _ = built(pathlib.Path(folder), "bcu", "N625", "E14")
sys.stdout.write(hashlib.sha256(found.model_dump_json().encode()).hexdigest())
"""


def test_the_same_input_gives_the_same_bytes_also_in_another_process_which_it_leaves_tidy(tmp_path):
    first = framework("bcu", "N625", "E14").model_dump_json()
    second = built(tmp_path, "bcu", "N625", "E14")[0].model_dump_json()
    assert first == second
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=empty, capture_output=True, text=True, timeout=300, check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == hashlib.sha256(first.encode()).hexdigest()
    assert list(empty.iterdir()) == []


def test_an_rmsd_above_the_limit_is_refused_with_the_value(tmp_path):
    with pytest.raises(
        CalculationError, match=r"N625 does not fit bcu .* RMSD is 0\.1606, above the limit of 0\.15"
    ) as caught:
        built(tmp_path, "bcu", "N625", "E14", max_rmsd=0.15)
    refusal(caught.value)
    assert caught.value.details["rmsd"] == pytest.approx(0.1606, abs=5e-5)
    assert caught.value.details["max_rmsd"] == 0.15
    # A paddlewheel is square; the vertices of dia are tetrahedra, 0.606 away from a square.
    with pytest.raises(CalculationError, match=r"N409 does not fit dia at node type 0: its RMSD is 0\.606"):
        built(tmp_path, "dia", "N409", "E14")


@pytest.mark.parametrize(
    ("topology", "node", "linker", "message"),
    [
        ("bcu", "N16", "E14", "wants 8 docking points, N16 has 6"),
        ("pcu", "N16", "N10", "not every edge of this net"),
        ("fcu", "N625", "E14", "wants 12 docking points, N625 has 8"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(tmp_path, topology, node, linker, message):
    with pytest.raises(CalculationError, match=message) as caught:
        built(tmp_path, topology, node, linker)
    refusal(caught.value)


def test_an_unknown_topology_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="PORMAKE has no topology 'xyzzy'"):
        built(tmp_path, "xyzzy", "N16", "E14")
    value = BuildInput(combination=combined("xyzzy", "N16", "E14"))
    assert build_resources(value).memory_mib >= 1024


def test_atoms_that_clash_are_refused(tmp_path):
    # The shortest bond of this framework, C-H, is at 0.92 of the sum of radii.
    with pytest.raises(
        CalculationError, match=r"atoms clash; .* Å apart, 0\.9\d of the sum of their covalent radii"
    ) as caught:
        built(tmp_path, "pcu", "N16", "E14", min_distance=0.95)
    refusal(caught.value)
    assert caught.value.details["shortest"] < caught.value.details["min_distance"] == 0.95


def test_a_linker_whose_side_runs_into_the_node_is_a_clash(tmp_path):
    # Phenylene with an atom near where the carbon of a carboxylate of N16 will be: 0.75 Å beyond its docking point.
    whole = pormake_block("E14")
    point, anchor = whole.atoms.docking_points[0], whole.atoms.positions[whole.anchors[0]]
    beyond = tuple(p + 1.35 * (p - a) for p, a in zip(point, anchor, strict=True))
    linker = whole.model_copy(
        update={
            "name": "E14-with-a-spike",
            "atoms": whole.atoms.model_copy(
                update={"symbols": (*whole.atoms.symbols, "O"), "positions": (*whole.atoms.positions, beyond)}
            ),
        }
    )
    ctx = WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)
    value = BuildInput(combination=Combination(topology="pcu", metal_node=pormake_block("N16"), linker=linker))
    with pytest.raises(CalculationError, match=r"atoms clash; \w+\d+ and \w+\d+ are 0\.") as caught:
        build.function(value, ctx)
    refusal(caught.value)


def test_blocks_that_do_not_meet_are_refused_where_the_other_limits_let_them_pass(tmp_path):
    # Squares at the tetrahedra of pts: the net cannot be adjusted so that all docking points touch.
    with pytest.raises(CalculationError, match=r"do not meet; a bond between C and C would be 2\.6\d Å long") as caught:
        built(tmp_path, "pts", "N409", "N409", max_rmsd=2.0, min_distance=0.01)
    refusal(caught.value)
    assert caught.value.details["stretch"] > 1.6


@settings(max_examples=40, deadline=None)
@given(shift=st.tuples(*[st.floats(-30, 30)] * 3), axis=st.integers(0, 2), gap=st.floats(0.2, 2.0))
def test_contacts_are_found_across_the_boundary_of_the_cell_and_between_images(shift, axis, gap):
    cell = numpy.diag([9.0, 10.0, 11.0])
    first = numpy.array(shift)
    second = first + (numpy.eye(3)[axis] * (cell[axis, axis] - gap))
    structure = ConceptualAtoms(
        symbols=("C", "C"),
        positions=(tuple(first), tuple(second)),
        cell=tuple(map(tuple, cell)),
    )
    found = closest_contact(structure)
    assert found.distance == pytest.approx(gap, abs=1e-6)
    assert found.ratio == pytest.approx(gap / 1.52, abs=1e-6)  # radius of carbon: 0.76 Å (Cordero)
    lone = ConceptualAtoms(symbols=("C",), positions=(tuple(first),), cell=((1.0, 0, 0), (0, 9.0, 0), (0, 0, 9.0)))
    assert closest_contact(lone).distance == pytest.approx(1.0, abs=1e-6)


def test_a_framework_that_would_be_too_large_is_refused_before_it_is_built(tmp_path):
    with pytest.raises(CalculationError, match="would have 55488 atoms in its cell, more than 10000") as caught:
        built(tmp_path, "mtn-e-a", "N409", "E14")
    refusal(caught.value)
    assert caught.value.details == {"atoms": 55488, "max_atoms": 10_000}
    with pytest.raises(CalculationError, match="would have 53 atoms"):
        built(tmp_path, "pcu", "N16", "E14", max_atoms=52)
    assert len(built(tmp_path, "pcu", "N16", "E14", max_atoms=53)[0].structure) == 53


@pytest.mark.parametrize(
    ("topology", "node", "linker"), [("bcu", "N625", "E34"), ("tbo", "N409", "N10"), ("nbo", "N409", "E14")]
)
def test_the_number_of_atoms_is_known_beforehand(topology, node, linker):
    whole = combined(topology, node, linker)
    assignment = assign(topology, whole.metal_node, whole.linker)
    sizes = {"metal_node": len(whole.metal_node.atoms), "linker": len(whole.linker.atoms)}
    planned = planned_atoms(roles_of(topology), assignment, **sizes)
    assert planned == len(framework(topology, node, linker).structure)


def test_large_nets_are_given_more_time_and_memory():
    small = build_resources(BuildInput(combination=combined("bcu", "N625", "E14")))
    large = build_resources(BuildInput(combination=combined("mtn-e-a", "N409", "E14")))
    assert large.memory_mib > small.memory_mib
    assert large.walltime_s > small.walltime_s
    assert build.ladder[FailureKind.TIMEOUT]


# A dozen unlike combinations: each a framework or a typed refusal.
@pytest.mark.parametrize(
    ("topology", "node", "linker", "outcome"),
    [
        ("fcu", "N419", "E14", 4 * 50 + 24 * 10),
        ("csq", "N241", "N409", None),
        ("ftw", "N419", "N409", None),
        ("scu", "N241", "N409", None),
        ("pto", "N409", "N10", None),
        ("nbo", "N409", "E14", 6 * 14 + 12 * 10),
        ("pcu", "N16", "E49", None),
        ("acs", "N16", "E14", "RMSD is 0.4226"),
        ("sod", "N409", "E14", "RMSD is 0.5345"),
        ("pts", "N409", "N409", "RMSD is"),
        ("hex", "N16", "E14", "wants 8 docking points"),
        ("rht", "N409", "N10", "wants 24 docking points"),
    ],
)
def test_unlike_combinations_are_built_or_refused_for_a_reason(tmp_path, topology, node, linker, outcome):
    if isinstance(outcome, str):
        with pytest.raises(CalculationError, match=outcome) as caught:
            built(tmp_path, topology, node, linker)
        refusal(caught.value)
        return
    found = framework(topology, node, linker)
    assert outcome is None or len(found.structure) == outcome
    assert 0.6 <= found.shortest < 1.1
    assert found.rmsd <= 0.3
    assert numpy.isfinite(numpy.array(found.structure.positions)).all()


def test_a_block_from_elsewhere_builds_what_its_twin_of_pormake_builds(tmp_path):
    # The phenylene of a crystal lies anywhere and its atoms have another order.
    twin = another_view(pormake_block("E14"), seed=7)
    ctx = WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)
    value = BuildInput(combination=Combination(topology="pcu", metal_node=pormake_block("N16"), linker=twin))
    found = build.function(value, ctx)
    usual = framework("pcu", "N16", "E14")
    assert sorted(found.structure.symbols) == sorted(usual.structure.symbols)
    assert volume(found.structure) == pytest.approx(volume(usual.structure), rel=1e-4)


def test_what_pormake_cannot_do_is_an_engine_error(tmp_path, monkeypatch):
    def fails(*_arguments, **_options):
        raise Exception("MIN_RMSD is not correct.")  # noqa: TRY002 - as it does

    monkeypatch.setattr(load_pormake().Builder, "build_by_type", fails)
    with pytest.raises(
        CalculationError, match=r"PORMAKE cannot build pcu_N16_E14: MIN_RMSD is not correct\."
    ) as caught:
        built(tmp_path, "pcu", "N16", "E14")
    assert caught.value.kind is FailureKind.ENGINE_ERROR


def test_a_metal_with_few_atoms_and_a_tiny_linker_do_not_crash(tmp_path):
    # One zinc and one carbon: smaller than anything real; a result or a typed failure.
    octahedron = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    node = star(6, "zinc", metal=True, points=octahedron)
    linker = star(2, "carbon", metal=False, points=[(0.8, 0, 0), (-0.8, 0, 0)])
    ctx = WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path)
    found = build.function(BuildInput(combination=Combination(topology="pcu", metal_node=node, linker=linker)), ctx)
    assert len(found.structure) == 4
    assert volume(found.structure) ** (1 / 3) == pytest.approx(3.6, rel=1e-3)
