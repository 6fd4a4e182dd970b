"""What a relaxation needs, from the number of atoms, before any engine is loaded."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from grafico.calculations import FailureKind, Resources, Rung
from grafico.errors import BadInput
from grafico.frameworks.potentials import Kind, check_potential
from grafico.frameworks.steps import RelaxationSettings

__all__ = ["GPU_FROM", "LADDER", "MEMORY_MIB", "memory_an_atom_mib", "relaxation_resources", "typical_seconds"]

GPU_FROM = 50
"""Atoms from which a GPU pays: below, starting CUDA takes longer than the relaxation."""

# Seconds an atom and a call on one core: 7net-0 and chgnet measured on MOF-5 (106 atoms), l3i5 beside them; the others by
# their authors' figures relative to these, with a margin.
_SECONDS_AN_ATOM: Mapping[Kind, float] = {"7net": 0.005, "chgnet": 0.004, "mace": 0.02, "orb": 0.01, "mattersim": 0.01}
_SLOWER = {"7net-l3i5": 4.0}
MEMORY_MIB = 1600
"""What PyTorch, the package and the weights take on the host."""
# What the graph of neighbors takes.
_MEMORY_AN_ATOM_MIB: Mapping[Kind, float] = {"7net": 8.0, "chgnet": 8.0, "mace": 16.0, "orb": 8.0, "mattersim": 12.0}
_GPU_CONTEXT_MIB = 1500
_START_S = 60.0
_USUAL_STEPS = 80
_SAFETY = 10.0
# How much less time a GPU takes than one core; a cautious guess that nobody has verified here. Only limits follow from it.
_GPU_FASTER = 10.0


def relaxation_resources(
    atoms: Sequence[int], settings: RelaxationSettings, *, at_once: int | None = None
) -> Resources:
    """Return what relaxing structures takes: a GPU's slot where it pays, memory, and walltime.

    Parameters
    ----------
    atoms
        Number of atoms of each structure.
    at_once
        Most atoms that are in memory at once; default: those of the largest structure.
    """
    kind = _kind(settings.model)
    largest = max(atoms)
    held = max(largest, at_once or 0)
    seconds = _START_S + _SAFETY * settings.steps * sum(atoms) * _call(settings.model)
    gpu: Literal["none", "slot"] = "slot" if sum(atoms) >= GPU_FROM else "none"
    memory = round(MEMORY_MIB + _MEMORY_AN_ATOM_MIB[kind] * held)
    if gpu == "none":
        return Resources(cpus=1, memory_mib=memory, walltime_s=max(600.0, seconds))
    return Resources(
        gpu=gpu,
        gpu_memory_mib=round(_GPU_CONTEXT_MIB + _MEMORY_AN_ATOM_MIB[kind] * held),
        cpus=1,
        memory_mib=3000,
        memory_without_gpu_mib=max(3000, memory),
        walltime_s=max(600.0, seconds / _GPU_FASTER),
        walltime_without_gpu_s=max(600.0, seconds),
    )


def memory_an_atom_mib(model: str) -> float:
    """Return what an atom takes while the potential computes, MiB."""
    return _MEMORY_AN_ATOM_MIB[_kind(model)]


def typical_seconds(atoms: int, settings: RelaxationSettings) -> float:
    """Return about how long a relaxation takes on one core, s: within a factor of three as a rule, for planning only."""
    steps = min(settings.steps, _USUAL_STEPS * math.sqrt(max(1.0, 0.05 / settings.fmax)))
    return 10.0 + steps * atoms * _call(settings.model)


def _kind(model: str) -> Kind:
    try:
        return check_potential(model).kind
    except BadInput:
        return "mace"  # the calculation will say what is wrong with the name


def _call(model: str) -> float:
    try:
        stem = check_potential(model).stem
    except BadInput:
        stem = ""
    return _SECONDS_AN_ATOM[_kind(model)] * _SLOWER.get(stem, 1.0)


LADDER = {
    FailureKind.OUT_OF_MEMORY: (
        Rung(note="a whole GPU and twice the memory", gpu="exclusive", scale_memory=2.0),
        Rung(note="on CPUs", gpu="none"),
    ),
    FailureKind.TIMEOUT: (Rung(note="three times the walltime", scale_walltime=3.0),),
}
"""What a relaxation tries before it gives up. There is no rung for one that did not converge: its limit was asked for."""
