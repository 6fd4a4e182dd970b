import json

import pytest
from endpoints import BOTH
from knowledge_models import Named, Thing

from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge import Term
from grafico.knowledge.readonly import check_query

T = "https://example.org/test#"
EVIL = "http://127.0.0.1:9999/sparql"

HOSTILE = {
    "insert data": "INSERT DATA { <urn:a> <urn:b> <urn:c> }",
    "delete data": "DELETE DATA { <urn:a> <urn:b> <urn:c> }",
    "delete where": "DELETE WHERE { ?s ?p ?o }",
    "modify": "DELETE { ?s ?p ?o } INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
    "with": "WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "load": "LOAD <http://127.0.0.1:9999/x.ttl>",
    "load into": "LOAD SILENT <file:///etc/passwd> INTO GRAPH <urn:g>",
    "clear": "CLEAR ALL",
    "drop": "DROP SILENT GRAPH <urn:g>",
    "create": "CREATE GRAPH <urn:g>",
    "copy": "COPY DEFAULT TO <urn:g>",
    "move": "MOVE <urn:g> TO DEFAULT",
    "add": "ADD <urn:g> TO <urn:h>",
    "lower case": "insert data { <urn:a> <urn:b> <urn:c> }",
    "update after a query": "SELECT * WHERE { ?s ?p ?o } ; DROP ALL",
    "update after a prologue": "PREFIX a: <urn:a>\nBASE <urn:b>\nCLEAR DEFAULT",
    "update after a comment": "# SELECT * { ?s ?p ?o }\nDROP ALL",
    "two updates": "INSERT DATA {} ; DROP ALL",
    "service": f"SELECT * WHERE {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service silent": f"SELECT * WHERE {{ SERVICE SILENT <{EVIL}> {{ ?s ?p ?o }} }}",
    "service variable": f"SELECT * WHERE {{ BIND(<{EVIL}> AS ?e) SERVICE ?e {{ ?s ?p ?o }} }}",
    "service in lower case": f"select * where {{ service <{EVIL}> {{ ?s ?p ?o }} }}",
    "service in a subquery": f"SELECT * {{ {{ SELECT ?s {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }} }} }}",
    "service in optional": f"SELECT * {{ ?a ?b ?c OPTIONAL {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }} }}",
    "service in a filter": f"SELECT * {{ ?a ?b ?c FILTER EXISTS {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }} }}",
    "service in minus": f"SELECT * {{ ?a ?b ?c MINUS {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }} }}",
    "service in a union": f"SELECT * {{ {{}} UNION {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }} }}",
    "service in construct": f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service in ask": f"ASK {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service in describe": f"DESCRIBE ?s WHERE {{ SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service without a space": f"SELECT*{{SERVICE<{EVIL}>{{?s ?p ?o}}}}",
    "service as a prefixed name": f"PREFIX : <{EVIL}> SELECT * {{ SERVICE:x {{ ?s ?p ?o }} }}",
    "service silent glued": f"SELECT * {{ SERVICESILENT<{EVIL}> {{ ?s ?p ?o }} }}",
    "service glued to a literal": f"SELECT * {{ ?a ?b trueSERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service after a comment": f"SELECT * {{ # nothing here\n SERVICE # or here\n <{EVIL}> {{ ?s ?p ?o }} }}",
    "service after a false comment": f"SELECT * {{ ?a <urn:x#> ?b SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service after an escaped iri": f"SELECT * {{ ?a <urn:\\u00e9#> ?b . SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service after an escaped name": f"PREFIX x: <urn:x> SELECT * {{ ?a x:b\\#c ?b . SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service after an open string": f"SELECT * {{ ?a ?b 'x\\'' . SERVICE <{EVIL}> {{ ?s ?p '' }} }}",
    "service after a long string": f'SELECT * {{ ?a ?b """"x""" . SERVICE <{EVIL}> {{ ?s ?p "" }} }}',
    "service after less than": f"SELECT * {{ ?a ?b ?c FILTER(?a<?b) SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "service in unicode": "SELECT * { \\u0053ERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "service in long unicode": "SELECT * { \\U00000053ERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "a quote in unicode": f'SELECT * {{ ?a ?b "\\u0022 . SERVICE <{EVIL}> {{ ?s ?p ?o }} # " }}',
    "from elsewhere": f"SELECT * FROM <{EVIL}> WHERE {{ ?s ?p ?o }}",
    "from named elsewhere": "SELECT * FROM NAMED <file:///etc/passwd> WHERE { GRAPH ?g { ?s ?p ?o } }",
    "from a relative iri": "BASE <http://127.0.0.1:9/> SELECT * FROM <x> WHERE { ?s ?p ?o }",
    "from a prefixed name": "PREFIX x: <http://127.0.0.1:9/> SELECT * FROM x:y WHERE { ?s ?p ?o }",
    "deep nesting": "SELECT * WHERE " + "{" * 3000 + "}" * 3000,
    "deep parentheses": "SELECT * WHERE { ?s ?p ?o FILTER(" + "(" * 3000 + "1" + ")" * 3000 + ") }",
    "long": "SELECT * WHERE { ?s ?p ?o }" + " " * 60_000,
    "nul": "SELECT * WHERE { ?s ?p '\x00' }",
    "empty": "  \n ",
    "half": "SELECT * WHERE {",
    "not SPARQL": "'; DROP TABLE molecules; --",
    "unknown prefix": "SELECT * { ?s nobody:knows ?o }",
    "surrogate": "SELECT * { ?s ?p '\ud800' }",
}

HARMLESS = {
    "a word in a string": "SELECT * { ?s ?p 'SERVICE' FILTER(?p != \"DROP ALL\") }",
    "a word in a comment": "SELECT * { ?s ?p ?o } # INSERT DATA {} SERVICE",
    "a word in an iri": "SELECT * { ?s <urn:SERVICE#INSERT> ?o }",
    "a word in a name": "PREFIX x: <urn:x> SELECT * { ?s x:service ?insert }",
    "a word as a variable": "SELECT ?service $load { ?service ?p $load }",
    "from a run by a prefixed name": "SELECT * FROM run:first { ?s ?p ?o }",
    "from a run": "SELECT * FROM <https://w3id.org/grafico/run/first> { ?s ?p ?o }",
    "paths, values, aggregates": "SELECT ?t (COUNT(*) AS ?n) { VALUES ?t { grafico:Run } ?s a/rdfs:subClassOf* ?t } GROUP BY ?t HAVING(?n > 0)",
    "graph": "SELECT ?g { GRAPH ?g { ?s a ?t } } LIMIT 1",
    "describe": "DESCRIBE <urn:x>",
    "text beyond ASCII": "SELECT * { ?s rdfs:label 'caf\\u00e9 é 水' }",
}


def pass_gate_and_parser(query, knowledge):
    check_query(query)
    # What the gate lets pass, the store's own parser must refuse.
    knowledge.query(query, timeout_s=10)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_query_is_refused_before_it_reaches_a_store(name, knowledge):
    with pytest.raises(QueryError) as caught:
        pass_gate_and_parser(HOSTILE[name], knowledge)
    assert len(caught.value.message) < 500
    assert "Traceback" not in caught.value.message


@BOTH
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_query_is_answered(name, run, knowledge):
    assert check_query(HARMLESS[name]) in ("select", "describe")
    run.persist_now([Named(name="a")])
    knowledge.query(HARMLESS[name])


@pytest.mark.parametrize("name", ["insert data", "service", "service in unicode", "deep parentheses", "surrogate"])
def test_the_process_that_answers_has_the_same_gate(name, knowledge):
    with pytest.raises(QueryError):
        knowledge.query(HOSTILE[name], timeout_s=10)


def test_a_refusal_says_what_is_refused_and_where():
    with pytest.raises(QueryError, match="SERVICE is refused"):
        check_query(HOSTILE["service"])
    with pytest.raises(QueryError, match="INSERT is refused"):
        check_query(HOSTILE["insert data"])
    with pytest.raises(QueryError, match="line 2, column"):
        check_query("SELECT *\nWHERE { ?s ?p }")


def test_an_endless_query_is_ended_and_the_store_is_free_again(run, knowledge):
    run.persist_now([Thing(text=str(i), numbers=[1.0, 2.0, 3.0]) for i in range(30)])
    cross = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?o ?q FILTER(?a != ?q) }"
    with pytest.raises(QueryError, match=r"longer than 0.5 s"):
        knowledge.query(cross, timeout_s=0.5)
    run.persist_now([Named(name="after")])
    assert knowledge.query(f"ASK {{ ?x <{T}name> 'after' }}").boolean


def test_a_query_that_eats_memory_is_ended(run, knowledge):
    run.persist_now([Thing(text="x" * 1000)])
    doubling = " ".join(f"BIND(CONCAT(?x{i}, ?x{i}) AS ?x{i + 1})" for i in range(24))
    with pytest.raises((QueryError, KnowledgeError)) as caught:
        knowledge.query(f"SELECT (STRLEN(?x24) AS ?n) {{ ?s <{T}text> ?x0 {doubling} }}", memory_mib=1024, timeout_s=20)
    assert "memory" in caught.value.message or "longer" in caught.value.message


@BOTH
def test_rows_are_limited_and_the_answer_says_so(run, knowledge):
    run.persist_now([Named(name="n", number=i) for i in range(12)])
    query = f"SELECT ?n {{ ?x <{T}number> ?n }} ORDER BY ?n"
    some, every = knowledge.query(query, limit=5), knowledge.query(query, limit=12)
    assert ([row["n"] for row in some.values()], some.truncated) == ([0, 1, 2, 3, 4], True)
    assert (len(every), every.truncated) == (12, False)
    assert len(knowledge.query("CONSTRUCT WHERE { ?s ?p ?o }", limit=3)) == 3


@pytest.mark.parametrize(("option", "value"), [("limit", 0), ("limit", 10**9), ("timeout_s", 0), ("timeout_s", 1e9)])
def test_limits_have_limits(knowledge, option, value):
    with pytest.raises(QueryError):
        knowledge.query("ASK {}", **{option: value})


INJECTIONS = [
    '" } ; DROP ALL #',
    "' UNION SELECT * { ?s ?p ?o } #",
    'x"@en . ?s ?p ?o . FILTER("',
    "\\",
    '\\" . SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } #',
    "\n\r\t\x00\x7f",
    '"""',
    "\\u0022",
    "> <urn:x> <urn:y> .\n<urn:evil> <urn:evil> <urn:evil>",
    '"^^<http://www.w3.org/2001/XMLSchema#integer>',
    "é水🧪\u202e",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_stays_text_on_the_way_in_and_out(text, run, knowledge):
    run.persist_now([Named(name=text, number=1), Named(name="other", number=2)])
    found = knowledge.query(f"SELECT ?x ?n {{ ?x <{T}name> ?name ; <{T}number> ?n }}", bind={"name": text})
    assert [row["n"] for row in found.values()] == [1]
    assert knowledge.fetch(found.values()[0]["x"]).name == text
    assert "urn:evil" not in {quad.split(">")[0] for quad in knowledge.dump().splitlines()}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?n {{ ?x <{T}name> ?name ; <{T}number> ?n }}",
        "SELECT (MAX(?m) AS ?n) {{ ?x <{T}name> ?name ; <{T}number> ?m }} GROUP BY ?x",
        "SELECT ?n {{ SELECT ?name ?n {{ ?x <{T}name> ?name ; <{T}number> ?n }} }}",
        "SELECT ?n {{ # }} {{\n ?x <{T}name> ?other ; <{T}number> ?n FILTER(?other = ?name) }} ORDER BY ?n",
        "SELECT (EXISTS {{ ?x ?y '}}' }} AS ?e) ?n {{ ?x <{T}name> ?name ; <{T}number> ?n }}",
    ],
)
@BOTH
def test_a_value_is_bound_wherever_the_variable_stands(query, run, knowledge):
    run.persist_now([Named(name="a", number=1), Named(name="b", number=2)])
    assert [row["n"] for row in knowledge.query(query.format(T=T), bind={"name": "b"}).values()] == [2]


@pytest.mark.parametrize("iri", ["urn:x> ?p ?o . <urn:y", "not an iri", "http://a b/", "", "urn:\u0000"])
def test_an_iri_that_is_bound_is_checked(iri, knowledge):
    with pytest.raises(QueryError, match="not an absolute IRI"):
        knowledge.query("SELECT * { ?s ?p ?o }", bind={"s": Term(type="uri", value=iri)})


@pytest.mark.parametrize("name", ["s ?p ?o", "s}", "", "1", "é"])
def test_the_name_of_a_bound_variable_is_checked(name, knowledge):
    with pytest.raises(QueryError, match="name of a variable"):
        knowledge.query("SELECT * { ?s ?p ?o }", bind={name: 1})


@BOTH
def test_values_of_all_kinds_can_be_bound(run, knowledge):
    thing = Thing(text="t", energy=float("inf"), count=3, flag=True)
    run.persist_now([thing])
    for name, value in (("text", "t"), ("energy", float("inf")), ("count", 3), ("flag", True)):
        assert knowledge.query(f"ASK {{ ?s <{T}{name}> ?v }}", bind={"v": value}).boolean, name
    assert knowledge.query("ASK { ?s a ?t }", bind={"s": thing}).boolean
    assert not knowledge.query("ASK { ?s a ?t }", bind={"s": Thing(text="u")}).boolean


@BOTH
def test_answers_are_typed_and_serialize_as_the_standard_says(run, knowledge):
    run.persist_now([Thing(text="é", energy=-1.5, flag=True)])
    query = (
        f"SELECT ?t ?e ?f ?none {{ ?s <{T}text> ?t ; <{T}energy> ?e ; <{T}flag> ?f OPTIONAL {{ ?s <urn:x> ?none }} }}"
    )
    result = knowledge.query(query)
    assert result.values() == [{"t": "é", "e": -1.5, "f": True, "none": None}]
    body = json.loads(json.dumps(result.sparql_json()))
    assert body["head"]["vars"] == ["t", "e", "f", "none"]
    assert body["results"]["bindings"][0]["e"] == {
        "type": "literal",
        "value": "-1.5",
        "datatype": "http://www.w3.org/2001/XMLSchema#double",
    }
    assert "none" not in body["results"]["bindings"][0]
    assert knowledge.query("ASK {}").sparql_json() == {"head": {}, "boolean": True}


@pytest.mark.parametrize("query", ["SELECT * { ?s foo:bar ?o }", "DESCRIBE foo:x", "ASK { ?s ?p 'a'^^foo:t }"])
def test_a_prefix_that_stands_for_nothing_is_named(query):
    with pytest.raises(QueryError, match="the prefix foo: stands for nothing") as caught:
        check_query(query)
    assert "chem" in caught.value.hint
    assert check_query(f"PREFIX foo: <urn:x> {query}")


def test_what_only_the_store_refuses_is_told_in_words(knowledge):
    with pytest.raises(QueryError) as caught:
        knowledge.query("SELECT * { ?s ?p ?o } LIMIT 99999999999999999999999999")
    assert caught.value.message.endswith("line 1, column 55: The query limit should be a non negative integer")


@pytest.mark.parametrize("value", ["\ud800", 10**5000], ids=["half a sign", "5000 digits"])
def test_a_value_that_no_text_can_hold_is_refused(value, knowledge):
    with pytest.raises(QueryError, match=r"\?v cannot be bound to a value that no text can hold"):
        knowledge.query("ASK { ?s ?p ?v }", bind={"v": value})
