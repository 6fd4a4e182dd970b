"""Relax many frameworks at once on one device, with torch-sim."""

from grafico.calculations import Resources, WorkContext, calculation
from grafico.frameworks.potentials import batchable
from grafico.frameworks.relaxing.batches import batches
from grafico.frameworks.relaxing.engines import load
from grafico.frameworks.relaxing.needs import LADDER, relaxation_resources
from grafico.frameworks.relaxing.together import relax_together
from grafico.frameworks.steps import RelaxBatch, RelaxBatchInput

__all__ = ["batchable", "batches", "relax_batch"]


def _resources(value: RelaxBatchInput) -> Resources:
    sizes = [len(atoms) for atoms in value.structures.values()]
    return relaxation_resources(sizes, value.settings, at_once=sum(sizes))


@calculation(version="1", resources=_resources, ladder=LADDER, family="potential", uses=("torch", "torch_sim"))
def relax_batch(value: RelaxBatchInput, ctx: WorkContext) -> RelaxBatch:
    """Return which frameworks are at a minimum of the potential, by the check of :func:`relax`, and which are not.

    One that does not converge, or breaks, is a failure of its own and leaves the others as they would be without it.

    Raises
    ------
    CalculationError
        Of kind ``bad_input`` for a potential or an optimizer that :func:`batchable` does not know; ``out_of_memory``.
    MissingExtra
        The potential's package or weights, or torch-sim, are not here.
    """
    loaded = load(value.settings.model, ctx)
    relaxed, failed = relax_together(value.structures, value.settings, loaded, ctx)
    from importlib.metadata import version

    ctx.used(torch_sim=version("torch-sim-atomistic"))
    names = sorted(value.structures)
    return RelaxBatch(
        relaxed={name: relaxed[name] for name in names if name in relaxed},
        failed={name: failed[name] for name in names if name in failed},
    )
