"""A short soak: lanes on four pretended GPUs while workers are killed; `grafico bench soak` walks thousands."""

import json

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app


@pytest.mark.slow
def test_lanes_survive_killed_workers_and_slots_are_never_overfilled():
    done = CliRunner().invoke(app, ["bench", "soak", "--lanes", "300", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["lanes done"] + found["lanes failed"] == 300
    assert found["workers killed"] >= 5
    assert found["most on one GPU at once"]["value"] == 3
