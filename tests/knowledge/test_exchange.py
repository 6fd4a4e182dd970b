"""Knowledge out of one store and into another, and files of any origin in."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowledge_models import NAMESPACE, Named, Thing
from test_entity_round_trips import assert_same, graphs
from typer.testing import CliRunner

from grafico.cli.main import app
from grafico.errors import Conflict, KnowledgeError, QueryError
from grafico.knowledge import KnowledgeBase, RunKnowledge, describe, n_quads, validate
from grafico.knowledge.formats import FORMATS, export_rdf, format_called, format_of
from grafico.knowledge.importing import import_file, read_rdf

RUN = "https://w3id.org/grafico/run/"
ODD = "".join(map(chr, range(1, 0x20))) + '"\\\x7f\x85\u2028é𝔘'


@pytest.fixture
def filled(run):
    """A run with a bit of everything."""
    a = Thing(text=ODD, numbers=[float("nan"), -0.0], words=("b", "a"), settings={"x": [1, 1.0]}, tags={"t"})
    b = Thing(text="b", other=a, others=[a, a])
    a.other = b
    run.persist_now([b, Named(name="n", number=2**70)])
    return run, b


@pytest.fixture
def empty(tmp_path):
    return KnowledgeBase(tmp_path / "other")


def kb(*arguments, store=None):
    given = ["kb", *map(str, arguments)]
    return CliRunner().invoke(app, given + (["--store", str(store)] if store else []))


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_exported_is_imported_with_the_same_iris(filled, knowledge, empty, tmp_path, name):
    run, thing = filled
    if name == "rdf-xml":  # XML has no control characters at all
        run.persist_now([thing.model_copy(update={}), Named(name="x")])
        thing.other.text = "é𝔘"
        run.persist_now([thing])
    file = tmp_path / f"knowledge{FORMATS[name].extensions[0]}"
    done = kb("export", "-o", file, store=knowledge.folder)
    assert done.exit_code == 0, done.stderr
    found = import_file(empty, file)
    assert found.graphs == (run.graph,)
    back = empty.fetch(thing.iri, None)
    assert_same(thing, back)
    triples = {line.rsplit(" ", 2)[0] for line in knowledge.dump().split("\n") if "/schema/" not in line}
    assert triples == {line.rsplit(" ", 2)[0] for line in empty.dump().split("\n") if "/schema/" not in line}
    if FORMATS[name].named_graphs:
        assert empty.dump() == knowledge.dump()
    assert validate(empty).violations == ()


def test_importing_again_changes_nothing_and_a_rebuild_keeps_it(filled, knowledge, empty, tmp_path):
    file = tmp_path / "k.trig"
    file.write_bytes(export_rdf(knowledge.dump(), FORMATS["trig"]))
    first = import_file(empty, file)
    assert first.added == first.triples > 50
    before = empty.dump()
    assert import_file(empty, file).added == 0
    assert empty.dump() == before
    assert empty.rebuild().problems == ()
    assert empty.dump() == before


def test_what_the_store_holds_is_never_overwritten(filled, knowledge, empty, tmp_path):
    run, _ = filled
    old = tmp_path / "old.nq"
    old.write_bytes(export_rdf(knowledge.dump(), FORMATS["n-quads"]))
    run.persist_now([Named(name="later")])
    with pytest.raises(Conflict, match=r"holds run:first already, .* \(1 triples more, \d+ fewer\)"):
        import_file(knowledge, old)
    assert knowledge.query("ASK { ?x ?p 'later' }").boolean
    assert not list((knowledge.folder / "imports").glob("*")) if (knowledge.folder / "imports").exists() else True


def test_one_run_is_exported_with_the_classes_that_it_uses(filled, knowledge, tmp_path):
    (tmp_path / "second").mkdir()
    RunKnowledge(tmp_path / "second", run_id="second", store=knowledge).persist_now([Named(name="only here")])
    done = kb("export", "--run", f"{RUN}second", "--format", "n-quads", store=knowledge.folder)
    assert "only here" in done.stdout
    assert f"<{RUN}first>" not in done.stdout
    assert f"<{NAMESPACE}Named> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type>" in done.stdout
    assert f"<{NAMESPACE}Thing>" not in done.stdout
    short = kb("export", "--run", "run:second", "--format", "ttl", store=knowledge.folder)
    assert "@prefix" in short.stdout
    assert "a <https://example.org/test#Named>" in short.stdout


def test_files_from_elsewhere_keep_their_iris_and_get_names_for_what_has_none(empty, tmp_path):
    turtle = tmp_path / "people.ttl"
    turtle.write_text(
        "@prefix foaf: <http://xmlns.com/foaf/0.1/> .\n"
        '<https://example.org/ada> foaf:knows [ foaf:name "Charles"@en ] ; foaf:list ( 1 2.50 ) ; foaf:page <notes> .\n'
    )
    first = import_file(empty, turtle)
    assert first.graphs[0].startswith(f"{RUN}import-")
    rows = empty.query(
        "SELECT ?n { <https://example.org/ada> <http://xmlns.com/foaf/0.1/knows>/<http://xmlns.com/foaf/0.1/name> ?n }"
    )
    assert rows.values() == [{"n": "Charles"}]
    assert "_:" not in empty.dump()
    assert import_file(empty, turtle).added == 0
    linked = tmp_path / "people.jsonld"
    linked.write_text('{"@context": {"name": "http://schema.org/name"}, "@id": "urn:p:1", "name": "Mary"}')
    assert import_file(empty, linked).triples == 1
    assert validate(empty).unknown == ()


BAD = {
    "truncated.ttl": (b"<urn:a> <urn:b> ", "no turtle that can be read: .*line"),
    "truncated.jsonld": (b'{"@id": "urn:a", "urn:b": ', "no json-ld"),
    "empty.nq": (b"", "holds no triples"),
    "json.json": (b'{"a": 1}', "holds no triples"),
    "remote.jsonld": (b'{"@context": "https://example.org/c", "@id": "urn:a", "b": 1}', "no json-ld"),
    "latin.ttl": (b'<urn:a> <urn:b> "\xe9" .', "no turtle"),
    "binary.nq": (b"\x00\x01\x02", "no n-quads"),
    "bad-iri.nq": (b"<urn:a b> <urn:b> <urn:c> .\n", "no n-quads"),
    "star.ttl": (b"<urn:a> <urn:b> <<( <urn:a> <urn:b> 1 )>> .", "a statement, which the store cannot hold"),
    "deep.ttl": (b"<urn:a> <urn:b> " + b"<<( <urn:a> <urn:b> " * 90_000 + b"1" + b" )>>" * 90_000 + b" .", "deeply"),
    "laughs.rdf": (b'<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><r/>', "entities"),
    "outside.rdf": (b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r/>', "entities"),
    "notes.txt": (b"<urn:a> <urn:b> <urn:c> .", "extension .txt tells no RDF format"),
    "false-schema.nq": (
        b"<urn:a> <urn:b> <urn:c> <https://w3id.org/grafico/schema/0123456789abcdef> .\n",
        "not those that the name stands for",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused_with_one_message(empty, tmp_path, name):
    data, message = BAD[name]
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(QueryError, match=message):
        import_file(empty, file)
    assert empty.dump() == ""


def test_a_file_that_is_refused_is_one_message_at_the_command_line(empty, tmp_path):
    file = tmp_path / "a.ttl"
    file.write_text("nonsense")
    done = kb("import", file, "--json", store=empty.folder)
    assert done.exit_code == 2
    assert set(json.loads(done.stdout)) == {"error", "hint", "exit_code"}
    assert "Traceback" not in done.stderr


def test_paths_that_are_no_files_are_refused(empty, tmp_path):
    for path, message in ((tmp_path / "none.ttl", "does not exist"), (tmp_path, "no RO-Crate")):
        with pytest.raises(QueryError, match=message):
            import_file(empty, path)


def test_of_many_graphs_only_some_are_listed_for_people(empty, tmp_path):
    file = tmp_path / "whole.nq"
    file.write_text("".join(f"<urn:a:{n}> <urn:b:c> <urn:c:d> <urn:graph:{n}> .\n" for n in range(9)))
    told = kb("import", file, store=empty.folder).stdout
    assert "urn:graph:0, urn:graph:1 and 7 more" in " ".join(told.split())
    again = json.loads(kb("import", file, "--json", store=empty.folder).stdout)
    assert len(again["imported"][0]["graphs"]) == 9


def test_several_files_are_imported_and_those_that_cannot_be_are_told(filled, empty, tmp_path):
    good, bad = tmp_path / "good.nt", tmp_path / "bad.nt"
    good.write_text("<urn:a:b> <urn:b:c> <urn:c:d> .\n")
    bad.write_text("nonsense")
    done = kb("import", good, bad, store=empty.folder)
    assert done.exit_code == 3
    assert "good.nt" in done.stdout
    assert "not imported" in done.stderr
    told = json.loads(kb("import", good, bad, "--json", store=empty.folder).stdout)
    assert told["imported"][0]["added"] == 0
    assert len(told["problems"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "yaml"], "the format 'yaml' is not known"),
        (["--run", f"{RUN}nothing"], "holds no run"),
        (["--run", "nothing", "--runs-dir", "/nowhere"], "no run 'nothing'"),
        (["-o", "x.docx"], "tells no RDF format"),
        (["--format", "ro-crate"], "holds one run"),
        (["--format", "ro-crate", "--run", "x"], "is a folder or a zip file"),
        (["--license", "MIT"], "belongs to --format ro-crate"),
        (["-o", "/nowhere/k.ttl"], "cannot be written"),
    ],
)
def test_an_export_that_cannot_be_is_one_message(filled, knowledge, arguments, message):
    done = kb("export", *arguments, store=knowledge.folder)
    assert done.exit_code in (2, 4)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert message in json.loads(kb("export", *arguments, "--json", store=knowledge.folder).stdout)["error"]


def test_export_prints_one_json_value_where_that_is_asked_for(filled, knowledge, tmp_path):
    told = json.loads(kb("export", "--format", "turtle", "--json", store=knowledge.folder).stdout)
    assert told["format"] == "turtle"
    assert "@prefix" in told["text"]
    plain = json.loads(kb("export", "--format", "jsonld", store=knowledge.folder).stdout)
    assert {part["@id"] for part in plain} >= {f"{RUN}first"}
    told = json.loads(kb("export", "-o", tmp_path / "k.nq", "--json", store=knowledge.folder).stdout)
    assert told["bytes"] == (tmp_path / "k.nq").stat().st_size


def test_formats_are_called_as_people_call_them(tmp_path):
    names = {"TTL": "turtle", "JSON-LD": "json-ld", "nquads": "n-quads", "N_Triples": "n-triples", "xml": "rdf-xml"}
    assert {name: format_called(name).name for name in names} == names
    assert format_of(tmp_path / "a.JSONLD").name == "json-ld"


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.sampled_from(["turtle", "trig", "json-ld", "n-triples"]))
def test_any_entities_survive_any_format(made, name):
    quads = n_quads(describe(made), f"{RUN}x")
    text = export_rdf(quads, FORMATS[name])
    back = {str(quad.triple) for quad in _in_process(text, name)}
    import pyoxigraph

    assert back == {str(q.triple) for q in pyoxigraph.parse(quads.encode(), format=pyoxigraph.RdfFormat.N_QUADS)}


def _in_process(text, name):
    from grafico.knowledge.rdf_child import read

    return read(text, FORMATS[name], "a test")


def test_the_process_that_reads_gives_what_reading_here_gives():
    text = b"<urn:a:b> <urn:b:c> [ <urn:c:d> 'x'@en, 1.0, '''a\nb''' ] ."
    here = {str(quad) for quad in _in_process(text, "turtle")}
    assert {str(quad) for quad in read_rdf(text, FORMATS["turtle"], "-a test")} == here


def test_what_a_run_folder_holds_stays_its_own(filled, knowledge, tmp_path):
    run, _ = filled
    file, more = tmp_path / "run.nq", tmp_path / "more.nq"
    file.write_bytes(export_rdf(knowledge.dump(), FORMATS["n-quads"]))
    assert import_file(knowledge, file).added == 0
    more.write_bytes(file.read_bytes() + b"<urn:a:b> <urn:b:c> <urn:c:d> <urn:d:e> .\n")
    assert import_file(knowledge, more).added == 1
    # The run goes on; an old copy of it does not come back when the store is made anew.
    run.persist_now([Named(name="later")])
    before = knowledge.dump()
    assert knowledge.rebuild().problems == ()
    assert knowledge.dump() == before
    assert "later" in before


def test_classes_of_other_vocabularies_are_kept_shown_and_told(empty, tmp_path):
    file = tmp_path / "people.ttl"
    file.write_text("<https://example.org/ada> a <http://xmlns.com/foaf/0.1/Person> .")
    import_file(empty, file)
    found = validate(empty)
    assert (found.violations, found.unknown) == ((), ("http://xmlns.com/foaf/0.1/Person",))
    assert "foaf/0.1/Person" in kb("show", "https://example.org/ada", store=empty.folder).stdout
    with pytest.raises(KnowledgeError, match="of a class that is not known here"):
        empty.fetch("https://example.org/ada")
