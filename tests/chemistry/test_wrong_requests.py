"""Requests that are refused before anything is computed; each message says where and what."""

import pytest
from pydantic import ValidationError

from grafico.chemistry.level import resolve_method, resolve_solvent, solvent_names
from grafico.chemistry.quantum_chemistry import GRAPH, QCRequest
from grafico.chemistry.request import Level, Solvent
from grafico.errors import BadInput

WATER = {"name": "water"}
METHYL = {"smiles": "[CH3]"}

REFUSED = {
    "unknown functional": ({"level": {"method": "b3lpy"}}, r"level: functional 'b3lpy' is not known", "b3lyp"),
    "a number for a functional": ({"level": {"method": "402"}}, r"functional '402'", ""),
    "double hybrid": ({"level": {"method": "b2plyp"}}, r"functional 'b2plyp' is not known", ""),
    "dispersion left out silently": ({"level": {"method": "wB97X-D"}}, r"Chai and Head-Gordon", "wb97x-d4"),
    "composite": ({"level": {"method": "r2scan-3c"}}, r"composite", ""),
    "unknown dispersion": ({"level": {"method": "pbe", "dispersion": "d5"}}, r"dispersion 'd5' is not known", "d3bj"),
    "dispersion without parameters": (
        {"level": {"method": "m06-2x", "dispersion": "d3bj"}},
        r"no parameters for 'm06-2x'",
        "d3zero",
    ),
    "dispersion twice": ({"level": {"method": "wb97x-v", "dispersion": "d4"}}, r"VV10", "leave dispersion out"),
    "contradicting dispersion": ({"level": {"method": "b3lyp-d3bj", "dispersion": "d4"}}, r"contradict", ""),
    "unknown basis": ({"level": {"basis": "def2-spv"}}, r"level.basis: no basis set is called 'def2-spv'", "def2-svp"),
    "a path for a basis": ({"level": {"basis": "/etc/passwd"}}, r"no basis set is called", ""),
    "basis without the element": (
        {"molecule": {"smiles": "[U]"}, "level": {"basis": "6-31g"}},
        r"level.basis: '6-31g' has no functions for U",
        "def2",
    ),
    "unknown auxiliary basis": (
        {"level": {"density_fit": True, "auxiliary_basis": "def2-jkfitt"}},
        r"level.auxiliary_basis",
        "",
    ),
    "unknown solvent": ({"level": {"solvent": {"name": "watr"}}}, r"solvent 'watr' is not in the SMD table", "water"),
    "excited level": (
        {"tasks": ["tddft"], "excited_level": {"method": "cam-b3lip"}},
        r"excited_level: functional 'cam-b3lip'",
        "cam-b3lyp",
    ),
    "triplets of an open shell": (
        {"molecule": METHYL, "tasks": ["tddft"], "excited_states": {"triplets": True}},
        r"excited_states.triplets",
        "",
    ),
    "TDDFT of a restricted open shell": (
        {"molecule": METHYL, "tasks": ["tddft"], "level": {"restricted": True}},
        r"restricted open shell",
        "",
    ),
    "forces of unrestricted VV10": ({"molecule": METHYL, "level": {"method": "wb97x-v"}}, r"no forces", "wb97x-d4"),
    "impossible multiplicity": ({"molecule": {**WATER, "multiplicity": 2}}, r"10 electrons", "1, 3, 5"),
    "multiplicity above the electrons": ({"molecule": {"smiles": "[He]", "multiplicity": 5}}, r"2 electrons", ""),
    "no electrons": ({"molecule": {"smiles": "[H+]"}}, r"leaves no electrons", ""),
    "unknown name": ({"molecule": {"name": "watr"}}, r"no molecule is called 'watr'", "water"),
    "broken SMILES": ({"molecule": {"smiles": "CC(C"}}, r"SMILES 'CC\(C' cannot be read", ""),
    "five bonds at carbon": ({"molecule": {"smiles": "C(C)(C)(C)(C)C"}}, r"valence for atom # 0 C", ""),
    "any atom": ({"molecule": {"smiles": "C*"}}, r"no element", ""),
    "two molecules": ({"molecule": {"smiles": "O.O"}}, r"several molecules", ""),
    "clash": ({"molecule": {"xyz": "H 0 0 0\nH 0 0 0.3"}}, r"atoms 1 \(H\) and 2 \(H\) are 0.300 Å apart", ""),
    "unknown element": ({"molecule": {"xyz": "2\n\nH 0 0 0\nXx 0 0 1"}}, r"line 4: 'Xx'", ""),
    "count line that lies": ({"molecule": {"xyz": "5\n\nH 0 0 0\nH 0 0 1"}}, r"count line says 5 atoms", ""),
    "missing file": ({"molecule": {"file": "/nowhere/at-all.xyz"}}, r"does not exist", ""),
    "directory for a file": ({"molecule": {"file": "/"}}, r"is a directory", ""),
    "unknown iri": ({"molecule": {"iri": "https://example.org/x"}}, r"no entity", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_cannot_be_computed_is_refused(case, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path))
    fields, message, hint = REFUSED[case]
    request = QCRequest.model_validate({"molecule": WATER, **fields})
    with pytest.raises(BadInput, match=message) as caught:
        GRAPH.check(request)
    assert hint in (caught.value.hint or "")
    assert "\n" not in caught.value.message


MALFORMED = {
    "no molecule": {"molecule": {}},
    "two molecules": {"molecule": {"name": "water", "smiles": "O"}},
    "unknown key": {"molecule": WATER, "levle": {}},
    "unknown key of the level": {"molecule": WATER, "level": {"functional": "pbe"}},
    "unknown task": {"molecule": WATER, "tasks": ["optimise"]},
    "no task": {"molecule": WATER, "tasks": []},
    "unknown solvent model": {"molecule": WATER, "level": {"solvent": {"model": "cosmo-rs", "name": "water"}}},
    "grid that is wrong by 0.07 hartree": {"molecule": WATER, "level": {"grid": 0}},
    "convergence out of range": {"molecule": WATER, "level": {"scf_convergence": 1e-3}},
    "auxiliary basis without fitting": {"molecule": WATER, "level": {"auxiliary_basis": "def2-svp-jkfit"}},
    "temperature below zero": {"molecule": WATER, "temperature": -5},
    "too many roots": {"molecule": WATER, "excited_states": {"roots": 1000}},
    "no kind of state": {"molecule": WATER, "excited_states": {"singlets": False}},
    "four removals": {"molecule": WATER, "max_removals": 4},
    "text for a number": {"molecule": WATER, "max_steps": "many"},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_request_out_of_its_schema_is_refused(case):
    with pytest.raises(ValidationError):
        QCRequest.model_validate(MALFORMED[case])


GOOD = [
    "b3lyp",
    "PBE0",
    "wb97x-d4",
    "wB97X-D3",
    "b3lyp-d3bj",
    "cam-b3lyp-d4",
    "r2scan-d4",
    "m06-2x",
    "tpss-d3(bj)",
    "hf",
    "wb97m-v",
    "pbe,pbe",
]


@pytest.mark.parametrize("method", GOOD)
def test_usual_methods_are_known(method):
    resolve_method(Level(method=method))


def test_names_do_not_depend_on_case():
    assert Level(method="B3LYP", basis="Def2-SVP") == Level()
    assert resolve_solvent(Solvent(name="N,N-Dimethylformamide")) == "N,N-dimethylformamide"
    assert resolve_solvent(Solvent(name="DMF")) == "N,N-dimethylformamide"
    assert resolve_solvent(Solvent(name="heptane")) == "n-heptane"
    assert len(solvent_names()) > 170
