"""A card that three calculations share: what each process sees of it, and what it can take. Unverified (no GPU here)."""

import asyncio
from pathlib import Path
from typing import Any

import calculations_on_gpu as cases
import pytest
from calculations_on_gpu import Wish

from grafico.calculations import FailureKind
from grafico.cluster.hardware import Gpu
from grafico.cluster.orphans import process_table
from grafico.runs import RunPaths, read_starts


def test_each_process_sees_exactly_one_device_by_its_uuid(on_card: Any, task: Any, card: Gpu) -> None:
    async def use(cluster: Any) -> Any:
        return await asyncio.gather(*(cluster.run(task(cases.sees, Wish(number=n))) for n in range(6)))

    outcomes = on_card(use)
    assert [outcome for outcome in outcomes if not outcome.ok] == []
    for seen in (outcome.output for outcome in outcomes):
        assert seen.devices == 1
        assert seen.visible == card.uuid
        digits = card.uuid.removeprefix("GPU-").replace("-", "")
        assert (seen.uuid and digits.startswith(seen.uuid)) or card.uuid.startswith("MIG-")


@pytest.mark.parametrize("mps", [False, "try"], ids=["without MPS", "with MPS"])
def test_three_calculate_at_once_and_each_is_held_to_its_share(
    on_card: Any, task: Any, paths: RunPaths, tmp_path: Path, mps: Any
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()

    async def use(cluster: Any) -> Any:
        (worker,) = (spec for spec in cluster.specs if spec.is_gpu)
        three = (task(cases.meets, Wish(number=n, mib=500, folder=str(folder))) for n in range(3))
        return worker, await asyncio.gather(*(cluster.run(each) for each in three))

    worker, outcomes = on_card(use, mps=mps)
    assert [outcome for outcome in outcomes if not outcome.ok] == []
    assert len({outcome.output.pid for outcome in outcomes}) == 3
    share = worker.vram_mib // 3
    for outcome in outcomes:
        assert outcome.output.allocated_mib == pytest.approx(500, abs=1)
        assert outcome.output.limit_mib <= share
        assert outcome.output.available_mib <= share
    starts = read_starts(paths)
    assert {start.slot for start in starts} == {"0", "1", "2"}


@pytest.mark.parametrize("piece", [64, 200], ids=["from the pool", "beside gpu4pyscf's pool"])
def test_the_share_holds_for_small_and_for_large_arrays_and_is_given_back(on_card: Any, task: Any, piece: int) -> None:
    async def use(cluster: Any) -> Any:
        wish = Wish(number=1, mib=piece)
        greedy = await cluster.run(task(cases.takes_all_it_gets, wish, gpu_memory_mib=3000))
        after = await cluster.run(task(cases.sees, Wish(number=2), gpu_memory_mib=3000))
        return greedy, after

    greedy, after = on_card(use)
    assert greedy.ok
    assert 3000 - 2 * piece <= greedy.output.allocated_mib <= 3000
    assert greedy.output.available_mib <= 2 * piece
    assert after.output.pid == greedy.output.pid  # the process is warm, its memory is free again
    assert after.output.held_mib <= 64  # what gpu4pyscf keeps for itself
    assert after.output.available_mib >= 3000 - 64


def test_too_much_is_a_failure_of_its_kind_and_a_whole_card_may_have_room(on_card: Any, task: Any) -> None:
    async def use(cluster: Any) -> Any:
        wish = Wish(number=1, mib=2500)
        small = await cluster.run(task(cases.takes_too_much, wish, gpu_memory_mib=1000))
        whole = await cluster.run(task(cases.takes_too_much, wish, gpu_memory_mib=1000, gpu="exclusive"))
        return small, whole

    small, whole = on_card(use)
    assert small.kind is FailureKind.OUT_OF_MEMORY
    assert whole.ok
    assert whole.output.limit_mib > 2500


def test_idle_siblings_leave_the_card_before_an_exclusive_one_calculates(
    on_card: Any, task: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()

    async def use(cluster: Any) -> Any:
        three = (task(cases.meets, Wish(number=n, mib=100, folder=str(folder))) for n in range(3))
        before = await asyncio.gather(*(cluster.run(each) for each in three))
        whole = await cluster.run(task(cases.sees, Wish(number=9), gpu="exclusive"))
        pids = {outcome.output.pid for outcome in before}
        return pids, whole.output.pid, pids & set(process_table())

    before, whole, alive = on_card(use)
    assert len(before) == 3
    assert whole in before  # a warm one serves it
    assert alive == {whole}
