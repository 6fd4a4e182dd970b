"""The calculations that a frameworks job is expected to need, for its dry run; sizes are estimates."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Calculation, Resources
from grafico.frameworks.assignment import assign
from grafico.frameworks.blocks import pormake_block
from grafico.frameworks.calculations.analyze import analyze
from grafico.frameworks.calculations.analyze import typical_seconds as seconds_of_analysis
from grafico.frameworks.calculations.build import build, planned_atoms
from grafico.frameworks.calculations.download import DownloadInput, download
from grafico.frameworks.calculations.process_cif import process_cif
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.calculations.relax_batch import relax_batch
from grafico.frameworks.calculations.report import PICTURE_RESOURCES, draw_frameworks
from grafico.frameworks.download import DATASETS
from grafico.frameworks.parts import Combination
from grafico.frameworks.potentials import check_potential
from grafico.frameworks.relaxing.needs import relaxation_resources, typical_seconds
from grafico.frameworks.request import FrameworkRequest
from grafico.frameworks.sources import atoms_budget
from grafico.frameworks.steps import AnalyzeInput, BuildInput, ProcessCIFInput
from grafico.frameworks.topologies import roles_of
from grafico.graphs import Foreseen

__all__ = ["foresee"]

_SOME_ATOMS = 300
"""In the cell of a framework about which nothing is known: half of CoRE MOF 2019 has fewer."""
_SIZES = 100
"""Step in which sizes are told apart."""
_LINE = 60
"""Characters of a CIF for each atom."""
# Seconds on one core, measured on two shared cores; for planning only.
_DOWNLOAD_S, _CUT_S, _BUILD_S, _PICTURES_S = 4.0, 12.0, 2.0, 4.0


class Expected(NamedTuple):
    """Frameworks of one size."""

    atoms: int
    number: int = 1
    combination: Combination | None = None


def foresee(request: FrameworkRequest) -> Sequence[Foreseen]:
    """Return the calculations of a job if nothing fails; a search is taken to find as many as it may."""
    tasks = request.given
    experimental = [Expected(_about(atoms)) for atoms in _experimental(request)]
    combinations = [_combination(*found) for found in request.combinations]
    named = [Expected(_about(_atoms(found)), 1, found) for found in combinations]
    unknown = [Expected(_SOME_ATOMS, request.search.limit)] if request.search is not None else []
    rebuilt = experimental if request.rebuild else []
    everything = [*experimental, *named, *unknown, *rebuilt]
    found: list[Foreseen] = []
    if request.refcodes and request.dataset in DATASETS:
        value = DownloadInput(refcodes=request.refcodes, dataset=request.dataset)
        fetch: Calculation[Any, Any] = download
        found.append(Foreseen(fetch, fetch.resources(value), 1, "download", _DOWNLOAD_S))
    if "cut" in tasks:
        found += _phase(_cut(item) for item in experimental)
    if "build" in tasks:
        found += _phase(_build(item, request) for item in (*named, *unknown, *rebuilt))
    if "relax" in tasks:
        found += _phase(_relaxations(everything, request))
    if "analyze" in tasks:
        found += _phase(_analyze(item, request) for item in everything)
    if sum(item.number for item in everything) > 1 or request.refcodes:
        found.append(Foreseen(draw_frameworks, PICTURE_RESOURCES, label="pictures", seconds=_PICTURES_S))
    return found


def _about(atoms: int) -> int:
    """Return a number of atoms that stands for those a little below it, so that a plan has few kinds of calculations."""
    return -(-atoms // _SIZES) * _SIZES


def _atoms(combination: Combination) -> int:
    """Return how many atoms the cell of a framework will have; the check has seen that its blocks fit."""
    metal, linker = combination.metal_node, combination.linker
    return planned_atoms(
        roles_of(combination.topology),
        assign(combination.topology, metal, linker),
        metal_node=len(metal.atoms),
        linker=len(linker.atoms),
    )


def _experimental(request: FrameworkRequest) -> Iterator[int]:
    for path in request.files:
        try:
            yield max(20, min(5000, path.stat().st_size // _LINE))
        except OSError:
            yield _SOME_ATOMS
    yield from [_SOME_ATOMS] * len(request.refcodes)


def _combination(topology: str, node: str, linker: str) -> Combination:
    return Combination(topology=topology, metal_node=pormake_block(node), linker=pormake_block(linker))


def _phase(items: Iterable[Foreseen]) -> list[Foreseen]:
    """Return the calculations of one stage, which go side by side once the stage before is done; alike ones counted."""
    alike: dict[Any, list[Foreseen]] = {}
    for item in items:
        alike.setdefault((item.resources, item.seconds, item.identity), []).append(item)
    found = []
    for number, same in enumerate(alike.values()):
        first = same[0]
        found.append(
            Foreseen(
                first.calculation,
                first.resources,
                count=sum(item.count for item in same),
                label=first.label,
                seconds=first.seconds,
                seconds_without_gpu=first.seconds_without_gpu,
                lane=f"{first.label} {number}",
                waits=number == 0,
                identity=first.identity,
                uses=first.uses,
            )
        )
    return found


def _cut(item: Expected) -> Foreseen:
    value = ProcessCIFInput(name="expected", cif="x" * (_LINE * item.atoms))
    return Foreseen(process_cif, process_cif.resources(value), item.number, "cut", _CUT_S)


def _build(item: Expected, request: FrameworkRequest) -> Foreseen:
    if item.combination is None:
        return Foreseen(build, Resources(), item.number, "build", _BUILD_S)
    value = BuildInput(combination=item.combination, max_rmsd=request.max_rmsd)
    return Foreseen(build, build.resources(value), item.number, "build", _BUILD_S, identity=build.key(value))


def _relaxations(items: Sequence[Expected], request: FrameworkRequest) -> Iterator[Foreseen]:
    settings = request.relaxation
    uses = (check_potential(settings.model).engine.module,)
    if request.batching == "batched":
        sizes = [item.atoms for item in items for _ in range(item.number)]
        budget = atoms_budget(sum(sizes), settings.model, 0)
        count = max(1, math.ceil(sum(sizes) / max(budget, *sizes)))
        share = sizes[: math.ceil(len(sizes) / count)]
        seconds = sum(typical_seconds(size, settings) for size in share)
        needs = relaxation_resources(share, settings, at_once=sum(share))
        yield Foreseen(relax_batch, needs, count, "relax together", seconds, uses=uses)
        return
    for item in items:
        needs = relaxation_resources([item.atoms], settings)
        yield Foreseen(
            relax,
            needs,
            item.number,
            "relax",
            typical_seconds(item.atoms, settings),
            identity=_after("relax", item, request, settings),
            uses=uses,
        )


def _analyze(item: Expected, request: FrameworkRequest) -> Foreseen:
    value = AnalyzeInput(structure=_of_size(item.atoms), settings=request.analysis)
    settings = request.relaxation if "relax" in request.given else None
    return Foreseen(
        analyze,
        analyze.resources(value),
        item.number,
        "analyze",
        seconds_of_analysis(value.structure, value.settings),
        identity=_after("analyze", item, request, settings, request.analysis),
    )


def _after(name: str, item: Expected, request: FrameworkRequest, *settings: Any) -> str:
    """Return what tells a calculation on a built framework from others; empty where nobody knows yet."""
    if item.combination is None:
        return ""
    key = build.key(BuildInput(combination=item.combination, max_rmsd=request.max_rmsd))
    told = [name, key, *(None if part is None else part.model_dump(mode="json") for part in settings)]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _of_size(atoms: int) -> ConceptualAtoms:
    """Return a crystal with so many atoms; their positions mean nothing."""
    return ConceptualAtoms(
        symbols=("C",) * atoms,
        positions=tuple((3.0 * index, 0.0, 0.0) for index in range(atoms)),
        cell=((3.0 * atoms, 0.0, 0.0), (0.0, 20.0, 0.0), (0.0, 0.0, 20.0)),
    )
