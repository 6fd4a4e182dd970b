"""Workers that go down with a run that is being stopped burn no attempt."""

import asyncio
from typing import Any

import pytest

from grafico.calculations import CalculationTask, Failure, FailureKind, Outcome, Resources
from grafico.jobs.stopping import Intake

TASK = CalculationTask(
    reference="m:c", name="c", version="1", family="python", key="ab" * 32, input={}, resources=Resources()
)


class Losing:
    """Compute that fails, after the run was told to stop or before."""

    def __init__(self, kind: FailureKind) -> None:
        self.kind = kind
        self.gate = asyncio.Event()

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        await self.gate.wait()
        return Failure(kind=self.kind, message="it is gone")


@pytest.mark.parametrize(
    ("kind", "shut", "told"),
    [
        (FailureKind.WORKER_LOST, True, False),
        (FailureKind.WORKER_LOST, False, True),
        (FailureKind.NOT_CONVERGED, True, True),
    ],
)
def test_a_worker_lost_while_the_run_stops_is_no_failed_attempt(kind: FailureKind, shut: bool, told: bool) -> None:
    async def scene() -> bool:
        compute = Losing(kind)
        intake = Intake(compute)
        asked = asyncio.create_task(intake.run(TASK))
        await asyncio.sleep(0)
        intake.shut = shut
        compute.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        done = asked.done()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return done

    assert asyncio.run(scene()) is told
