"""The quantum chemistry graph: which steps may follow which, and when they may not."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Calculation
from grafico.chemistry.calculations.analysis import analysis
from grafico.chemistry.calculations.frequencies import frequencies
from grafico.chemistry.calculations.optimization import optimization
from grafico.chemistry.calculations.single_point import single_point
from grafico.chemistry.calculations.tddft import tddft
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.quantum_chemistry.nodes import (
    TDDFT,
    Finish,
    FrequencyCalculation,
    GeometryOptimization,
    ImaginaryModeRemoval,
    MolecularAnalysis,
    SinglePoint,
    next_node,
)
from grafico.chemistry.quantum_chemistry.request import QCPlan, QCRequest, QCResult, Task
from grafico.chemistry.quantum_chemistry.state import QCState
from grafico.chemistry.resources import Kind, dft_resources, typical_seconds
from grafico.chemistry.validation import check_excited_states, check_level
from grafico.graphs import Foreseen, Graph, Guard, Node

__all__ = ["GRAPH", "check_plan", "check_request", "foresee", "foresee_plan", "identity_of"]


def _may_leave(state: QCState) -> bool:
    """Whether an exit was requested and is due: its node has run."""
    return state.exit == Finish.node_id or any(summary.node == state.exit for summary in state.summaries)


GUARDS = (
    Guard(
        name="displaced geometry",
        at=(ImaginaryModeRemoval,),
        removes=(Finish,),
        when=lambda state: True,  # noqa: ARG005
        reason="a displaced geometry is no stationary point; it must be optimized",
    ),
    Guard(
        name="unverified geometry",
        at=(GeometryOptimization,),
        removes=(TDDFT, MolecularAnalysis, Finish),
        when=lambda state: state.removals > 0 and state.frequencies is None,
        reason="after a removal of imaginary modes only frequencies can tell whether the geometry is a minimum",
    ),
    Guard(
        name="imaginary modes",
        at=(FrequencyCalculation,),
        removes=(TDDFT, MolecularAnalysis, Finish),
        when=lambda state: bool(state.imaginary) and state.plan.wants_minimum,
        reason="a minimum is wanted, and the geometry has imaginary modes",
    ),
    Guard(
        name="no imaginary modes",
        at=(FrequencyCalculation,),
        removes=(ImaginaryModeRemoval,),
        when=lambda state: not state.imaginary or not state.plan.wants_minimum,
        reason="there is no imaginary mode to remove, or the geometry is to be taken as it is",
    ),
    Guard(
        name="outstanding tasks",
        removes=(Finish,),
        when=lambda state: bool(state.outstanding) and not _may_leave(state),
        reason="the job asks for more than has been done",
    ),
    Guard(
        name="optimized already",
        removes=(GeometryOptimization,),
        when=lambda state: state.geometry == "optimized",
        reason="the geometry is a converged stationary point",
    ),
    Guard(
        name="optimize first",
        at=(SinglePoint,),
        removes=(FrequencyCalculation, TDDFT, MolecularAnalysis),
        when=lambda state: "optimize" in state.outstanding,
        reason="the job asks for these at the optimized geometry",
    ),
    Guard(
        name="frequencies first",
        at=(SinglePoint, GeometryOptimization),
        removes=(TDDFT, MolecularAnalysis),
        when=lambda state: "frequencies" in state.outstanding,
        reason="frequencies may still move the geometry",
    ),
    Guard(
        name="excitations are there",
        removes=(TDDFT,),
        when=lambda state: state.excitations is not None,
        reason="the excitations of this geometry are known",
    ),
    Guard(
        name="analysis is there",
        removes=(MolecularAnalysis,),
        when=lambda state: state.analysis is not None,
        reason="this geometry is analyzed",
    ),
)


def check_request(request: QCRequest) -> None:
    """Refuse what cannot be computed, before anything is.

    Raises
    ------
    BadInput
        Molecule, level or excited states; with what is wrong and suggestions.
    """
    check_plan(request, resolve_molecule(request.molecule))


def check_plan(plan: QCPlan, atoms: ConceptualAtoms) -> None:
    """Refuse a plan that cannot be carried out for a structure; for graphs that open lanes here.

    Raises
    ------
    BadInput
        Level or excited states; with what is wrong and suggestions.
    """
    forces = bool({"optimize", "frequencies"} & set(plan.tasks))
    check_level(plan.level, atoms, where="level", forces=forces)
    if "tddft" in plan.tasks:
        level = plan.level_of_excited_states
        if plan.excited_level is not None:
            check_level(level, atoms, where="excited_level")
        check_excited_states(plan.excited_states, level, atoms)


def foresee(request: QCRequest) -> Sequence[Foreseen]:
    """Return the calculations that a job needs if nothing goes wrong."""
    return foresee_plan(request, resolve_molecule(request.molecule))


def foresee_plan(
    plan: QCPlan,
    atoms: ConceptualAtoms,
    *,
    count: int = 1,
    label: str = "",
    lane: str = "",
    waits: bool = False,
    of: str = "",
) -> Sequence[Foreseen]:
    """Return the calculations of ``count`` lanes on structures like ``atoms``.

    Parameters
    ----------
    lane, waits
        As for :class:`~grafico.graphs.Foreseen`.
    of
        What the structures follow from, where that is more than ``atoms``; the same text for the same ones.
    """
    found: list[Foreseen] = []
    origin = identity_of(of or atoms.model_dump_json())
    optimized = identity_of(origin, plan.level, plan.max_steps, plan.thresholds)
    for task, (kind, calculation) in _CALCULATIONS.items():
        if task in plan.tasks:
            level = plan.level_of_excited_states if task == "tddft" else plan.level
            needs = dft_resources(atoms, level, kind, gpu=plan.gpu, cpus=plan.cpus)
            before = task in {"single_point", "optimize"} or "optimize" not in plan.tasks
            about = plan.excited_states if task == "tddft" else ""
            own = (plan.max_steps, plan.thresholds) if task == "optimize" else ()
            found.append(
                Foreseen(
                    calculation,
                    needs,
                    count=count,
                    label=f"{label}{calculation.name}",
                    seconds=typical_seconds(atoms, level, kind, gpu=plan.gpu),
                    seconds_without_gpu=typical_seconds(atoms, level, kind, gpu="none"),
                    lane=lane,
                    waits=waits and not found,
                    identity=identity_of(calculation.name, origin if before else optimized, level, about, *own),
                )
            )
    return found


def identity_of(*parts: object) -> str:
    """Return a text that is the same for the same parts: texts, numbers and models."""
    told = [part.model_dump_json() if isinstance(part, BaseModel) else str(part) for part in parts]
    return sha256("\0".join(told).encode()).hexdigest()


_CALCULATIONS: dict[Task, tuple[Kind, Calculation[Any, Any]]] = {
    "single_point": ("single_point", single_point),
    "optimize": ("optimization", optimization),
    "frequencies": ("frequencies", frequencies),
    "tddft": ("tddft", tddft),
    "analysis": ("analysis", analysis),
}


def _start(state: QCState) -> Node[QCState, QCResult]:
    return next_node(state)


GRAPH = Graph(
    id="quantum-chemistry",
    version="1",
    state_type=QCState,
    nodes=(
        SinglePoint,
        GeometryOptimization,
        FrequencyCalculation,
        ImaginaryModeRemoval,
        TDDFT,
        MolecularAnalysis,
        Finish,
    ),
    start=_start,
    starts=(SinglePoint, GeometryOptimization, FrequencyCalculation, TDDFT, MolecularAnalysis),
    guards=GUARDS,
    request_type=QCRequest,
    begin=QCState.for_request,
    check=check_request,
    foresee=foresee,
    max_steps=60,
    description="Energies, geometries, frequencies, excited states and charges of one molecule with PySCF.",
)
