"""What a tool is: a name, words, typed input, and a function that answers with JSON or raises an error of grafico's."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.calculations import Json, Model
from grafico.errors import BadInput, GraficoError

__all__ = ["Desk", "Tool", "call", "failure_of"]


@dataclass
class Desk:
    """Where tools work.

    Parameters
    ----------
    runs
        Folder of runs.
    home
        The only folder under which files may be named.
    progress
        Told what happens: done, of how many (or ``None``), and a line for people.
    """

    runs: Path = Path("runs")
    home: Path = field(default_factory=Path.cwd)
    store: str | None = None
    progress: Callable[[float, float | None, str], None] = lambda _done, _total, _text: None


@dataclass(frozen=True)
class Tool:
    """One thing that an agent may do. None executes code that an agent wrote."""

    name: str
    description: str
    input: type[Model]
    run: Callable[[Any, Desk], Awaitable[Json]]
    reads_only: bool = True

    @property
    def schema(self) -> Mapping[str, Json]:
        """JSON Schema of the input."""
        return self.input.model_json_schema()


async def call(tool: Tool, arguments: Mapping[str, Json], desk: Desk) -> Json:
    """Validate arguments and run a tool.

    Raises
    ------
    BadInput
        The arguments do not satisfy the tool's schema; names the first field that does not, and how many more.
    GraficoError
        As the tool says.
    """
    try:
        value = tool.input.model_validate(dict(arguments))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        first = problems[0]
        where = ".".join(str(part) for part in first["loc"]) or "arguments"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        said = first["msg"].removeprefix("Value error, ")
        raise BadInput(
            f"{tool.name}: {where}: {said}{more}", hint=f"known: {', '.join(tool.input.model_fields)}"
        ) from None
    return await tool.run(value, desk)


def failure_of(error: GraficoError) -> dict[str, Json]:
    """Return an error as a typed value: its kind in the exception tree, what is wrong, what to do."""
    kinds = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, GraficoError)]
    return {"error": kinds[0], "is_a": kinds[1:], "message": error.message, "hint": error.hint}
