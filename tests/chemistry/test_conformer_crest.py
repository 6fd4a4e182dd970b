"""CREST and solvent shells: command lines, the files they write, and what is said when a program is missing."""

import os
from pathlib import Path

import pytest

from grafico.atoms import ConceptualAtoms, bonds, fragments
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.chemistry.calculations.crest import (
    CrestInput,
    QCGInput,
    crest_arguments,
    crest_path,
    crest_search,
    parse_ensemble,
    qcg_arguments,
    qcg_cluster,
)
from grafico.chemistry.calculations.shell import ShellInput, packmol_input, packmol_path, solvate, sphere_radius
from grafico.errors import MissingExtra
from grafico.graphs import FolderArtifacts
from tests.programs import need

WATER = ConceptualAtoms(symbols=("O", "H", "H"), positions=((0, 0, 0.12), (0, 0.76, -0.48), (0, -0.76, -0.48)))
# The format of crest_conformers.xyz, cre_members and crest.energies, as cregen.f90 of CREST 3 writes them.
CONFORMERS = """    3
        -5.07054400
 O          0.0000000000        0.0000000000        0.1011100000
 H          0.0000000000        0.7722060000       -0.4679710000
 H          0.0000000000       -0.7722060000       -0.4679710000
    3
        -5.06900000 !mtd3
 O          0.0000000000        0.0000000000        0.1211100000
 H          0.0000000000        0.7522060000       -0.4679710000
 H          0.0000000000       -0.7522060000       -0.4679710000
"""
MEMBERS = "   2\n          27          1         27\n           5         28         32\n"
ENERGIES = "    1         0.000\n    2         0.969\n"


@pytest.fixture
def ctx(tmp_path):
    (tmp_path / "scratch").mkdir()
    return WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path / "scratch")


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """Put a program of that name first on PATH: the boundary to a program that is not to be had here."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_an_ensemble_is_read_with_its_rotamer_counts():
    first, second = parse_ensemble(CONFORMERS, MEMBERS, ENERGIES, like=WATER)
    assert (first.energy, first.degeneracy) == (-5.070544, 27)
    assert (second.energy, second.degeneracy) == (-5.069, 5)
    assert second.atoms.positions[1] == (0.0, 0.752206, -0.467971)
    assert [candidate.degeneracy for candidate in parse_ensemble(CONFORMERS, like=WATER)] == [1, 1]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((CONFORMERS.replace("-5.06900000", "energy"), None, None), "no energy"),
        ((CONFORMERS[:-80], None, None), "only 2 lines"),
        ((CONFORMERS.replace(" O ", " S "), None, None), "other atoms"),
        ((CONFORMERS, "   3\n" + MEMBERS[5:], None), "cre_members"),
        ((CONFORMERS, MEMBERS.replace("32", "33"), None), "cre_members"),
        ((CONFORMERS, "nothing", None), "cre_members"),
        ((CONFORMERS, MEMBERS, ENERGIES.replace("0.969", "1.969")), "contradicts"),
        ((CONFORMERS, MEMBERS, "1\n"), "damaged"),
        (("", None, None), "empty"),
    ],
)
def test_damaged_or_contradictory_files_are_refused(files, message):
    with pytest.raises(CalculationError, match=message) as caught:
        parse_ensemble(*files, like=WATER)
    assert caught.value.kind is FailureKind.ENGINE_ERROR


def test_command_lines_say_charge_spin_window_solvent_and_mode():
    cation = ConceptualAtoms(**{**WATER.model_dump(), "charge": 1, "multiplicity": 2})
    line = " ".join(crest_arguments(CrestInput(atoms=cation, mode="nci", solvent="water", window=4, threads=8)))
    assert line == "input.xyz --gfn2 --chrg 1 --uhf 1 --ewin 4 -T 8 --alpb water --nci"
    assert "--entropy" in crest_arguments(CrestInput(atoms=WATER, mode="entropy"))
    grown = " ".join(qcg_arguments(QCGInput(solute=cation, solvent=WATER, molecules=6, threads=2)))
    assert grown.startswith("solute.xyz --qcg solvent.xyz --nsolv 6")
    assert "--chrg 1 --uhf 1 -T 2" in grown


def test_a_search_runs_the_program_and_reads_its_files(ctx, tmp_path, monkeypatch):
    (tmp_path / "c").write_text(CONFORMERS)
    (tmp_path / "m").write_text(MEMBERS)
    script = f'echo "Version 3.0.2, x"; test -f input.xyz || exit 9; cp {tmp_path}/c crest_conformers.xyz; cp {tmp_path}/m cre_members'
    install(tmp_path, monkeypatch, "crest", script)
    found = crest_search.function(CrestInput(atoms=WATER), ctx)
    assert [candidate.degeneracy for candidate in found.candidates] == [27, 5]
    assert ctx.versions == {"crest": "3.0.2"}


def test_a_program_that_fails_or_writes_nothing_is_an_engine_error(ctx, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "crest", "echo 'xtb was not found'; exit 3")
    with pytest.raises(CalculationError, match="status 3: xtb was not found") as caught:
        crest_search.function(CrestInput(atoms=WATER), ctx)
    assert caught.value.kind is FailureKind.ENGINE_ERROR
    install(tmp_path, monkeypatch, "crest", "exit 0")
    with pytest.raises(CalculationError, match="without writing crest_conformers"):
        crest_search.function(CrestInput(atoms=WATER), ctx)
    with pytest.raises(CalculationError, match="cluster_optimized"):
        qcg_cluster.function(QCGInput(solute=WATER, solvent=WATER, molecules=1), ctx)


def test_a_grown_cluster_is_read(ctx, tmp_path, monkeypatch):
    pair = "6\n energy: -10.15000000 gnorm: 0.0005 xtb: 6.7.1\n"
    pair += "O 0 0 0.12\nH 0 0.76 -0.48\nH 0 -0.76 -0.48\nO 0 0 3.12\nH 0 0.76 2.52\nH 0 -0.76 2.52\n"
    (tmp_path / "pair").write_text(pair)
    install(tmp_path, monkeypatch, "crest", f"mkdir grow; cp {tmp_path}/pair grow/cluster_optimized.xyz")
    found = qcg_cluster.function(QCGInput(solute=WATER, solvent=WATER, molecules=1), ctx)
    assert (found.energy, len(found.atoms), found.solute_atoms) == (-10.15, 6, 3)
    with pytest.raises(CalculationError, match="other atoms"):
        qcg_cluster.function(QCGInput(solute=WATER, solvent=WATER, molecules=2), _fresh(ctx))


def _fresh(ctx: WorkContext) -> WorkContext:
    folder = ctx.scratch.parent / "again"
    folder.mkdir()
    return WorkContext(artifacts=ctx.artifacts, scratch=folder)


def test_missing_programs_are_named_with_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtra, match="packmol") as caught:
        packmol_path()
    assert "apt install packmol" in str(caught.value.hint)
    with pytest.raises(MissingExtra, match="crest") as caught:
        crest_path()
    assert "conda-forge" in str(caught.value.hint)


def test_the_sphere_holds_solute_and_solvent_at_the_density():
    value = ShellInput(solute=WATER, solvent=WATER, molecules=99)
    # 100 molecules of water of 29.9 Å³ each.
    assert 4 / 3 * 3.14159265 * sphere_radius(value) ** 3 == pytest.approx(100 * 29.9, rel=0.01)
    text = packmol_input(value, 8.95)
    assert "number 99" in text
    assert "inside sphere 0. 0. 0. 8.950" in text
    assert "seed 61453" in text


def test_a_shell_is_packed_and_annealed(ctx):
    need("packmol")
    value = ShellInput(solute=WATER, solvent=WATER, molecules=1, picoseconds=0.02)
    found = solvate.function(value, ctx)
    assert len(fragments(found.atoms)) == 2
    assert len(bonds(found.atoms)) == 4
    # Bound by some 5 kcal/mol: two molecules of water are at -10.14109 hartree.
    assert -10.16 < found.energy < -10.143


def test_a_shell_that_does_not_fit_is_an_engine_error(ctx, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "packmol", "echo 'ERROR: could not fit'; exit 0")
    with pytest.raises(CalculationError, match="lower the density"):
        solvate.function(ShellInput(solute=WATER, solvent=WATER, molecules=5, picoseconds=0), ctx)
