"""Pores of a framework: diameters, area and volume by Zeo++, and in how many directions channels and framework go on.

What each number is taken from: the diameters and the channels come from the Voronoi network of the atoms as they are, so
there is a channel where the pore-limiting diameter exceeds twice the channel's radius. High accuracy, which stands a
cluster of small spheres in for each large atom, is for area and volume: pyzeo takes minutes to tell the diameters of such
clusters. Where radii differ much, diameters are off without it: by 0.4 Å for the largest cavity of edingtonite (5.32
instead of 4.88 Å), by 0.25 Å for the narrowest way of MOF-5 (8.16 instead of 7.92 Å).
"""

from importlib.metadata import version
from pathlib import Path

from grafico.atoms import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, Resources, Rung, WorkContext, calculation
from grafico.frameworks.dimensions import framework_dimensionality, voids_of
from grafico.frameworks.periodic import density
from grafico.frameworks.steps import AnalysisSettings, AnalyzeInput, Channels, PoreAnalysis
from grafico.frameworks.zeo import (
    JITTER,
    Task,
    cssr,
    read_area,
    read_diameters,
    read_network,
    read_volume,
    run_zeo,
)

__all__ = ["analyze", "typical_seconds"]

STEPS: tuple[Task, ...] = ("diameters", "network", "area", "volume")
TRIES = 2
SLACK_S = 120.0
OWN_MIB = 512
"""Memory of this process beside Zeo++'s."""
RETRIED = frozenset(
    {FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.ENGINE_ERROR, FailureKind.OUT_OF_MEMORY},
)
_LADDER = {FailureKind.OUT_OF_MEMORY: [Rung(note="twice the memory", scale_memory=2.0)]}


def typical_seconds(structure: ConceptualAtoms, settings: AnalysisSettings) -> float:
    """Return about how long an analysis takes on one core, s; for planning only.

    Fitted to CoRE MOFs and PORMAKE builds of 106 to 540 atoms, with and without high accuracy, 500 and 2,000 samples.
    """
    atoms, fine = len(structure), settings.high_accuracy
    starts = 0.2 * len(STEPS)
    networks = 1e-3 * atoms + 5e-7 * atoms**2 + (1e-2 * atoms if fine else 0.0)
    sampled = (1e-6 if fine else 4e-7) * settings.samples * atoms
    return starts + networks + sampled + (5e-6 if fine else 1e-6) * settings.volume_samples


def _resources(value: AnalyzeInput) -> Resources:
    limit = TRIES * len(STEPS) * value.settings.timeout_s
    return Resources(memory_mib=2048 + len(value.structure), walltime_s=limit + SLACK_S)


@calculation(version="1", resources=_resources, ladder=_LADDER, family="zeo", uses=("pyzeo",))
def analyze(value: AnalyzeInput, ctx: WorkContext) -> PoreAnalysis:
    """Measure the pores of a framework.

    Each step of Zeo++ runs in a process of its own and has the time-out of the settings. When one fails, all are run once
    more, without high accuracy and with the atoms moved otherwise; the output says so. Zeo++ seeds its own random numbers
    with a constant, so the same input gives the same areas and volumes.

    Raises
    ------
    CalculationError
        ``bad_input``: no cell, or an element without a radius in Zeo++; ``timeout``, ``crash``, ``out_of_memory`` or
        ``engine_error`` with the step and what Zeo++ said, after the second try.
    MissingExtra
        pyzeo is not installed.
    """
    require("pyzeo", extra="mof", purpose="to measure pores")
    ctx.used(pyzeo=version("pyzeo"))
    cssr(value.structure)  # refuses what is no crystal before anything is run
    framework = framework_dimensionality(value.structure)
    try:
        return _measure(value, value.settings, framework, ctx, seed=0)
    except CalculationError as error:
        if error.kind not in RETRIED:
            raise
        first = error
    print(f"{first.message}; once more, without high accuracy")
    rough = value.settings.model_copy(update={"high_accuracy": False})
    try:
        return _measure(value, rough, framework, ctx, seed=1).model_copy(update={"retried": first.message})
    except CalculationError as second:
        message = f"{second.message} (second try, without high accuracy; the first: {first.message})"
        details = {**second.details, "first": {"kind": first.kind.value, "message": first.message, **first.details}}
        raise CalculationError(second.kind, message, details=details) from second


def _measure(
    value: AnalyzeInput, settings: AnalysisSettings, framework: int, ctx: WorkContext, *, seed: int
) -> PoreAnalysis:
    text = cssr(value.structure, seed=seed)
    memory = max(OWN_MIB, ctx.memory_mib - OWN_MIB)
    folder = ctx.scratch / f"zeo-{seed}"

    def run(task: Task) -> str:
        answer = run_zeo(task, text, settings, _empty(folder / task), memory_mib=memory)
        radii.update(answer.radii)
        return answer.text

    radii: dict[str, float] = {}
    diameters = read_diameters(run("diameters"))
    voids = voids_of(*read_network(run("network")))
    return PoreAnalysis(
        diameters=diameters,
        area=read_area(run("area")),
        volume=read_volume(run("volume")),
        channels=Channels(
            count=len(voids.channels),
            dimensionality=voids.channels,
            pockets=voids.pockets,
            framework_dimensionality=framework,
        ),
        density=density(value.structure),
        settings=settings,
        radii=dict(sorted(radii.items())),
        jitter=JITTER,
    )


def _empty(folder: Path) -> Path:
    """Make a folder, and see that no result lies in it from before."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    return folder
