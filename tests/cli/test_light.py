"""The command line is light: help costs little, and imports nothing that help does not need."""

import subprocess
import sys

import pytest

HEAVY = (
    "ase", "bokeh", "cupy", "dask", "distributed", "geometric", "gpu4pyscf", "litellm", "matplotlib", "numpy", "oxrdflib",
    "pebble", "pydantic_graph", "pyoxigraph", "pyscf", "pyshacl", "rdflib", "rdkit", "scipy", "tblite", "xtb",
)  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "import grafico",
        "import grafico.cli.main",
        "import sys; sys.argv = ['grafico', '--help']; import grafico.cli.main as m; call(m)",
        "import sys; sys.argv = ['grafico', 'run', '--help']; import grafico.cli.main as m; call(m)",
        "import sys; sys.argv = ['grafico', 'version']; import grafico.cli.main as m; call(m)",
    ],
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    script = (
        "def call(m):\n"
        "    import contextlib, io\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        m.main()\n"
        f"{statement}\n"
        f"import sys; print(sorted(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_help_names_every_command_and_the_exit_codes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grafico.cli.main", "--help"], capture_output=True, text=True, check=True
    )
    for command in (
        "run",
        "resume",
        "cancel",
        "list",
        "show",
        "watch",
        "logs",
        "explain",
        "graph",
        "kb",
        "doctor",
        "bench",
    ):
        assert f" {command} " in done.stdout
    for code in ("0 all done", "2 usage or bad input", "3 finished, with failed lanes", "4 the run failed", "130"):
        assert code in " ".join(done.stdout.split())


def test_the_bench_of_help_prints_ratios() -> None:
    from grafico.bench.help import bench

    found = bench(repeats=1)
    assert found["grafico --help, CPU"]["value"] > 0
    assert found["grafico --help, CPU"]["limit"] == 0.3
