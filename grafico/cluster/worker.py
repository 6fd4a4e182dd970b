"""A Dask worker process of grafico: ``python -m grafico.cluster.worker``, told what it is on standard input.

Light at import: a calculation's process imports the module that was started as a program once more.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.origin import Origin
from grafico.cluster.orphans import die_with_parent

__all__ = ["UP", "instructions", "main", "spec_of"]

UP = "worker {name} is up at {address}\n"
"""What its log says when the scheduler has counted it in."""

NOWHERE = Origin()


def instructions(
    spec: WorkerSpec,
    *,
    parent: int,
    scheduler: str,
    scratch: Path,
    max_tasks: int,
    grace_s: float,
    tls: Mapping[str, str] | None,
    origin: Origin = NOWHERE,
    versions: Mapping[str, str] | None = None,
) -> bytes:
    """Return the line that :func:`main` reads.

    Parameters
    ----------
    spec
        What the worker is.
    parent
        The process that starts it, and that it ends with.
    scheduler
        Address of the scheduler.
    scratch
        Folder for what calculations write while they run.
    max_tasks
        A process is replaced after so many calculations.
    grace_s
        Seconds added to every walltime.
    tls
        Paths of certificates; nothing that is secret itself.
    origin
        Where it came from, for its records.
    versions
        What it must agree with; see ``connection.versions_here``.
    """
    told = {
        "spec": asdict(spec),
        "parent": parent,
        "scheduler": scheduler,
        "scratch": str(scratch),
        "max_tasks": max_tasks,
        "grace_s": grace_s,
        "tls": None if tls is None else dict(tls),
        "origin": origin._asdict(),
        "versions": None if versions is None else dict(versions),
        "python_path": os.environ.get("PYTHONPATH"),
    }
    return json.dumps(told).encode() + b"\n"


def spec_of(data: Mapping[str, Any]) -> WorkerSpec:
    """Return a worker's specification that has travelled as JSON."""
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return WorkerSpec(**{**data, **lists})


def main() -> None:
    """Read the instructions, then work until the scheduler or the parent is gone."""
    import asyncio

    told = json.loads(sys.stdin.buffer.readline())
    die_with_parent(told["parent"])
    # That was for this interpreter; programs that calculations start get what the user had.
    os.environ.pop("PYTHONPATH", None)
    if told["python_path"] is not None:
        os.environ["PYTHONPATH"] = told["python_path"]
    threading.Thread(target=_lifeline, name="grafico-lifeline", daemon=True).start()
    asyncio.run(work(told))
    sys.stdout.flush()
    os._exit(0)  # threads that still wait for calculations must not keep it


def _lifeline() -> None:
    """End when the other end of standard input is closed; ``read`` returns then and not before."""
    sys.stdin.buffer.read()
    os._exit(1)


def _agree(versions: Mapping[str, str]) -> None:
    """End with a message where controllers and this worker could not understand each other."""
    from grafico.cluster.connection import differences, versions_here

    fatal, _ = differences(versions, versions_here())
    if fatal:
        sys.exit(f"this worker does not fit the cluster ({'; '.join(fatal)}): install the same in both places")


def bind_address(scheduler: str) -> str:
    """Return the address of this host on which the scheduler can reach it: the one on which it reaches the scheduler."""
    from distributed.comm import get_address_host
    from distributed.utils import get_ip

    host = str(get_address_host(scheduler))
    return host if host.startswith("127.") or host == "::1" else str(get_ip(host))


async def work(told: dict[str, Any]) -> None:
    """Be a Dask worker."""
    import dask
    from distributed import Worker

    from grafico.cluster.aloud import Announcer
    from grafico.cluster.cancel import Canceller
    from grafico.cluster.certificates import security
    from grafico.cluster.execute import Service, serve

    if told["versions"] is not None:
        _agree(told["versions"])
    spec, origin = spec_of(told["spec"]), Origin(**told["origin"])
    scratch = Path(told["scratch"])
    scratch.mkdir(mode=0o700, exist_ok=True)  # noqa: ASYNC240 - nothing else runs yet
    service = Service(
        spec,
        max_tasks=told["max_tasks"],
        grace_s=told["grace_s"],
        scratch=scratch,
        controller=told["parent"],
        origin=origin,
    )
    serve(service)
    dask.config.set(
        {
            "distributed.worker.http.routes": [],
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.pause": False,
            "distributed.worker.profile.enabled": False,
        }
    )
    worker = Worker(
        told["scheduler"],
        name=spec.name,
        nthreads=spec.places,
        resources=spec.capacity,
        memory_limit=None,
        host=bind_address(told["scheduler"]),
        security=security(told["tls"]),
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        local_directory=str(scratch),
        plugins=[Canceller(), *([] if service.origin.cluster else [Announcer()])],
        heartbeat_interval="1s",
        death_timeout=30,
    )
    known = {"spec": told["spec"], **told["origin"]}
    worker.startup_information["grafico"] = lambda _: known
    try:
        async with worker:
            worker.http_server.stop()  # Dask listens whether anything is served or not
            sys.stdout.write(UP.format(name=spec.name, address=worker.address))
            sys.stdout.flush()
            await worker.finished()
    finally:
        service.close()


if __name__ == "__main__":
    main()
