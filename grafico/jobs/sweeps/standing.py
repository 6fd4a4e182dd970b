"""The table of a sweep as it stands: read from the run's folder, while it goes or after."""

import json
from collections.abc import Mapping
from pathlib import Path

from grafico.errors import BadInput
from grafico.jobs.sweeps.graph import row_file, sweep_table
from grafico.jobs.sweeps.roster import Roster, has_roster
from grafico.jobs.sweeps.table import LaneEnd, SweepTable
from grafico.runs import LaneView, Run, RunPaths, RunStatus, read_run

__all__ = ["standing_table"]

STATES = {"pending": "waiting", "running": "running", "cancelled": "left behind"}
BEGUN = "begun"
"""How a lane stands that runs no more, since nobody carries the run out."""


def standing_table(path: Path) -> SweepTable:
    """Return the table of a run's members, those that have not ended as well.

    Raises
    ------
    BadInput
        The run is no sweep.
    """
    run = Run.open(path)
    if not has_roster(run):
        raise BadInput(f"{run.name} is no sweep: its job has no matrix", hint=f"grafico show {run.name}")
    roster = Roster(run)
    view = read_run(path)
    lanes = {lane.path.partition(":")[2]: lane for lane in view.lanes.values() if "/" not in lane.path}
    states = STATES if view.status is RunStatus.RUNNING else {**STATES, "running": BEGUN}
    ends = {key: _end(run.paths, key, lanes.get(key), states) for key in roster.keys}
    return sweep_table(roster, ends)


def _end(paths: RunPaths, key: str, lane: LaneView | None, states: Mapping[str, str]) -> LaneEnd:
    if lane is None:
        return LaneEnd("waiting")
    if lane.state == "failure":
        return LaneEnd.failed(lane.failure or {})
    if lane.state != "success":
        return LaneEnd(states.get(lane.state, lane.state))
    try:
        row = json.loads(paths.result(row_file(key)).read_bytes())
    except FileNotFoundError:
        return LaneEnd("success")  # it has just ended, or a kill came in between: a resume writes it
    except (OSError, ValueError) as error:
        return LaneEnd("success", {"note": f"its row cannot be read: {error}"})
    return LaneEnd("success", row if isinstance(row, dict) else {})
