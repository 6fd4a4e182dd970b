"""Who decides: rules, or a language model that may only choose among admissible steps; what it costs, and gates."""

from grafico.control.audit import AuditLog
from grafico.control.client import ModelClient
from grafico.control.ledger import Ledger, read_calls
from grafico.control.model import ChainRouter, ModelRouter
from grafico.control.rules import RuleRouter
from grafico.control.settings import Budget, ModelSettings, Prices

__all__ = [
    "AuditLog",
    "Budget",
    "ChainRouter",
    "Ledger",
    "ModelClient",
    "ModelRouter",
    "ModelSettings",
    "Prices",
    "RuleRouter",
    "read_calls",
]
