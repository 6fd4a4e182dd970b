"""Where everything of a run is: one class owns every path, and the rules by which runs are found."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

from grafico.errors import RunError, RunNotFound
from grafico.runs.files import disk_errors, make_folder

__all__ = ["RunPaths", "find_run", "find_runs", "safe_lane"]

SEGMENT = re.compile(r"(\d{6,})\.jsonl")
CREATED = re.compile(r"-(\d{8}-\d{6})-[0-9a-f]+$")
DIGEST = re.compile(r"[0-9a-f]{64}")
PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-")
MARKS = {":": "=", "/": "~"}
ROOT_LANE = "@root"
LONGEST_NAME = 180


def safe_lane(lane: str) -> str:
    """Return a lane's path as one folder name; different lanes get different names.

    ``3.0:gas/1.0:conf-002`` becomes ``3.0=gas~1.0=conf-002``, the root ``@root``. Every other character is
    written as ``%XX`` for each of its UTF-8 bytes; a name that would be too long ends in its digest.
    """
    if not lane:
        return ROOT_LANE
    parts = [c if c in PLAIN else MARKS.get(c) or "".join(f"%{b:02X}" for b in c.encode()) for c in lane]
    if parts[0] == ".":
        parts[0] = "%2E"  # neither hidden nor a way out of the folder
    name = "".join(parts)
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}#{sha256(lane.encode()).hexdigest()[:16]}"
    return name


class RunPaths:
    """The folder of one run.

    Parameters
    ----------
    root
        The run's folder; need not exist yet.
    """

    __slots__ = ("root",)

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()

    def __repr__(self) -> str:
        return f"RunPaths({str(self.root)!r})"

    def __reduce__(self) -> tuple[type["RunPaths"], tuple[str]]:
        return RunPaths, (str(self.root),)

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.root.name

    @property
    def job_yaml(self) -> Path:
        """The job as it was given, byte for byte."""
        return self.root / "job.yaml"

    @property
    def job_json(self) -> Path:
        """The job as it was resolved."""
        return self.root / "job.json"

    @property
    def members(self) -> Path:
        """The members of a sweep, one line for each lane; missing where the run is none."""
        return self.root / "members.jsonl"

    @property
    def manifest(self) -> Path:
        """What ran, where, with which versions, and how it ended."""
        return self.root / "manifest.json"

    @property
    def controller(self) -> Path:
        """The courtesy lock: who is running it."""
        return self.root / "controller.json"

    @property
    def dashboard(self) -> Path:
        """The link to the dashboard while a controller has one; it holds a secret."""
        return self.root / "dashboard.txt"

    @property
    def submission(self) -> Path:
        """As which Slurm job it was submitted; missing where it was started by hand."""
        return self.root / "slurm.json"

    @property
    def batch_script(self) -> Path:
        """The script that was submitted."""
        return self.root / "submit.sh"

    @property
    def batch_log(self) -> Path:
        """What that script and its controller printed."""
        return self.root / "slurm.out"

    @property
    def journal(self) -> Path:
        """Folder of the journal's segments."""
        return self.root / "journal"

    @property
    def artifacts(self) -> Path:
        """Folder of files by digest."""
        return self.root / "artifacts"

    @property
    def outcomes(self) -> Path:
        """Folder of committed outcomes by content key."""
        return self.root / "outcomes"

    @property
    def lanes(self) -> Path:
        """Folder of the lanes' logs."""
        return self.root / "lanes"

    @property
    def starts(self) -> Path:
        """Folder of the workers' own records of starts and ends."""
        return self.root / "starts"

    @property
    def results(self) -> Path:
        """Folder of what the user came for."""
        return self.root / "results"

    @property
    def ledger(self) -> Path:
        """What asking models took: one JSON line a call."""
        return self.root / "ledger.jsonl"

    @property
    def audit(self) -> Path:
        """What models proposed, and what gates made of it: one JSON line a proposal."""
        return self.root / "audit.jsonl"

    def create(self) -> None:
        """Create the folders, for the owner alone."""
        with disk_errors("the run folder could not be created", self.root):
            for folder in (self.journal, self.artifacts, self.outcomes, self.lanes, self.starts, self.results):
                make_folder(folder)

    def writable(self) -> Iterator[Path]:
        """Yield every folder in which files are published: where a kill may have left drafts."""
        yield self.root
        yield self.results
        for folder in (self.artifacts, self.outcomes):
            with suppress(OSError):
                yield from (path for path in folder.iterdir() if path.is_dir())
        with suppress(OSError):
            yield from (path for path in self.results.rglob("*") if path.is_dir() and not path.is_symlink())

    def segment(self, epoch: int) -> Path:
        """Return the journal segment of a controller's epoch (from 1)."""
        return self.journal / f"{epoch:06d}.jsonl"

    def segments(self) -> list[int]:
        """Return the epochs whose segments exist, in order."""
        if not self.journal.is_dir():
            return []
        with disk_errors("the journal cannot be read", self.journal):
            return sorted(int(m[1]) for path in self.journal.iterdir() if (m := SEGMENT.fullmatch(path.name)))

    def lost(self) -> str:
        """Return what is to be said of a run folder that has lost its journal; empty where it has not."""
        if self.journal.is_dir():
            return ""
        return f"{self.root} is damaged or was not copied whole: its folder {self.journal.name}/ is missing"

    def outcome(self, key: str) -> Path:
        """Return where the outcome of a content key is committed."""
        return self.outcomes / hexadecimal(key)[:2] / f"{key}.json"

    def artifact(self, digest: str) -> Path:
        """Return where the file with this digest is kept."""
        return self.artifacts / hexadecimal(digest)[:2] / digest

    def lane_folder(self, lane: str) -> Path:
        """Return the folder of a lane; different lanes have different ones."""
        return self.lanes / safe_lane(lane)

    def lane_log(self, lane: str) -> Path:
        """Return the log of what a lane's calculations printed."""
        return self.lane_folder(lane) / "log.txt"

    def starts_of(self, host: str, pid: int) -> Path:
        """Return the file in which one process records its starts and ends."""
        return self.starts / f"{host}-{pid}.jsonl"

    def result(self, name: str) -> Path:
        """Return where a result is published.

        Raises
        ------
        RunError
            The name is not a plain relative path below ``results/``.
        """
        return self.results / result_name(name)


def hexadecimal(text: str) -> str:
    """Return a digest or key as it is, refusing anything else: it becomes a path."""
    if not DIGEST.fullmatch(text):
        raise RunError(f"expected a digest of 64 hexadecimal digits, got {text[:80]!r}")
    return text


def result_name(name: str) -> PurePosixPath:
    """Return a result's name as a relative path, refusing what would leave ``results/`` or hide there."""
    parts = name.split("/")
    unfit = (
        not name
        or len(name.encode(errors="replace")) > 1000
        or any(p in {"", ".", ".."} or p.startswith(".") or len(p.encode(errors="replace")) > 200 for p in parts)
        or any(ord(c) < 32 or ord(c) == 127 or c == "\\" or 0xD800 <= ord(c) <= 0xDFFF for c in name)
    )
    if unfit:
        raise RunError(
            f"cannot publish {name[:120]!r}: a result's name is a relative path of plain file names",
            hint="for example 'spectrum.csv' or 'plots/gas.png'",
        )
    return PurePosixPath(*parts)


def find_runs(base: Path | str = "runs") -> list[Path]:
    """Return the run folders directly under ``base``, oldest first; none if there is no such folder."""

    def age(path: Path) -> tuple[str, str]:
        found = CREATED.search(path.name)
        return (found[1] if found else _created(path), path.name)

    return sorted(_runs(Path(base)), key=age)


def _created(path: Path) -> str:
    """Return when a run was created whose folder has a name of its own, as the others' names tell it."""
    try:
        created = json.loads((path / "manifest.json").read_bytes())["created"]
        return str(created)[:19].replace("-", "").replace(":", "").replace("T", "-")
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _runs(base: Path) -> Iterator[Path]:
    try:
        entries = list(base.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in entries:
        if not path.name.startswith(".") and (path / "manifest.json").is_file():
            yield path


def find_run(name: str, base: Path | str = "runs") -> Path:
    """Return the folder of one run.

    Parameters
    ----------
    name
        A path; or a run's name under ``base``, the start of one, or its short id, if only one run matches.

    Raises
    ------
    RunNotFound
        No run matches, or several do; names those there are.
    """
    given = Path(name)
    if (given / "manifest.json").is_file():
        return given
    runs = sorted(_runs(Path(base)))
    found = [path for path in runs if path.name == name]
    # A job of that very name comes before those whose names only begin like it.
    found = found or [path for path in runs if CREATED.sub("", path.name) == name or path.name.endswith(f"-{name}")]
    found = found or [path for path in runs if name and path.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunNotFound(f"{name!r} matches {len(found)} runs: {_some(found)}", hint="give more of the name")
    if given.is_dir():
        raise RunNotFound(f"{name} is a folder, but not of a run: it has no manifest.json")
    known = f"; there are {_some(runs)}" if runs else f"; there are no runs in {base}/"
    raise RunNotFound(f"no run {name!r}{known}", hint="`grafico list` shows them; a path works too")


def _some(paths: list[Path]) -> str:
    names = [path.name for path in paths[:8]]
    return ", ".join(names) + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")
