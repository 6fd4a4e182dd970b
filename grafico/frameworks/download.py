"""Structures by refcode: from CoRE MOF as the package ``core-mof`` ships it, or from a folder of CIF files.

Source of the data: Y. G. Chung et al., J. Chem. Eng. Data 64 (2019) 5985, doi:10.1021/acs.jced.9b00835 (2019), and Chem.
Mater. 26 (2014) 6185 (2014). Data sets: ``2019-ASR``, all solvent removed; ``2019-FSR``, only free solvent removed;
``2014``. Nothing is downloaded: what is called so is already in the package, and read from there in one pass.

An entry is called by a refcode and how it was prepared: ``IXEJIG_clean``. A bare refcode takes the entry that was cleaned
in the usual way; refcodes with a number at their end (``XICNOO01``) are other determinations, and entries of their own.
"""

import difflib
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import Field

from grafico.atoms.optional import require
from grafico.calculations import Failure, FailureKind, Model
from grafico.errors import BadInput

__all__ = [
    "DATASETS",
    "Downloaded",
    "FoundStructure",
    "PublishedProperties",
    "find_entry",
    "find_structures",
    "folder_structures",
]

DATASETS = ("2019-ASR", "2019-FSR", "2014")
"""Data sets of CoRE MOF, the usual one first."""

_PREPARED = ("clean", "freeONLY", "clean_h", "manual", "auto", "neutral", "charged", "SL", "ion_b")
"""How entries were prepared, the usual one first."""

MAX_BYTES = 20_000_000


class PublishedProperties(Model):
    """What the data set says about an entry, with a probe of 1.86 Å where one is used."""

    lcd: float | None = Field(default=None, description="largest cavity diameter, Å")
    pld: float | None = Field(default=None, description="pore-limiting diameter, Å")
    lfpd: float | None = Field(default=None, description="largest sphere along the free path, Å")
    area_m2_g: float | None = Field(default=None, description="accessible surface, m²/g")
    area_m2_cm3: float | None = Field(default=None, description="accessible surface, m²/cm³")
    closed_area_m2_g: float | None = Field(default=None, description="surface that is not accessible, m²/g")
    void_fraction: float | None = Field(default=None, description="accessible, of the cell's volume")
    volume_cm3_g: float | None = Field(default=None, description="accessible volume, cm³/g")
    density_g_cm3: float | None = Field(default=None, description="density, g/cm³")
    metals: tuple[str, ...] = Field(default=(), description="metal elements")
    open_metal_sites: bool | None = Field(default=None, description="whether there are open metal sites")
    doi: str = Field(default="", description="where the structure was published")


class FoundStructure(Model):
    """A structure as it was found."""

    refcode: str = Field(description="what was asked for")
    name: str = Field(description="the entry's name, such as IXEJIG_clean, or the file's without .cif")
    source: str = Field(description="data set, or folder")
    cif: str = Field(description="the CIF text")
    digest: str = Field(description="SHA-256 of the file")
    note: str = Field(default="", description="what else the name could have meant; empty: nothing")
    published: PublishedProperties | None = Field(default=None, description="what the data set says about it")


class Downloaded(Model):
    """What became of each refcode, by what was asked for."""

    found: Mapping[str, FoundStructure]
    failed: Mapping[str, Failure]


def find_structures(refcodes: Sequence[str], dataset: str = DATASETS[0]) -> Downloaded:
    """Return structures of a data set of CoRE MOF, all in one pass through its archive (about 2 s).

    Parameters
    ----------
    refcodes
        Refcodes, or names of entries; upper and lower case are the same.
    dataset
        One of :data:`DATASETS`.

    Raises
    ------
    BadInput
        There is no such data set.
    MissingExtra
        core-mof is not installed.
    """
    names: dict[str, tuple[str, str]] = {}
    failed: dict[str, Failure] = {}
    for refcode in dict.fromkeys(refcodes):
        try:
            names[refcode] = find_entry(refcode, dataset)
        except BadInput as error:
            failed[refcode] = _failure(error)
    texts = _read_entries({name for name, _ in names.values()}, dataset)
    rows = _properties(dataset)
    found = {}
    for refcode, entry in names.items():
        name = entry[0]
        data = texts.get(name)
        if data is None:
            failed[refcode] = _failure(
                BadInput(f"the table of CoRE MOF {dataset} names {name}, but its archive does not hold it")
            )
            continue
        found[refcode] = _found(refcode, entry, dataset, data, rows.get(name))
    return Downloaded(found=found, failed=failed)


def find_entry(refcode: str, dataset: str = DATASETS[0]) -> tuple[str, str]:
    """Return the name of the entry that a refcode means in a data set of CoRE MOF, and what else it could have meant.

    Raises
    ------
    BadInput
        There is no such data set, or no such entry in it; says which are like it, and which other data set has it.
    MissingExtra
        core-mof is not installed.
    """
    entries = _entries(dataset)
    chosen, note = _choose(refcode, entries)
    if chosen:
        return chosen, note
    elsewhere = [other for other in DATASETS if other != dataset and _choose(refcode, _entries(other))[0]]
    raise BadInput(
        f"CoRE MOF {dataset} has no structure {refcode!r}",
        hint=f"it is in {' and '.join(elsewhere)}; name that data set" if elsewhere else _like(refcode, entries),
    )


def folder_structures(refcodes: Sequence[str], folder: Path) -> Downloaded:
    """Return structures of a folder with a CIF file for each: ``IXEJIG.cif``, or as in CoRE MOF ``IXEJIG_clean.cif``.

    Names are compared without case. Folders inside are not looked at. What no text encoding fits is replaced by a mark
    that is refused when the CIF is read.

    Raises
    ------
    BadInput
        There is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(
            f"{str(folder)!r} is neither a folder nor a data set of CoRE MOF",
            hint=f"name a folder with CIF files, or one of {', '.join(DATASETS)}",
        )
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() == ".cif" and path.is_file()}
    found: dict[str, FoundStructure] = {}
    failed: dict[str, Failure] = {}
    for refcode in dict.fromkeys(refcodes):
        try:
            name, note = _find_file(refcode, tuple(files), folder.name)
            found[refcode] = _found(refcode, (name, note), folder.name, _read_file(files[name]))
        except BadInput as error:
            failed[refcode] = _failure(error)
    return Downloaded(found=found, failed=failed)


def _find_file(refcode: str, names: Sequence[str], folder: str) -> tuple[str, str]:
    name, note = _choose(refcode, names)
    if not name:
        raise BadInput(f"the folder {folder!r} has no CIF of {refcode!r}", hint=_like(refcode, names))
    return name, note


def _read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path.name} has {path.stat().st_size:,} bytes; at most {MAX_BYTES:,} are read")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror or error}") from error


def _found(
    refcode: str, entry: tuple[str, str], source: str, data: bytes, row: PublishedProperties | None = None
) -> FoundStructure:
    name, note = entry
    return FoundStructure(
        refcode=refcode,
        name=name,
        source=source,
        cif=data.decode("utf-8", errors="replace"),
        digest=hashlib.sha256(data).hexdigest(),
        note=note,
        published=row,
    )


def _failure(error: BadInput) -> Failure:
    message = f"{error.message}: {error.hint}" if error.hint else error.message
    return Failure(
        kind=FailureKind.BAD_INPUT, message=message, where="download", details={"reason": "no_such_structure"}
    )


def _choose(refcode: str, entries: Iterable[str]) -> tuple[str, str]:
    """Return the entry that is meant, and a note about those that were not taken; empty when there is none."""
    asked = refcode.strip()
    asked = asked[:-4] if asked.lower().endswith(".cif") else asked
    wanted = asked.casefold()
    family = sorted(name for name in entries if name.casefold().startswith(wanted))
    forms = [name for name in family if name.casefold() == wanted or name[len(asked) :].startswith("_")]
    if not wanted or not forms:
        return "", ""
    chosen = min(forms, key=lambda name: (*_rank(name[len(asked) + 1 :]), name))
    if chosen.casefold() == wanted and "_" in asked:
        return chosen, ""  # asked for by its full name
    others = [name for name in forms if name != chosen]
    numbered = [name for name in family if name[len(asked) :].partition("_")[0].isdigit()]
    notes = []
    if others:
        notes.append(f"taken from {', '.join([chosen, *others])}")
    if numbered:
        notes.append(f"other determinations are {', '.join(numbered)}")
    return chosen, "; ".join(notes)


def _rank(prepared: str) -> tuple[int, int]:
    if not prepared:
        return (0, 0)
    place = _PREPARED.index(prepared) + 1 if prepared in _PREPARED else len(_PREPARED) + 1
    return (place, len(prepared))


def _like(refcode: str, entries: Sequence[str]) -> str:
    codes = {name.partition("_")[0].casefold(): name.partition("_")[0] for name in entries}
    asked = refcode.strip().partition("_")[0].casefold()
    close = difflib.get_close_matches(asked, codes, n=20, cutoff=0.6)
    # Refcodes of one family begin alike.
    close.sort(
        key=lambda code: -sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(asked, code, strict=False)))
    )
    if close:
        return f"did you mean {' or '.join(codes[code] for code in close[:3])}?"
    return "check the refcode" if entries else "there are no CIF files in it"


def _check_dataset(dataset: str) -> None:
    if dataset not in DATASETS:
        raise BadInput(f"CoRE MOF has no data set {dataset!r}", hint=f"choose one of {', '.join(DATASETS)}")


@cache
def _entries(dataset: str) -> tuple[str, ...]:
    _check_dataset(dataset)
    module = require("CoRE_MOF", extra="mof", purpose="for structures by refcode")
    return tuple(module.list_structures(dataset))


def _data_file(dataset: str, kind: str) -> Any:
    from importlib.resources import files

    _check_dataset(dataset)
    require("CoRE_MOF", extra="mof", purpose="for structures by refcode")
    return files("CoRE_MOF") / "data" / f"{dataset}.{kind}"


def _read_entries(names: set[str], dataset: str) -> dict[str, bytes]:
    """Read entries from the archive, which has to be unpacked from its start: once for all of them."""
    import tarfile

    found: dict[str, bytes] = {}
    if not names:
        return found
    with _data_file(dataset, "tar.xz").open("rb") as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
        for member in archive:
            name = Path(member.name).name.removesuffix(".cif")
            if name in names and member.isfile() and member.size:
                stream = archive.extractfile(member)
                if stream is not None:
                    found[name] = stream.read()
                if len(found) == len(names):
                    break
    return found


@cache
def _properties(dataset: str) -> dict[str, PublishedProperties]:
    import csv

    with _data_file(dataset, "csv").open("r", encoding="utf-8", errors="replace", newline="") as table:
        rows = list(csv.DictReader(table))
    # The table of 2014 has names only.
    return {row["filename"]: _published(row) for row in rows if row.get("LCD")}


def _published(row: Mapping[str, str]) -> PublishedProperties:
    sites = (row.get("Has_OMS") or "").strip().lower()
    return PublishedProperties(
        lcd=_number(row.get("LCD")),
        pld=_number(row.get("PLD")),
        lfpd=_number(row.get("LFPD")),
        area_m2_g=_number(row.get("ASA_m2_g")),
        area_m2_cm3=_number(row.get("ASA_m2_cm3")),
        closed_area_m2_g=_number(row.get("NASA_m2_g")),
        void_fraction=_number(row.get("AV_VF")),
        volume_cm3_g=_number(row.get("AV_cm3_g")),
        # Named the other way round in the table: area per volume over area per mass is this number.
        density_g_cm3=_number(row.get("cm3_g")),
        metals=tuple(sorted(set((row.get("All_Metals") or "").replace(",", " ").split()))),
        open_metal_sites={"yes": True, "no": False}.get(sites),
        doi=(row.get("DOI_public") or "").strip(),
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
