"""What an ensemble job carries from its conformer search to its report."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grafico.atoms import ConceptualAtoms
from grafico.atoms.elements import hill_formula
from grafico.calculations import ArtifactRef, Failure, Json
from grafico.chemistry.conformers import Conformer
from grafico.chemistry.ensemble.environment import EnvironmentState, Start
from grafico.chemistry.ensemble_request import EnsembleRequest, Environment
from grafico.chemistry.ensemble_result import EnsembleResult, EnvironmentResult, SearchReport
from grafico.chemistry.molecules import smiles_of_name
from grafico.graphs import GraphState

__all__ = ["EnsembleState"]


@dataclass(kw_only=True)
class EnsembleState(GraphState):
    """A molecule, its conformers, and their ensembles in the environments of the job."""

    request: EnsembleRequest
    atoms: ConceptualAtoms | None = None
    """The molecule as the job means it."""
    smiles: str | None = None
    engine: str = ""
    """The conformer engine: rdkit or crest."""
    conformers: tuple[Conformer, ...] = ()
    search: SearchReport | None = None
    shells: dict[str, dict[str, Start]] = field(default_factory=dict)
    """Solvated conformers of each environment with an explicit shell."""
    results: dict[str, EnvironmentResult] = field(default_factory=dict)
    failed: dict[str, Failure] = field(default_factory=dict)
    """Environments that failed as a whole."""
    files: Mapping[str, ArtifactRef] = field(default_factory=dict)

    @classmethod
    def for_request(cls, request: EnsembleRequest) -> "EnsembleState":
        """Return the state in which a job begins."""
        names = ", ".join(environment.name for environment in request.environments)
        intent = f"absorption spectrum of the conformer ensemble of {request.molecule.label} in {names}"
        return cls(request=request, smiles=smiles_of(request), intent=intent)

    @property
    def shells_outstanding(self) -> tuple[Environment, ...]:
        """Environments whose explicit shells are still to be built."""
        return tuple(
            environment
            for environment in self.request.environments
            if environment.shell and environment.name not in self.shells and environment.name not in self.failed
        )

    def outstanding(self, *, shared: bool) -> tuple[Environment, ...]:
        """Return the environments still to be refined, with geometries of their own or those of another."""
        return tuple(
            environment
            for environment in self.request.environments
            if (environment.geometries is not None) is shared
            and environment.name not in self.results
            and environment.name not in self.failed
        )

    def scalars(self) -> Mapping[str, Json]:
        """Return what a router may know."""
        return {
            "atoms": len(self.atoms) if self.atoms else None,
            "engine": self.engine,
            "conformers": len(self.conformers),
            "shells_outstanding": len(self.shells_outstanding),
            "environments_done": len(self.results),
            "environments_failed": len(self.failed),
        }

    def lane(self, environment: Environment) -> EnvironmentState:
        """Return the state of an environment's lane."""
        sums = self.request.degeneracies == "sum"
        if self.request.degeneracies == "auto":
            sums = self.engine == "crest" or environment.shell is not None
        return EnvironmentState(
            request=self.request,
            environment=environment,
            starts=self._starts(environment),
            sum_degeneracies=sums,
            intent=f"{environment.name}: {self.intent}",
        )

    def _starts(self, environment: Environment) -> Mapping[str, Start]:
        if environment.geometries is not None:
            source = self.results[environment.geometries]
            return {
                member.id: Start(member.atoms, member.population.degeneracy, member.search_energy, member.wavefunction)
                for member in source.members
                if member.population.retained
            }
        if environment.shell is not None:
            return self.shells[environment.name]
        return {
            conformer.id: Start(conformer.atoms, conformer.degeneracy, conformer.energy)
            for conformer in self.conformers
        }

    def result(self, *, persisted: tuple[str, ...] = ()) -> EnsembleResult:
        """Return the result, environments in the order of the job."""
        assert self.atoms is not None
        assert self.search is not None
        request = self.request
        return EnsembleResult(
            label=request.molecule.label,
            smiles=self.smiles,
            formula=hill_formula(self.atoms.symbols),
            charge=self.atoms.charge,
            multiplicity=self.atoms.multiplicity,
            temperature=request.temperature,
            energy=request.energy,
            use_degeneracy=request.use_degeneracy,
            search=self.search,
            environments=tuple(
                self.results[environment.name]
                for environment in request.environments
                if environment.name in self.results
            ),
            failed_environments=self.failed,
            files=self.files,
            persisted=persisted,
        )


def smiles_of(request: EnsembleRequest) -> str | None:
    """Return the SMILES of a job's molecule, where the job gives one or a name that has one."""
    if request.molecule.name is not None:
        return smiles_of_name(request.molecule.name)
    return request.molecule.smiles
