"""What a walk through the quantum chemistry graph carries."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grafico.atoms import ConceptualAtoms
from grafico.atoms.connectivity import BondChanges
from grafico.calculations import ArtifactRef, Json, Resources
from grafico.chemistry.calculations.analysis import AnalysisOutput
from grafico.chemistry.calculations.frequencies import FrequenciesOutput, Mode
from grafico.chemistry.calculations.tddft import TDDFTOutput
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.properties import Electronic
from grafico.chemistry.quantum_chemistry.request import QCPlan, QCRequest, QCResult, Task, Vibrations
from grafico.chemistry.request import Level, MoleculeInput
from grafico.chemistry.resources import Kind, dft_resources
from grafico.chemistry.thermochemistry import Thermochemistry, thermochemistry
from grafico.graphs import Context, GraphState

__all__ = ["QCState"]


@dataclass(kw_only=True)
class QCState(GraphState):
    """One molecule on its way: its current geometry, and all that is known of it there."""

    plan: QCPlan
    label: str = ""
    molecule: MoleculeInput | None = None
    """What the job says; None where the structure itself was given."""
    atoms: ConceptualAtoms | None = None
    """The current geometry."""
    origin: ConceptualAtoms | None = None
    """The geometry that the walk began with."""
    geometry: Literal["given", "optimized", "displaced"] = "given"
    """How the current geometry came about; ``optimized`` means converged at the plan's level."""
    wavefunction: ArtifactRef | None = None
    """The last orbitals, for the next guess."""
    electronic: Electronic | None = None
    frequencies: FrequenciesOutput | None = None
    thermochemistry: Thermochemistry | None = None
    excitations: TDDFTOutput | None = None
    analysis: AnalysisOutput | None = None
    gradient_norm: float | None = None
    gradient_max: float | None = None
    trajectory: ArtifactRef | None = None
    keys: dict[str, str] = field(default_factory=dict)
    """Content keys of the calculations that made the current geometry or looked at it, by name."""
    steps: int = 0
    removals: int = 0
    bond_changes: BondChanges = field(default_factory=BondChanges)
    notes: list[str] = field(default_factory=list)
    """What a reader of the numbers should know of the walk."""
    remarks: list[str] = field(default_factory=list)
    """The same of the current geometry."""

    @classmethod
    def for_request(cls, request: QCRequest) -> "QCState":
        """Return the state in which a job begins."""
        plan = QCPlan(**{name: getattr(request, name) for name in QCPlan.model_fields})
        what = f"{request.molecule.label}: {', '.join(request.tasks)} at {request.level.label}"
        return cls(plan=plan, label=request.molecule.label, molecule=request.molecule, intent=what)

    @classmethod
    def for_lane(
        cls,
        atoms: ConceptualAtoms,
        level: Level,
        tasks: tuple[Task, ...],
        *,
        label: str = "",
        optimized: bool = False,
        wavefunction: ArtifactRef | None = None,
        intent: str = "",
        **plan: Any,
    ) -> "QCState":
        """Return the state of a lane whose structure is at hand.

        Parameters
        ----------
        optimized
            Whether the structure is already a converged stationary point of ``level``.
        wavefunction
            Orbitals for the first guess.
        plan
            Further fields of :class:`QCPlan`: ``excited_states``, ``excited_level``, ``must_survive``, ``gpu`` ...
        """
        return cls(
            plan=QCPlan(level=level, tasks=tasks, **plan),
            label=label,
            atoms=atoms,
            origin=atoms,
            geometry="optimized" if optimized else "given",
            wavefunction=wavefunction,
            intent=intent or f"{label}: {', '.join(tasks)} at {level.label}",
        )

    @property
    def imaginary(self) -> tuple[Mode, ...]:
        """Imaginary modes beyond the cutoff at the current geometry."""
        if self.frequencies is None:
            return ()
        return tuple(m for m in self.frequencies.imaginary if m.wavenumber < -self.plan.imaginary_cutoff_cm1)

    @property
    def stationary(self) -> bool:
        """Whether the current geometry is a stationary point of the level."""
        limit = self.plan.thresholds.gradient_max
        return self.geometry == "optimized" or (self.gradient_max is not None and self.gradient_max <= limit)

    @property
    def verified(self) -> bool:
        """Whether the current geometry is a stationary point without imaginary modes."""
        return self.frequencies is not None and self.stationary and not self.imaginary

    @property
    def outstanding(self) -> tuple[Task, ...]:
        """Tasks of the plan that are not done for the current geometry, in the order in which they are done."""
        done: dict[Task, bool] = {
            "single_point": self.electronic is not None,
            "optimize": self.geometry == "optimized",
            "frequencies": self.frequencies is not None,
            "tddft": self.excitations is not None,
            "analysis": self.analysis is not None,
        }
        return tuple(task for task in done if task in self.plan.tasks and not done[task])

    def scalars(self) -> Mapping[str, Json]:
        """Return what a router may know."""
        return {
            "atoms": len(self.atoms) if self.atoms else None,
            "geometry": self.geometry,
            "energy_hartree": self.electronic.energy if self.electronic else None,
            "imaginary_modes": len(self.imaginary),
            "verified": self.verified,
            "removals": self.removals,
            "outstanding": ", ".join(self.outstanding),
        }

    async def structure(self, ctx: "Context[QCState]") -> ConceptualAtoms:
        """Return the current geometry; at the first call, build it from what the job says."""
        if self.atoms is None:
            molecule = self.molecule
            assert molecule is not None
            built = await ctx.value("structure", lambda: asyncio.to_thread(_build, molecule))
            self.atoms = self.origin = ConceptualAtoms.model_validate(built)
        return self.atoms

    def needs(self, kind: Kind, level: Level) -> Resources:
        """Return what a calculation on the current geometry needs."""
        assert self.atoms is not None
        return dft_resources(self.atoms, level, kind, gpu=self.plan.gpu, cpus=self.plan.cpus)

    def move(self, atoms: ConceptualAtoms, geometry: Literal["optimized", "displaced"]) -> None:
        """Take a new geometry, and forget all that was known of the one before."""
        self.atoms, self.geometry = atoms, geometry
        self.electronic = self.frequencies = self.thermochemistry = self.excitations = self.analysis = None
        self.gradient_norm = self.gradient_max = None
        self.remarks.clear()
        self.keys.clear()

    def take(self, electronic: Electronic) -> None:
        """Take the properties of an SCF at the current geometry and the plan's level."""
        self.electronic, self.wavefunction = electronic, electronic.wavefunction

    def find_thermochemistry(self) -> None:
        """Work out the thermochemistry, or note why there is none."""
        found = self.frequencies
        assert found is not None
        if not self.stationary:
            where = "" if self.gradient_max is None else f" (largest gradient {self.gradient_max:.1e} hartree/bohr)"
            self.remarks.append(
                f"no thermochemistry: the geometry is no stationary point of {self.plan.level.label}{where}"
            )
        elif self.imaginary:
            self.remarks.append(
                f"no thermochemistry: {len(self.imaginary)} imaginary modes, so the geometry is no minimum"
            )
        else:
            if found.imaginary:
                listed = ", ".join(f"{mode.wavenumber:.1f}" for mode in found.imaginary)
                self.remarks.append(f"imaginary modes of {listed} cm⁻¹ are numerical noise and count as real")
            self.thermochemistry = thermochemistry(
                found.electronic.energy,
                [abs(wavenumber) for wavenumber in found.wavenumbers],
                found.rotor,
                temperature=self.plan.temperature,
                pressure=self.plan.pressure,
                quasi_rrho_cm1=self.plan.quasi_rrho_cm1,
            )

    def result(self) -> QCResult:
        """Return all that was found."""
        assert self.atoms is not None
        found = self.frequencies
        excited = self.excitations
        return QCResult(
            label=self.label,
            atoms=self.atoms,
            level=self.plan.level,
            energy=self.electronic.energy if self.electronic else None,
            electronic=self.electronic,
            optimized=self.geometry == "optimized",
            verified=self.verified,
            gradient_norm=self.gradient_norm,
            steps=self.steps,
            removals=self.removals,
            bond_changes=self.bond_changes,
            trajectory=self.trajectory,
            vibrations=None
            if found is None
            else Vibrations(
                wavenumbers=found.wavenumbers,
                intensities=found.intensities,
                imaginary=len(self.imaginary),
                analytical=found.analytical,
                modes=found.modes,
                hessian=found.hessian,
            ),
            thermochemistry=self.thermochemistry,
            excitations=excited.excitations if excited else None,
            excited_level=self.plan.level_of_excited_states if excited else None,
            excited_electronic=excited.electronic if excited else None,
            analysis=self.analysis,
            notes=(*self.notes, *self.remarks),
            keys=dict(self.keys),
        )


def _build(molecule: MoleculeInput) -> Json:
    return resolve_molecule(molecule).model_dump(mode="json")
