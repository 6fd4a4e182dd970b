"""A structure moved along its imaginary modes."""

from pydantic import Field, model_validator

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.chemistry.calculations.frequencies import Mode

__all__ = ["DisplacementInput", "DisplacementOutput", "displacement"]


class DisplacementInput(Model):
    """A saddle point and the modes that lead away from it."""

    atoms: ConceptualAtoms = Field(description="geometry in Å")
    modes: tuple[Mode, ...] = Field(min_length=1, description="imaginary modes, the most negative first")
    amplitude: float = Field(default=0.2, gt=0, le=1.0, description="how far the atom that moves most moves, Å")
    sign: int = Field(default=1, ge=-1, le=1, description="direction along the first mode, 1 or -1")

    @model_validator(mode="after")
    def _fitting(self) -> "DisplacementInput":
        if self.sign == 0:
            raise ValueError("sign is 1 or -1")
        if any(len(mode.displacements) != len(self.atoms) for mode in self.modes):
            raise ValueError("a mode does not have as many displacements as there are atoms")
        return self


class DisplacementOutput(Model):
    """A structure off the saddle point."""

    atoms: ConceptualAtoms


def _resources(value: DisplacementInput) -> Resources:  # noqa: ARG001
    return Resources(memory_mib=512, walltime_s=600.0)


@calculation(version="1", resources=_resources, family="python")
def displacement(value: DisplacementInput, ctx: WorkContext) -> DisplacementOutput:
    """Move the atoms along all imaginary modes, each next one half as far as the one before."""
    import numpy

    ctx.used(numpy=numpy.__version__)
    step = sum(0.5**index * numpy.asarray(mode.displacements) for index, mode in enumerate(value.modes))
    largest = numpy.linalg.norm(step, axis=1).max()
    moved = numpy.asarray(value.atoms.positions) + value.sign * value.amplitude / largest * step
    return DisplacementOutput(atoms=value.atoms.moved(tuple((float(x), float(y), float(z)) for x, y, z in moved)))
