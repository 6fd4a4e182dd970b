"""One environment of an ensemble: refine the conformers in lanes, remove duplicates, weigh them, add up their spectra."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef, Failure, FailureKind, Json, Outcome
from grafico.chemistry.boltzmann import Population, boltzmann_join
from grafico.chemistry.conformers import relative_degeneracies, symmetry_degeneracy
from grafico.chemistry.deduplicate import Cluster, Refined, deduplicate
from grafico.chemistry.ensemble_request import EnsembleRequest, Environment, Need
from grafico.chemistry.ensemble_result import EnsembleMember, EnvironmentResult, SpectrumSummary, Stick
from grafico.chemistry.quantum_chemistry import GRAPH as QUANTUM_CHEMISTRY
from grafico.chemistry.quantum_chemistry import QCResult, QCState, Task
from grafico.chemistry.request import Level
from grafico.chemistry.spectrum import (
    BrightTransition,
    Broadening,
    lowest_bright,
    maximum_on_energy_axis,
    maximum_on_wavelength_axis,
)
from grafico.graphs import Context, End, Graph, GraphState, Node, failures, need_all, need_at_least

__all__ = ["ENVIRONMENT", "EnvironmentState", "Start", "tasks_of"]


@dataclass(frozen=True)
class Start:
    """A conformer as it enters an environment."""

    atoms: ConceptualAtoms
    degeneracy: int = 1
    search_energy: float | None = None
    wavefunction: ArtifactRef | None = None


@dataclass(kw_only=True)
class EnvironmentState(GraphState):
    """One environment: where its conformers start, and what becomes of them."""

    request: EnsembleRequest
    environment: Environment
    starts: Mapping[str, Start]
    sum_degeneracies: bool = False
    """Whether degeneracies of merged conformers are summed, rather than found from the geometry's symmetry."""
    refined: dict[str, QCResult] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    clusters: tuple[Cluster, ...] = ()
    populations: tuple[Population, ...] = ()
    ensemble: SpectrumSummary | None = None
    main: SpectrumSummary | None = None

    @property
    def level(self) -> Level:
        """The level of theory here."""
        return self.request.level_of(self.environment)

    def scalars(self) -> Mapping[str, Json]:
        """Return what a router may know."""
        return {
            "environment": self.environment.name,
            "conformers": len(self.starts),
            "refined": len(self.refined),
            "failed": len(self.failures),
            "distinct": len(self.clusters),
        }


Ctx = Context[EnvironmentState]


def tasks_of(request: EnsembleRequest, environment: Environment) -> tuple[Task, ...]:
    """Return what each conformer's lane does in an environment."""
    if environment.geometries is not None:
        return ("tddft",)
    return ("optimize", "frequencies", "tddft") if request.frequencies else ("optimize", "tddft")


class RefineConformers(Node[EnvironmentState, EnvironmentResult]):
    """Send each conformer through the quantum chemistry graph in a lane of its own."""

    async def run(self, ctx: Ctx) -> "RemoveDuplicates":
        """Open the lanes and keep what comes back; a failed lane is reported, and fails no other."""
        state, request = ctx.state, ctx.state.request
        members = {
            key: QCState.for_lane(
                start.atoms,
                state.level,
                tasks_of(request, state.environment),
                label=f"{state.environment.name} · {key}",
                wavefunction=start.wavefunction,
                excited_states=request.excited_states,
                temperature=request.temperature,
                pressure=request.pressure,
                quasi_rrho_cm1=request.quasi_rrho_cm1,
                thresholds=request.thresholds,
                max_steps=request.max_steps,
                must_survive=request.must_survive,
                gpu=request.gpu,
                cpus=request.cpus,
            )
            for key, start in state.starts.items()
        }
        outcomes = await ctx.fan_out(
            QUANTUM_CHEMISTRY, members, limit=request.lanes, label=f"refine · {state.environment.name}"
        )
        usable = {key: _usable(outcome, request) for key, outcome in outcomes.items()}
        state.failures = failures(usable)
        state.refined = join(usable, request.need)
        ctx.summarize(
            f"{len(state.refined)} of {len(outcomes)} conformers refined at {state.level.label}",
            refined=len(state.refined),
            failed=len(state.failures),
        )
        return await ctx.route()


class RemoveDuplicates(Node[EnvironmentState, EnvironmentResult]):
    """Merge lanes that ended in the same minimum: by energy and by heavy-atom RMSD."""

    async def run(self, ctx: Ctx) -> "WeighConformers":
        """Compare all pairs."""
        state = ctx.state
        refined = [
            Refined(key, _energy(result), result.atoms, state.starts[key].degeneracy)
            for key, result in state.refined.items()
        ]
        state.clusters = await ctx.thread(deduplicate, refined, state.request.duplicates)
        merged = len(refined) - len(state.clusters)
        ctx.summarize(f"{len(state.clusters)} distinct conformers, {merged} duplicates", distinct=len(state.clusters))
        return await ctx.route()


class WeighConformers(Node[EnvironmentState, EnvironmentResult]):
    """Boltzmann weights from electronic or free energies, with and without degeneracies."""

    async def run(self, ctx: Ctx) -> "AddUpSpectra":
        """Join; weights are refused when lanes disagree in level of theory."""
        state, request = ctx.state, ctx.state.request
        results = {cluster.representative: state.refined[cluster.representative] for cluster in state.clusters}
        free = request.energy == "free"
        state.populations = boltzmann_join(
            list(results),
            [_free_energy(result) if free else _energy(result) for result in results.values()],
            temperature=request.temperature,
            degeneracies=await ctx.thread(_degeneracies, state),
            levels=[_level_of(result) for result in results.values()],
            use_degeneracy=request.use_degeneracy,
            kind=request.energy,
            cumulative=request.cumulative_weight,
        )
        main = max(state.populations, key=lambda population: population.weight)
        ctx.summarize(f"main conformer {main.id} with weight {main.weight:.3f}", main_weight=main.weight)
        return await ctx.route()


class AddUpSpectra(Node[EnvironmentState, EnvironmentResult]):
    """The spectrum of the ensemble and that of the main conformer: maxima and lowest bright transitions."""

    async def run(self, ctx: Ctx) -> "EnvironmentEnd":
        """Broaden and add."""
        state, request = ctx.state, ctx.state.request
        sticks = {
            population: sticks_of(state.refined[population.id])
            for population in state.populations
            if population.retained
        }
        main = max(sticks, key=lambda population: population.weight)
        threshold = request.bright_threshold
        state.ensemble = await ctx.thread(summarize_spectrum, sticks, request.broadening, threshold)
        alone = {main.model_copy(update={"weight": 1.0}): sticks[main]}
        state.main = await ctx.thread(summarize_spectrum, alone, request.broadening, threshold)
        top = state.ensemble.maximum_energy_axis
        text = f"maximum at {top.energy_ev:.3f} eV ({top.wavelength_nm:.1f} nm)" if top else "every transition is dark"
        ctx.summarize(text, maximum_ev=top.energy_ev if top else None)
        return await ctx.route()


class EnvironmentEnd(Node[EnvironmentState, EnvironmentResult]):
    """Hand over ensemble and spectrum of this environment."""

    node_id: ClassVar[str] = "End"

    async def run(self, ctx: Ctx) -> End[EnvironmentResult]:
        """Build the result."""
        state = ctx.state
        assert state.ensemble is not None
        assert state.main is not None
        merged = {cluster.representative: cluster.members for cluster in state.clusters}
        members = tuple(_member(state, population, merged[population.id]) for population in state.populations)
        return End(
            EnvironmentResult(
                environment=state.environment,
                level=state.level,
                level_label=state.level.label,
                members=members,
                main=max(members, key=lambda member: member.population.weight).id,
                ensemble=state.ensemble,
                main_conformer=state.main,
                failures=state.failures,
                lanes=len(state.starts),
            )
        )


ENVIRONMENT = Graph(
    id="ensemble-environment",
    version="1",
    state_type=EnvironmentState,
    nodes=(RefineConformers, RemoveDuplicates, WeighConformers, AddUpSpectra, EnvironmentEnd),
    start=RefineConformers,
    description="Refinement, weights and spectrum of a conformer ensemble in one environment.",
)


def join(outcomes: Mapping[str, Outcome[QCResult]], need: Need) -> dict[str, QCResult]:
    """Return the successes if there are as many as the job needs."""
    if need == "all":
        return need_all(outcomes)
    return need_at_least(outcomes, 1 if need == "any" else min(need, len(outcomes)))


def sticks_of(result: QCResult) -> tuple[Stick, ...]:
    """Return a lane's excitations as sticks, by energy."""
    return tuple(
        Stick(
            root=number,
            energy_ev=excitation.energy_ev,
            oscillator_strength=excitation.oscillator_strength,
            spin=excitation.kind,
        )
        for number, excitation in enumerate(result.excitations or (), start=1)
    )


def summarize_spectrum(
    sticks: Mapping[Population, tuple[Stick, ...]], broadening: Broadening, threshold: float
) -> SpectrumSummary:
    """Return maxima and lowest bright transition of weighted conformers."""
    energies = [stick.energy_ev for group in sticks.values() for stick in group]
    strengths = [
        population.weight * stick.oscillator_strength for population, group in sticks.items() for stick in group
    ]
    dark = not energies or max(strengths) <= 0.0
    return SpectrumSummary(
        broadening=broadening,
        maximum_energy_axis=None if dark else maximum_on_energy_axis(energies, strengths, broadening),
        maximum_wavelength_axis=None if dark else maximum_on_wavelength_axis(energies, strengths, broadening),
        bright=_lowest(
            [_bright(population.id, group, threshold, population.weight) for population, group in sticks.items()]
        ),
    )


def _bright(name: str, sticks: tuple[Stick, ...], threshold: float, weight: float) -> BrightTransition | None:
    energies = [stick.energy_ev for stick in sticks]
    strengths = [stick.oscillator_strength for stick in sticks]
    return lowest_bright(energies, strengths, threshold, conformer=name, weight=weight)


def _lowest(found: list[BrightTransition | None]) -> BrightTransition | None:
    bright = [transition for transition in found if transition is not None]
    return min(bright, key=lambda transition: transition.energy_ev) if bright else None


def _energy(result: QCResult) -> float:
    assert result.energy is not None
    return result.energy


def _free_energy(result: QCResult) -> float | None:
    return result.thermochemistry.gibbs_quasi_rrho if result.thermochemistry else None


def _level_of(result: QCResult) -> str:
    levels = {result.level.label, (result.excited_level or result.level).label}
    return " with excited states at ".join(sorted(levels))


def _usable(outcome: Outcome[QCResult], request: EnsembleRequest) -> Outcome[QCResult]:
    """Return a lane's outcome, or why it cannot take part in the join."""
    if not outcome.ok:
        return outcome
    result = outcome.output
    lacks = []
    if result.energy is None:
        lacks.append("an energy at the level of the ensemble")
    if not result.excitations:
        lacks.append("excitations")
    if request.energy == "free" and result.thermochemistry is None:
        lacks.append("a free energy")
    if not lacks:
        return outcome
    why = f" ({'; '.join(result.notes)})" if result.notes else ""
    return Failure(kind=FailureKind.REFUSED, message=f"the lane ended without {' and '.join(lacks)}{why}")


def _degeneracies(state: EnvironmentState) -> list[int]:
    """Return the degeneracy of each cluster's representative, in the order of the clusters."""
    if state.sum_degeneracies or state.environment.geometries is not None:
        counts = [cluster.degeneracy for cluster in state.clusters]
    else:
        rotation = state.request.energy == "electronic"
        counts = [
            symmetry_degeneracy(state.refined[cluster.representative].atoms, rotation=rotation)
            for cluster in state.clusters
        ]
    return counts if state.sum_degeneracies else list(relative_degeneracies(counts))


def _member(state: EnvironmentState, population: Population, merged: tuple[str, ...]) -> EnsembleMember:
    result = state.refined[population.id]
    sticks = sticks_of(result)
    vibrations = result.vibrations
    electronic = result.excited_electronic or result.electronic
    return EnsembleMember(
        id=population.id,
        merged=merged,
        atoms=result.atoms,
        energy=_energy(result),
        free_energy=_free_energy(result),
        population=population,
        search_energy=state.starts[population.id].search_energy,
        lowest_frequency=vibrations.wavenumbers[0] if vibrations and vibrations.wavenumbers else None,
        sticks=sticks,
        bright=_bright(population.id, sticks, state.request.bright_threshold, population.weight),
        verified=result.verified,
        wavefunction=electronic.wavefunction if electronic else None,
        keys=result.keys,
        notes=result.notes,
    )
