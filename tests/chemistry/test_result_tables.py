"""The result of a quantum chemistry job as people see it."""

from typing import Any

import pytest

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef
from grafico.chemistry.calculations.tddft import Excitation
from grafico.chemistry.properties import Electronic, Orbitals
from grafico.chemistry.quantum_chemistry import QCResult, Vibrations
from grafico.chemistry.request import Level

REF = ArtifactRef(digest="0" * 64, size=1, media_type="application/octet-stream")


@pytest.fixture
def parts() -> dict[str, Any]:
    """Hydrogen with everything but charges."""
    electronic = Electronic(
        energy=-1.116759,
        converged=True,
        orbitals=Orbitals(homo_ev=-15.8, lumo_ev=18.2),
        gap_ev=34.0,
        dipole=(0.0, 3.0, 4.0),
        mulliken=(0.0, 0.0),
        s_squared=0.0,
        wavefunction=REF,
    )
    return {
        "label": "hydrogen",
        "atoms": ConceptualAtoms(symbols=("H", "H"), positions=((0, 0, 0), (0, 0, 0.74)), charge=0, multiplicity=1),
        "level": Level(method="hf", basis="sto-3g"),
        "energy": electronic.energy,
        "electronic": electronic,
        "vibrations": Vibrations(wavenumbers=(-12.3, 4400.0), analytical=True, imaginary=1, modes=REF, hessian=REF),
        "excitations": tuple(
            Excitation(
                kind="singlet", energy_ev=energy, wavelength_nm=1239.84 / energy, oscillator_strength=0.5,
                transition_dipole=(0, 0, 1), promotions=(),
            )
            for energy in (12.5, 13.0)
        ),
        "excited_level": Level(method="b3lyp", basis="sto-3g"),
        "notes": ("a note",),
    }  # fmt: skip


def test_energy_frequencies_and_excitations_are_shown(parts: dict[str, Any]) -> None:
    numbers, vibrations, excitations, notes = QCResult(**parts).tables()
    shown = {name: (value, unit) for name, value, unit in numbers["rows"]}
    assert numbers["title"] == f"hydrogen, {parts['level'].label}"
    assert shown["energy"] == ("-1.11675900", "hartree")
    assert shown["dipole moment"] == ("5.0000", "debye")
    assert shown["imaginary modes"] == (1, "")
    assert notes["rows"] == [("a note",)]
    assert vibrations["rows"] == [(1, "-12.3", None), (2, "4400.0", None)]
    assert parts["excited_level"].label in excitations["title"]
    assert [row[2:] for row in excitations["rows"]] == [("12.5000", "99.2", "0.5000"), ("13.0000", "95.4", "0.5000")]


def test_what_was_not_asked_for_is_not_shown(parts: dict[str, Any]) -> None:
    bare = {key: parts[key] for key in ("label", "atoms", "level")}
    assert QCResult(**bare, energy=None).tables() == ()
    [numbers] = QCResult(**bare, energy=-1.0).tables()
    assert [row[0] for row in numbers["rows"]] == ["energy"]


def test_long_tables_say_where_the_rest_is(parts: dict[str, Any]) -> None:
    many = parts["vibrations"].model_copy(update={"wavenumbers": tuple(map(float, range(1, 200)))})
    _, vibrations, *_ = QCResult(**{**parts, "vibrations": many}).tables()
    assert len(vibrations["rows"]) == 60
    assert "the first 60 of 199, the others are in result.json" in vibrations["title"]
