"""Energy and electronic properties at a given geometry."""

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.chemistry.properties import Electronic, electronic
from grafico.chemistry.pyscf_engine import build_engine, run_scf
from grafico.chemistry.request import Level
from grafico.chemistry.resources import LADDER, dft_resources
from grafico.chemistry.wavefunction import as_numpy

__all__ = ["SinglePointInput", "SinglePointOutput", "single_point"]


class SinglePointInput(Model):
    """A structure and a level of theory."""

    atoms: ConceptualAtoms = Field(description="geometry in Å, charge, multiplicity")
    level: Level
    gradient: bool = Field(default=False, description="compute the forces too")


class SinglePointOutput(Model):
    """A converged SCF."""

    electronic: Electronic
    gradient: tuple[tuple[float, float, float], ...] | None = Field(
        default=None, description="hartree/bohr, shape (atoms, 3)"
    )
    gradient_norm: float | None = Field(default=None, description="norm of the whole gradient, hartree/bohr")


def _resources(value: SinglePointInput) -> Resources:
    return dft_resources(value.atoms, value.level, "single_point")


@calculation(
    version="1", resources=_resources, ladder=LADDER, family="pyscf", uses=("pyscf",), uses_on_gpu=("gpu4pyscf", "cupy")
)
def single_point(value: SinglePointInput, ctx: WorkContext) -> SinglePointOutput:
    """Solve the SCF at the given geometry.

    Raises
    ------
    CalculationError
        ``scf_not_converged``; ``bad_input`` for what PySCF cannot set up.
    """
    import numpy

    engine = build_engine(value.atoms, value.level, ctx)
    mean_field = run_scf(engine, ctx)
    properties = electronic(engine.molecule, mean_field, ctx)
    if not value.gradient:
        return SinglePointOutput(electronic=properties)
    gradient = as_numpy(mean_field.nuc_grad_method().kernel())
    return SinglePointOutput(
        electronic=properties,
        gradient=tuple((float(x), float(y), float(z)) for x, y, z in gradient),
        gradient_norm=float(numpy.linalg.norm(gradient)),
    )
