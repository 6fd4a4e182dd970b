"""A job whose results go to a SPARQL endpoint."""

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "knowledge"))

from endpoints import Oxigraph

ASKED = "SELECT ?calculation { ?e a grafico:Execution ; grafico:calculation ?calculation }"


def test_a_run_is_kept_at_an_endpoint_and_a_rebuild_fills_another(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRAFICO_KB_USER", "GRAFICO_KB_PASSWORD", "GRAFICO_KB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.closing(Oxigraph()) as server:
        options = ["--set", "knowledge.persist=true", "--set", f"knowledge.store={server.url}"]
        said = grafico("run", "job.yaml", "--quiet", *options)
        assert said.code == 0, said.err
        rows = grafico("kb", "query", ASKED, "--store", server.url, "--json").json["results"]["bindings"]
        assert [row["calculation"]["value"] for row in rows] == ["square"] * 3
        server.update("DROP ALL")
        said = grafico("kb", "rebuild", "runs", "--store", server.url, "--json")
        assert len(json.loads(said.out)["runs"]) == 1
        assert len(grafico("kb", "query", ASKED, "--store", server.url, "--json").json["results"]["bindings"]) == 3


def test_a_job_whose_endpoint_is_not_there_ends_well_and_says_so(grafico: Callable[..., Any], bench: Path) -> None:
    options = ["--set", "knowledge.persist=true", "--set", "knowledge.store=http://127.0.0.1:9/ds"]
    said = grafico("run", "job.yaml", "--quiet", *options)
    assert said.code == 0
    assert "cannot be reached" in said.err


def test_a_password_that_would_go_in_the_clear_stops_a_job_before_it_begins(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAFICO_KB_TOKEN", "s3cr3t")
    said = grafico("run", "job.yaml", "--set", "knowledge.store=http://kb.example.org/ds")
    assert said.code == 2
    assert "plain http" in said.err
    assert "s3cr3t" not in said.err
    assert not (bench / "runs").exists()
