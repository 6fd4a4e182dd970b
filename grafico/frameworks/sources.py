"""What the nodes of the frameworks graph look up, and what they leave behind; each function is called off the event loop."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grafico.atoms import ConceptualAtoms, write_cif
from grafico.calculations import CalculationError, Failure, FailureKind, Json
from grafico.errors import BadInput
from grafico.frameworks.blocks import pormake_block
from grafico.frameworks.download import DATASETS, Downloaded, FoundStructure, folder_structures
from grafico.frameworks.potentials import pin_potential
from grafico.frameworks.relaxing.batches import batches
from grafico.frameworks.relaxing.needs import memory_an_atom_mib
from grafico.frameworks.request import Search
from grafico.frameworks.result import Stage
from grafico.frameworks.state import Candidate
from grafico.frameworks.steps import CutFramework, RelaxationSettings
from grafico.frameworks.topologies import roles_of
from grafico.knowledge import Entity

__all__ = [
    "atoms_budget",
    "cif_files",
    "copies",
    "divided",
    "each_once",
    "entities",
    "parse",
    "pin",
    "read_blocks",
    "read_file",
    "read_folder",
    "search",
]

_LARGEST = 50_000_000
"""Bytes of a CIF file."""
_BATCH_MIB, _BATCH_WITHOUT_GPU_MIB = 24_000, 4_000
"""Memory that a batch may take of a GPU, and without one of the host."""


def read_file(path: Path) -> Json:
    """Return the text of a CIF file, or why there is none."""
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            return {"missing": f"{path.name} has {size} bytes; a CIF of one framework has at most {_LARGEST}"}
        return {"cif": path.read_bytes().decode("utf-8", errors="replace")}
    except OSError as error:
        return {"missing": f"{path.name} cannot be read: {error.strerror or error}"}


def read_folder(refcodes: Sequence[str], folder: str) -> Json:
    """Return the structures of a folder of CIF files by refcode, as :func:`folder_structures` does.

    Raises
    ------
    BadInput
        There is no such folder.
    """
    return folder_structures(refcodes, Path(folder).expanduser()).model_dump(mode="json")


def each_once(refcodes: Sequence[str], got: Downloaded) -> Iterator[tuple[str, FoundStructure | Failure]]:
    """Yield each structure once, however often and in whatever spelling it was asked for; or why there is none.

    Refcodes of a database are spelt as it spells them, so that two jobs mean the same by one.
    """
    seen = set()
    for refcode in dict.fromkeys(refcodes):
        if refcode in got.failed:
            yield refcode, got.failed[refcode]
            continue
        found = got.found[refcode]
        if found.name in seen:
            continue
        seen.add(found.name)
        asked = refcode.strip()
        known = found.source in DATASETS and found.name.casefold().startswith(asked.casefold())
        yield found.name[: len(asked)] if known else refcode, found


def read_blocks(names: list[str]) -> Json:
    """Return PORMAKE's building blocks by name.

    Raises
    ------
    BadInput
        There is no such block, or PORMAKE is not installed.
    """
    return {name: pormake_block(name).model_dump(mode="json") for name in names}


def search(wanted: Search) -> Json:
    """Return combinations that were not built before, from the knowledge base of the run.

    Raises
    ------
    BadInput
        The search names something that there cannot be, or takes too long.
    """
    from grafico.frameworks.search import combine
    from grafico.knowledge import open_store

    found = combine(
        open_store(),
        wanted.algorithm,
        topologies=wanted.topologies,
        nodes=wanted.nodes,
        metals=wanted.metals,
        linkers=wanted.linkers,
        limit=wanted.limit,
    )
    return [proposal.combination.model_dump(mode="json") for proposal in found]


def pin(model: str) -> Json:
    """Return the name of a potential with the digest of its weights, where a file holds them."""
    return pin_potential(model)


def atoms_budget(atoms: int, model: str, gpus: int) -> int:
    """Return the most atoms of one batch: all GPUs get their share, and none gets more than it can hold.

    Parameters
    ----------
    atoms
        Of all structures.
    gpus
        How many there are.
    """
    memory = _BATCH_MIB if gpus else _BATCH_WITHOUT_GPU_MIB
    return max(1, min(math.ceil(atoms / max(1, gpus)), int(memory / memory_an_atom_mib(model))))


def divided(structures: Mapping[str, ConceptualAtoms], model: str, gpus: int) -> list[dict[str, ConceptualAtoms]]:
    """Return structures divided into batches."""
    budget = atoms_budget(sum(map(len, structures.values())), model, gpus)
    return [{name: structures[name] for name in sorted(batch)} for batch in batches(structures, budget)]


def parse(cif: str, name: str) -> ConceptualAtoms | Failure:
    """Return the structure of a CIF as it is, or why it has none."""
    from grafico.frameworks.cleaning import read_structure

    try:
        return read_structure(cif, name)
    except CalculationError as error:
        return Failure(kind=error.kind, message=error.message, where="Download", details=error.details)
    except BadInput as error:
        return Failure(kind=FailureKind.BAD_INPUT, message=error.message, where="Download")


def copies(cut: Mapping[str, CutFramework]) -> Mapping[str, str]:
    """Return the frameworks whose structure is, to the bit, that of one before them, and of which."""
    first: dict[str, str] = {}
    found = {}
    for name, framework in cut.items():
        known = first.setdefault(framework.structure.content_digest, name)
        if known != name:
            found[name] = known
    return found


def cif_files(candidates: Mapping[str, Candidate]) -> dict[tuple[str, Stage], str]:
    """Return the CIF text of each geometry, by framework and stage."""
    return {
        (name, stage): write_cif(structure, name=f"{name}-{stage}")
        for name, found in candidates.items()
        if found.duplicate_of is None
        for stage, structure in found.geometries().items()
    }


def entities(candidates: Mapping[str, Candidate], relaxation: RelaxationSettings | None) -> list[Entity]:
    """Return what the knowledge base is told: frameworks with their parts, geometries and pores, and their nets."""
    from grafico.frameworks.entities import FILE, FrameworkEntities

    made = FrameworkEntities()
    for found in candidates.values():
        key = found.keys.get
        source = found.source or FILE
        failed = found.failures.get("build")
        if found.built is not None and found.combination is not None:
            geometry = made.built(found.combination, found.built, key=key("build"))
        elif found.combination is not None:
            # Known, although it cannot be built: no search proposes it again. Where only the try went wrong, one may.
            if failed is not None and _is_final(failed):
                made.combination(found.combination, failure=f"{failed.kind}: {failed.message}")
            continue
        elif found.cut is not None:
            geometry = made.experimental(found.cut, source=source, reference=found.reference, key=key("cut"))
        elif found.found is not None:
            geometry = made.uncut(found.name, found.found, source=source, reference=found.reference)
        else:
            continue
        if found.relaxed is not None and relaxation is not None:
            geometry = made.relaxed(geometry, found.relaxed, relaxation, key=key("relax"))
        if found.pores is not None:
            made.analysis(geometry, found.pores, key=key("analyze"))
    for symbol in sorted(_symbols(candidates)):
        with contextlib.suppress(BadInput):  # a net that is found in crystals and not in PORMAKE
            made.net(roles_of(symbol))
    return made.all()


def _is_final(failure: Failure) -> bool:
    """Whether building would fail again: for what the parts are, and not for what befell the calculation."""
    return failure.kind in {FailureKind.BAD_INPUT, FailureKind.REFUSED} or "combination" in failure.details


def _symbols(candidates: Mapping[str, Candidate]) -> set[str]:
    parts = [found.combination or found.cut for found in candidates.values()]
    return {part.topology for part in parts if part is not None}
