"""What a job says about an ensemble spectrum; every field with its default and its range."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from grafico.calculations import Model
from grafico.chemistry.calculations.optimization import OptimizationThresholds
from grafico.chemistry.deduplicate import DuplicateRule
from grafico.chemistry.request import ExcitedStates, GpuChoice, Level, MoleculeInput, Name, Solvent
from grafico.chemistry.spectrum import Broadening

__all__ = ["ConformerSearch", "EnsembleRequest", "Environment", "Need", "Shell"]

EnvironmentName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]{1,40}$")]
Need: TypeAlias = Literal["all", "any"] | Annotated[int, Field(ge=1, le=10_000)]
"""What a join needs: all lanes, any lane, or at least that many."""


class ConformerSearch(Model):
    """How conformers are found.

    The built-in engine embeds structures (RDKit ETKDGv3, screened with MMFF94s), optimizes each with GFN2-xTB in a
    lane of its own and prunes them. CREST (``imtd-gc``, ``nci`` or ``entropy``) does all of that itself.
    """

    engine: Literal["auto", "rdkit", "crest"] = Field(
        default="auto", description="rdkit is the built-in engine; auto takes CREST when crest is on PATH"
    )
    seeds: int = Field(default=100, ge=1, le=10_000, description="structures to embed (built-in engine)")
    batches: int = Field(
        default=5, ge=1, le=100, description="batches that the seeds are counted in for the convergence report"
    )
    seed: int = Field(default=61453, ge=0, le=2_000_000_000, description="seed of the random numbers")
    screening_window: float = Field(
        default=25.0, gt=0, le=1000, description="force-field window of the built-in engine, kcal/mol"
    )
    window: float = Field(
        default=6.0, gt=0, le=100, description="GFN2-xTB energy up to which conformers are kept, kcal/mol"
    )
    max_conformers: int | None = Field(
        default=None, ge=1, le=10_000, description="most conformers to refine, lowest first; default all in the window"
    )
    solvent: str | None = Field(
        default=None, max_length=40, description="ALPB solvent of the search, such as 'water'; default gas phase"
    )
    mode: Literal["imtd-gc", "nci", "entropy"] = Field(
        default="imtd-gc", description="CREST: metadynamics with genetic crossing, for complexes, or for entropies"
    )
    threads: int = Field(default=4, ge=1, le=256, description="CREST: CPU threads")
    walltime_h: float = Field(default=24.0, gt=0, le=1000, description="CREST: hours after which it is killed")


class Shell(Model):
    """Explicit solvent molecules around each conformer.

    QCG when CREST is the engine; otherwise packmol fills a sphere, and a short GFN2-xTB molecular dynamics run and an
    optimization anneal it. The lowest of ``samples`` clusters is kept for each conformer.
    """

    molecules: int = Field(ge=1, le=200, description="solvent molecules around each conformer")
    solvent: MoleculeInput = Field(
        default_factory=lambda: MoleculeInput(name="water"), description="the solvent molecule"
    )
    engine: Literal["auto", "packmol", "qcg"] = Field(
        default="auto", description="auto takes QCG when crest is on PATH, else packmol"
    )
    samples: int = Field(default=1, ge=1, le=50, description="packings for each conformer; the lowest is kept")
    temperature: float = Field(default=300.0, gt=0, le=1500, description="of the annealing run, K")
    picoseconds: float = Field(default=2.0, ge=0, le=500, description="length of the annealing run, ps; 0 for none")
    density: float = Field(
        default=1.0, gt=0.05, le=5, description="of the sphere that packmol fills, g/cm³; it is 1.0 for water"
    )
    implicit: str | None = Field(
        default=None, max_length=40, description="ALPB solvent around the cluster; default none"
    )
    seed: int = Field(default=61453, ge=0, le=2_000_000_000, description="seed of packing and velocities")


class Environment(Model):
    """Where the molecule is: gas phase, a continuum solvent, an explicit shell, or the latter two together."""

    name: EnvironmentName = Field(description="what it is called in tables and plots, such as 'gas'")
    solvent: Name | None = Field(default=None, description="continuum solvent, such as 'water'; default none")
    model: Literal["smd", "c-pcm", "ddcosmo"] = Field(default="smd", description="continuum model")
    geometries: EnvironmentName | None = Field(
        default=None,
        description="another environment whose optimized geometries are taken: single point and excited states only; "
        "default: optimize here",
    )
    shell: Shell | None = Field(default=None, description="explicit solvent molecules; default none")

    @property
    def continuum(self) -> Solvent | None:
        """The continuum solvent as a level of theory has it."""
        return None if self.solvent is None else Solvent(model=self.model, name=self.solvent)

    @model_validator(mode="after")
    def _one_geometry(self) -> "Environment":
        if self.geometries is not None and self.shell is not None:
            raise ValueError(f"environment {self.name}: geometries of another environment have no shell to add")
        if self.geometries == self.name:
            raise ValueError(f"environment {self.name} cannot take its own geometries")
        return self


class EnsembleRequest(Model):
    """An absorption spectrum of a flexible molecule as a Boltzmann average over conformers, in several environments."""

    molecule: MoleculeInput = Field(description="one molecule; all its stereocenters must be defined")
    search: ConformerSearch = Field(default_factory=ConformerSearch)
    environments: tuple[Environment, ...] = Field(
        default=(Environment(name="gas"),), min_length=1, max_length=8, description="one ensemble and spectrum each"
    )
    level: Level = Field(
        default_factory=Level, description="level of theory; the environments set its continuum solvent"
    )
    excited_states: ExcitedStates = Field(default_factory=ExcitedStates)
    frequencies: bool = Field(
        default=False, description="verify each optimized geometry by its frequencies, and have free energies"
    )
    energy: Literal["electronic", "free"] = Field(
        default="electronic",
        description="what the Boltzmann weights are made of; free (Gibbs, quasi-RRHO) needs frequencies",
    )
    temperature: float = Field(default=298.15, gt=0, le=5000, description="of weights and thermochemistry, K")
    use_degeneracy: bool = Field(
        default=True, description="count degeneracies in the weights; both kinds of weights are reported in any case"
    )
    degeneracies: Literal["auto", "sum", "symmetry"] = Field(
        default="auto",
        description="of merged conformers: sum adds up what the search counted; symmetry counts the distinguishable "
        "versions of the refined geometry; auto is sum after CREST, whose counts are rotamers, and symmetry otherwise",
    )
    cumulative_weight: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="keep the heaviest conformers up to this weight, such as 0.95; default all",
    )
    duplicates: DuplicateRule = Field(default_factory=DuplicateRule, description="when two refined conformers are one")
    broadening: Broadening = Field(default_factory=Broadening)
    bright_threshold: float = Field(
        default=0.01, ge=0, le=10, description="oscillator strength from which a transition counts as bright"
    )
    need: Need = Field(
        default=1,
        description="conformer lanes that an environment needs: all, any, or at least this many; those that failed are "
        "reported in the result",
    )
    thresholds: OptimizationThresholds = Field(default_factory=OptimizationThresholds)
    max_steps: int = Field(default=100, ge=1, le=2000, description="steps of one optimization")
    pressure: float = Field(default=101325.0, gt=0, le=1e10, description="of the thermochemistry, Pa")
    quasi_rrho_cm1: float = Field(
        default=100.0, gt=0, le=500, description="wavenumber below which a mode turns into a free rotor, cm⁻¹"
    )
    must_survive: bool = Field(default=True, description="fail a lane whose optimization makes or breaks bonds")
    lanes: int | None = Field(
        default=None, ge=1, le=10_000, description="most lanes open at once; default the run's limit"
    )
    gpu: GpuChoice = Field(
        default="auto", description="none, slot, exclusive, or auto: a slot from 150 basis functions up"
    )
    cpus: int = Field(default=1, ge=1, le=256, description="CPU threads of each DFT calculation")

    @model_validator(mode="after")
    def _consistent(self) -> "EnsembleRequest":
        names = [environment.name for environment in self.environments]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two environments are called {name!r}")
        for environment in self.environments:
            if environment.geometries is None:
                continue
            if environment.geometries not in names:
                raise ValueError(
                    f"environment {environment.name} takes the geometries of {environment.geometries!r}, "
                    f"which is none of {', '.join(names)}"
                )
            source = next(other for other in self.environments if other.name == environment.geometries)
            if source.geometries is not None:
                raise ValueError(
                    f"environment {environment.name} takes the geometries of {source.name}, "
                    f"which itself takes those of {source.geometries}; name that one"
                )
        if self.energy == "free" and not self.frequencies:
            raise ValueError("energy: free needs frequencies: true")
        if self.energy == "free" and any(environment.geometries for environment in self.environments):
            raise ValueError("energy: free needs geometries optimized in each environment; leave out `geometries`")
        if self.level.solvent is not None:
            raise ValueError("level.solvent is set by the environments; give each its own solvent")
        return self

    def environment(self, name: str) -> Environment:
        """Return the environment of that name."""
        return next(environment for environment in self.environments if environment.name == name)

    def level_of(self, environment: Environment) -> Level:
        """Return the level of theory in an environment."""
        return self.level.model_copy(update={"solvent": environment.continuum})
