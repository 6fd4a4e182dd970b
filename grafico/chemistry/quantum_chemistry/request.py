"""What a quantum chemistry job asks for, and what it gets."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from grafico.atoms import ConceptualAtoms
from grafico.atoms.connectivity import BondChanges
from grafico.calculations import ArtifactRef, Json, Model
from grafico.chemistry.calculations.analysis import AnalysisOutput
from grafico.chemistry.calculations.optimization import OptimizationThresholds
from grafico.chemistry.calculations.tddft import Excitation
from grafico.chemistry.properties import Electronic
from grafico.chemistry.quantum_chemistry.tables import result_row, result_tables
from grafico.chemistry.request import ExcitedStates, GpuChoice, Level, MoleculeInput
from grafico.chemistry.thermochemistry import Thermochemistry

__all__ = ["QCPlan", "QCRequest", "QCResult", "Task", "Vibrations"]

Task: TypeAlias = Literal["single_point", "optimize", "frequencies", "tddft", "analysis"]


class QCPlan(Model):
    """What to do with a molecule, and how."""

    tasks: tuple[Task, ...] = Field(
        default=("optimize", "frequencies"),
        min_length=1,
        description="what is asked for; done in the order single_point, optimize, frequencies, tddft, analysis",
    )
    level: Level = Field(
        default_factory=Level, description="level of theory of everything but, perhaps, excited states"
    )
    excited_states: ExcitedStates = Field(default_factory=ExcitedStates, description="for the task tddft")
    excited_level: Level | None = Field(default=None, description="level of the task tddft; default: level")
    temperature: float = Field(default=298.15, gt=0, le=5000, description="of the thermochemistry, K")
    pressure: float = Field(default=101325.0, gt=0, le=1e10, description="of the thermochemistry, Pa")
    quasi_rrho_cm1: float = Field(
        default=100.0, gt=0, le=500, description="wavenumber below which a mode turns into a free rotor, cm⁻¹"
    )
    max_steps: int = Field(default=100, ge=1, le=2000, description="steps of one optimization")
    thresholds: OptimizationThresholds = Field(default_factory=OptimizationThresholds)
    imaginary_cutoff_cm1: float = Field(
        default=20.0,
        ge=0,
        le=200,
        description="an imaginary mode up to here is numerical noise and counts as real, cm⁻¹",
    )
    max_removals: int = Field(
        default=3, ge=0, le=3, description="displacements along imaginary modes before it is a failure"
    )
    displacement: float = Field(default=0.2, ge=0.01, le=1.0, description="of the atom that moves most, Å")
    must_survive: bool = Field(default=False, description="fail when an optimization makes or breaks a bond")
    gpu: GpuChoice = Field(
        default="auto", description="none, slot, exclusive, or auto: a slot from 150 basis functions up"
    )
    cpus: int = Field(
        default=1, ge=1, le=256, description="CPU threads of each calculation; one is fastest for small molecules"
    )

    @property
    def level_of_excited_states(self) -> Level:
        """The level that the task tddft runs at."""
        return self.excited_level or self.level

    @property
    def wants_minimum(self) -> bool:
        """Whether imaginary modes are to be removed: not for a geometry that is to be taken as it is."""
        return "optimize" in self.tasks


class QCRequest(QCPlan):
    """A quantum chemistry job."""

    molecule: MoleculeInput


class Vibrations(Model):
    """Harmonic frequencies at the final geometry."""

    wavenumbers: tuple[float, ...] = Field(description="cm⁻¹, ascending; imaginary ones negative")
    intensities: tuple[float, ...] | None = Field(default=None, description="infrared, km/mol")
    imaginary: int = Field(default=0, description="imaginary modes beyond the cutoff")
    analytical: bool = Field(description="whether the Hessian is analytical")
    modes: ArtifactRef
    hessian: ArtifactRef


class QCResult(Model):
    """What the quantum chemistry graph found."""

    label: str = Field(description="what people call the molecule")
    atoms: ConceptualAtoms = Field(description="final geometry, Å")
    level: Level
    energy: float | None = Field(
        description="of the final geometry at the level, hartree; None where only tddft at another level was asked for"
    )
    electronic: Electronic | None = Field(default=None, description="of the final geometry at the level")
    optimized: bool = Field(
        default=False, description="whether the geometry is a converged stationary point of the level"
    )
    verified: bool = Field(default=False, description="whether its frequencies say that it is a minimum")
    gradient_norm: float | None = Field(default=None, description="norm of the whole gradient, hartree/bohr")
    steps: int = Field(default=0, description="optimization steps, of all optimizations together")
    removals: int = Field(default=0, description="displacements along imaginary modes")
    bond_changes: BondChanges = Field(
        default_factory=BondChanges, description="between the geometry given and the final one"
    )
    trajectory: ArtifactRef | None = Field(default=None, description="of the last optimization, extended XYZ")
    vibrations: Vibrations | None = None
    thermochemistry: Thermochemistry | None = Field(default=None, description="only of a verified minimum")
    excitations: tuple[Excitation, ...] | None = None
    excited_level: Level | None = Field(default=None, description="level of the excitations")
    excited_electronic: Electronic | None = Field(default=None, description="reference state of the excitations")
    analysis: AnalysisOutput | None = None
    notes: tuple[str, ...] = Field(default=(), description="what a reader of the numbers should know")
    keys: Mapping[str, str] = Field(
        default_factory=dict, description="content key of each calculation of the final geometry, by its name"
    )
    persisted: tuple[str, ...] = Field(default=(), description="IRIs of what went to the knowledge base")

    def tables(self) -> tuple[Mapping[str, Json], ...]:
        """Return the tables that people are shown: the molecule's numbers, its frequencies and its excitations."""
        return result_tables(self)

    def row(self) -> Mapping[str, Json]:
        """Return its numbers as one row of a sweep's table."""
        return result_row(self)

    @model_validator(mode="after")
    def _no_thermochemistry_unverified(self) -> "QCResult":
        if self.thermochemistry is not None and not self.verified:
            raise ValueError("thermochemistry of a geometry that its frequencies do not show to be a minimum")
        return self
