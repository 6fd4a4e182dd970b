"""Structures in the formats of other programs: all that a format holds comes back, and what it does not is said."""

import json

import numpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from test_formats import structures

from grafico.atoms import (
    ConceptualAtoms,
    from_ase,
    from_qcelemental,
    from_qcschema,
    iri_of_qcschema,
    losses,
    read_cif,
    read_qcschema,
    read_structure,
    read_xyz,
    to_ase,
    to_qcelemental,
    to_qcschema,
    write_structure,
)
from grafico.atoms.losses import FORMATS
from grafico.errors import MoleculeError
from grafico.units import ANGSTROM_PER_BOHR

WATER = ConceptualAtoms(
    symbols=("O", "H", "H"), positions=((0.0, 0.0, 0.1173), (0.0, 0.7572, -0.4692), (0.0, -0.7572, -0.4692))
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
component = st.floats(-8, 8)
lengths = st.floats(3, 20)


@st.composite
def crystals(draw):
    """Structures in cells that are cells: not flat, and turned in any way, left-handed ones among them."""
    atoms = draw(structures())
    rows = numpy.array(draw(st.tuples(*[st.tuples(component, component, component)] * 3)))
    rows += numpy.diag(draw(st.tuples(lengths, lengths, lengths)))
    scale = numpy.linalg.norm(rows, axis=1)
    assume(min(scale) > 2)
    assume(abs(numpy.linalg.det(rows / scale[:, None])) > 0.2)
    if draw(st.booleans()):
        rows = rows[[1, 0, 2]]
    positions = numpy.array(
        draw(st.lists(st.tuples(component, component, component), min_size=len(atoms), max_size=len(atoms)))
    )
    return ConceptualAtoms(**{**atoms.model_dump(), "positions": positions.tolist(), "cell": rows.tolist()})


def read_back(atoms, format_):
    text = write_structure(atoms, format_, name="made by a test").text
    reader = {"xyz": read_xyz, "extxyz": read_xyz, "cif": read_cif, "qcschema": read_qcschema}[format_]
    return reader(text)


@QUICK
@given(structures(), st.sampled_from(["xyz", "extxyz", "qcschema"]))
def test_what_is_not_said_to_be_lost_comes_back_to_the_bit(atoms, format_):
    back = read_back(atoms, format_)
    lost = {loss.field for loss in losses(atoms, format_)}
    for name in ("symbols", "positions", "charge", "multiplicity", "cell", "docking_points"):
        if name not in lost:
            assert getattr(back, name) == getattr(atoms, name), name
        else:
            assert getattr(back, name) != getattr(atoms, name), name
    assert not (lost and format_ != "xyz")


def distances(atoms):
    """Distances between all atoms and all lattice points around, which no turning changes."""
    cell, positions = numpy.array(atoms.cell), numpy.array(atoms.positions)
    images = numpy.array([(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]) @ cell
    return numpy.linalg.norm(positions[:, None, None] - positions[None, :, None] - images[None, None], axis=-1)


def handedness(atoms):
    first, second, third = numpy.array(atoms.cell)
    return numpy.sign(numpy.cross(first, second) @ third)


@QUICK
@given(crystals())
def test_a_cif_keeps_everything_but_how_the_cell_is_turned(atoms):
    back = read_back(atoms, "cif")
    lost = {loss.field for loss in losses(atoms, "cif")}
    assert back.symbols == atoms.symbols
    # A left-handed cell is written as the right-handed one with the same lattice: all images are the same set.
    assert numpy.allclose(numpy.sort(distances(back), axis=-1), numpy.sort(distances(atoms), axis=-1), atol=1e-7)
    assert handedness(back) == 1
    assert lost >= {"cell", "positions"}
    for name, default in (("charge", 0), ("multiplicity", 1), ("docking_points", ())):
        assert (name in lost) == (getattr(atoms, name) != default)
        assert getattr(back, name) == default
    # Once turned, it stays as it is.
    again = read_back(back, "cif")
    assert numpy.allclose(again.positions, back.positions, atol=1e-8)
    assert numpy.allclose(again.cell, back.cell, atol=1e-8)


@QUICK
@given(crystals())
def test_a_cif_does_not_mirror_a_structure(atoms):
    back = read_back(atoms, "cif")
    before, after = (numpy.array(one.positions) for one in (atoms, back))
    if len(before) < 4:
        return
    # Signed volumes of four atoms have the same sign, wherever the structure was turned to.
    volumes = [numpy.linalg.det(p[1:4] - p[0]) for p in (before, after)]
    assert abs(volumes[0] - volumes[1]) < 1e-6 * max(1.0, abs(volumes[0]))


@QUICK
@given(crystals())
def test_ase_reads_the_cif_as_we_do(atoms):
    import io
    import warnings

    import ase.io

    # ASE takes atoms at one place for one atom.
    between = distances(atoms)
    assume(numpy.sum(between < 0.1) == len(atoms))

    text = write_structure(atoms, "cif").text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = from_ase(ase.io.read(io.StringIO(text), format="cif"))
    ours = read_cif(text)
    assert theirs.symbols == ours.symbols
    assert numpy.allclose(theirs.cell, ours.cell, atol=1e-6)
    turned = numpy.linalg.solve(numpy.array(ours.cell).T, (numpy.array(ours.positions) - theirs.positions).T)
    assert numpy.allclose(turned, turned.round(), atol=1e-6)


@QUICK
@given(structures(), st.none() | st.just("https://example.org/s/1"))
def test_qcschema_through_json_keeps_structure_and_identity(atoms, iri):
    said = json.loads(json.dumps(to_qcschema(atoms, iri=iri)))
    assert from_qcschema(said) == atoms
    assert iri_of_qcschema(said) == iri
    geometry = numpy.array(said["geometry"]).reshape(-1, 3)
    assert numpy.allclose(geometry * ANGSTROM_PER_BOHR, atoms.positions, rtol=1e-12, atol=1e-12)


def test_what_another_program_moved_is_read_as_it_is_now():
    atoms = ConceptualAtoms(**{**WATER.model_dump(), "docking_points": ((0.0, 0.0, 5.0),)})
    said = to_qcschema(atoms)
    said["geometry"][0] += 0.25
    moved = from_qcschema(said)
    assert moved.positions[0][0] == pytest.approx(0.25 * ANGSTROM_PER_BOHR)
    # Points and cells belong to the coordinates that were there before.
    assert moved.docking_points == ()


@pytest.mark.parametrize("charge", [0, 1, -1])
def test_qcelemental_keeps_structure_and_identity(charge):
    atoms = ConceptualAtoms(
        **{
            **WATER.model_dump(),
            "charge": charge,
            "multiplicity": 1 if charge == 0 else 2,
            "docking_points": ((0, 0, 5),),
        }
    )
    molecule = to_qcelemental(atoms, iri="https://example.org/s/1")
    assert molecule.get_molecular_formula() == "H2O"
    assert from_qcelemental(molecule) == atoms
    assert iri_of_qcschema(molecule.dict()) == "https://example.org/s/1"
    from qcelemental.models import Molecule

    assert from_qcelemental(Molecule.parse_raw(molecule.json())) == atoms
    assert from_qcschema(json.loads(molecule.json())) == atoms


def test_qcelemental_molecules_from_elsewhere_are_read():
    from qcelemental.models import Molecule

    theirs = Molecule.from_data("0 2\nO 0 0 0\nH 0 0 0.96\n")
    ours = from_qcelemental(theirs)
    assert (ours.charge, ours.multiplicity, ours.symbols) == (0, 2, ("O", "H"))
    assert numpy.linalg.norm(numpy.subtract(*ours.positions)) == pytest.approx(0.96, abs=1e-6)
    ghost = Molecule.from_data("O 0 0 0\n@He 0 0 3.0\n")
    with pytest.raises(MoleculeError, match="ghost atoms"):
        from_qcelemental(ghost)
    with pytest.raises(MoleculeError, match="QCElemental refuses"):
        to_qcelemental(ConceptualAtoms(**{**WATER.model_dump(), "multiplicity": 2}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": None}, "no list of symbols"),
        ({"symbols": ["O", "H", "Qq"]}, "atom 3 is 'Qq'"),
        ({"geometry": [0.0] * 8}, "3 symbols and 8 coordinates"),
        ({"geometry": "far"}, "no list of numbers"),
        ({"geometry": [float("nan")] * 9}, "not finite"),
        ({"molecular_charge": 0.5}, "no whole number"),
        ({"molecular_charge": "one"}, "no number"),
        ({"molecular_multiplicity": 0}, "multiplicity"),
        ({"schema_name": "qcschema_input"}, "is a 'qcschema_input'"),
        ({"real": [True, True, False]}, "ghost atoms"),
        ({"real": [True]}, "3 truth values"),
        ({"real": 3}, "3 truth values"),
    ],
)
def test_what_is_no_qcschema_molecule_is_refused(change, message):
    with pytest.raises(MoleculeError, match=message):
        from_qcschema({**to_qcschema(WATER), "extras": {}, **change})


@pytest.mark.parametrize("extras", ["x", {"grafico": "x"}, None, 3])
def test_extras_of_others_hold_no_identity(extras):
    assert iri_of_qcschema({**to_qcschema(WATER), "extras": extras}) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"info": {"charge": 0.5}}, "no whole number"),
        ({"info": {"charge": "one"}}, "no whole number"),
        ({"info": {"charge": 99}}, "charge"),
        ({"info": {"multiplicity": 0}}, "multiplicity"),
        ({"info": {"docking_points": "far"}}, "no list of points"),
        ({"info": {"docking_points": [[1, 2]]}}, "no list of points"),
        ({"positions": [[float("nan"), 0, 0]]}, "not finite"),
        ({"symbols": "X"}, "no element"),
        ({"pbc": True}, "no volume"),
        ({"pbc": [True, True, False], "cell": [5, 5, 5]}, "one or two directions"),
    ],
)
def test_what_is_no_structure_of_ase_is_refused(change, message):
    import ase

    with pytest.raises(MoleculeError, match=message):
        from_ase(ase.Atoms(**{"symbols": "H", "positions": [[0, 0, 0]], **change}))


def test_docking_points_are_read_from_a_list_as_well():
    import ase

    assert from_ase(ase.Atoms("H", info={"docking_points": [[1, 2, 3]]})).docking_points == ((1.0, 2.0, 3.0),)


def test_an_extended_xyz_that_is_periodic_in_two_directions_is_refused():
    text = '1\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 pbc="T T F"\nO 0 0 0\n'
    with pytest.raises(MoleculeError, match=r"line 2: .*one or two directions"):
        read_xyz(text)


@given(st.text(max_size=80))
def test_any_text_is_a_qcschema_molecule_or_refused_by_name(text):
    with pytest.raises(MoleculeError):
        read_qcschema(text)


SALT = """data_salt
_cell_length_a 5.64(1)
_cell_length_b 5.64(1)
_cell_length_c 5.64(1)
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
{symmetry}
loop_
_atom_site_label
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_occupancy
Na1 0 0 0 {occupancy}
{second} 0.5 0.5 {z} 1
"""


def salt(symmetry="", occupancy="1", second="Cl1", z="0.5(0)"):
    return SALT.format(symmetry=symmetry, occupancy=occupancy, second=second, z=z)


@pytest.mark.parametrize(
    ("symmetry", "count"),
    [
        ("", 2),
        ("_symmetry_space_group_name_H-M 'P 1'", 2),
        ("_space_group_name_H-M_alt 'F m -3 m'", 8),
        ("_symmetry_Int_Tables_number 225", 8),
        ("loop_\n_symmetry_equiv_pos_as_xyz\nx,y,z\nx,y+1/2,z+1/2\nx+1/2,y,z+1/2\nx+1/2,y+1/2,z", 8),
    ],
)
def test_all_atoms_of_the_cell_are_read_however_the_symmetry_is_told(symmetry, count):
    atoms = read_cif(salt(symmetry))
    assert len(atoms) == count
    assert sorted(set(atoms.symbols)) == ["Cl", "Na"]
    assert numpy.allclose(atoms.cell, numpy.eye(3) * 5.64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("hello", "no CIF that can be read: .*data_"),
        ("data_x\n", "holds no structures"),
        (salt() + salt().replace("data_salt", "data_again"), "holds 2 structures"),
        (salt(occupancy="0.5"), "Na1 is there in 0.5 of all cells"),
        (salt(second="Xx1"), "is no element"),
        (salt(second="D1"), "is no element"),
        (salt(z="?"), "no fractional coordinates"),
        (salt().replace("5.64(1)", "0"), "no unit cell"),
        (salt().replace("_cell_length", "_other_length"), "no unit cell"),
        (salt("loop_\n_symmetry_equiv_pos_as_xyz\nx,y,nonsense"), "symmetry cannot be used"),
        (salt("loop_\n_symmetry_equiv_pos_as_xyz\nx,y,z\n-x,-y,-z\nx+1/2,y+1/2,z"), "symmetry cannot be used"),
        (salt("_space_group_name_H-M_alt 'Q x'"), "symmetry cannot be used"),
        ("data_x\nloop_\n_a _b 1 2 3\n", "no CIF"),
    ],
)
def test_a_cif_that_is_no_one_structure_is_refused(text, message):
    with pytest.raises(MoleculeError, match=message):
        read_cif(text)


@given(st.text(max_size=100))
def test_any_text_is_a_cif_or_refused_by_name(text):
    with pytest.raises(MoleculeError):
        read_cif(text)


def test_a_molecule_has_no_cif_and_a_flat_cell_is_none():
    with pytest.raises(MoleculeError, match="without a cell"):
        write_structure(WATER, "cif")
    flat = ConceptualAtoms(**{**WATER.model_dump(), "cell": ((1, 0, 0), (0, 1, 0), (1, 1, 0))})
    with pytest.raises(MoleculeError, match="volume"):
        write_structure(flat, "cif")
    with pytest.raises(MoleculeError, match="not known"):
        write_structure(WATER, "pdb")


def test_losses_are_told_with_reasons():
    atoms = ConceptualAtoms(
        **{
            **WATER.model_dump(),
            "charge": 1,
            "multiplicity": 2,
            "docking_points": ((0, 0, 3),),
            "cell": ((9, 0, 0), (0, 9, 0), (0, 0, 9)),
        }
    )
    told = {format_: {loss.field for loss in losses(atoms, format_)} for format_ in FORMATS}
    assert told == {
        "xyz": {"charge", "multiplicity", "cell", "docking_points"},
        "extxyz": set(),
        "cif": {"charge", "multiplicity", "docking_points", "cell", "positions"},
        "mol": {"multiplicity", "cell", "docking_points", "positions"},
        "qcschema": set(),
    }
    assert losses(WATER, "xyz") == ()
    assert all(len(loss.reason) > 20 for format_ in FORMATS for loss in losses(atoms, format_))


def test_files_are_read_by_their_extension(tmp_path):
    crystal = ConceptualAtoms(**{**WATER.model_dump(), "cell": ((9, 0, 0), (0, 9, 0), (0, 0, 9))})
    for format_, name in (("cif", "a.cif"), ("qcschema", "a.json"), ("extxyz", "a.extxyz")):
        (tmp_path / name).write_text(write_structure(crystal, format_).text)
        back = read_structure(tmp_path / name, charge=1, multiplicity=2)
        assert (back.symbols, back.charge, back.multiplicity) == (crystal.symbols, 1, 2)
        assert numpy.allclose(back.positions, crystal.positions)
        assert numpy.allclose(back.cell, crystal.cell)
    (tmp_path / "b.json").write_text('{"a": 1}')
    with pytest.raises(MoleculeError, match=r"b\.json has no list of symbols"):
        read_structure(tmp_path / "b.json")


@QUICK
@given(structures())
def test_docking_points_stay_apart_from_atoms_everywhere(atoms):
    assume(atoms.docking_points)
    assume(atoms.cell is None or all(any(row) for row in atoms.cell))
    assert len(to_ase(atoms)) == len(atoms.symbols) == len(to_qcschema(atoms)["symbols"])
    assert from_ase(to_ase(atoms)).docking_points == atoms.docking_points
    lines = write_structure(atoms, "extxyz").text.splitlines()
    assert int(lines[0]) == len(atoms)
