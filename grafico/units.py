"""Constants and conversions (CODATA 2018, https://physics.nist.gov/cuu/Constants/)."""

__all__ = [
    "ANGSTROM_PER_BOHR",
    "BOLTZMANN_HARTREE_PER_KELVIN",
    "DEBYE_PER_ATOMIC_UNIT",
    "EV_NANOMETRE",
    "EV_PER_HARTREE",
    "HARTREE_PER_EV",
    "KCAL_MOL_PER_HARTREE",
    "KJ_MOL_PER_HARTREE",
    "WAVENUMBER_PER_HARTREE",
    "ev_to_nanometre",
    "nanometre_to_ev",
]

EV_PER_HARTREE = 27.211386245988
HARTREE_PER_EV = 1.0 / EV_PER_HARTREE
KCAL_MOL_PER_HARTREE = 627.5094740630558
KJ_MOL_PER_HARTREE = 2625.4996394798254
ANGSTROM_PER_BOHR = 0.529177210903
WAVENUMBER_PER_HARTREE = 219474.63136320
BOLTZMANN_HARTREE_PER_KELVIN = 3.166811563e-6
DEBYE_PER_ATOMIC_UNIT = 2.541746473
EV_NANOMETRE = 1239.8419843320026
"""hc in eV nm: a photon of E eV has the wavelength EV_NANOMETRE / E nm."""


def ev_to_nanometre(energy_ev: float) -> float:
    """Return the wavelength in nm of a photon of ``energy_ev`` eV."""
    return EV_NANOMETRE / energy_ev


def nanometre_to_ev(wavelength_nm: float) -> float:
    """Return the energy in eV of a photon of ``wavelength_nm`` nm."""
    return EV_NANOMETRE / wavelength_nm
