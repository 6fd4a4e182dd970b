"""Zeo++ in a process of its own: how it is started, bounded and ended, and how its answers are read.

Source: T. F. Willems, C. H. Rycroft, M. Kazi, J. C. Meza, M. Haranczyk, Microporous Mesoporous Mater. 149 (2012) 134,
doi:10.1016/j.micromeso.2011.08.020; formats as ``area_and_volume.cc``, ``network.cc`` and ``networkio.cc`` write them.
"""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from grafico.atoms import ConceptualAtoms
from grafico.calculations import CalculationError, FailureKind
from grafico.errors import MissingExtra
from grafico.frameworks import zeo_child
from grafico.frameworks.periodic import Link
from grafico.frameworks.steps import AnalysisSettings, PoreDiameters, PoreVolume, SurfaceArea

__all__ = [
    "JITTER",
    "Answer",
    "Task",
    "cssr",
    "read_area",
    "read_diameters",
    "read_network",
    "read_volume",
    "run_zeo",
]

Task: TypeAlias = Literal["diameters", "network", "area", "volume"]
NAMES: Mapping[Task, str] = {
    "diameters": "the diameters",
    "network": "the channels",
    "area": "the surface area",
    "volume": "the volume",
}
JITTER = 1e-5
"""Atoms are moved by up to this along each axis, Å: on exactly symmetric cells Zeo++ gives up."""
SAID_BYTES = 16 * 1024
"""How much of its output is kept, from the end."""
POLL_S = 0.02
_NO_VALUE = re.compile(r"Unable to find (radius|molar mass) for (\S{1,20}) in table")
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"


class Answer(NamedTuple):
    """What a task gave."""

    text: str
    """As Zeo++ wrote it."""
    radii: Mapping[str, float]
    """Radius that was used for each element, Å."""


def cssr(structure: ConceptualAtoms, *, seed: int = 0) -> str:
    """Return a crystal in the CSSR format, with its atoms moved by up to :data:`JITTER`, the same for the same seed.

    Raises
    ------
    CalculationError
        ``bad_input``: it has no cell, or one without a volume.
    """
    import numpy

    if structure.cell is None:
        raise CalculationError(FailureKind.BAD_INPUT, "pores are measured in a crystal; this structure has no cell")
    cell = numpy.array(structure.cell)
    lengths = numpy.linalg.norm(cell, axis=1)
    if abs(numpy.linalg.det(cell)) < 1e-3 * max(1e-9, float(lengths.prod())):
        raise CalculationError(FailureKind.BAD_INPUT, f"the cell {structure.cell} has no volume, or next to none")
    unit = cell / lengths[:, None]
    angles = [math.degrees(math.acos(float(unit[i] @ unit[j]))) for i, j in ((1, 2), (0, 2), (0, 1))]
    moved = numpy.array(structure.positions)
    moved = moved + numpy.random.default_rng(seed).uniform(-JITTER, JITTER, moved.shape)
    places = moved @ numpy.linalg.inv(cell)
    places -= numpy.floor(places)
    lines = [
        " ".join(f"{length:.10f}" for length in lengths),
        " ".join(f"{angle:.10f}" for angle in angles) + " SPGR = 1 P 1 OPT = 1",
        f"{len(structure)} 0",
        "0 framework",
    ]
    for number, (symbol, (a, b, c)) in enumerate(zip(structure.symbols, places.tolist(), strict=True), start=1):
        lines.append(f"{number} {symbol} {a:.12f} {b:.12f} {c:.12f} 0 0 0 0 0 0 0 0 0.0")
    return "\n".join(lines) + "\n"


def run_zeo(task: Task, structure: str, settings: AnalysisSettings, folder: Path, *, memory_mib: int = 2048) -> Answer:
    """Carry out one task of Zeo++ in a process of its own, which is gone when this returns.

    Parameters
    ----------
    structure
        CSSR text.
    folder
        An empty folder, or one that is to be made.
    memory_mib
        Address space of the process, MiB.

    Raises
    ------
    CalculationError
        ``timeout``; ``crash`` when a signal ended it; ``out_of_memory``; ``bad_input`` for an element that Zeo++ has no
        radius or mass for; ``engine_error`` for all else that it says.
    MissingExtra
        pyzeo is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / zeo_child.STRUCTURE).write_text(structure)
    request = {"task": task, "memory_mib": memory_mib, **settings.model_dump()}
    (folder / zeo_child.REQUEST).write_text(json.dumps(request))
    log = folder / "output.log"
    command = [sys.executable, "-P", zeo_child.__file__, str(folder), str(os.getpid())]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        try:
            in_time = _wait(process.pid, settings.timeout_s)
        finally:
            # It leads its group and has not been reaped, so that number is still its own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    said = _tail(log)
    _refuse(task, status, in_time, said, settings)
    return _answer(task, folder / zeo_child.RESULT, said)


def _wait(pid: int, seconds: float) -> bool:
    """Return whether a child ended in time. It is not reaped: until then its number belongs to nobody else."""
    end = time.monotonic() + seconds
    while True:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(POLL_S, left))


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - SAID_BYTES))
        return file.read().decode(errors="replace")


def _refuse(task: Task, status: int, in_time: bool, said: str, settings: AnalysisSettings) -> None:
    """Raise what an end other than a good one means."""
    name = NAMES[task]
    details: dict[str, Any] = {"step": task, "high_accuracy": settings.high_accuracy, "said": said[-2000:]}
    if not in_time:
        message = f"Zeo++ did not finish {name} within {settings.timeout_s:g} s and was ended"
        raise CalculationError(FailureKind.TIMEOUT, message, details=details)
    if status == 0:
        return
    if "bad_alloc" in said or "MemoryError" in said:
        raise CalculationError(
            FailureKind.OUT_OF_MEMORY, f"Zeo++ ran out of memory over {name}{_last(said)}", details=details
        )
    if status < 0:
        with contextlib.suppress(ValueError):
            details["signal"] = signal.Signals(-status).name
        ended = details.get("signal", f"signal {-status}")
        raise CalculationError(
            FailureKind.CRASH, f"Zeo++ was ended by {ended} over {name}{_last(said)}", details=details
        )
    if missing := _NO_VALUE.search(said):
        what, element = missing.groups()
        raise CalculationError(
            FailureKind.BAD_INPUT, f"Zeo++ has no {what} for the element {element}, so its pores cannot be measured"
        )
    if "No module named 'pyzeo" in said:
        raise MissingExtra(
            "the package pyzeo, which measures pores, is not installed", hint="pip install 'grafico[mof]'"
        )
    message = f"Zeo++ gave up over {name} (exit status {status}){_last(said)}"
    raise CalculationError(FailureKind.ENGINE_ERROR, message, details=details)


def _last(said: str) -> str:
    """Return the last lines of what was said, without what a terminal would obey."""
    lines = [line.strip() for line in said.splitlines() if line.strip()][-3:]
    text = "".join(sign if sign.isprintable() else "�" for sign in " | ".join(lines))[-400:]
    return f"; it said: {text}" if text else "; it said nothing"


def _answer(task: Task, path: Path, said: str) -> Answer:
    try:
        body = json.loads(path.read_bytes())
        answer = Answer(str(body["text"]), {str(key): float(value) for key, value in body["radii"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"Zeo++ ended well over {NAMES[task]} but left no result that can be read ({error}){_last(said)}"
        raise CalculationError(FailureKind.ENGINE_ERROR, message, details={"step": task}) from error
    return answer


def read_diameters(text: str) -> PoreDiameters:
    """Read a ``.res`` line: name, largest included sphere, largest free sphere, largest one along its path.

    Zeo++ writes negative values where no sphere fits; they are zero here, and so is what would lie along a path that is
    none.

    Raises
    ------
    CalculationError
        ``engine_error``: it is no such line.
    """
    words = text.split()
    try:
        lcd, pld, lfpd = (float(word) for word in words[-3:])
    except ValueError as error:
        raise _unreadable("diameters", text) from error
    if len(words) < 4 or not all(map(math.isfinite, (lcd, pld, lfpd))):
        raise _unreadable("diameters", text)
    pld = max(0.0, pld)
    return PoreDiameters(lcd=max(0.0, lcd), pld=pld, lfpd=max(0.0, lfpd) if pld else 0.0)


def read_area(text: str) -> SurfaceArea:
    """Read what Zeo++ says of surface areas.

    Raises
    ------
    CalculationError
        ``engine_error``: a value is missing or is none.
    """
    return SurfaceArea(
        accessible=_value("area", "ASA_A^2", text),
        non_accessible=_value("area", "NASA_A^2", text),
        accessible_m2_g=_value("area", "ASA_m^2/g", text),
        non_accessible_m2_g=_value("area", "NASA_m^2/g", text),
        accessible_m2_cm3=_value("area", "ASA_m^2/cm^3", text),
    )


def read_volume(text: str) -> PoreVolume:
    """Read what Zeo++ says of volumes.

    Raises
    ------
    CalculationError
        ``engine_error``: a value is missing or is none.
    """
    fraction = _value("volume", "AV_Volume_fraction", text)
    if fraction > 1.0:
        raise _unreadable("volume", text)
    return PoreVolume(
        accessible=_value("volume", "AV_A^3", text),
        non_accessible=_value("volume", "NAV_A^3", text),
        accessible_cm3_g=_value("volume", "AV_cm^3/g", text),
        non_accessible_cm3_g=_value("volume", "NAV_cm^3/g", text),
        accessible_fraction=fraction,
    )


def read_network(text: str) -> tuple[int, list[Link]]:
    """Read a Voronoi network in the ``.nt2`` format: how many nodes it has, and edges between them, counted from 0.

    Edges to nodes that were left out, being too narrow, are left out too, as Zeo++ does when it looks for channels.

    Raises
    ------
    CalculationError
        ``engine_error``: it is no such network.
    """
    head, found, tail = text.partition("Edge table:")
    if not found or not head.startswith("Vertex table:"):
        raise _unreadable("network", text)
    try:
        numbers = {int(line.split()[0]): place for place, line in enumerate(filter(str.strip, head.splitlines()[1:]))}
        edges: list[Link] = []
        for line in filter(str.strip, tail.splitlines()):
            start, _arrow, end, _radius, a, b, c, _length = line.split()
            if int(start) in numbers and int(end) in numbers:
                edges.append((numbers[int(start)], numbers[int(end)], (int(a), int(b), int(c))))
    except ValueError as error:
        raise _unreadable("network", text) from error
    return len(numbers), edges


def _value(task: Task, key: str, text: str) -> float:
    found = re.search(rf"(?:^|\s){re.escape(key)}:\s+{_NUMBER}(?=\s|$)", text)
    value = float(found.group(1)) if found else math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise _unreadable(task, text)
    return value


def _unreadable(task: Task, text: str) -> CalculationError:
    message = f"what Zeo++ says of {NAMES[task]} cannot be read{_last(text)}"
    return CalculationError(FailureKind.ENGINE_ERROR, message, details={"step": task})
