"""What is refused of a frameworks job before anything runs: each message begins with its place in the input."""

from pathlib import Path

from grafico.calculations import CalculationError
from grafico.errors import BadInput, MissingExtra
from grafico.frameworks.assignment import assign
from grafico.frameworks.blocks import pormake_block
from grafico.frameworks.download import DATASETS, find_entry
from grafico.frameworks.parts import BlockKind, BuildingBlock
from grafico.frameworks.potentials import batchable, check_potential, find_weights
from grafico.frameworks.request import Blocks, FrameworkRequest
from grafico.frameworks.search import search_query
from grafico.frameworks.topologies import roles_of

__all__ = ["check_request"]


def check_request(request: FrameworkRequest) -> None:
    """Refuse what cannot be computed, before anything is.

    Raises
    ------
    BadInput
        Potential, topology, building block, refcode or search; with what is wrong and suggestions.
    """
    if "relax" in request.given:
        _check_relaxation(request)
    for index, blocks in enumerate(request.build):
        _check_blocks(blocks, f"build[{index}]")
    if request.refcodes:
        _check_refcodes(request)
    search = request.search
    if search is not None:
        try:
            search_query(
                search.algorithm,
                topologies=search.topologies,
                nodes=search.nodes,
                metals=search.metals,
                linkers=search.linkers,
                limit=search.limit,
            )
        except BadInput as error:
            raise _at("search", error) from error


def _check_relaxation(request: FrameworkRequest) -> None:
    model, optimizer = request.relaxation.model, request.relaxation.optimizer
    try:
        potential = check_potential(model)
        # Weights that a file holds may lie where the calculation will run.
        if potential.shipped:
            find_weights(potential)
    except BadInput as error:
        raise _at("relaxation.model", error) from error
    if request.batching == "batched" and not batchable(model, optimizer):
        raise BadInput(
            f"batching: {model} with {optimizer} cannot relax many frameworks at once",
            hint="7net and mace potentials with fire can; or write batching: separate",
        )


def _check_blocks(blocks: Blocks, place: str) -> None:
    for topology in blocks.topology:
        try:
            roles_of(topology)
        except BadInput as error:
            raise _at(f"{place}.topology", error) from error
    nodes = [_block(name, "metal_node", f"{place}.node") for name in blocks.node]
    linkers = [_block(name, "organic_linker", f"{place}.linker") for name in blocks.linker]
    for topology in blocks.topology:
        for node in nodes:
            for linker in linkers:
                try:
                    assign(topology, node, linker)
                except CalculationError as error:
                    raise BadInput(
                        f"{place}: {error.message}",
                        hint="choose blocks with as many docking points as the net has edges",
                    ) from error


def _block(name: str, kind: BlockKind, place: str) -> BuildingBlock:
    try:
        block = pormake_block(name)
    except BadInput as error:
        raise _at(place, error) from error
    if block.kind != kind:
        has, wanted = ("no metal", "metal node") if kind == "metal_node" else ("a metal", "linker")
        raise BadInput(f"{place}: {name} has {has}, so it is no {wanted}", hint=f"choose another {wanted}")
    return block


def _check_refcodes(request: FrameworkRequest) -> None:
    if request.dataset not in DATASETS:
        if not Path(request.dataset).expanduser().is_dir():
            raise BadInput(
                f"dataset: {request.dataset!r} is neither a data set of CoRE MOF nor a folder",
                hint=f"one of {', '.join(DATASETS)}, or a folder with CIF files",
            )
        return
    for index, refcode in enumerate(request.refcodes):
        try:
            find_entry(refcode, request.dataset)
        except MissingExtra:
            return  # whoever carries it out may have the package
        except BadInput as error:
            raise _at(f"refcodes[{index}]", error) from error


def _at(place: str, error: BadInput) -> BadInput:
    """Return an error of the same kind that says where in the input it is."""
    return type(error)(f"{place}: {error.message}", hint=error.hint)
