"""How a run ends: its results on disk, its status and its exit code."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grafico.calculations import Failure, Json, Outcome, Success
from grafico.jobs.tables import Table, json_bytes, tables_of
from grafico.runs import Run, RunPaths, RunStatus, read_run

__all__ = ["EXIT_CODES", "Ended", "exit_code", "read_tables", "settled", "write_results"]

RESULT, TABLES = "result.json", "tables.json"
_TABLES = TypeAdapter(tuple[Table, ...])

EXIT_CODES = {
    RunStatus.FINISHED: 0,
    RunStatus.FINISHED_WITH_FAILED_LANES: 3,
    RunStatus.FAILED: 4,
    RunStatus.INTERRUPTED: 130,
}


@dataclass(frozen=True)
class Ended:
    """How a run ended, or stopped."""

    run: Run
    tables: tuple[Table, ...] = ()
    nothing_to_do: bool = False
    """It had ended before, and nothing was asked that would change that."""
    killed: bool = False
    """The user asked twice: nothing may be waited for any more."""
    out_of_time: bool = False
    """It stopped because the time of its Slurm job is nearly over; it may go on in a later one."""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Exit code of the process."""
        return exit_code(self.run.manifest.status)


def exit_code(status: RunStatus) -> int:
    """Return the exit code that goes with a status."""
    return EXIT_CODES.get(status, 0)


def write_results(run: Run, outcome: Outcome[Any]) -> tuple[Table, ...]:
    """Write the result of the root walk, and its tables, under ``results/``."""
    if isinstance(outcome, Failure):
        return ()
    from grafico.runs.files import disk_errors

    tables = tuple(tables_of(outcome.output))
    if tables:
        _write(run, TABLES, [table.model_dump(mode="json") for table in tables])
    else:
        path = run.paths.result(TABLES)
        with disk_errors("an earlier result could not be removed", path):
            path.unlink(missing_ok=True)
    # Last, since by this one it is told that all were written.
    _write(run, RESULT, _json(outcome))
    return tables


def settled(run: Run) -> bool:
    """Whether the result that the journal says the run ended with is on disk: a kill may have come in between."""
    view = read_run(run.paths.root)
    if view.failure is not None:
        return True
    try:
        written = json.loads(run.paths.result(RESULT).read_bytes())
    except (OSError, ValueError):
        return False
    return view.result is None or bool(written == view.result)


def _json(outcome: Success[Any]) -> Json:
    output = outcome.output
    if isinstance(output, BaseModel):
        return output.model_dump(mode="json")
    return TypeAdapter(type(output)).dump_python(output, mode="json")


def _write(run: Run, name: str, value: Json) -> None:
    from grafico.runs.files import disk_errors, write_atomic

    path = run.paths.result(name)
    data = json_bytes(value) + b"\n"
    with disk_errors("a result could not be written", path):
        write_atomic(path, data)


def read_tables(paths: RunPaths) -> tuple[Table, ...]:
    """Return the tables that were written when the run ended; none if there were none."""
    try:
        return _TABLES.validate_json(paths.result(TABLES).read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        return (Table(title=f"{TABLES} cannot be read: {str(error).partition(chr(10))[0]}", columns=()),)
