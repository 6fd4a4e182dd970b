"""Many frameworks at once: the same results as one by one, and each failure its own."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from cyanides import CADMIUM, ZINC, cyanide
from hypothesis import given
from hypothesis import strategies as st

from grafico.atoms import ConceptualAtoms
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.calculations.relax_batch import batchable, batches, relax_batch
from grafico.frameworks.relaxing import engines
from grafico.frameworks.steps import RelaxationSettings, RelaxBatch, RelaxBatchInput, RelaxInput
from grafico.graphs import FolderArtifacts

SETTINGS = RelaxationSettings(fmax=0.1)


@pytest.fixture
def ctx(tmp_path: Path) -> WorkContext:
    return WorkContext(artifacts=FolderArtifacts(tmp_path), scratch=tmp_path, memory_mib=3000)


def run(
    structures: dict[str, ConceptualAtoms], ctx: WorkContext, settings: RelaxationSettings = SETTINGS
) -> RelaxBatch:
    return relax_batch.function(RelaxBatchInput(structures=structures, settings=settings), ctx)


def chain(count: int) -> ConceptualAtoms:
    return ConceptualAtoms(symbols=("C",) * count, positions=tuple((1.5 * i, 0.0, 0.0) for i in range(count)))


sizes = st.dictionaries(st.text(max_size=5), st.integers(1, 60), max_size=12)


@given(sizes, st.integers(1, 150))
def test_batches_hold_each_name_once_and_keep_to_the_budget(found: dict[str, int], budget: int) -> None:
    structures = {name: chain(size) for name, size in found.items()}
    divided = batches(structures, budget)
    assert sorted(name for batch in divided for name in batch) == sorted(structures)
    assert all(batch for batch in divided)
    for batch in divided:
        assert sum(found[name] for name in batch) <= budget or len(batch) == 1
    # A resumed run gets them in another order, and divides them as before.
    assert batches(dict(reversed(structures.items())), budget) == divided
    # No two batches could have been one.
    totals = sorted(sum(found[name] for name in batch) for batch in divided)
    assert len(totals) < 2 or totals[0] + totals[1] > budget


def test_a_batch_needs_room() -> None:
    with pytest.raises(ValueError, match="at least one atom"):
        batches({"a": chain(1)}, 0)


torch_sim = pytest.importorskip("torch_sim")
pytest.importorskip("sevenn")


@pytest.mark.slow
def test_three_at_once_are_as_one_by_one(ctx: WorkContext, capfd: pytest.CaptureFixture[str]) -> None:
    structures = {
        "zinc": cyanide("Zn", ZINC),
        "cadmium": cyanide("Cd", 6.44),
        "distorted": cyanide("Zn", 5.95, shift=0.05),
    }
    found = run(structures, ctx)
    assert found.failed == {}
    assert "torch_sim" in ctx.versions
    assert "3 of 3 have left the batch" in capfd.readouterr().out
    for name, atoms in structures.items():
        alone = relax.function(RelaxInput(structure=atoms, settings=SETTINGS), ctx)
        together = found.relaxed[name]
        # The bar: 1 meV an atom, and half a percent of the cell.
        assert together.energy == pytest.approx(alone.energy, abs=1e-3 * len(atoms))
        lengths = [[numpy.linalg.norm(v) for v in each.structure.cell or ()] for each in (together, alone)]
        assert lengths[0] == pytest.approx(lengths[1], rel=5e-3)
        assert together.force <= SETTINGS.fmax
        assert together.start_energy == pytest.approx(alone.start_energy, abs=1e-3)
        # The same optimizer, started as ASE starts it, whoever else is in the batch.
        assert together.steps == pytest.approx(alone.steps, abs=3)
        assert together.model == alone.model


def test_a_cap_of_three_steps_is_never_converged_in_a_batch_either(ctx: WorkContext) -> None:
    for cell in (True, False):
        settings = RelaxationSettings(steps=3, cell=cell)
        found = run({"a": cyanide("Zn", ZINC), "b": cyanide("Cd", CADMIUM)}, ctx, settings)
        assert found.relaxed == {}
        assert sorted(found.failed) == ["a", "b"]
        for failure in found.failed.values():
            assert failure.kind is FailureKind.NOT_CONVERGED
            assert failure.details["steps"] == 3
            assert max(failure.details["force"], failure.details["cell_force"] or 0.0) > settings.fmax


def test_what_cannot_be_computed_fails_by_itself(ctx: WorkContext) -> None:
    good = cyanide("Zn", 5.95)
    settings = RelaxationSettings(fmax=0.5)
    alone = run({"good": good}, ctx, settings)
    found = run(
        {"good": good, "gas": good.model_copy(update={"cell": None}), "radon": cyanide("Rn", CADMIUM)}, ctx, settings
    )
    assert found.relaxed == alone.relaxed
    assert {name: failure.kind for name, failure in found.failed.items()} == {
        "gas": FailureKind.BAD_INPUT,
        "radon": FailureKind.BAD_INPUT,
    }


def test_one_that_gives_no_numbers_leaves_the_others_as_they_are(ctx: WorkContext) -> None:
    good, bad = cyanide("Zn", 5.95), cyanide("Cd", CADMIUM)
    settings = RelaxationSettings(fmax=0.5)
    alone = run({"good": good}, ctx, settings)
    loaded = engines.load("7net-0", ctx)
    real = loaded.batch_model()

    class Lost(torch_sim.models.interface.ModelInterface):  # type: ignore[misc,name-defined]
        """The real model, which gives no numbers for cadmium from the third call on."""

        def __init__(self) -> None:
            super().__init__()
            self._device, self._dtype = real.device, real.dtype
            self._compute_stress = self._compute_forces = True
            self._memory_scales_with = "n_atoms"
            self.calls = 0

        def forward(self, state: Any) -> Any:
            self.calls += 1
            results = real(state)
            if self.calls > 4:
                hit = state.system_idx[state.atomic_numbers == 48].unique()
                results["forces"][(state.system_idx.unsqueeze(1) == hit).any(dim=1)] = float("nan")
                results["energy"][hit] = float("nan")
            return results

    loaded.batch = Lost()
    try:
        found = run({"good": good, "lost": bad}, ctx, settings)
    finally:
        loaded.batch = real
    assert found.failed["lost"].kind is FailureKind.ENGINE_ERROR
    assert "nan" in found.failed["lost"].message
    assert found.relaxed["good"].steps == alone.relaxed["good"].steps
    assert found.relaxed["good"].energy == pytest.approx(alone.relaxed["good"].energy, abs=1e-4)


def test_room_for_one_at_a_time_gives_the_same(ctx: WorkContext) -> None:
    """Less memory than all of them take: they come in one after another, as others leave."""
    structures = {"a": cyanide("Zn", 5.95), "b": cyanide("Zn", 6.0), "c": cyanide("Zn", 5.9)}
    settings = RelaxationSettings(fmax=0.5, cell=False)
    wide = run(structures, ctx, settings)
    ctx.memory_mib = 1
    narrow = run(structures, ctx, settings)
    assert sorted(wide.relaxed) == sorted(narrow.relaxed) == ["a", "b", "c"]
    for name in structures:
        assert narrow.relaxed[name].energy == pytest.approx(wide.relaxed[name].energy, abs=1e-4)
        assert narrow.relaxed[name].steps == wide.relaxed[name].steps


def test_what_torch_sim_cannot_do_is_a_failure_of_its_kind(ctx: WorkContext) -> None:
    one = {"a": cyanide("Zn", ZINC)}
    assert not batchable("7net-0", "lbfgs")
    with pytest.raises(CalculationError, match="fire") as failed:
        run(one, ctx, RelaxationSettings(optimizer="lbfgs"))
    assert failed.value.kind is FailureKind.BAD_INPUT
    pytest.importorskip("chgnet")
    assert not batchable("chgnet")
    with pytest.raises(CalculationError, match="one by one") as failed:
        run(one, ctx, RelaxationSettings(model="chgnet"))
    assert failed.value.kind is FailureKind.BAD_INPUT
