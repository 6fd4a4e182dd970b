"""Structures that are refused, each with a code of its own and a message in the words of the field."""

from typing import Any

import pytest
from cif_support import IRMOF_1, added, changed, cif, close_to, cut, listed, mof5, refused, scaled, toy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms, read_cif
from grafico.calculations import CalculationError
from grafico.frameworks.refusals import REASONS

# Positions and cells: quartz, R. W. G. Wyckoff, Crystal Structures (1963); rock salt; COF-1's boroxine ring only as far as
# elements go; ferrocene as a molecule in a box, Fe-C 2.05 Å.
TEMPLATED = listed(
    ["Al1 Al 0.25 0.5 0 1", "Si1 Si 0.25 0 0.5 1", "O1 O 0.139 0.149 0.438 1", "C1 C 0 0 0 1"],
    cell="8.88 8.88 8.88 90 90 90",
    extra="_symmetry_space_group_name_H-M 'P -4 3 n'",
)
QUARTZ = listed(
    ["Si1 Si 0.4697 0 0 1", "O1 O 0.4133 0.2672 0.1188 1"],
    cell="4.916 4.916 5.405 90 90 120",
    extra="_symmetry_space_group_name_H-M 'P 32 2 1'",
)
ROCK_SALT = listed(
    ["Na1 Na 0 0 0 1", "Cl1 Cl 0.5 0.5 0.5 1"],
    cell="5.64 5.64 5.64 90 90 90",
    extra="_symmetry_space_group_name_H-M 'F m -3 m'",
)
SODALITE = listed(
    ["Al1 Al 0.25 0.5 0 1", "Si1 Si 0.25 0 0.5 1", "O1 O 0.139 0.149 0.438 1", "Na1 Na 0.177 0.177 0.177 1"],
    cell="8.88 8.88 8.88 90 90 90",
    extra="_symmetry_space_group_name_H-M 'P -4 3 n'",
)


def as_text(name: str) -> str:
    text = cif(mof5())
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(("Zn1 ", "O1 ", "C1 ", "H1 ")))
    table = next(index for index, line in enumerate(lines) if line == "_atom_site_label") - 1
    return {
        "empty": "",
        "blank": " \n",
        "comment": "# nothing here\n",
        "binary": "\x00\x01\x7fELF" + text,
        "undecodable": text.replace("Zn1 ", "Zn\ufffd "),
        "prose": "The crystal was grown from DMF.",
        "cut within a row": text[:-60],
        "cut between rows": "\n".join(lines[: first + 60]),
        "cut within the cell": text[: text.index("_cell_length_b")],
        "two": text + text.replace("data_test", "data_other"),
        "no coordinates": "\n".join(lines[:table]),
        "no cell": "\n".join(line for line in lines if not line.startswith("_cell_length")),
        "negative": text.replace("_cell_length_a 18.", "_cell_length_a -18."),
        "flat": text.replace("_cell_angle_alpha 59.99", "_cell_angle_alpha 179.99").replace(
            "_cell_angle_alpha 60", "_cell_angle_alpha 179.99"
        ),
        "unknown element": text.replace("Zn1 Zn", "Zn1 Xx"),
        "huge": text + "# " + 20_000_000 * "x",
        "one atom": "\n".join(lines[: first + 1]),
    }[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty", "empty"),
        ("blank", "empty"),
        ("comment", "no_structure"),
        ("binary", "binary"),
        ("undecodable", "binary"),
        ("prose", "unreadable"),
        ("cut within a row", "unreadable"),
        ("cut between rows", "not_periodic"),
        ("cut within the cell", "no_structure"),
        ("two", "several_structures"),
        ("no coordinates", "no_structure"),
        ("no cell", "no_cell"),
        ("negative", "no_cell"),
        ("flat", "no_cell"),
        ("unknown element", "unusable"),
        ("huge", "too_large"),
        ("one atom", "density"),
    ],
)
def test_files_that_are_at_fault(name: str, reason: str) -> None:
    text = as_text(name)
    assert text != cif(mof5())
    assert "test" in str(refused(text, reason))


def test_where_a_file_breaks_off_is_told() -> None:
    text = as_text("cut within a row")
    loop = text.splitlines().index("_atom_site_label")
    assert f"line {loop}: " in str(refused(text, "unreadable"))


def test_partial_occupancy_is_told_with_the_sites() -> None:
    rows = ["Zn1 Zn 0 0 0 1", "O1 O 0.17 0 0 0.5", "O2 O 0.15 0.05 0 0.5"]
    refusal = refused(listed(rows), "partial_occupancy")
    assert "O1 (0.5)" in str(refusal)
    assert refusal.details["sites"] == 2


def test_disorder_groups_are_told_even_where_occupancies_are_not() -> None:
    rows = ["Zn1 Zn 0 0 0 1 .", "C1 C 0.2 0 0 1 1", "C2 C 0.2 0.09 0 1 2"]
    text = listed(rows).replace("_atom_site_occupancy", "_atom_site_occupancy\n_atom_site_disorder_group")
    assert "2 alternatives" in str(refused(text, "disorder"))
    # One group only is what remains when the others were taken out: nothing is left to choose.
    with pytest.raises(CalculationError) as caught:
        cut(text.replace("C2 C 0.2 0.09 0 1 2\n", ""))
    assert caught.value.details["reason"] != "disorder"


def test_operations_that_are_not_those_of_the_space_group() -> None:
    rows = ["Zn1 Zn 0 0 0 1", "C1 C 0.2 0 0 1"]
    extra = (
        "_symmetry_space_group_name_H-M 'P -1'\nloop_\n_symmetry_equiv_pos_as_xyz\n'x,y,z'\n'-x,y,-z'\n'x+1/3,y,z'\n"
    )
    refused(listed(rows, extra=extra), "symmetry")


def test_all_atoms_of_the_cell_with_a_symmetry_that_repeats_them() -> None:
    alone = cif(read_cif(IRMOF_1))
    header = "_symmetry_space_group_name_H-M 'F m -3 m'\n_symmetry_Int_Tables_number 225\n"
    start, end = alone.index("_symmetry"), alone.index("_cell_length_a")
    text = alone[:start] + header + alone[end:].replace("loop_\n_symmetry_equiv_pos_as_xyz\n'x, y, z'\n", "")
    assert "given once" in str(refused(text, "duplicate_atoms"))


@pytest.mark.parametrize(
    ("factor", "reason"),
    [(0.2, "density"), (0.5, "overlap"), (1.3, "not_periodic"), (3.0, "density")],
    ids=["fifth", "half", "larger", "thrice"],
)
def test_a_cell_that_is_wrong(factor: float, reason: str) -> None:
    refused(cif(scaled(mof5(), factor)), reason)


def test_atoms_too_close_are_named_with_their_distance() -> None:
    crystal = mof5()
    x, y, z = crystal.positions[crystal.symbols.index("Zn")]
    refusal = refused(cif(added(crystal, [("O", (x + 0.5, y, z))])), "overlap")
    assert "0.50 Å" in str(refusal)
    assert "(Zn)" in str(refusal)


def test_two_kinds_of_metal_node() -> None:
    refusal = refused(cif(toy(metals=("Zn", "Mg"))), "two_metal_nodes")
    assert "C6MgO6X6" in str(refusal)
    assert "C6O6ZnX6" in str(refusal)
    assert [kind["count"] for kind in refusal.details["kinds"]] == [1, 1]


def test_one_kind_of_node_that_holds_two_metals_is_a_single_kind() -> None:
    crystal = mof5()
    oxides = [
        index
        for index, symbol in enumerate(crystal.symbols)
        if symbol == "O" and sum(crystal.symbols[other] == "Zn" for other in close_to(crystal, index, 2.2)) == 4
    ]
    assert len(oxides) == 2  # one in the middle of each node
    # One zinc of each node becomes cobalt.
    swapped = {next(i for i in close_to(crystal, oxide, 2.2) if crystal.symbols[i] == "Zn"): "Co" for oxide in oxides}
    found = cut(cif(changed(crystal, swapped)))
    assert (found.metals, found.nodes, found.topology) == (("Co", "Zn"), 2, "pcu")


def test_two_kinds_of_linker() -> None:
    crystal = mof5()
    refusal = refused(cif(changed(crystal, {crystal.symbols.index("H"): "F"})), "two_linkers")
    assert "5 C6H4X2" in str(refusal)
    assert "1 C6H3FX2" in str(refusal)


def test_two_frameworks_in_each_others_pores() -> None:
    crystal = mof5()
    shift = [0.25 * sum(row[axis] for row in crystal.cell or ()) for axis in range(3)]
    both = added(
        crystal,
        (
            (symbol, (row[0] + shift[0], row[1] + shift[1], row[2] + shift[2]))
            for symbol, row in zip(crystal.symbols, crystal.positions, strict=True)
        ),
    )
    assert refused(cif(both), "interpenetrated").details["catenation"] == 2


def test_two_frameworks_that_a_lattice_translation_turns_into_each_other() -> None:
    # The cell of the pair is body-centered: its primitive cell holds the atoms of one of them.
    one = toy()
    edge = one.cell[0][0] if one.cell else 0.0
    half = edge / 2
    cell = ((-half, half, half), (half, -half, half), (half, half, -half))
    both = ConceptualAtoms(symbols=one.symbols, positions=one.positions, cell=cell)
    assert refused(cif(both), "interpenetrated").details["catenation"] == 2


def test_frameworks_of_different_composition() -> None:
    crystal = mof5()
    shift = [0.25 * sum(row[axis] for row in crystal.cell or ()) for axis in range(3)]
    other = changed(crystal, {index: "Co" for index, symbol in enumerate(crystal.symbols) if symbol == "Zn"})
    both = added(
        crystal,
        (
            (symbol, (row[0] + shift[0], row[1] + shift[1], row[2] + shift[2]))
            for symbol, row in zip(other.symbols, other.positions, strict=True)
        ),
    )
    assert "Co" in str(refused(cif(both), "several_frameworks"))


@pytest.mark.parametrize(("arms", "what"), [("xy", "layers"), ("x", "chains"), ("", "molecules")])
def test_metal_and_linker_that_make_no_framework(arms: str, what: str) -> None:
    crystal = toy(arms=arms)
    if not arms:
        crystal = added(crystal, [("C", (1.95, 0.0, 0.0)), ("C", (-1.95, 0.0, 0.0))])
    smaller = ConceptualAtoms(
        symbols=crystal.symbols, positions=crystal.positions, cell=_cell_of(crystal, 10.9 if "x" in arms else 6.0)
    )
    assert what in str(refused(cif(smaller), "not_periodic"))


def _cell_of(crystal: ConceptualAtoms, edge: float) -> Any:
    size = 10.9 if len(crystal) > 10 else edge
    return ((edge, 0.0, 0.0), (0.0, size, 0.0), (0.0, 0.0, 8.0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [(QUARTZ, "no_metal"), (ROCK_SALT, "no_organic"), (SODALITE, "no_organic"), (TEMPLATED, "no_organic")],
    ids=["quartz", "rock salt", "sodalite", "zeolite with carbon in its cages"],
)
def test_crystals_that_are_no_metal_organic_frameworks(text: str, reason: str) -> None:
    refused(text, reason)


def test_a_covalent_organic_framework_has_no_metal() -> None:
    # MOF-5's skeleton with silicon in the place of zinc: endless in three directions, and without a metal.
    crystal = mof5()
    refused(cif(changed(crystal, {i: "Si" for i, symbol in enumerate(crystal.symbols) if symbol == "Zn"})), "no_metal")


def test_linkers_that_hold_the_metal_by_their_rings_cannot_be_cut() -> None:
    # A zinc cyanide: primitive cubic, Zn-C-N-Zn along each axis; there is no bond to cut but those of the metal.
    rows = ["Zn1 Zn 0 0 0 1"]
    for axis in range(3):
        for name, place in (("C", 0.38), ("N", 0.605)):
            at = ["0", "0", "0"]
            at[axis] = str(place)
            rows.append(f"{name}{axis} {name} {' '.join(at)} 1")
    refused(listed(rows, cell="5.1 5.1 5.1 90 90 90"), "nothing_to_cut")


def test_a_metal_node_that_is_an_endless_rod() -> None:
    # Zn-O-Zn-O along z, joined along x and y by O-C-C-C-C-O.
    crystal = toy(arms="xy")
    edge = crystal.cell[0][0] if crystal.cell else 0.0
    rod = ConceptualAtoms(
        symbols=(*crystal.symbols, "O"),
        positions=(*crystal.positions, (0.0, 0.0, 2.0)),
        cell=((edge, 0.0, 0.0), (0.0, edge, 0.0), (0.0, 0.0, 4.0)),
    )
    assert "rod" in str(refused(cif(rod), "rod_node"))


def test_nodes_that_are_joined_without_a_linker() -> None:
    # O-C-C-O between the metals, an oxalate's backbone: cut in its middle, nothing remains between the halves.
    crystal = toy()
    edge = 2 * 2.0 + 2 * 1.35 + 1.4
    symbols, positions = ["Zn"], [(0.0, 0.0, 0.0)]
    for axis in range(3):
        for symbol, step in (("O", 2.0), ("C", 3.35), ("C", 4.75), ("O", 6.1)):
            place = [0.0, 0.0, 0.0]
            place[axis] = step
            symbols.append(symbol)
            positions.append((place[0], place[1], place[2]))
    crystal = ConceptualAtoms(
        symbols=tuple(symbols),
        positions=tuple(positions),
        cell=((edge, 0.0, 0.0), (0.0, edge, 0.0), (0.0, 0.0, edge)),
    )
    refused(cif(crystal), "no_linker")


def test_every_reason_has_its_kind_and_says_what_it_means() -> None:
    assert all(meaning and kind for kind, meaning in REASONS.values())


_TOY = cif(toy())
_pieces = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["loop_", "data_b", "0.5(3)", "?", ".", "'", ";", "\n;", "-1e9", "nan", "1e400", "Zn", "Uuo", "_cell_length_a"]
    ),
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.lists(st.tuples(st.integers(0, len(_TOY)), st.integers(0, 40), _pieces), min_size=1, max_size=4))
def test_whatever_is_in_a_file_it_is_taken_apart_or_refused(changes: list[tuple[int, int, str]]) -> None:
    text = _TOY
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    told, failed = _outcome(text)
    if failed is None:
        assert told >= 1
        assert len(read_cif(text)) >= told
    else:
        assert failed.kind is REASONS[failed.details["reason"]][0]
        assert "\n" not in str(failed)


def _outcome(text: str) -> tuple[int, CalculationError | None]:
    try:
        return len(cut(text).structure), None
    except CalculationError as failure:
        return 0, failure
