"""XYZ and extended XYZ: strict reading with line numbers, and writing.

A plain XYZ file holds symbols and positions only; charge, multiplicity, cell and docking points are lost in it.
Extended XYZ (https://github.com/libAtoms/extxyz) keeps them all in its comment line.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from pydantic import ValidationError

from grafico.atoms.conceptual import ConceptualAtoms, Vector
from grafico.atoms.elements import SYMBOLS, atomic_number
from grafico.errors import MoleculeError

__all__ = ["Info", "Value", "read_frames", "read_xyz", "write_extxyz", "write_xyz"]

Value: TypeAlias = str | int | float | bool
Info: TypeAlias = Mapping[str, Value]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?$")
_COUNT = re.compile(r"\d+$")
_PAIR = re.compile(r"""([A-Za-z_][\w-]*)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|\{[^}]*\}|\[[^\]]*\]|[^\s"']+)""")
_MAX_ATOMS = 1_000_000
_RESERVED = ("Properties", "Lattice", "pbc", "charge", "multiplicity", "docking_points")


def read_xyz(
    text: str, where: str = "the XYZ text", *, charge: int | None = None, multiplicity: int | None = None
) -> ConceptualAtoms:
    """Read the one structure of an XYZ or extended XYZ text.

    Charge and multiplicity come from the comment line's ``charge=`` and ``multiplicity=`` unless given.

    Parameters
    ----------
    where
        Name of the source, for messages.

    Raises
    ------
    MoleculeError
        Names the line, what stood there, and what was expected.
    """
    frames = list(_frames(text, where, charge, multiplicity))
    if len(frames) > 1:
        raise MoleculeError(
            f"{where} holds {len(frames)} structures; one is expected", hint="keep the one that is meant"
        )
    return frames[0][0]


def read_frames(text: str, where: str = "the XYZ text") -> list[tuple[ConceptualAtoms, dict[str, str]]]:
    """Read all structures of a trajectory, each with the ``key=value`` pairs of its comment line.

    A comment without such pairs is kept under the key ``comment``.

    Raises
    ------
    MoleculeError
        Names the line, what stood there, and what was expected.
    """
    return list(_frames(text, where, None, None))


def _fail(where: str, line: int, message: str, hint: str | None = None) -> NoReturn:
    raise MoleculeError(f"{where}, line {line}: {message}", hint=hint)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _frames(
    text: str, where: str, charge: int | None, multiplicity: int | None
) -> Iterator[tuple[ConceptualAtoms, dict[str, str]]]:
    if not text.strip():
        raise MoleculeError(f"{where} is empty", hint="an XYZ file starts with the number of atoms")
    if "\0" in text:
        raise MoleculeError(f"{where} holds binary data", hint="give a text file")
    lines = text.removeprefix("\ufeff").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    at = 0
    while at < len(lines):
        first = lines[at].strip()
        if not _COUNT.match(first):
            if at == 0:
                hint = "the first line of an XYZ file is the number of atoms alone; the second is a comment"
                _fail(where, 1, f"expected the number of atoms, found {_shown(first)}", hint)
            _fail(
                where,
                at + 1,
                f"expected the end after the atoms that were announced, found {_shown(first)}",
                "the count line says fewer atoms than there are",
            )
        count = int(first) if len(first) < 12 else _MAX_ATOMS + 1
        if not 1 <= count <= _MAX_ATOMS:
            _fail(where, at + 1, f"{_shown(first)} atoms; from 1 to {_MAX_ATOMS} are possible")
        found = len(lines) - at - 2
        if found < count:
            _fail(
                where,
                at + 1,
                f"the count line says {count} atoms, but only {max(found, 0)} lines of atoms follow",
                "the file is cut off, or the count is wrong (the second line is a comment)",
            )
        yield _frame(lines, at, count, where, charge=charge, multiplicity=multiplicity)
        at += count + 2


def _frame(
    lines: Sequence[str], at: int, count: int, where: str, *, charge: int | None, multiplicity: int | None
) -> tuple[ConceptualAtoms, dict[str, str]]:
    comment = lines[at + 1]
    info = _comment(comment)
    extended = "Properties" in info or "Lattice" in info
    column, width = _columns(info.get("Properties"), where, at + 2)
    symbols: list[str] = []
    positions: list[Vector] = []
    for number, line in enumerate(lines[at + 2 : at + 2 + count], start=at + 3):
        fields = line.split()
        if len(fields) < width:
            _fail(where, number, f"expected a symbol and three coordinates, found {_shown(line.strip())}")
        symbols.append(_symbol(fields[column[0]], where, number))
        x, y, z = (_coordinate(field, where, number) for field in fields[column[1] : column[1] + 3])
        positions.append((x, y, z))
    try:
        atoms = ConceptualAtoms(
            symbols=tuple(symbols),
            positions=tuple(positions),
            charge=_integer(info, "charge", 0, strict=extended, at=(where, at + 2)) if charge is None else charge,
            multiplicity=(
                _integer(info, "multiplicity", 1, strict=extended, at=(where, at + 2))
                if multiplicity is None
                else multiplicity
            ),
            cell=None if _is_alone(info, where, at + 2) else _lattice(info.get("Lattice"), where, at + 2),
            docking_points=_points(info.get("docking_points"), where, at + 2),
        )
    except ValidationError as error:
        _fail(where, at + 1, "; ".join(problem["msg"].removeprefix("Value error, ") for problem in error.errors()))
    return atoms, (info if info or not comment.strip() else {"comment": comment.strip()})


def _comment(comment: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for name, raw in _PAIR.findall(comment):
        value = raw
        if len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in "\"'":
            value = raw[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        pairs[name] = value
    return pairs


def _columns(properties: str | None, where: str, line: int) -> tuple[tuple[int, int], int]:
    """Return the columns of symbol and position, and how many columns a line must have."""
    if properties is None:
        return (0, 1), 4
    parts = properties.split(":")
    species = position = None
    offset = 0
    for name, kind, size in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
        if not size.isdigit():
            break
        if name == "species" and kind == "S":
            species = offset
        if name == "pos" and kind == "R" and size == "3":
            position = offset
        offset += int(size)
    if species is None or position is None or len(parts) % 3:
        _fail(where, line, f"Properties={_shown(properties)} has no species:S:1 and pos:R:3")
    return (species, position), offset


def _symbol(text: str, where: str, line: int) -> str:
    if text.isdigit() and 1 <= int(text[:4]) <= len(SYMBOLS):
        return SYMBOLS[int(text) - 1]
    symbol = text[:1].upper() + text[1:].lower()
    if atomic_number(symbol) is None:
        hint = "write H for the isotopes of hydrogen" if symbol in {"D", "T"} else "write symbols as in 'C', 'Cl'"
        _fail(where, line, f"{_shown(text)} is no element", hint)
    return symbol


def _coordinate(text: str, where: str, line: int) -> float:
    if not _NUMBER.match(text):
        _fail(where, line, f"expected a coordinate in Å, found {_shown(text)}")
    return float(text.replace("d", "e").replace("D", "e"))


def _integer(info: Mapping[str, str], key: str, default: int, *, strict: bool, at: tuple[str, int]) -> int:
    text = info.get(key)
    if text is None:
        return default
    if re.fullmatch(r"[+-]?\d{1,3}", text):
        return int(text)
    if strict:
        _fail(*at, f"{key}={_shown(text)} is no whole number")
    return default


def _lattice(text: str | None, where: str, line: int) -> tuple[Vector, Vector, Vector] | None:
    if text is None:
        return None
    fields = text.split()
    if len(fields) != 9:
        _fail(where, line, f"Lattice holds {len(fields)} numbers; nine are expected")
    n = [_coordinate(field, where, line) for field in fields]
    return ((n[0], n[1], n[2]), (n[3], n[4], n[5]), (n[6], n[7], n[8]))


def _is_alone(info: Mapping[str, str], where: str, line: int) -> bool:
    """Whether the lattice is but a box around a molecule."""
    flags = {flag[0] for flag in info.get("pbc", "").upper().split()}
    if flags >= {"T", "F"}:
        hint = "make it periodic in all three with a vacuum, or in none"
        _fail(where, line, f"pbc={_shown(info['pbc'])} is periodic in one or two directions only", hint)
    return flags == {"F"}


def _points(text: str | None, where: str, line: int) -> tuple[Vector, ...]:
    if text is None:
        return ()
    try:
        return tuple((float(x), float(y), float(z)) for x, y, z in json.loads(text))
    except (ValueError, TypeError):
        _fail(where, line, f"docking_points={_shown(text)} is no list of points")


def write_xyz(atoms: ConceptualAtoms, comment: str = "") -> str:
    """Return a plain XYZ text; coordinates keep all their digits, all else but the symbols is lost."""
    return f"{len(atoms)}\n{' '.join(comment.split())}\n{_body(atoms)}"


def write_extxyz(frames: Sequence[ConceptualAtoms], info: Sequence[Info] = ()) -> str:
    """Return an extended XYZ text that keeps everything, with further values for each frame.

    Parameters
    ----------
    info
        One mapping a frame, such as ``{"energy": -230.1, "weight": 0.7}``; empty for none.

    Raises
    ------
    MoleculeError
        A key is no name, or the number of mappings is not that of the frames.
    """
    if info and len(info) != len(frames):
        raise MoleculeError(f"{len(frames)} frames but {len(info)} sets of values")
    parts = []
    for index, atoms in enumerate(frames):
        pairs: dict[str, Any] = {}
        if atoms.cell is not None:
            pairs["Lattice"] = " ".join(repr(component) for vector in atoms.cell for component in vector)
        pairs["Properties"] = "species:S:1:pos:R:3"
        pairs["pbc"] = "T T T" if atoms.cell is not None else "F F F"
        pairs["charge"] = atoms.charge
        pairs["multiplicity"] = atoms.multiplicity
        if atoms.docking_points:
            pairs["docking_points"] = json.dumps(atoms.docking_points)
        for key, value in (info[index] if info else {}).items():
            if not re.fullmatch(r"[A-Za-z_][\w-]*", key) or key in _RESERVED:
                raise MoleculeError(f"{key!r} cannot be a key of an extended XYZ comment")
            pairs[key] = value
        comment = " ".join(f"{key}={_quoted(value)}" for key, value in pairs.items())
        parts.append(f"{len(atoms)}\n{comment}\n{_body(atoms)}")
    return "".join(parts)


def _quoted(value: Value) -> str:
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, int | float):
        return repr(value)
    text = " ".join(value.split())
    plain = re.fullmatch(r"[\w.:+/#-]+", text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _body(atoms: ConceptualAtoms) -> str:
    return "".join(
        f"{symbol:<2} {position[0]!r:>22} {position[1]!r:>22} {position[2]!r:>22}\n"
        for symbol, position in zip(atoms.symbols, atoms.positions, strict=True)
    )
