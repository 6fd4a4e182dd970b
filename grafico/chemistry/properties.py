"""What every converged mean field tells: energy, orbitals, dipole, Mulliken charges, and where its orbitals are kept."""

from typing import Any

from pydantic import Field

from grafico.calculations import ArtifactRef, Model, WorkContext
from grafico.chemistry.wavefunction import as_numpy, save_wavefunction
from grafico.units import EV_PER_HARTREE

__all__ = ["Electronic", "Orbitals", "electronic"]


class Orbitals(Model):
    """Frontier orbitals of one spin, or of both together."""

    homo_ev: float | None = Field(description="highest occupied orbital, eV; None without electrons")
    lumo_ev: float | None = Field(description="lowest empty orbital, eV; None when the basis has none")

    @property
    def gap_ev(self) -> float | None:
        """LUMO minus HOMO, eV."""
        return None if self.homo_ev is None or self.lumo_ev is None else self.lumo_ev - self.homo_ev


class Electronic(Model):
    """Result of one converged SCF."""

    energy: float = Field(description="total energy with dispersion and solvation, hartree")
    converged: bool = Field(description="whether the SCF reached its threshold")
    orbitals: Orbitals = Field(description="of both spins, or the alpha spin")
    beta_orbitals: Orbitals | None = Field(default=None, description="of the beta spin, for unrestricted levels")
    gap_ev: float | None = Field(description="smallest LUMO minus highest HOMO over spins, eV")
    dipole: tuple[float, float, float] = Field(description="electric dipole, debye; of an ion, about the origin")
    mulliken: tuple[float, ...] = Field(description="Mulliken charges, e")
    s_squared: float = Field(description="expectation value of S², ideally S(S + 1)")
    dispersion_energy: float = Field(default=0.0, description="part of the energy that is D3 or D4, hartree")
    wavefunction: ArtifactRef = Field(description="orbitals, for the next step's guess")


def electronic(molecule: Any, mean_field: Any, ctx: WorkContext) -> Electronic:
    """Collect the properties of a converged mean field and store its orbitals."""
    import numpy

    energies, occupations = as_numpy(mean_field.mo_energy), as_numpy(mean_field.mo_occ)
    spins = [(energies, occupations)] if occupations.ndim == 1 else list(zip(energies, occupations, strict=True))
    frontier = [_frontier(e, o) for e, o in spins]
    homos = [f.homo_ev for f in frontier if f.homo_ev is not None]
    lumos = [f.lumo_ev for f in frontier if f.lumo_ev is not None]
    density = as_numpy(mean_field.make_rdm1())
    if density.ndim == 3:
        density = density[0] + density[1]
    dipole = as_numpy(mean_field.dip_moment(molecule, verbose=0))
    return Electronic(
        energy=float(mean_field.e_tot),
        converged=bool(mean_field.converged),
        orbitals=frontier[0],
        beta_orbitals=frontier[1] if len(frontier) == 2 else None,
        gap_ev=min(lumos) - max(homos) if homos and lumos else None,
        dipole=(float(dipole[0]), float(dipole[1]), float(dipole[2])),
        mulliken=tuple(float(q) for q in mulliken_charges(molecule, density)),
        s_squared=float(mean_field.spin_square()[0]),
        dispersion_energy=float(numpy.real(mean_field.scf_summary.get("dispersion", 0.0))),
        wavefunction=save_wavefunction(molecule, mean_field, ctx),
    )


def _frontier(energies: Any, occupations: Any) -> Orbitals:
    occupied, empty = energies[occupations > 0], energies[occupations == 0]
    return Orbitals(
        homo_ev=float(occupied.max()) * EV_PER_HARTREE if occupied.size else None,
        lumo_ev=float(empty.min()) * EV_PER_HARTREE if empty.size else None,
    )


def mulliken_charges(molecule: Any, density: Any) -> Any:
    """Return the Mulliken charges of a total density, shape (atoms,), e."""
    import numpy

    populations = numpy.einsum("ij,ji->i", density, molecule.intor_symmetric("int1e_ovlp"))
    return by_atom(molecule, populations)


def by_atom(molecule: Any, populations: Any) -> Any:
    """Return nuclear charge minus the populations of each atom's basis functions, shape (atoms,)."""
    import numpy

    slices = molecule.aoslice_by_atom()
    return numpy.array(
        [molecule.atom_charge(i) - populations[slices[i, 2] : slices[i, 3]].sum() for i in range(molecule.natm)]
    )
