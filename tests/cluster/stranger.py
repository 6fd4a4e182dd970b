"""What another user of the machine tries: run as root, it becomes ``nobody`` first; what it managed goes to standard output.

All that it needs is imported before: that user may not be able to read the installation.
"""

import asyncio
import encodings.idna
import json
import os
import pathlib
import pwd
import socket
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import distributed
import distributed.cli
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from distributed.core import rpc

from grafico.cluster.certificates import issue, security, tls_paths

_ = (encodings.idna, pathlib, x509, ec, distributed.cli)
PATIENCE_S = 1.5


def become_nobody() -> None:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    os.environ.clear()
    tempfile.tempdir = tempfile.mkdtemp()
    os.chdir(tempfile.tempdir)


async def as_caller(address: str, secure: distributed.Security) -> str:
    """Call a function of whoever listens; returns what it answered, or why not."""
    remote = rpc(address, connection_args=secure.get_connection_args("client"), timeout=PATIENCE_S)
    try:
        return f"answered: {await asyncio.wait_for(remote.identity(), 2 * PATIENCE_S)}"
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        return f"refused: {type(error).__name__}"


async def as_client(address: str, secure: distributed.Security) -> str:
    """Connect and have something run; returns what it gave."""
    async with distributed.Client(address, security=secure, asynchronous=True, set_as_default=False) as client:
        return f"ran: {await asyncio.wait_for(client.submit(sum, (40, 2)), 30)}"


def by_hand(host: str, port: int) -> str:
    """Shake hands without a certificate, trusting anybody, and see whether anything is said to us."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), PATIENCE_S) as plain, context.wrap_socket(plain) as wrapped:
            wrapped.settimeout(PATIENCE_S)
            return f"heard: {wrapped.recv(16)!r}"
    except OSError as error:
        return f"refused: {type(error).__name__}"


def as_browser(host: str, port: int) -> str:
    """Ask for pages as a browser would; returns the statuses."""
    found = []
    for page in (
        "",
        "grafico",
        "grafico/data.json",
        "status",
        "info/main/workers.html",
        "json/identity.json",
        "proxy/22/x",
    ):
        try:
            with urllib.request.urlopen(f"http://{host}:{port}/{page}", timeout=PATIENCE_S) as answer:
                found.append(str(answer.status))
        except urllib.error.HTTPError as error:
            found.append(str(error.code))
        except (OSError, ValueError) as error:
            return f"no HTTP: {type(error).__name__}"
    return " ".join(sorted(set(found)))


def crowd(sockets: list[tuple[str, int]], many: int) -> dict[str, int]:
    """Connect many times to each port and stay, until told to end; returns how many of them nobody has closed."""
    held: dict[str, list[socket.socket]] = {}
    for host, port in sockets:
        for _ in range(many):
            one = socket.create_connection((host, port), 10 * PATIENCE_S)
            one.sendall(b"\x16")  # so begins a handshake; not the whole of a request either
            held.setdefault(f"{host}:{port}", []).append(one)
    sys.stdout.write("here\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return {name: sum(not closed(one) for one in ones) for name, ones in held.items()}


def closed(one: socket.socket) -> bool:
    one.settimeout(0)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def look(path: str) -> str:
    """Read a file or list a folder; returns what was seen of it, or why nothing was."""
    try:
        found = Path(path)
        return f"seen: {list(found.iterdir()) if found.is_dir() else found.read_bytes()[:20]!r}"
    except OSError as error:
        return f"refused: {type(error).__name__}"


async def main() -> None:
    told = json.loads(sys.stdin.readline())
    become_nobody()
    if many := told.get("crowd"):
        sys.stdout.write(json.dumps(crowd(told["sockets"], many)))
        return
    own = Path(tempfile.mkdtemp())
    issue(own)
    said: dict[str, dict[str, str]] = {}
    for host, port in told["sockets"]:
        said[f"{host}:{port}"] = {
            "no security": await as_caller(f"tcp://{host}:{port}", security(None)),
            "own certificate": await as_caller(f"tls://{host}:{port}", security(tls_paths(own))),
            "by hand": by_hand(host, port),
            "browser": as_browser(host, port),
        }
    said["paths"] = {path: look(path) for path in told["paths"]}
    if told["control"]:
        # The same with what only the owner has: so it was not for want of trying.
        paths = tls_paths(Path(told["control"]["certificates"]))
        said["control"] = {"client": await as_client(told["control"]["address"], security(paths))}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
