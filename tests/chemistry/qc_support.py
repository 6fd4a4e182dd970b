"""What the tests of quantum chemistry share."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafico.atoms import ConceptualAtoms, read_xyz
from grafico.calculations import CalculationTask, Failure, Outcome
from grafico.chemistry.quantum_chemistry import GRAPH, QCRequest, QCState
from grafico.control import RuleRouter
from grafico.graphs import InlineCompute, MemoryRecorder, run_graph

DATA = Path(__file__).parent / "data"

PLANAR_AMMONIA = "N 0 0 0\nH 1.0 0 0\nH -0.5 0.8660254 0\nH -0.5 -0.8660254 0"


def structure_of(reference: Mapping[str, Any]) -> ConceptualAtoms:
    """Return the structure of an entry of single-points.json."""
    lines = reference["xyz"].splitlines()
    text = "\n".join([str(len(lines)), "", *lines])
    return read_xyz(text, charge=reference["charge"], multiplicity=reference["multiplicity"])


class Walked:
    """One walk through the quantum chemistry graph, in this process."""

    def __init__(
        self,
        start: QCRequest | QCState,
        *,
        router: Any = None,
        recorder: MemoryRecorder | None = None,
        persist: Any = None,
    ) -> None:
        self.recorder = recorder or MemoryRecorder()
        self.compute = InlineCompute(self.recorder)
        self.state: QCState = start if isinstance(start, QCState) else GRAPH.begin(start)
        self.outcome: Outcome[Any] = asyncio.run(
            run_graph(
                GRAPH,
                self.state,
                compute=self.compute,
                router=router or RuleRouter(),
                recorder=self.recorder,
                persist=persist,
            )
        )

    @property
    def path(self) -> list[str]:
        """Ids of the nodes visited and, last, of the one that the walk went to."""
        routes = self.state.routes
        return [taken.node for taken in routes] + ([routes[-1].successor or ""] if routes else [])

    @property
    def tasks(self) -> list[CalculationTask]:
        """Every attempt at a calculation."""
        return self.compute.tasks

    @property
    def result(self) -> Any:
        """The result of a walk that succeeded."""
        assert self.outcome.ok, self.outcome
        return self.outcome.output

    @property
    def failure(self) -> Failure:
        """The failure of a walk that failed."""
        assert isinstance(self.outcome, Failure), self.outcome
        return self.outcome
