"""Second derivatives of the energy, analytical where the engine has them, else by differences of forces."""

from typing import Any, NamedTuple

from grafico.calculations import WorkContext
from grafico.chemistry.infrared import dipole_derivatives
from grafico.chemistry.pyscf_engine import is_restricted_open, scf_failure
from grafico.chemistry.wavefunction import as_numpy
from grafico.units import DEBYE_PER_ATOMIC_UNIT

__all__ = ["SecondDerivatives", "second_derivatives"]

STEP_BOHR = 0.01
"""Displacement of each coordinate to either side; at 0.01 bohr truncation and SCF noise are both below 0.5 cm⁻¹."""


class SecondDerivatives(NamedTuple):
    """Derivatives at one geometry."""

    hessian: Any
    """hartree/bohr², shape (atoms, atoms, 3, 3)."""
    dipole_derivatives: Any | None
    """e, shape (atoms, 3, 3); None where the engine gives no response."""
    analytical: bool


def second_derivatives(molecule: Any, mean_field: Any, ctx: WorkContext, *, on_gpu: bool = False) -> SecondDerivatives:
    """Return the Hessian and the derivatives of the dipole.

    Differences of forces are taken for what PySCF has no analytical Hessian: restricted open shells, ddCOSMO,
    and the VV10 part of unrestricted or density-fitted levels.
    """
    analytical = not is_restricted_open(mean_field) and "ddcosmo" not in type(mean_field).__name__.lower()
    if analytical:
        try:
            return _analytical(molecule, mean_field, on_gpu=on_gpu)
        except NotImplementedError as error:
            ctx.used(hessian=f"finite differences ({error})")
    return _by_differences(molecule, mean_field)


def _analytical(molecule: Any, mean_field: Any, *, on_gpu: bool) -> SecondDerivatives:
    solver = mean_field.Hessian()
    solve, kept = solver.solve_mo1, []

    def keep(*args: Any, **kwargs: Any) -> Any:
        solved = solve(*args, **kwargs)
        kept.append(solved[0])
        return solved

    # The response that the Hessian solves for is all that the infrared intensities need.
    solver.solve_mo1 = keep
    hessian = as_numpy(solver.kernel())
    derivatives = None
    if kept:
        response = _in_atomic_orbitals(mean_field, kept[0]) if on_gpu else kept[0]
        derivatives = dipole_derivatives(molecule, mean_field, response)
    return SecondDerivatives(hessian, derivatives, analytical=True)


def _in_atomic_orbitals(mean_field: Any, response: Any) -> Any:
    """Return the response as PySCF gives it; gpu4pyscf gives it in molecular orbitals."""
    import numpy

    orbitals = as_numpy(mean_field.mo_coeff)
    if orbitals.ndim == 2:
        return numpy.einsum("pa,zxai->zxpi", orbitals, as_numpy(response))
    return [numpy.einsum("pa,zxai->zxpi", orbitals[i], as_numpy(response[i])) for i in range(2)]


def _by_differences(molecule: Any, mean_field: Any) -> SecondDerivatives:
    import numpy

    count = molecule.natm
    start = molecule.atom_coords(unit="Bohr")
    hessian = numpy.zeros((count, 3, count, 3))
    derivatives = numpy.zeros((count, 3, 3))
    scanner = mean_field.nuc_grad_method().as_scanner()
    for atom in range(count):
        for axis in range(3):
            sides = []
            for sign in (1.0, -1.0):
                moved = start.copy()
                moved[atom, axis] += sign * STEP_BOHR
                _, gradient = scanner(molecule.set_geom_(moved, unit="Bohr", inplace=False))
                if not scanner.base.converged:
                    raise scf_failure(scanner.base)
                dipole = as_numpy(scanner.base.dip_moment(verbose=0)) / DEBYE_PER_ATOMIC_UNIT
                sides.append((as_numpy(gradient), dipole))
            (forward, dipole_forward), (backward, dipole_backward) = sides
            hessian[atom, axis] = (forward - backward) / (2 * STEP_BOHR)
            derivatives[atom, axis] = (dipole_forward - dipole_backward) / (2 * STEP_BOHR)
    hessian = (hessian + hessian.transpose(2, 3, 0, 1)) / 2
    return SecondDerivatives(hessian.transpose(0, 2, 1, 3), derivatives, analytical=False)
