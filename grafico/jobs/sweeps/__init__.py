"""Sweeps: many members from one job file, in one run, with one table of results."""

from grafico.jobs.sweeps.graph import SweepResult, row_file, sweep_graph, sweep_table
from grafico.jobs.sweeps.load import Sweep, SweepLane, load_sweep
from grafico.jobs.sweeps.members import MAX_MEMBERS, Member, Shard
from grafico.jobs.sweeps.roster import Roster, RosterLane, has_roster, lane_named, write_roster

__all__ = [
    "MAX_MEMBERS",
    "Member",
    "Roster",
    "RosterLane",
    "Shard",
    "Sweep",
    "SweepLane",
    "SweepResult",
    "has_roster",
    "lane_named",
    "load_sweep",
    "row_file",
    "sweep_graph",
    "sweep_table",
    "write_roster",
]
