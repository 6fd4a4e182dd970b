"""Structure files: which format a file has, and reading it safely."""

from pathlib import Path

from grafico.atoms.cif import read_cif, write_cif
from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.molfile import read_mol, write_mol
from grafico.atoms.qcschema import read_qcschema
from grafico.atoms.xyz import Info, read_frames, read_xyz, write_extxyz, write_xyz
from grafico.errors import MoleculeError

__all__ = [
    "MAX_BYTES",
    "Info",
    "read_cif",
    "read_frames",
    "read_mol",
    "read_qcschema",
    "read_structure",
    "read_text",
    "read_xyz",
    "write_cif",
    "write_extxyz",
    "write_mol",
    "write_xyz",
]

MAX_BYTES = 20_000_000
"""A structure file above this is a mistake; a million atoms fit."""

_XYZ = (".xyz", ".extxyz")
_MOL = (".mol", ".sdf", ".sd")
_CIF = (".cif",)
_QCSCHEMA = (".json",)


def read_structure(
    path: "Path | str", *, charge: int | None = None, multiplicity: int | None = None
) -> ConceptualAtoms:
    """Read one structure from an XYZ, extended XYZ, MOL, SDF, CIF or QCSchema (JSON) file.

    Parameters
    ----------
    charge, multiplicity
        Given values go before those of the file.

    Raises
    ------
    MoleculeError
        Missing, a directory, too large, not UTF-8, of an unknown format, or malformed; says where.
    MissingExtra
        RDKit is needed for MOL and SDF, gemmi for CIF, and is not installed.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    known = _XYZ + _MOL + _CIF + _QCSCHEMA
    if suffix not in known and not path.is_dir():
        raise MoleculeError(
            f"{path}: the format {suffix or 'of a file without extension'} is not known",
            hint=f"give one of {', '.join(known)}",
        )
    text = read_text(path)
    if suffix in _XYZ:
        return read_xyz(text, str(path), charge=charge, multiplicity=multiplicity)
    if suffix in _CIF:
        return read_cif(text, str(path), charge=charge, multiplicity=multiplicity)
    if suffix in _QCSCHEMA:
        given = {"charge": charge, "multiplicity": multiplicity}
        found = read_qcschema(text, str(path))
        return found.model_copy(update={name: value for name, value in given.items() if value is not None})
    return read_mol(text, str(path), charge=charge, multiplicity=multiplicity)


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """Return the text of a file.

    Raises
    ------
    MoleculeError
        Missing, a directory or another non-file, not readable, larger than ``limit`` bytes, or not UTF-8.
    """
    if path.is_dir():
        raise MoleculeError(f"{path} is a directory", hint="give a file in it")
    if not path.exists():
        raise MoleculeError(f"{path} does not exist", hint="paths are taken from the folder of the job file")
    if not path.is_file():
        raise MoleculeError(f"{path} is no regular file")
    try:
        # Reading at most limit + 1 bytes is safe even if the file grows meanwhile.
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise MoleculeError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise MoleculeError(
            f"{path} is larger than {limit / 1e6:.0f} MB", hint="a structure file is small; check which file it is"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MoleculeError(
            f"{path}, line {line}: not UTF-8 text", hint="save it as UTF-8; is it a text file?"
        ) from error
