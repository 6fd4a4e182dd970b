"""The quantum chemistry graph."""

from grafico.chemistry.quantum_chemistry.graph import (
    GRAPH,
    check_plan,
    check_request,
    foresee,
    foresee_plan,
    identity_of,
)
from grafico.chemistry.quantum_chemistry.request import QCPlan, QCRequest, QCResult, Task, Vibrations
from grafico.chemistry.quantum_chemistry.state import QCState

__all__ = [
    "GRAPH",
    "QCPlan",
    "QCRequest",
    "QCResult",
    "QCState",
    "Task",
    "Vibrations",
    "check_plan",
    "check_request",
    "foresee",
    "foresee_plan",
    "identity_of",
]
