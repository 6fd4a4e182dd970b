"""What an ensemble spectrum job ends with."""

from collections.abc import Mapping

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef, Failure, Json, Model
from grafico.chemistry.boltzmann import Population
from grafico.chemistry.conformers import Batch
from grafico.chemistry.ensemble_request import Environment
from grafico.chemistry.request import Level
from grafico.chemistry.spectrum import BrightTransition, Broadening, Maximum

__all__ = [
    "EnsembleMember",
    "EnsembleResult",
    "EnvironmentResult",
    "SearchReport",
    "SpectrumSummary",
    "Stick",
]


class Stick(Model):
    """One vertical transition."""

    root: int = Field(ge=1, description="number of the excited state, from 1")
    energy_ev: float
    oscillator_strength: float
    spin: str = Field(default="singlet", description="singlet or triplet")


class SearchReport(Model):
    """What the conformer search did."""

    engine: str = Field(description="what was used: 'RDKit ETKDGv3 + GFN2-xTB' or 'CREST imtd-gc'")
    candidates: int = Field(ge=0, description="structures that were optimized")
    failed: int = Field(default=0, ge=0, description="optimizations that failed")
    changed: int = Field(default=0, ge=0, description="structures left out because bonds were made or broken")
    duplicates: int = Field(ge=0, description="structures that were another version of a conformer")
    above_window: int = Field(ge=0, description="distinct conformers above the energy window")
    beyond_limit: int = Field(default=0, ge=0, description="conformers in the window left out by max_conformers")
    conformers: int = Field(ge=1, description="distinct conformers that went on to refinement")
    batches: tuple[Batch, ...] = Field(default=(), description="convergence, batch by batch of seeds")
    converged: bool | None = Field(
        default=None, description="whether the last batch found nothing new; None where the engine does not tell"
    )
    keys: tuple[str, ...] = Field(default=(), description="content keys of the calculations that it rests on, sorted")


class EnsembleMember(Model):
    """One distinct conformer in one environment."""

    id: str = Field(description="conformer id, such as conf-001")
    merged: tuple[str, ...] = Field(description="lanes that ended in this minimum, lowest first; the first is this one")
    atoms: ConceptualAtoms = Field(description="the geometry of the spectrum, Å; with its shell where there is one")
    energy: float = Field(description="electronic energy at the level of the environment, hartree")
    free_energy: float | None = Field(default=None, description="Gibbs energy at the job's temperature, hartree")
    population: Population
    search_energy: float | None = Field(default=None, description="GFN2-xTB energy of the search, hartree")
    lowest_frequency: float | None = Field(default=None, description="cm⁻¹; negative for an imaginary mode")
    sticks: tuple[Stick, ...] = Field(description="vertical transitions, by root")
    bright: BrightTransition | None = Field(default=None, description="its lowest bright transition")
    verified: bool = Field(
        default=False, description="whether its frequencies show a minimum of this environment's level"
    )
    wavefunction: ArtifactRef | None = Field(default=None, description="orbitals at this geometry and level")
    keys: Mapping[str, str] = Field(default_factory=dict, description="content keys of its calculations, by name")
    notes: tuple[str, ...] = Field(default=(), description="what a reader of the numbers should know")


class SpectrumSummary(Model):
    """The numbers of one spectrum; the curve is in spectrum.csv."""

    broadening: Broadening
    maximum_energy_axis: Maximum | None = Field(default=None, description="None if every transition is dark")
    maximum_wavelength_axis: Maximum | None = None
    bright: BrightTransition | None = Field(default=None, description="the lowest bright transition")


class EnvironmentResult(Model):
    """Ensemble and spectrum of one environment."""

    environment: Environment
    level: Level
    level_label: str = Field(description="the level of theory as a paper writes it")
    members: tuple[EnsembleMember, ...] = Field(min_length=1, description="distinct conformers, lowest first")
    main: str = Field(description="id of the heaviest conformer")
    ensemble: SpectrumSummary
    main_conformer: SpectrumSummary
    failures: Mapping[str, Failure] = Field(default_factory=dict, description="failed lanes of this environment")
    lanes: int = Field(ge=1, description="lanes that were opened")

    def member(self, name: str) -> EnsembleMember:
        """Return the member with that id."""
        return next(member for member in self.members if member.id == name)


class EnsembleResult(Model):
    """The end of an ensemble spectrum job."""

    label: str = Field(description="what the job calls the molecule")
    smiles: str | None = Field(default=None, description="canonical isomeric SMILES, where one is known")
    formula: str = Field(description="Hill formula")
    charge: int
    multiplicity: int
    temperature: float = Field(description="K")
    energy: str = Field(description="what was weighed: electronic or free")
    use_degeneracy: bool
    search: SearchReport
    environments: tuple[EnvironmentResult, ...] = Field(min_length=1)
    failed_environments: Mapping[str, Failure] = Field(default_factory=dict)
    files: Mapping[str, ArtifactRef] = Field(default_factory=dict, description="what was published, by name")
    persisted: tuple[str, ...] = Field(default=(), description="IRIs of what went to the knowledge base")

    @property
    def failed_lanes(self) -> int:
        """How many lanes failed."""
        return len(self.failed_environments) + sum(len(result.failures) for result in self.environments)

    def environment(self, name: str) -> EnvironmentResult:
        """Return the result of the environment with that name."""
        return next(result for result in self.environments if result.environment.name == name)

    def tables(self) -> tuple[Mapping[str, Json], ...]:
        """Return the tables that people are shown: conformers with their weights, and the spectra's numbers."""
        return (self._conformers(), self._spectra())

    def row(self) -> Mapping[str, Json]:
        """Return its numbers as one row of a sweep's table: of each environment, the conformers and the spectrum."""
        row: dict[str, Json] = {"molecule": self.label, "formula": self.formula, "failed lanes": self.failed_lanes}
        for result in self.environments:
            name, top, bright = result.environment.name, result.ensemble.maximum_energy_axis, result.ensemble.bright
            row[f"{name}: conformers"] = len(result.members)
            row[f"{name}: lowest energy (hartree)"] = min(member.energy for member in result.members)
            row[f"{name}: maximum (eV)"] = top.energy_ev if top else None
            row[f"{name}: maximum (L mol⁻¹ cm⁻¹)"] = top.absorptivity if top else None
            row[f"{name}: lowest bright (eV)"] = bright.energy_ev if bright else None
        return row

    def _conformers(self) -> Mapping[str, Json]:
        columns = (
            "environment",
            "conformer",
            "E / hartree",
            "ΔE / kcal/mol",
            "g",
            "weight",
            "weight (g = 1)",
            "lowest bright",
        )
        rows = []
        for result in self.environments:
            for member in result.members:
                share = member.population
                bright = member.bright
                rows.append(
                    (
                        result.environment.name,
                        member.id if len(member.merged) == 1 else f"{member.id} (+{len(member.merged) - 1})",
                        f"{member.energy:.6f}",
                        f"{share.relative:.2f}",
                        share.degeneracy,
                        f"{share.weight:.4f}",
                        f"{share.weight_without_degeneracy:.4f}",
                        f"{bright.energy_ev:.2f} eV, f = {bright.oscillator_strength:.3f}" if bright else "none",
                    )
                )
        weighed = "electronic energies" if self.energy == "electronic" else "free energies"
        title = f"Conformers of {self.label}: weights from {weighed} at {self.temperature:g} K"
        return {"title": title, "columns": columns, "rows": tuple(rows)}

    def _spectra(self) -> Mapping[str, Json]:
        columns = ("environment", "level", "of", "maximum / eV", "maximum / nm", "ε / L mol⁻¹ cm⁻¹", "lowest bright")
        rows = []
        for result in self.environments:
            for name, summary in (("ensemble", result.ensemble), (result.main, result.main_conformer)):
                top, bright = summary.maximum_energy_axis, summary.bright
                rows.append(
                    (
                        result.environment.name,
                        result.level_label,
                        name,
                        f"{top.energy_ev:.3f}" if top else "dark",
                        f"{top.wavelength_nm:.1f}" if top else "",
                        f"{top.absorptivity:.0f}" if top else "",
                        f"{bright.energy_ev:.2f} eV ({bright.wavelength_nm:.1f} nm)" if bright else "none",
                    )
                )
        label = self.environments[0].ensemble.broadening.label
        return {"title": f"Spectra ({label}, energy axis)", "columns": columns, "rows": tuple(rows)}
