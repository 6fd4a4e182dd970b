"""Infrared intensities from the derivative of the dipole with respect to the nuclei."""

from typing import Any

from grafico.chemistry.wavefunction import as_numpy

__all__ = ["KM_MOL_PER_SQUARED_DERIVATIVE", "dipole_derivatives", "intensities"]

KM_MOL_PER_SQUARED_DERIVATIVE = 974.8801
"""km/mol for (∂μ/∂Q)² of 1 e²/u (42.2561 km/mol for 1 D²/(Å² u))."""


def intensities(derivatives: Any, modes: Any) -> tuple[float, ...]:
    """Return the intensity of each mode in km/mol.

    Parameters
    ----------
    derivatives
        ∂μ/∂R in e, shape (atoms, 3, 3): atom, nuclear coordinate, dipole component.
    modes
        Mass-weighted normal modes back in Cartesian coordinates, u^-1/2, shape (modes, atoms, 3).
    """
    import numpy

    along = numpy.einsum("kzx,zxd->kd", modes, derivatives)
    return tuple(float(value) for value in KM_MOL_PER_SQUARED_DERIVATIVE * (along**2).sum(axis=1))


def dipole_derivatives(molecule: Any, mean_field: Any, response: Any) -> Any:
    """Return ∂μ/∂R in e, shape (atoms, 3, 3), from the orbitals' response to the nuclei.

    Parameters
    ----------
    response
        First-order occupied orbitals in the atomic-orbital basis, for each atom of shape (3, nao, nocc), as
        PySCF's analytical Hessian solves for them; a pair of such lists for unrestricted references.

    Source: Y. Yamaguchi et al., J. Chem. Phys. 1986, 84, 2262, doi:10.1063/1.450389 (eq. 9).
    """
    import numpy

    coefficients, occupations = as_numpy(mean_field.mo_coeff), as_numpy(mean_field.mo_occ)
    if occupations.ndim == 1:
        spins = [(coefficients, occupations, response)]
    else:
        spins = list(zip(coefficients, occupations, response, strict=True))
    density = as_numpy(mean_field.make_rdm1())
    if density.ndim == 3:
        density = density[0] + density[1]
    with molecule.with_common_orig((0.0, 0.0, 0.0)):
        position = molecule.intor_symmetric("int1e_r", comp=3)
        # <r i|nabla j>: first the dipole's component, then that of the derivative.
        gradient = molecule.intor("int1e_irp", comp=9).reshape(3, 3, molecule.nao, molecule.nao)
    derivatives = numpy.zeros((molecule.natm, 3, 3))
    for atom, (_, _, first, last) in enumerate(molecule.aoslice_by_atom()):
        derivatives[atom] += molecule.atom_charge(atom) * numpy.eye(3)
        # The basis functions move with their atom: -nabla on either side.
        moving = numpy.einsum("dxpq,pq->xd", gradient[:, :, :, first:last], density[:, first:last])
        derivatives[atom] += 2 * moving
        for orbitals, occupation, first_order in spins:
            occupied = orbitals[:, occupation > 0] * occupation[occupation > 0]
            changed = numpy.einsum("xpi,qi->xpq", as_numpy(first_order[atom]), occupied)
            derivatives[atom] -= 2 * numpy.einsum("xpq,dpq->xd", changed, position)
    return derivatives
