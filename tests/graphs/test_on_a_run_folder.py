"""The same walks with the journal of a run folder instead of memory."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from walking import Number, refuse_negative

from grafico.calculations import CalculationError, Failure, FailureKind, Model, Outcome
from grafico.control import RuleRouter
from grafico.errors import ReplayMismatch
from grafico.graphs import Context, End, Graph, GraphState, InlineCompute, Node, Record, need_at_least, run_graph
from grafico.runs import Run, RunRecorder, RunStatus, read_run


@dataclass(kw_only=True)
class Lane(GraphState):
    x: float


class Compute(Node[Lane, float]):
    async def run(self, ctx: Context[Lane]) -> End[float]:
        outcome = await ctx.compute(refuse_negative, Number(x=ctx.state.x))
        if not outcome.ok:
            raise ctx.fail(outcome)
        return End(outcome.output.y)


LANES = Graph(id="lanes", version="1", state_type=Lane, nodes=[Compute], start=Compute)


@dataclass(kw_only=True)
class Main(GraphState):
    first: float = -1.0


class Fold(Node[Main, float]):
    async def run(self, ctx: Context[Main]) -> "Report":
        lanes = {f"m{n}": Lane(x=ctx.state.first + n) for n in range(4)}
        sums = need_at_least(await ctx.fan_out(LANES, lanes), 1)
        ctx.summarize(f"{len(sums)} lanes", total=sum(sums.values()))
        return await ctx.route()


class Report(Node[Main, float]):
    async def run(self, ctx: Context[Main]) -> End[float]:
        await ctx.publish("total.txt", ctx.now().encode())
        return End(float(ctx.state.summaries[0].scalars["total"]))


GRAPH = Graph(id="main", version="1", state_type=Main, nodes=[Fold, Report], start=Fold)


def walk_run(run: Run, state: Main, *, retry: bool = False) -> tuple[Outcome[Any], list[str]]:
    """Walk, and return the outcome and the names of what was computed."""

    async def main() -> tuple[Outcome[Any], list[str]]:
        async with RunRecorder(run, make_record=Record) as recorder:
            if retry:
                await recorder.invalidate(recorder.plan())
            compute = InlineCompute(recorder.outcomes, artifacts=recorder.artifacts)
            outcome = await run_graph(GRAPH, state, compute=compute, router=RuleRouter(), recorder=recorder)
            return outcome, [f"{task.lane} {task.input['x']}" for task in compute.tasks]

    return asyncio.run(main())


def new_run(folder: Path) -> Run:
    return Run.create(folder, "walk", job_source=b"{}", job={}, graph="main", graph_version="1")


def test_a_run_folder_answers_for_a_whole_run(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first, computed = walk_run(run, Main())
    assert first.ok
    assert first.output == 3.0
    assert len(computed) == 4
    written = run.paths.result("total.txt").read_bytes()
    again, computed = walk_run(Run.open(run.paths.root), Main())
    assert again.ok
    assert again.output == 3.0
    assert computed == []
    assert run.paths.result("total.txt").read_bytes() == written


def test_a_retry_repeats_the_failed_lane_and_all_that_saw_it_end(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    walk_run(run, Main())
    outcome, computed = walk_run(run, Main(), retry=True)
    assert outcome.ok
    assert computed == ["0.0:m0 -1.0"]


def test_changed_code_is_reported_by_the_first_difference(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    walk_run(run, Main())
    with pytest.raises(ReplayMismatch, match="node Compute"):
        walk_run(run, Main(first=2.0))


def test_a_run_in_which_too_few_lanes_succeed_fails_with_their_list(tmp_path: Path) -> None:
    outcome, _ = walk_run(new_run(tmp_path), Main(first=-9.0))
    assert isinstance(outcome, Failure)
    assert "m0: not_converged" in outcome.message


class Measured(Model):
    total: float
    parts: tuple[float, ...] = ()


@dataclass(kw_only=True)
class Wanted(GraphState):
    what: str


class Odd(Node[Wanted, Measured]):
    gain: float = 1.0

    async def run(self, ctx: Context[Wanted]) -> "End[Measured] | Odd":
        nan = float("nan")
        if ctx.state.what == "field":
            return End(Measured(total=nan))
        if ctx.state.what == "part":
            return End(Measured(total=1.0, parts=(0.0, float("inf"))))
        if ctx.state.what == "route":
            return Odd(gain=nan)
        raise CalculationError(FailureKind.NOT_CONVERGED, "no end", details={"gradient": nan, "step": 3})


ODD = Graph(id="odd", version="1", state_type=Wanted, nodes=[Odd], start=Odd)


@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        ("field", FailureKind.ENGINE_ERROR, "node Odd: result.total is nan"),
        ("part", FailureKind.ENGINE_ERROR, "node Odd: result.parts[1] is inf"),
        ("route", FailureKind.ENGINE_ERROR, "node Odd: parameters.gain is nan"),
        ("details", FailureKind.NOT_CONVERGED, "no end"),
    ],
)
def test_what_the_journal_cannot_hold_fails_the_walk_and_names_node_and_field(
    what: str, kind: FailureKind, said: str, tmp_path: Path
) -> None:
    run = new_run(tmp_path)

    async def main() -> Outcome[Any]:
        async with RunRecorder(run, make_record=Record) as recorder:
            compute = InlineCompute(recorder.outcomes, artifacts=recorder.artifacts)
            return await run_graph(ODD, Wanted(what=what), compute=compute, router=RuleRouter(), recorder=recorder)

    for _ in range(2):
        outcome = asyncio.run(main())
        assert isinstance(outcome, Failure)
        assert outcome.kind is kind
        assert said in outcome.message
        assert outcome.where == "Odd"
        assert read_run(run.paths.root).status is RunStatus.FAILED
    if what == "details":
        assert outcome.details == {"gradient": "nan", "step": 3}
