"""Crystals taken apart: their net, their metal node and their linker, or what is told of why not.

Nets and blocks of the three refcodes are those of the paper's first stage (El Agente Gráfico, arXiv 2602.17902); MOF-5 is a
primitive cubic net of Zn4O(CO2)6 and 1,4-phenylene (H. Li et al., Nature 402 (1999) 276; M. Eddaoudi et al., Science 295
(2002) 469). UiO-66's node with eight linkers, Zr6, is that of all three refcodes.
"""

import logging
import signal
import sys
import threading
import time
import warnings
from typing import Any

import pytest
from cif_support import IRMOF_1, added, cif, cif_of, cut, cut_of, mof5, refused, toy

from grafico.atoms import ConceptualAtoms, from_ase, read_cif, to_ase
from grafico.atoms.elements import hill_formula
from grafico.calculations import CalculationError, FailureKind
from grafico.frameworks.cleaning import clean, read_structure
from grafico.frameworks.cutting import cut_framework
from grafico.frameworks.kinds import unique_fragments
from grafico.frameworks.parts import BuildingBlock
from grafico.frameworks.periodic import parts_of, translation_basis
from grafico.frameworks.quiet import OutOfTime, quiet, time_limit

# Topology, nodes and linkers in the cell, linker. The node is C8O24Zr6 with eight connections in each: the hydrogen
# atoms of its hydroxide are not in the data set.
PAPER = {
    "IXEJIG": ("bcu", 4, 16, "C14H12"),  # 2,2'-dimethylbiphenyl-4,4'-diyl
    "VEGBUG": ("reo", 6, 24, "C8H2S3"),  # dithieno[3,2-b;2',3'-d]thiophenediyl
    "XICNOO": ("reo", 6, 24, "C4H2S"),  # 2,5-thiophenediyl
}


def formula(block: BuildingBlock) -> str:
    return hill_formula(block.atoms.symbols)


@pytest.mark.parametrize("refcode", PAPER)
def test_the_papers_refcodes_have_the_papers_nets_and_blocks(refcode: str) -> None:
    found = cut_of(refcode)
    topology, nodes, linkers, linker = PAPER[refcode]
    assert (found.topology, found.nodes, found.linkers, found.catenation) == (topology, nodes, linkers, 1)
    assert (formula(found.metal_node), found.metal_node.connectivity) == ("C8O24Zr6", 8)
    assert (formula(found.linker), found.linker.connectivity) == (linker, 2)
    assert found.metals == ("Zr",)
    assert found.guests == {}
    # What was cut is all there was.
    assert nodes * len(found.metal_node.atoms) + linkers * len(found.linker.atoms) == len(found.structure)


def test_frameworks_of_the_same_net_and_node_say_so() -> None:
    first, second = cut_of("VEGBUG"), cut_of("XICNOO")
    assert first.net == second.net != cut_of("IXEJIG").net
    # One entity in the knowledge base, though their bonds differ in length.
    assert first.metal_node.identifier == second.metal_node.identifier
    assert first.linker.identifier != second.linker.identifier


def test_mof_5_is_made_of_what_the_textbooks_say() -> None:
    found = cut_of("EDUSIF")
    assert (found.topology, found.nodes, found.linkers) == ("pcu", 2, 6)
    assert (formula(found.metal_node), found.metal_node.connectivity) == ("C6O13Zn4", 6)
    assert (formula(found.linker), found.linker.connectivity) == ("C6H4", 2)
    assert found.metal_node.shape == "6-octahedron"


def test_docking_points_lie_half_way_along_the_bonds_that_were_cut_in_an_oblique_cell_too() -> None:
    found = cut_of("EDUSIF")  # all angles of its cell are 60 degrees
    for block in (found.metal_node, found.linker):
        for point, anchor in zip(block.atoms.docking_points, block.anchors, strict=True):
            place = block.atoms.positions[anchor]
            distance = sum((a - b) ** 2 for a, b in zip(point, place, strict=True)) ** 0.5
            # Carboxylate carbon to ring in MOF-5: 1.49 Å between 1.4 and 1.6 in all determinations.
            assert 0.7 < distance < 0.8
    # Opposite carboxylates of a terephthalate are 5.8 Å apart; the middles of its bonds 4.3 Å.
    first, second = found.linker.atoms.docking_points
    assert sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5 == pytest.approx(4.3, abs=0.2)


def test_the_same_framework_in_its_space_group_in_another_cell_is_the_same() -> None:
    found, known = cut(IRMOF_1, "IRMOF-1"), cut_of("EDUSIF")
    assert len(found.structure) == 424
    assert (found.nodes, found.linkers) == (8, 24)
    assert (found.topology, found.net) == (known.topology, known.net)
    assert found.metal_node.identifier == known.metal_node.identifier
    assert found.linker.identifier == known.linker.identifier


@pytest.mark.parametrize("turn", ["repeated", "shifted", "reordered", "other axes"])
def test_how_the_cell_is_written_changes_nothing(turn: str) -> None:
    crystal = to_ase(mof5())
    if turn == "repeated":
        crystal = crystal * (1, 2, 1)
    elif turn == "shifted":
        crystal.positions += (3.3, -7.1, 20.4)
        crystal.wrap()
    elif turn == "reordered":
        crystal = crystal[list(range(len(crystal)))[::-1]]
    else:
        # The same lattice, spanned by other vectors.
        crystal.set_cell([crystal.cell[0], crystal.cell[1] + crystal.cell[0], crystal.cell[2] - crystal.cell[0]])
    found, known = cut(cif(from_ase(crystal))), cut_of("EDUSIF")
    assert (found.topology, found.net) == (known.topology, known.net)
    assert found.nodes == known.nodes * (2 if turn == "repeated" else 1)
    assert found.metal_node.identifier == known.metal_node.identifier
    assert found.linker.identifier == known.linker.identifier


def test_a_cell_with_a_single_node_is_cut_like_a_large_one() -> None:
    found = cut(cif(toy()))
    assert (found.topology, found.nodes, found.linkers) == ("pcu", 1, 3)
    assert found.net == cut_of("EDUSIF").net
    # Zn(OC)6, joined to its own images by C2.
    assert (formula(found.metal_node), formula(found.linker)) == ("C6O6Zn", "C2")


def test_no_symmetry_at_all_is_taken_for_none() -> None:
    text = "\n".join(line for line in cif_of("EDUSIF").splitlines() if "ymmetry" not in line and "x,y,z" not in line)
    text = text.replace("loop_\n_cell", "_cell")
    assert "symmetry" not in text
    assert cut(text).net == cut_of("EDUSIF").net


def test_a_space_group_without_quotes_is_read_as_old_programs_wrote_it() -> None:
    text = cif(mof5()).replace("'P 1'", "P 1")
    assert "H-M P 1\n" in text
    assert cut(text).net == cut_of("EDUSIF").net
    assert len(cut(IRMOF_1.replace("'F m -3 m'", "F m -3 m")).structure) == 424


def test_an_asymmetric_unit_that_lost_its_symmetry_is_refused() -> None:
    text = "\n".join(line for line in IRMOF_1.splitlines() if "symmetry" not in line)
    assert "all atoms are there" in str(refused(text, "density"))


def test_the_result_is_the_same_every_time() -> None:
    assert cut(cif_of("EDUSIF"), "EDUSIF") == cut_of("EDUSIF")


def test_guests_are_taken_out_and_told() -> None:
    crystal = mof5()
    # Carbon dioxide and water in the middle of the pores, half way between the nodes at 1/4 and 3/4 of the diagonal.
    a, b = (_at(crystal, fraction) for fraction in (0.0, 0.5))
    guests = [("C", a), *(("O", (a[0] + sign * 1.16, a[1], a[2])) for sign in (1, -1))]
    guests += [("O", b), ("H", (b[0] + 0.96, b[1], b[2])), ("H", (b[0] - 0.24, b[1] + 0.93, b[2]))]
    text = cif(added(crystal, guests))
    found = cut(text, "EDUSIF")
    assert found.guests == {"CO2": 1, "H2O": 1}
    assert sorted(found.structure.symbols) == sorted(crystal.symbols)
    assert (found.net, found.metal_node.identifier) == (cut_of("EDUSIF").net, cut_of("EDUSIF").metal_node.identifier)
    refusal = refused(text, "guests", remove_guests=False)
    assert "CO2" in str(refusal)
    assert refusal.details["guests"] == {"CO2": 1, "H2O": 1}


def _at(atoms: ConceptualAtoms, fraction: float) -> tuple[float, float, float]:
    x, y, z = (fraction * sum(row[axis] for row in atoms.cell or ()) for axis in range(3))
    return (x, y, z)


def test_a_framework_without_guests_is_kept_to_the_bit() -> None:
    assert cut_of("EDUSIF").structure.content_digest == read_cif(cif_of("EDUSIF")).content_digest


@pytest.mark.parametrize("refcode", ["EDUSIF", "XICNOO"])
def test_the_cut_is_the_one_that_pormake_makes(refcode: str, tmp_path: Any) -> None:
    from grafico.frameworks.pormake_engine import load_pormake

    load_pormake()
    from pormake.experimental.decomposer import MOFDecomposer

    path = tmp_path / "crystal.cif"
    path.write_text(cif_of(refcode))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ASE's about its reading of symmetry
        decomposer = MOFDecomposer(str(path))
        decomposer.cleanup()
        theirs = {frozenset(map(int, indices)) for indices in decomposer.building_block_atom_indices}
    cleaned = clean(read_structure(cif_of(refcode), refcode), refcode)
    ours = {frozenset(block.atoms) for block in cut_framework(cleaned.structure, cleaned.bonds, refcode).blocks}
    assert ours == theirs


def test_copies_that_differ_in_a_bond_to_a_metal_are_one_kind_and_a_collision_of_hashes_is_none() -> None:
    cleaned = clean(mof5(), "EDUSIF")
    fragments = cut_framework(cleaned.structure, cleaned.bonds, "EDUSIF").fragments
    node = next(fragment for fragment in fragments if fragment.is_node)
    stretched = node.positions.copy()
    zinc = node.symbols.index("Zn")
    stretched[zinc] *= 1.25  # away from the oxide in the middle, which is not bonded to it any more
    moved = node._replace(positions=stretched)
    assert [kind.number for kind in unique_fragments([node, moved, node])] == [3]
    # The same atoms, with a docking point on another carbon of the ring: 1,3- and 1,4-phenylene.
    linker = next(fragment for fragment in fragments if not fragment.is_node)
    bent = linker._replace(anchors=(linker.anchors[0], _meta(linker)))
    assert len(unique_fragments([linker, bent])) == 2


def _meta(linker: Any) -> int:
    """The carbon next but one to the first anchor of a phenylene."""
    ring = [index for index, symbol in enumerate(linker.symbols) if symbol == "C"]
    return sorted(ring, key=lambda i: ((linker.positions[i] - linker.positions[linker.anchors[0]]) ** 2).sum())[3]


def test_libraries_say_nothing_and_leave_logging_and_alarms_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level, signal.getsignal(signal.SIGALRM))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cut(cif(toy()))
    assert (list(root.handlers), root.level, signal.getsignal(signal.SIGALRM)) == before
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_threads_that_are_quiet_at_once_leave_the_console_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    disabled, output = logging.root.manager.disable, sys.stdout
    first_is_in, second_is_in = threading.Event(), threading.Event()

    def first() -> None:
        with quiet():
            first_is_in.set()
            second_is_in.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait(60)
    with quiet():
        second_is_in.set()
        thread.join()
        print("not this")
    print("but this")
    assert (logging.root.manager.disable, sys.stdout) == (disabled, output)
    assert capfd.readouterr().out == "but this\n"


def test_a_net_that_takes_too_long_is_a_failure_of_that_kind() -> None:
    failure = refused(cif_of("IXEJIG"), "net_timeout", net_seconds=0.05)
    assert failure.kind is FailureKind.TIMEOUT


def test_an_alarm_that_is_lost_in_a_callback_rings_again() -> None:
    class Deaf:
        def __del__(self) -> None:
            time.sleep(0.3)  # what is raised in here is only warned of

    def wait() -> None:
        waiting: Deaf | None = Deaf()
        del waiting
        time.sleep(5)

    lost: list[object] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda told: lost.append(told.exc_type)
    try:
        with pytest.raises(OutOfTime), time_limit(0.1):
            wait()
    finally:
        sys.unraisablehook = hook
    assert lost == [OutOfTime]


def test_it_works_in_a_thread_where_no_alarm_can_be_set() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(cut(cif(toy()))))
    thread.start()
    thread.join()
    assert found[0].topology == "pcu"


def test_an_alarm_that_was_set_before_goes_on_afterwards() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    running = signal.setitimer(signal.ITIMER_REAL, 3600.0)
    try:
        with time_limit(1000.0):
            assert signal.getitimer(signal.ITIMER_REAL)[0] <= 1000.0
        assert 3000.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 3600.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, *running)
        signal.signal(signal.SIGALRM, before)
    assert rung == []


def test_translations_tell_in_how_many_directions_a_part_is_endless_and_how_many_copies_there_are() -> None:
    assert translation_basis([]) == ()
    assert translation_basis([(2, 4, 0), (3, 6, 0)]) == ((1, 2, 0),)
    assert len(translation_basis([(1, 0, 0), (0, 1, 0), (1, 1, 0), (2, -5, 0)])) == 2
    # A body-centered lattice, in the primitive cell of which a primitive cubic net has two copies.
    (part,) = parts_of([0], [(0, 0, (0, 1, 1)), (0, 0, (1, 0, 1)), (0, 0, (1, 1, 0))])
    assert (part.dimension, part.copies) == (3, 2)


def test_a_failure_survives_the_way_to_another_process() -> None:
    import pickle

    failure = refused("", "empty")
    again = pickle.loads(pickle.dumps(failure))
    assert isinstance(again, CalculationError)
    assert (again.kind, again.details) == (failure.kind, failure.details)
