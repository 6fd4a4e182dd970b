"""The seven nodes of the quantum chemistry graph, in the order in which a walk visits them."""

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field

from grafico.atoms import bond_changes, write_xyz
from grafico.calculations import Calculation, CalculationError, FailureKind
from grafico.chemistry.calculations.analysis import AnalysisInput, analysis
from grafico.chemistry.calculations.displacement import DisplacementInput, displacement
from grafico.chemistry.calculations.frequencies import FrequenciesInput, frequencies
from grafico.chemistry.calculations.optimization import OptimizationInput, optimization
from grafico.chemistry.calculations.single_point import SinglePointInput, single_point
from grafico.chemistry.calculations.tddft import TDDFTInput, tddft
from grafico.chemistry.entities import quantum_chemistry_entities
from grafico.chemistry.quantum_chemistry.request import QCResult
from grafico.chemistry.quantum_chemistry.state import QCState
from grafico.chemistry.request import Level
from grafico.chemistry.resources import Kind
from grafico.chemistry.wavefunction import HINT
from grafico.graphs import Context, End, Node

__all__ = [
    "TDDFT",
    "Finish",
    "FrequencyCalculation",
    "GeometryOptimization",
    "ImaginaryModeRemoval",
    "MolecularAnalysis",
    "SinglePoint",
    "next_node",
]

Ctx = Context[QCState]
OutputT = TypeVar("OutputT", bound=BaseModel)


async def _compute(
    ctx: Ctx, calculation: Calculation[Any, OutputT], value: BaseModel, kind: Kind, level: Level
) -> OutputT:
    """Run a DFT calculation from the last orbitals; its failure ends the walk."""
    state = ctx.state
    outcome = await ctx.compute(
        calculation,
        value,
        label=f"{calculation.name} · {state.label}" if state.label else calculation.name,
        hints={HINT: state.wavefunction},
        resources=state.needs(kind, level),
    )
    if not outcome.ok:
        raise ctx.fail(outcome)
    state.keys[calculation.name] = outcome.key
    return outcome.output


class SinglePoint(Node[QCState, QCResult]):
    """Energy, orbitals, dipole and charges at the current geometry, without moving an atom."""

    async def run(self, ctx: Ctx) -> "GeometryOptimization | FrequencyCalculation | TDDFT | MolecularAnalysis | Finish":
        """Solve the SCF."""
        state, level = ctx.state, ctx.state.plan.level
        value = SinglePointInput(atoms=await state.structure(ctx), level=level)
        found = await _compute(ctx, single_point, value, "single_point", level)
        state.take(found.electronic)
        ctx.summarize(f"E = {found.electronic.energy:.8f} hartree", energy_hartree=found.electronic.energy)
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":
        """Return what the job asks for next."""
        return next_node(state)


class GeometryOptimization(Node[QCState, QCResult]):
    """Relax the geometry to a stationary point; only its frequencies tell whether that is a minimum."""

    max_steps: int | None = Field(default=None, ge=1, le=2000, description="steps allowed; default what the job says")

    async def run(self, ctx: Ctx) -> "FrequencyCalculation | TDDFT | MolecularAnalysis | Finish":
        """Optimize, then see which bonds were made or broken."""
        state, plan = ctx.state, ctx.state.plan
        start = await state.structure(ctx)
        value = OptimizationInput(
            atoms=start, level=plan.level, max_steps=self.max_steps or plan.max_steps, thresholds=plan.thresholds
        )
        found = await _compute(ctx, optimization, value, "optimization", plan.level)
        key = state.keys[optimization.name]
        state.move(found.atoms, "optimized")
        state.keys[optimization.name] = key
        state.take(found.electronic)
        state.gradient_norm, state.gradient_max = found.gradient_norm, found.gradient_max
        state.steps, state.trajectory = state.steps + found.steps, found.trajectory
        ctx.summarize(
            f"converged in {found.steps} steps, E = {found.electronic.energy:.8f} hartree",
            energy_hartree=found.electronic.energy,
            steps=found.steps,
        )
        assert state.origin is not None
        state.bond_changes = bond_changes(state.origin, found.atoms)
        if state.bond_changes:
            what = state.bond_changes.describe(found.atoms.symbols)
            if plan.must_survive:
                message = f"the molecule did not survive its optimization: {what}"
                raise CalculationError(FailureKind.REFUSED, message, details=_everything(state))
            state.remarks.append(f"the optimization changed bonds: {what}")
            ctx.summarize(f"bonds changed: {what}")
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":
        """Return what the job asks for next."""
        return next_node(state)


class FrequencyCalculation(Node[QCState, QCResult]):
    """Harmonic frequencies: verifies that the geometry is a minimum, and gives infrared spectrum and free energy."""

    async def run(self, ctx: Ctx) -> "TDDFT | MolecularAnalysis | ImaginaryModeRemoval | Finish":
        """Compute frequencies; give up when imaginary modes remain after the last removal."""
        state, plan = ctx.state, ctx.state.plan
        atoms = await state.structure(ctx)
        value = FrequenciesInput(atoms=atoms, level=plan.level, gradient=state.geometry != "optimized")
        found = await _compute(ctx, frequencies, value, "frequencies", plan.level)
        state.frequencies = found
        state.take(found.electronic)
        if found.gradient_max is not None:
            state.gradient_norm, state.gradient_max = found.gradient_norm, found.gradient_max
        state.find_thermochemistry()
        lowest = found.wavenumbers[0] if found.wavenumbers else None
        text = "no vibrations" if lowest is None else f"lowest mode {lowest:.1f} cm⁻¹"
        ctx.summarize(
            f"{len(state.imaginary)} imaginary modes, {text}", imaginary_modes=len(state.imaginary), lowest_cm1=lowest
        )
        if state.imaginary and plan.wants_minimum and state.removals >= plan.max_removals:
            modes = ", ".join(f"{mode.wavenumber:.1f}" for mode in state.imaginary)
            message = f"imaginary modes of {modes} cm⁻¹ remain after {state.removals} removals"
            raise CalculationError(FailureKind.IMAGINARY_MODE, message, details=_everything(state))
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":
        """Return the removal of imaginary modes where a minimum is wanted, else what the job asks for next."""
        return next_node(state)


class ImaginaryModeRemoval(Node[QCState, QCResult]):
    """Move the geometry off a saddle point, along its imaginary modes; it must then be optimized again."""

    amplitude: float | None = Field(
        default=None, ge=0.01, le=1.0, description="of the atom that moves most, Å; default what the job says"
    )

    async def run(self, ctx: Ctx) -> "GeometryOptimization | Finish":
        """Displace, further each time and to the other side."""
        state = ctx.state
        further = 1.0 + 0.5 * state.removals
        value = DisplacementInput(
            atoms=await state.structure(ctx),
            modes=state.imaginary,
            amplitude=min(1.0, (self.amplitude or state.plan.displacement) * further),
            sign=1 if state.removals % 2 == 0 else -1,
        )
        outcome = await ctx.compute(displacement, value)
        if not outcome.ok:
            raise ctx.fail(outcome)
        modes = ", ".join(f"{mode.wavenumber:.1f}" for mode in value.modes)
        state.removals += 1
        state.notes.append(f"displaced by {value.amplitude:.2f} Å along imaginary modes of {modes} cm⁻¹")
        state.move(outcome.output.atoms, "displaced")
        ctx.summarize(f"displaced by {value.amplitude:.2f} Å along modes of {modes} cm⁻¹", removals=state.removals)
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":  # noqa: ARG002
        """Return the optimization: nothing else may follow."""
        return GeometryOptimization()


class TDDFT(Node[QCState, QCResult]):
    """Vertical excitations with oscillator strengths at the current geometry: the absorption spectrum."""

    roots: int | None = Field(default=None, ge=1, le=200, description="states of each kind; default what the job says")

    async def run(self, ctx: Ctx) -> "MolecularAnalysis | Finish":
        """Compute excited states."""
        state, plan = ctx.state, ctx.state.plan
        level, states = plan.level_of_excited_states, plan.excited_states
        if self.roots is not None:
            states = states.model_copy(update={"roots": self.roots})
        value = TDDFTInput(atoms=await state.structure(ctx), level=level, states=states)
        found = await _compute(ctx, tddft, value, "tddft", level)
        state.excitations = found
        if level == plan.level:
            state.take(found.electronic)
        if not found.complete:
            state.remarks.append("fewer real excitations were found than asked for")
        lowest = found.excitations[0].energy_ev if found.excitations else None
        ctx.summarize(
            f"{len(found.excitations)} excitations" + (f", lowest {lowest:.3f} eV" if lowest is not None else ""),
            lowest_ev=lowest,
        )
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":
        """Return what the job asks for next."""
        return next_node(state)


class MolecularAnalysis(Node[QCState, QCResult]):
    """Charges (Mulliken, Löwdin, IAO), dipole and frontier orbitals at the current geometry."""

    async def run(self, ctx: Ctx) -> "TDDFT | Finish":
        """Analyze the wavefunction."""
        state, level = ctx.state, ctx.state.plan.level
        value = AnalysisInput(atoms=await state.structure(ctx), level=level)
        found = await _compute(ctx, analysis, value, "analysis", level)
        state.analysis = found
        state.take(found.electronic)
        gap = found.electronic.gap_ev
        ctx.summarize("charges and orbitals" + (f", gap {gap:.3f} eV" if gap is not None else ""), gap_ev=gap)
        return await ctx.route()

    def rule(self, state: QCState) -> "Node[QCState, QCResult]":
        """Return what the job asks for next."""
        return next_node(state)


class Finish(Node[QCState, QCResult]):
    """Hand over everything that was found."""

    node_id: ClassVar[str] = "End"

    async def run(self, ctx: Ctx) -> End[QCResult]:
        """Build the result; a job of its own also persists it, and writes it to its results."""
        result = ctx.state.result()
        if ctx.is_job:
            if ctx.persist is not None:
                entities = await ctx.thread(quantum_chemistry_entities, result)
                result = result.model_copy(update={"persisted": tuple(await ctx.persist.persist(entities))})
            await ctx.publish("result.json", result.model_dump_json(indent=2).encode())
            await ctx.publish("geometry.xyz", write_xyz(result.atoms, result.level.label).encode())
        return End(result)


def next_node(state: QCState) -> Node[QCState, QCResult]:
    """Return the node that does what the job asks for next."""
    if state.imaginary and state.plan.wants_minimum:
        return ImaginaryModeRemoval()
    if state.geometry == "optimized" and state.removals and state.frequencies is None:
        return FrequencyCalculation()
    nodes: dict[str, type[Node[QCState, QCResult]]] = {
        "single_point": SinglePoint,
        "optimize": GeometryOptimization,
        "frequencies": FrequencyCalculation,
        "tddft": TDDFT,
        "analysis": MolecularAnalysis,
    }
    for task in state.outstanding:
        return nodes[task]()
    return Finish()


def _everything(state: QCState) -> dict[str, Any]:
    """Return what a failure keeps: the result as far as it goes."""
    return {"result": state.result().model_dump(mode="json")}
