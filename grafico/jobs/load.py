"""From a job file to a validated job and the request of its graph."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from grafico.calculations import Json
from grafico.errors import BadInput, JobError, MoleculeError
from grafico.jobs.catalog import blame, load_graph
from grafico.jobs.document import Document, read_document
from grafico.jobs.files import check_files, resolve_files
from grafico.jobs.overrides import apply_overrides
from grafico.jobs.problems import explain_errors, shortened
from grafico.jobs.provenance import store_of
from grafico.jobs.schema import Job

__all__ = ["LoadedJob", "load_job", "read_job", "validate_request"]


@dataclass(frozen=True)
class LoadedJob:
    """A job that may run: its schema holds, its graph is there, its request passed the graph's own checks."""

    job: Job
    document: Document
    source: bytes
    path: Path
    graph: Any
    request: Any
    overrides: tuple[str, ...] = ()


def read_job(path: Path, overrides: Sequence[str] = (), **given: Json) -> tuple[Job, Document, bytes]:
    """Read a job file and put ``--set`` values in; nothing of the graph is looked at yet.

    Parameters
    ----------
    path
        The YAML file.
    overrides
        Texts of ``--set``.
    given
        Values that options of the command line give (``name``, ``cluster``); ``None`` leaves the file's.

    Raises
    ------
    JobError
        With every problem and its line.
    """
    document, source = read_document(path)
    document = apply_overrides(document, overrides)
    data = dict(document.data)
    overridden = dict(document.overridden)
    for key, value in given.items():
        if value is not None:
            data[key] = value
            overridden[(key,)] = f"--{key} {shortened(str(value))}"
    if data.get("name") is None:
        data["name"] = re.sub(r"[^A-Za-z0-9_.+-]", "-", path.stem)[:64].lstrip("_.+-") or "job"
    document = replace(document, data=data, overridden=overridden)
    try:
        return Job.model_validate(data), document, source
    except ValidationError as error:
        raise explain_errors(error, document, Job) from None


def load_job(path: Path, overrides: Sequence[str] = (), **given: Json) -> LoadedJob:
    """Read a job file, find its graph, validate its request and let the graph check it.

    Raises
    ------
    BadInput
        The first stage that finds problems reports all of its own.
    """
    job, document, source = read_job(path, overrides, **given)
    folder = path.resolve().parent
    try:
        graph = load_graph(job.graph, beside=folder)
    except JobError as error:
        spot = document.position(("graph",))
        raise JobError(f"{document.where}, {spot}, graph: {error.message}", hint=error.hint) from None
    request = validate_request(job, graph, document)
    request = resolve_files(request, folder)
    check_files(request, document)
    if job.knowledge.store is not None:
        store = str(folder / Path(job.knowledge.store).expanduser())
        job = job.model_copy(update={"knowledge": job.knowledge.model_copy(update={"store": store})})
    if graph.check is not None:
        try:
            with store_of(job), blame(job.graph, "the check"):
                graph.check(request)
        except BadInput as error:
            spot = _spot(error, document)
            raise type(error)(f"{document.where}{spot}: {error.message}", hint=error.hint) from error
    return LoadedJob(job, document, source, path, graph, request, tuple(overrides))


def _spot(error: BadInput, document: Document) -> str:
    """Return the line that a check speaks of: its message begins with a place in the input, or there is one molecule."""
    named = re.match(r"([A-Za-z_][A-Za-z_0-9.\[\]]*): ", error.message)
    if named is None:
        molecules = {place for place in (*document.lines, *document.overridden) if place[-1] == "molecule"}
        known = isinstance(error, MoleculeError) and len(molecules) == 1
        return f", {document.position(molecules.pop())}" if known else ""
    parts = re.findall(r"[A-Za-z_][A-Za-z_0-9]*|\d+", named[1])
    place = ("input", *(int(part) if part.isdigit() else part for part in parts))
    position = document.position(place) if place[:2] in document.lines or place[:2] in document.overridden else ""
    return f", {position}" if position else ""


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
            return request_type.model_validate(job.input)
    except ValidationError as error:
        raise explain_errors(error, document, request_type, ("input",)) from None
    except BadInput as error:
        raise type(error)(f"{document.where}, input: {error.message}", hint=error.hint) from None
