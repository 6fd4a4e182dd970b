"""Who decides where a walk goes next: rules now, a language model where one is configured."""

from grafico.control.rules import RuleRouter

__all__ = ["RuleRouter"]
