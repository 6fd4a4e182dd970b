"""Population analysis and orbitals of a converged wavefunction."""

from typing import Any

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Model, Resources, WorkContext, calculation
from grafico.chemistry.properties import Electronic, by_atom, electronic
from grafico.chemistry.pyscf_engine import build_engine, run_scf
from grafico.chemistry.request import Level
from grafico.chemistry.resources import LADDER, dft_resources
from grafico.chemistry.wavefunction import as_numpy
from grafico.units import EV_PER_HARTREE

__all__ = ["AnalysisInput", "AnalysisOutput", "Orbital", "analysis"]


class AnalysisInput(Model):
    """A structure and a level of theory."""

    atoms: ConceptualAtoms = Field(description="geometry in Å, charge, multiplicity")
    level: Level
    orbitals: int = Field(
        default=5, ge=1, le=50, description="occupied and as many empty orbitals to list, around the gap"
    )


class Orbital(Model):
    """One molecular orbital."""

    number: int = Field(description="counted from 1, in ascending energy")
    energy_ev: float = Field(description="eV")
    occupation: float
    spin: str = Field(default="both", description="both, alpha or beta")


class AnalysisOutput(Model):
    """Charges, dipole and frontier orbitals."""

    electronic: Electronic = Field(description="with energy, gap, dipole and Mulliken charges")
    lowdin: tuple[float, ...] = Field(description="Löwdin charges, e")
    iao: tuple[float, ...] | None = Field(
        default=None, description="charges in intrinsic atomic orbitals, e; None for elements without a minimal basis"
    )
    mulliken_spin: tuple[float, ...] | None = Field(
        default=None, description="Mulliken spin populations, open shells only"
    )
    orbitals: tuple[Orbital, ...] = Field(description="around the gap")


def _resources(value: AnalysisInput) -> Resources:
    return dft_resources(value.atoms, value.level, "analysis")


@calculation(
    version="1", resources=_resources, ladder=LADDER, family="pyscf", uses=("pyscf",), uses_on_gpu=("gpu4pyscf", "cupy")
)
def analysis(value: AnalysisInput, ctx: WorkContext) -> AnalysisOutput:
    """Analyze the wavefunction at a given geometry.

    Raises
    ------
    CalculationError
        ``scf_not_converged``.

    Source: IAO charges: G. Knizia, J. Chem. Theory Comput. 2013, 9, 4834, doi:10.1021/ct400687b.
    """
    import numpy

    engine = build_engine(value.atoms, value.level, ctx)
    mean_field = run_scf(engine, ctx)
    molecule = engine.molecule
    overlap = molecule.intor_symmetric("int1e_ovlp")
    density = as_numpy(mean_field.make_rdm1())
    total = density[0] + density[1] if density.ndim == 3 else density
    values, vectors = numpy.linalg.eigh(overlap)
    root = (vectors * numpy.sqrt(numpy.maximum(values, 0.0))) @ vectors.T
    lowdin = by_atom(molecule, numpy.einsum("ij,jk,ki->i", root, total, root))
    spin = None
    if density.ndim == 3:
        populations = numpy.einsum("ij,ji->i", density[0] - density[1], overlap)
        spin = tuple(float(populations[first:last].sum()) for _, _, first, last in molecule.aoslice_by_atom())
    return AnalysisOutput(
        electronic=electronic(molecule, mean_field, ctx),
        lowdin=tuple(float(q) for q in lowdin),
        iao=_iao_charges(molecule, mean_field, overlap),
        mulliken_spin=spin,
        orbitals=_orbitals(mean_field, value.orbitals),
    )


def _spins(mean_field: Any) -> list[tuple[str, Any, Any, Any]]:
    """Return name, coefficients, energies and occupations of each set of orbitals."""
    coefficients, energies = as_numpy(mean_field.mo_coeff), as_numpy(mean_field.mo_energy)
    occupations = as_numpy(mean_field.mo_occ)
    if occupations.ndim == 1:
        return [("both", coefficients, energies, occupations)]
    return [(name, coefficients[i], energies[i], occupations[i]) for i, name in enumerate(("alpha", "beta"))]


def _iao_charges(molecule: Any, mean_field: Any, overlap: Any) -> tuple[float, ...] | None:
    import numpy
    from pyscf import lo

    minimal = "minao"
    populations = None
    try:
        reference = lo.iao.reference_mol(molecule, minimal)
        for _, coefficients, _, occupations in _spins(mean_field):
            occupied = coefficients[:, occupations > 0]
            if occupied.shape[1] == 0:
                continue
            basis = lo.orth.vec_lowdin(lo.iao.iao(molecule, occupied, minao=minimal), overlap)
            projected = basis.T @ overlap @ occupied
            share = numpy.einsum("pi,i,pi->p", projected, occupations[occupations > 0], projected)
            populations = share if populations is None else populations + share
    except (KeyError, RuntimeError, ValueError, numpy.linalg.LinAlgError):
        return None
    if populations is None:
        return None
    slices = reference.aoslice_by_atom()
    return tuple(
        float(molecule.atom_charge(i) - populations[slices[i, 2] : slices[i, 3]].sum()) for i in range(molecule.natm)
    )


def _orbitals(mean_field: Any, count: int) -> tuple[Orbital, ...]:
    listed: list[Orbital] = []
    for spin, _, energies, occupations in _spins(mean_field):
        homo = int((occupations > 0).sum())
        around = range(max(0, homo - count), min(len(energies), homo + count))
        listed += [
            Orbital(
                number=i + 1, energy_ev=float(energies[i]) * EV_PER_HARTREE, occupation=float(occupations[i]), spin=spin
            )
            for i in around
        ]
    return tuple(listed)
