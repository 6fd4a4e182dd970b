"""What a calculation is: typed input and output, resources, version, failure, recovery.

A calculation is a pure function that a worker runs in a process of its own. It is declared with
:func:`calculation` and referred to by the import path of its module and its name, so that nothing
but JSON and digests travels between controller and worker.
"""

from grafico.calculations.contents import contents_of
from grafico.calculations.declare import Calculation, CalculationTask, Rung, calculation, load_calculation
from grafico.calculations.keys import canonical_json, content_key
from grafico.calculations.outcomes import (
    ArtifactRef,
    Attempt,
    CalculationError,
    Failure,
    FailureKind,
    Json,
    Model,
    Outcome,
    Provenance,
    Resources,
    Success,
    unfit,
)
from grafico.calculations.work import Artifacts, WorkContext

__all__ = [
    "ArtifactRef",
    "Artifacts",
    "Attempt",
    "Calculation",
    "CalculationError",
    "CalculationTask",
    "Failure",
    "FailureKind",
    "Json",
    "Model",
    "Outcome",
    "Provenance",
    "Resources",
    "Rung",
    "Success",
    "WorkContext",
    "calculation",
    "canonical_json",
    "content_key",
    "contents_of",
    "load_calculation",
    "unfit",
]
