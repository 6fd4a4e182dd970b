"""Throughput of 1, 2 and 3 calculations on a card, with and without MPS run as the user. Unverified (no GPU here).

The figures are printed (``pytest -s``, or `grafico bench gpu`); no bar is set, because none has been measured.
"""

import json
from pathlib import Path

from grafico.bench.gpu import throughput
from grafico.cluster.hardware import Gpu, gpu_settings


def test_throughput_with_and_without_mps(card: Gpu, tmp_path: Path) -> None:
    before = gpu_settings()
    found = {}
    for mps in (False, True):
        for slots in (1, 2, 3):
            name = f"{slots} at once, {'with' if mps else 'without'} MPS"
            found[name] = throughput(card, slots, mps=mps, rounds=2, folder=tmp_path / f"{slots}-{mps}")
            print(f"{card.name}, {name}: {json.dumps(found[name])}", flush=True)
    assert all(found[f"{slots} at once, without MPS"]["value"] > 0 for slots in (1, 2, 3))
    assert gpu_settings() == before
