"""Constants and conversions (CODATA 2018, https://physics.nist.gov/cuu/Constants/), and durations in words."""

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
    "convert",
    "ev_to_nanometre",
    "nanometre_to_ev",
    "spell_seconds",
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


_PER_HARTREE = {
    "hartree": 1.0,
    "ev": EV_PER_HARTREE,
    "mev": EV_PER_HARTREE * 1e3,
    "kcal/mol": KCAL_MOL_PER_HARTREE,
    "kj/mol": KJ_MOL_PER_HARTREE,
    "cm-1": WAVENUMBER_PER_HARTREE,
    "k": 1.0 / BOLTZMANN_HARTREE_PER_KELVIN,
}
_PER_ANGSTROM = {"angstrom": 1.0, "bohr": 1.0 / ANGSTROM_PER_BOHR, "pm": 100.0}
_PER_DEBYE = {"debye": 1.0, "e*bohr": 1.0 / DEBYE_PER_ATOMIC_UNIT}
_SPELLINGS = {
    "ha": "hartree", "eh": "hartree", "au": "hartree", "a.u.": "hartree", "hartrees": "hartree",
    "electronvolt": "ev", "electronvolts": "ev", "electron volts": "ev",
    "kcal": "kcal/mol", "kcal mol-1": "kcal/mol", "kj": "kj/mol", "kj mol-1": "kj/mol",
    "cm^-1": "cm-1", "cm⁻¹": "cm-1", "1/cm": "cm-1", "wavenumber": "cm-1", "wavenumbers": "cm-1", "kelvin": "k",
    "nanometre": "nm", "nanometer": "nm", "nanometers": "nm", "nanometres": "nm",
    "å": "angstrom", "a": "angstrom", "ang": "angstrom", "angstroms": "angstrom", "ångström": "angstrom",
    "bohrs": "bohr", "a0": "bohr", "d": "debye", "debyes": "debye", "e bohr": "e*bohr", "ea0": "e*bohr",
}  # fmt: skip
_NEAR_NM = {"nm": 0.1}


def convert(value: float, unit: str, to: str) -> float:
    """Convert an energy, a photon's wavelength, a length or a dipole moment.

    Energies: hartree, eV, meV, kcal/mol, kJ/mol, cm-1, K; nm is the wavelength of a photon of that energy, and also a
    length beside angstrom, bohr and pm; dipole moments: debye, e*bohr.

    Raises
    ------
    ValueError
        A unit is unknown, the two are of different kinds, or a wavelength or its energy is not positive.
    """
    source, target = _unit(unit), _unit(to)
    for table in (_PER_HARTREE, _PER_ANGSTROM | _NEAR_NM, _PER_DEBYE):
        if source in table and target in table:
            return value / table[source] * table[target]
    if "nm" in {source, target} and (source in _PER_HARTREE or target in _PER_HARTREE):
        if not value > 0:
            raise ValueError(f"a photon's energy and wavelength are positive, came {value:g} {unit}")
        if source == "nm":
            return nanometre_to_ev(value) / EV_PER_HARTREE * _PER_HARTREE[target]
        return ev_to_nanometre(value / _PER_HARTREE[source] * EV_PER_HARTREE)
    raise ValueError(f"{unit} cannot be converted into {to}: they are of different kinds ({_known()})")


def _unit(text: str) -> str:
    name = " ".join(text.strip().lower().split())
    name = _SPELLINGS.get(name, name)
    if name not in {*_PER_HARTREE, *_PER_ANGSTROM, *_PER_DEBYE, "nm"}:
        raise ValueError(f"unit {text[:40]!r} is not known ({_known()})")
    return name


def _known() -> str:
    return f"energies: {', '.join(_PER_HARTREE)}, nm; lengths: {', '.join(_PER_ANGSTROM)}, nm; dipoles: {', '.join(_PER_DEBYE)}"


def spell_seconds(seconds: float) -> str:
    """Return a duration in words: ``7 min 40 s``, ``12 h 46 min``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minute} min" if minute else f"{hours} h"
    if minutes:
        return f"{minutes} min {second} s" if second else f"{minutes} min"
    return f"{second} s"
