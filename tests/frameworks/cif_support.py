"""Crystals for the tests of cutting: some of CoRE MOF, read once in a process, and some made up."""

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from grafico.atoms import ConceptualAtoms, read_cif, write_cif
from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.frameworks.calculations.process_cif import process_cif
from grafico.frameworks.download import Downloaded, find_structures
from grafico.frameworks.refusals import REASONS
from grafico.frameworks.steps import CutFramework, ProcessCIFInput
from grafico.graphs import FolderArtifacts

REFCODES = ("IXEJIG", "VEGBUG", "XICNOO", "EDUSIF")


# IRMOF-1 in its space group, positions rounded: cubic, 25.83 Å (M. Eddaoudi et al., Science 295 (2002) 469).
IRMOF_1 = """
data_irmof_1
_cell_length_a 25.832
_cell_length_b 25.832
_cell_length_c 25.832
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M 'F m -3 m'
_symmetry_Int_Tables_number 225
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Zn1 Zn 0.2934 0.2066 0.2066
O1 O 0.25 0.25 0.25
O2 O 0.2819 0.2181 0.1340
C1 C 0.25 0.25 0.1113
C2 C 0.25 0.25 0.0538
C3 C 0.2829 0.2171 0.0269
H1 H 0.3050 0.1950 0.0450
"""


@functools.cache
def core_mof() -> Downloaded:
    """The three refcodes of the paper's first stage, and MOF-5, from CoRE MOF 2019-ASR."""
    return find_structures((*REFCODES, "ixejih", "XICNOO01"))


def cif_of(refcode: str) -> str:
    return core_mof().found[refcode].cif


@functools.cache
def cut_of(refcode: str) -> CutFramework:
    return cut(cif_of(refcode), refcode)


def cut(text: str, name: str = "test", *, remove_guests: bool = True, **settings: Any) -> CutFramework:
    with tempfile.TemporaryDirectory() as folder:
        ctx = WorkContext(artifacts=FolderArtifacts(Path(folder)), scratch=Path(folder), settings=settings)
        value = ProcessCIFInput(name=name, cif=text, remove_guests=remove_guests)
        return process_cif.function(value, ctx)


def refused(text: str, reason: str, **options: Any) -> CalculationError:
    """Take a CIF apart and return its refusal, which has to be of that reason, and of the kind that belongs to it."""
    with pytest.raises(CalculationError) as caught:
        cut(text, **options)
    assert caught.value.details["reason"] == reason, str(caught.value)
    assert caught.value.kind is REASONS[reason][0]
    assert caught.value.kind in (FailureKind.BAD_INPUT, FailureKind.REFUSED, FailureKind.TIMEOUT)
    return caught.value


def mof5() -> ConceptualAtoms:
    return read_cif(cif_of("EDUSIF"))


def changed(atoms: ConceptualAtoms, symbols: dict[int, str]) -> ConceptualAtoms:
    """The same positions with other elements."""
    return ConceptualAtoms(
        symbols=tuple(symbols.get(index, symbol) for index, symbol in enumerate(atoms.symbols)),
        positions=atoms.positions,
        cell=atoms.cell,
    )


def added(atoms: ConceptualAtoms, more: Iterable[tuple[str, tuple[float, float, float]]]) -> ConceptualAtoms:
    more = list(more)
    return ConceptualAtoms(
        symbols=(*atoms.symbols, *(symbol for symbol, _ in more)),
        positions=(*atoms.positions, *(place for _, place in more)),
        cell=atoms.cell,
    )


def scaled(atoms: ConceptualAtoms, factor: float) -> ConceptualAtoms:
    """The same fractional coordinates in a cell whose edges are wrong by a factor."""
    return ConceptualAtoms(
        symbols=atoms.symbols,
        positions=tuple(tuple(factor * value for value in row) for row in atoms.positions),
        cell=tuple(tuple(factor * value for value in row) for row in atoms.cell or ()),
    )


def close_to(atoms: ConceptualAtoms, center: int, reach: float) -> list[int]:
    """Atoms within a distance (Å) of one, across cells."""
    from grafico.atoms import to_ase

    distances = to_ase(atoms).get_distances(center, list(range(len(atoms))), mic=True)
    return [index for index, distance in enumerate(distances) if distance < reach]


def toy(*, arms: str = "xyz", metals: tuple[str, ...] = ("Zn",)) -> ConceptualAtoms:
    """A primitive cubic framework of one metal atom and O-C-C-C-C-O rods, in some of the directions, along z repeated."""
    edge = 2 * 2.0 + 2 * 1.35 + 3 * 1.4
    steps = [("O", 2.0), ("C", 3.35), ("C", 4.75), ("C", 6.15), ("C", 7.55), ("O", 8.9)]
    symbols, positions = [], []
    for level, metal in enumerate(metals):
        symbols.append(metal)
        positions.append((0.0, 0.0, level * edge))
        for axis in arms:
            for symbol, step in steps:
                place = [0.0, 0.0, level * edge]
                place["xyz".index(axis)] += step
                symbols.append(symbol)
                positions.append(tuple(place))
    cell = ((edge, 0.0, 0.0), (0.0, edge, 0.0), (0.0, 0.0, edge * len(metals)))
    return ConceptualAtoms(symbols=tuple(symbols), positions=tuple(positions), cell=cell)


def cif(atoms: ConceptualAtoms) -> str:
    return write_cif(atoms, name="test")


def listed(rows: Iterable[str], *, cell: str = "12 12 12 90 90 90", extra: str = "") -> str:
    """A CIF with one line an atom: label, element, three fractions, occupancy."""
    names = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
    lines = ["data_test", *(f"_cell_{name} {value}" for name, value in zip(names, cell.split(), strict=True)), extra]
    lines += ["loop_", "_atom_site_label", "_atom_site_type_symbol"]
    lines += [f"_atom_site_fract_{axis}" for axis in "xyz"] + ["_atom_site_occupancy", *rows]
    return "\n".join(lines) + "\n"
