"""Relax a framework on a machine-learned potential, with ASE.

Source: A. Hjorth Larsen et al., J. Phys.: Condens. Matter 29 (2017) 273002 (ASE; its Frechet cell filter); E. Bitzek et
al., Phys. Rev. Lett. 97 (2006) 170201 (FIRE).
"""

import sys
from typing import Any

from grafico.atoms.optional import require
from grafico.calculations import CalculationError, FailureKind, Resources, WorkContext, calculation
from grafico.frameworks.relaxing.convergence import (
    Bonding,
    Measured,
    check_sane,
    finished,
    image_of,
    measure,
    not_converged,
)
from grafico.frameworks.relaxing.engines import load, memory_failures
from grafico.frameworks.relaxing.needs import LADDER, relaxation_resources
from grafico.frameworks.steps import RelaxedFramework, RelaxInput

__all__ = ["relax"]

SAID_EVERY = 5
"""Steps between two lines in the log."""


def _resources(value: RelaxInput) -> Resources:
    return relaxation_resources([len(value.structure)], value.settings)


@calculation(version="1", resources=_resources, ladder=LADDER, family="potential", uses=("torch", "ase"))
def relax(value: RelaxInput, ctx: WorkContext) -> RelaxedFramework:
    """Return the framework at a minimum of the potential.

    Converged is a geometry whose largest force on an atom and, with the cell relaxed, on the cell (the virial's largest
    row over the number of atoms, as ASE counts it) are within ``fmax`` when the structure that is returned is computed
    afresh.

    Raises
    ------
    CalculationError
        ``not_converged``: the limit of steps, with the forces that were left and the last geometry as a file; or a cell
        that collapsed or exploded. ``refused``: it fell apart. ``bad_input``: no crystal, or elements that the potential
        does not know. ``engine_error``: energies that are no numbers.
    MissingExtra
        The potential's package or weights are not here.
    """
    settings = value.settings
    loaded = load(settings.model, ctx)
    image = image_of(value.structure, loaded)
    loaded.calculator.reset()
    bonding = Bonding(image)
    optimizer = _optimizer(image, cell=settings.cell, name=settings.optimizer)
    _say(f"{loaded.label}, {loaded.potential.dtype}, on {loaded.device}: {len(image)} atoms")
    start = now = measure(image, cell=settings.cell)
    for step in range(settings.steps + 1):
        now = measure(image, cell=settings.cell)
        last = step == settings.steps
        close = now.within(settings.fmax)
        if step % SAID_EVERY == 0 or close or last:
            _say(_line(step, now))
        check_sane(now, start if step else None, step)
        if close:
            found = finished(
                value.structure, image, loaded=loaded, settings=settings, start=start, steps=step, bonding=bonding
            )
            if isinstance(found, RelaxedFramework):
                return found
            now = found
        if not last:
            _step(optimizer, step)
    raise not_converged(now, _geometry(value, image), settings, settings.steps, ctx)


def _optimizer(image: Any, *, cell: bool, name: str) -> Any:
    optimize = require("ase.optimize", extra="mlip", purpose="to relax frameworks")
    filters = require("ase.filters", extra="mlip", purpose="to relax frameworks")
    target = filters.FrechetCellFilter(image) if cell else image
    return {"fire": optimize.FIRE, "lbfgs": optimize.LBFGS}[name](target, logfile=None)


def _step(optimizer: Any, step: int) -> None:
    import numpy

    try:
        with memory_failures():
            optimizer.step()
    except numpy.linalg.LinAlgError as error:
        raise CalculationError(
            FailureKind.ENGINE_ERROR, f"step {step + 1} made a cell without volume: {error}", details={"steps": step}
        ) from error


def _geometry(value: RelaxInput, image: Any) -> Any:
    from grafico.atoms import from_ase

    return from_ase(image, charge=value.structure.charge, multiplicity=value.structure.multiplicity)


def _line(step: int, now: Measured) -> str:
    cell = "" if now.stress is None else f"  cell {now.cell_force:9.4f} eV  stress {now.stress:9.5f} eV/Å³"
    return (
        f"step {step:4d}  energy {now.energy:14.6f} eV  force {now.force:9.4f} eV/Å{cell}  volume {now.volume:.1f} Å³"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
