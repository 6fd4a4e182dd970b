"""Fixtures that the tests of jobs and of the command line share, and the command line itself."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent / "jobs" / "support"))

from tiny_fixtures import bench, job

__all__ = ["bench", "job"]


@dataclass
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


def call(*arguments: object) -> Said:
    """Call the command line in this process."""
    from grafico.cli.main import app

    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    return Said(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def grafico() -> Callable[..., Said]:
    """Call the command line in this process."""
    return call


@pytest.fixture
def spawn() -> Any:
    """Start the command line as a process of its own, in a session of its own; what is left over is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **options: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "grafico.cli.main", *(str(argument) for argument in arguments)],
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            text=True,
            start_new_session=True,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
