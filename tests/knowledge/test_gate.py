"""Hostile queries, values and identifiers: none changes a triple, outlasts its time, or breaks out of its literal.

The first set of queries is in ``test_queries.py``; this adds disguises that some server, somewhere, might understand, what
is allowed and costs too much, and the same against a server over HTTP, where a query is read here before it is sent.
"""

import contextlib

import pytest
from endpoints import BOTH, Oxigraph, answering, reply
from knowledge_models import NAMESPACE, Named, Thing
from test_queries import EVIL, HOSTILE, INJECTIONS

from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge import Entity, KnowledgeBase, RemoteKnowledgeBase, Term, run_iri
from grafico.knowledge.readonly import check_query

DISGUISED = {
    "an update after a whole query": "SELECT * { ?s ?p ?o } INSERT DATA { <urn:a> <urn:b> <urn:c> }",
    "an update after ask": "ASK {} #\n; DROP ALL",
    "an update after construct": "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o } ; CLEAR ALL",
    "an update after values": "SELECT * { ?s ?p ?o } VALUES ?x { 1 } ; DELETE WHERE { ?s ?p ?o }",
    "an update within a group": "SELECT * { ?s ?p ?o . DELETE { ?s ?p ?o } }",
    "an update in a subquery": "SELECT * { { DELETE WHERE { ?s ?p ?o } } }",
    "using": "DELETE { ?s ?p ?o } USING <urn:g> WHERE { ?s ?p ?o }",
    "a vertical tab": "INSERT\x0bDATA { <urn:a> <urn:b> <urn:c> }",
    "a form feed": "DROP\x0cALL",
    "a no-break space": "DROP\u00a0ALL",
    "a zero-width space": "DR\u200bOP ALL",
    "a byte order mark": "\ufeffDROP ALL",
    "full-width letters": "\uff24\uff32\uff2f\uff30 ALL",
    "letters of another script": "SELECT * { \u0405ERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "a long s": f"SELECT * {{ \u017fERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "text from right to left": "SELECT * { ?s ?p ?o } \u202e{ }LLA PORD",
    "a line separator that ends no comment": f"SELECT * {{ # x\u2028 }}\r SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "a carriage return that ends a comment": f"SELECT * {{ # }} # \r SERVICE <{EVIL}> {{ ?s ?p ?o }} }}",
    "a comment in a word": "SELECT * { SER#\nVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "percent signs": "%49NSERT%20DATA%20%7B%7D",
    "entities": "&#73;NSERT DATA {}",
    "a parameter more": "ASK {}&update=DROP%20ALL",
    "a header more": "ASK {}\r\nX-Update: DROP ALL",
    "pragmas": 'DEFINE get:soft "replace" SELECT * FROM <http://127.0.0.1:9/x> { ?s ?p ?o }',
    "an output pragma": 'DEFINE output:format "HTTP+XML application/xml" SELECT * { ?s ?p ?o }',
    "a function that runs programs": "SELECT (bif:exec('id') AS ?x) {}",
    "a function by its whole name": "SELECT * { ?s ?p ?o FILTER(<http://www.openlinksw.com/schemas/bif#exec>('id')) }",
    "a function in Java": "SELECT * { ?s ?p ?o FILTER(<java:org.example.Run>(?o)) }",
    "a property in Java": "SELECT * { ?s <java:org.example.Run> ?o }",
    "a prefix for Java": "PREFIX j: <java:org.example.> SELECT (j:Run(1) AS ?x) {}",
    "a prefix that pretends": "PREFIX xsd: <http://www.openlinksw.com/schemas/bif#> SELECT (xsd:exec('id') AS ?x) {}",
    "a function with a distinct argument": "SELECT (<http://x/f>(DISTINCT ?s) AS ?n) { ?s ?p ?o }",
    "a named subquery": "SELECT * WITH { SELECT * { ?s ?p ?o } } AS %x { INCLUDE %x }",
    "lateral": f"SELECT * {{ ?s ?p ?o LATERAL {{ SERVICE <{EVIL}> {{ ?a ?b ?c }} }} }}",
    "from by a base and dots": "BASE <https://w3id.org/grafico/run/> SELECT * FROM <../../../evil> { ?s ?p ?o }",
    "from by dots": "SELECT * FROM <https://w3id.org/grafico/run/../../../evil> { ?s ?p ?o }",
    "from by a prefix and dots": "PREFIX x: <https://w3id.org/grafico/../../> SELECT * FROM x:evil { ?s ?p ?o }",
    "from with a fragment": "SELECT * FROM <http://127.0.0.1:9/#https://w3id.org/grafico/> { ?s ?p ?o }",
    "from of a lookalike": "SELECT * FROM <https://w3id.org/grafico.evil.example/> { ?s ?p ?o }",
    "describe from elsewhere": "DESCRIBE <urn:x> FROM <http://127.0.0.1:9/>",
    "an escaped letter in an iri": "SELECT * FROM <http\\u003a//127.0.0.1:9/> { ?s ?p ?o }",
    "an escape beyond Unicode": "SELECT * { ?s ?p '\\U00110000' }",
    "a brace in a string that is not closed": "SELECT * { ?s ?p '''} ; DROP ALL",
    "many open braces": "SELECT * " + "{ ?s ?p ?o OPTIONAL " * 70 + "{}" + "}" * 70,
    "many brackets": "SELECT * { ?s ?p " + "[ ?p " * 70 + "1" + " ]" * 70 + " }",
    "many parentheses in a path": "SELECT * { ?s " + "(" * 70 + "<urn:p>" + ")*" * 70 + " ?o }",
    "many signs of not": "SELECT * { ?s ?p ?o FILTER(" + "!(" * 70 + "?o" + ")" * 70 + ") }",
    "a literal of a megabyte": f"SELECT * {{ ?s ?p '{'x' * 2**20}' }}",
    "a hundred thousand values": "SELECT * { VALUES ?x { " + "1 " * 100_000 + "} }",
}

COSTLY = {
    "a cross join": "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(?a != ?j && ?c != ?l) }",
    "a path of paths": "SELECT (COUNT(*) AS ?n) { ?a ((!<urn:x>)*/(!<urn:y>)*/(!<urn:z>)*)* ?b . ?c (!<urn:x>|^(!<urn:y>))* ?d . ?e (!<urn:z>)+ ?f }",
    "an order over a cross join": "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?c ?f ?i",
    "a text of all texts": "SELECT (GROUP_CONCAT(CONCAT(STR(?a), STR(?d), STR(?g))) AS ?t) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }",
}


def filled(knowledge):
    knowledge.persist(*[Thing(iri=f"urn:x:{i}", text=f"{i} {'x' * 50}", numbers=[float(i), 2.0]) for i in range(80)])
    return knowledge.dump()


def test_there_are_enough_of_them():
    assert len({*HOSTILE.values(), *DISGUISED.values(), *COSTLY.values()}) + len(INJECTIONS) + len(IDENTIFIERS) >= 120


@pytest.mark.parametrize("name", DISGUISED)
def test_a_disguise_is_seen_through(name):
    with pytest.raises(QueryError) as caught:
        check_query(DISGUISED[name])
    assert len(caught.value.message) < 500


def test_nothing_hostile_is_sent_to_an_endpoint():
    with answering(lambda handler, _: reply(handler, 200, b'{"head":{"vars":[]},"results":{"bindings":[]}}')) as (
        url,
        asked,
    ):
        store = RemoteKnowledgeBase(url)
        for name in ("pragmas", "a function in Java", "lateral", "an update after ask", "many brackets"):
            with pytest.raises(QueryError):
                store.query(DISGUISED[name])
        for name in ("service in unicode", "update after a query", "surrogate", "from elsewhere"):
            with pytest.raises(QueryError):
                store.query(HOSTILE[name])
        assert asked == []
        store.query("SELECT * { ?s ?p ?o }")
    (sent,) = asked
    assert sent[:2] == ("POST", "/query")
    assert sent[3].startswith("query=SELECT")


@pytest.mark.parametrize("where", ["folder", "http"])
def test_what_costs_too_much_is_ended_and_changes_nothing(where, tmp_path):
    # A server of its own: it goes on with what nobody waits for.
    with contextlib.ExitStack() as stack:
        if where == "folder":
            knowledge = KnowledgeBase(tmp_path / "kb")
        else:
            knowledge = RemoteKnowledgeBase(stack.enter_context(contextlib.closing(Oxigraph())).url)
        before = filled(knowledge)
        for name, query in COSTLY.items():
            with pytest.raises((QueryError, KnowledgeError)) as caught:
                raise QueryError(f"{name} was answered: {knowledge.query(query, timeout_s=1, memory_mib=1024)}")
            assert any(word in caught.value.message for word in ("longer than 1 s", "memory")), caught.value.message
        assert knowledge.dump() == before


@BOTH
def test_a_large_answer_is_cut_where_the_limit_says(knowledge):
    filled(knowledge)
    found = knowledge.query("SELECT ?a ?d { ?a ?b ?c . ?d ?e ?f }", limit=7)
    assert (len(found), found.truncated) == (7, True)


@BOTH
def test_text_stays_text_wherever_it_goes(knowledge, another):
    named = [Named(name=text, number=number, remark=text) for number, text in enumerate(INJECTIONS)]
    knowledge.persist(*named)
    before = knowledge.dump()
    for one in named:
        assert another().fetch(one.iri).remark == one.remark
    # All of them in one query, each beside what it was bound to.
    for text in INJECTIONS[:3]:
        query = f"SELECT ?n {{ ?x <{NAMESPACE}name> ?t ; <{NAMESPACE}number> ?n }}"
        assert knowledge.query(query, bind={"t": text}).values() == [{"n": INJECTIONS.index(text)}]
    for one in named:
        one.remark = f"{one.remark}!"
    knowledge.persist(*named)
    assert knowledge.dump().count('!" <') == len(INJECTIONS)
    for one in named:
        one.remark = one.name
    knowledge.persist(*named)
    assert [line for line in knowledge.dump().splitlines() if "committedAt" not in line] == [
        line for line in before.splitlines() if "committedAt" not in line
    ]


@BOTH
def test_a_value_is_bound_in_every_form_of_query(knowledge):
    knowledge.persist(Named(name="a } ; DROP ALL #", number=1), Named(name="b", number=2))
    bind = {"t": "a } ; DROP ALL #"}
    where = f"?x <{NAMESPACE}name> ?t"
    iri = Named(name="a } ; DROP ALL #", number=1).iri
    assert knowledge.query(f"ASK {{ {where} }}", bind=bind).boolean
    assert not knowledge.query(f"ASK {{ {where} FILTER(?t = 'b') }}", bind=bind).boolean
    for query in (
        f"CONSTRUCT {{ ?x a <urn:x:Found> }} WHERE {{ {where} }}",
        f"CONSTRUCT WHERE {{ {where} }}",
        f"DESCRIBE ?x WHERE {{ {where} }}",
    ):
        rows = knowledge.query(query, bind=bind).rows
        assert {row[0].value for row in rows} == {iri}, query


IDENTIFIERS = [
    "urn:x> <urn:p> <urn:o> . <urn:y",
    "urn:x> } } ; DROP ALL #",
    "urn:x>}UNION{?s ?p ?o}#",
    "urn:x\n> { }",
    "urn:x\\u003e",
    "urn:x%3",
    "urn:x\u0000",
    "urn:{x}",
    'urn:"x"',
    "urn:x y",
    "urn:`x`",
    "urn:\ud800",
    "x",
    "",
    "_:b",
    "javascript alert(1)",
    f"urn:{'x' * 5000}",
]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
@BOTH
def test_an_identifier_is_checked_on_every_way_in(identifier, knowledge):
    for use in (
        lambda: knowledge.fetch(identifier or "\n"),
        lambda: knowledge.fetch("urn:x:a", run=identifier),
        lambda: knowledge.persist(Named(name="a"), into=identifier),
        lambda: knowledge.persist(Thing(text="t", link=identifier)),
        lambda: Named(name="a", iri=identifier or " "),
        lambda: (
            Term(type="uri", value=identifier)
            and knowledge.query("ASK {}", bind={"s": Term(type="uri", value=identifier)})
        ),
    ):
        with pytest.raises((QueryError, KnowledgeError)):
            use()
    assert knowledge.dump() == ""


def test_a_class_cannot_have_such_a_name(registry):
    with pytest.raises(QueryError):
        type("Evil", (Entity,), {"namespace": "urn:x> . <urn:", "__module__": __name__})


def test_what_an_endpoint_calls_an_iri_is_not_asked_for():
    iri = Named(name="a").iri
    evil = "urn:x> } } ; DROP ALL #"
    rows = [("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"{NAMESPACE}Named"), (f"{NAMESPACE}parts", evil)]

    def answer(handler, body):
        import json

        found = [
            {
                "g": {"type": "uri", "value": run_iri("r")},
                "s": {"type": "uri", "value": iri},
                "p": {"type": "uri", "value": p},
                "o": {"type": "uri", "value": o},
            }
            for p, o in rows
        ]
        document = {"head": {"vars": ["g", "s", "p", "o", "when"]}, "results": {"bindings": found}}
        reply(handler, 200, json.dumps(document).encode())

    with answering(answer) as (url, asked), pytest.raises((KnowledgeError, QueryError)):
        RemoteKnowledgeBase(url).fetch(iri, None)
    assert asked
    assert all("DROP" not in body for _, _, _, body in asked)
