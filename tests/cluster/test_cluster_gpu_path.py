"""The way of a calculation to a GPU, up to the device: the driver's program, CuPy and gpu4pyscf are pretended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def pretend(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run something where ``nvidia-smi`` lists a card and CuPy finds it."""
    path = os.pathsep.join([str(HERE / "pretended" / "lib"), *filter(None, sys.path)])
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "PYTEST"))}
    environ |= {"CUDA_VISIBLE_DEVICES": "0", "GRAFICO_REQUIRE_GPU": "1"}
    environ |= {"PYTHONPATH": path, "PATH": f"{HERE / 'pretended' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_the_tests_for_a_gpu_pass_with_one_that_only_pretends():
    """Each process sees one device by UUID; shares hold; siblings leave; out of memory is a failure of its kind."""
    done = pretend("-m", "pytest", "tests/gpu/test_gpu_slots.py", "-q", "-n", "0")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "7 passed" in done.stdout


def test_a_benchmark_does_not_take_a_cpu_for_a_gpu(tmp_path):
    script = (
        "import asyncio\n"
        "from grafico.bench import gpu\n"
        "from grafico.cluster import Pool, Profile\n"
        "from grafico.runs import RunPaths\n"
        "gpu.CAFFEINE = '2\\n\\nH 0 0 0\\nH 0 0 0.74\\n'\n"
        f"paths = RunPaths({str(tmp_path / 'run')!r})\n"
        "paths.create()\n"
        "pool = Pool(name='gpu', gpus=1, simulated=True, memory_mib=8000, cpus=1)\n"
        "asyncio.run(gpu._measure(Profile(name='b', pools=(pool,)), paths.root, 1, 1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=200, check=False
    )
    assert "a calculation did not run on the GPU but on: cpu (simulated-0)" in done.stderr, done.stderr[-3000:]


def test_without_a_gpu_the_benchmark_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "grafico.cli.entry", "bench", "gpu"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, cwd=ROOT, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no GPU here" in done.stderr
    assert "nothing was measured" in done.stderr


SINGLE_POINT = """
from pathlib import Path
from grafico.calculations import WorkContext
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.request import Level, MoleculeInput
from grafico.graphs import FolderArtifacts

here = Path({folder!r})
atoms = resolve_molecule(MoleculeInput(xyz="H 0 0 0\\nH 0 0 0.74"))
ctx = WorkContext(artifacts=FolderArtifacts(here), scratch=here, device="gpu", gpu_memory_mib=1000)
value = SinglePointInput(atoms=atoms, level=Level(method="hf", basis="sto-3g"))
print("energy", single_point.function(value, ctx).electronic.energy, sorted(ctx.versions))
"""


def test_what_gpu4pyscf_does_not_have_is_computed_on_cpus_and_says_so(tmp_path):
    done = pretend("-c", SINGLE_POINT.format(folder=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert "gpu4pyscf cannot do this: computed on CPUs (ModuleNotFoundError" in done.stdout
    assert "energy -1.1167" in done.stdout
    assert "['pyscf']" in done.stdout
