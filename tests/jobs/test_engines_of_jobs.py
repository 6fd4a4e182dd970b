"""Engines are looked for before a job begins: all that it would use, in every graph."""

import shutil
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path

import pytest

from grafico.cluster import Profile
from grafico.errors import MissingExtra
from grafico.jobs.launch import Prepared, prepare
from grafico.jobs.load import load_job
from grafico.jobs.plan import admit, make_plan

Write = Callable[..., Path]

POOL = {"name": "cpu", "cpus": 2, "memory_mib": 64_000}
HERE = Profile(name="here", pools=(POOL,))

GRAPHS = {
    "quantum-chemistry": (
        "molecule: {name: water}\n  tasks: [optimize]\n  level: {method: hf, basis: sto-3g}\n",
        {"pyscf": "optimization", "geometric": "optimization"},
    ),
    "ensemble-spectrum": (
        """molecule: {name: ethanol}
  search: {engine: rdkit}
  level: {method: hf, basis: sto-3g}
  environments: [{name: wet, shell: {molecules: 2, solvent: {name: water}, engine: packmol}}]
""",
        {"rdkit": "embed_conformers", "tblite": "xtb_optimization", "geometric": "optimization", "pyscf": "tddft",
         "packmol": "solvate", "matplotlib": "ensemble_report"},
    ),
    "framework-design": (
        "build: {topology: pcu, node: N16, linker: [E14, E34]}\n  relaxation: {model: chgnet}\n",
        {"pormake": "build", "jax": "build", "torch": "relax", "chgnet": "relax", "pyzeo": "analyze",
         "matplotlib": "draw_frameworks"},
    ),
}  # fmt: skip
"""Input of a job of each graph, and what it uses: an engine, and a calculation that does."""


def hide(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let a package or program not be found, whether or not it is installed here."""
    find, which = util.find_spec, shutil.which
    patch.setattr(util, "find_spec", lambda module, *others: None if module == name else find(module, *others))
    patch.setattr(shutil, "which", lambda program, **others: None if program == name else which(program, **others))


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_engine_that_a_graph_would_use_is_told_and_refused_where_it_is_missing(
    graph: str, job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, uses = GRAPHS[graph]
    loaded = load_job(job(f"name: a\ngraph: {graph}\ninput:\n  {text}"))
    told = {engine.name: engine for engine in make_plan(Prepared(loaded, HERE)).engines}
    for name, calculation in uses.items():
        assert calculation in told[name].used_by
        with monkeypatch.context() as patch:
            hide(name, patch)
            plan = make_plan(Prepared(loaded, HERE))
            assert plan.refused is not None
            assert name in plan.refused
            with pytest.raises(MissingExtra, match=rf"{name} \(for .*{calculation}") as caught:
                admit(Prepared(loaded, HERE))
            assert caught.value.hint


def test_all_that_is_missing_is_named_at_once(bench: Path) -> None:
    own = (bench / "grafico_tiny.py").read_text()
    uses = 'resources=_resources, uses=("no_such_package", "program:no-such-program", "json"))'
    (bench / "grafico_needs.py").write_text(own.replace("resources=_resources)", uses))
    try:
        with pytest.raises(MissingExtra) as caught:
            admit(prepare(bench / "job.yaml", ["graph=grafico_needs:GRAPH"]))
    finally:
        sys.modules.pop("grafico_needs", None)
    assert caught.value.message.endswith("no_such_package (for square), no-such-program (for square)")
    assert caught.value.hint == "install the package no_such_package; `grafico doctor` says where to get it"


def test_engines_of_other_machines_are_not_judged_from_here(job: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    hide("pyscf", monkeypatch)
    loaded = load_job(job(f"name: a\ngraph: quantum-chemistry\ninput:\n  {GRAPHS['quantum-chemistry'][0]}"))
    slurm = {"kind": "slurm", "slurm": {"walltime": "04:00:00"}, "pools": (POOL,)}
    inside = Profile(name="there", **{**slurm, "pools": ({**POOL, "container": "apptainer exec it.sif"},)})
    plan = make_plan(Prepared(loaded, inside))
    assert plan.refused is None
    assert any("setup, container), not looked for" in note for note in plan.notes)
    assert admit(Prepared(loaded, inside)) == plan.notes[-1:]
    with pytest.raises(MissingExtra, match="pyscf"):
        admit(Prepared(loaded, Profile(name="same", **slurm)))


def test_gpus_that_nothing_would_use_are_told(job: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    hide("gpu4pyscf", monkeypatch)
    text = GRAPHS["quantum-chemistry"][0]
    loaded = load_job(job(f"name: a\ngraph: quantum-chemistry\ninput:\n  gpu: slot\n  {text}"))
    pool = {"name": "gpu", "gpus": 1, "cpus": 4, "memory_mib": 64_000, "gpu_memory_mib": 80_000}
    plan = make_plan(Prepared(loaded, Profile(name="there", pools=(pool,))))
    assert any("compute on CPUs although they take GPUs: optimization" in note for note in plan.notes)
    pretended = Profile(name="pretended", pools=({**pool, "simulated": True},))
    assert not any("although they take GPUs" in note for note in make_plan(Prepared(loaded, pretended)).notes)
