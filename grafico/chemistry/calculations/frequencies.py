"""Harmonic frequencies, infrared intensities, and what thermochemistry needs."""

from typing import Any

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import ArtifactRef, Model, Resources, WorkContext, calculation
from grafico.chemistry.hessian import second_derivatives
from grafico.chemistry.infrared import intensities
from grafico.chemistry.properties import Electronic, electronic
from grafico.chemistry.pyscf_engine import build_engine, run_scf
from grafico.chemistry.request import Level
from grafico.chemistry.resources import LADDER, dft_resources
from grafico.chemistry.symmetry import point_group, symmetry_number
from grafico.chemistry.thermochemistry import Rotor
from grafico.chemistry.wavefunction import as_numpy

__all__ = ["FrequenciesInput", "FrequenciesOutput", "Mode", "frequencies"]

Vector = tuple[float, float, float]


class FrequenciesInput(Model):
    """A structure and a level of theory."""

    atoms: ConceptualAtoms = Field(description="geometry in Å, charge, multiplicity")
    level: Level
    gradient: bool = Field(
        default=True, description="compute the forces too, to know whether the geometry is stationary"
    )
    symmetry_tolerance: float = Field(default=0.05, gt=0, le=0.5, description="for the point group, Å")


class Mode(Model):
    """One normal mode."""

    wavenumber: float = Field(description="cm⁻¹; negative if imaginary")
    displacements: tuple[Vector, ...] = Field(description="Cartesian, largest atom's norm 1, shape (atoms, 3)")


class FrequenciesOutput(Model):
    """The harmonic force field at a geometry."""

    electronic: Electronic
    wavenumbers: tuple[float, ...] = Field(description="cm⁻¹, ascending; imaginary ones negative")
    intensities: tuple[float, ...] | None = Field(
        default=None, description="infrared, km/mol; None where the engine gives no response"
    )
    imaginary: tuple[Mode, ...] = Field(default=(), description="imaginary modes, the most negative first")
    rotor: Rotor
    gradient_norm: float | None = Field(default=None, description="norm of the whole gradient, hartree/bohr")
    gradient_max: float | None = Field(default=None, description="norm of the largest atom's gradient, hartree/bohr")
    analytical: bool = Field(description="whether the Hessian is analytical; else differences of forces")
    hessian: ArtifactRef = Field(description="hartree/bohr², shape (atoms, atoms, 3, 3)")
    modes: ArtifactRef = Field(description="Cartesian displacements of all modes, u^-1/2, shape (modes, atoms, 3)")


def _resources(value: FrequenciesInput) -> Resources:
    return dft_resources(value.atoms, value.level, "frequencies")


@calculation(
    version="1", resources=_resources, ladder=LADDER, family="pyscf", uses=("pyscf",), uses_on_gpu=("gpu4pyscf", "cupy")
)
def frequencies(value: FrequenciesInput, ctx: WorkContext) -> FrequenciesOutput:
    """Diagonalize the mass-weighted Hessian with translations and rotations projected out.

    Raises
    ------
    CalculationError
        ``scf_not_converged``.
    """
    import numpy
    from pyscf.hessian import thermo

    engine = build_engine(value.atoms, value.level, ctx)
    mean_field = run_scf(engine, ctx)
    molecule = engine.molecule
    properties = electronic(molecule, mean_field, ctx)
    gradient = None
    if value.gradient:
        gradient = numpy.linalg.norm(as_numpy(mean_field.nuc_grad_method().kernel()), axis=1)
    rotor = _rotor(value, molecule)
    infrared: tuple[float, ...] | None = () if molecule.natm == 1 else None
    if molecule.natm == 1:
        hessian, wavenumbers, modes = numpy.zeros((1, 1, 3, 3)), numpy.zeros(0), numpy.zeros((0, 1, 3))
        analytical = True
    else:
        hessian, derivatives, analytical = second_derivatives(molecule, mean_field, ctx, on_gpu=engine.on_gpu)
        analysis = thermo.harmonic_analysis(molecule, hessian, imaginary_freq=False)
        wavenumbers, modes = analysis["freq_wavenumber"], analysis["norm_mode"]
        if derivatives is not None:
            infrared = intensities(derivatives, modes)
    order = numpy.argsort(wavenumbers)
    return FrequenciesOutput(
        electronic=properties,
        wavenumbers=tuple(float(w) for w in wavenumbers[order]),
        intensities=None if infrared is None else tuple(infrared[i] for i in order),
        imaginary=tuple(_mode(wavenumbers[i], modes[i]) for i in order if wavenumbers[i] < 0),
        rotor=rotor,
        gradient_norm=None if gradient is None else float(numpy.linalg.norm(gradient)),
        gradient_max=None if gradient is None else float(gradient.max()),
        analytical=analytical,
        hessian=ctx.save_array(hessian),
        modes=ctx.save_array(modes[order]),
    )


def _mode(wavenumber: Any, displacements: Any) -> Mode:
    import numpy

    scaled = displacements / numpy.linalg.norm(displacements, axis=1).max()
    return Mode(wavenumber=float(wavenumber), displacements=tuple((float(x), float(y), float(z)) for x, y, z in scaled))


def _rotor(value: FrequenciesInput, molecule: Any) -> Rotor:
    from pyscf.hessian import thermo

    masses = molecule.atom_mass_list(isotope_avg=True)
    group = point_group(value.atoms, tolerance=value.symmetry_tolerance)
    constants: tuple[float, ...] = ()
    if molecule.natm > 1:
        found = thermo.rotation_const(masses, molecule.atom_coords(), "GHz")
        # Along the axis of a linear molecule the constant is infinite; the other two are equal.
        linear = found[0] > 1e8
        constants = (float(found[1]),) if linear else tuple(float(c) for c in found)
    return Rotor(
        mass=float(masses.sum()),
        rotational_constants=constants,
        symmetry_number=symmetry_number(group),
        point_group=group,
        multiplicity=value.atoms.multiplicity,
    )
