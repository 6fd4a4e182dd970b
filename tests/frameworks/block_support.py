"""Building blocks turned, shuffled and shaken, for the tests of blocks, shapes and builds."""

import functools
import tempfile
from pathlib import Path

import numpy

from grafico.calculations import CalculationError, FailureKind, WorkContext
from grafico.frameworks.blocks import make_block, pormake_block
from grafico.frameworks.calculations.build import build
from grafico.frameworks.parts import BuildingBlock, Combination
from grafico.frameworks.steps import BuildInput, BuiltFramework
from grafico.graphs import FolderArtifacts


def rotation(random: numpy.random.Generator) -> numpy.ndarray:
    """Return a proper rotation, shape (3, 3)."""
    matrix, _ = numpy.linalg.qr(random.normal(size=(3, 3)))
    return matrix * numpy.sign(numpy.linalg.det(matrix))


def another_view(block: BuildingBlock, seed: int, noise: float = 0.0) -> BuildingBlock:
    """Return the same block turned, its atoms and docking points in another order, positions shaken by ``noise`` Å."""
    random = numpy.random.default_rng(seed)
    turn = rotation(random)
    atoms, points = random.permutation(len(block.atoms)), random.permutation(block.connectivity)
    place = {int(old): new for new, old in enumerate(atoms)}
    positions = numpy.array(block.atoms.positions)
    docking = numpy.array(block.atoms.docking_points)
    positions, docking = (
        (array + random.normal(scale=noise, size=array.shape)) @ turn + 5.0 for array in (positions, docking)
    )
    return make_block(
        "another",
        [block.atoms.symbols[index] for index in atoms],
        positions[atoms].tolist(),
        docking[points].tolist(),
        anchors=[place[block.anchors[point]] for point in points],
    )


def star(connectivity: int, name: str, *, metal: bool, points: object = None) -> BuildingBlock:
    """Return an atom with docking points around it, on a spiral unless given."""
    if points is None:
        index = numpy.arange(connectivity) + 0.5
        polar, turn = numpy.arccos(1 - 2 * index / connectivity), numpy.pi * (1 + 5**0.5) * index
        points = numpy.stack(
            [numpy.cos(turn) * numpy.sin(polar), numpy.sin(turn) * numpy.sin(polar), numpy.cos(polar)], axis=1
        )
    return make_block(name, ["Zn" if metal else "C"], [[0.0, 0.0, 0.0]], numpy.asarray(points, dtype=float).tolist())


def combined(topology: str, node: str, linker: str) -> Combination:
    return Combination(topology=topology, metal_node=pormake_block(node), linker=pormake_block(linker))


def built(folder: Path, topology: str, node: str, linker: str, **options: object) -> tuple[BuiltFramework, WorkContext]:
    ctx = WorkContext(artifacts=FolderArtifacts(folder), scratch=folder)
    return build.function(BuildInput(combination=combined(topology, node, linker), **options), ctx), ctx


@functools.cache
def framework(topology: str, node: str, linker: str) -> BuiltFramework:
    """Return what is built with the usual settings; once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        return built(Path(folder), topology, node, linker)[0]


def refusal(error: CalculationError) -> str:
    assert error.kind is FailureKind.REFUSED
    return error.message
