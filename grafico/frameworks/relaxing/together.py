"""Relax many frameworks at once: one call of the potential for all of them, each with an optimizer state of its own.

torch-sim's FIRE and its Frechet cell filter (as ASE has them) do the steps. This loop adds what a batch must not lack:
each structure's own count of steps, its own limits, and its own failure, so that one that explodes or gives no numbers
leaves the batch before it can touch the others.

Source: torch-sim, O. A. Cohen et al., arXiv:2508.06628. Unverified on a GPU: there was none where this was written.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafico.atoms import ConceptualAtoms
from grafico.atoms.optional import require
from grafico.calculations import CalculationError, Failure, FailureKind, WorkContext
from grafico.frameworks.relaxing.convergence import (
    Bonding,
    Measured,
    check_sane,
    finished,
    image_of,
    not_converged,
)
from grafico.frameworks.relaxing.engines import Loaded, memory_failures
from grafico.frameworks.relaxing.needs import MEMORY_MIB, memory_an_atom_mib
from grafico.frameworks.steps import RelaxationSettings, RelaxedFramework

__all__ = ["relax_together"]

SAID_EVERY = 10
"""Steps between two lines in the log."""

_MARGIN = 0.98
"""Part of the limit at which a structure leaves the batch, so that rounding does not undo it when it is checked."""

_DT = 0.1
_SHRINK = 0.5
"""torch-sim's first time step, and by what it is multiplied when the power is not positive."""


@dataclass
class Lane:
    """One structure of the batch."""

    name: str
    given: ConceptualAtoms
    image: Any
    bonding: Bonding
    start: Measured | None = None
    steps: int = 0


def relax_together(
    structures: Mapping[str, ConceptualAtoms], settings: RelaxationSettings, loaded: Loaded, ctx: WorkContext
) -> tuple[dict[str, RelaxedFramework], dict[str, Failure]]:
    """Return those that are at a minimum, and why the others are not.

    Raises
    ------
    CalculationError
        Of kind ``bad_input`` where torch-sim has no model for the potential or not the optimizer; ``out_of_memory``.
    """
    if settings.optimizer != "fire":
        raise CalculationError(
            FailureKind.BAD_INPUT,
            f"many frameworks at once are relaxed with fire, not with {settings.optimizer}: change the optimizer, or relax"
            " them one by one",
        )
    model = loaded.batch_model()
    relaxed: dict[str, RelaxedFramework] = {}
    failed: dict[str, Failure] = {}
    lanes: list[Lane] = []
    for name in sorted(structures, key=lambda name: (-len(structures[name]), name)):
        try:
            image = image_of(structures[name], loaded)
            lanes.append(Lane(name, structures[name], image, Bonding(image)))
        except CalculationError as error:
            failed[name] = _failure(error)
    if not lanes:
        return relaxed, failed
    batch = _Batch(model, settings, lanes, _room(model, lanes, loaded, ctx))
    with memory_failures():
        for lane, now, broken in batch.run():
            try:
                if broken is not None:
                    raise broken
                relaxed[lane.name] = _judge(lane, now, settings, loaded, ctx)
            except CalculationError as error:
                if error.kind is FailureKind.OUT_OF_MEMORY:
                    raise
                failed[lane.name] = _failure(error)
    return relaxed, failed


def _failure(error: CalculationError) -> Failure:
    return Failure(kind=error.kind, message=error.message, where="relax_batch", details=error.details)


def _judge(
    lane: Lane, now: Measured, settings: RelaxationSettings, loaded: Loaded, ctx: WorkContext
) -> RelaxedFramework:
    """Return what the same check as that of a single relaxation finds."""
    assert lane.start is not None
    found: RelaxedFramework | Measured = now
    if now.within(settings.fmax):
        found = finished(
            lane.given,
            lane.image,
            loaded=loaded,
            settings=settings,
            start=lane.start,
            steps=lane.steps,
            bonding=lane.bonding,
        )
    if isinstance(found, RelaxedFramework):
        return found
    from grafico.atoms import from_ase

    last = from_ase(lane.image, charge=lane.given.charge, multiplicity=lane.given.multiplicity)
    raise not_converged(found, last, settings, lane.steps, ctx)


def _room(model: Any, lanes: list[Lane], loaded: Loaded, ctx: WorkContext) -> dict[str, Any]:
    """Return how much is in memory at once: on a GPU torch-sim finds it out, on CPUs by the number of atoms."""
    if loaded.device == "cuda":
        return {"memory_scales_with": model.memory_scales_with, "max_memory_padding": 0.8}
    budget = (ctx.memory_mib - MEMORY_MIB) / memory_an_atom_mib(loaded.potential.name)
    return {"memory_scales_with": "n_atoms", "max_memory_scaler": max(budget, *(len(lane.image) for lane in lanes))}


class _Batch:
    """The loop: steps for all that are in, and who leaves it when."""

    def __init__(self, model: Any, settings: RelaxationSettings, lanes: list[Lane], room: dict[str, Any]) -> None:
        self.torch = require("torch", extra="mlip")
        self.sim = require("torch_sim", extra="mlip", purpose="to relax many frameworks at once")
        autobatching = require("torch_sim.autobatching", extra="mlip")
        optimizers = require("torch_sim.optimizers", extra="mlip")
        make = optimizers.frechet_cell_fire if settings.cell else optimizers.fire
        self.begin, self.step = make(model, dt_start=_DT, f_dec=_SHRINK)
        self.model, self.settings, self.lanes = model, settings, lanes
        self.queue = autobatching.InFlightAutoBatcher(model, return_indices=True, **room)

    def run(self) -> Any:
        """Yield each lane once it leaves, with what it was measured last, and what broke it if something did."""
        self.queue.load_states(self._begun(lane) for lane in self.lanes)
        state, _, indices = self.queue.next_batch(None, None)
        done, rounds = 0, 0
        while state is not None:
            inside = [self.lanes[index] for index in indices]
            leaving = []
            for at, (lane, now) in enumerate(zip(inside, self._measured(state), strict=True)):
                if lane.start is None:
                    lane.start = now
                broken = _broken(now, lane)
                if broken is not None or now.within(_MARGIN * self.settings.fmax) or lane.steps == self.settings.steps:
                    leaving.append(at)
                    self._keep(lane, state, at)
                    yield lane, now, broken
            if leaving:
                done += len(leaving)
                _say(f"after {rounds} rounds {done} of {len(self.lanes)} have left the batch")
                out = self.torch.zeros(len(inside), dtype=self.torch.bool, device=state.positions.device)
                out[leaving] = True
                state, _, indices = self.queue.next_batch(state, out)
                continue
            if rounds % SAID_EVERY == 0:
                worst = float(state.forces.norm(dim=1).max())
                _say(
                    f"round {rounds:4d}  {len(inside)} structures, {len(state.positions)} atoms  force {worst:9.4f} eV/Å"
                )
            state = self.step(state)
            rounds += 1
            for lane in inside:
                lane.steps += 1

    def _begun(self, lane: Lane) -> Any:
        state = self.begin(self.sim.initialize_state([lane.image], self.model.device, self.model.dtype))
        # torch-sim marks new velocities by NaN, and a step with any skips FIRE's own rule for all others of the batch.
        # At rest the first step halves the time step, so it begins with twice of it: that is how ASE begins.
        state.velocities = self.torch.zeros_like(state.velocities)
        if self.settings.cell:
            state.cell_velocities = self.torch.zeros_like(state.cell_velocities)
        state.dt = state.dt / _SHRINK
        return state

    def _measured(self, state: Any) -> list[Measured]:
        """Return the same figures for each system as :func:`measure` finds for one, in double precision on the host."""
        torch = self.torch
        index = state.system_idx
        forces = state.forces.detach().norm(dim=1)
        largest = torch.zeros(state.n_systems, device=forces.device, dtype=forces.dtype)
        # amax leaves NaN where there is one, which is what shows that a system is lost.
        largest = largest.scatter_reduce(0, index, forces, reduce="amax", include_self=True).double().cpu()
        volumes = torch.linalg.det(state.cell.detach().double()).cpu()
        energies = state.energy.detach().double().cpu()
        if not self.settings.cell:
            return [
                Measured(float(e), float(f), 0.0, None, float(v))
                for e, f, v in zip(energies, largest, volumes, strict=True)
            ]
        stress = state.stress.detach().double().cpu()
        counts = torch.bincount(index, minlength=state.n_systems).double().cpu()
        rows = (stress * (volumes / counts).view(-1, 1, 1)).norm(dim=2).amax(dim=1)
        peaks = stress.abs().amax(dim=(1, 2))
        columns = zip(energies, largest, rows, peaks, volumes, strict=True)
        return [Measured(float(e), float(f), float(c), float(s), float(v)) for e, f, c, s, v in columns]

    def _keep(self, lane: Lane, state: Any, at: int) -> None:
        """Write a system's geometry into the lane's image."""
        mask = state.system_idx == at
        lane.image.set_cell(state.row_vector_cell[at].detach().double().cpu().numpy(), scale_atoms=False)
        lane.image.set_positions(state.positions[mask].detach().double().cpu().numpy())


def _broken(now: Measured, lane: Lane) -> CalculationError | None:
    try:
        check_sane(now, lane.start if lane.steps else None, lane.steps)
    except CalculationError as error:
        return error
    return None if math.isfinite(now.volume) else CalculationError(FailureKind.ENGINE_ERROR, "the cell has no volume")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
