"""The members of a run's sweep on disk: one line for each lane, read one at a time when its lane starts."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from grafico.calculations import Json
from grafico.errors import RunError
from grafico.jobs.document import Document
from grafico.jobs.files import rename_files, resolve_files
from grafico.jobs.request import validate_request
from grafico.jobs.schema import Job
from grafico.jobs.sweeps.load import Sweep
from grafico.runs import Run, RunPaths
from grafico.runs.files import disk_errors

__all__ = ["Roster", "RosterLane", "has_roster", "lane_named", "write_roster"]


@dataclass(frozen=True)
class RosterLane:
    """One lane: its key, the members that share it, and what they ask for."""

    key: str
    members: Mapping[str, Mapping[str, Json]]
    """Cells of each member, by its key."""
    input: Mapping[str, Json]


def write_roster(sweep: Sweep, paths: RunPaths) -> tuple[dict[str, Json], dict[str, Path]]:
    """Write the members of a sweep into a run's folder.

    Returns
    -------
    What the frozen job keeps of it, and the original of each file that the members name, by its place in the run.
    """
    names: dict[Path, str] = {}
    digest = sha256()
    count = 0
    with disk_errors("the members of the sweep could not be written", paths.members):
        draft = paths.members.with_name(f".{paths.members.name}.new")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            for lane, request in sweep.requests():
                line = {
                    "key": lane.key,
                    "members": {member.key: sweep.cells(member) for member in lane.members},
                    "input": rename_files(request, "inputs", names).model_dump(mode="json"),
                }
                data = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
                file.write(data)
                digest.update(data)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        draft.replace(paths.members)
    about: dict[str, Json] = {
        "lanes": count,
        "members": sweep.count,
        "total": sweep.total,
        "columns": list(sweep.columns),
        "shard": str(sweep.shard) if sweep.shard else None,
        "digest": digest.hexdigest(),
    }
    return about, {name: path for path, name in names.items()}


def has_roster(run: Run) -> bool:
    """Whether a run is a sweep."""
    return "sweep" in run.job


def lane_named(run: Run, name: str) -> str:
    """Return the lane that a name means: of a sweep, a member that shares another's lane has that one."""
    if not has_roster(run):
        return name
    member, slash, below = name.partition("/")
    try:
        roster = Roster(run)
    except RunError:
        return name  # the journal knows its lanes all the same
    return name if member in roster.keys else f"{roster.aliases.get(member, member)}{slash}{below}"


class Roster:
    """The members of a run.

    Parameters
    ----------
    run
        A run that is a sweep.

    Raises
    ------
    RunError
        Its members are missing, or not what they were when the run was made.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        about = run.job["sweep"]
        if not isinstance(about, dict) or not {"columns", "shard", "members", "total", "digest"} <= set(about):
            raise RunError(f"{run.paths.job_json} is damaged: it says too little of the sweep", hint="restore it")
        self.columns: tuple[str, ...] = tuple(about["columns"])
        """Columns of the matrix in the table."""
        self.shard: str | None = about["shard"]
        self.count: int = about["members"]
        self.total: int = about["total"]
        self._path = run.paths.members
        self._offsets: dict[str, int] = {}
        digest = sha256()
        with disk_errors("the members of the sweep cannot be read", self._path), self._path.open("rb") as file:
            offset = 0
            for line in file:
                digest.update(line)
                self._offsets[self._key_of(line)] = offset
                offset += len(line)
        if digest.hexdigest() != about["digest"]:
            raise RunError(
                f"{self._path} is not what it was when the run was made", hint="restore it, or start a new run"
            )
        self.keys = tuple(self._offsets)
        """Keys of the lanes, in order."""

    def _key_of(self, line: bytes) -> str:
        try:
            return str(json.loads(line)["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self._path} is damaged: {error}", hint="restore it, or start a new run") from error

    def lane(self, key: str) -> RosterLane:
        """Read one lane."""
        with disk_errors("the members of the sweep cannot be read", self._path), self._path.open("rb") as file:
            file.seek(self._offsets[key])
            return RosterLane(**json.loads(file.readline()))

    def lanes(self) -> Iterator[RosterLane]:
        """Read all lanes, one after the other."""
        with disk_errors("the members of the sweep cannot be read", self._path), self._path.open("rb") as file:
            for line in file:
                yield RosterLane(**json.loads(line))

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Key of the lane of each member that shares another's."""
        return {name: lane.key for lane in self.lanes() for name in lane.members if name != lane.key}

    def request(self, key: str, job: Job, graph: Any) -> BaseModel:
        """Return the request of a lane; its files are those of the run.

        Raises
        ------
        JobError
            This version of the graph does not take it.
        """
        document = Document(where=f"{self._path}, {key}", data={"input": self.lane(key).input})
        return resolve_files(validate_request(job, graph, document), self.run.paths.root)
