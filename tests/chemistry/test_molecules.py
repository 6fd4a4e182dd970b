"""From SMILES, names, files and text to structures."""

import numpy
import pytest
from qc_support import Walked

from grafico.atoms import ConceptualAtoms, bonds
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.names import ALIASES, NAMES
from grafico.chemistry.quantum_chemistry import QCRequest
from grafico.chemistry.request import Level, MoleculeInput
from grafico.errors import MoleculeError
from grafico.knowledge import KnowledgeBase, RunKnowledge


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_table_has_a_structure(name):
    atoms = resolve_molecule(MoleculeInput(name=name))
    assert len(atoms) > 1
    assert atoms.charge == 0


def test_other_spellings_lead_to_the_table():
    assert set(ALIASES.values()) <= set(NAMES)
    assert not set(ALIASES) & set(NAMES)
    assert resolve_molecule(MoleculeInput(name="  Acetic   ACID ")) == resolve_molecule(
        MoleculeInput(name="ethanoic acid")
    )


def test_the_same_smiles_gives_the_same_structure():
    first, second = (resolve_molecule(MoleculeInput(smiles="CC1OC1CO")) for _ in range(2))
    assert first == second
    assert len(bonds(first)) == 14


@pytest.mark.parametrize(
    ("smiles", "charge", "multiplicity"),
    [("[NH4+]", 1, 1), ("[CH3]", 0, 2), ("[O][O]", 0, 3), ("[Cl-]", -1, 1), ("[H]", 0, 2), ("C=O", 0, 1)],
)
def test_charge_and_spin_come_from_the_smiles(smiles, charge, multiplicity):
    atoms = resolve_molecule(MoleculeInput(smiles=smiles))
    assert (atoms.charge, atoms.multiplicity) == (charge, multiplicity)


def test_a_charge_of_the_job_goes_before_that_of_the_smiles():
    anion = resolve_molecule(MoleculeInput(smiles="CSSC", charge=-1))
    assert (anion.charge, anion.multiplicity) == (-1, 2)
    triplet = resolve_molecule(MoleculeInput(name="methane", multiplicity=3))
    assert triplet.multiplicity == 3


def test_xyz_text_may_leave_out_its_two_header_lines():
    bare = resolve_molecule(MoleculeInput(xyz="O 0 0 0\nH 0 0 0.96\nH 0.93 0 -0.24\n"))
    full = resolve_molecule(MoleculeInput(xyz="3\nwater\nO 0 0 0\nH 0 0 0.96\nH 0.93 0 -0.24\n"))
    assert bare == full
    assert resolve_molecule(MoleculeInput(xyz="O 0 0 0\nH 0 0 0.96")).multiplicity == 2


def test_files_are_taken_from_the_folder_of_the_job(tmp_path):
    (tmp_path / "water.xyz").write_text("3\n\nO 0 0 0\nH 0 0 0.96\nH 0.93 0 -0.24\n")
    atoms = resolve_molecule(MoleculeInput(file="water.xyz"), folder=tmp_path)
    assert atoms.symbols == ("O", "H", "H")
    cation = resolve_molecule(MoleculeInput(file=str(tmp_path / "water.xyz"), charge=1))
    assert (cation.charge, cation.multiplicity) == (1, 2)


def test_an_iri_is_looked_up_in_the_knowledge_base():
    known = ConceptualAtoms(symbols=("He",), positions=((0, 0, 0),))
    found = resolve_molecule(
        MoleculeInput(iri="https://example.org/helium"), lookup={"https://example.org/helium": known}.__getitem__
    )
    assert found == known


def test_what_a_job_persisted_can_begin_another(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "kb"))
    level = Level(method="hf", basis="sto-3g")
    knowledge = RunKnowledge(tmp_path, run_id="first", store=KnowledgeBase())
    first = Walked(QCRequest(molecule=MoleculeInput(name="water"), level=level), persist=knowledge).result
    assert first.persisted
    found = resolve_molecule(MoleculeInput(iri=first.persisted[0]))
    assert found.symbols == first.atoms.symbols
    assert found.positions == pytest.approx(numpy.array(first.atoms.positions))
    with pytest.raises(MoleculeError, match="no entity"):
        resolve_molecule(MoleculeInput(iri="https://example.org/helium"))


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"xyz": "3\nwater\nO 0 0 0\nH 0 0.76 0.59\nH 0 -0.76 0.59\n"}, "H2O"),
        ({"xyz": "C 0 0 0\nO 0 0 1.13"}, "CO"),
        ({"xyz": "no structure"}, "xyz"),
        ({"file": "/somewhere/cis-azobenzene.xyz"}, "cis-azobenzene"),
        ({"file": "inputs/1-water.sdf"}, "water"),
        ({"smiles": "ON=O"}, "ON=O"),
    ],
)
def test_a_molecule_is_called_by_its_name_its_file_or_its_formula(given: dict[str, str], label: str) -> None:
    assert MoleculeInput(**given).label == label


def test_a_crystal_is_no_molecule(tmp_path):
    (tmp_path / "a.extxyz").write_text(
        '1\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 pbc="T T T"\nHe 0 0 0\n'
    )
    with pytest.raises(MoleculeError, match="has a unit cell"):
        resolve_molecule(MoleculeInput(file="a.extxyz"), folder=tmp_path)
