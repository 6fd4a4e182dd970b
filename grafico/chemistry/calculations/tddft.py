"""Vertical excitations by time-dependent DFT (or Hartree-Fock)."""

from typing import Any, Literal

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import CalculationError, FailureKind, Model, Resources, Rung, WorkContext, calculation
from grafico.chemistry.properties import Electronic, electronic
from grafico.chemistry.pyscf_engine import build_engine, run_scf
from grafico.chemistry.request import ExcitedStates, Level
from grafico.chemistry.resources import LADDER, dft_resources
from grafico.chemistry.wavefunction import as_numpy
from grafico.units import EV_PER_HARTREE, ev_to_nanometre

__all__ = ["Excitation", "Promotion", "TDDFTInput", "TDDFTOutput", "tddft"]

_NOTABLE = 0.05
_CYCLES = 100


class TDDFTInput(Model):
    """A structure, a level of theory, and which states."""

    atoms: ConceptualAtoms = Field(description="geometry in Å, charge, multiplicity")
    level: Level
    states: ExcitedStates = Field(default_factory=ExcitedStates)


class Promotion(Model):
    """One orbital pair of an excitation; orbitals are counted from 1."""

    spin: Literal["both", "alpha", "beta"] = "both"
    occupied: int
    empty: int
    weight: float = Field(description="share of the excitation vector's norm")


class Excitation(Model):
    """One vertical excitation."""

    kind: Literal["singlet", "triplet", "spin-conserving"]
    energy_ev: float = Field(description="eV")
    wavelength_nm: float = Field(description="nm")
    oscillator_strength: float = Field(description="length gauge; zero for triplets")
    transition_dipole: tuple[float, float, float] = Field(description="length gauge, atomic units")
    promotions: tuple[Promotion, ...] = Field(description=f"orbital pairs of weight above {_NOTABLE:g}, largest first")


class TDDFTOutput(Model):
    """Excitations in ascending energy, all converged."""

    electronic: Electronic = Field(description="of the reference state")
    excitations: tuple[Excitation, ...]
    complete: bool = Field(description="false where the reference has fewer real roots than asked for")


def _resources(value: TDDFTInput) -> Resources:
    return dft_resources(value.atoms, value.level, "tddft")


_LADDER = {
    **LADDER,
    FailureKind.NOT_CONVERGED: (
        Rung(
            note="five times the cycles and a larger subspace",
            settings={"tddft_cycles": 5 * _CYCLES},
            scale_walltime=3.0,
        ),
    ),
}


@calculation(
    version="1",
    resources=_resources,
    ladder=_LADDER,
    family="pyscf",
    uses=("pyscf",),
    uses_on_gpu=("gpu4pyscf", "cupy"),
)
def tddft(value: TDDFTInput, ctx: WorkContext) -> TDDFTOutput:
    """Compute vertical excitation energies and oscillator strengths.

    In a continuum solvent only its fast polarization follows the excitation, unless ``equilibrium_solvation`` is set;
    PySCF takes the optical dielectric constant 1.78 (water's) for that in every solvent.

    Raises
    ------
    CalculationError
        ``not_converged`` for roots, ``scf_not_converged`` for the reference, ``bad_input`` for restricted open shells.
    """
    engine = build_engine(value.atoms, value.level, ctx)
    mean_field = run_scf(engine, ctx)
    closed = as_numpy(mean_field.mo_occ).ndim == 1
    if closed and engine.molecule.spin != 0:
        raise CalculationError(
            FailureKind.BAD_INPUT, "PySCF has no TDDFT for a restricted open shell; leave restricted out of the level"
        )
    excitations: list[Excitation] = []
    complete = True
    for kind in _kinds(value.states, closed=closed):
        found, all_there = _solve(mean_field, value, kind, ctx)
        excitations += found
        complete = complete and all_there
    return TDDFTOutput(
        electronic=electronic(engine.molecule, mean_field, ctx),
        excitations=tuple(sorted(excitations, key=lambda state: state.energy_ev)),
        complete=complete,
    )


Kind = Literal["singlet", "triplet", "spin-conserving"]


def _kinds(states: ExcitedStates, *, closed: bool) -> list[Kind]:
    if not closed:
        return ["spin-conserving"]
    kinds: list[Kind] = []
    if states.singlets:
        kinds.append("singlet")
    if states.triplets:
        kinds.append("triplet")
    return kinds


def _solve(mean_field: Any, value: TDDFTInput, kind: Kind, ctx: WorkContext) -> tuple[list[Excitation], bool]:
    states = value.states
    options = {"equilibrium_solvation": states.equilibrium_solvation} if value.level.solvent else {}
    if states.tda:
        solver = mean_field.TDA(**options)
    elif hasattr(mean_field, "xc"):
        solver = mean_field.TDDFT(**options)
    else:
        solver = mean_field.TDHF(**options)
    roots = min(states.roots, _pairs(mean_field))
    solver.nstates = roots
    solver.conv_tol = states.convergence
    solver.max_cycle = int(ctx.settings.get("tddft_cycles", _CYCLES))
    if kind != "spin-conserving":
        solver.singlet = kind == "singlet"
    solver.kernel()
    energies = as_numpy(solver.e)
    if not all(as_numpy(solver.converged)):
        missing = [i + 1 for i, converged in enumerate(as_numpy(solver.converged)) if not converged]
        raise CalculationError(
            FailureKind.NOT_CONVERGED,
            f"{kind} roots {', '.join(map(str, missing))} of {roots} did not converge to {states.convergence:g}",
            details={"roots": missing, "cycles": solver.max_cycle},
        )
    strengths, dipoles = as_numpy(solver.oscillator_strength()), as_numpy(solver.transition_dipole())
    found = [
        Excitation(
            kind=kind,
            energy_ev=float(energies[i]) * EV_PER_HARTREE,
            wavelength_nm=ev_to_nanometre(float(energies[i]) * EV_PER_HARTREE),
            oscillator_strength=float(strengths[i]),
            transition_dipole=(float(dipoles[i][0]), float(dipoles[i][1]), float(dipoles[i][2])),
            promotions=_promotions(mean_field, solver.xy[i][0]),
        )
        for i in range(len(energies))
    ]
    return found, len(found) == states.roots


def _pairs(mean_field: Any) -> int:
    """Return how many excitations the basis has room for."""
    occupations = as_numpy(mean_field.mo_occ)
    if occupations.ndim == 1:
        return int((occupations > 0).sum() * (occupations == 0).sum())
    return sum(int((o > 0).sum() * (o == 0).sum()) for o in occupations)


def _promotions(mean_field: Any, amplitudes: Any) -> tuple[Promotion, ...]:
    """Return the notable orbital pairs of the excitation part X, normalized to one."""
    import numpy

    occupations = as_numpy(mean_field.mo_occ)
    parts: list[tuple[Literal["both", "alpha", "beta"], Any, Any]]
    if occupations.ndim == 1:
        parts = [("both", as_numpy(amplitudes), occupations)]
    else:
        parts = [("alpha", as_numpy(amplitudes[0]), occupations[0]), ("beta", as_numpy(amplitudes[1]), occupations[1])]
    norm = sum(float((x**2).sum()) for _, x, _ in parts)
    found: list[Promotion] = []
    for spin, x, occupation in parts:
        occupied, empty = numpy.flatnonzero(occupation > 0), numpy.flatnonzero(occupation == 0)
        for i, a in zip(*numpy.nonzero(x**2 / norm > _NOTABLE), strict=True):
            weight = float(x[i, a] ** 2 / norm)
            found.append(Promotion(spin=spin, occupied=int(occupied[i]) + 1, empty=int(empty[a]) + 1, weight=weight))
    return tuple(sorted(found, key=lambda p: -p.weight))
