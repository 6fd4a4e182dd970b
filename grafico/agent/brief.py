"""Making results short enough for an agent, and free of what must not leave the machine: coordinates, arrays, files."""

from collections.abc import Mapping
from typing import Any

from grafico.calculations import Json

__all__ = ["PRIVATE", "shorten"]

PRIVATE = frozenset(
    {"atoms", "cell", "coordinates", "geometry", "hessian", "modes", "positions", "symbols", "trajectory", "xyz"}
)
"""Fields that are left out wherever they stand."""

LONGEST_LIST = 24
LONGEST_TEXT = 400
DEEPEST = 8


def shorten(value: Json) -> Json:
    """Return a JSON value without coordinates and long lists; what is left out is said in its place."""
    return _short(value, 0)


def _short(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, Mapping):
        return {
            name: "(left out: coordinates)" if name in PRIVATE and inner is not None else _short(inner, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        if len(value) > LONGEST_LIST:
            return {
                "length": len(value),
                "first": [_short(item, depth + 1) for item in value[:3]],
                "left_out": len(value) - 3,
            }
        return [_short(item, depth + 1) for item in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
    return value
