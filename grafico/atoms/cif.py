"""CIF: periodic structures, read with gemmi and written in P1.

Source: S. R. Hall, F. H. Allen, I. D. Brown, Acta Cryst. A47 (1991) 655, and the core dictionary of the IUCr.
"""

import math
from typing import Any

from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.elements import atomic_number
from grafico.atoms.optional import require
from grafico.errors import MoleculeError

__all__ = ["read_cif", "write_cif"]

MAX_ATOMS = 100_000
_FULL = 0.999


def read_cif(
    text: str, where: str = "the CIF text", *, charge: int | None = None, multiplicity: int | None = None
) -> ConceptualAtoms:
    """Read the one structure of a CIF text, all atoms of the unit cell.

    The first lattice vector lies along x, the second in the xy plane. Charge and multiplicity, which CIF does not tell,
    are 0 and 1 unless given.

    Raises
    ------
    MoleculeError
        No CIF, no or several structures, no cell, disorder, unknown elements, or a symmetry that contradicts itself.
    MissingExtra
        gemmi is not installed.
    """
    gemmi = require("gemmi", purpose="to read CIF files")
    if not text.strip():
        raise MoleculeError(f"{where} is empty", hint="a CIF file starts with data_ and a name")
    try:
        document = gemmi.cif.read_string(text)
        found = [gemmi.make_small_structure_from_block(block) for block in document]
    except (ValueError, RuntimeError, IndexError, UnicodeError) as error:
        raise MoleculeError(f"{where} is no CIF that can be read: {str(error)[:200]}") from error
    structures = [structure for structure in found if len(structure.sites)]
    if len(structures) != 1:
        raise MoleculeError(
            f"{where} holds {len(structures) or 'no'} structures; one is expected",
            hint="a structure has _atom_site_fract_x, y and z; keep the one that is meant",
        )
    structure = structures[0]
    _check(structure, where)
    sites = _all_sites(structure, where)
    cell = structure.cell
    try:
        return ConceptualAtoms(
            symbols=tuple(site.element.name for site in sites),
            positions=tuple(_vector(cell.orthogonalize(site.fract).tolist()) for site in sites),
            charge=charge or 0,
            multiplicity=multiplicity or 1,
            cell=_rows(cell),
        )
    except ValueError as error:
        raise MoleculeError(f"{where}: {str(error)[:200]}") from error


def _check(structure: Any, where: str) -> None:
    cell = structure.cell
    lengths = (cell.a, cell.b, cell.c)
    if not (cell.is_crystal() and all(0.1 < length < 1e5 for length in lengths) and cell.volume > 1e-3):
        raise MoleculeError(
            f"{where} has no unit cell that is one", hint="give _cell_length_a, b, c and _cell_angle_alpha, beta, gamma"
        )
    for site in structure.sites:
        if not all(math.isfinite(value) for value in site.fract.tolist()):
            raise MoleculeError(
                f"{where}: the atom {site.label} has no fractional coordinates", hint="leave it out, or give them"
            )
        if not site.occ > _FULL:
            raise MoleculeError(
                f"{where}: the atom {site.label} is there in {site.occ:g} of all cells, so this is no one structure",
                hint="resolve the disorder: keep one of the alternatives, with occupancy 1",
            )
        if atomic_number(site.element.name) is None:
            name = site.type_symbol or site.label
            raise MoleculeError(f"{where}: {name!r} of the atom {site.label} is no element", hint=_ELEMENTS)


_ELEMENTS = "give _atom_site_type_symbol; write H for the isotopes of hydrogen"


def _all_sites(structure: Any, where: str) -> list[Any]:
    gemmi = require("gemmi")
    complaint = structure.check_spacegroup()
    operations = len(structure.symops)
    if structure.spacegroup is None and not operations and structure.spacegroup_number > 1:
        # The number alone means the standard setting.
        structure.spacegroup = gemmi.find_spacegroup_by_number(structure.spacegroup_number)
        structure.setup_cell_images()
        complaint = ""
    wrong = "incorrect" in complaint or "error" in complaint or "not found" in complaint
    if "incorrect" in complaint or (structure.spacegroup is None and (wrong or operations > 1)):
        raise MoleculeError(
            f"{where}: its symmetry cannot be used: {' '.join(complaint.split()) or 'the operations form no group'}",
            hint="write all atoms of the cell, with the space group P 1",
        )
    if structure.spacegroup is None or len(list(structure.spacegroup.operations())) == 1:
        return list(structure.sites)
    sites = structure.get_all_unit_cell_sites()
    if len(sites) > MAX_ATOMS:
        raise MoleculeError(f"{where} has {len(sites)} atoms in its cell; at most {MAX_ATOMS} are read")
    return list(sites)


def _vector(row: list[float]) -> Vector:
    return (float(row[0]), float(row[1]), float(row[2]))


def _rows(cell: Any) -> tuple[Vector, Vector, Vector]:
    columns = cell.orth.mat.tolist()
    first, second, third = ([row[index] for row in columns] for index in range(3))
    return _vector(first), _vector(second), _vector(third)


def write_cif(atoms: ConceptualAtoms, *, name: str = "structure") -> str:
    """Return a CIF text with all atoms in P1.

    What CIF does not hold is told by :func:`~grafico.atoms.losses.losses`.

    Raises
    ------
    MoleculeError
        It is no crystal, or its cell has no volume.
    """
    import numpy

    if atoms.cell is None:
        raise MoleculeError("a molecule without a cell has no CIF", hint="write XYZ, or give it a cell")
    cell = numpy.asarray(atoms.cell, dtype=float)
    volume = float(numpy.linalg.det(cell))
    lengths = numpy.linalg.norm(cell, axis=1)
    if abs(volume) < 1e-3 or min(lengths) < 0.1:
        raise MoleculeError(f"the cell has a volume of {abs(volume):g} Å³, which is none")
    fractions = numpy.linalg.solve(cell.T, numpy.asarray(atoms.positions, dtype=float).T).T
    if volume < 0:
        # CIF knows right-handed cells only. Turning all three vectors round keeps lattice and atoms.
        fractions = -fractions
    cosines = [float(cell[i] @ cell[j] / (lengths[i] * lengths[j])) for i, j in ((1, 2), (0, 2), (0, 1))]
    angles = [math.degrees(math.acos(max(-1.0, min(1.0, cosine)))) for cosine in cosines]
    block = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)[:60] or "structure"
    lines = [f"data_{block}", "_symmetry_space_group_name_H-M 'P 1'", "_symmetry_Int_Tables_number 1"]
    lines += [f"_cell_length_{axis} {length!r}" for axis, length in zip("abc", map(float, lengths), strict=True)]
    lines += [f"_cell_angle_{axis} {angle!r}" for axis, angle in zip(("alpha", "beta", "gamma"), angles, strict=True)]
    lines += ["loop_", "_symmetry_equiv_pos_as_xyz", "'x, y, z'", "loop_", "_atom_site_label"]
    lines += ["_atom_site_type_symbol", *(f"_atom_site_fract_{axis}" for axis in "xyz"), "_atom_site_occupancy"]
    counts: dict[str, int] = {}
    for symbol, row in zip(atoms.symbols, fractions.tolist(), strict=True):
        counts[symbol] = counts.get(symbol, 0) + 1
        lines.append(f"{symbol}{counts[symbol]} {symbol} {' '.join(_plain(value) for value in row)} 1.0")
    return "\n".join(lines) + "\n"


def _plain(value: float) -> str:
    return repr(value + 0.0)
