"""Molecules and levels of theory that cannot be: refused by `grafico run` before anything is created."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WATER = "3\nwater\nO 0 0 0\nH 0 0 0.96\nH 0.93 0 -0.24\n"

MOLECULES: dict[str, tuple[str, str]] = {
    # the value of `molecule`, and what the message must hold
    "none": ("{}", "give exactly one of smiles, name, file, xyz and iri; none was given"),
    "two at once": ("{name: water, smiles: O}", "smiles and name were given"),
    "an unknown key": ("{smile: O}", "unknown key; did you mean 'smiles'?"),
    "an unknown name": ("{name: watter}", "water"),
    "an open ring": ("{smiles: C1CC}", "C1CC"),
    "too many bonds": ("{smiles: 'C(C)(C)(C)(C)C'}", "C(C)(C)(C)(C)C"),
    "no SMILES at all": ("{smiles: 'not a molecule'}", "not a molecule"),
    "brackets without quotes": ("{smiles: [OH-]}", "put it in quotes"),
    "an odd number of electrons as a singlet": ("{name: water, charge: 1, multiplicity: 1}", "9 electrons"),
    "an even number of electrons as a doublet": ("{name: water, multiplicity: 2}", "10 electrons"),
    "more unpaired electrons than electrons": ("{smiles: '[H][H]', multiplicity: 5}", "multiplicity"),
    "more charge than electrons": ("{smiles: '[H][H]', charge: 3}", "charge"),
    "half a charge": ("{name: water, charge: 0.5}", "input.molecule.charge: must be a valid integer"),
    "a multiplicity of 0": ("{name: water, multiplicity: 0}", "greater than or equal to 1, came 0"),
    "a file that is not there": ("{file: none.xyz}", "there is no file"),
    "a file of another kind": ("{file: notes.pdf}", "notes.pdf"),
    "a folder": ("{file: .}", "is a directory"),
}  # fmt: skip

STRUCTURES: dict[str, tuple[str | bytes, str]] = {
    # what the XYZ file holds, and what the message must hold
    "empty": ("", "empty"),
    "only blank lines": ("\n\n\n", "empty"),
    "fewer atoms than promised": ("4\nwater\nO 0 0 0\nH 0 0 0.96\nH 0.93 0 -0.24\n", "4"),
    "cut in a line": ("3\nwater\nO 0 0 0\nH 0 0 0.96\nH 0.93\n", "line 5"),
    "no count": ("water\nO 0 0 0\n", "line 1"),
    "a negative count": ("-3\nwater\n", "-3"),
    "text for a number": ("1\n\nO 0 zero 0\n", "line 3"),
    "not a finite number": ("1\n\nO 0 nan 0\n", "line 3"),
    "an unknown element": ("2\n\nO 0 0 0\nXq 0 0 1\n", "Xq"),
    "clashing atoms": ("2\n\nO 0 0 0\nH 0 0 0.05\n", "0.05"),
    "the same atom twice": ("3\n\nO 0 0 0\nH 0 0 0.96\nH 0 0 0.96\n", "apart"),
    "not UTF-8": (b"3\n\xff\xfe\nO 0 0 0\n", "UTF-8"),
    "binary": (bytes(range(256)), "structure.xyz"),
}  # fmt: skip

LEVELS: dict[str, tuple[str, str]] = {
    # lines of the input, and what the message must hold
    "an unknown functional": ("level: {method: b3lip}", "b3lyp"),
    "an unknown basis set": ("level: {basis: def2-svpp}", "def2-svp"),
    "a basis set without the element": ("level: {basis: cc-pvdz}\n  molecule: {smiles: '[Xe]'}", "Xe"),
    "an unknown solvent": ("level: {solvent: {name: watr}}", "did you mean water?"),
    "a solvent model that is not there": ("level: {solvent: {name: water, model: cosmo-rs}}", "'smd', 'c-pcm' or 'ddcosmo'"),
    "a solvent without a name": ("level: {solvent: {model: smd}}", "input.level.solvent.name: missing"),
    "an unknown dispersion": ("level: {dispersion: d5}", "d5"),
    "a grid that is too fine": ("level: {grid: 12}", "input.level.grid: must be less than or equal to 9, came 12"),
    "a convergence that is a word": ("level: {scf_convergence: tight}", "hartree"),
    "a convergence that is absurd": ("level: {scf_convergence: 1}", "must lie between 1e-13 and 1e-5 hartree"),
    "an unknown task": ("tasks: [optimise]", "did you mean 'optimize'?"),
    "no task": ("tasks: []", "input.tasks"),
    "no states": ("tasks: [tddft]\n  excited_states: {singlets: false}", "neither singlets nor triplets"),
    "too many states": ("tasks: [tddft]\n  excited_states: {roots: 5000}", "input.excited_states.roots"),
    "a temperature with its unit": ("temperature: 300 K", 'input.temperature: must be a valid number, came "300 K" (of the thermochemistry, K)'),
    "a temperature of zero": ("temperature: 0", "input.temperature: must be greater than 0"),
    "a key of another program": ("level: {functional: b3lyp}", "input.level.functional: unknown key"),
}  # fmt: skip

ENSEMBLES: dict[str, tuple[str, str]] = {
    "no molecule": ("search: {seeds: 10}", "input.molecule: missing"),
    "an environment twice": ("molecule: {smiles: CCO}\n  environments: [{name: gas}, {name: gas}]", "gas"),
    "geometries from nowhere": ("molecule: {smiles: CCO}\n  environments: [{name: gas, geometries: vacuum}]", "vacuum"),
    "an environment with a space": ("molecule: {smiles: CCO}\n  environments: [{name: in water}]", "input.environments[0].name"),
    "an unknown solvent": ("molecule: {smiles: CCO}\n  environments: [{name: wet, solvent: watre}]", "water"),
    "a need that is no word": ("molecule: {smiles: CCO}\n  need: most", "input.need"),
    "a weight above one": ("molecule: {smiles: CCO}\n  cumulative_weight: 95", "input.cumulative_weight: must be less than or equal to 1"),
}  # fmt: skip


@pytest.fixture
def refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grafico: Callable[..., Any]) -> Callable[..., None]:
    """Run a job with an input; it must be refused."""
    monkeypatch.chdir(tmp_path)

    def check(lines: str, expected: str, *, graph: str = "quantum-chemistry") -> None:
        (tmp_path / "job.yaml").write_text(f"graph: {graph}\ninput:\n  {lines}\n")
        before = sorted(path.name for path in tmp_path.iterdir())
        said = grafico("run", "job.yaml", "--quiet")
        assert said.code == 2, said.err
        assert expected in said.err
        assert "job.yaml" in said.err
        assert "Traceback" not in said.err
        assert said.err.count("grafico: ") == 1
        assert said.out == ""
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    return check


@pytest.mark.parametrize("case", MOLECULES)
def test_a_molecule_that_cannot_be(case: str, refuse: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    molecule, expected = MOLECULES[case]
    refuse(f"molecule: {molecule}", expected)


@pytest.mark.parametrize("case", STRUCTURES)
def test_a_structure_file_that_cannot_be_used(case: str, refuse: Callable[..., None], tmp_path: Path) -> None:
    content, expected = STRUCTURES[case]
    path = tmp_path / "structure.xyz"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refuse("molecule: {file: structure.xyz}", expected)


@pytest.mark.parametrize("case", LEVELS)
def test_a_level_that_cannot_be(case: str, refuse: Callable[..., None]) -> None:
    lines, expected = LEVELS[case]
    refuse(lines if "molecule:" in lines else f"molecule: {{name: water}}\n  {lines}", expected)


@pytest.mark.parametrize("case", ENSEMBLES)
def test_an_ensemble_that_cannot_be(case: str, refuse: Callable[..., None]) -> None:
    lines, expected = ENSEMBLES[case]
    refuse(lines, expected, graph="ensemble-spectrum")


def test_a_structure_that_can_be_used_is_planned(
    grafico: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "water.xyz").write_text(WATER)
    (tmp_path / "job.yaml").write_text("graph: quantum-chemistry\ninput: {molecule: {file: water.xyz}}\n")
    said = grafico("run", "job.yaml", "--dry-run", "--json")
    assert said.code == 0, said.err
    assert [item["calculation"] for item in said.json["calculations"]] == ["optimization", "frequencies"]
    assert said.json["files"] == [str(tmp_path / "water.xyz")]
    assert {engine["name"] for engine in said.json["engines"]} >= {"pyscf", "geometric"}
