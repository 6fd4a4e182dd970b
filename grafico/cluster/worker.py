"""A Dask worker process of grafico: ``python -m grafico.cluster.worker``, told what it is on standard input.

Light at import: a calculation's process imports the module that was started as a program once more.
"""

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.orphans import die_with_parent

__all__ = ["instructions", "main"]


def instructions(
    spec: WorkerSpec, *, parent: int, scheduler: str, scratch: Path, max_tasks: int, grace_s: float
) -> bytes:
    """Return the line that :func:`main` reads."""
    told = {
        "spec": asdict(spec),
        "parent": parent,
        "scheduler": scheduler,
        "scratch": str(scratch),
        "max_tasks": max_tasks,
        "grace_s": grace_s,
        "python_path": os.environ.get("PYTHONPATH"),
    }
    return json.dumps(told).encode() + b"\n"


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


async def work(told: dict[str, Any]) -> None:
    """Be a Dask worker."""
    import dask
    from distributed import Worker

    from grafico.cluster.cancel import Canceller
    from grafico.cluster.execute import Service, serve

    given = told["spec"]
    spec = WorkerSpec(**{**given, "preload": tuple(given["preload"])})
    scratch = Path(told["scratch"])
    scratch.mkdir(mode=0o700, exist_ok=True)  # noqa: ASYNC240 - nothing else runs yet
    service = Service(
        spec, max_tasks=told["max_tasks"], grace_s=told["grace_s"], scratch=scratch, controller=told["parent"]
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
        host="127.0.0.1",
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        local_directory=str(scratch),
        plugins=[Canceller()],
        heartbeat_interval="1s",
        death_timeout=30,
    )
    try:
        async with worker:
            worker.http_server.stop()  # Dask listens whether anything is served or not
            await worker.finished()
    finally:
        service.close()


if __name__ == "__main__":
    main()
