"""The benchmark of relaxations compares like with like."""

from pathlib import Path

import pytest

from grafico.atoms import write_cif
from grafico.bench.frameworks import CELL_LIMIT, ENERGY_LIMIT, bench, small_frameworks
from grafico.errors import BadInput


def test_its_structures_are_always_the_same_and_differ_in_size() -> None:
    pytest.importorskip("ase")
    first = small_frameworks()
    assert first == small_frameworks()
    assert sorted({len(atoms) for atoms in first.values()}) == [10, 20, 40, 80]
    assert len({atoms.content_digest for atoms in first.values()}) == len(first)


def test_what_cannot_be_compared_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="many frameworks at once"):
        bench(model="chgnet")
    with pytest.raises(BadInput, match="no CIF files"):
        bench(tmp_path)


@pytest.mark.slow
def test_all_three_ways_agree(tmp_path: Path) -> None:
    pytest.importorskip("sevenn")
    pytest.importorskip("torch_sim")
    some = small_frameworks()
    for name in ("Zn10", "Cd10"):
        (tmp_path / f"{name}.cif").write_text(write_cif(some[name]))
    # One thread: with more, structures of ten atoms spend their time waiting for each other's threads.
    found = bench(tmp_path, fmax=0.3, cpus=1)
    assert found["structures"] == 2
    assert found["not converged"] == {"one process a structure": 0, "batched": 0, "script": 0}
    for way in ("batched", "script"):
        assert found[f"{way}: largest difference of an energy"]["value"] < ENERGY_LIMIT
        assert found[f"{way}: largest difference of a cell"]["value"] < CELL_LIMIT
