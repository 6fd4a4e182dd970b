"""A run as an RO-Crate: its job, results, knowledge and files with metadata that other tools read.

The crate follows the Workflow Run Crate profile (https://w3id.org/ro/wfrun/workflow/0.5): the job file is the workflow,
the run is the action that executed it, under the IRI that it has in the knowledge base.
"""

import hashlib
import io
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from grafico.atoms.optional import require
from grafico.calculations import ArtifactRef, Json, Model
from grafico.errors import QueryError, RunError
from grafico.runs import RunPaths, RunStatus, RunView, read_run

__all__ = ["Crate", "write_crate"]

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
PARAMETER = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"
"""The term that RO-Crate 1.1 lacks."""
NO_LICENSE = "https://choosealicense.com/no-permission/"
QUADS = "application/n-quads"
MEDIA = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".nq": QUADS,
    ".csv": "text/csv",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".xyz": "chemical/x-xyz",
    ".cif": "chemical/x-cif",
    ".html": "text/html",
    ".txt": "text/plain",
    ".md": "text/markdown",
}
DONE = (RunStatus.FINISHED, RunStatus.FINISHED_WITH_FAILED_LANES)


class Crate(Model):
    """A crate that was written."""

    path: str = Field(description="folder, or zip file")
    run: str = Field(description="IRI of the run")
    files: int = Field(ge=0, description="files in it, the metadata aside")
    size: int = Field(ge=0, description="their size, B")
    missing: tuple[str, ...] = Field(default=(), description="files that the knowledge names and the run has lost")


def write_crate(run: Path, out: Path, *, license_: str = NO_LICENSE, author: str | None = None) -> Crate:
    """Write a run as an RO-Crate, whole or not at all.

    Parameters
    ----------
    run
        The run's folder.
    out
        A folder that does not exist yet, or the name of a zip file.
    license_
        Address or name of the license of the crate; default says that there is none.
    author
        Who ran it.

    Raises
    ------
    QueryError
        ``out`` exists, or the run has persisted nothing.
    RunError
        The run cannot be read, or the crate cannot be written.
    MissingExtra
        rocrate is not installed.
    """
    _library("rocrate")
    view = read_run(run)
    if out.exists() or out.is_symlink():
        raise QueryError(f"{out} exists already", hint="name another folder or zip file with -o")
    parts = list(_parts(view))
    draft = out.with_name(f".{out.name}-{uuid.uuid4().hex[:8]}")
    try:
        crate, missing = _described(view, parts, license_, author)
        if out.suffix.lower() == ".zip":
            packed = draft.with_suffix(".zip")
            crate.write_zip(packed)
            packed.replace(out)
        else:
            crate.write(draft)
            draft.rename(out)
    except OSError as error:
        raise RunError(f"the crate {out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            draft.with_suffix(".zip").unlink()
    sizes = [part.size for part in parts if part.name not in missing]
    return Crate(path=str(out), run=_run_iri(view), files=len(sizes), size=sum(sizes), missing=tuple(missing))


@dataclass(frozen=True)
class Part:
    """A file of the crate."""

    name: str
    """Its path in the crate."""
    path: Path
    size: int
    media_type: str
    what: str
    digest: str | None = None
    """Known before it is read: an artifact's."""
    iri: str | None = None


def _parts(view: RunView) -> Iterator[Part]:
    paths = view.paths
    knowledge = paths.root / "knowledge.nq"
    if not knowledge.is_file():
        raise QueryError(
            f"the run {view.name} has persisted nothing that could be exported",
            hint="it has not finished, or its job says knowledge: {persist: false}",
        )
    yield _part(paths, paths.job_yaml, "the job as it was given")
    yield _part(paths, paths.job_json, "the job as it was resolved, all defaults included")
    yield _part(paths, paths.manifest, "what ran, where, with which versions, and how it ended")
    yield _part(paths, knowledge, "what the run found and where it came from: entities and PROV-O, as RDF")
    for path in sorted(paths.results.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(paths.results).parts)
        if path.is_file() and not path.is_symlink() and not hidden:
            yield _part(paths, path, "result")
    for ref, iri in _artifacts(knowledge):
        place = paths.artifact(ref.digest)
        name = place.relative_to(paths.root).as_posix()
        yield Part(name, place, ref.size, ref.media_type, "file that a calculation wrote", ref.digest, iri)


def _part(paths: RunPaths, path: Path, what: str) -> Part:
    name = path.relative_to(paths.root).as_posix()
    return Part(name, path, path.stat().st_size, MEDIA.get(path.suffix.lower(), "application/octet-stream"), what)


def _artifacts(knowledge: Path) -> list[tuple[ArtifactRef, str]]:
    import pyoxigraph

    from grafico.knowledge.vocabulary import GRAFICO

    found: dict[str, dict[str, str]] = {}
    with knowledge.open("rb") as file:
        for quad in pyoxigraph.parse(input=file, format=pyoxigraph.RdfFormat.N_QUADS):
            name = quad.predicate.value.removeprefix(GRAFICO)
            if name in ("sha256", "size", "mediaType"):
                found.setdefault(quad.subject.value, {})[name] = quad.object.value
    whole = {iri: said for iri, said in found.items() if len(said) == 3}
    return [
        (ArtifactRef(digest=said["sha256"], size=int(said["size"]), media_type=said["mediaType"]), iri)
        for iri, said in sorted(whole.items())
    ]


def _described(view: RunView, parts: list[Part], license_: str, author: str | None) -> tuple[Any, list[str]]:
    crate = _library("rocrate.rocrate").ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = SHA256
    manifest = view.manifest
    crate.name = f"{manifest.name}: {manifest.graph}"
    crate.description = (
        f"The run {view.name} of grafico {manifest.grafico}, which carried out the execution graph {manifest.graph} "
        f"{manifest.graph_version} on {manifest.host}: {view.status}."
    )
    crate.datePublished = _date(manifest.finished or manifest.started or manifest.created)
    crate.root_dataset["license"] = _license(crate, license_)
    crate.root_dataset["conformsTo"] = [
        _thing(crate, iri, "CreativeWork", name=name, version=iri.rpartition("/")[2]) for iri, name in PROFILES.items()
    ]
    files: dict[str, Any] = {}
    missing: list[str] = []
    for part in parts:
        try:
            digest = _digest(part)
        except OSError:
            missing.append(part.name)
            continue
        said: dict[str, Any] = {
            "name": part.name if part.digest is None else f"{part.media_type}, {part.digest[:12]}",
            "description": part.what,
            "encodingFormat": part.media_type,
            "contentSize": str(part.size),
            "sha256": digest,
        }
        if part.iri is not None:
            said["identifier"] = part.iri
        if part.name == "job.yaml":
            files[part.name] = _workflow(crate, view, part, said)
        else:
            files[part.name] = crate.add_file(str(part.path), part.name, properties=said)
    _act(crate, view, files, author)
    _readme(crate, view)
    return crate, missing


def _workflow(crate: Any, view: RunView, part: Part, said: dict[str, Any]) -> Any:
    manifest = view.manifest
    language = _library("rocrate.model.computerlanguage").ComputerLanguage(
        crate,
        "#grafico",
        properties={"name": "grafico job", "version": manifest.grafico, "url": "https://w3id.org/grafico/"},
    )
    crate.add(language)
    said["name"] = f"{manifest.name}: {manifest.graph} {manifest.graph_version}"
    said["version"] = manifest.graph_version
    workflow = crate.add_workflow(str(part.path), part.name, main=True, lang=language, properties=said)
    workflow["softwareRequirements"] = list(_software(crate, view))
    return workflow


def _software(crate: Any, view: RunView) -> Iterator[Any]:
    from grafico.knowledge import Software

    versions = {"grafico": view.manifest.grafico, **view.versions}
    for name, several in versions.items():
        for version in several.split(", "):
            iri = Software(name=name, version=version).iri
            yield _thing(crate, iri, "SoftwareApplication", name=name, softwareVersion=version)


def _act(crate: Any, view: RunView, files: Mapping[str, Any], author: str | None) -> None:
    manifest = view.manifest
    inputs, parameters = _inputs(crate, view)
    workflow = files["job.yaml"]
    if parameters:
        workflow["input"] = parameters
    said: dict[str, Any] = {
        "name": f"Run {view.name}",
        "description": f"{view.status}; {view.counts.calculations_done} calculations done",
        "actionStatus": "http://schema.org/"
        + (
            "CompletedActionStatus"
            if view.status in DONE
            else "FailedActionStatus"
            if view.ended
            else "ActiveActionStatus"
        ),
    }
    moments = {"startTime": manifest.started, "endTime": manifest.finished}
    # The profile knows milliseconds, and nothing finer.
    said |= {name: _date(moment).isoformat(timespec="milliseconds") for name, moment in moments.items() if moment}
    if view.failure:
        said["error"] = str(view.failure.get("message") or view.failure)
    if author:
        said["agent"] = _thing(crate, "#author", "Person", name=author)
        crate.root_dataset["author"] = said["agent"]
    given = [files["job.json"], *inputs]
    results = [file for name, file in files.items() if name not in ("job.yaml", "job.json")]
    crate.add_action(
        workflow, identifier=_run_iri(view), object=given if inputs else given[0], result=results, properties=said
    )
    crate.root_dataset["mentions"] = crate.get(_run_iri(view))


def _readme(crate: Any, view: RunView) -> None:
    manifest = view.manifest
    text = f"""# {manifest.name}

{crate.description}

| file | what it is |
|---|---|
| `job.yaml`, `job.json` | the job as it was given, and as it was resolved with all defaults |
| `results/` | what the run was for |
| `knowledge.nq` | what it found and where that came from, as RDF |
| `artifacts/` | files that calculations wrote and `knowledge.nq` names, by SHA-256 |
| `ro-crate-metadata.json` | what all of this is, for programs (https://www.researchobject.org/ro-crate/) |

`grafico run job.yaml` runs the job again; `grafico kb import` of this folder or zip file brings what it found into a
knowledge base.
"""
    said = {"name": "README", "encodingFormat": "text/markdown", "contentSize": str(len(text.encode()))}
    said["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    readme = crate.add_file(io.StringIO(text), "README.md", properties=said)
    readme["about"] = crate.root_dataset


def _inputs(crate: Any, view: RunView) -> tuple[list[Any], list[Any]]:
    """Return what the job's input said, and the parameters that these are values of."""
    try:
        job = json.loads(view.paths.job_json.read_text(encoding="utf-8"))
        given: dict[str, Json] = job["job"]["input"]
        items = list(given.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [], []
    values, parameters = [], []
    for name, value in items:
        if value is None:
            continue
        parameter = _thing(
            crate,
            f"#input/{name}",
            "FormalParameter",
            name=name,
            additionalType=_kind(value),
            conformsTo={"@id": PARAMETER},
            valueRequired=False,
        )
        text = value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
        entity = _thing(crate, f"#input/{name}/value", "PropertyValue", name=name, value=text)
        entity["exampleOfWork"] = parameter
        parameter["workExample"] = entity
        values.append(entity)
        parameters.append(parameter)
    return values, parameters


def _kind(value: Json) -> str:
    for kind, name in ((bool, "Boolean"), (int, "Integer"), (float, "Float"), (str, "Text")):
        if isinstance(value, kind):
            return name
    return "PropertyValue"


def _license(crate: Any, license_: str) -> Any:
    if license_ == NO_LICENSE:
        return _thing(crate, license_, "CreativeWork", name="No license: all rights are reserved")
    if license_.startswith(("https://", "http://")):
        return _thing(crate, license_, "CreativeWork", name=license_)
    return license_


def _thing(crate: Any, iri: str, kind: str, **properties: Any) -> Any:
    known = crate.get(iri)
    entity = _library("rocrate.model.contextentity").ContextEntity
    return known or crate.add(entity(crate, iri, properties={"@type": kind, **properties}))


def _library(module: str) -> Any:
    return require(module, extra="crate", purpose="to write RO-Crates")


def _run_iri(view: RunView) -> str:
    from grafico.knowledge import run_iri

    return run_iri(view.manifest.run)


def _date(text: str) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(text)


def _digest(part: Part) -> str:
    with part.path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if part.digest is not None and found != part.digest:
        raise RunError(f"the artifact {part.path} is damaged: its content does not match its name")
    return found
