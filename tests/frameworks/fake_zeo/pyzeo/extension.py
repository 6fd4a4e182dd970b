"""What the process calls. ``ZEO_FAULT`` says what happens, ``ZEO_WHEN`` in which task, ``ZEO_PIDS`` notes who lived."""

import ctypes
import json
import os
import signal
from pathlib import Path

REQUEST = json.loads(Path("request.json").read_text())
C = ctypes.CDLL(None)
RESULTS = {
    "diameters": "diameters.res    9.5 6.5  9.4\n",
    "network": "Vertex table:\n0 0 0 0 4.7 1\n\nEdge table:\n0 -> 0 3.2 1 0 0 9.0\n",
    "area": "@ No filename Unitcell_volume: 1000 Density: 1.0 ASA_A^2: 50 ASA_m^2/cm^3: 500 ASA_m^2/g: 500 "
    "NASA_A^2: 0 NASA_m^2/cm^3: 0 NASA_m^2/g: 0\n",
    "volume": "@ No filename Unitcell_volume: 1000 Density: 1.0 AV_A^3: 100 AV_Volume_fraction: 0.1 AV_cm^3/g: 0.1 "
    "NAV_A^3: 0 NAV_Volume_fraction: 0 NAV_cm^3/g: 0\n",
}


def note(pid):
    with Path(os.environ["ZEO_PIDS"]).open("a") as file:
        file.write(f"{pid} {REQUEST['task']} {REQUEST['high_accuracy']}\n")


def hang():
    # In C, where Python's own signal handling never gets a turn.
    while True:
        C.sleep(1000)


def hang_with_a_helper():
    if os.fork() == 0:
        hang()
    hang()


def hang_and_ignore_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hang()


def spin():
    while True:
        pass


def leave_a_helper():
    pid = os.fork()
    if pid == 0:
        hang()
    note(pid)
    return "done"


def stop():
    os.write(2, b"Error: Illogical result when attempting to identify channels/pockets.\nExiting ...\n")
    C.exit(1)


def no_radius():
    os.write(
        2, b"Unable to find radius for Og in table. Please provide it \nin a reference file or check you input file.\n"
    )
    C.exit(1)


def flood():
    while True:
        os.write(1, b"\x1b[31mno end of this\n" * 4096)


def hoard():
    kept = []
    while True:
        kept.append(bytearray(64 * 2**20))


def leave_without_a_word():
    os._exit(0)


FAULTS = {
    "hang": hang,
    "hang_with_a_helper": hang_with_a_helper,
    "hang_and_ignore_signals": hang_and_ignore_signals,
    "spin": spin,
    "leave_a_helper": leave_a_helper,
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": stop,
    "no_radius": no_radius,
    "raise": lambda: int("no number"),
    "flood": flood,
    "hoard": hoard,
    "leave_without_a_word": leave_without_a_word,
    "garbage": lambda: "\x00\x1b[2J @@@ nothing of use",
    "empty": lambda: "",
    "none": lambda: None,
}


def perform():
    note(os.getpid())
    task, _, only = os.environ.get("ZEO_WHEN", "").partition("/")
    wanted = task in ("", REQUEST["task"]) and (only != "high" or REQUEST["high_accuracy"])
    said = FAULTS[os.environ["ZEO_FAULT"]]() if wanted else None
    return RESULTS[REQUEST["task"]] if said is None else said


class AtomNetwork:
    atoms = ()
    no_atoms = 0

    @classmethod
    def read_from_CSSR(cls, name):
        return cls()

    def copy(self):
        return self

    def calculate_free_sphere_parameters(self, name):
        Path(name).write_text(perform())

    def perform_voronoi_decomposition(self, save):
        return self, (), ()


def writeNt2file(name, network, radius):
    Path(name).write_text(perform())


def high_accuracy_atomnet(net, setting):
    pass


def surface_area(*args, **fields):
    return perform().encode()


volume = surface_area
