"""Endpoints for tests: a real SPARQL server, and what may stand between it and its clients.

All of them listen on a loopback address only.
"""

import contextlib
import ctypes
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

HOST = "127.0.0.1"

BOTH = pytest.mark.parametrize("knowledge", ["folder", "http"], indirect=True)
"""Marks tests that run against the embedded store and against a real server."""


_LIBC = ctypes.CDLL(None)


def _end_with_parent():
    # PR_SET_PDEATHSIG: a test run that is killed leaves no server behind.
    _LIBC.prctl(1, 9)


class Oxigraph:
    """`oxigraph serve`, in memory."""

    def __init__(self):
        program = Path(sys.executable).with_name("oxigraph")
        for _ in range(5):
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                self.port = probe.getsockname()[1]
            command = [str(program), "serve", "--bind", f"{HOST}:{self.port}"]
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one call into the kernel, which takes no lock
            )
            if self._answers():
                return
            self.close()
        raise AssertionError(f"oxigraph does not start: {self._said}")

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    def update(self, text):
        request = urllib.request.Request(
            f"{self.url}/update", data=text.encode(), headers={"Content-Type": "application/sparql-update"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 204

    def close(self):
        self._process.kill()
        self._said = self._process.communicate()[1]

    def _answers(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return True
            time.sleep(0.02)
        return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that hang up are what is tested


@contextlib.contextmanager
def answering(answer):
    """Serve ``answer(handler, body)``; yields the address and what was asked: method, path, headers, body."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.command, self.path, dict(self.headers), body.decode()))
            answer(self, body)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    server = _Server((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(handler, status, body=b"", media_type="application/sparql-results+json", **headers):
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def passing_on(server, allowed=lambda headers: True):
    """Answer as a reverse proxy that asks for credentials."""

    def answer(handler, body):
        if not allowed(handler.headers):
            reply(handler, 401, b"who are you?", "text/plain", **{"WWW-Authenticate": "Basic"})
            return
        connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
        kept = {name: handler.headers[name] for name in ("Content-Type", "Accept")}
        connection.request("POST", handler.path, body=body, headers=kept)
        found = connection.getresponse()
        reply(handler, found.status, found.read(), found.getheader("Content-Type") or "text/plain")
        connection.close()

    return answer


class Cutter:
    """A TCP proxy that cuts connections where it is told to.

    ``cuts`` is taken from, one entry a connection: ``None`` passes all, ``("before",)`` cuts before the server hears
    of it, ``("after",)`` once the server has answered but before its client hears, ``("within", n)`` after n bytes
    of the answer; an empty list passes all.
    """

    def __init__(self, server, cuts=()):
        self.cuts = list(cuts)
        self.connections = 0
        self._target = (HOST, server.port)
        self._socket = socket.create_server((HOST, 0))
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self.connections += 1
                cut = self.cuts.pop(0) if self.cuts else None
                threading.Thread(target=self._serve, args=(client, cut), daemon=True).start()

    def _serve(self, client, cut):
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            while request := _message(client):
                if cut == ("before",):
                    return
                server.sendall(request)
                answer = _message(server)
                if cut == ("after",):
                    return
                if cut is not None and cut[0] == "within":
                    client.sendall(answer[: cut[1]])
                    return
                client.sendall(answer)


def _message(connection):
    """Return one HTTP message, whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head = data.partition(b"\r\n\r\n")[0].lower()
    if b"transfer-encoding: chunked" in head:
        while not data.endswith(b"0\r\n\r\n"):
            data += connection.recv(65536) or _gone()
        return data
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")), 0)
    while len(data) < len(head) + 4 + length:
        data += connection.recv(65536) or _gone()
    return data


def _gone():
    raise OSError("the other end is gone")


def environment(**changes):
    return {**os.environ, **changes}
