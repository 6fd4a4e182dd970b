"""What is found missing is had again, what killed writers leave is swept, and a full disk says so everywhere."""

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from run_children import Energy, Note

from grafico.calculations import ArtifactRef, CalculationError, FailureKind, Success, WorkContext
from grafico.errors import RunError, StaleController
from grafico.graphs import Position, Record
from grafico.runs import ArtifactStore, OutcomeStore, Run, RunRecorder, StartLog, read_run
from grafico.runs.files import temporary
from grafico.runs.lock import RunLock

KEY = "ab" * 32


class Density(BaseModel):
    matrix: ArtifactRef
    others: tuple[ArtifactRef, ...] = ()
    note: str = ""


def committed(run: Run, *data: bytes, note: str = "") -> Density:
    artifacts = ArtifactStore(run.paths)
    matrix, *others = [artifacts.put(part, 'application/x-npy; "quoted"') for part in data]
    density = Density(matrix=matrix, others=tuple(others), note=note)
    OutcomeStore(run.paths).commit(KEY, Success(output=density))
    return density


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", ["gone", "short"])
def test_an_outcome_whose_artifact_is_gone_or_short_counts_as_not_committed(run: Run, which: int, damage: str) -> None:
    density = committed(run, b"matrix", b"orbitals")
    store = OutcomeStore(run.paths)
    assert store.read(KEY, Density) is not None
    assert store.digest(KEY) is not None
    path = run.paths.artifact([density.matrix, *density.others][which].digest)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"m")
    assert store.digest(KEY) is None
    assert store.read(KEY, Density) is None
    (told,) = store.damaged
    assert ("is missing" if damage == "gone" else "has 1 bytes, expected") in told
    assert not run.paths.outcome(KEY).exists()
    assert committed(run, b"matrix", b"orbitals") == density
    assert store.read(KEY, Density) is not None


def test_text_that_looks_like_a_reference_is_none(run: Run) -> None:
    looks = '{"digest":"%s","media_type":"x","size":5}' % ("cd" * 32)
    committed(run, b"matrix", note=looks)
    found = OutcomeStore(run.paths).read(KEY, Density)
    assert found is not None
    assert found.output.note == looks


@pytest.mark.parametrize("damage", ["gone", "short", "garbled"])
def test_a_hint_that_is_gone_is_no_hint_and_no_failure(run: Run, tmp_path: Path, damage: str) -> None:
    ctx = WorkContext(artifacts=ArtifactStore(run.paths), scratch=tmp_path)
    ref = ctx.save_array([1.0, 2.0])
    ctx.hints = {"density": ref}
    assert list(ctx.hint_array("density")) == [1.0, 2.0]  # type: ignore[arg-type]
    path = run.paths.artifact(ref.digest)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"x" * (ref.size if damage == "garbled" else 3))
    assert ctx.hint_array("density") is None


def test_the_journal_says_what_was_found_damaged_and_why(run: Run) -> None:
    density = committed(run, b"matrix")
    run.paths.artifact(density.matrix.digest).unlink()

    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            assert recorder.committed(KEY, Density) is None

    asyncio.run(scene())
    (told,) = [event.text for event in read_run(run.paths.root).story() if event.kind == "damaged"]
    assert f"its artifact {density.matrix.digest[:12]} is missing" in told


class OneWay(BaseModel):
    """An output that cannot be read back from what it writes."""

    angle: float

    @field_validator("angle", mode="before")
    @classmethod
    def no_numbers(cls, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("give degrees as text")  # noqa: TRY004 - pydantic's own way
        return float(value)


class Strict(BaseModel):
    model_config = {"extra": "forbid"}
    hartree: float


class More(Strict):
    """Holds more than the output that was declared."""

    spin: float


def test_an_output_that_could_not_be_read_back_is_not_committed(run: Run) -> None:
    store = OutcomeStore(run.paths)
    for success in (Success(output=OneWay(angle="1.5")), Success[Strict](output=More(hartree=1.0, spin=2))):
        with pytest.raises(CalculationError, match="cannot be read back") as caught:
            store.commit(KEY, success)
        assert caught.value.kind is FailureKind.ENGINE_ERROR
    assert store.keys() == []


def test_an_outcome_that_is_set_aside_is_journalled_with_its_reason(run: Run) -> None:
    OutcomeStore(run.paths).commit(KEY, Success(output=Energy(hartree=-1.0)))

    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.retire(KEY, "it was computed with pyscf 2.8 (installed is 2.9)")
            assert recorder.committed(KEY, Energy) is None

    asyncio.run(scene())
    (told,) = [event.text for event in read_run(run.paths.root).story() if event.kind == "retired"]
    assert told == f"the outcome {KEY[:12]} was set aside: it was computed with pyscf 2.8 (installed is 2.9)"
    assert run.paths.outcome(KEY).with_name(f"{KEY}.json.superseded").is_file()


def test_drafts_of_killed_writers_are_swept_when_the_run_is_opened_again(run: Run) -> None:
    async def visit() -> None:
        async with RunRecorder(run, make_record=Record):
            pass

    asyncio.run(visit())
    committed(run, b"matrix")
    folders = [run.paths.root, run.paths.outcome(KEY).parent, run.paths.results, run.paths.results / "plots" / "deep"]
    folders[-1].mkdir(parents=True)
    where = ";".join(f"print(temporary(Path({str(folder / 'x')!r})))" for folder in folders)
    code = f"from pathlib import Path; from grafico.runs.files import temporary; {where}"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    dead = [Path(line) for line in output.splitlines()]
    alive, old, elsewhere = (temporary(run.paths.root / name) for name in ("alive", "old", "elsewhere"))
    elsewhere = elsewhere.with_name(".elsewhere.00000000-1-00000000.tmp")
    other = run.paths.results / ".notes.tmp"
    for path in [*dead, alive, old, elsewhere, other]:
        path.write_bytes(b"draft")
    os.utime(old, (time.time() - 90_000,) * 2)
    asyncio.run(visit())
    assert [path.exists() for path in dead] == [False] * 4
    assert [path.exists() for path in (alive, old, elsewhere, other)] == [True, False, True, True]
    assert OutcomeStore(run.paths).read(KEY, Density) is not None


def test_the_longest_name_of_a_result_can_be_published(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.publish("x" * 200, b"1")

    asyncio.run(scene())
    assert (run.paths.results / ("x" * 200)).read_bytes() == b"1"


def test_a_controller_that_was_taken_over_publishes_nothing(run: Run) -> None:
    async def scene() -> None:
        old = RunRecorder(run, make_record=Record)
        await old.__aenter__()
        await old.publish("total.txt", b"old")
        async with RunRecorder(Run.open(run.paths.root), make_record=Record, take_over=True) as new:
            await new.publish("total.txt", b"new")
            with pytest.raises(StaleController) as caught:
                await old.publish("total.txt", b"stale")
            await old.__aexit__(StaleController, caught.value, None)

    asyncio.run(scene())
    assert run.paths.result("total.txt").read_bytes() == b"new"


def put(run: Run) -> None:
    ArtifactStore(run.paths).put(b"matrix")


def commit(run: Run) -> None:
    OutcomeStore(run.paths).commit(KEY, Success(output=Energy(hartree=-1.0)))


def update(run: Run) -> None:
    run.update(notes=("x",))


def lock(run: Run) -> None:
    RunLock(run.paths).acquire()


def start(run: Run) -> None:
    StartLog(run.paths).start(KEY, 1)


def create(run: Run) -> None:
    Run.create(run.paths.root.parent, "more", job_source=b"", job={}, graph="g", graph_version="1")


def open_recorder(run: Run) -> None:
    async def scene() -> None:
        async with RunRecorder(run, make_record=Note):
            pass

    asyncio.run(scene())


DOORS = (put, commit, update, lock, start, create, open_recorder)


# Start records are not synced: they have to outlive processes, not the machine.
@pytest.mark.parametrize(
    ("door", "call"),
    [(door, call) for door in DOORS for call in ("write", "fsync") if (door, call) != (start, "fsync")],
)
def test_a_full_disk_is_a_clear_error_at_every_door_and_leaves_nothing_half(
    run: Run, monkeypatch: pytest.MonkeyPatch, door: Callable[[Run], None], call: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(RunError) as caught:
            door(run)
    assert "the disk or the quota is full" in caught.value.message
    assert caught.value.exit_code == 4
    assert "grafico resume" in (caught.value.hint or "")
    assert not list(run.paths.root.rglob(".*.tmp"))
    if door is not create:
        door(run)


def test_a_full_disk_while_results_are_published_and_facts_recorded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scene() -> None:
        async with RunRecorder(run, make_record=Record) as recorder:
            await recorder.record(Record("value", Position("", 0, 0), {"name": "x", "value": 1}))
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", full)
                with pytest.raises(RunError, match=r"the result total.txt could not be published: the disk .* is full"):
                    await recorder.publish("total.txt", b"1")
                with pytest.raises(RunError, match="the journal could not be written: the disk or the quota is full"):
                    await recorder.record(Record("value", Position("", 0, 1), {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(scene())
    assert len(read_run(run.paths.root).chronicle.state) == 1
