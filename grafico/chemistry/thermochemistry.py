"""Thermochemistry of an ideal gas: rigid rotor, harmonic oscillator, and the quasi-harmonic entropy of Grimme."""

import math
from collections.abc import Sequence

from pydantic import Field

from grafico.calculations import Model

__all__ = ["Rotor", "Thermochemistry", "thermochemistry"]

# CODATA 2018; the first four are exact.
_BOLTZMANN = 1.380649e-23  # J/K
_PLANCK = 6.62607015e-34  # J s
_LIGHT = 2.99792458e10  # cm/s
_AVOGADRO = 6.02214076e23  # 1/mol
_DALTON = 1.66053906660e-27  # kg
_HARTREE = 4.3597447222071e-18  # J
_GAS = _BOLTZMANN / _HARTREE  # hartree/K per molecule
_JOULE_MOL = _HARTREE * _AVOGADRO
# Average moment of inertia that keeps the free rotor of a very low mode from being infinitely large, kg m².
_AVERAGE_INERTIA = 1e-44


class Rotor(Model):
    """What rotation and translation need to know of a molecule."""

    mass: float = Field(gt=0, description="average isotopic mass, u")
    rotational_constants: tuple[float, ...] = Field(description="GHz: none for an atom, one if linear, else three")
    symmetry_number: int = Field(default=1, ge=1, description="rotations that leave the molecule as it was")
    point_group: str = Field(default="C1", description="Schoenflies symbol")
    multiplicity: int = Field(default=1, ge=1, description="2S + 1, the electronic degeneracy")


class Thermochemistry(Model):
    """Thermodynamic functions of one molecule as an ideal gas."""

    temperature: float = Field(description="K")
    pressure: float = Field(description="Pa")
    energy: float = Field(description="electronic energy, hartree")
    zero_point_energy: float = Field(description="hartree")
    internal_energy: float = Field(description="with electronic and zero-point energy, hartree")
    enthalpy: float = Field(description="hartree")
    entropy: float = Field(description="RRHO, J/(mol K)")
    entropy_quasi_rrho: float = Field(description="with Grimme's interpolation for low modes, J/(mol K)")
    gibbs: float = Field(description="free energy, RRHO, hartree")
    gibbs_quasi_rrho: float = Field(description="free energy with the quasi-RRHO entropy, hartree")
    heat_capacity: float = Field(description="at constant volume, J/(mol K)")
    entropy_translation: float = Field(description="J/(mol K)")
    entropy_rotation: float = Field(description="J/(mol K)")
    entropy_vibration: float = Field(description="RRHO, J/(mol K)")
    entropy_electronic: float = Field(description="J/(mol K)")
    symmetry_number: int = Field(description="used for the rotation")
    point_group: str = Field(description="Schoenflies symbol")
    modes_left_out: int = Field(default=0, description="imaginary modes that do not contribute")


def thermochemistry(
    energy: float,
    frequencies: Sequence[float],
    rotor: Rotor,
    *,
    temperature: float = 298.15,
    pressure: float = 101325.0,
    quasi_rrho_cm1: float = 100.0,
) -> Thermochemistry:
    """Return the thermodynamic functions of an ideal gas.

    Parameters
    ----------
    energy
        Electronic energy, hartree.
    frequencies
        Harmonic wavenumbers, cm⁻¹, shape (modes,); imaginary ones are negative and left out.
    temperature, pressure
        K and Pa.
    quasi_rrho_cm1
        Wavenumber at which a mode counts half as vibration and half as free rotation.

    Source: D. A. McQuarrie, Statistical Mechanics, ch. 8; S. Grimme, Chem. Eur. J. 2012, 18, 9955,
    doi:10.1002/chem.201200497 (eqs. 3 to 8).
    """
    kT = _BOLTZMANN * temperature
    q_translation = (2 * math.pi * rotor.mass * _DALTON * kT / _PLANCK**2) ** 1.5 * kT / pressure
    s_translation = _GAS * (2.5 + math.log(q_translation))
    s_rotation, u_rotation = _rotation(rotor, temperature)
    s_electronic = _GAS * math.log(rotor.multiplicity)

    real = [wavenumber for wavenumber in frequencies if wavenumber > 0]
    quantum = _PLANCK * _LIGHT / _BOLTZMANN  # K cm
    zero_point = sum(0.5 * _GAS * quantum * wavenumber for wavenumber in real)
    u_vibration = s_vibration = s_quasi = c_vibration = 0.0
    for wavenumber in real:
        x = quantum * wavenumber / temperature
        occupation = 1.0 / math.expm1(x) if x < 700 else 0.0
        s_mode = _GAS * (x * occupation - math.log1p(-math.exp(-x)))
        u_vibration += _GAS * temperature * x * occupation
        c_vibration += _GAS * x * x * occupation * (1 + occupation)
        s_vibration += s_mode
        weight = 1.0 / (1.0 + (quasi_rrho_cm1 / wavenumber) ** 4)
        s_quasi += weight * s_mode + (1 - weight) * _free_rotor_entropy(wavenumber, temperature)

    internal = energy + zero_point + 1.5 * _GAS * temperature + u_rotation + u_vibration
    enthalpy = internal + _GAS * temperature
    fixed = s_translation + s_rotation + s_electronic
    return Thermochemistry(
        temperature=temperature,
        pressure=pressure,
        energy=energy,
        zero_point_energy=zero_point,
        internal_energy=internal,
        enthalpy=enthalpy,
        entropy=(fixed + s_vibration) * _JOULE_MOL,
        entropy_quasi_rrho=(fixed + s_quasi) * _JOULE_MOL,
        gibbs=enthalpy - temperature * (fixed + s_vibration),
        gibbs_quasi_rrho=enthalpy - temperature * (fixed + s_quasi),
        heat_capacity=(1.5 * _GAS + u_rotation / temperature + c_vibration) * _JOULE_MOL,
        entropy_translation=s_translation * _JOULE_MOL,
        entropy_rotation=s_rotation * _JOULE_MOL,
        entropy_vibration=s_vibration * _JOULE_MOL,
        entropy_electronic=s_electronic * _JOULE_MOL,
        symmetry_number=rotor.symmetry_number,
        point_group=rotor.point_group,
        modes_left_out=len(frequencies) - len(real),
    )


def _rotation(rotor: Rotor, temperature: float) -> tuple[float, float]:
    """Return entropy (hartree/K) and energy (hartree) of the rigid rotor."""
    constants = [value * 1e9 for value in rotor.rotational_constants]
    ratio = _BOLTZMANN * temperature / _PLANCK
    if not constants:
        return 0.0, 0.0
    if len(constants) == 1:
        q = ratio / (rotor.symmetry_number * constants[0])
        return _GAS * (1 + math.log(q)), _GAS * temperature
    q = ratio**1.5 * math.sqrt(math.pi) / (rotor.symmetry_number * math.sqrt(math.prod(constants)))
    return _GAS * (1.5 + math.log(q)), 1.5 * _GAS * temperature


def _free_rotor_entropy(wavenumber: float, temperature: float) -> float:
    """Return the entropy of the free rotor with the frequency of a mode, hartree/K."""
    inertia = _PLANCK / (8 * math.pi**2 * wavenumber * _LIGHT)
    effective = inertia * _AVERAGE_INERTIA / (inertia + _AVERAGE_INERTIA)
    argument = 8 * math.pi**3 * effective * _BOLTZMANN * temperature / _PLANCK**2
    return _GAS * (0.5 + 0.5 * math.log(argument))
