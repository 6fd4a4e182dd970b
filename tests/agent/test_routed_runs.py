"""Runs that a model routes: killed in the middle, without their server, without budget; and what leaves the machine."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "control"))

pytest.importorskip("litellm")
pytest.importorskip("pyscf")
pytest.importorskip("tblite")

from scripted_server import ScriptedServer, fails, says

from grafico.control import read_calls
from grafico.runs import RunStatus, read_run

KEY = "sk-this-key-must-not-be-seen-0123456789"
JOB = """\
name: routed
graph: ensemble-spectrum
knowledge: {{persist: false}}
router:
  model: openai/local
  api_base: {base}
  key_variable: TEST_ROUTER_KEY
  timeout_s: 60
  tries: 2
{more}
input:
  molecule: {{smiles: ON=O}}
  search: {{engine: rdkit, seeds: 20, batches: 2}}
  level: {{method: hf, basis: sto-3g}}
  excited_states: {{roots: 2, tda: true}}
  environments:
    - {{name: gas}}
    - {{name: water, solvent: water, model: c-pcm, geometries: gas}}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from grafico.cli.entry import main; main()", *arguments]


def grafico(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TEST_ROUTER_KEY": KEY, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=400, check=False, env=environment
    )


def question_of(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def obeys(handler: Any, body: dict[str, Any]) -> None:
    """Answer with what the workflow's own rule would take."""
    named = re.search(r"own rule would take: (\S+)", question_of(body))
    assert named
    says(json.dumps({"successor": named.group(1), "parameters": {}, "reasoning": "as asked", "confidence": 0.9}))(
        handler, body
    )


def routes_of(folder: Path) -> list[dict[str, Any]]:
    (root,) = (folder / "runs").iterdir()
    view = read_run(root)
    stories = [view.story(), *(view.story(lane) for lane in view.lanes)]
    return [dict(event.data) for story in stories for event in story if event.kind == "route"]


def wait_until(true: Callable[[], bool], within: float = 200.0) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_killed_run_asks_nothing_again_that_was_answered(tmp_path):
    answered: list[str] = []
    silent = threading.Event()
    gate = threading.Lock()

    def step(handler: Any, body: dict[str, Any]) -> None:
        with gate:
            quiet = len(answered) >= 2 and not silent.is_set()
            if not quiet:
                answered.append(question_of(body))
        if quiet:
            handler.server.outer.release.wait(0.1)
            while not silent.is_set():
                time.sleep(0.05)
            handler.close_connection = True
            return
        obeys(handler, body)

    with ScriptedServer(step) as server:
        (tmp_path / "job.yaml").write_text(JOB.format(base=server.base, more=""))
        environment = {**os.environ, "TEST_ROUTER_KEY": KEY, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command("run", "job.yaml", "--quiet"), cwd=tmp_path, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                wait_until(lambda: len(server.requests) > 2)
                wait_until(lambda: sum(route["by"] == "model" for route in routes_of(tmp_path)) == 2)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
        before = list(answered)
        silent.set()
        asked = len(server.requests)
        done = grafico(tmp_path, "resume", "last", "--quiet")
        assert done.returncode == 0, done.stderr
        later = [question_of(body) for body in server.requests[asked:]]
    assert later
    assert not set(before) & set(later)
    assert len(set(later)) == len(later)
    routes = routes_of(tmp_path)
    by_model = [route for route in routes if route["by"] == "model"]
    assert len(by_model) == len(before) + len(later)
    assert not any(route["by"] in {"stand-in", "fallback"} for route in routes)


@pytest.fixture(scope="module")
def routed(tmp_path_factory):
    """A whole ensemble run that a model routes, and what its server saw."""
    folder = tmp_path_factory.mktemp("routed")
    with ScriptedServer(obeys) as server:
        (folder / "job.yaml").write_text(JOB.format(base=server.base, more=""))
        done = grafico(folder, "run", "job.yaml", "--quiet")
        assert done.returncode == 0, done.stderr
        return folder, server.requests, server.headers


def test_what_a_server_sees_holds_no_coordinates_paths_or_keys(routed):
    folder, requests, headers = routed
    assert len(requests) >= 4
    sent = "\n".join(json.dumps(body) for body in requests)
    assert KEY not in sent
    assert {value for one in headers for name, value in one.items() if name.lower() == "authorization"} == {
        f"Bearer {KEY}"
    }
    for place in (
        str(folder),
        str(Path.home()),
        "/tmp/",
        "/usr/",
        "runs/",
        "job.yaml",
        ".xyz",
        os.uname().nodename + ":",
    ):
        assert place not in sent, place
    number = r"-?\d+\.\d{3,}"
    assert not re.search(rf"{number}[\s,]+{number}[\s,]+{number}", sent)
    (root,) = (folder / "runs").iterdir()
    structures = list((root / "results").rglob("*.xyz"))
    assert structures
    atom = re.compile(r"^[A-Z][a-z]?((?:\s+-?\d+\.\d{5,}){3})", re.MULTILINE)
    rows = [row.split() for path in structures for row in atom.findall(path.read_text())]
    coordinates = {value for row in rows for value in row if abs(float(value)) > 1e-3}
    assert len(coordinates) > 10
    assert not [value for value in coordinates if value[:7] in sent]
    written = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]


def test_the_cost_of_a_run_adds_up_in_ledger_manifest_and_tables(routed):
    folder, requests, _ = routed
    (root,) = (folder / "runs").iterdir()
    view = read_run(root)
    calls = read_calls(view.paths.ledger)
    assert len(calls) == len(requests)
    found = json.loads(grafico(folder, "show", "last", "--cost", "--json").stdout)
    assert found["total"] == view.manifest.models
    assert found["total"]["calls"] == len(calls)
    for group in ("by_purpose", "by_model", "by_lane"):
        assert sum(one["calls"] for one in found[group].values()) == len(calls)
        assert sum(one["tokens"]["prompt"] for one in found[group].values()) == found["total"]["tokens"]["prompt"]
    assert set(found["by_purpose"]) == {"route"}
    assert set(found["by_lane"]) <= {"", *view.lanes}
    shown = grafico(folder, "show", "last", "--cost").stdout
    assert "by purpose" in shown
    assert "openai/local" in shown
    assert "tokens by role: base" in shown


@pytest.mark.slow
def test_a_run_whose_server_is_down_ends_by_rules(tmp_path):
    with ScriptedServer(fails(503)) as server:
        (tmp_path / "job.yaml").write_text(JOB.format(base=server.base, more=""))
        done = grafico(tmp_path, "run", "job.yaml", "--quiet")
        asked = len(server.requests)
    assert done.returncode == 0, done.stderr
    assert "rules stood in for the model router" in done.stderr
    (root,) = (tmp_path / "runs").iterdir()
    view = read_run(root)
    assert view.status is RunStatus.FINISHED
    assert view.counts.lanes_failed == 0
    chosen = {route["by"] for route in routes_of(tmp_path)}
    assert "stand-in" in chosen
    assert "model" not in chosen
    stood_in = sum(route["by"] == "stand-in" for route in routes_of(tmp_path))
    assert asked <= 2 * stood_in
    # Nor is the server that was down asked when the run is looked at again.
    again = grafico(tmp_path, "resume", "last", "--quiet")
    assert again.returncode == 0, again.stderr
    assert len(read_calls(view.paths.ledger)) == asked


@pytest.mark.slow
def test_a_run_whose_budget_is_spent_in_the_middle_goes_on_by_rules(tmp_path):
    with ScriptedServer(obeys) as server:
        (tmp_path / "job.yaml").write_text(JOB.format(base=server.base, more="  budget: {requests: 2}"))
        done = grafico(tmp_path, "run", "job.yaml", "--quiet")
        assert len(server.requests) == 2
    assert done.returncode == 0, done.stderr
    assert "budget of 2" in done.stderr
    by = [route["by"] for route in routes_of(tmp_path)]
    assert by.count("model") == 2
    assert by.count("stand-in") >= 2
    (root,) = (tmp_path / "runs").iterdir()
    assert read_run(root).counts.lanes_failed == 0


def test_a_run_without_a_model_says_so(tmp_path):
    job = JOB.replace("graph: ensemble-spectrum", "graph: quantum-chemistry")
    head = job.partition("router:")[0].format()
    (tmp_path / "job.yaml").write_text(
        f"{head}input:\n  molecule: {{name: hydrogen}}\n  tasks: [single_point]\n  level: {{method: hf, basis: sto-3g}}\n"
    )
    assert grafico(tmp_path, "run", "job.yaml", "--quiet").returncode == 0
    assert "no language model was asked" in grafico(tmp_path, "show", "last", "--cost").stdout
    assert json.loads(grafico(tmp_path, "show", "last", "--cost", "--json").stdout) == {}
