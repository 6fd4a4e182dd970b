"""Servers that drip, never end, or say aloud what they were told in confidence."""

import time

import pytest
from endpoints import answering, reply

from grafico.errors import KnowledgeError
from grafico.knowledge import RemoteKnowledgeBase
from grafico.knowledge.endpoint import Unanswerable, Uncertain

LIMIT_S, PATIENCE_S = 1.0, 30.0


@pytest.fixture(autouse=True)
def _nobody(monkeypatch):
    for name in ("GRAFICO_KB_USER", "GRAFICO_KB_PASSWORD", "GRAFICO_KB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def drip(handler, _body):
    handler.close_connection = True
    until = time.monotonic() + PATIENCE_S
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while time.monotonic() < until:
            handler.wfile.write(b"X-Drop: 1\r\n")
            time.sleep(0.05)
    except OSError:
        pass


def never_end(handler, _body):
    handler.close_connection = True
    until = time.monotonic() + PATIENCE_S
    try:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/sparql-results+json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while time.monotonic() < until:
            handler.wfile.write(b"400\r\n" + b" " * 1024 + b"\r\n")
            time.sleep(0.01)
    except OSError:
        pass


@pytest.mark.parametrize("serve", [drip, never_end])
def test_an_answer_that_comes_byte_by_byte_is_late_like_any_other(serve):
    with answering(serve) as (url, _), pytest.raises(Unanswerable, match="did not answer within 1 s"):
        RemoteKnowledgeBase(url, timeout_s=LIMIT_S).dump()


def test_changes_whose_answer_never_comes_are_uncertain():
    with answering(drip) as (url, _), pytest.raises(Uncertain, match="may have been written"):
        RemoteKnowledgeBase(url, timeout_s=LIMIT_S)._endpoint.update("INSERT DATA {}")


def test_what_follows_the_answer_to_changes_is_not_waited_for():
    with answering(never_end) as (url, _):
        RemoteKnowledgeBase(url, timeout_s=PATIENCE_S * 4)._endpoint.update("INSERT DATA {}")


@pytest.mark.parametrize(("user", "password"), [("ada", "pass word-7f3"), ("ada", "sesame-7f3")])
def test_a_server_that_repeats_the_password_is_not_quoted(monkeypatch, user, password):
    def rude(handler, _body):
        said = f"no {password} and {handler.headers['Authorization']}"
        reply(handler, 500, said.encode(), "text/plain")

    monkeypatch.setenv("GRAFICO_KB_USER", user)
    monkeypatch.setenv("GRAFICO_KB_PASSWORD", password)
    with answering(rude) as (url, asked), pytest.raises(KnowledgeError) as caught:
        RemoteKnowledgeBase(url, timeout_s=30).dump()
    assert "no …" in caught.value.message
    assert "7f3" not in caught.value.message
    secret = asked[0][2]["Authorization"].split()[1]
    assert secret not in caught.value.message
