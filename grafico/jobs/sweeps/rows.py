"""How a result becomes a row of a sweep's table.

A result model may have ``row()``, which returns scalars by column, the unit in the column's name: ``energy (hartree)``.
One without has its top-level scalars, with the units that the descriptions of its fields name.
"""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel

from grafico.calculations import Json
from grafico.jobs.catalog import said
from grafico.jobs.tables import plain_text

__all__ = ["HasRow", "Row", "row_of"]

Row: TypeAlias = dict[str, Json]

LONGEST_CELL = 300
MOST_BITS = 4096
"""Of a whole number in a cell; Python does not write very long ones."""

_UNITS = (
    "hartree",
    "hartree/bohr",
    "eV",
    "eV/Å",
    "kcal/mol",
    "kJ/mol",
    "J/(mol K)",
    "K",
    "Pa",
    "bar",
    "Å",
    "Å²",
    "Å³",
    "nm",
    "cm⁻¹",
    "km/mol",
    "debye",
    "s",
    "h",
    "e",
    "%",
    "MiB",
    "g/cm³",
    "m²/g",
    "cm³/g",
)
_UNIT = re.compile(rf"(?:^|,\s)({'|'.join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))})(?=$|[;,.]|\s\()")


@runtime_checkable
class HasRow(Protocol):
    """A result that can make itself a row."""

    def row(self) -> Mapping[str, Any]:
        """Return scalars by column, with units in the columns' names."""
        ...


def row_of(result: object) -> Row:
    """Return the row of a result; where making it fails, the row says so: the result itself is there."""
    try:
        offered = result.row() if isinstance(result, HasRow) else _scalars(result)
        return {plain_text(str(name)): _cell(value) for name, value in offered.items()}
    except Exception as error:  # noqa: BLE001 - whatever a science raises here, its result is there
        return {"note": f"the result cannot make its row: {said(error)}"}


def _scalars(result: object) -> Mapping[str, Any]:
    if not isinstance(result, BaseModel):
        return {"result": result} if _is_scalar(result) else {}
    found = {}
    for name, field in type(result).model_fields.items():
        value = getattr(result, name)
        if _is_scalar(value):
            unit = _UNIT.search(field.description or "")
            found[f"{name} ({unit[1]})" if unit else name] = value
    return found


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 300)


def _cell(value: Any) -> Json:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "a number of more digits than a table can hold"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = plain_text(str(value))
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
