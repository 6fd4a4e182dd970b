"""`grafico graph list` and `show`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from grafico.cli.output import Group, JsonFlag, RunsFolder, out, print_json
from grafico.cli.tables import print_lines, show_table

app = typer.Typer(cls=Group, no_args_is_help=True)


@app.command("list")
def list_graphs(as_json: JsonFlag = False) -> None:
    """List the graphs that a job can name."""
    from grafico.errors import GraficoError
    from grafico.jobs.catalog import graph_ids, load_graph

    rows: list[dict[str, Any]] = []
    for name, reference in graph_ids().items():
        row: dict[str, Any] = {"id": name, "import": reference, "version": None, "description": "", "problem": None}
        try:
            graph = load_graph(name)
            row.update(version=graph.version, description=graph.description)
        except GraficoError as error:
            row["problem"] = f"{error.message}; {error.hint}" if error.hint else error.message
        rows.append(row)
    if as_json:
        print_json(rows)
    else:
        cells = [(row["id"], row["version"], row["problem"] or row["description"]) for row in rows]
        show_table(out(), "", ("graph", "version", ""), cells)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="GRAPH", help="Id of a graph, module:NAME, or with --run a run.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as Mermaid.")] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Draw a run: the path taken, lanes as counts, failures marked.")
    ] = False,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Show a graph: its nodes, routes and guards, and what its input may hold."""
    from grafico.jobs.catalog import load_graph
    from grafico.jobs.outline import graph_data, graph_lines, input_lines

    if run:
        _draw_run(name, runs_dir, as_json=as_json)
        return
    graph = load_graph(name, beside=Path.cwd())
    from grafico.graphs.drawing import draw_graph

    drawing = draw_graph(graph)
    data = graph_data(graph)
    if as_json:
        print_json({**data, "mermaid": drawing})
    elif mermaid:
        typer.echo(drawing, nl=False)
    else:
        console = out()
        print_lines(console, graph_lines(graph))
        if data["input"]:
            show_table(console, "input", ("key", "type", "default", ""), input_lines(data["input"]))


def _draw_run(name: str, runs_dir: Path, *, as_json: bool) -> None:
    from grafico.graphs import Position, Record
    from grafico.graphs.drawing import draw_run
    from grafico.jobs.find import find
    from grafico.runs import read_run

    view = read_run(find(name, runs_dir))
    drawing = draw_run(Record(fact.kind, Position.parse(fact.at), fact.data) for fact in view.chronicle.state)
    if as_json:
        print_json({"run": view.name, "mermaid": drawing})
    else:
        typer.echo(drawing, nl=False)
