"""One run: its frozen job and its manifest."""

import json
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from grafico import __version__
from grafico.calculations import Json, Model
from grafico.errors import RunError, RunNotFound
from grafico.runs.files import disk_errors, make_folder, sync_folder, write_atomic, write_new
from grafico.runs.paths import RunPaths
from grafico.runs.processes import host_name

__all__ = ["Manifest", "Run", "RunStatus", "utc_now"]

FORMAT = 1


class RunStatus(StrEnum):
    """How a run stands."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    FINISHED_WITH_FAILED_LANES = "finished_with_failed_lanes"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Manifest(Model):
    """The summary of a run: what ran, where, with what, and how it ended."""

    format: int = Field(default=FORMAT, description="version of the run folder's layout")
    run: str = Field(description="name of the run")
    name: str = Field(description="name of the job")
    graph: str = Field(description="id of the graph")
    graph_version: str
    grafico: str = Field(default=__version__, description="version of grafico that created or last resumed it")
    python: str = Field(default_factory=platform.python_version)
    platform: str = Field(default_factory=platform.platform)
    host: str = Field(default_factory=host_name, description="host of the controller")
    status: RunStatus = RunStatus.CREATED
    created: str = Field(description="UTC, ISO 8601")
    started: str | None = Field(default=None, description="first start, UTC")
    finished: str | None = Field(default=None, description="last end, UTC")
    resumed: int = Field(default=0, ge=0, description="times that a later controller went on with it")
    counts: Mapping[str, int] = Field(default_factory=dict, description="lanes and calculations by state")
    versions: Mapping[str, str] = Field(default_factory=dict, description="engines and libraries that were used")
    models: Mapping[str, Json] | None = Field(
        default=None, description="what asking language models took: calls, tokens, US dollars; null if none was asked"
    )
    notes: tuple[str, ...] = Field(default=(), description="what a reader of the results should know")


class Run:
    """A run on disk. Make one with :meth:`create`, find one again with :meth:`open`."""

    def __init__(self, paths: RunPaths, manifest: Manifest, job: Mapping[str, Json]) -> None:
        self.paths = paths
        self.manifest = manifest
        self.job = job
        """The resolved job."""

    def __repr__(self) -> str:
        return f"Run({str(self.paths.root)!r})"

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.paths.name

    @property
    def job_source(self) -> bytes:
        """The job as it was given, byte for byte."""
        with disk_errors("the frozen job cannot be read", self.paths.job_yaml):
            return self.paths.job_yaml.read_bytes()

    @classmethod
    def create(
        cls,
        base: Path | str,
        name: str,
        *,
        job_source: bytes,
        job: Mapping[str, Json],
        graph: str,
        graph_version: str,
        folder: Path | str | None = None,
        fill: Callable[[RunPaths], None] | None = None,
    ) -> "Run":
        """Create a run folder ``<name>-<time>-<short id>`` under ``base``, whole or not at all.

        Parameters
        ----------
        base
            Folder of runs; created if missing.
        name
            Name of the job; characters that do not belong into a folder's name become ``-``.
        job_source
            The job as it was given.
        job
            The job as it was resolved: JSON.
        graph, graph_version
            What it runs.
        folder
            Exactly this folder instead; it must not exist, or be empty.
        fill
            Puts further files into the folder before the run can be found; may add to ``job``.

        Raises
        ------
        RunError
            The folder cannot be written, or ``folder`` is taken.
        """
        now = datetime.now(UTC)
        base = Path(base).absolute() if folder is None else Path(folder).absolute().parent
        with disk_errors("the run folder could not be created", base):
            make_folder(base)
            root, draft = _reserve(base, f"{_plain(name)}-{now:%Y%m%d-%H%M%S}") if folder is None else _draft(folder)
            manifest = Manifest(run=root.name, name=name, graph=graph, graph_version=graph_version, created=iso(now))
            try:
                draft.create()
                if fill is not None:
                    fill(draft)
                write_new(draft.job_yaml, job_source)
                write_new(draft.job_json, _pretty(job))
                write_new(draft.manifest, _pretty(manifest.model_dump(mode="json")))
                sync_folder(draft.root)
                draft.root.rename(root)
            except BaseException as error:
                shutil.rmtree(draft.root, ignore_errors=True)
                if folder is not None and _taken(root):
                    raise _refuse(root) from error
                raise
            sync_folder(base)
        return cls(RunPaths(root), manifest, job)

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """Open a run folder.

        Raises
        ------
        RunNotFound
            There is no run there.
        RunError
            Its manifest or its frozen job cannot be read.
        """
        paths = RunPaths(path)
        if not paths.manifest.is_file():
            what = "it has no manifest.json" if paths.root.is_dir() else "there is no such folder"
            raise RunNotFound(f"{path} is no run: {what}", hint="`grafico list` shows the runs there are")
        job = _read_json(paths.job_json)
        if not isinstance(job, dict):
            raise RunError(f"{paths.job_json} is damaged: expected a JSON object")
        return cls(paths, read_manifest(paths), job)

    def update(self, **changes: Any) -> Manifest:
        """Change fields of the manifest and rewrite it in one step."""
        data = self.manifest.model_dump() | changes
        manifest = Manifest.model_validate(data)
        with disk_errors("the manifest could not be written", self.paths.manifest):
            write_atomic(self.paths.manifest, _pretty(manifest.model_dump(mode="json")))
        self.manifest = manifest
        return manifest


def _reserve(base: Path, stem: str) -> tuple[Path, RunPaths]:
    """Return the folder of a new run, and the draft to fill first; nobody else gets its name."""
    while True:
        folder = f"{stem}-{secrets.token_hex(3)}"
        draft = RunPaths(base / f".{folder}.new")
        try:
            draft.root.mkdir(mode=0o700)  # whoever makes it has the name
        except FileExistsError:
            continue
        if not (base / folder).exists():
            return base / folder, draft
        draft.root.rmdir()


def _draft(folder: Path | str) -> tuple[Path, RunPaths]:
    """Return the folder of a new run that has its name already; of two who fill drafts, one may rename its own."""
    root = Path(folder).absolute()
    if _taken(root):
        raise _refuse(root)
    draft = RunPaths(root.parent / f".{root.name}.{secrets.token_hex(3)}.new")
    draft.root.mkdir(mode=0o700)
    return root, draft


def _taken(root: Path) -> bool:
    return root.exists() and not (root.is_dir() and not any(root.iterdir()))


def _refuse(root: Path) -> RunError:
    if (root / "manifest.json").is_file():
        return RunError(f"{root} is a run already", hint=f"go on with it: `grafico resume {root}`")
    return RunError(f"{root} is there already, and it is no run", hint="choose another folder")


def read_manifest(paths: RunPaths) -> Manifest:
    """Return the manifest of a run folder.

    Raises
    ------
    RunError
        It cannot be read, or it was written by a version of grafico that this one does not know.
    """
    data = _read_json(paths.manifest)
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise RunError(
            f"{paths.root} has layout {data['format']}; this grafico ({__version__}) knows up to {FORMAT}",
            hint=f"use grafico {data.get('grafico', 'of a later version')}",
        )
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise RunError(f"{paths.manifest} is damaged: {where}: {first['msg']}") from error


def utc_now() -> str:
    """Return the current UTC time, ISO 8601 with milliseconds."""
    return iso(datetime.now(UTC))


def iso(moment: datetime) -> str:
    """Return a UTC time as text."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).strip("-.")[:80]
    return plain or "run"


def _pretty(value: Any) -> bytes:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a folder whose name is no text has escapes in it
        text = json.dumps(value, indent=2, allow_nan=False).encode()
    return text + b"\n"


def _read_json(path: Path) -> Any:
    with disk_errors("the run folder cannot be read", path):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error
