"""From the input of a job to the request of its graph: validated, its files found, and checked by the graph itself."""

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from grafico.calculations import Json
from grafico.errors import BadInput, JobError, MoleculeError
from grafico.jobs.catalog import blame
from grafico.jobs.document import Document, Place
from grafico.jobs.files import check_files, resolve_files
from grafico.jobs.problems import dotted, explain_errors
from grafico.jobs.provenance import store_of
from grafico.jobs.schema import Job

__all__ = ["check_request", "read_request", "validate_request"]


def read_request(job: Job, graph: Any, document: Document, folder: Path) -> BaseModel:
    """Return the request of a job, with paths as they are from here; files that it names are there.

    Raises
    ------
    JobError
        With every problem and its line.
    """
    request = resolve_files(validate_request(job, graph, document), folder)
    check_files(request, document)
    return request


def check_request(job: Job, graph: Any, request: BaseModel, document: Document) -> None:
    """Let the graph check a request.

    Raises
    ------
    BadInput
        What the graph says of it, with the line.
    """
    if graph.check is None:
        return
    try:
        with store_of(job), blame(job.graph, "the check"):
            graph.check(request)
    except BadInput as error:
        spot = _spot(error, document)
        raise type(error)(f"{document.where}{spot}: {error.message}", hint=error.hint) from error


def validate_request(job: Job, graph: Any, document: Document) -> BaseModel:
    """Validate ``input`` against the request model of the graph.

    Raises
    ------
    JobError
        With every problem and its line.
    """
    request_type: type[BaseModel] = graph.request_type
    try:
        with blame(job.graph, "the request model"):
            request = request_type.model_validate(document.data["input"])
    except ValidationError as error:
        raise explain_errors(error, document, request_type, ("input",)) from None
    except BadInput as error:
        raise type(error)(f"{document.where}, input: {error.message}", hint=error.hint) from None
    if (found := next(_not_finite(request.model_dump(mode="json"), ("input",)), None)) is not None:
        place, value = found
        spot = ", ".join(part for part in (document.position(place), dotted(place)) if part)
        raise JobError(f"{document.where}, {spot}: must be a finite number, came {value}", hint="give one that is")
    return request


def _not_finite(value: Json, place: Place) -> Iterator[tuple[Place, float]]:
    """Yield each number that no file of a run can hold: a model may take the text ``inf`` for one."""
    if isinstance(value, float) and not isfinite(value):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_finite(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(item, (*place, index))


def _spot(error: BadInput, document: Document) -> str:
    """Return the line that a check speaks of: its message begins with a place in the input, or there is one molecule."""
    named = re.match(r"([A-Za-z_][A-Za-z_0-9.\[\]]*): ", error.message)
    if named is None:
        written = (place for place in (*document.lines, *document.overridden) if place[0] == "input")
        molecules = {place[: place.index("molecule") + 1] for place in written if "molecule" in place}
        known = isinstance(error, MoleculeError) and len(molecules) == 1
        return f", {document.position(molecules.pop())}" if known else ""
    parts = re.findall(r"[A-Za-z_][A-Za-z_0-9]*|\d+", named[1])
    place = ("input", *(int(part) if part.isdigit() else part for part in parts))
    known = any(other[:2] == place[:2] for other in (*document.lines, *document.overridden))
    return f", {position}" if known and (position := document.position(place)) else ""
