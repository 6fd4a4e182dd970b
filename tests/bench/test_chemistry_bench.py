"""The chemistry benchmark compares like with like."""

from pathlib import Path

import pytest

from grafico.bench.chemistry import JOB, bench
from grafico.jobs.load import load_job

ROOT = Path(__file__).parent.parent.parent


def test_it_measures_the_quickstart(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    assert load_job(tmp_path / "job.yaml").request == load_job(ROOT / "jobs" / "quickstart.yaml").request


@pytest.mark.slow
def test_both_sides_agree_in_their_energies(tmp_path: Path) -> None:
    small = JOB.replace("{name: glycolaldehyde}", "{smiles: ON=O}").replace("seeds: 200", "seeds: 10")
    (tmp_path / "job.yaml").write_text(small.replace("def2-svp", "sto-3g").replace("grid: 2", "grid: 1"))
    measured = bench(tmp_path / "job.yaml")
    assert measured["conformers refined"] == 2
    assert measured["largest difference of an energy"]["value"] < 1e-6
