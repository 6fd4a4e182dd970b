"""Routing situations of the quantum chemistry graph, each with the successors that a chemist would accept.

A situation says what the job asks for, what the user wants in words, and what has happened so far. The question, its
admissible successors and what guards forbid are the graph's own; only the numbers in the summaries are made up.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Json, Model
from grafico.chemistry.calculations.analysis import AnalysisOutput
from grafico.chemistry.calculations.frequencies import FrequenciesOutput, Mode
from grafico.chemistry.calculations.tddft import TDDFTOutput
from grafico.chemistry.molecules import resolve_molecule
from grafico.chemistry.properties import Electronic
from grafico.chemistry.quantum_chemistry import GRAPH, QCPlan, QCState, Task
from grafico.chemistry.request import ExcitedStates, MoleculeInput
from grafico.errors import GraphStopped
from grafico.graphs import InlineCompute, Limits, MemoryRecorder, Position, RouteQuestion, Router
from grafico.graphs.events import Events
from grafico.graphs.node import AnyNode, parameters_of
from grafico.graphs.routing import choose
from grafico.graphs.scope import Scope
from grafico.graphs.state import Summary
from grafico.graphs.walk import Walk

__all__ = ["Decision", "Situation", "decide", "question_of", "read_situations", "state_of"]


class Situation(Model):
    """One place where a successor has to be chosen, and which ones are right there."""

    name: str
    group: str = Field(description="what makes it hard")
    molecule: str = Field(description="name in the shipped table")
    intent: str = Field(description="what the user wants, in words")
    tasks: tuple[Task, ...] = Field(description="what the job asks for")
    after: str = Field(description="id of the node that has just run")
    done: tuple[Task, ...] = Field(description="what is known of the present geometry")
    geometry: Literal["given", "optimized", "displaced"] = "given"
    so_far: tuple[str, ...] = Field(description="summaries of steps, `node: text`")
    imaginary: tuple[float, ...] = Field(default=(), description="imaginary modes of the present geometry, cm⁻¹")
    removals: int = 0
    roots: int = Field(default=10, description="what the job says")
    right: tuple[str, ...] = Field(min_length=1, description="successors that a chemist would accept")
    parameters: Mapping[str, tuple[int | None, ...]] = Field(
        default_factory=dict, description="values that are right; null: what the job says"
    )
    about: str = Field(description="why")


@dataclass(frozen=True)
class Decision:
    """What was decided in a situation."""

    node: AnyNode | None
    by: str
    reasoning: str

    def successor_is_right(self, situation: Situation) -> bool:
        """Whether a router gave an admissible answer and a chemist would accept its successor."""
        return self.node is not None and self.by != "fallback" and self.node.node_id in situation.right

    def is_right(self, situation: Situation) -> bool:
        """Whether its parameters are right as well: those that are labeled as labeled, the others as the job says."""
        if self.node is None or not self.successor_is_right(situation):
            return False
        given = parameters_of(self.node)
        usual = {"roots": (None, situation.roots)}
        return all(
            given.get(name) in situation.parameters.get(name, usual.get(name, (None,)))
            for name in {*given, *situation.parameters}
        )


def read_situations() -> tuple[Situation, ...]:
    """Return the labeled set."""
    text = files("grafico.bench").joinpath("situations.json").read_text(encoding="utf-8")
    return tuple(Situation.model_validate(item) for item in json.loads(text))


def state_of(situation: Situation) -> QCState:
    """Return the state of a walk in a situation."""
    plan = QCPlan(tasks=situation.tasks, excited_states=ExcitedStates(roots=situation.roots))
    atoms: ConceptualAtoms = resolve_molecule(MoleculeInput(name=situation.molecule))
    state = QCState(plan=plan, label=situation.molecule, atoms=atoms, origin=atoms, intent=situation.intent)
    state.geometry, state.removals = situation.geometry, situation.removals
    for line in situation.so_far:
        node, _, text = line.partition(": ")
        state.summaries.append(Summary(node, text))
    if situation.done:
        energies = re.findall(r"E = (-[\d.]+) hartree", " ".join(situation.so_far))
        state.electronic = _partial(Electronic, energy=float(energies[-1]) if energies else None)
    if "frequencies" in situation.done:
        modes = tuple(Mode.model_construct(wavenumber=value, displacements=()) for value in situation.imaginary)
        state.frequencies = _partial(FrequenciesOutput, imaginary=modes, wavenumbers=situation.imaginary)
        state.gradient_max = 1e-5
    if "tddft" in situation.done:
        state.excitations = _partial(TDDFTOutput)
    if "analysis" in situation.done:
        state.analysis = _partial(AnalysisOutput)
    return state


def _partial(cls: Any, **known: Any) -> Any:
    """Return an output of which routing sees a few fields only."""
    return cls.model_construct(**known)


async def decide(situation: Situation, router: Router) -> Decision:
    """Have a successor chosen as in a run: guards, forced edges, the router, validation, correction, fallback."""
    recorder = MemoryRecorder()
    scope = Scope(
        compute=InlineCompute(recorder),
        router=router,
        recorder=recorder,
        events=Events(()),
        persist=None,
        limits=Limits(),
    )
    walk = Walk(scope, GRAPH, state_of(situation), "")
    node: AnyNode | None
    try:
        node = await choose(walk, GRAPH.by_id[situation.after](), Position("", 0, 0))
    except GraphStopped:
        node = None
    taken = walk.state.routes[-1]
    return Decision(node, taken.by, taken.reasoning)


async def question_of(situation: Situation) -> RouteQuestion | None:
    """Return what a router is asked in a situation; ``None`` where nobody is asked."""
    heard: list[RouteQuestion] = []

    class Listener:
        name = "listener"

        async def choose(self, question: RouteQuestion) -> Mapping[str, Json]:
            heard.append(question)
            raise GraphStopped("it only listens")

    await decide(situation, Listener())
    return heard[0] if heard else None
