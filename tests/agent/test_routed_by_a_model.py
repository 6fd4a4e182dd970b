"""A real lane routed by a real small model on the CPU: poor choices, and still an admissible, explained end."""

import subprocess
import sys
from pathlib import Path

import pytest

from grafico.control import read_calls
from grafico.runs import RunStatus, read_run
from tests.local_model import served

pytest.importorskip("litellm")
pytest.importorskip("pyscf")

JOB = """\
name: routed
graph: quantum-chemistry
knowledge: {{persist: false}}
router:
  model: openai/local
  api_base: {base}
  key_variable: GRAFICO_LOCAL_MODEL_KEY
  max_tokens: 160
  timeout_s: 240
  patience_s: 500
  corrections: 1
  budget: {{requests: 10}}
input:
  molecule: {{name: hydrogen}}
  tasks: [single_point, analysis]
  level: {{method: hf, basis: sto-3g}}
"""


def grafico(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from grafico.cli.entry import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=580, check=False)


@pytest.mark.slow
def test_a_small_model_routes_a_run_to_an_admissible_end_and_a_resume_asks_nothing(tmp_path):
    with served() as base:
        (tmp_path / "job.yaml").write_text(JOB.format(base=base))
        done = grafico(tmp_path, "run", "job.yaml", "--quiet")
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 4}, done.stderr
    (root,) = (tmp_path / "runs").iterdir()
    view = read_run(root)
    assert view.status in {RunStatus.FINISHED, RunStatus.FAILED}
    calls = read_calls(view.paths.ledger)
    assert 1 <= len(calls) <= 10
    assert {call.purpose for call in calls} == {"route"}
    assert sum(call.tokens.prompt for call in calls) > 100
    routes = [event for event in view.story() if event.kind == "route"]
    assert routes
    assert {event.data["by"] for event in routes} <= {"model", "stand-in", "forced", "fallback", "rule"}
    assert {event.data["by"] for event in routes} & {"model", "stand-in", "fallback"}
    assert view.manifest.models["calls"] == len(calls)
    assert (root / "audit.jsonl").stat().st_mode & 0o077 == 0
    if view.status is RunStatus.FAILED:
        assert view.failure["message"]
    # The server is gone; nothing that was answered is asked again.
    again = grafico(tmp_path, "resume", "last", "--keep-failures", "--quiet")
    assert again.returncode == done.returncode, again.stderr
    assert len(read_calls(view.paths.ledger)) == len(calls)
    shown = grafico(tmp_path, "explain", "last")
    assert "route" in shown.stdout
