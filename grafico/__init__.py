"""grafico: the batch orchestrator for computational chemistry on GPU clusters."""

__version__ = "0.1.0"
