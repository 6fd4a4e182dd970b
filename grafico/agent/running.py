"""Running and planning jobs as tools: each graph is one, with its own request as the typed input."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from grafico.agent.brief import shorten
from grafico.agent.tool import Desk, Tool
from grafico.calculations import Json, Model
from grafico.errors import BadInput
from grafico.jobs.catalog import graph_ids, load_graph
from grafico.jobs.files import files_of
from grafico.jobs.problems import dotted
from grafico.jobs.watching import Tally

__all__ = ["JobFile", "graph_tools", "job_text", "plan_tool", "prepared", "run_job", "tool_name"]

LOOK_S = 1.0
SAID = ("run", "path", "status", "exit_code", "counts", "failed_lanes", "failure", "result", "tables", "files", "notes")
"""What is said of a run that has ended."""


class JobFile(Model):
    """A job, as it would stand in a job file."""

    job: Mapping[str, Json] = Field(description="name, graph, input and, perhaps, cluster, seed and knowledge")


def tool_name(graph: str) -> str:
    """Return the name of the tool that runs a graph."""
    return "run_" + "".join(c if c.isalnum() else "_" for c in graph)


def graph_tools() -> list[Tool]:
    """Return a tool for each graph that can be imported here."""
    tools = []
    for graph_id in graph_ids():
        try:
            graph = load_graph(graph_id)
        except BadInput:
            continue  # an extra is not installed: `grafico doctor` says so
        if graph.request_type is not None:
            tools.append(_graph_tool(graph))
    return tools


def _graph_tool(graph: Any) -> Tool:
    fields: dict[str, Any] = {
        "input": (graph.request_type, Field(description="what to compute")),
        "name": (str, Field(default="asked", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$", description="of the run")),
        "cluster": (str, Field(default="laptop", min_length=1, description="cluster profile: where to run")),
    }
    model: type[Model] = create_model(f"Run{graph.request_type.__name__}", __base__=Model, **fields)

    async def run(value: Any, desk: Desk) -> Json:
        job = {
            "name": value.name,
            "graph": graph.id,
            "cluster": value.cluster,
            "input": value.input.model_dump(mode="json", exclude_unset=True),
        }
        return await run_job(job, desk)

    words = f"Run the graph {graph.id}: {graph.description} Returns the run, its status and a short result."
    return Tool(tool_name(graph.id), words, model, run, reads_only=False)


def plan_tool() -> Tool:
    """Return the tool that checks and plans a job without running it."""

    async def plan(value: JobFile, desk: Desk) -> Json:
        from grafico.jobs.plan import make_plan

        with prepared(value.job, desk) as ready:
            made = await asyncio.to_thread(make_plan, ready)
        found: dict[str, Json] = made.model_dump(mode="json", exclude={"mermaid", "outline", "job"})
        return shorten(found)

    words = "Check a job and show what it would compute, where and for how long at most; runs nothing."
    return Tool("plan_job", words, JobFile, plan)


def job_text(job: Mapping[str, Json]) -> str:
    """Return a job as the text of a job file."""
    import yaml

    text: str = yaml.safe_dump(dict(job), sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


@contextlib.contextmanager
def prepared(job: Mapping[str, Json], desk: Desk) -> Iterator[Any]:
    """Write a job file, and read and check it like any other.

    Raises
    ------
    BadInput
        The job cannot be used, or names files outside the folder in which the agent may read.
    """
    from grafico.jobs.launch import prepare

    graph = str(job.get("graph", ""))
    if ":" in graph:
        raise BadInput(
            f"graph {graph!r}: agents run the graphs that are installed, not code beside a job",
            hint=", ".join(graph_ids()),
        )
    with tempfile.TemporaryDirectory(prefix="grafico-ask-") as folder:
        path = Path(folder) / "job.yaml"
        # JSON is YAML, and holds every string as it is.
        path.write_text(json.dumps(_beside(job, desk.home)), encoding="utf-8")
        ready = prepare(path)
        for where, file in files_of(ready.loaded.request):
            if not file.resolve().is_relative_to(desk.home.resolve()):
                raise BadInput(
                    f"{dotted(where)}: {file} is outside {desk.home}", hint="copy it into the working folder"
                )
        yield ready


def _beside(value: Any, home: Path) -> Any:
    """Take relative paths from the working folder, not from where the job file lies for a moment."""
    if isinstance(value, Mapping):
        return {
            name: str(home / inner) if name == "file" and isinstance(inner, str) else _beside(inner, home)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_beside(item, home) for item in value]
    return value


class _Reporter:
    """Tells a desk how a run goes."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.tally = Tally()

    def opened(self, cluster: Any) -> None:
        """Take the cluster."""

    def event(self, event: Any) -> None:
        """Count an event."""
        self.tally.take(event)

    def say(self, text: str) -> None:
        """Pass on a line."""
        self._tell(text)

    async def look(self) -> None:
        """Report now and then."""
        while True:
            self._tell(self.tally.node)
            await asyncio.sleep(LOOK_S)

    def _tell(self, text: str) -> None:
        calculations, lanes = self.tally.calculations, self.tally.open_lanes
        done = calculations["done"] + calculations["reused"] + calculations["failed"]
        total = max(done, calculations["started"] + lanes["waiting"])
        self.desk.progress(float(done), float(total) if total else None, text)


async def run_job(job: Mapping[str, Json], desk: Desk) -> Json:
    """Run a job to its end; cancelling stops the run in order, and it can be resumed.

    Returns
    -------
    The run, its path, status, counts, failures and a short result.
    """
    from grafico.cluster.here import check_here
    from grafico.jobs.cancel import cancel
    from grafico.jobs.launch import create_run, start
    from grafico.jobs.plan import admit
    from grafico.jobs.report import full
    from grafico.runs import read_run

    with prepared(job, desk) as ready:
        check_here(ready.profile)
        admit(ready)
        run = create_run(ready, desk.runs)
    desk.progress(0.0, None, f"run {run.name}")
    reporter = _Reporter(desk)
    work = asyncio.create_task(asyncio.to_thread(start, ready, run, reporter))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.to_thread(cancel, run.paths.root, 30.0)
        raise
    view = await asyncio.to_thread(read_run, run.paths.root)
    said = shorten(full(view))
    return {name: said[name] for name in SAID}
