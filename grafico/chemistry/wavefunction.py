"""Wavefunctions as artifacts: saved after one step, the guess of the next.

A wavefunction is a hint. It makes an SCF short and never changes what it converges to, so it is not part of a key;
one that is missing, damaged or of another molecule is passed over.
"""

import io
import json
from typing import Any

from grafico.calculations import ArtifactRef, WorkContext

__all__ = ["HINT", "MEDIA_TYPE", "as_numpy", "guess_density", "save_wavefunction"]

HINT = "density"
"""Name under which a wavefunction is handed to a calculation."""

MEDIA_TYPE = "application/x-npz"


def as_numpy(array: Any) -> Any:
    """Return an array on the host, wherever it lives."""
    import numpy

    if isinstance(array, list | tuple):
        return numpy.asarray([as_numpy(part) for part in array])
    return numpy.asarray(array.get() if hasattr(array, "get") else array)


def save_wavefunction(molecule: Any, mean_field: Any, ctx: WorkContext) -> ArtifactRef:
    """Store the orbitals of a converged mean field (``.npz``, no pickles) and return the reference.

    Arrays ``mo_coeff`` (nao, nmo) or (2, nao, nmo), ``mo_occ`` and ``mo_energy``; ``molecule`` is PySCF's JSON.
    """
    import numpy

    buffer = io.BytesIO()
    numpy.savez(
        buffer,
        mo_coeff=as_numpy(mean_field.mo_coeff),
        mo_occ=as_numpy(mean_field.mo_occ),
        mo_energy=as_numpy(mean_field.mo_energy),
        molecule=numpy.frombuffer(json.dumps(_description(molecule)).encode(), dtype=numpy.uint8),
    )
    return ctx.artifacts.put(buffer.getvalue(), MEDIA_TYPE)


def _description(molecule: Any) -> dict[str, Any]:
    return {
        "atoms": [[molecule.atom_symbol(i), molecule.atom_coord(i).tolist()] for i in range(molecule.natm)],
        "basis": molecule.basis,
        "ecp": molecule.ecp,
        "charge": int(molecule.charge),
        "spin": int(molecule.spin),
    }


def guess_density(molecule: Any, ctx: WorkContext, *, unrestricted: bool) -> Any | None:
    """Return a density matrix in the basis of ``molecule`` from the hint, or None.

    The occupied orbitals are projected where the basis differs, and made orthonormal again where atoms moved.
    """
    import numpy

    ref = ctx.hints.get(HINT)
    if ref is None:
        return None
    try:
        with numpy.load(ctx.artifacts.path(ref), allow_pickle=False) as stored:
            coefficients, occupations = stored["mo_coeff"], stored["mo_occ"]
            origin = json.loads(stored["molecule"].tobytes())
    except (OSError, ValueError, KeyError):
        return None
    here = _description(molecule)
    if [a[0] for a in origin["atoms"]] != [a[0] for a in here["atoms"]] or any(
        origin[key] != here[key] for key in ("charge", "spin")
    ):
        return None
    if coefficients.ndim == 2:
        # One set of orbitals, occupied twice, once or not at all.
        coefficients = numpy.stack([coefficients, coefficients])
        occupations = numpy.stack([occupations > 0, occupations > 1]).astype(float)
    densities = numpy.stack(
        [_density(molecule, origin, c[:, o > 0]) for c, o in zip(coefficients, occupations, strict=True)]
    )
    if not numpy.isfinite(densities).all():
        return None
    ctx.reused_hints.append(HINT)
    restricted_closed = not unrestricted and molecule.spin == 0
    return densities.sum(axis=0) if restricted_closed else densities


def _density(molecule: Any, origin: dict[str, Any], occupied: Any) -> Any:
    """Return the density of orthonormalized occupied orbitals."""
    import numpy
    from pyscf import gto
    from pyscf.scf import addons

    if origin["basis"] != molecule.basis or occupied.shape[0] != molecule.nao:
        source = gto.M(
            atom=origin["atoms"],
            unit="Bohr",
            basis=origin["basis"],
            ecp=origin["ecp"],
            charge=origin["charge"],
            spin=origin["spin"],
            verbose=0,
            parse_arg=False,
        )
        occupied = addons.project_mo_nr2nr(source, occupied, molecule)
    if occupied.shape[1] == 0:
        return numpy.zeros((molecule.nao, molecule.nao))
    overlap = occupied.T @ molecule.intor_symmetric("int1e_ovlp") @ occupied
    # C S^-1 C^T is the density of the Löwdin-orthonormalized orbitals.
    return occupied @ numpy.linalg.solve(overlap, occupied.T)
