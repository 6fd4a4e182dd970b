"""The schema for other programs, and what the commands print on a terminal of eighty columns."""

import json
import os
import pty
import subprocess
import sys

import rdflib
from rich.cells import cell_len
from typer.testing import CliRunner

import grafico.chemistry.entities  # noqa: F401 - so that its classes are known
from grafico.cli.main import app
from grafico.knowledge import Unit, entity_classes
from grafico.knowledge.plan import plan_of

SH = rdflib.Namespace("http://www.w3.org/ns/shacl#")
QUDT = rdflib.Namespace("http://qudt.org/schema/qudt/")
OURS = "https://w3id.org/grafico/"


def kb(*arguments):
    return CliRunner().invoke(app, ["kb", *map(str, arguments)])


def graph_of(form, *arguments):
    done = kb("schema", *arguments, "--rdf", form)
    assert done.exit_code == 0, done.stderr
    return rdflib.Graph().parse(data=done.stdout, format="turtle")


def our_classes():
    return [cls for cls in entity_classes() if cls.class_iri().startswith(OURS) and cls.__name__ != "Entity"]


def test_every_entity_is_an_owl_class_with_its_properties_and_units():
    owl = graph_of("owl")
    for cls in our_classes():
        iri = rdflib.URIRef(cls.class_iri())
        assert (iri, rdflib.RDF.type, rdflib.OWL.Class) in owl
        assert owl.value(iri, rdflib.RDFS.label)
        for plan in plan_of(cls):
            kinds = set(owl.objects(rdflib.URIRef(plan.predicate), rdflib.RDF.type))
            assert kinds & {rdflib.OWL.ObjectProperty, rdflib.OWL.DatatypeProperty}, plan.predicate
            units = {str(unit) for unit in owl.objects(rdflib.URIRef(plan.predicate), QUDT.hasUnit)}
            assert units == (set() if plan.unit is None else {plan.unit.iri})
    # Every unit is QUDT's, but those that it has not.
    known = Unit.symbols()
    assert {symbol for symbol, iri in known.items() if not iri.startswith("http://qudt.org/vocab/unit/")} == {
        "Å²",
        "L/(mol cm)",
        "m²/cm³",
        "km/mol",
        "e a0",
        "eV/Å³",
    }


def test_every_entity_has_a_shape_with_each_of_its_fields():
    shacl = graph_of("shacl")
    for cls in our_classes():
        shapes = list(shacl.subjects(SH.targetClass, rdflib.URIRef(cls.class_iri())))
        assert len(shapes) == 1
        paths = {shacl.value(one, SH.path) for one in shacl.objects(shapes[0], SH.property)}
        own = {rdflib.URIRef(plan.predicate) for plan in plan_of(cls) if plan.declared_by is cls}
        assert own <= paths


def test_the_shapes_are_shapes(tmp_path):
    import pyshacl

    conforms, _, text = pyshacl.validate(
        rdflib.Graph(), shacl_graph=graph_of("shacl", "AbsorptionSpectrum"), meta_shacl=True
    )
    assert conforms, text


def test_one_class_can_be_asked_for():
    one = graph_of("owl", "ExcitedState")
    assert (rdflib.URIRef(OURS + "chemistry#AbsorptionSpectrum"), rdflib.RDF.type, None) not in one
    assert (rdflib.URIRef(OURS + "chemistry#Molecule"), rdflib.RDF.type, rdflib.OWL.Class) in one
    told = json.loads(kb("schema", "Molecule", "--rdf", "shacl", "--json").stdout)
    assert told["vocabulary"] == "shacl"
    wrong = kb("schema", "Moleclue", "--rdf", "owl")
    assert wrong.exit_code == 2
    assert "did you mean 'Molecule'" in wrong.stderr


def on_a_terminal(*arguments, store):
    """Run a command whose standard output is a terminal of eighty columns; return its lines."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "GRAFICO_KB": str(store), "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "grafico.cli.main", "kb", *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        data = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            data += piece
        process.wait()
    os.close(ours)
    text = data.decode().replace("\r\n", "\n").replace("\x1b[1m", "").replace("\x1b[0m", "")
    return text.splitlines()


def test_tables_fit_a_terminal_of_eighty_columns(hydrogen_run):
    store = hydrogen_run.knowledge.folder
    (row,) = hydrogen_run.knowledge.query("SELECT DISTINCT ?c { ?c a chem:DFTCalculation }").values()
    for arguments in (
        ["schema", "DFTCalculation"],
        ["show", row["c"]],
        [
            "query",
            "SELECT ?e ?name ?started { ?e grafico:calculation ?name ; prov:startedAtTime ?started }",
        ],
        ["validate"],
    ):
        lines = on_a_terminal(*arguments, store=store)
        assert lines, arguments
        # Words are never broken: an IRI alone in its line may be longer.
        long = [line for line in lines if cell_len(line) > 80 and len(line.split()) > 1]
        assert not long, (arguments, long)
