"""`grafico doctor` and `grafico bench`."""

import re
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_doctor_names_versions_and_how_to_get_what_is_missing(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = bench / "bin"
    tools.mkdir()
    good, bad = tools / "xtb", tools / "crest"
    good.write_text("#!/bin/sh\necho ' * xtb version 6.5.1'\n")
    bad.write_text("#!/bin/sh\necho no license >&2\nexit 3\n")
    for path in (good, bad):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tools))
    said = grafico("doctor", "--json", "--no-import")
    assert said.code == 0, said.err
    parts = {row["name"]: row for row in said.json["parts"]}
    assert parts["pydantic"]["state"] == "ok"
    assert parts["pydantic"]["version"]
    assert parts["xtb"]["version"] == "xtb version 6.5.1" or parts["xtb"]["kind"] == "chem"
    assert parts["crest"]["state"] == "broken"
    assert parts["crest"]["version"] == "no license"
    assert parts["packmol"]["state"] == "missing"
    assert "packmol" in parts["packmol"]["get"]
    assert parts["hard links in runs"]["state"] == "ok"
    missing = [row for row in said.json["parts"] if row["state"] == "missing"]
    assert all(row["get"] for row in missing)
    human = grafico("doctor", "--no-import")
    assert "how to get it" in human.out
    assert "pydantic-graph" in human.out


def test_doctor_is_a_table_on_a_narrow_terminal(
    grafico: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    said = grafico("doctor", "--no-import")
    rows = [line for line in said.out.splitlines() if line.startswith(("✓", "–", "✗"))]
    assert len(rows) > 30
    assert all(len(row) <= 80 for row in rows)
    assert any(re.fullmatch("– crest +conformers by +conda: crest", row) for row in rows)


def test_doctor_finds_a_broken_installation(
    grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grafico.cli import doctor

    (bench / "broken_engine.py").write_text("raise OSError('libcuda.so.1: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(bench))
    monkeypatch.setattr(doctor, "PARTS", (doctor.Part("pydantic", "broken_engine", "models", None),))
    monkeypatch.setattr(doctor, "GPU_PARTS", ())
    said = grafico("doctor", "--json")
    row = said.json["parts"][0]
    assert row["state"] == "broken"
    assert "libcuda.so.1" in row["version"]
    assert said.code == 4


def test_a_benchmark_is_printed_beside_its_limit(grafico: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("grafico.bench.kb")
    module.bench = lambda: {  # type: ignore[attr-defined]
        "ratio": {"value": 1.5, "limit": 2.0, "unit": "×"},
        "used": {"value": 0.9, "limit": 0.97, "at_least": True},
        "peers": {"bare": 1.0},
        "rows": [1, 2],
    }
    monkeypatch.setitem(sys.modules, "grafico.bench.kb", module)
    said = grafico("bench", "kb")
    assert said.code == 0
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "ratio 1.5 ≤ 2.0 × met" in lines
    assert "used 0.9 ≥ 0.97 NOT MET" in lines
    assert "peers · bare 1" in lines
    assert grafico("bench", "kb", "--json").json["peers"] == {"bare": 1.0}
