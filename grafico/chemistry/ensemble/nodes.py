"""The nodes of the ensemble graph, in the order in which a walk visits them."""

import asyncio
import shutil
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Calculation, CalculationError, Failure, FailureKind, Json, Success
from grafico.chemistry.calculations.conformers import (
    EmbedInput,
    PruneInput,
    embed_conformers,
    prune_conformers,
)
from grafico.chemistry.calculations.crest import CrestInput, QCGInput, SolvatedCluster, crest_search, qcg_cluster
from grafico.chemistry.calculations.report import ReportInput, ensemble_report
from grafico.chemistry.calculations.shell import ShellInput, solvate
from grafico.chemistry.calculations.xtb import XTBLevel, XTBOptimizationInput, xtb_optimization
from grafico.chemistry.conformers import Conformer, PruneSettings
from grafico.chemistry.ensemble.environment import ENVIRONMENT, Start
from grafico.chemistry.ensemble.state import EnsembleState
from grafico.chemistry.ensemble_request import Environment, Shell
from grafico.chemistry.ensemble_result import EnsembleResult, EnvironmentResult, SearchReport
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.request import MoleculeInput
from grafico.graphs import Context, End, JoinFailed, Node, failures, need_any
from grafico.units import KCAL_MOL_PER_HARTREE

__all__ = [
    "BuiltInSearch",
    "CrestSearch",
    "Finish",
    "PrepareMolecule",
    "RefineEnvironments",
    "Report",
    "ShareGeometries",
    "SolventShell",
]

Ctx = Context[EnsembleState]
Step = Node[EnsembleState, EnsembleResult]


class PrepareMolecule(Node[EnsembleState, EnsembleResult]):
    """Build the molecule that the job means and see which conformer engine there is."""

    async def run(self, ctx: Ctx) -> "BuiltInSearch | CrestSearch":
        """Resolve the molecule; with engine auto, look for crest on PATH."""
        state, search = ctx.state, ctx.state.request.search
        state.atoms = await _structure(ctx, "structure", state.request.molecule)
        if search.engine == "auto":
            found = bool(await ctx.value("crest on PATH", lambda: shutil.which("crest") is not None))
            state.engine = "crest" if found else "rdkit"
        else:
            state.engine = search.engine
        ctx.summarize(f"{len(state.atoms)} atoms, conformers by {state.engine}", atoms=len(state.atoms))
        return await ctx.route()

    def rule(self, state: EnsembleState) -> Step:
        """Return the search of the engine that was chosen."""
        return CrestSearch() if state.engine == "crest" else BuiltInSearch()


class BuiltInSearch(Node[EnsembleState, EnsembleResult]):
    """Embed structures with RDKit, optimize each with GFN2-xTB in a lane of its own, and prune them to conformers."""

    async def run(self, ctx: Ctx) -> "SolventShell | RefineEnvironments":
        """Search; structures whose bonds changed are other molecules, and are left out."""
        state, search = ctx.state, ctx.state.request.search
        assert state.atoms is not None
        embedded = await _compute(
            ctx,
            embed_conformers,
            EmbedInput(
                smiles=state.smiles,
                atoms=None if state.smiles else state.atoms,
                seeds=search.seeds,
                batches=search.batches,
                seed=search.seed,
                screening_window=search.screening_window,
            ),
        )
        start = embedded.output
        state.smiles = start.smiles
        spin = {"charge": state.atoms.charge, "multiplicity": state.atoms.multiplicity}
        candidates = {candidate.id: candidate for candidate in start.candidates}
        level = XTBLevel(solvent=search.solvent)
        outcomes = await ctx.fan_out(
            xtb_optimization,
            {
                key: XTBOptimizationInput(atoms=candidate.atoms.model_copy(update=spin), level=level)
                for key, candidate in candidates.items()
            },
            limit=state.request.lanes,
            label="GFN2-xTB",
        )
        relaxed = need_any(outcomes)
        intact = [
            candidates[key].model_copy(update={"atoms": output.atoms, "energy": output.energy})
            for key, output in relaxed.items()
            if not output.bonds
        ]
        if not intact:
            raise CalculationError(
                FailureKind.REFUSED,
                f"all {len(relaxed)} structures changed their bonds in GFN2-xTB; a zwitterion may need search.solvent: water",
            )
        rules = PruneSettings(window=search.window, limit=search.max_conformers)
        pruning = await _compute(
            ctx, prune_conformers, PruneInput(candidates=tuple(intact), settings=rules, batches=search.batches)
        )
        pruned = pruning.output
        state.conformers = pruned.conformers
        state.search = SearchReport(
            engine=f"RDKit ETKDGv3, {start.force_field} + GFN2-xTB"
            + (f" (ALPB {search.solvent})" if search.solvent else ""),
            candidates=len(candidates),
            failed=len(failures(outcomes)),
            changed=len(relaxed) - len(intact),
            duplicates=pruned.duplicates,
            above_window=pruned.above_window,
            beyond_limit=pruned.beyond_limit,
            conformers=len(pruned.conformers),
            batches=pruned.batches,
            converged=pruned.converged if len(pruned.batches) > 1 else None,
            keys=tuple(sorted({o.key for o in (embedded, *outcomes.values(), pruning) if o.ok})),
        )
        converged = "converged" if pruned.converged else "the last batch of seeds still found new ones"
        ctx.summarize(
            f"{len(pruned.conformers)} conformers within {search.window:g} kcal/mol; {converged}",
            conformers=len(pruned.conformers),
            converged=pruned.converged,
        )
        return await ctx.route()

    def rule(self, state: EnsembleState) -> Step:
        """Return the shells that the job asks for, else the refinement."""
        return SolventShell() if state.shells_outstanding else RefineEnvironments()


class CrestSearch(Node[EnsembleState, EnsembleResult]):
    """Search conformers with CREST, whose rotamer counts become their degeneracies."""

    async def run(self, ctx: Ctx) -> "SolventShell | RefineEnvironments":
        """Run CREST."""
        state, search = ctx.state, ctx.state.request.search
        assert state.atoms is not None
        searched = await _compute(
            ctx,
            crest_search,
            CrestInput(
                atoms=state.atoms,
                mode=search.mode,
                solvent=search.solvent,
                window=search.window,
                threads=search.threads,
                walltime_h=search.walltime_h,
            ),
        )
        found = searched.output
        lowest = found.candidates[0].energy
        kept = found.candidates[: search.max_conformers]
        state.conformers = tuple(
            Conformer(
                id=f"conf-{number:03d}",
                atoms=candidate.atoms,
                energy=candidate.energy,
                relative=(candidate.energy - lowest) * KCAL_MOL_PER_HARTREE,
                degeneracy=candidate.degeneracy,
                members=(candidate.id,),
            )
            for number, candidate in enumerate(kept, start=1)
        )
        state.search = SearchReport(
            engine=f"CREST {search.mode}" + (f" (ALPB {search.solvent})" if search.solvent else ""),
            candidates=len(found.candidates),
            duplicates=0,
            above_window=0,
            beyond_limit=len(found.candidates) - len(kept),
            conformers=len(kept),
            keys=(searched.key,),
        )
        ctx.summarize(f"{len(kept)} conformers by CREST {search.mode}", conformers=len(kept))
        return await ctx.route()

    def rule(self, state: EnsembleState) -> Step:
        """Return the shells that the job asks for, else the refinement."""
        return SolventShell() if state.shells_outstanding else RefineEnvironments()


class SolventShell(Node[EnsembleState, EnsembleResult]):
    """Put explicit solvent molecules around each conformer and keep the lowest cluster of each."""

    async def run(self, ctx: Ctx) -> "RefineEnvironments | Report":
        """Build the shells, environment by environment; one that cannot be built fails its environment alone."""
        state = ctx.state
        for environment in state.shells_outstanding:
            assert environment.shell is not None
            solvent = await _structure(ctx, f"solvent of {environment.name}", environment.shell.solvent)
            engine = environment.shell.engine
            if engine == "auto":
                engine = "qcg" if state.engine == "crest" else "packmol"
            calculation: Calculation[Any, SolvatedCluster] = qcg_cluster if engine == "qcg" else solvate
            outcomes = await ctx.fan_out(
                calculation,
                {
                    f"{conformer.id}.{sample}": _shell_input(
                        state, environment.shell, conformer, solvent, qcg=engine == "qcg", sample=sample
                    )
                    for conformer in state.conformers
                    for sample in range(environment.shell.samples)
                },
                limit=state.request.lanes,
                label=f"shell · {environment.name}",
            )
            try:
                clusters = need_any(outcomes)
            except JoinFailed as error:
                state.failed[environment.name] = _join_failure(error)
                continue
            state.shells[environment.name] = _lowest_clusters(clusters, {c.id: c for c in state.conformers})
            ctx.summarize(
                f"{len(state.shells[environment.name])} conformers with {environment.shell.molecules} solvent molecules"
            )
        return await ctx.route()

    def rule(self, state: EnsembleState) -> Step:
        """Return the refinement; the report when no environment is left for it."""
        return RefineEnvironments() if state.outstanding(shared=False) or state.results else Report()


class RefineEnvironments(Node[EnsembleState, EnsembleResult]):
    """Refine the conformers in each environment that has geometries of its own: lanes of environments, then conformers."""

    async def run(self, ctx: Ctx) -> "ShareGeometries | Report":
        """Open a lane for each environment."""
        await _environments(ctx, ctx.state.outstanding(shared=False))
        return await ctx.route()

    def rule(self, state: EnsembleState) -> Step:
        """Return what is outstanding."""
        return ShareGeometries() if state.outstanding(shared=True) else Report()


class ShareGeometries(Node[EnsembleState, EnsembleResult]):
    """Excited states in environments that take the optimized geometries of another environment."""

    async def run(self, ctx: Ctx) -> "Report":
        """Open a lane for each environment whose source has a result."""
        state = ctx.state
        for environment in state.outstanding(shared=True):
            source = environment.geometries
            if source in state.failed:
                state.failed[environment.name] = Failure(
                    kind=FailureKind.REFUSED, message=f"environment {source}, whose geometries it takes, failed"
                )
        await _environments(ctx, state.outstanding(shared=True))
        return await ctx.route()


class Report(Node[EnsembleState, EnsembleResult]):
    """Draw the spectra and write the tables and structures."""

    async def run(self, ctx: Ctx) -> "Finish":
        """Make the files."""
        state = ctx.state
        if not state.results:
            raise JoinFailed("at least one environment", state.failed, len(state.request.environments))
        report = (await _compute(ctx, ensemble_report, ReportInput(result=state.result()))).output
        state.files = report.files
        return await ctx.route()


class Finish(Node[EnsembleState, EnsembleResult]):
    """Publish the files, and persist the result where the job asks for it."""

    node_id: ClassVar[str] = "End"

    async def run(self, ctx: Ctx) -> End[EnsembleResult]:
        """Build the result."""
        state = ctx.state
        for name, ref in state.files.items():
            await ctx.publish(name, ref)
        persisted: tuple[str, ...] = ()
        if ctx.persist is not None:
            from grafico.chemistry.entities import ensemble_entities

            # RDKit may take a second to find out what the molecule is.
            entities = await ctx.thread(ensemble_entities, state.result())
            persisted = tuple(await ctx.persist.persist(entities))
        return End(state.result(persisted=persisted))


async def _compute(ctx: Ctx, calculation: Calculation[Any, Any], value: BaseModel) -> Success[Any]:
    """Run a calculation without which the job cannot go on."""
    outcome = await ctx.compute(calculation, value)
    if not outcome.ok:
        raise ctx.fail(outcome)
    return outcome


async def _structure(ctx: Ctx, name: str, molecule: MoleculeInput) -> ConceptualAtoms:
    """Return the structure of a molecule; files and random numbers are read once, and journalled."""
    built: Json = await ctx.value(name, lambda: asyncio.to_thread(_resolve, molecule))
    return ConceptualAtoms.model_validate(built)


def _resolve(molecule: MoleculeInput) -> Json:
    return resolve_molecule(molecule).model_dump(mode="json")


def _shell_input(
    state: EnsembleState, shell: Shell, conformer: Conformer, solvent: ConceptualAtoms, *, qcg: bool, sample: int
) -> ShellInput | QCGInput:
    if qcg:
        search = state.request.search
        return QCGInput(
            solute=conformer.atoms,
            solvent=solvent,
            molecules=shell.molecules,
            implicit=shell.implicit,
            threads=search.threads,
            walltime_h=search.walltime_h,
        )
    return ShellInput(
        solute=conformer.atoms,
        solvent=solvent,
        molecules=shell.molecules,
        density=shell.density,
        temperature=shell.temperature,
        picoseconds=shell.picoseconds,
        implicit=shell.implicit,
        seed=(shell.seed + sample) % 2_000_000_000,
    )


def _lowest_clusters(clusters: Mapping[str, SolvatedCluster], conformers: Mapping[str, Conformer]) -> dict[str, Start]:
    best: dict[str, SolvatedCluster] = {}
    for key, cluster in clusters.items():
        name = key.rpartition(".")[0]
        if name not in best or cluster.energy < best[name].energy:
            best[name] = cluster
    return {name: Start(cluster.atoms, conformers[name].degeneracy, cluster.energy) for name, cluster in best.items()}


async def _environments(ctx: Ctx, environments: tuple[Environment, ...]) -> None:
    """Open a lane for each environment and keep what comes back; a failed one fails no other."""
    state = ctx.state
    if not environments:
        return
    outcomes = await ctx.fan_out(
        ENVIRONMENT, {environment.name: state.lane(environment) for environment in environments}, label="environment"
    )
    state.failed.update(failures(outcomes))
    for name, outcome in outcomes.items():
        if outcome.ok:
            result: EnvironmentResult = outcome.output
            state.results[name] = result
            ctx.summarize(f"{name}: {len(result.members)} conformers, {len(result.failures)} failed lanes")


def _join_failure(error: JoinFailed) -> Failure:
    kinds = {failure.kind for failure in error.failed.values()}
    return Failure(kind=kinds.pop() if len(kinds) == 1 else FailureKind.REFUSED, message=error.message)
