"""Programs that some tests call."""

import os
import shutil

import pytest


def need(program: str) -> str:
    """Return a program's path; without it the test is skipped, or fails where CI has promised it."""
    found = shutil.which(program)
    if found is None:
        if os.environ.get("GRAFICO_REQUIRE_PROGRAMS"):
            pytest.fail(f"{program} is not installed, and GRAFICO_REQUIRE_PROGRAMS is set")
        pytest.skip(f"{program} is not installed (Debian: apt install {program})")
    return found
