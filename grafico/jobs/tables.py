"""The tables that a result offers to people: a result model may have ``tables()``, and faces print what it returns.

A science knows nothing of faces: its result only has a method (or property) ``tables`` that returns objects or
mappings with ``title``, ``columns`` and ``rows``.
"""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from pydantic import Field

from grafico.calculations import Json, Model
from grafico.jobs.catalog import said

__all__ = ["HasTables", "Table", "json_bytes", "plain_text", "tables_of"]


class Table(Model):
    """A small table for people."""

    title: str = ""
    columns: tuple[str, ...] = Field(description="headings, with units")
    rows: tuple[tuple[Json, ...], ...] = ()


@runtime_checkable
class HasTables(Protocol):
    """A result that can show itself."""

    def tables(self) -> Sequence[Any]:
        """Return tables: each with ``title``, ``columns`` and ``rows``."""
        ...


def tables_of(result: object) -> list[Table]:
    """Return the tables that a result offers; none if it offers none.

    Where making them fails, a table says so: the result itself is there.
    """
    try:
        offered = getattr(result, "tables", None)
        if callable(offered):
            offered = offered()
        return [_table(item) for item in offered or ()]
    except Exception as error:  # noqa: BLE001 - whatever a science raises here, its result is there
        return [Table(title=f"the result cannot show its tables: {said(error)}", columns=())]


def _table(item: Any) -> Table:
    def part(name: str, default: Any) -> Any:
        return item.get(name, default) if isinstance(item, Mapping) else getattr(item, name, default)

    rows = tuple(tuple(_cell(value) for value in row) for row in part("rows", ()))
    return Table(
        title=plain_text(str(part("title", ""))),
        columns=tuple(plain_text(str(name)) for name in part("columns", ())),
        rows=rows,
    )


def _cell(value: object) -> Json:
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no NaN
    return value if value is None or isinstance(value, (bool, int, float)) else plain_text(str(value))


def json_bytes(value: Json) -> bytes:
    """Return JSON in UTF-8; a text that UTF-8 cannot hold has escapes in it."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, allow_nan=False).encode()


def plain_text(text: str) -> str:
    """Return a text that UTF-8 can hold: the names of files may have bytes in them that are no text."""
    return text.encode(errors="replace").decode()
