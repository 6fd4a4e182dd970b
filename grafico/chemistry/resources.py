"""How much a DFT calculation needs, estimated from atoms and basis before any engine is loaded."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from grafico.atoms import ConceptualAtoms
from grafico.atoms.elements import atomic_number
from grafico.calculations import FailureKind, Resources, Rung
from grafico.chemistry.request import GpuChoice, Level

__all__ = ["GPU_FROM", "LADDER", "Kind", "basis_functions", "dft_resources", "typical_seconds"]

Kind: TypeAlias = Literal["single_point", "optimization", "frequencies", "tddft", "analysis"]

GPU_FROM = 150
"""Basis functions from which a GPU pays: below, starting it costs more than it saves."""

# Functions per element of each period, in basis sets of minimal, double, triple and quadruple zeta size
# (STO-3G, def2-SVP, def2-TZVP, def2-QZVP).
_FUNCTIONS = (
    (1, 5, 9, 18, 27, 40),
    (5, 14, 18, 30, 32, 42),
    (6, 31, 37, 50, 55, 75),
    (30, 57, 70, 85, 95, 120),
)
_PERIOD_ENDS = (2, 10, 18, 36, 54)
# Seconds on one core for 140 functions (14 atoms, B3LYP/def2-SVP, density fitted), measured.
_SECONDS = {"single_point": 20.0, "optimization": 250.0, "frequencies": 300.0, "tddft": 120.0, "analysis": 25.0}
_SAFETY = 20.0
# How much less time a GPU takes than one core: a cautious reading of the speed-ups that gpu4pyscf has published, which
# nobody has verified here. Only upper limits of time follow from it.
_GPU_FASTER = 10.0


def basis_functions(atoms: ConceptualAtoms, basis: str) -> int:
    """Return about how many basis functions a molecule has; good to a third, for planning only."""
    text = basis.lower()
    if "qz" in text or "5z" in text:
        size = 3
    elif "tz" in text or "311" in text:
        size = 2
    elif text.startswith(("sto", "minao", "3-21", "mini")):
        size = 0
    else:
        size = 1
    diffuse = 1.3 if "aug" in text or "+" in text or text.endswith("d") else 1.0
    total = 0.0
    for symbol in atoms.symbols:
        number = atomic_number(symbol) or 1
        period = sum(number > end for end in _PERIOD_ENDS)
        total += _FUNCTIONS[size][period]
    return max(1, round(total * diffuse))


def dft_resources(
    atoms: ConceptualAtoms, level: Level, kind: Kind, *, gpu: GpuChoice = "auto", cpus: int = 1
) -> Resources:
    """Return what a calculation needs: a GPU slot where it pays, memory and walltime by the number of basis functions."""
    n = basis_functions(atoms, level.basis)
    placement: Literal["none", "slot", "exclusive"]
    placement = gpu if gpu != "auto" else ("slot" if _pays(n, level) else "none")
    three_index = n * n / 2 * 4 * n * 8 / 2**20
    memory = 1200.0 + (1.5 * three_index if level.density_fit else min(n**4 / 8 * 8 / 2**20, 4000.0))
    surface = _surface_memory(atoms, level)
    memory += 2.3 * surface if kind == "frequencies" else surface
    if kind == "frequencies":
        memory += 12 * len(atoms) * 3 * n * n * 8 / 2**20
    elif kind == "tddft":
        memory += 100 * n * n * 8 / 2**20
    seconds = _seconds(n, level, kind)
    memory = max(2048.0, memory)
    # On a GPU the matrices are its own; the host holds what goes to and fro, and integrals that the card has no room for.
    on_host = memory if placement == "none" else max(2048.0, min(memory, 3000 + three_index / 2))
    return Resources(
        gpu=placement,
        gpu_memory_mib=0 if placement == "none" else round(min(2000 + 3 * three_index + surface / 3, 70_000)),
        cpus=cpus,
        memory_mib=round(on_host),
        memory_without_gpu_mib=0 if placement == "none" else round(memory),
        walltime_s=max(1800.0, _SAFETY * (seconds if placement == "none" else seconds / _GPU_FASTER)),
        walltime_without_gpu_s=0.0 if placement == "none" else max(1800.0, _SAFETY * seconds),
    )


def typical_seconds(atoms: ConceptualAtoms, level: Level, kind: Kind, *, gpu: GpuChoice = "auto") -> float:
    """Return about how long a calculation takes, s: within a factor of three as a rule, for planning only."""
    n = basis_functions(atoms, level.basis)
    seconds = _seconds(n, level, kind)
    return seconds if gpu == "none" or (gpu == "auto" and not _pays(n, level)) else seconds / _GPU_FASTER


def _pays(n: int, level: Level) -> bool:
    """Whether a GPU is worth it: gpu4pyscf has C-PCM and SMD, and no ddCOSMO."""
    return n >= GPU_FROM and (level.solvent is None or level.solvent.model != "ddcosmo")


def _seconds(n: int, level: Level, kind: Kind) -> float:
    seconds = _SECONDS[kind] * max(0.02, (n / 140) ** 3) * (5.0 if level.solvent else 1.0)
    return seconds * (1.0 if level.density_fit else 2.0)


def _surface_memory(atoms: ConceptualAtoms, level: Level) -> float:
    """Return what the matrices over a solvent's cavity take, MiB: about 32 of them in energy and gradient, measured."""
    if level.solvent is None or level.solvent.model == "ddcosmo":
        return 0.0
    points = 230 * len(atoms) + 400
    return 32 * points**2 * 8 / 2**20


_SCF: Sequence[Rung] = (
    Rung(
        note="level shift and damping, twice the SCF cycles",
        settings={"level_shift": 0.25, "diis_damp": 0.4, "scf_cycles_factor": 2},
    ),
    Rung(
        note="second-order SCF",
        settings={"level_shift": 0.0, "diis_damp": 0.0, "newton": True, "scf_cycles_factor": 4},
    ),
)
_MEMORY: Sequence[Rung] = (
    Rung(note="a whole GPU and twice the memory", gpu="exclusive", scale_memory=2.0),
    Rung(note="on CPUs", gpu="none"),
)

LADDER = {
    FailureKind.SCF_NOT_CONVERGED: _SCF,
    FailureKind.OUT_OF_MEMORY: _MEMORY,
    FailureKind.TIMEOUT: (Rung(note="three times the walltime", scale_walltime=3.0),),
}
"""What every DFT calculation tries before it gives up."""
