"""A model of one's own from a GGUF file, served on the loopback interface by llama.cpp (through xllamacpp) while it is needed.

It runs in a process of its own that ends with this one: its standard input is a lifeline.
"""

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grafico.errors import BadInput, MissingExtra, ModelUnavailable

__all__ = ["KEY_VARIABLE", "is_weights", "local_server", "serving"]

SERVER = """
import os, sys, threading
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel = int(sys.argv[2]), 1
params.cpuparams.n_threads = int(sys.argv[3])
params.api_keys = [os.environ.pop("GRAFICO_LOCAL_MODEL_KEY")]
params.warmup, params.verbosity = False, -1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"""
MAGIC = b"GGUF"
KEY_VARIABLE = "GRAFICO_LOCAL_MODEL_KEY"
"""Holds the server's key while it is up: everybody on this machine can reach the loopback interface."""


def is_weights(model: str) -> bool:
    """Return whether a model is named by a file of its weights."""
    return model.endswith(".gguf")


@contextlib.contextmanager
def serving(model: str, api_base: str | None = None) -> Iterator[dict[str, str | None]]:
    """Yield the settings that name a model; a file of weights is served meanwhile.

    Parameters
    ----------
    model
        As litellm names it, or a GGUF file.
    api_base
        Address of a server that serves it already.

    Raises
    ------
    MissingExtra, BadInput, ModelUnavailable
        As :func:`local_server`.
    """
    if api_base is not None or not is_weights(model):
        yield {"model": model, "api_base": api_base}
        return
    with local_server(Path(model)) as address:
        yield {"model": "openai/local", "api_base": address, "key_variable": KEY_VARIABLE}


@contextlib.contextmanager
def local_server(weights: Path, *, context: int = 8192, threads: int | None = None) -> Iterator[str]:
    """Serve a model; yields the address of its OpenAI-compatible interface, whose key is in ``KEY_VARIABLE``.

    Parameters
    ----------
    weights
        A GGUF file.
    context
        Context window, tokens.
    threads
        CPU threads; default: half of the processors that may be used, and two at least.

    Raises
    ------
    MissingExtra
        xllamacpp is not installed.
    BadInput
        The file is missing or no GGUF file.
    ModelUnavailable
        The server did not start.
    """
    _check(weights)
    if threads is None:
        threads = max(2, len(os.sched_getaffinity(0)) // 2)
    # A thread that spins while it waits takes the processor from the others: tokens come fifty times more slowly.
    os.environ[KEY_VARIABLE] = secrets.token_urlsafe(24)
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [sys.executable, "-P", "-c", SERVER, str(weights.resolve()), str(context), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = next((line.strip() for line in process.stdout if line.startswith("http")), "")
            if not address:
                log.seek(0)
                lines = log.read().decode(errors="replace").strip().splitlines()
                raise ModelUnavailable(
                    f"no server for {weights} started: {lines[-1][:300] if lines else 'it said nothing'}"
                )
            yield f"{address}/v1"
        finally:
            os.environ.pop(KEY_VARIABLE, None)
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _check(weights: Path) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("serving a GGUF file needs xllamacpp, which is not installed", hint="pip install xllamacpp")
    try:
        with weights.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise BadInput(
            f"{weights} cannot be read: {error.strerror or error}", hint="give the path of a GGUF file"
        ) from None
    if start != MAGIC:
        raise BadInput(f"{weights} is no GGUF file (it begins with {start!r})", hint="convert the model to GGUF")
