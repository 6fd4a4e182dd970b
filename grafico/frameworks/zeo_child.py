"""The process that runs Zeo++: ``python -P zeo_child.py FOLDER PARENT``.

Zeo++ ends the process that it runs in when something is wrong, and on some structures it does not come back at all; so
it runs here, one task a process. The folder holds ``request.json`` and ``structure.cssr``; ``result.json`` appears in it
when all went well. Run as a script, without grafico, so that it starts quickly.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["REQUEST", "RESULT", "STRUCTURE", "main"]

REQUEST, RESULT, STRUCTURE = "request.json", "result.json", "structure.cssr"
FILE_BYTES = 64 * 2**20
"""Largest file that it may write, its output among them."""
PR_SET_PDEATHSIG = 1
HIGH_ACCURACY = "DEF"
"""What Zeo++'s own command takes for ``-ha``; the module's default is coarser, by 3 % of the area of edingtonite."""


def contain(parent: int, request: dict[str, Any]) -> None:
    """Bound memory, files and processor time, and end with the parent, whatever becomes of that."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    # Python ignores this signal, so a program that floods its output would go on for ever.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    seconds = int(request["timeout_s"]) + 30
    bounds = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_AS, request["memory_mib"] * 2**20),
        (resource.RLIMIT_CPU, seconds),  # where the kernel does not end it with its parent, this does
    ]
    for what, limit in bounds:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, limit))


def diameters(net: Any, _request: dict[str, Any]) -> str:
    """Return the largest included and free spheres as Zeo++ writes them."""
    net.calculate_free_sphere_parameters("diameters.res")
    return Path("diameters.res").read_text(errors="replace")


def network(net: Any, request: dict[str, Any]) -> str:
    """Return the part of the Voronoi network that is wider than the radius of a channel."""
    from pyzeo.extension import writeNt2file

    voronoi = net.perform_voronoi_decomposition(False)[0]
    # Zeo++ filters with all the digits that it has and writes six of them.
    writeNt2file("network.nt2", voronoi, request["channel_radius"])
    return Path("network.nt2").read_text(errors="replace")


def area(net: Any, request: dict[str, Any]) -> str:
    """Return the sampled surface areas as Zeo++ writes them."""
    from pyzeo.extension import surface_area

    return _sampled(surface_area, net, request, request["samples"])


def volume(net: Any, request: dict[str, Any]) -> str:
    """Return the sampled volumes as Zeo++ writes them."""
    from pyzeo.extension import volume as sampled

    return _sampled(sampled, net, request, request["volume_samples"])


def _sampled(function: Callable[..., bytes], net: Any, request: dict[str, Any], samples: int) -> str:
    from pyzeo.extension import high_accuracy_atomnet

    fine = None
    if request["high_accuracy"]:
        fine = net.copy()
        high_accuracy_atomnet(fine, HIGH_ACCURACY)
    radii = request["channel_radius"], request["probe_radius"]
    said = function(net, *radii, samples, high_accuracy=fine is not None, high_accuracy_atmnet=fine)
    return said.decode(errors="replace")


TASKS: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "diameters": diameters,
    "network": network,
    "area": area,
    "volume": volume,
}


def main() -> None:
    """Do what the request says."""
    folder, parent = sys.argv[1:]
    os.chdir(folder)
    request = json.loads(Path(REQUEST).read_text())
    contain(int(parent), request)
    from pyzeo.extension import AtomNetwork

    net = AtomNetwork.read_from_CSSR(STRUCTURE)
    radii = {atom.type: atom.radius for atom in net.atoms}
    text = TASKS[request["task"]](net, request)
    Path("result.part").write_text(json.dumps({"text": text, "radii": radii, "atoms": net.no_atoms}))
    Path("result.part").replace(RESULT)
    # What Zeo++ does while it tidies up can no longer spoil the result.
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


if __name__ == "__main__":
    main()
