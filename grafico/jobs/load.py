"""From a job file to a validated job and the request of its graph."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.calculations import Json
from grafico.errors import BadInput, JobError
from grafico.jobs.catalog import load_graph
from grafico.jobs.document import Document, read_document
from grafico.jobs.overrides import apply_overrides
from grafico.jobs.problems import explain_errors, shortened
from grafico.jobs.request import check_request, read_request
from grafico.jobs.schema import Job
from grafico.jobs.sweeps import Shard, Sweep, load_sweep

__all__ = ["LoadedJob", "load_job", "read_job"]


@dataclass(frozen=True)
class LoadedJob:
    """A job that may run: its schema holds, its graph is there, its request passed the graph's own checks."""

    job: Job
    document: Document
    source: bytes
    path: Path
    graph: Any
    request: Any
    """None for a sweep, whose members have one each."""
    overrides: tuple[str, ...] = ()
    sweep: Sweep | None = None


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


def load_job(
    path: Path,
    overrides: Sequence[str] = (),
    *,
    shard: Shard | None = None,
    say: Callable[[str], None] | None = None,
    **given: Json,
) -> LoadedJob:
    """Read a job file, find its graph, validate its request and let the graph check it.

    Parameters
    ----------
    path, overrides, given
        As for :func:`read_job`.
    shard
        The part of a sweep that is wanted; default all of it.
    say
        Told how far the checks of many members have come.

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
    if job.knowledge.store is not None:
        place = job.knowledge.place
        store = str(folder / place) if isinstance(place, Path) else place
        _check_credentials(place)
        job = job.model_copy(update={"knowledge": job.knowledge.model_copy(update={"store": store})})
    if job.is_sweep:
        sweep = load_sweep(job, graph, document, folder, shard=shard, say=say)
        return LoadedJob(job, document, source, path, graph, None, tuple(overrides), sweep)
    if shard is not None:
        raise BadInput("--shard: the job is no sweep, it has no matrix", hint="leave it out")
    request = read_request(job, graph, document, folder)
    check_request(job, graph, request, document)
    return LoadedJob(job, document, source, path, graph, request, tuple(overrides))


def _check_credentials(place: Path | str | None) -> None:
    # Before there is a run, and not when it first persists.
    if isinstance(place, str):
        from grafico.knowledge.address import credentials, read_address

        credentials(read_address(place))
