"""`grafico bench`: measure, and print each number beside what it should be."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from grafico.cli.output import Group, JsonFlag, out, print_json, say
from grafico.cli.tables import show_table
from grafico.errors import BadInput, MissingExtra

app = typer.Typer(cls=Group, no_args_is_help=True)


def measure(name: str, *, as_json: bool, **given: Any) -> dict[str, Any]:
    """Run one benchmark and print what it found.

    A benchmark is a module ``grafico.bench.<name>`` with ``bench() -> dict``; a value may be a mapping with
    ``value``, ``limit`` and ``unit``. What is given is handed to it.
    """
    module = f"grafico.bench.{name}"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise BadInput(f"this grafico has no benchmark '{name}'") from None
        from grafico.jobs.catalog import missing_extra

        raise missing_extra(error) or MissingExtra(f"{error.name} is not installed") from error
    result: dict[str, Any] = found.bench(**given)
    if as_json:
        print_json(result)
        return result
    rows = [row for key, value in result.items() for row in _rows(key, value)]
    show_table(out(), f"grafico bench {name}", ("measured", "value", "limit", "unit", ""), rows)
    return result


def _rows(key: str, value: Any) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and "value" in value:
        number, limit = value["value"], value.get("limit")
        met = None if limit is None or number is None else number <= limit
        if value.get("at_least") and limit is not None:
            met = number >= limit
        verdict = {None: "", True: "met", False: "NOT MET"}[met]
        sign = "≥" if value.get("at_least") else "≤"
        return [(key, number, f"{sign} {limit}" if limit is not None else "", value.get("unit", ""), verdict)]
    if isinstance(value, dict):
        return [row for name, inner in value.items() for row in _rows(f"{key} · {name}", inner)]
    if isinstance(value, (list, tuple)):
        return [row for index, inner in enumerate(value, 1) for row in _rows(f"{key} · {index}", inner)]
    return [(key, value, "", "", "")]


@app.command()
def graph(as_json: JsonFlag = False) -> None:
    """Cost of a node transition, over bare pydantic-graph; memory over many lanes."""
    measure("graph", as_json=as_json)


@app.command()
def chemistry(as_json: JsonFlag = False) -> None:
    """The quickstart's calculations, over a hand-written script at the same parallelism."""
    measure("chemistry", as_json=as_json)


@app.command()
def frameworks(
    *,
    cifs: Annotated[
        Path | None, typer.Option("--cifs", help="Folder of CIF files to relax; default: eight small cyanides.")
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="Potential that can be batched.")] = "7net-0",
    fmax: Annotated[float, typer.Option("--fmax", min=1e-4, max=1.0, help="Largest force at the end, eV/Å.")] = 0.05,
    steps: Annotated[int, typer.Option("--steps", min=1, max=20_000, help="Most steps.")] = 500,
    gpu: Annotated[bool, typer.Option("--gpu", help="On the first GPU instead of the CPUs.")] = False,
    cpus: Annotated[
        int | None, typer.Option("--cpus", min=1, help="Slots, and threads of a batch; default: all.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Relaxing frameworks: one process a structure, many at once, and a hand-written script; the same results."""
    measure("frameworks", as_json=as_json, cifs=cifs, model=model, fmax=fmax, steps=steps, gpu=gpu, cpus=cpus)


@app.command()
def kb(as_json: JsonFlag = False) -> None:
    """Persisting and querying, over rdflib in memory."""
    measure("kb", as_json=as_json)


@app.command()
def gpu(as_json: JsonFlag = False) -> None:
    """Calculations an hour on one GPU: one, two and three at once, with and without MPS."""
    measure("gpu", as_json=as_json)


@app.command()
def cluster(
    *,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Measure Parsl, HyperQueue and executorlib beside it.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Lanes on a cluster: over bare Dask, use of the slots, makespan, resume, memory; peers beside it."""
    measure("cluster", as_json=as_json, peers=peers)


@app.command()
def soak(
    *,
    lanes: Annotated[int, typer.Option("--lanes", min=12, help="Lanes to walk.")] = 5000,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the moments and victims; default: another each time.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Many short lanes on four pretended GPUs while workers are killed at random; exit code 1 on any fault."""
    found = measure("soak", as_json=as_json, lanes=lanes, seed=seed)
    if found["faults"]:
        raise typer.Exit(1)


@app.command()
def routing(
    *,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="GGUF file, or a name that litellm knows; may be given several times."),
    ] = None,
    api_base: Annotated[
        str | None, typer.Option("--api-base", help="Address of an OpenAI-compatible server of your own.")
    ] = None,
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Measure how sentences become jobs, with and without gates.")
    ] = False,
    walks: Annotated[bool, typer.Option("--walks/--no-walks", help="Also walk whole tasks.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Language models as routers: requests and tokens a task, and how often they and the rules are right."""
    measure(
        "routing",
        as_json=as_json,
        models=tuple(model or ()),
        api_base=api_base,
        sentences=sentences,
        walks=walks,
        tell=say,
    )


@app.command("help")
def help_(as_json: JsonFlag = False) -> None:
    """CPU time of `grafico --help`."""
    measure("help", as_json=as_json)
