"""One run on disk: layout, journal, commits, replay, manifest."""

from grafico.runs.commit import ArtifactStore, OutcomeStore, changed_versions
from grafico.runs.paths import RunPaths, find_run, find_runs
from grafico.runs.run import Manifest, Run, RunStatus
from grafico.runs.starts import Started, StartLog, end_orphans, orphans, read_starts

__all__ = [
    "ArtifactStore",
    "Manifest",
    "OutcomeStore",
    "Run",
    "RunPaths",
    "RunStatus",
    "StartLog",
    "Started",
    "changed_versions",
    "end_orphans",
    "find_run",
    "find_runs",
    "orphans",
    "read_starts",
]
