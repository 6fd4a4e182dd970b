"""The ensemble graph: which steps may follow which, what is refused beforehand, and what is foreseen."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Calculation, Resources
from grafico.chemistry.calculations.conformers import (
    EMBED_RESOURCES,
    PRUNE_RESOURCES,
    embed_conformers,
    prune_conformers,
    rdkit_molecule,
    require_defined_stereo,
)
from grafico.chemistry.calculations.crest import CrestInput, QCGInput, crest_path, crest_search, qcg_cluster
from grafico.chemistry.calculations.report import REPORT_RESOURCES, ensemble_report
from grafico.chemistry.calculations.shell import ShellInput, solvate
from grafico.chemistry.calculations.xtb import ALPB_SOLVENTS, XTBOptimizationInput, xtb_optimization
from grafico.chemistry.ensemble.environment import tasks_of
from grafico.chemistry.ensemble.nodes import (
    BuiltInSearch,
    CrestSearch,
    Finish,
    PrepareMolecule,
    RefineEnvironments,
    Report,
    ShareGeometries,
    SolventShell,
)
from grafico.chemistry.ensemble.state import EnsembleState, smiles_of
from grafico.chemistry.ensemble_request import EnsembleRequest, Environment
from grafico.chemistry.level import closest
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.quantum_chemistry import QCPlan, check_plan, foresee_plan, identity_of
from grafico.errors import LevelError
from grafico.graphs import Foreseen, Graph, Guard

__all__ = ["GRAPH", "check_request", "foresee"]

GUARDS = (
    Guard(
        name="no shell asked for",
        at=(BuiltInSearch, CrestSearch),
        removes=(SolventShell,),
        when=lambda state: not state.shells_outstanding,
        reason="no environment of the job has an explicit solvent shell",
    ),
    Guard(
        name="shells first",
        at=(BuiltInSearch, CrestSearch),
        removes=(RefineEnvironments,),
        when=lambda state: bool(state.shells_outstanding),
        reason="an environment still lacks its explicit solvent shell",
    ),
    Guard(
        name="nothing to refine",
        at=(SolventShell,),
        removes=(RefineEnvironments,),
        when=lambda state: not state.outstanding(shared=False),
        reason="no environment is left whose conformers could be refined",
    ),
    Guard(
        name="refine first",
        at=(SolventShell,),
        removes=(Report,),
        when=lambda state: bool(state.outstanding(shared=False)),
        reason="there are conformers to refine",
    ),
    Guard(
        name="all geometries are their own",
        at=(RefineEnvironments,),
        removes=(ShareGeometries,),
        when=lambda state: not state.outstanding(shared=True),
        reason="no environment takes the geometries of another",
    ),
    Guard(
        name="environments outstanding",
        at=(RefineEnvironments,),
        removes=(Report,),
        when=lambda state: bool(state.outstanding(shared=True)),
        reason="an environment that takes the geometries of another is still to be done",
    ),
)


def check_request(request: EnsembleRequest) -> None:
    """Refuse what cannot be computed, before anything is.

    Raises
    ------
    BadInput
        Molecule, open stereocenters, levels, solvents or excited states; with what is wrong and suggestions.
    """
    smiles = smiles_of(request)
    if smiles is not None:
        require_defined_stereo(smiles)
    atoms = resolve_molecule(request.molecule)
    if request.search.engine == "crest":
        crest_path()
    elif smiles is None:
        rdkit_molecule(atoms=atoms)
    _check_alpb(request.search.solvent, "search.solvent")
    for environment in request.environments:
        if environment.shell is not None:
            _check_alpb(environment.shell.implicit, f"environments.{environment.name}.shell.implicit")
            resolve_molecule(environment.shell.solvent)
        try:
            check_plan(_plan(request, environment), atoms)
        except LevelError as error:
            raise LevelError(f"environment {environment.name}: {error.message}", hint=error.hint) from error


def _check_alpb(solvent: str | None, where: str) -> None:
    if solvent is not None and solvent not in ALPB_SOLVENTS:
        hint = closest(solvent, ALPB_SOLVENTS) or f"one of: {', '.join(ALPB_SOLVENTS)}"
        raise LevelError(f"{where}: ALPB has no solvent {solvent!r}", hint=hint)


def _plan(request: EnsembleRequest, environment: Environment) -> QCPlan:
    return QCPlan(
        level=request.level_of(environment),
        tasks=tasks_of(request, environment),
        excited_states=request.excited_states,
        gpu=request.gpu,
        cpus=request.cpus,
    )


def expected_conformers(request: EnsembleRequest) -> int:
    """Return a rough number of conformers for planning: three for each rotatable bond, at most 50 or the job's limit."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    smiles = smiles_of(request)
    whole = rdkit_molecule(smiles=smiles, atoms=None if smiles else resolve_molecule(request.molecule))
    mol = Chem.RemoveHs(whole)
    bonds = rdMolDescriptors.CalcNumRotatableBonds(mol)
    # Rotatable bonds leave out O-H, which matters here.
    bonds += sum(1 for atom in mol.GetAtoms() if atom.GetSymbol() == "O" and atom.GetTotalNumHs())
    return int(min(3**bonds, request.search.max_conformers or 50, 50))


def foresee(request: EnsembleRequest) -> Sequence[Foreseen]:
    """Return the calculations of a job; the number of conformers is an estimate."""
    atoms = resolve_molecule(request.molecule)
    search, count = request.search, expected_conformers(request)
    found: list[Foreseen] = []
    searched = identity_of("conformers", atoms, smiles_of(request) or "", search)
    if _uses_crest(request):
        value = CrestInput(atoms=atoms, threads=search.threads, walltime_h=search.walltime_h)
        needs = crest_search.resources(value)
        found.append(Foreseen(crest_search, needs, label="conformer search", identity=searched))
    else:
        needs = xtb_optimization.resources(XTBOptimizationInput(atoms=atoms))
        kinds: tuple[tuple[Calculation[Any, Any], Resources, int, str, float], ...] = (
            (embed_conformers, EMBED_RESOURCES, 1, "conformer search", 1.0 + _EMBED_S * search.seeds),
            (xtb_optimization, needs, search.seeds, "GFN2-xTB (at most about one a seed)", _XTB_S * len(atoms)),
            (prune_conformers, PRUNE_RESOURCES, 1, "pruning", 1.0),
        )
        for calculation, resources, times, label, seconds in kinds:
            identity = identity_of(calculation.name, searched)
            found.append(Foreseen(calculation, resources, times, label, seconds, identity=identity))
    # Environments that take the geometries of others come after these.
    for environment in sorted(request.environments, key=lambda item: item.geometries is not None):
        label = f"{environment.name} · "
        of = identity_of(searched, environment)
        if environment.shell is not None:
            found.append(replace(_foresee_shell(request, environment, atoms, count), identity=of))
        found += foresee_plan(
            _plan(request, environment),
            _with_shell(atoms, environment),
            count=count,
            label=f"{label}about {count} conformers · ",
            lane=environment.name,
            waits=environment.geometries is not None,
            of=of,
        )
    found.append(Foreseen(ensemble_report, REPORT_RESOURCES, label="plots and tables", seconds=_REPORT_S))
    return found


# Seconds on one core: of a seed (ETKDGv3 and MMFF94s), of an atom of a GFN2-xTB optimization, and of the plots. From a
# search with 2,3-epoxybutan-1-ol (50 seeds in 3 s); for planning only.
_EMBED_S, _XTB_S, _REPORT_S = 0.02, 0.01, 4.0


def _uses_crest(request: EnsembleRequest) -> bool:
    engine = request.search.engine
    return engine == "crest" or (engine == "auto" and shutil.which("crest") is not None)


def _foresee_shell(request: EnsembleRequest, environment: Environment, atoms: ConceptualAtoms, count: int) -> Foreseen:
    shell = environment.shell
    assert shell is not None
    solvent = resolve_molecule(shell.solvent)
    label = f"{environment.name} · solvent shells"
    times = count * shell.samples
    if shell.engine == "qcg" or (shell.engine == "auto" and _uses_crest(request)):
        grown = QCGInput(solute=atoms, solvent=solvent, molecules=shell.molecules, threads=request.search.threads)
        return Foreseen(qcg_cluster, qcg_cluster.resources(grown), count=times, label=label)
    packed = ShellInput(solute=atoms, solvent=solvent, molecules=shell.molecules, picoseconds=shell.picoseconds)
    return Foreseen(solvate, solvate.resources(packed), count=times, label=label)


def _with_shell(atoms: ConceptualAtoms, environment: Environment) -> ConceptualAtoms:
    """Return a structure of the size that an environment's lanes have; its positions mean nothing."""
    if environment.shell is None:
        return atoms
    solvent = resolve_molecule(environment.shell.solvent)
    count = environment.shell.molecules
    return ConceptualAtoms(
        symbols=atoms.symbols + solvent.symbols * count,
        positions=tuple((3.0 * index, 0.0, 0.0) for index in range(len(atoms) + count * len(solvent))),
        charge=atoms.charge + count * solvent.charge,
        multiplicity=atoms.multiplicity,
    )


GRAPH = Graph(
    id="ensemble-spectrum",
    version="1",
    state_type=EnsembleState,
    nodes=(
        PrepareMolecule,
        BuiltInSearch,
        CrestSearch,
        SolventShell,
        RefineEnvironments,
        ShareGeometries,
        Report,
        Finish,
    ),
    start=PrepareMolecule,
    guards=GUARDS,
    request_type=EnsembleRequest,
    begin=EnsembleState.for_request,
    check=check_request,
    foresee=foresee,
    max_steps=20,
    description="Absorption spectrum of a flexible molecule: conformers, refinement in lanes, Boltzmann weights, spectrum.",
)
