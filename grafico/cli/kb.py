"""`grafico kb`: ask the knowledge base, look at an entity, see the schema, make the store anew."""

import enum
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from grafico.cli.kb_values import CELL, cell, in_order, shortened
from grafico.cli.output import DONE, SOME_FAILED, Group, JsonFlag, out, print_json, say
from grafico.cli.tables import show_table

if TYPE_CHECKING:
    from grafico.knowledge import QueryResult
    from grafico.knowledge import Store as KnowledgeStore

__all__ = ["Store", "app", "open_knowledge"]

app = typer.Typer(cls=Group, no_args_is_help=True, help="The knowledge base.")

Store: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FOLDER|URL",
        help="Folder of the knowledge base, or address of a SPARQL endpoint. "
        "[default: $GRAFICO_KB, else the user's data folder]",
    ),
]


class Vocabulary(enum.Enum):
    """How the schema is written for other programs."""

    OWL = "owl"
    SHACL = "shacl"


@app.command()
def query(
    text: Annotated[str | None, typer.Argument(metavar="QUERY", help="SPARQL; '-' reads standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the query from a file.")] = None,
    bind: Annotated[
        list[str] | None,
        typer.Option("--bind", "-b", metavar="NAME=VALUE", help="Give ?NAME a value: a number, an <IRI>, else text."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows shown at most.")] = 1000,
    timeout: Annotated[float, typer.Option(help="Seconds after which the query is ended.")] = 30.0,
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Answer a read-only SPARQL query over all runs.

    The prefixes chem, grafico, prov, rdfs, qudt, unit and some more need no declaration:
    grafico kb query 'SELECT ?name ?inchikey { ?m a chem:Molecule ; rdfs:label ?name ; chem:inchikey ?inchikey }'

    Numbers are shown with ten digits; --json gives all of them.

    What several runs say counts once; GRAPH ?run { … } tells which run says it, and FROM <run> reads that run alone.
    """
    knowledge = open_knowledge(store)
    result = knowledge.query(_text(text, file), bind=_bindings(bind or []), limit=limit, timeout_s=timeout)
    if as_json:
        print_json(result.sparql_json())
        return
    if result.boolean is not None:
        out().print("yes" if result.boolean else "no")
        return
    _print_rows(result)


@app.command()
def show(
    iri: Annotated[str, typer.Argument(metavar="IRI", help="An IRI, or a prefixed name such as id:Molecule/….")],
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is known of one thing, and what refers to it."""
    from grafico.errors import KnowledgeError
    from grafico.knowledge import Term, check_iri, expand, shorten

    knowledge = open_knowledge(store)
    subject = Term(type="uri", value=check_iri(expand(iri)))
    about = knowledge.query(
        "SELECT ?run ?property ?value WHERE { GRAPH ?run { ?s ?property ?value } } ORDER BY ?run ?property ?value",
        bind={"s": subject},
    )
    refer = knowledge.query(
        "SELECT DISTINCT ?subject ?property WHERE { ?subject ?property ?o FILTER(?property != rdf:first) } "
        "ORDER BY ?property ?subject",
        bind={"o": subject},
        limit=100,
    )
    if not about.rows and not refer.rows:
        raise KnowledgeError(
            f"the knowledge base {knowledge.place} holds nothing about <{subject.value}>",
            hint="`grafico kb query` finds things; `grafico kb rebuild RUNS` loads runs that are missing",
        )
    more = about.truncated or refer.truncated
    if as_json:
        said, referring = ([_finite(row) for row in found.values()] for found in (about, refer))
        print_json({"iri": subject.value, "properties": said, "referred_to_by": referring, "truncated": more})
        return
    console = out()
    told = in_order(about, knowledge, subject)
    # One long value would have the whole table told row by row.
    widest = max((len(name) for _, name, _ in told), default=0)
    room = max(30, console.width - widest - 3) if console.is_terminal else CELL
    by_run: dict[str, list[list[Any]]] = {}
    for run, name, value in told:
        found = cell(value, room)
        short = shortened(found, room) if isinstance(found, str) and console.is_terminal else found
        by_run.setdefault(run.value, []).append([name, short])
    for run_iri, rows in by_run.items():
        show_table(console, f"{shorten(subject.value)} in {shorten(run_iri)}", ["property", "value"], rows)
    if refer.rows:
        rows = [[cell(term) for term in row] for row in refer.rows]
        show_table(console, "referred to by", ["subject", "property"], rows)
    if more:
        say("grafico: there is more than is shown here; `grafico kb query` finds all of it")


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinities, and nothing that is no number.
    return {name: repr(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}


@app.command()
def schema(
    name: Annotated[str | None, typer.Argument(metavar="CLASS", help="Only this class: its name or its IRI.")] = None,
    *,
    rdf: Annotated[
        Vocabulary | None,
        typer.Option(help="Print, in Turtle, what there may be: classes and properties as OWL, or rules as SHACL."),
    ] = None,
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """List the classes and properties that the knowledge base uses, with units; while it is empty, those it may use."""
    if rdf is not None:
        text = _vocabulary(rdf, name)
        print_json({"vocabulary": rdf.value, "format": "turtle", "text": text}) if as_json else sys.stdout.write(text)
        return
    classes = _schema(open_knowledge(store))
    if not classes:
        say("grafico: the knowledge base is empty; this is what it may hold")
        classes = _possible_schema()
    if name is not None:
        classes = _called(classes, name)
    if as_json:
        print_json({"classes": classes})
        return
    console = out()
    for found in classes:
        title = f"{found['name']}: {found['description']}" if found["description"] else found["name"]
        rows = [[p["name"], p["range"], p["unit"], p["description"]] for p in found["properties"]]
        show_table(console, title, ["property", "values", "unit", "description"], rows)


@app.command()
def rebuild(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Run folders, or folders that hold run folders.")
    ] = None,
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the store anew from the run folders that it knows, and from those given."""
    done = open_knowledge(store).rebuild(folders or [])
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        out().print(f"{len(done.runs)} runs, {done.triples} triples")
    for problem in done.problems:
        say(f"grafico: not loaded: {problem}")
    raise typer.Exit(SOME_FAILED if done.problems else DONE)


@app.command("validate")
def check(
    store: Store = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that everything in the knowledge base is as its class says (SHACL)."""
    from grafico.knowledge import shorten, validate

    _load_classes()
    found = validate(open_knowledge(store))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        console = out()
        rows = [[shorten(v.run), shorten(v.entity), v.message] for v in found.violations]
        if rows:
            show_table(console, "not as their classes say", ["run", "entity", "what is wrong"], rows)
        console.print(f"{found.entities} entities in {found.runs} runs, {len(rows)} problems")
        for iri in found.unknown:
            console.print(f"not checked, because its class is not known here: {shorten(iri)}")
    raise typer.Exit(SOME_FAILED if found.violations else DONE)


def _vocabulary(form: Vocabulary, name: str | None) -> str:
    from grafico.knowledge import FORMATS, entity_classes, export_rdf, n_quads, schema_of, shapes_of, shorten

    _load_classes()
    classes = [cls for cls in entity_classes() if cls.__name__ != "Entity"]
    if name is not None:
        told = [{"iri": c.class_iri(), "label": c.__name__, "name": shorten(c.class_iri())} for c in classes]
        chosen = {one["iri"] for one in _called(told, name)}
        classes = [cls for cls in classes if cls.class_iri() in chosen]
    if form is Vocabulary.OWL:
        found = schema_of([cls.class_iri() for cls in classes])
    else:
        found = shapes_of([base for cls in classes for base in cls.__mro__ if base in entity_classes()])
    return export_rdf(n_quads(found, "urn:schema"), FORMATS["turtle"]).decode()


def _load_classes() -> None:
    import importlib
    import importlib.util

    # Entity classes are those of the modules that are loaded.
    importlib.import_module("grafico.knowledge.provenance")
    for wing in ("chemistry", "frameworks", "literature", "laboratory"):
        if importlib.util.find_spec(f"grafico.{wing}") and importlib.util.find_spec(f"grafico.{wing}.entities"):
            importlib.import_module(f"grafico.{wing}.entities")


def open_knowledge(store: str | None) -> "KnowledgeStore":
    """Return the knowledge base that ``--store`` names, else the user's own."""
    from grafico.knowledge import open_store

    return open_store(store)


def _text(text: str | None, file: Path | None) -> str:
    from grafico.errors import QueryError

    if (text is None) == (file is None):
        raise QueryError("give the query as an argument, or name a file with --file; one of the two")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise QueryError(f"the query cannot be read from {file}: {error}") from error
    assert text is not None
    return sys.stdin.read() if text == "-" else text


def _bindings(pairs: list[str]) -> dict[str, Any]:
    from grafico.errors import QueryError
    from grafico.knowledge import Term, check_iri

    bound: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise QueryError(f"--bind {pair!r}: NAME=VALUE was expected")
        name = name.removeprefix("?")
        if value.startswith("<") and value.endswith(">"):
            bound[name] = Term(type="uri", value=check_iri(value[1:-1]))
        else:
            bound[name] = _number(value)
    return bound


def _number(value: str) -> int | float | str:
    # Python would also take 1_000, and words such as nan and infinity, which may be names.
    if re.fullmatch(r"[+-]?[0-9]{1,4000}", value):
        return int(value)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        return float(value)
    return value


def _print_rows(result: "QueryResult") -> None:
    console = out()
    rows = [[cell(term) for term in row] for row in result.rows]
    show_table(console, "", result.variables, rows)
    more = "; there are more, raise --limit to see them" if result.truncated else ""
    say(f"{len(rows)} row{'' if len(rows) == 1 else 's'} in {result.seconds:.3f} s{more}")


_CLASSES = """
SELECT DISTINCT ?class ?name ?comment WHERE {
  ?class a owl:Class ; rdfs:label ?name . OPTIONAL { ?class rdfs:comment ?comment }
} ORDER BY ?name ?class"""
_PARENTS = "SELECT DISTINCT ?class ?above WHERE { ?class a owl:Class ; rdfs:subClassOf+ ?above }"
_PROPERTIES = """
SELECT DISTINCT ?property ?class ?name ?comment ?range ?unit WHERE {
  ?property grafico:usedBy ?class ; rdfs:label ?name .
  OPTIONAL { ?use grafico:ofClass ?class ; grafico:ofProperty ?property ; rdfs:comment ?comment }
  OPTIONAL { ?property rdfs:range ?range }
  OPTIONAL { ?property qudt:hasUnit ?unit }
} ORDER BY ?class ?name"""


def _possible_schema() -> list[dict[str, Any]]:
    import tempfile

    from grafico.knowledge import KnowledgeBase, n_quads, schema_of
    from grafico.knowledge.vocabulary import SCHEMA

    _load_classes()
    with tempfile.TemporaryDirectory(prefix="grafico-schema-") as folder:
        quads = Path(folder) / "schema.nq"
        quads.write_text(n_quads(schema_of(), f"{SCHEMA}models"), encoding="utf-8")
        knowledge = KnowledgeBase(Path(folder) / "kb")
        knowledge.load_run(quads)
        return _schema(knowledge)


def _called(classes: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    from grafico.errors import QueryError
    from grafico.jobs.problems import did_you_mean

    if found := [one for one in classes if _is_called(one, name)]:
        return found
    known = sorted({one["name"].rpartition(":")[2] for one in classes})
    raise QueryError(
        f"the knowledge base has no class {name!r}{did_you_mean(name.rpartition(':')[2], known)}",
        hint=f"it has {', '.join(known)}",
    )


def _is_called(found: dict[str, Any], name: str) -> bool:
    from grafico.knowledge import expand

    return expand(name) == found["iri"] or name.lower() in (found["label"].lower(), found["name"].lower())


def _schema(knowledge: "KnowledgeStore") -> list[dict[str, Any]]:
    from grafico.knowledge import Unit, shorten
    from grafico.knowledge.vocabulary import GRAFICO

    classes = knowledge.query(_CLASSES, limit=10_000).values()
    above: dict[str, set[str]] = {}
    for row in knowledge.query(_PARENTS, limit=10_000).values():
        above.setdefault(row["class"], set()).add(row["above"])
    properties = knowledge.query(_PROPERTIES, limit=10_000).values()
    found = []
    for row in classes:
        iri = row["class"]
        # What every entity has is said of no class in particular.
        lineage = {iri, *above.get(iri, ()), f"{GRAFICO}Entity"}
        own = {
            p["property"]: {
                "iri": p["property"],
                "name": shorten(p["property"]),
                "range": shorten(p["range"]) if p["range"] else None,
                "unit": Unit.symbol_of(p["unit"]) if p["unit"] else None,
                "description": p["comment"],
            }
            for p in properties
            if p["class"] in lineage
        }
        found.append(
            {
                "iri": iri,
                "name": shorten(iri),
                "label": row["name"],
                "description": row["comment"],
                "subclass_of": sorted(above.get(iri, ())),
                "properties": sorted(own.values(), key=lambda p: p["name"]),
            }
        )
    return found
