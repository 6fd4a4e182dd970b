"""The peers, for comparison: what a no-op Python task costs with Parsl, HyperQueue and executorlib, as they come.

Each gets as many workers as the cluster of the benchmark has CPUs. HyperQueue starts a Python for each task, so it gets
fewer of them. None of them keeps a record of its tasks here, except HyperQueue its own.
"""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grafico.bench.noop import nothing
from grafico.cluster.hardware import available_cpus
from grafico.errors import BadInput

__all__ = ["PEERS", "measure", "one"]

LONGEST_S = 120.0
HYPERQUEUE_TASKS = 60


def measure(folder: Path, tasks: int) -> dict[str, Any]:
    """Measure the peers that are installed, each in a process of its own.

    Parameters
    ----------
    folder
        For what they write.
    tasks
        No-op tasks for each; HyperQueue gets at most 60.

    Returns
    -------
    dict
        Milliseconds a task by name, or why there is no number.
    """
    return {f"{name}, a task": _apart(name, folder, tasks) for name in PEERS}


def _apart(name: str, folder: Path, tasks: int) -> Any:
    package = PACKAGES[name]
    if importlib.util.find_spec(package) is None:
        return f"not installed (pip install '{package}', or grafico[bench])"
    own = folder / f"peer-{package}"
    own.mkdir()
    # They start programs that were installed beside them.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    script = f"from grafico.bench.peers import one; one({name!r}, {tasks})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=own, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done within {LONGEST_S:g} s"
    for line in reversed(done.stdout.splitlines()):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return {"value": json.loads(line)["ms"], "unit": "ms"}
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return f"did not run: {said[:200]}"


def one(name: str, tasks: int) -> None:
    """Measure one peer in this process, and print the milliseconds as JSON.

    Raises
    ------
    BadInput
        There is no such peer.
    """
    if name not in PEERS:
        raise BadInput(f"no peer {name!r}; there are {', '.join(PEERS)}")
    # They print banners and bars.
    with contextlib.redirect_stdout(io.StringIO()):
        seconds = PEERS[name](tasks)
    sys.stdout.write(json.dumps({"ms": round(seconds * 1e3, 2)}) + "\n")
    sys.stdout.flush()


def _executorlib(tasks: int) -> float:
    executorlib = importlib.import_module("executorlib")
    with executorlib.SingleNodeExecutor(max_workers=available_cpus(), block_allocation=True) as executor:
        for future in [executor.submit(nothing, number) for number in range(20)]:
            future.result()
        return _seconds(lambda: [executor.submit(nothing, number) for number in range(tasks)]) / tasks


def _parsl(tasks: int) -> float:
    parsl = importlib.import_module("parsl")
    executors, providers = importlib.import_module("parsl.executors"), importlib.import_module("parsl.providers")
    config = importlib.import_module("parsl.config").Config(
        executors=[
            executors.HighThroughputExecutor(
                label="bench",
                address="127.0.0.1",
                loopback_address="127.0.0.1",
                max_workers_per_node=available_cpus(),
                provider=providers.LocalProvider(init_blocks=1, max_blocks=1),
                encrypted=False,
            )
        ],
        run_dir=str(Path.cwd() / "runinfo"),
        strategy="none",
        usage_tracking=0,
        initialize_logging=False,
    )
    parsl.load(config)
    try:
        app = parsl.python_app(nothing)
        for future in [app(number) for number in range(20)]:
            future.result()
        return _seconds(lambda: [app(number) for number in range(tasks)]) / tasks
    finally:
        parsl.dfk().cleanup()
        parsl.clear()


def _hyperqueue(tasks: int) -> float:
    hyperqueue, cluster_of = importlib.import_module("hyperqueue"), importlib.import_module("hyperqueue.cluster")

    def jobs(client: Any, count: int) -> None:
        job = hyperqueue.Job()
        for number in range(count):
            job.function(nothing, args=(number,))
        client.wait_for_jobs([client.submit(job)])

    tasks = min(tasks, HYPERQUEUE_TASKS)
    with hyperqueue.LocalCluster() as cluster:
        cluster.start_worker(cluster_of.WorkerConfig(cores=available_cpus()))
        client = cluster.client()
        jobs(client, 4)
        begun = time.perf_counter()
        jobs(client, tasks)
        return (time.perf_counter() - begun) / tasks


def _seconds(send: Callable[[], list[Any]]) -> float:
    begun = time.perf_counter()
    for future in send():
        future.result()
    return time.perf_counter() - begun


PEERS: dict[str, Callable[[int], float]] = {
    "Parsl HTEX": _parsl,
    "HyperQueue": _hyperqueue,
    "executorlib": _executorlib,
}
PACKAGES = {"Parsl HTEX": "parsl", "HyperQueue": "hyperqueue", "executorlib": "executorlib"}
