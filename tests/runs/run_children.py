"""What the tests of this folder run in processes of their own, to kill or to race them.

Each child says what it did on its standard output, one JSON value a line, written at once.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from grafico.calculations import Provenance, Success
from grafico.errors import GraficoError
from grafico.runs import OutcomeStore, Run, RunRecorder, StartLog
from grafico.runs.paths import RunPaths


class Energy(BaseModel):
    """An output."""

    hartree: float


@dataclass(frozen=True)
class Note:
    """A record as the recorder needs it."""

    kind: str
    position: str
    data: dict[str, Any] = field(default_factory=dict)


def say(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def child(*words: object, **options: Any) -> "subprocess.Popen[bytes]":
    """Start a function of this file in a process of its own."""
    command = [sys.executable, __file__, *(str(word) for word in words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def said(output: bytes) -> list[Any]:
    """Read what a child said; a kill may have torn the last line."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


async def write(path: str, writers: int, take_over: bool) -> None:
    """Commit records as fast as can be, and say each number once it is acknowledged."""
    async with RunRecorder(Run.open(path), make_record=Note, take_over=take_over) as recorder:
        say({"epoch": recorder.epoch})

        async def work(name: int) -> None:
            for number in range(1_000_000):
                await recorder.record(Note("value", f"{name}@{number}.0", {"pad": "x" * (number % 300)}))
                say([name, number])

        await asyncio.gather(*(work(name) for name in range(writers)))


def journal(path: str, writers: str = "8", take_over: str = "") -> None:
    try:
        asyncio.run(write(path, int(writers), bool(take_over)))
    except GraficoError as error:
        say({"error": type(error).__name__, "message": error.message, "hint": error.hint})


async def obey(path: str) -> None:
    """Commit one record for each line of standard input."""
    async with RunRecorder(Run.open(path), make_record=Note) as recorder:
        say({"epoch": recorder.epoch})
        number = 0
        while await asyncio.to_thread(sys.stdin.readline):
            await recorder.record(Note("value", f"old@{number}.0"))
            say(number)
            number += 1


def obedient(path: str) -> None:
    try:
        asyncio.run(obey(path))
    except GraficoError as error:
        say({"error": type(error).__name__, "message": error.message, "hint": error.hint})


def cramped(path: str, limit: str) -> None:
    """The same, where no file may grow beyond a limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    journal(path)


def commit(path: str, key: str, number: str, gate: str) -> None:
    """Commit an outcome of our own as soon as the gate opens."""
    store = OutcomeStore(RunPaths(path))
    success = Success[Energy](output=Energy(hartree=-float(number)), provenance=Provenance(attempt=int(number)))
    say("ready")
    while not Path(gate).exists():
        time.sleep(0.0005)
    kept, digest = store.commit(key, success)
    say([kept.output.hartree, digest])


def calculate(path: str, key: str, seconds: str) -> None:
    """Start a calculation and work on it."""
    log = StartLog(RunPaths(path))
    started = log.start(key, 1, lane="0.0:a", label="slow")
    say("started")
    time.sleep(float(seconds))
    log.end(started, "success")


CHILDREN = {function.__name__: function for function in (journal, obedient, cramped, commit, calculate)}


def main(words: Sequence[str]) -> None:
    CHILDREN[words[0]](*words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
