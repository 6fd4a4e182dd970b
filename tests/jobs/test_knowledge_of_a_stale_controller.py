"""A controller that has been replaced no longer changes what its run knows."""

import asyncio
from pathlib import Path

import pytest

from grafico.errors import StaleController
from grafico.graphs import Record
from grafico.jobs.provenance import Knowledge
from grafico.knowledge import Execution
from grafico.knowledge import Run as RunEntity
from grafico.runs import Run, RunRecorder


def thing(name: str) -> Execution:
    return Execution(run=RunEntity(iri="urn:run", name="r"), key=name * 64, calculation=name)


def test_what_a_stale_controller_persists_does_not_reach_the_run(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs", "r", job_source=b"", job={}, graph="g", graph_version="1")
    file = run.paths.root / "knowledge.nq"

    async def scene() -> None:
        old = RunRecorder(run, make_record=Record)
        await old.__aenter__()
        knowledge = Knowledge(run, tmp_path / "kb")
        knowledge.guard(old.check_fence)
        await knowledge.persist([thing("a")])
        before = file.read_bytes()
        async with RunRecorder(Run.open(run.paths.root), make_record=Record, take_over=True) as new:
            with pytest.raises(StaleController) as caught:
                await knowledge.persist([thing("b")])
            assert file.read_bytes() == before
            assert not list(run.paths.root.glob(".knowledge.nq-*"))
            current = Knowledge(run, tmp_path / "kb")
            current.guard(new.check_fence)
            await current.persist([thing("b")])
            assert file.read_bytes() != before
        await old.__aexit__(StaleController, caught.value, None)

    asyncio.run(scene())


def test_what_could_not_be_written_is_written_by_the_next_call(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs", "r", job_source=b"", job={}, graph="g", graph_version="1")
    knowledge = Knowledge(run, tmp_path / "kb")
    file = run.paths.root / "knowledge.nq"

    def refuse() -> None:
        raise StaleController("not now")

    asyncio.run(knowledge.persist([thing("a")]))
    before = file.read_bytes()
    knowledge.guard(refuse)
    with pytest.raises(StaleController):
        asyncio.run(knowledge.persist([thing("b")]))
    assert file.read_bytes() == before
    knowledge.guard(lambda: None)
    asyncio.run(knowledge.persist([thing("b")]))
    assert file.read_bytes() != before
