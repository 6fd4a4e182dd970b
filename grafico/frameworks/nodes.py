"""The nodes of the frameworks graph, in the order in which a walk visits them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel

from grafico.calculations import ArtifactRef, Calculation, Failure, FailureKind, Json
from grafico.frameworks import sources
from grafico.frameworks.absent import open_absent
from grafico.frameworks.calculations.analyze import analyze
from grafico.frameworks.calculations.build import build
from grafico.frameworks.calculations.download import DownloadInput, download
from grafico.frameworks.calculations.process_cif import process_cif
from grafico.frameworks.calculations.relax import relax
from grafico.frameworks.calculations.relax_batch import relax_batch
from grafico.frameworks.calculations.report import Pictures, draw_frameworks, pictures_of
from grafico.frameworks.download import DATASETS, Downloaded
from grafico.frameworks.parts import BuildingBlock, Combination
from grafico.frameworks.potentials import batchable
from grafico.frameworks.request import Step
from grafico.frameworks.result import FrameworkResult, Stage
from grafico.frameworks.state import Candidate, FrameworkState
from grafico.frameworks.steps import (
    AnalyzeInput,
    BuildInput,
    ProcessCIFInput,
    RelaxationSettings,
    RelaxBatch,
    RelaxBatchInput,
    RelaxInput,
)
from grafico.graphs import Context, End, JoinFailed, Node

__all__ = [
    "Analyze",
    "Build",
    "CombinatorialSearch",
    "Download",
    "Finish",
    "ProcessCIF",
    "Relax",
    "Start",
    "next_node",
]

Ctx = Context[FrameworkState]
InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)
AnyStep: TypeAlias = Node[FrameworkState, FrameworkResult]


class FrameworkNode(Node[FrameworkState, FrameworkResult]):
    """A node that leads to what the job asks for next."""

    def rule(self, state: FrameworkState) -> AnyStep:
        """Return what the job asks for next."""
        return next_node(state)


class Start(FrameworkNode):
    """Take in what the job brings along: its CIF files, and the building blocks that it names."""

    async def run(self, ctx: Ctx) -> "Download | ProcessCIF | CombinatorialSearch | Build | Relax | Analyze | Finish":
        """Read files and PORMAKE's database."""
        state, request = ctx.state, ctx.state.request
        for path in request.files:
            read = await ctx.value(f"file {path.name}", _aside(sources.read_file, path))
            candidate = state.add(path.stem, origin="experimental", reference=path.name)
            if "cif" in read:
                await _take_structure(ctx, candidate, read["cif"])
            else:
                candidate.failures["download"] = Failure(
                    kind=FailureKind.BAD_INPUT, message=read["missing"], where=self.node_id
                )
        await open_absent(ctx)
        if request.combinations:
            names = sorted({name for _, *pair in request.combinations for name in pair})
            told = await ctx.value("building blocks", _aside(sources.read_blocks, names))
            blocks = {name: BuildingBlock.model_validate(block) for name, block in told.items()}
            for topology, node, linker in request.combinations:
                combination = Combination(topology=topology, metal_node=blocks[node], linker=blocks[linker])
                state.add(combination.name, origin="built", combination=combination)
        ctx.summarize(state.intent, frameworks=len(state.candidates))
        return await ctx.route()


class Download(FrameworkNode):
    """Fetch structures by refcode, from CoRE MOF or a folder of CIF files, and what was published about them."""

    async def run(self, ctx: Ctx) -> "ProcessCIF | CombinatorialSearch | Build | Relax | Analyze | Finish":
        """Fetch them all at once; one that is not there fails alone."""
        state, request = ctx.state, ctx.state.request
        got = await self._fetch(ctx)
        before = set(state.candidates)
        for name, found in sources.each_once(request.refcodes, got):
            if isinstance(found, Failure):
                state.add(name, origin="experimental", reference=name).failures["download"] = found
                continue
            candidate = state.add(name, origin="experimental", reference=found.name)
            candidate.published = found.published
            candidate.source = f"CoRE MOF {found.source}" if request.dataset in DATASETS else None
            if found.note:
                candidate.notes.append(found.note)
            await _take_structure(ctx, candidate, found.cif)
        state.downloaded = True
        new = {name: found for name, found in state.candidates.items() if name not in before}
        await open_absent(ctx, before)
        missing = sum("download" in found.failures for found in new.values())
        there = len(new) - missing
        ctx.summarize(f"{there} structures from {request.dataset}, {missing} missing", there=there, missing=missing)
        return await ctx.route()

    async def _fetch(self, ctx: Ctx) -> Downloaded:
        request = ctx.state.request
        if request.dataset not in DATASETS:
            read = await ctx.value("folder", _aside(sources.read_folder, request.refcodes, request.dataset))
            return Downloaded.model_validate(read)
        value = DownloadInput(refcodes=request.refcodes, dataset=request.dataset)
        fetch: Calculation[Any, Downloaded] = download
        outcome = await ctx.compute(fetch, value, label=f"download · {request.dataset}")
        if not outcome.ok:
            raise ctx.fail(outcome)
        return outcome.output


class ProcessCIF(FrameworkNode):
    """Clean structures and cut them into one metal node and one linker; leave out further copies of one framework."""

    async def run(self, ctx: Ctx) -> "CombinatorialSearch | Build | Relax | Analyze | Finish":
        """Cut each in a lane of its own."""
        state, request = ctx.state, ctx.state.request
        queue = state.due("cut")
        inputs = {
            name: ProcessCIFInput(name=name, cif=found.cif or "", remove_guests=request.remove_guests)
            for name, found in queue.items()
        }
        for name, output in (await _in_lanes(ctx, "cut", process_cif, inputs)).items():
            queue[name].cut = output
        await self._leave_out_copies(ctx)
        if request.rebuild:
            for found in tuple(queue.values()):
                if found.cut is not None and found.duplicate_of is None:
                    combination = Combination(
                        topology=found.cut.topology, metal_node=found.cut.metal_node, linker=found.cut.linker
                    )
                    state.add(
                        f"{found.name}-rebuilt", origin="rebuilt", reference=found.reference, combination=combination
                    )
        cut = sum(found.cut is not None for found in queue.values())
        ctx.summarize(f"{cut} of {len(queue)} structures cut into their parts", cut=cut, refused=len(queue) - cut)
        return await ctx.route()

    async def _leave_out_copies(self, ctx: Ctx) -> None:
        cut = {name: found.cut for name, found in ctx.state.candidates.items() if found.cut is not None}
        if len(cut) < 2:
            return
        for name, first in (await ctx.thread(sources.copies, cut)).items():
            ctx.state.candidates[name].duplicate_of = first


class CombinatorialSearch(FrameworkNode):
    """Look in the knowledge base for combinations of known parts that were not built before."""

    async def run(self, ctx: Ctx) -> "Build | Relax | Analyze | Finish":
        """Queue what is found."""
        state = ctx.state
        search = state.request.search
        assert search is not None
        found = await ctx.value(search.algorithm, _aside(sources.search, search))
        queued = {_parts(known.combination) for known in state.candidates.values() if known.combination is not None}
        combinations = [Combination.model_validate(item) for item in found]
        for combination in combinations:
            if _parts(combination) not in queued:
                state.add(combination.name, origin="built", combination=combination)
        state.searched = True
        if not combinations:
            state.notes.append(
                f"the search ({search.algorithm}) found no combination that was not built before: run jobs that cut or "
                "build other frameworks first, or ask for less"
            )
        ctx.summarize(f"{len(combinations)} combinations that were not built before", combinations=len(combinations))
        return await ctx.route()


class Build(FrameworkNode):
    """Put frameworks together from a topology, a metal node and a linker."""

    async def run(self, ctx: Ctx) -> "Relax | Analyze | Finish":
        """Build each in a lane of its own."""
        state, request = ctx.state, ctx.state.request
        queue = state.due("build")
        inputs = {
            name: BuildInput(combination=found.combination, max_rmsd=request.max_rmsd)
            for name, found in queue.items()
            if found.combination is not None
        }
        for name, output in (await _in_lanes(ctx, "build", build, inputs)).items():
            queue[name].built = output
            if output.turned:
                queue[name].notes.append(
                    f"linkers turned about their axes: {output.turned}; atoms clashed as PORMAKE left them"
                )
        done = sum(found.built is not None for found in queue.values())
        ctx.summarize(f"{done} of {len(queue)} frameworks built", built=done, failed=len(queue) - done)
        return await ctx.route()


class Relax(FrameworkNode):
    """Relax frameworks with a machine-learned potential; one that does not converge stays where it was."""

    async def run(self, ctx: Ctx) -> "Analyze | Finish":
        """Relax each in a lane of its own, or many of them together where there are GPUs."""
        state, request = ctx.state, ctx.state.request
        pinned = await ctx.value("potential", _aside(sources.pin, request.relaxation.model))
        settings = state.relaxation = request.relaxation.model_copy(update={"model": pinned})
        gpus = ctx.gpus()
        together = request.batching == "batched" or (
            request.batching == "auto" and gpus > 0 and batchable(settings.model, settings.optimizer)
        )
        state.batched = together
        queue = state.due("relax")
        if together:
            queue = await self._together(ctx, queue, settings, gpus)
        if queue:
            await self._alone(ctx, queue, settings)
        tried = [found for found in state.candidates.values() if found.relaxed or "relax" in found.failures]
        done = sum(found.relaxed is not None for found in tried)
        ctx.summarize(f"{done} of {len(tried)} relaxations converged", converged=done, failed=len(tried) - done)
        return await ctx.route()

    async def _alone(self, ctx: Ctx, queue: Mapping[str, Candidate], settings: RelaxationSettings) -> None:
        """Relax each in a lane of its own."""
        inputs = {
            name: RelaxInput(structure=found.structure, settings=settings)
            for name, found in queue.items()
            if found.structure is not None
        }
        for name, output in (await _in_lanes(ctx, "relax", relax, inputs)).items():
            queue[name].relaxed = output

    async def _together(
        self, ctx: Ctx, queue: Mapping[str, Candidate], settings: RelaxationSettings, gpus: int
    ) -> dict[str, Candidate]:
        """Relax in batches, one a GPU; return those whose batch failed as a whole, which are to be tried alone."""
        structures = {name: found.structure for name, found in queue.items() if found.structure is not None}
        batches = sources.divided(structures, settings.model, gpus)
        outcomes = await ctx.fan_out(
            relax_batch,
            {
                f"batch-{number}": RelaxBatchInput(structures=batch, settings=settings)
                for number, batch in enumerate(batches, start=1)
            },
            limit=ctx.state.request.lanes,
            label="relax together",
        )
        alone: dict[str, Candidate] = {}
        for batch, outcome in zip(batches, outcomes.values(), strict=True):
            if not outcome.ok:
                alone |= {name: queue[name] for name in batch}
                continue
            done: RelaxBatch = outcome.output
            for name in batch:
                queue[name].keys["relax"] = outcome.key
                if name in done.relaxed:
                    queue[name].relaxed = done.relaxed[name]
                else:
                    queue[name].failures["relax"] = done.failed[name]
        return alone


class Analyze(FrameworkNode):
    """Measure pores with Zeo++: diameters, area, volume and channels."""

    async def run(self, ctx: Ctx) -> "Finish":
        """Measure each in a lane of its own."""
        state, request = ctx.state, ctx.state.request
        queue = state.due("analyze")
        inputs = {
            name: AnalyzeInput(structure=found.structure, settings=request.analysis)
            for name, found in queue.items()
            if found.structure is not None
        }
        for name, output in (await _in_lanes(ctx, "analyze", analyze, inputs)).items():
            found = queue[name]
            found.pores = output
            if "relax" in found.failures:
                found.notes.append(f"not relaxed, so measured as {found.stage}")
            if output.settings.high_accuracy != request.analysis.high_accuracy:
                found.notes.append("measured without Zeo++'s high accuracy, which did not come to an end")
        done = sum(found.pores is not None for found in queue.values())
        ctx.summarize(f"{done} of {len(queue)} frameworks measured", measured=done, failed=len(queue) - done)
        return await ctx.route()


class Finish(Node[FrameworkState, FrameworkResult]):
    """Rank the frameworks; write tables, structures and pictures, and persist what was found."""

    node_id: ClassVar[str] = "End"

    async def run(self, ctx: Ctx) -> End[FrameworkResult]:
        """Build the result."""
        state = ctx.state
        # What a search proposed and cannot be built is told all the same, or the next search proposes it again.
        if state.candidates and not state.usable and not state.searched:
            raise _all_failed(ctx)
        if not ctx.is_job:
            return End(state.result())
        files: Mapping[str, ArtifactRef] = {}
        if (pictures := pictures_of(state.result())) is not None:
            draw: Calculation[Any, Pictures] = draw_frameworks
            drawn = await ctx.compute(draw, pictures)
            if drawn.ok:
                files = drawn.output.files
            else:
                state.notes.append(f"no pictures: {drawn.kind}: {drawn.message}")
        cifs = await ctx.thread(sources.cif_files, state.candidates)
        names: dict[str, dict[Stage, str]] = {}
        for (name, stage), text in cifs.items():
            names.setdefault(name, {})[stage] = file = f"cif/{name}-{stage}.cif"
            await ctx.publish(file, text.encode())
        for name, ref in files.items():
            await ctx.publish(name, ref)
        persisted: tuple[str, ...] = ()
        if ctx.persist is not None and state.candidates:
            entities = await ctx.thread(sources.entities, state.candidates, state.relaxation)
            persisted = tuple(await ctx.persist.persist(entities))
        result = state.result(cifs=names, files=files, persisted=persisted)
        await ctx.publish("frameworks.csv", await ctx.thread(result.as_csv))
        await ctx.publish("frameworks.json", await ctx.thread(result.as_json))
        return End(result)


def next_node(state: FrameworkState) -> AnyStep:
    """Return the node that does what the job asks for next."""
    if state.to_download:
        return Download()
    if state.due("cut"):
        return ProcessCIF()
    if state.to_search:
        return CombinatorialSearch()
    if state.due("build"):
        return Build()
    if state.due("relax"):
        return Relax()
    return Analyze() if state.due("analyze") else Finish()


async def _take_structure(ctx: Ctx, candidate: Candidate, cif: str) -> None:
    """Take in a CIF text: to be cut, or as the structure that it is."""
    if "cut" in ctx.state.request.given:
        candidate.cif = cif
        return
    read = await ctx.thread(sources.parse, cif, candidate.name)
    if isinstance(read, Failure):
        candidate.failures["download"] = read
    else:
        candidate.found = read


def _aside(function: Callable[..., Json], *arguments: Any) -> Callable[[], Awaitable[Json]]:
    """Return what reads something off the event loop."""
    return lambda: asyncio.to_thread(function, *arguments)


def _parts(combination: Combination) -> tuple[str, str, str]:
    return combination.topology, combination.metal_node.identifier, combination.linker.identifier


async def _in_lanes(
    ctx: Ctx, step: Step, calculation: Calculation[InputT, OutputT], inputs: Mapping[str, InputT]
) -> dict[str, OutputT]:
    """Take a step with each framework in a lane of its own; note keys and failures, and return what came out."""
    outcomes = await ctx.fan_out(calculation, inputs, limit=ctx.state.request.lanes, label=step)
    found: dict[str, OutputT] = {}
    for name, outcome in outcomes.items():
        candidate = ctx.state.candidates[name]
        if isinstance(outcome, Failure):
            candidate.failures[step] = outcome
        else:
            candidate.keys[step] = outcome.key
            found[name] = outcome.output
    return found


def _all_failed(ctx: Ctx) -> Exception:
    failed = {
        name: tuple(found.failures.values())[-1] for name, found in ctx.state.candidates.items() if found.failures
    }
    if len(failed) == 1:
        (failure,) = failed.values()
        return ctx.fail(failure)
    return JoinFailed("at least one framework", failed, len(ctx.state.candidates))
