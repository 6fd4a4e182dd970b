"""An OpenAI-compatible server that does what a script says, hostile things above all."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[[Any, dict[str, Any]], None]


class ScriptedServer:
    """Serves ``/v1/chat/completions``; each call takes the next step of the script, the last one for ever."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                outer.times.append(time.monotonic())
                outer.requests.append(body)
                number = min(len(outer.requests), len(outer.steps)) - 1
                outer.steps[number](self, body)

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.outer = self  # type: ignore[attr-defined]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self) -> "ScriptedServer":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


def says(text: str, *, finish: str = "stop", prompt_tokens: int | None = None) -> Step:
    """Answer with a text."""

    def step(handler: Any, body: dict[str, Any]) -> None:
        read = sum(len(message["content"]) for message in body["messages"]) // 4
        answer = {
            "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
            "usage": {
                "prompt_tokens": read if prompt_tokens is None else prompt_tokens,
                "completion_tokens": max(1, len(text) // 4), "total_tokens": read + 1,
            },
        }  # fmt: skip
        reply(handler, 200, answer)

    return step


def route(successor: str, **parameters: Any) -> Step:
    """Answer with a route."""
    return says(json.dumps({"successor": successor, "parameters": parameters, "reasoning": "why", "confidence": 0.8}))


def fails(status: int, *, message: str = "no", headers: dict[str, str] | None = None) -> Step:
    """Answer with an error."""

    def step(handler: Any, _: dict[str, Any]) -> None:
        reply(handler, status, {"error": {"message": message, "type": "error", "code": None}}, headers or {})

    return step


def hangs(handler: Any, _: dict[str, Any]) -> None:
    """Say nothing until the server is closed."""
    handler.server.outer.release.wait(60)
    handler.close_connection = True


def drops(handler: Any, _: dict[str, Any]) -> None:
    """Close the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "1", "cho')
    handler.wfile.flush()
    handler.connection.close()
    handler.close_connection = True


def reply(handler: Any, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
    data = json.dumps(value).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, text in (headers or {}).items():
        handler.send_header(name, text)
    handler.end_headers()
    handler.wfile.write(data)
