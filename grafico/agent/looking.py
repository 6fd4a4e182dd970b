"""Looking at runs, at the knowledge base and at units as tools; nothing here changes anything."""

import asyncio
from typing import Any

from pydantic import Field

from grafico.agent.brief import shorten
from grafico.agent.running import SAID
from grafico.agent.tool import Desk, Tool
from grafico.calculations import Json, Model
from grafico.errors import BadInput

__all__ = ["looking_tools"]

MOST_ROWS = 200


class ListRuns(Model):
    """Which runs there are."""

    limit: int = Field(default=20, ge=1, le=500, description="newest at most")


class WhichRun(Model):
    """One run."""

    run: str = Field(default="last", min_length=1, max_length=200, description="its name, the start of it, or `last`")


class WhichLane(WhichRun):
    """One lane of a run."""

    lane: str | None = Field(default=None, max_length=400, description="path or member of the lane; default: the root")


class AskKnowledge(Model):
    """A read-only SPARQL query."""

    query: str = Field(
        min_length=1,
        max_length=20_000,
        description="SELECT or ASK; the prefixes chem, grafico, prov, rdfs, qudt, unit need no declaration",
    )
    limit: int = Field(default=100, ge=1, le=MOST_ROWS, description="rows at most")


class Convert(Model):
    """A conversion."""

    value: float = Field(allow_inf_nan=False, description="number to convert")
    unit: str = Field(min_length=1, max_length=40, description="its unit, such as hartree, eV, kcal/mol, cm-1, nm")
    to: str = Field(min_length=1, max_length=40, description="the unit wanted")


class Nothing(Model):
    """No arguments."""


async def _list(value: ListRuns, desk: Desk) -> Json:
    from grafico.jobs.report import brief
    from grafico.runs import Run
    from grafico.runs.paths import find_runs

    def read() -> Json:
        found = [Run.open(path) for path in find_runs(desk.runs)[-value.limit :]]
        return {"runs": [brief(run.paths, run.manifest) for run in reversed(found)]}

    return await asyncio.to_thread(read)


async def _show(value: WhichRun, desk: Desk) -> Json:
    from grafico.jobs.find import find
    from grafico.jobs.report import full
    from grafico.runs import read_run

    def read() -> Json:
        said = full(read_run(find(value.run, desk.runs)))
        return shorten({name: said[name] for name in SAID})

    return await asyncio.to_thread(read)


async def _explain(value: WhichLane, desk: Desk) -> Json:
    from grafico.jobs.find import find
    from grafico.runs import read_run

    def read() -> Json:
        view = read_run(find(value.run, desk.runs))
        told = [{"when": event.when, "what": event.text} for event in view.story(value.lane or "")]
        return {
            "run": view.name,
            "lane": value.lane or "",
            "story": told[-MOST_ROWS:],
            "left_out": max(0, len(told) - MOST_ROWS),
        }

    return await asyncio.to_thread(read)


async def _query(value: AskKnowledge, desk: Desk) -> Json:
    from grafico.knowledge import open_store

    def ask() -> Json:
        return shorten(open_store(desk.store).query(value.query, limit=value.limit).sparql_json())

    return await asyncio.to_thread(ask)


async def _convert(value: Convert, _: Desk) -> Json:
    from grafico.units import convert

    try:
        return {"value": convert(value.value, value.unit, value.to), "unit": value.to}
    except ValueError as error:
        raise BadInput(str(error)) from None


async def _graphs(_: Nothing, __: Desk) -> Json:
    from grafico.jobs.catalog import graph_ids, load_graph

    found: dict[str, Any] = {}
    for name in graph_ids():
        try:
            found[name] = load_graph(name).description
        except BadInput as error:
            found[name] = f"not usable here: {error.message}"
    return {"graphs": found}


def looking_tools() -> list[Tool]:
    """Return the tools that only look."""
    return [
        Tool("list_graphs", "The graphs that jobs can name, with what they do.", Nothing, _graphs),
        Tool("list_runs", "The newest runs with their states.", ListRuns, _list),
        Tool("show_run", "How a run stands: state, failures, tables, result, files.", WhichRun, _show),
        Tool("explain_lane", "The story of a lane: attempts, nodes, routes and reasons.", WhichLane, _explain),
        Tool("query_knowledge", "Ask the knowledge base of all runs with read-only SPARQL.", AskKnowledge, _query),
        Tool("convert_units", "Convert an energy, a wavelength, a length or a dipole moment.", Convert, _convert),
    ]
