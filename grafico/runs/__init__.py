"""One run on disk: layout, journal, commits, replay, resume, and how it looks from outside."""

from grafico.runs.commit import ArtifactStore, OutcomeStore, changed_versions
from grafico.runs.invalidate import ResumePlan, Retry, plan_resume
from grafico.runs.lock import Holder, read_holder
from grafico.runs.paths import RunPaths, find_run, find_runs
from grafico.runs.recorder import RunRecorder
from grafico.runs.run import Manifest, Run, RunStatus
from grafico.runs.starts import Started, StartLog, end_orphans, orphans, read_starts, start_ids
from grafico.runs.story import StoryEvent
from grafico.runs.view import Counts, LaneView, RunView, RunWatcher, read_run

__all__ = [
    "ArtifactStore",
    "Counts",
    "Holder",
    "LaneView",
    "Manifest",
    "OutcomeStore",
    "ResumePlan",
    "Retry",
    "Run",
    "RunPaths",
    "RunRecorder",
    "RunStatus",
    "RunView",
    "RunWatcher",
    "StartLog",
    "Started",
    "StoryEvent",
    "changed_versions",
    "end_orphans",
    "find_run",
    "find_runs",
    "orphans",
    "plan_resume",
    "read_holder",
    "read_run",
    "read_starts",
    "start_ids",
]
