"""Ensemble spectroscopy: conformers, their refinement in lanes, Boltzmann weights and spectra."""

from grafico.chemistry.ensemble.graph import GRAPH, check_request, foresee
from grafico.chemistry.ensemble.state import EnsembleState
from grafico.chemistry.ensemble_request import ConformerSearch, EnsembleRequest, Environment, Shell
from grafico.chemistry.ensemble_result import (
    EnsembleMember,
    EnsembleResult,
    EnvironmentResult,
    SearchReport,
    SpectrumSummary,
    Stick,
)

__all__ = [
    "GRAPH",
    "ConformerSearch",
    "EnsembleMember",
    "EnsembleRequest",
    "EnsembleResult",
    "EnsembleState",
    "Environment",
    "EnvironmentResult",
    "SearchReport",
    "Shell",
    "SpectrumSummary",
    "Stick",
    "check_request",
    "foresee",
]
