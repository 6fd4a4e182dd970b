"""The graph of a sweep: its root opens a lane of the job's graph for each member, then makes the table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

from pydantic import BaseModel, Field, PrivateAttr

from grafico.calculations import Failure, Json, Model, Outcome
from grafico.errors import MissingExtra
from grafico.graphs import Context, End, Graph, GraphState, Members, Node
from grafico.jobs.catalog import blame, said
from grafico.jobs.schema import Job
from grafico.jobs.sweeps.plot import draw
from grafico.jobs.sweeps.roster import Roster
from grafico.jobs.sweeps.rows import row_of
from grafico.jobs.sweeps.table import LaneEnd, SweepTable
from grafico.jobs.tables import Table, json_bytes

__all__ = ["MEMBERS", "SweepResult", "SweepState", "row_file", "sweep_graph", "sweep_table"]

VERSION = 1
MEMBERS = "members"
"""Folder of the members' results, under ``results/``."""


def row_file(lane: str) -> str:
    """Return where a lane's row is published."""
    return f"{MEMBERS}/{lane}/row.json"


class SweepResult(Model):
    """What a sweep ends with; the table itself is a file."""

    members: int = Field(description="members of this run")
    lanes: int = Field(description="lanes that they came to: members that ask for the same share one")
    failed: int = Field(description="members that failed")
    shard: str | None = Field(default=None, description="the part of the sweep: I/N")
    columns: tuple[str, ...] = Field(description="of the table, with units")
    files: tuple[str, ...] = Field(description="what was written of the table")
    notes: tuple[str, ...] = ()

    _shown: Table | None = PrivateAttr(default=None)

    def tables(self) -> Sequence[Table]:
        """Return the table for people."""
        return () if self._shown is None else (self._shown,)


@dataclass(kw_only=True)
class SweepState(GraphState):
    """A sweep on its way."""

    job: Job
    graph: Any
    roster: Roster
    ends: dict[str, LaneEnd] = field(default_factory=dict)
    """How each lane ended."""


Ctx = Context[SweepState]


class RunMembers(Node[SweepState, SweepResult]):
    """Carry out every member in a lane of its own; one that fails fails no other."""

    async def run(self, ctx: Ctx) -> "MakeTable":
        """Open the lanes, and keep a row of each outcome."""
        state = ctx.state
        job, graph, roster = state.job, state.graph, state.roster

        def begin(key: str) -> Any:
            request = roster.request(key, job, graph)
            with blame(job.graph, "the beginning"):
                return graph.begin(request)

        async def keep(key: str, outcome: Outcome[Any]) -> LaneEnd:
            if isinstance(outcome, Failure):
                return LaneEnd.failed(outcome)
            row = row_of(outcome.output)
            try:
                result = _result(outcome.output)
            except Exception as error:  # noqa: BLE001 - one result that no file can hold fails no other
                row = {**row, "note": f"the result cannot be written: {said(error)}"}
            else:
                await ctx.publish(f"{MEMBERS}/{key}/result.json", result)
            await ctx.publish(row_file(key), json.dumps(row).encode())
            return LaneEnd("success", row)

        ends: dict[str, Any] = await ctx.fan_out(
            graph, Members(roster.keys, begin), label="members", folder=MEMBERS, fold=keep
        )
        state.ends = ends
        failed = sum(end.status == "failure" for end in state.ends.values())
        ctx.summarize(f"{len(state.ends)} lanes, {failed} failed", lanes=len(state.ends), failed=failed)
        return await ctx.route()


class MakeTable(Node[SweepState, SweepResult]):
    """Write the table of results: one row for each member, failures included."""

    node_id: ClassVar[str] = "Table"

    async def run(self, ctx: Ctx) -> End[SweepResult]:
        """Write it, and draw it where it makes a picture."""
        state = ctx.state
        choice = state.job.table
        table = await ctx.thread(sweep_table, state.roster, state.ends)
        files, notes = {"table.csv": await ctx.thread(table.as_csv)}, list[str]()
        if choice.parquet:
            try:
                files["table.parquet"] = await ctx.thread(table.as_parquet)
            except MissingExtra as error:
                notes.append(f"no table.parquet: {error.message}; {error.hint}")
            except Exception as error:  # noqa: BLE001 - whatever it stumbles over, the table is there
                notes.append(f"no table.parquet: {said(error)}")
        try:
            picture = await ctx.thread(draw, table, choice.plot, state.job.name)
        except Exception as error:  # noqa: BLE001 - whatever it stumbles over, the table is there
            picture = f"no picture: {said(error)}"
        if isinstance(picture, bytes):
            files["table.png"] = picture
        elif picture:
            notes.append(picture)
        if state.graph.pictures is not None and choice.plot != "off":
            try:
                files |= await ctx.thread(state.graph.pictures, table.rows, state.job.name)
            except Exception as error:  # noqa: BLE001 - whatever it stumbles over, the table is there
                notes.append(f"no pictures of the graph: {said(error)}")
        for name, content in files.items():
            await ctx.publish(name, content)
        result = SweepResult(
            members=len(table.rows),
            lanes=len(state.ends),
            failed=sum(row["status"] == "failure" for row in table.rows),
            shard=state.roster.shard,
            columns=table.columns,
            files=tuple(files),
            notes=tuple(notes),
        )
        part = f", shard {result.shard}" if result.shard else ""
        result._shown = table.shown(f"{state.job.name}{part}")  # noqa: SLF001 - it is a part of it that is not kept
        return End(result)


def sweep_table(roster: Roster, ends: dict[str, LaneEnd]) -> SweepTable:
    """Return the table of a sweep, in the order of its members' lanes.

    Parameters
    ----------
    ends
        How each lane ended, or stands.
    """
    table = SweepTable(roster.columns, shard=roster.shard)
    for lane in roster.lanes():
        for name, cells in lane.members.items():
            table.add(name, cells, ends[lane.key], lane="" if name == lane.key else lane.key)
    return table


def _result(output: Any) -> bytes:
    value: Json
    if isinstance(output, BaseModel):
        value = output.model_dump(mode="json")
    else:
        from pydantic import TypeAdapter

        value = TypeAdapter(type(output)).dump_python(output, mode="json")
    return json_bytes(_finite(value))


def _finite(value: Json) -> Json:
    """Return a value with null for each number that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def sweep_graph(graph: Any, job: Job) -> Graph:
    """Return the graph of a sweep over a job's graph."""
    return Graph(
        id=f"sweep.{graph.id}",
        version=f"{VERSION}+{graph.version}",
        state_type=SweepState,
        nodes=(RunMembers, MakeTable),
        start=RunMembers,
        begin=lambda roster: SweepState(
            job=job, graph=graph, roster=roster, intent=f"{roster.count} members of {job.name}"
        ),
        description=f"A sweep: a lane of {graph.id} for each member, and one table.",
    )
