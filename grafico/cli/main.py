"""The `grafico` command: what it can do, without importing any of it before it is asked for."""

import sys
import warnings
from typing import Annotated

import typer

from grafico.cli import ask, bench, cluster, doctor, explain, graphs, kb_exchange, look, run, submit, table
from grafico.cli.output import Commands, close_pipe, flowing

__all__ = ["app", "main"]

HELP = """Batch orchestrator for computational chemistry: job files in, durable runs out.

A run is a folder. Whatever kills it, `grafico resume` goes on from its journal, and nothing that was committed is
computed again.
"""

EPILOG = """Exit codes: 0 all done · 2 usage or bad input · 3 finished, with failed lanes · 4 the run failed ·
130 interrupted, `grafico resume` goes on.

Environment: GRAFICO_RUNS is the folder of runs, GRAFICO_KB that of the knowledge base, GRAFICO_CLUSTERS that of
clusters that stay up; GRAFICO_DEBUG=1 shows tracebacks; NO_COLOR turns colors off.
"""

app = typer.Typer(
    name="grafico",
    cls=Commands,
    help=flowing(HELP),
    epilog=flowing(EPILOG),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("run")(run.run)
app.command("submit")(submit.submit)
app.command("resume")(run.resume)
app.command("cancel")(run.cancel)
app.command("list")(look.list_runs)
app.command("show")(look.show)
app.command("table")(table.table)
app.command("watch")(look.watch)
app.command("logs")(look.logs)
app.command("explain")(explain.explain)
app.add_typer(cluster.app, name="cluster", help="Clusters that several runs share.")
app.add_typer(graphs.app, name="graph", help="The graphs that a job can name.")
app.add_typer(kb_exchange.app, name="kb", help="The knowledge base.")
app.command("ask")(ask.ask)
app.command("mcp")(ask.mcp)
app.command("doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench", help="Benchmarks, as ratios on this machine.")


_plain = warnings.formatwarning


def _print_version(value: bool) -> None:
    if value:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take what concerns no command."""


@app.command()
def version() -> None:
    """Print the version."""
    from grafico import __version__

    typer.echo(__version__)


def _warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as people should see it; only those of other packages say which line of code they come from."""
    if category.__module__.partition(".")[0] == "grafico":
        return f"grafico: note: {message}\n"
    return _plain(message, category, filename, lineno, line)


def main() -> None:
    """Run the command line."""
    warnings.formatwarning = _warning
    try:
        app()
    finally:
        # What is left in the buffer may fail only now, when a reader such as `head` has gone.
        try:
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            close_pipe()


if __name__ == "__main__":
    main()
