import json

import pytest
from knowledge_models import NAMESPACE, Named, Other, Thing
from typer.testing import CliRunner

from grafico.cli.main import app
from grafico.knowledge import RunKnowledge


@pytest.fixture
def kb(run, knowledge, monkeypatch):
    monkeypatch.setenv("GRAFICO_KB", str(knowledge.folder))
    run.persist_now([Named(name="water", number=1, remark="x" * 300, parts=[Named(name="oxygen")]), Thing(text="t")])

    def invoke(*arguments, **options):
        return CliRunner().invoke(app, ["kb", *arguments], **options)

    return invoke


def test_query_prints_a_table_for_people_and_json_for_programs(kb):
    query = f"SELECT ?name ?number {{ ?x <{NAMESPACE}name> ?name ; <{NAMESPACE}number> ?number }} ORDER BY ?number"
    shown = kb("query", query)
    assert shown.exit_code == 0
    assert "water" in shown.stdout
    assert "oxygen" in shown.stdout
    found = json.loads(kb("query", query, "--json").stdout)
    assert [row["name"]["value"] for row in found["results"]["bindings"]] == ["oxygen", "water"]


def test_query_reads_files_standard_input_and_bound_values(kb, tmp_path):
    query = f"SELECT ?n {{ ?x <{NAMESPACE}name> ?name ; <{NAMESPACE}number> ?n }}"
    (tmp_path / "q.rq").write_text(query)
    for arguments, options in (
        (["--file", str(tmp_path / "q.rq"), "--bind", "name=water"], {}),
        (["-", "--bind", "?name=water"], {"input": query}),
    ):
        found = json.loads(kb("query", *arguments, "--json", **options).stdout)
        assert [row["n"]["value"] for row in found["results"]["bindings"]] == ["1"]


def test_query_says_yes_or_no(kb):
    assert kb("query", "ASK { ?s ?p ?o }").stdout.strip() == "yes"
    assert json.loads(kb("query", "ASK { ?s <urn:x> ?o }", "--json").stdout)["boolean"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "DROP ALL"], "DROP is refused"),
        (["query", "SELECT * { ?s ?p }"], "does not parse"),
        (["query"], "give the query"),
        (["query", "--file", "/nowhere/q.rq"], "cannot be read"),
        (["query", "ASK {}", "--bind", "nonsense"], "NAME=VALUE"),
        (["query", "ASK {}", "--bind", "s=<not an iri>"], "not an absolute IRI"),
        (["query", "ASK {}", "--limit", "0"], "row limit"),
        (["show", "not an iri"], "not an absolute IRI"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_two(kb, arguments, message):
    done = kb(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    as_json = kb(*arguments, "--json")
    assert message in json.loads(as_json.stdout)["error"]


def test_show_tells_what_a_thing_is_and_what_refers_to_it(kb):
    iri = Named(name="oxygen").iri
    for name in (iri, iri.replace("https://w3id.org/grafico/id/", "id:")):
        shown = kb("show", name)
        assert shown.exit_code == 0, shown.stderr
        assert "oxygen" in shown.stdout
    found = json.loads(kb("show", iri, "--json").stdout)
    assert {"subject": Named(name="water", number=1).iri, "property": f"{NAMESPACE}parts"} in found["referred_to_by"]


def test_show_of_nothing_says_so(kb):
    done = kb("show", "https://example.org/nothing")
    assert done.exit_code != 0
    assert "holds nothing about" in done.stderr


def test_long_values_are_shortened_for_people_only(kb):
    iri = Named(name="water", number=1).iri
    assert "x" * 300 not in kb("show", iri).stdout
    assert "x" * 300 in kb("show", iri, "--json").stdout


def test_schema_lists_classes_with_units(kb):
    shown = kb("schema", "Thing")
    assert shown.exit_code == 0
    assert "Something with a field of every kind." in shown.stdout
    assert "eV" in shown.stdout
    found = json.loads(kb("schema", "--json").stdout)
    names = {entry["iri"]: entry for entry in found["classes"]}
    energy = next(p for p in names[f"{NAMESPACE}Thing"]["properties"] if p["iri"] == f"{NAMESPACE}energy")
    assert (energy["unit"], energy["description"], energy["range"]) == ("eV", "an energy", "xsd:double")


def test_a_shared_property_is_described_as_each_class_means_it(kb, run):
    run.persist_now([Other(name="o")])
    for name, words in (("Named", None), ("Other", "what the other is called")):
        (found,) = json.loads(kb("schema", name, "--json").stdout)["classes"]
        described = {p["iri"]: p["description"] for p in found["properties"]}
        assert described[f"{NAMESPACE}name"] == words


def test_rebuild_loads_run_folders_and_reports_what_it_cannot(kb, tmp_path, knowledge):
    other = tmp_path / "runs" / "other"
    other.mkdir()
    RunKnowledge(other).persist_now([Named(name="found by rebuild")])
    done = kb("rebuild", str(tmp_path / "runs"))
    assert done.exit_code == 0
    assert "2 runs" in done.stdout
    (other / "knowledge.nq").write_text("nonsense")
    done = kb("rebuild", "--json")
    assert done.exit_code == 3
    assert len(json.loads(done.stdout)["problems"]) == 1
    assert kb("rebuild", str(tmp_path / "missing")).exit_code != 0


def test_the_schema_of_an_empty_knowledge_base_is_what_it_may_hold(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAFICO_KB", str(tmp_path / "empty"))
    done = CliRunner().invoke(app, ["kb", "schema", "--json"])
    assert done.exit_code == 0, done.stderr
    assert "is empty" in done.stderr
    names = {found["name"] for found in json.loads(done.stdout)["classes"]}
    assert {"chem:Molecule", "chem:EnsembleMember", "grafico:Execution"} <= names
    shown = CliRunner().invoke(app, ["kb", "schema", "chem:Molecule"])
    assert "inchikey" in shown.stdout
    said = CliRunner().invoke(app, ["kb", "schema", "ConformerSerch"])
    assert said.exit_code == 2
    assert "has no class 'ConformerSerch'; did you mean 'ConformerSearch'?" in said.stderr


def test_the_help_of_query_tells_of_graphs():
    assert "GRAPH ?run" in CliRunner().invoke(app, ["kb", "query", "--help"]).stdout
