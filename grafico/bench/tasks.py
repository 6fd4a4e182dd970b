"""Calculations as benchmarks hand them to a cluster, without a graph."""

from typing import Any

from pydantic import BaseModel

from grafico.calculations import Calculation, CalculationTask, Resources

__all__ = ["bench_task"]


def bench_task(calculation: Calculation[Any, Any], value: BaseModel, resources: Resources) -> CalculationTask:
    """Return the first attempt at a calculation."""
    return CalculationTask(
        reference=calculation.reference,
        name=calculation.name,
        version=calculation.version,
        family=calculation.family,
        key=calculation.key(value),
        input=value.model_dump(mode="json"),
        resources=resources,
        label="bench",
    )
