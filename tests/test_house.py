"""The house rules that a machine can hold: which room imports which, how long a module is, what is imported when."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "grafico").rglob("*.py"))


def test_rooms_import_only_from_floors_below() -> None:
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_stay_readable() -> None:
    long = {str(path.relative_to(ROOT)): n for path in MODULES if (n := len(path.read_text().splitlines())) > 430}
    assert not long, f"two ideas in one module? {long}"


def test_annotations_are_readable_at_run_time() -> None:
    deferred = [str(path) for path in MODULES if "from __future__ import annotations" in path.read_text()]
    assert not deferred


def test_package_files_only_reexport() -> None:
    for path in MODULES:
        if path.name != "__init__.py" or path.parent.name == "grafico":
            continue
        for line in path.read_text().splitlines():
            assert not line.startswith(("def ", "class ", "async def ", "@")), f"{path} defines things: {line}"


def test_importing_grafico_brings_no_science_package_and_no_scheduler() -> None:
    heavy = (
        "numpy",
        "scipy",
        "pyscf",
        "rdkit",
        "ase",
        "tblite",
        "dask",
        "distributed",
        "litellm",
        "rdflib",
        "pyoxigraph",
        "matplotlib",
    )
    script = f"import sys, grafico; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
