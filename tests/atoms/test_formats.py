"""Structure files: what is read, what is refused and how, and what survives a round trip."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafico.atoms import (
    ConceptualAtoms,
    from_ase,
    iri_of,
    read_frames,
    read_mol,
    read_structure,
    read_xyz,
    to_ase,
    write_extxyz,
    write_mol,
    write_xyz,
)
from grafico.atoms.elements import SYMBOLS
from grafico.errors import MoleculeError

WATER = "3\nwater\nO 0.0 0.0 0.119262\nH 0.0 0.763239 -0.477047\nH 0.0 -0.763239 -0.477047\n"

coordinates = st.floats(-1e5, 1e5, allow_nan=False)
vectors = st.tuples(coordinates, coordinates, coordinates)


@st.composite
def structures(draw):
    count = draw(st.integers(1, 6))
    return ConceptualAtoms(
        symbols=tuple(draw(st.lists(st.sampled_from(SYMBOLS), min_size=count, max_size=count))),
        positions=tuple(draw(st.lists(vectors, min_size=count, max_size=count))),
        charge=draw(st.integers(-3, 3)),
        multiplicity=draw(st.integers(1, 5)),
        cell=draw(st.none() | st.tuples(vectors, vectors, vectors)),
        docking_points=tuple(draw(st.lists(vectors, max_size=2))),
    )


def test_plain_xyz_is_read():
    atoms = read_xyz(WATER)
    assert atoms.symbols == ("O", "H", "H")
    assert atoms.positions[1] == (0.0, 0.763239, -0.477047)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "empty"),
        ("   \n\n", None, "empty"),
        ("O 0 0 0\nH 0 0 1\n", 1, "number of atoms"),
        ("3.0\n\nO 0 0 0\nH 0 0 1\nH 0 1 0\n", 1, "number of atoms"),
        ("-1\n\nO 0 0 0\n", 1, "number of atoms"),
        ("0\n\n", 1, "atoms"),
        ("99999999999999999999\n\nO 0 0 0\n", 1, "atoms"),
        ("4\nwater\nO 0 0 0\nH 0 0 1\nH 0 1 0\n", 1, "only 3 lines"),
        ("2\nwater\nO 0 0 0\nH 0 0 1\nH 0 1 0\n", 5, "expected the end"),
        ("3\n", 1, "only 0 lines"),
        ("3\nO 0 0 0\nH 0 0 1\nH 0 1 0\n", 1, "only 2 lines"),
        ("1\n\nO 0 0\n", 3, "three coordinates"),
        ("2\n\nO 0 0 0\n\nH 0 0 1\n", 4, "three coordinates"),
        ("1\n\nXx 0 0 0\n", 3, "no element"),
        ("1\n\nD 0 0 0\n", 3, "no element"),
        ("1\n\n0 0 0 0\n", 3, "no element"),
        ("1\n\nO 0 0 nan\n", 3, "coordinate"),
        ("1\n\nO 0 inf 0\n", 3, "coordinate"),
        ("1\n\nO 0 1_0 0\n", 3, "coordinate"),
        ("1\n\nO 0 0,5 0\n", 3, "coordinate"),
        ("1\n\nO 1e9 0 0\n", 1, "not finite"),
        ("1\nProperties=species:S:1:pos:R:2\nO 0 0 0\n", 2, "pos:R:3"),
        ("1\nProperties=species:S:1:pos:R:3:f:R:3\nO 0 0 0\n", 3, "symbol"),
        ('1\nLattice="1 0 0 0 1 0" Properties=species:S:1:pos:R:3\nO 0 0 0\n', 2, "nine"),
        ("1\ncharge=one Properties=species:S:1:pos:R:3\nO 0 0 0\n", 2, "whole number"),
        ("1\nProperties=species:S:1:pos:R:3 docking_points=[1]\nO 0 0 0\n", 2, "docking"),
        ("1\n\nO 0 0 0\n1\n\nH 0 0 0\n", None, "2 structures"),
        ("1\n\nO 0 \0 0\n", None, "binary"),
    ],
)
def test_malformed_xyz_is_refused_with_its_line(text, line, message):
    with pytest.raises(MoleculeError) as caught:
        read_xyz(text, "a.xyz")
    assert message in caught.value.message
    assert caught.value.message.startswith("a.xyz")
    if line is not None:
        assert f"line {line}:" in caught.value.message


@given(structures())
def test_extended_xyz_keeps_everything(atoms):
    assert read_xyz(write_extxyz([atoms])) == atoms


@given(structures())
def test_plain_xyz_keeps_symbols_and_all_digits(atoms):
    back = read_xyz(write_xyz(atoms, "made by a test"))
    assert (back.symbols, back.positions) == (atoms.symbols, atoms.positions)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_by_name(text):
    with contextlib.suppress(MoleculeError):
        assert len(read_xyz(text)) > 0


def test_extended_xyz_carries_values_for_each_frame():
    water = read_xyz(WATER)
    text = write_extxyz([water, water], [{"energy": -76.1, "name": 'a "quoted" name'}, {"energy": -76.2, "name": "b"}])
    frames = read_frames(text)
    assert [float(info["energy"]) for _, info in frames] == [-76.1, -76.2]
    assert frames[0][1]["name"] == 'a "quoted" name'
    with pytest.raises(MoleculeError, match="cannot be a key"):
        write_extxyz([water], [{"charge": 1}])


def test_extended_xyz_is_what_ase_reads_too(tmp_path):
    import ase.io

    file = tmp_path / "a.extxyz"
    water = ConceptualAtoms(**{**read_xyz(WATER).model_dump(), "charge": 1, "multiplicity": 2})
    file.write_text(write_extxyz([water], [{"energy": -1.5}]))
    read = ase.io.read(file)
    assert read.get_potential_energy() == -1.5
    assert from_ase(read) == water


def test_given_charge_goes_before_that_of_the_file():
    text = "1\nProperties=species:S:1:pos:R:3 charge=1\nNa 0 0 0\n"
    assert read_xyz(text).charge == 1
    assert read_xyz(text, charge=0).charge == 0


def test_a_box_around_a_molecule_is_no_cell():
    text = '1\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 pbc="{}"\nO 0 0 0\n'
    assert read_xyz(text.format("F F F")).cell is None
    assert read_xyz(text.format("T T T")).cell is not None


def test_files_that_cannot_be_structures_are_refused(tmp_path):
    large = tmp_path / "large.xyz"
    large.write_bytes(b"1\n" * 11_000_000)
    latin = tmp_path / "latin.xyz"
    latin.write_bytes(b"1\nma\xefs\nO 0 0 0\n")
    other = tmp_path / "a.pdb"
    other.write_text("ATOM")
    for path, message in [
        (tmp_path / "missing.xyz", "does not exist"),
        (tmp_path, "is a directory"),
        (large, "larger than 20 MB"),
        (latin, "line 2: not UTF-8"),
        (other, "not known"),
    ]:
        with pytest.raises(MoleculeError, match=message):
            read_structure(path)


def test_structure_file_is_read_by_its_extension(tmp_path):
    file = tmp_path / "w.XYZ"
    file.write_text(WATER)
    assert len(read_structure(file)) == 3


def ethanol_block() -> str:
    from rdkit import Chem
    from rdkit.Chem import AllChem

    mol = Chem.AddHs(Chem.MolFromSmiles("CCO"))
    AllChem.EmbedMolecule(mol, randomSeed=7)
    return Chem.MolToMolBlock(mol)


def test_mol_and_sdf_are_read_through_rdkit(tmp_path):
    block = ethanol_block()
    file = tmp_path / "e.sdf"
    file.write_text(block + "$$$$\n")
    atoms = read_structure(file)
    assert sorted(atoms.symbols) == sorted("CCOHHHHHH")
    again = read_mol(write_mol(atoms, name="ethanol"))
    assert again.symbols == atoms.symbols
    assert (
        max(
            abs(a - b) for p, q in zip(again.positions, atoms.positions, strict=True) for a, b in zip(p, q, strict=True)
        )
        < 1e-4
    )


def test_formal_charges_and_radicals_become_charge_and_multiplicity():
    from rdkit import Chem
    from rdkit.Chem import AllChem

    mol = Chem.AddHs(Chem.MolFromSmiles("C[NH3+]"))
    AllChem.EmbedMolecule(mol, randomSeed=7)
    assert read_mol(Chem.MolToMolBlock(mol)).charge == 1
    radical = Chem.AddHs(Chem.MolFromSmiles("[CH3]"))
    AllChem.EmbedMolecule(radical, randomSeed=7)
    assert read_mol(Chem.MolToMolBlock(radical)).multiplicity == 2


def test_malformed_mol_files_are_refused():
    from rdkit import Chem

    block = ethanol_block()
    flat = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
    no_hydrogens = "\n".join(block.splitlines()[:4]).replace("  9  8", "  3  2")
    carbons = [line for line in block.splitlines()[4:] if line[31:33] in {"C ", "O "}]
    no_hydrogens += "\n" + "\n".join(carbons) + "\n  1  2  1  0\n  2  3  1  0\nM  END\n"
    for text, message in [
        ("", "empty"),
        ("hello", "M  END"),
        (block[:200], "M  END"),
        (block + "$$$$\n" + block + "$$$$\n", "2 molecules"),
        (block.replace("  9  8", " 12  8"), "no MOL or SDF"),
        (flat, "flat"),
        (no_hydrogens, "leaves out 6 hydrogen"),
    ]:
        with pytest.raises(MoleculeError, match=message):
            read_mol(text)


@given(structures())
def test_ase_keeps_structure_and_identity(atoms):
    if atoms.cell is not None and any(all(c == 0 for c in row) for row in atoms.cell):
        return
    image = to_ase(atoms, iri="https://example.org/s/1")
    assert from_ase(image) == atoms
    assert iri_of(image) == "https://example.org/s/1"
