"""Commits: one winner for a key, nothing damaged is taken for whole, artifacts are what their name says."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from run_children import Energy, child, said

from grafico.calculations import ArtifactRef, CalculationError, FailureKind, Provenance, Success
from grafico.errors import RunError
from grafico.runs import ArtifactStore, OutcomeStore, Run, RunPaths, changed_versions

KEY = "ab" * 32


class Other(BaseModel):
    energies: list[float]


def test_an_outcome_comes_back_bit_for_bit(run: Run) -> None:
    store = OutcomeStore(run.paths)
    given_ = Success[Other](output=Other(energies=[0.1 + 0.2, -1e-300, 5e-324, -0.0]), provenance=Provenance(attempt=2))
    kept, digest = store.commit(KEY, given_)
    found = store.read(KEY, Other)
    assert found == kept
    assert [x.hex() for x in found.output.energies] == [x.hex() for x in given_.output.energies]
    assert found.key == KEY
    assert store.digest(KEY) == digest
    assert store.keys() == [KEY]
    assert store.read("cd" * 32, Other) is None


def test_the_first_commit_of_a_key_counts(run: Run) -> None:
    store = OutcomeStore(run.paths)
    first = store.commit(KEY, Success(output=Energy(hartree=-1.0)))
    second = store.commit(KEY, Success(output=Energy(hartree=-2.0)))
    assert first[1] == second[1]
    assert second[0].output == Energy(hartree=-1.0)
    assert json.loads(run.paths.outcome(KEY).read_text())["digest"] == first[1]


def test_many_processes_that_commit_one_key_have_one_winner(run: Run, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    racers = [child("commit", run.paths.root, KEY, number, gate) for number in range(1, 7)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b'"ready"\n'
    gate.touch()
    answers = [said(racer.communicate(timeout=60)[0])[-1] for racer in racers]
    assert len({tuple(answer) for answer in answers}) == 1
    kept = OutcomeStore(run.paths).read(KEY, Energy)
    assert kept is not None
    assert kept.output.hartree == answers[0][0]
    assert [path.name for path in run.paths.outcome(KEY).parent.iterdir()] == [f"{KEY}.json"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_outcome_is_moved_aside_and_counts_as_not_committed(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        store = OutcomeStore(RunPaths(folder))
        store.commit(KEY, Success(output=Energy(hartree=-1.0)))
        path = store.paths.outcome(KEY)
        whole = path.read_bytes()
        if data.draw(st.booleans(), label="truncated"):
            broken = whole[: data.draw(st.integers(0, len(whole) - 1))]
        else:
            place = data.draw(st.integers(0, len(whole) - 1))
            broken = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
        path.write_bytes(broken)
        assert store.digest(KEY) is None
        assert store.read(KEY, Energy) is None
        assert len(store.damaged) == 1
        assert path.with_name(f"{KEY}.json.damaged").read_bytes() == broken
        kept, _ = store.commit(KEY, Success(output=Energy(hartree=-3.0)))
        assert kept.output.hartree == -3.0
        assert store.read(KEY, Energy) == kept


def test_a_commit_over_a_damaged_outcome_wins(run: Run) -> None:
    store = OutcomeStore(run.paths)
    store.commit(KEY, Success(output=Energy(hartree=-1.0)))
    run.paths.outcome(KEY).write_bytes(b"")
    kept, _ = store.commit(KEY, Success(output=Energy(hartree=-2.0)))
    assert kept.output.hartree == -2.0
    assert store.damaged


def test_an_outcome_of_another_key_is_not_taken(run: Run) -> None:
    store = OutcomeStore(run.paths)
    store.commit(KEY, Success(output=Energy(hartree=-1.0)))
    other = "cd" * 32
    run.paths.outcome(other).parent.mkdir()
    run.paths.outcome(other).write_bytes(run.paths.outcome(KEY).read_bytes())
    assert store.read(other, Energy) is None
    assert "belongs to the key" in store.damaged[0]


def test_an_outcome_of_another_type_is_an_error_that_names_the_field_and_moves_nothing(run: Run) -> None:
    store = OutcomeStore(run.paths)
    store.commit(KEY, Success(output=Energy(hartree=-1.0)))
    with pytest.raises(RunError, match=r"output\.energies"):
        store.read(KEY, Other)
    assert store.keys() == [KEY]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_output_that_is_no_number_is_not_committed(run: Run, value: float) -> None:
    store = OutcomeStore(run.paths)
    with pytest.raises(CalculationError, match="NaN") as caught:
        store.commit(KEY, Success(output=Energy(hartree=value)))
    assert caught.value.kind is FailureKind.ENGINE_ERROR
    assert store.keys() == []


def test_artifacts_are_kept_once_and_verified_on_demand(run: Run) -> None:
    store = ArtifactStore(run.paths)
    ref = store.put(b"orbitals", "application/x-npy")
    assert store.put(b"orbitals", "application/x-npy") == ref
    assert store.read(ref) == b"orbitals"
    assert store.verify(ref)
    path = store.path(ref)
    path.chmod(0o600)
    path.write_bytes(b"0rbitals")
    assert not store.verify(ref)
    with pytest.raises(RunError, match="does not match its name"):
        store.read(ref)
    path.write_bytes(b"orb")
    with pytest.raises(RunError, match="3 bytes, expected 8"):
        store.path(ref)
    assert store.put(b"orbitals", "application/x-npy") == ref
    assert store.read(ref) == b"orbitals"
    with pytest.raises(RunError, match="is missing"):
        store.path(ArtifactRef(digest=KEY, size=1))


def test_versions_that_differ_from_those_installed_are_counted(run: Run) -> None:
    store = OutcomeStore(run.paths)
    for number, version in enumerate(["2.8", "2.8", "2.9"]):
        versions = {"pyscf": version, "numpy": "2.0"}
        store.commit(f"{number:064x}", Success(output=Energy(hartree=0.0), provenance=Provenance(versions=versions)))
    assert changed_versions(store, current={"pyscf": "2.9"}) == {"pyscf": {"2.8": 2}}
    assert changed_versions(store, [f"{2:064x}"], current={"pyscf": "2.9"}) == {}
