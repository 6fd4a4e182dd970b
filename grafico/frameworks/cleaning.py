"""From a CIF as it was found to one framework without guests, or a refusal that says what is wrong.

Symmetry that a file does not tell is taken to be none (P 1), as CIFs of computed structures mean it. A file that holds
only the asymmetric unit and has lost its symmetry falls to pieces then, and is refused for that.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms, read_cif
from grafico.atoms.elements import hill_formula
from grafico.atoms.optional import require
from grafico.errors import MoleculeError
from grafico.frameworks.molecular_graph import METALS
from grafico.frameworks.periodic import Contact, Link, Part, close_contacts, crystal_bonds, density, parts_of
from grafico.frameworks.refusals import refuse

__all__ = ["Cleaned", "clean", "read_structure"]

MAX_CHARACTERS = 20_000_000
MAX_ATOMS = 12_000
"""Atoms in a cell. The largest cell of CoRE MOF has 10,560; mofstructure holds tables of all pairs of atoms."""

_OVERLAP = 0.6
"""Factor on the sum of covalent radii. X-rays show C-H as 0.93 Å and O-H as 0.82 Å, which are 0.87 and 0.85."""

_SAME_PLACE = 0.1  # Å
_THINNEST = 2.0
"""Å between lattice planes. No framework's cell is as flat; in one that is, an atom has thousands of images around it."""
_DENSITIES = (0.05, 25.0)
"""g/cm³. The lightest framework known has 0.124 (NU-1301), osmium 22.6."""

_UNREADABLE = (ValueError, RuntimeError, IndexError, UnicodeError)
_UNQUOTED = re.compile(
    r"^(_(?:symmetry_)?space_group_name_H-M(?:_alt)?)[ \t]+([^\s'\"][^'\"\n]*[^\s'\"])[ \t]*$", re.MULTILINE
)
"""A space group without quotes, ``P 1``: no CIF, but what an old ASE wrote, as are 2,295 of the 7,061 files of CoRE MOF 2019-FSR."""

_TEXT = frozenset("\t\n\r\x0b\x0c")


class Cleaned(NamedTuple):
    """One framework, and what was in its pores."""

    structure: ConceptualAtoms
    bonds: tuple[Link, ...]
    guests: dict[str, int]
    """Formulas of what was taken out, with counts."""


def read_structure(text: str, name: str) -> ConceptualAtoms:
    """Return all atoms of the cell of a CIF text.

    Raises
    ------
    CalculationError
        ``bad_input``, with a reason of :data:`~grafico.frameworks.refusals.REASONS`.
    MissingExtra
        gemmi is not installed.
    """
    gemmi = require("gemmi", extra="mof", purpose="to read CIF files")
    if not text.strip():
        refuse("empty", f"the CIF of {name} is empty")
    if len(text) > MAX_CHARACTERS:
        refuse("too_large", f"the CIF of {name} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read")
    strange = next((index for index, letter in enumerate(text) if _strange(letter)), None)
    if strange is not None:
        refuse("binary", f"the CIF of {name} is no text: its character {strange + 1} is {text[strange]!r}")
    try:
        found = _parsed(gemmi, text)
    except _UNREADABLE as error:
        text = _UNQUOTED.sub(r"\1 '\2'", text)
        try:
            found = _parsed(gemmi, text)
        except _UNREADABLE:
            said = " ".join(str(error).split())[:200]
            place = re.sub(r"^string:(\d+):\d+\(\d+\):", r"line \1:", said)
            refuse("unreadable", f"the CIF of {name} cannot be read, it may be cut off: {place}")
    found = [(block, structure) for block, structure in found if len(structure.sites)]
    if not found:
        refuse("no_structure", f"the CIF of {name} holds no atoms with fractional coordinates")
    if len(found) > 1:
        refuse("several_structures", f"the CIF of {name} holds {len(found)} structures; keep the one that is meant")
    block, structure = found[0]
    _check_sites(block, structure, name)
    _check_listed_once(structure, name)
    try:
        atoms = read_cif(text, f"the CIF of {name}")
    except MoleculeError as error:
        reason = "symmetry" if "symmetry" in error.message else "unusable"
        refuse("too_large" if "at most" in error.message else reason, error.message)
    if len(atoms) > MAX_ATOMS:
        refuse("too_large", f"{name} has {len(atoms):,} atoms in its cell; at most {MAX_ATOMS:,} are taken apart")
    return atoms


def _parsed(gemmi: Any, text: str) -> list[tuple[Any, Any]]:
    return [(block, gemmi.make_small_structure_from_block(block)) for block in gemmi.cif.read_string(text)]


def _strange(letter: str) -> bool:
    return (letter < " " and letter not in _TEXT) or letter in "\x7f\ufffd"


def _check_sites(block: Any, structure: Any, name: str) -> None:
    cell = structure.cell
    # Spacings of the lattice planes: 1 over the lengths of the reciprocal vectors.
    reciprocal = cell.reciprocal() if cell.is_crystal() and cell.volume > 1.0 else None
    spacings = [] if reciprocal is None else [1.0 / length for length in (reciprocal.a, reciprocal.b, reciprocal.c)]
    if not spacings or not all(_THINNEST < spacing < 1e4 for spacing in spacings):
        refuse(
            "no_cell", f"the CIF of {name} has no unit cell that is one: lengths {cell.a:g}, {cell.b:g}, {cell.c:g} Å"
        )
    partial = [site for site in structure.sites if not site.occ > 0.999]
    if partial:
        some = ", ".join(f"{site.label} ({site.occ:g})" for site in partial[:4])
        refuse(
            "partial_occupancy",
            f"{len(partial)} of {len(structure.sites)} sites of {name} are occupied in part: {some}; keep one of the "
            "alternatives, with occupancy 1",
            sites=len(partial),
        )
    if alternatives := _alternatives(block):
        refuse(
            "disorder",
            f"{name} is disordered: {alternatives} alternatives of the same atoms are marked; keep one of them",
            alternatives=alternatives,
        )


def _check_listed_once(structure: Any, name: str) -> None:
    """Refuse all atoms of a cell with a symmetry that repeats them, before there are thousands of each.

    A site that symmetry brings upon another one of the list is listed twice. The first sites tell: all are, or none is.
    """
    import numpy

    if structure.spacegroup is None:
        return
    places = numpy.array([site.fract.tolist() for site in structure.sites])
    lengths = numpy.array([structure.cell.a, structure.cell.b, structure.cell.c])
    for index, site in enumerate(structure.sites[:20]):
        if not numpy.isfinite(places[index]).all():
            continue
        for operation in structure.spacegroup.operations():
            apart = places - operation.apply_to_xyz(site.fract.tolist())
            near = (numpy.abs(apart - numpy.round(apart)) * lengths < _SAME_PLACE).all(axis=1)
            for other in numpy.flatnonzero(near).tolist():
                if other != index and structure.sites[other].element == site.element:
                    refuse(
                        "duplicate_atoms",
                        f"the CIF of {name} lists {site.label} and {structure.sites[other].label}, which the symmetry of "
                        f"{structure.spacegroup.xhm()} makes one site: atoms that symmetry repeats must be given once, or "
                        "the space group be P 1",
                    )


def _alternatives(block: Any) -> int:
    """Return the largest number of disorder groups in an assembly (IUCr core dictionary), if more than one."""
    table = block.find("_atom_site_", ["disorder_group", "?disorder_assembly"])
    groups: dict[str, set[str]] = {}
    for row in table:
        if row[0] not in (".", "?", ""):
            assembly = row[1] if table.has_column(1) else "."
            groups.setdefault(assembly, set()).add(row[0].lstrip("-"))
    most = max((len(found) for found in groups.values()), default=0)
    return most if most > 1 else 0


def clean(atoms: ConceptualAtoms, name: str, *, remove_guests: bool = True) -> Cleaned:
    """Return the one framework of a crystal, without guests.

    Parameters
    ----------
    remove_guests
        Take out molecules and ions that are bonded to no framework; refuse them otherwise.

    Raises
    ------
    CalculationError
        ``bad_input`` or ``refused``, with a reason of :data:`~grafico.frameworks.refusals.REASONS`.
    """
    _check_density(atoms, name)
    contacts = close_contacts(atoms, 1.3)
    _check_geometry(atoms, contacts, name)
    bonds = crystal_bonds(atoms, contacts)
    parts = parts_of(range(len(atoms)), bonds)
    frameworks = [part for part in parts if part.dimension == 3]
    _check_elements([atoms.symbols[index] for part in frameworks or parts for index in part.atoms], name)
    _check_frameworks(atoms, parts, frameworks, name)
    guests: dict[str, int] = {}
    for part in parts:
        if part.dimension < 3:
            formula = hill_formula(atoms.symbols[index] for index in part.atoms)
            guests[formula] = guests.get(formula, 0) + 1
    if not guests:
        return Cleaned(atoms, bonds, {})
    if not remove_guests:
        listed = ", ".join(f"{count} {formula}" for formula, count in sorted(guests.items()))
        refuse(
            "guests", f"{name} has guests in its pores: {listed}; let them be removed, or remove them", guests=guests
        )
    return _without_guests(atoms, frameworks[0], bonds, guests)


def _without_guests(atoms: ConceptualAtoms, framework: Part, bonds: Sequence[Link], guests: dict[str, int]) -> Cleaned:
    number = {index: position for position, index in enumerate(framework.atoms)}
    kept = ConceptualAtoms(
        symbols=tuple(atoms.symbols[index] for index in framework.atoms),
        positions=tuple(atoms.positions[index] for index in framework.atoms),
        cell=atoms.cell,
    )
    renumbered = tuple((number[i], number[j], shift) for i, j, shift in bonds if i in number)
    return Cleaned(kept, renumbered, dict(sorted(guests.items())))


def _check_density(atoms: ConceptualAtoms, name: str) -> None:
    found = density(atoms)
    low, high = _DENSITIES
    if not low < found < high:
        refuse(
            "density",
            f"{name} would have a density of {found:.3g} g/cm³, which no framework has ({low:g} to {high:g}): check "
            "the cell, and that all atoms are there",
            density=found,
        )


def _check_geometry(atoms: ConceptualAtoms, contacts: Sequence[Contact], name: str) -> None:
    symbols = atoms.symbols
    same = [
        contact
        for contact in contacts
        if contact.distance < _SAME_PLACE and symbols[contact.first] == symbols[contact.second]
    ]
    if same:
        first = same[0]
        refuse(
            "duplicate_atoms",
            f"atoms of {name} stand in the same place, as atoms {first.first + 1} and {first.second + 1} "
            f"({symbols[first.first]}), in {len(same)} of all pairs: atoms that symmetry repeats must be given once",
            pairs=len(same),
        )
    close = [contact for contact in contacts if contact.ratio < _OVERLAP]
    if close:
        worst = min(close, key=lambda contact: contact.ratio)
        refuse(
            "overlap",
            f"atoms {worst.first + 1} ({symbols[worst.first]}) and {worst.second + 1} ({symbols[worst.second]}) of {name} "
            f"are {worst.distance:.2f} Å apart, the closest of {len(close)} closer than any bond: check the cell, and "
            "keep one alternative where atoms are disordered",
            pairs=len(close),
            distance=round(worst.distance, 4),
        )


def _check_elements(symbols: Sequence[str], name: str) -> None:
    if not METALS.intersection(symbols):
        refuse("no_metal", f"{name} ({_reduced(symbols)}) has no metal, so it is no metal-organic framework")
    if "C" not in symbols:
        refuse("no_organic", f"{name} ({_reduced(symbols)}) has no carbon, so no organic linker")


def _check_frameworks(atoms: ConceptualAtoms, parts: Sequence[Part], frameworks: Sequence[Part], name: str) -> None:
    most = max(part.dimension for part in parts)
    if most < 3:
        what = ("molecules", "chains", "layers")[most]
        refuse(
            "not_periodic",
            f"{name} consists of {what}: its bonds reach through the crystal in {most} of three directions",
            dimension=most,
        )
    copies = sum(part.copies for part in frameworks)
    if copies == 1:
        return
    kinds = {_reduced([atoms.symbols[index] for index in part.atoms]) for part in frameworks}
    if len(kinds) > 1:
        refuse("several_frameworks", f"{name} has frameworks of different composition: {', '.join(sorted(kinds))}")
    refuse(
        "interpenetrated",
        f"{name} has {copies} interpenetrating frameworks; a single one is expected",
        catenation=copies,
    )


def _reduced(symbols: Sequence[str]) -> str:
    """Return the formula with the smallest whole numbers."""
    import math
    from collections import Counter

    counts = Counter(symbols)
    divisor = math.gcd(*counts.values())
    return hill_formula(symbol for symbol, count in counts.items() for _ in range(count // divisor))
