"""Endpoints that want a password, are slow, talk too much, or hang up."""

import base64
import contextlib
import io
import json
import logging
import re
import time

import pytest
from endpoints import Cutter, Oxigraph, answering, environment, passing_on, reply
from knowledge_models import NAMESPACE, Named, Thing
from typer.testing import CliRunner

from grafico.cli.main import app
from grafico.errors import BadInput, KnowledgeError, QueryError
from grafico.knowledge import DIRECT, KnowledgeBase, RemoteKnowledgeBase, RunKnowledge, open_store
from grafico.knowledge.address import credentials, read_address

EMPTY = b'{"head":{"vars":["s","p","o"]},"results":{"bindings":[]}}'
SECRET = "s3cr3t-pässword"


@pytest.fixture
def nobody(monkeypatch):
    for name in ("GRAFICO_KB_USER", "GRAFICO_KB_PASSWORD", "GRAFICO_KB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def password(monkeypatch, nobody):
    monkeypatch.setenv("GRAFICO_KB_USER", "kb")
    monkeypatch.setenv("GRAFICO_KB_PASSWORD", SECRET)


def query(url, text="SELECT * { ?s ?p ?o }", **options):
    return RemoteKnowledgeBase(url).query(text, **options)


# Addresses


@pytest.mark.parametrize(
    ("address", "query_url", "update_url"),
    [
        ("http://h:7878", "http://h:7878/query", "http://h:7878/update"),
        ("https://h/ds/", "https://h/ds/query", "https://h/ds/update"),
        ("https://h/blazegraph/namespace/kb/sparql", *["https://h/blazegraph/namespace/kb/sparql"] * 2),
        ("https://h/ds/query", "https://h/ds/query", "https://h/ds/update"),
        ("https://h/sparql#update=/sparql-auth", "https://h/sparql", "https://h/sparql-auth"),
        ("https://h/repositories/kb#query=&update=kb/statements", "https://h/repositories/kb", "https://h/repositories/kb/statements"),
        ("http://[::1]:80/ds#query=/ds/sparql", "http://[::1]:80/ds/sparql", "http://[::1]:80/ds/update"),
    ],
)  # fmt: skip
def test_where_queries_and_updates_go_follows_from_the_address_or_is_said(address, query_url, update_url):
    found = read_address(address)
    assert (found.query_url, found.update_url) == (query_url, update_url)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://h/ds", "file:///etc/passwd", "http://", "http:///ds", "http://h:99999/", "http://h:no/", "http://h/a b",
        "https://h/ds#update=https://evil.example/steal", "https://h/ds#update=http://h/ds", "https://h/ds#graph=x",
        "http://h/<x>", "http://h/\r\nX: y", "https://u:secret@h/ds", "https://secret@h/ds", "http://[::1/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_no_password_is_repeated(address):
    with pytest.raises(BadInput) as caught:
        read_address(address)
    assert "secret" not in f"{caught.value.message}{caught.value.hint}"


def test_an_address_is_taken_where_a_folder_is(nobody, monkeypatch, tmp_path):
    monkeypatch.setenv("GRAFICO_KB", "http://127.0.0.1:9/ds")
    assert isinstance(open_store(), RemoteKnowledgeBase)
    assert open_store().place == "http://127.0.0.1:9/ds"
    assert isinstance(open_store(str(tmp_path)), KnowledgeBase)
    with pytest.raises(KnowledgeError, match="no folder"):
        KnowledgeBase()


# Credentials


def test_a_password_is_sent_to_the_server_and_shown_nowhere(server, password, caplog):
    caplog.set_level(logging.DEBUG)
    expected = "Basic " + base64.b64encode(f"kb:{SECRET}".encode()).decode()
    with answering(passing_on(server, lambda headers: headers["Authorization"] == expected)) as (url, asked):
        store = RemoteKnowledgeBase(url)
        store.persist(Named(name="a"))
        assert store.query(f"ASK {{ ?x <{NAMESPACE}name> 'a' }}").boolean
        assert store.fetch(Named(name="a").iri).name == "a"
    assert {path for _, path, _, _ in asked} == {"/query", "/update"}
    shown = f"{store!r} {store} {store._endpoint!r} {vars(store._endpoint)} {caplog.text}"
    assert all(secret not in shown for secret in (SECRET, expected, expected[6:]))


def test_a_token_goes_before_a_password(server, password, monkeypatch):
    monkeypatch.setenv("GRAFICO_KB_TOKEN", "t0ken")
    with answering(passing_on(server, lambda headers: headers["Authorization"] == "Bearer t0ken")) as (url, _):
        assert not query(url, "ASK { ?s ?p ?o }").boolean


def test_a_refused_or_missing_password_is_told_without_it(server, nobody, monkeypatch):
    def refuse(handler, body):
        reply(handler, 401, f"no {handler.headers['Authorization']}".encode(), "text/plain")

    with answering(refuse) as (url, asked):
        for use in (lambda: query(url), lambda: RemoteKnowledgeBase(url).persist(Named(name="a"))):
            with pytest.raises(KnowledgeError, match="is needed, and none is set"):
                use()
        monkeypatch.setenv("GRAFICO_KB_TOKEN", "t0ken")
        with pytest.raises(KnowledgeError, match="was refused") as caught:
            query(url)
        assert "t0ken" not in str(caught.value)
        # A server that repeats what it was sent.
        with answering(lambda h, _: reply(h, 400, h.headers["Authorization"].encode(), "text/plain")) as (other, _):
            with pytest.raises(QueryError, match="refuses the query") as caught:
                query(other)
            assert "t0ken" not in str(caught.value)
    assert all(path == "/query" for _, path, _, _ in asked)


@pytest.mark.parametrize("url", ["http://kb.example.org/ds", "http://10.0.0.1/ds", "http://[2001:db8::1]/ds"])
def test_a_password_is_not_sent_in_the_clear(url, password):
    with pytest.raises(BadInput, match="plain http"):
        open_store(url)


@pytest.mark.parametrize(
    "url", ["https://kb.example.org/ds", "http://localhost:1/ds", "http://127.0.0.1:1/ds", "http://[::1]:1/"]
)
def test_a_password_may_go_over_tls_or_to_this_machine(url, password):
    found = credentials(read_address(url))
    assert SECRET not in f"{found} {found!r}"
    open_store(url)


def test_half_of_a_password_is_told(nobody, monkeypatch):
    monkeypatch.setenv("GRAFICO_KB_USER", "kb")
    with pytest.raises(BadInput, match="belong together"):
        open_store("https://kb.example.org/ds")
    monkeypatch.setenv("GRAFICO_KB_TOKEN", "two words")
    with pytest.raises(BadInput, match="GRAFICO_KB_TOKEN"):
        open_store("https://kb.example.org/ds")


def test_updates_are_sent_as_a_form_where_the_address_says_so(server, nobody):
    with answering(passing_on(server)) as (url, asked):
        RemoteKnowledgeBase(f"{url}#updates=form").persist(Named(name="é+&=%"))
        assert RemoteKnowledgeBase(url).fetch(Named(name="é+&=%").iri).name == "é+&=%"
    assert {headers["Content-Type"] for _, _, headers, _ in asked} == {"application/x-www-form-urlencoded"}


def test_a_redirect_is_not_followed_with_the_password(password):
    with answering(lambda h, _: reply(h, 200, EMPTY)) as (elsewhere, stolen):

        def away(handler, body):
            reply(handler, 307, b"", "text/plain", Location=f"{elsewhere}/query")

        with answering(away) as (url, _):
            for use in (lambda: query(url), lambda: RemoteKnowledgeBase(url).persist(Named(name="a"))):
                with pytest.raises(KnowledgeError, match="points elsewhere"):
                    use()
    assert stolen == []


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, nobody):
    import ssl
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    certificate, key = _self_signed(tmp_path)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        with pytest.raises(KnowledgeError, match=r"no secure connection.*nothing was written"):
            RemoteKnowledgeBase(f"https://localhost:{server.server_address[1]}").dump()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _self_signed(folder):
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "c.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "k.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "c.pem", folder / "k.pem"


# Time and size


def test_a_query_is_ended_here_when_the_server_does_not_end_it(nobody):
    # A server of its own: it goes on with what nobody waits for.
    with contextlib.closing(Oxigraph()) as busy:
        _ask_too_much(RemoteKnowledgeBase(busy.url))


def _ask_too_much(store):
    store.persist(*[Thing(text=str(i), numbers=[1.0, 2.0]) for i in range(30)])
    cross = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(?a != ?j) }"
    with pytest.raises(QueryError, match=r"longer than 1 s"):
        store.query(cross, timeout_s=1)


def _drip(handler, body):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/sparql-results+json")
    handler.end_headers()
    with_head = b'{"head":{"vars":["s"]},"results":{"bindings":['
    handler.wfile.write(with_head)
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def _stall(handler, body):
    time.sleep(5)


@pytest.mark.parametrize("slow", [_drip, _stall], ids=["drop by drop", "not at all"])
def test_an_answer_that_comes_too_slowly_is_given_up(slow, nobody):
    with answering(slow) as (url, _):
        with pytest.raises(QueryError, match="longer than 1 s"):
            query(url, timeout_s=1)
        with pytest.raises(KnowledgeError, match=r"did not answer within 0.5 s"):
            RemoteKnowledgeBase(url, timeout_s=0.5).dump()
        if slow is _stall:
            with pytest.raises(KnowledgeError, match=r"did not confirm.*may have been written"):
                RemoteKnowledgeBase(url, timeout_s=0.5)._endpoint.update("INSERT DATA {}")


def _endless(handler, body):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/sparql-results+json")
    handler.end_headers()
    handler.wfile.write(b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"literal","value":"x"}}')
    row = b',{"s":{"type":"literal","value":"' + b"x" * 1000 + b'"}}'
    while True:
        handler.wfile.write(row * 100)


def test_rows_and_bytes_are_limited_here_whatever_the_server_sends(nobody):
    with answering(_endless) as (url, _):
        found = query(url, limit=5)
        assert (len(found), found.truncated) == (5, True)
        with pytest.raises(KnowledgeError, match="longer than 1000000 bytes"):
            RemoteKnowledgeBase(url, max_bytes=10**6).dump()


def test_a_literal_without_an_end_is_given_up(nobody):
    def one_literal(handler, body):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/sparql-results+json")
        handler.end_headers()
        handler.wfile.write(b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"literal","value":"')
        while True:
            handler.wfile.write(b"x" * 100_000)

    with answering(one_literal) as (url, _), pytest.raises(QueryError):
        query(url, memory_mib=512, timeout_s=20)


# Answers that are none


@pytest.mark.parametrize(
    ("status", "body", "media_type", "message"),
    [
        (200, b"<html>hello</html>", "text/html", "no answer to SPARQL"),
        (200, EMPTY[:-8], "application/sparql-results+json", "cut short"),
        (200, b'{"head":{},"boolean":true}', "application/sparql-results+json", "another kind of query"),
        (200, b"[]", "application/sparql-results+json", "no answer to SPARQL"),
        (404, b"no such dataset", "text/plain", r"404 \(no such dataset\).*no SPARQL query is taken there"),
        (400, b"line 1: \x1b[31mno", "text/plain", "refuses the query"),
        (500, b"out of memory", "text/plain", r"answered 500 \(out of memory\)"),
        (503, b"busy", "text/plain", r"answered 503 \(busy\)"),
    ],
)
def test_an_answer_that_is_none_is_told_as_what_it_is(status, body, media_type, message, nobody):
    with (
        answering(lambda handler, _: reply(handler, status, body, media_type)) as (url, asked),
        pytest.raises((KnowledgeError, QueryError), match=message) as caught,
    ):
        query(url)
    assert caught.value.message.isprintable()
    assert len(asked) == (3 if status == 503 else 1)


def test_a_busy_server_is_asked_again(nobody):
    statuses = [503, 429, 200]
    with answering(lambda handler, _: reply(handler, statuses.pop(0), EMPTY)) as (url, asked):
        assert len(query(url)) == 0
    assert len(asked) == 3


def test_a_server_that_is_not_there_is_told_and_nothing_was_written(nobody, tmp_path):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/ds"
        for use in (lambda: query(url), lambda: RemoteKnowledgeBase(url).persist(Named(name="a"))):
            with pytest.raises(KnowledgeError, match=r"cannot be reached.*nothing was written"):
                use()
        (tmp_path / "run").mkdir()
        run = RunKnowledge(tmp_path / "run", store=RemoteKnowledgeBase(url))
        run.persist_now([Named(name="a")])
    assert "is safe in" in run.problems[0]
    assert "cannot be reached" in run.problems[0]


# Connections that break


CUT = {"before the server heard": ("before",), "before the client heard": ("after",), "in the answer": ("within", 150)}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_connection_that_breaks_once_does_no_harm(cut, server):
    told = []
    for position in range(5):
        with Cutter(server, [None] * position + [cut]) as cutter:
            store = RemoteKnowledgeBase(f"{cutter.url}/#query=/query&update=/update")
            thing = Thing(iri=f"urn:x:{position}", text="t", numbers=[1.0, 2.0])
            for _ in range(3):
                try:
                    store.persist(thing)
                except KnowledgeError as error:
                    told.append(error.message)
                else:
                    break
            thing.count += 1
            store.persist(thing)
        found = RemoteKnowledgeBase(server.url).fetch(thing.iri)
        assert (found.count, found.numbers) == (1, [1.0, 2.0])
    # One break is mended without a word.
    assert told == []


def test_what_may_have_been_written_is_said_and_persisting_again_completes_it(server):
    direct = RemoteKnowledgeBase(server.url)
    direct.persist(Thing(iri="urn:x:t", text="t"))
    with Cutter(server) as cutter:
        store = RemoteKnowledgeBase(cutter.url)
        thing = store.fetch("urn:x:t")
        thing.count = 1
        store.persist(thing)
        thing.count = 2
        # The update arrives and is made; from then on every connection breaks.
        store = RemoteKnowledgeBase(cutter.url)
        store._graphs._apart, store._graphs._schemas = True, {q.graph_name for q in _schema(thing)}
        cutter.cuts = [None] + [("after",)] * 50
        store._endpoint._pool.clear()
        with pytest.raises(KnowledgeError, match=r"may have been written|whether they were made"):
            _persist_through_new_connections(store, thing)
        assert RemoteKnowledgeBase(server.url).fetch("urn:x:t").count == 2
        cutter.cuts = []
        # It was made; it is neither made twice nor taken for somebody else's.
        assert store.persist(thing).added == 0
        thing.count = 3
        store.persist(thing)
    assert RemoteKnowledgeBase(server.url).fetch("urn:x:t").count == 3


def _schema(thing):
    from grafico.knowledge.persist import Statement

    return Statement([thing], DIRECT).schema


def _persist_through_new_connections(store, thing):
    # Each request has a connection of its own, so that cuts can be counted.
    real = store._endpoint._post

    def post(*arguments):
        store._endpoint._pool.clear()
        return real(*arguments)

    store._endpoint._post = post
    try:
        store.persist(thing)
    finally:
        del store._endpoint._post


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_run_is_loaded_whole_over_connections_that_break(cut, server, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    RunKnowledge(folder, run_id="r").persist_now([Named(name="many", number=number) for number in range(50)])
    for position in range(4):
        server.update("DROP ALL")
        with Cutter(server, [None] * position + [cut] * 2) as cutter:
            RemoteKnowledgeBase(cutter.url).load_run(folder / "knowledge.nq")
        store = RemoteKnowledgeBase(server.url)
        assert store.load_run(folder / "knowledge.nq").model_dump() == {"added": 0, "removed": 0}
        # What queries see has come along.
        assert len(store._endpoint.select(f"SELECT ?x {{ ?x <{NAMESPACE}name> 'many' }}")) == 50


def test_a_fetch_takes_few_requests(server):
    store = RemoteKnowledgeBase(server.url)
    root = Named(
        name="root", parts=[Named(name="part", number=i, parts=[Named(name="leaf", number=i)]) for i in range(200)]
    )
    store.persist(root)
    with answering(passing_on(server)) as (url, asked):
        found = RemoteKnowledgeBase(url).fetch(root.iri, None)
        assert [part.parts[0].number for part in found.parts] == list(range(200))
    assert len(asked) <= 8


# What servers do to data


def test_a_server_that_rounds_numbers_is_refused_before_results_are_written(server, nobody, tmp_path):
    # As Virtuoso 7.2.5 does: six digits come back.
    def rounding(handler, body):
        original, handler.wfile = handler.wfile, io.BytesIO()
        passing_on(server)(handler, body)
        answer, handler.wfile = handler.wfile, original
        head, _, said = answer.getvalue().partition(b"\r\n\r\n")
        said = re.sub(rb"\d\.\d{7,}", lambda number: b"%.6g" % float(number[0]), said)
        original.write(re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(said), head) + b"\r\n\r\n" + said)

    folder = tmp_path / "run"
    folder.mkdir()
    RunKnowledge(folder, run_id="r").persist_now([Named(name="a")])
    with answering(rounding) as (url, _):
        store = RemoteKnowledgeBase(url)
        for use in (lambda: store.persist(Named(name="a")), lambda: store.load_run(folder / "knowledge.nq")):
            with pytest.raises(
                KnowledgeError, match=r"does not keep numbers exactly: 0\.30000000000000004 comes back as 0\.3"
            ):
                use()
    assert RemoteKnowledgeBase(server.url).dump() == ""


def test_an_answer_that_the_server_has_cut_is_not_taken_for_the_whole(nobody):
    rows = b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"literal","value":"x"}}]}}'
    with answering(lambda handler, _: reply(handler, 200, rows, **{"X-SPARQL-MaxRows": "1"})) as (url, _):
        found = query(url)
        assert (len(found), found.truncated) == (1, True)
        with pytest.raises(KnowledgeError, match="does not give all rows of an answer, but 1 at most"):
            RemoteKnowledgeBase(url).dump()


# Faces


def test_kb_commands_take_an_address(server, nobody, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    RunKnowledge(folder, run_id="one").persist_now([Named(name="a", number=7)])
    invoke = CliRunner().invoke
    done = invoke(app, ["kb", "rebuild", str(tmp_path / "runs"), "--store", server.url])
    assert (done.exit_code, "1 runs" in done.stdout) == (0, True), done.stderr
    monkeypatch.setenv("GRAFICO_KB", server.url)
    done = invoke(app, ["kb", "query", f"SELECT ?n {{ ?x <{NAMESPACE}number> ?n }}", "--json"])
    assert json.loads(done.stdout)["results"]["bindings"][0]["n"]["value"] == "7"
    assert "a" in invoke(app, ["kb", "show", Named(name="a", number=7).iri]).stdout
    done = invoke(app, ["kb", "show", "urn:x:nothing"])
    assert f"{server.url} holds nothing" in re.sub(r"\s+", " ", done.stderr)
    done = invoke(app, ["kb", "query", "ASK {}", "--store", "ftp://h/x"])
    assert (done.exit_code, "not the address" in done.stderr) == (2, True)
    assert environment()["GRAFICO_KB"] == server.url
