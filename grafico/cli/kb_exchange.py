"""`grafico kb export` and `grafico kb import`: knowledge out of the knowledge base and into it."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.kb import Store, app, open_knowledge
from grafico.cli.output import DONE, SOME_FAILED, JsonFlag, RunsFolder, out, print_json, say
from grafico.cli.tables import show_table

if TYPE_CHECKING:
    from grafico.knowledge.formats import Format

__all__ = ["app", "export", "import_files"]

CRATE = "ro-crate"
SHOWN_GRAPHS = 2
FORMATS = f"turtle, trig, json-ld, n-quads, n-triples, rdf-xml or {CRATE}"


@app.command()
def export(
    *,
    run: Annotated[
        str | None,
        typer.Option("--run", "-r", metavar="RUN", help="Only this run: its path, its name, 'last', or its IRI."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", "-F", metavar="FORMAT", help=f"{FORMATS}. [default: by FILE's extension]"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to standard output.")
    ] = None,
    license_: Annotated[
        str | None, typer.Option("--license", metavar="URL", help=f"License of a {CRATE}. [default: none is granted]")
    ] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help=f"Who ran it, for a {CRATE}.")] = None,
    runs_dir: RunsFolder = Path("runs"),
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Write what the knowledge base holds, or one run, for other programs.

    Formats with named graphs (trig, json-ld, n-quads) tell which run says what; the others put all runs together.

    grafico kb export --run last --format ro-crate -o my-run.zip packs a run with its job, results and files: an
    RO-Crate (Workflow Run Crate) for a repository or a colleague, who reads it with `grafico kb import my-run.zip`.
    """
    if _is_crate(file, format_name):
        _export_crate(run, file, runs_dir, license_, author, as_json=as_json)
        return
    _refuse_crate_options(license_, author)
    format_, text, graphs = _chosen(run, format_name, file, runs_dir, store)
    from grafico.knowledge.formats import export_rdf

    data = export_rdf(text, format_, graphs=graphs)
    told = {"format": format_.name, "bytes": len(data), "file": None if file is None else str(file)}
    if file is not None:
        _write(file, data)
        print_json(told) if as_json else out().print(f"{file}: {format_.name}, {len(data)} bytes")
    elif as_json:
        print_json({**told, "text": data.decode()})
    else:
        sys.stdout.write(data.decode())
    if not format_.named_graphs and graphs is None:
        say("grafico: this format does not tell which run says what; trig, json-ld and n-quads do")


@app.command("import")
def import_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="RDF files; RO-Crates as folders or zip files.")
    ],
    format_name: Annotated[
        str | None, typer.Option("--format", "-F", metavar="FORMAT", help="RDF format. [default: by the extension]")
    ] = None,
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Bring RDF files and RO-Crates into the knowledge base, under the IRIs that they have.

    Importing the same again changes nothing. What the store holds already is never overwritten: a run that says
    something else there is refused. Nothing is fetched from the network.
    """
    from grafico.errors import GraficoError
    from grafico.knowledge import shorten
    from grafico.knowledge.crate import import_crate, is_crate
    from grafico.knowledge.importing import import_file

    knowledge: Any = open_knowledge(store)
    done: list[Any] = []
    problems: list[GraficoError] = []
    for path in files:
        try:
            if format_name is None and is_crate(path):
                done.append(import_crate(knowledge, path))
            else:
                done.append(import_file(knowledge, path, format_name=format_name))
        except GraficoError as error:
            if len(files) == 1:
                raise
            problems.append(error)
    if as_json:
        told = [{"error": error.message, "hint": error.hint} for error in problems]
        print_json({"imported": [one.model_dump(mode="json") for one in done], "problems": told})
    elif done:
        rows = [
            [one.source, _some(map(shorten, one.graphs)), one.triples, one.added or "0, was there", one.artifacts]
            for one in done
        ]
        show_table(out(), "", ["file", "graphs", "triples", "new", "files"], rows, expendable=["files"])
    for problem in problems:
        say(f"grafico: not imported: {problem.message}" + (f"\n  → {problem.hint}" if problem.hint else ""))
    raise typer.Exit(SOME_FAILED if problems else DONE)


def _some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are: a whole store has a graph for each run."""
    all_names = list(names)
    left = len(all_names) - SHOWN_GRAPHS
    return ", ".join(all_names[:SHOWN_GRAPHS]) + (f" and {left} more" if left > 0 else "")


def _is_crate(file: Path | None, format_name: str | None) -> bool:
    if format_name is None:
        return file is not None and file.suffix.lower() == ".zip"
    return format_name.lower().replace("-", "").replace("_", "") == "rocrate"


def _refuse_crate_options(license_: str | None, author: str | None) -> None:
    from grafico.errors import QueryError

    for name, value in (("--license", license_), ("--author", author)):
        if value is not None:
            raise QueryError(f"{name} belongs to --format {CRATE}")


def _export_crate(
    run: str | None,
    file: Path | None,
    runs_dir: Path,
    license_: str | None,
    author: str | None,
    *,
    as_json: bool,
) -> None:
    from grafico.errors import QueryError
    from grafico.jobs.crate import NO_LICENSE, write_crate

    if run is None:
        raise QueryError("an RO-Crate holds one run", hint="say which with --run; `--run last` is the newest")
    if file is None:
        raise QueryError("an RO-Crate is a folder or a zip file", hint="name it with -o: `-o my-run.zip`")
    crate = write_crate(_run_folder(run, runs_dir), file, license_=license_ or NO_LICENSE, author=author)
    if as_json:
        print_json(crate.model_dump(mode="json"))
    else:
        out().print(f"{crate.path}: {crate.files} files, {crate.size} bytes")
        if license_ is None:
            say("grafico: it says that no license is granted; --license https://… says another")
    for name in crate.missing:
        say(f"grafico: not in it, because the run has lost it: {name}")


def _chosen(
    run: str | None, format_name: str | None, file: Path | None, runs_dir: Path, store: Any
) -> tuple["Format", str, set[str] | None]:
    """Return the format, N-Quads, and which graphs of them are meant."""
    from grafico.errors import KnowledgeError, QueryError
    from grafico.knowledge import check_iri, expand
    from grafico.knowledge.formats import format_called, format_of

    if format_name is not None or file is None:
        format_ = format_called(format_name or ("turtle" if run else "trig"))
    else:
        format_ = format_of(file)
    if run is None:
        return format_, open_knowledge(store).dump(), None
    if run.startswith(("http://", "https://", "run:")):
        graph = check_iri(expand(run))
        text = open_knowledge(store).dump()
        if f" <{graph}> .\n" not in text:
            raise KnowledgeError(f"the knowledge base holds no run <{graph}>", hint="`grafico list` shows runs")
        return format_, text, {graph}
    # The run's own file is the truth; the store may be behind.
    quads = _run_folder(run, runs_dir) / "knowledge.nq"
    try:
        text = quads.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise QueryError(f"the run {quads.parent.name} has persisted nothing", hint="has it finished?") from error
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{quads} cannot be read: {error}", hint="resume the run: it writes the file anew") from error
    return format_, text, None if format_.named_graphs else _graphs(text)


def _graphs(text: str) -> set[str]:
    return {line.rsplit(" ", 2)[1][1:-1] for line in text.split("\n") if line}


def _run_folder(run: str, runs_dir: Path) -> Path:
    from grafico.jobs.find import find

    return find(run, runs_dir)


def _write(file: Path, data: bytes) -> None:
    from uuid import uuid4

    from grafico.errors import QueryError

    # Whole or not at all; a device or a pipe is written to as it is.
    special = file.exists() and not file.is_file()
    target = file if special else file.resolve()
    draft = target if special else target.with_name(f".{target.name}-{uuid4().hex[:8]}")
    try:
        try:
            draft.write_bytes(data)
            if not special:
                draft.replace(target)
        finally:
            if not special:
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise QueryError(f"{file} cannot be written: {error.strerror}") from error
