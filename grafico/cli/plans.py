"""How a dry run is shown."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grafico.cli.output import out
from grafico.cli.tables import print_lines, show_table
from grafico.units import spell_seconds

if TYPE_CHECKING:
    from grafico.jobs.plan import Plan, Planned

__all__ = ["print_plan"]

MANY_WORKERS = 24
MANY_KINDS = 16
"""Kinds of calculations that are listed one by one; the molecules of a benchmark set may have hundreds."""


def print_plan(plan: "Plan") -> None:
    """Print what a job would do."""
    console = out()
    console.print(f"{plan.name}: dry run of {plan.job}; nothing is created or submitted")
    if plan.members is not None:
        print_lines(console, [_members(plan)])
    console.print("")
    print_lines(console, plan.outline)
    console.print("")
    workers = [
        (worker.name, worker.kind, worker.places, worker.memory_mib, worker.gpu_memory_mib or None)
        for worker in plan.workers[:MANY_WORKERS]
    ]
    more = f", the first {MANY_WORKERS} of {len(plan.workers)} workers" if len(plan.workers) > MANY_WORKERS else ""
    show_table(
        console,
        f"profile {plan.profile}{more}",
        ("worker", "kind", "slots or CPUs", "memory, MiB", "GPU memory, MiB"),
        workers,
    )
    if plan.calculations:
        columns = ("foreseen", "calculation", "count", "each needs", "walltime", "on", "at once", "at most")
        kinds = f", {len(plan.calculations):,} kinds in short" if len(plan.calculations) > MANY_KINDS else ""
        show_table(console, f"calculations, if nothing fails{kinds}", columns, map(_row, _groups(plan)))
        print_lines(console, _schedule(plan))
    lines = [f"engine {item.name}: {item.version or f'not installed; {item.get}'}" for item in plan.engines]
    lines += [f"file {path}: found" for path in plan.files[:20]]
    lines += [f"… and {len(plan.files) - 20} more files: found"] if len(plan.files) > 20 else []
    lines.append(f"knowledge base: the result {'is' if plan.persists else 'is not'} persisted")
    lines += [f"note: {note}" for note in plan.notes]
    print_lines(console, lines)


def _groups(plan: "Plan") -> list[list["Planned"]]:
    """Return the kinds of calculations, each alone; where they are many, those that differ in sizes alone together."""
    found: dict[object, list[Planned]] = {}
    for number, item in enumerate(plan.calculations):
        alike = (item.label, item.calculation, item.resources.gpu)
        found.setdefault(alike if len(plan.calculations) > MANY_KINDS else number, []).append(item)
    return list(found.values())


def _row(group: list["Planned"]) -> tuple[object, ...]:
    from grafico.jobs.plan import describe_resources

    first = group[0]
    walltimes = dict.fromkeys(spell_seconds(seconds) for seconds in sorted(item.resources.walltime_s for item in group))
    walltime = " to ".join(list(dict.fromkeys([next(iter(walltimes)), list(walltimes)[-1]])))
    where = tuple(dict.fromkeys(name for item in group for name in item.where))
    at_most = spell_seconds(first.bound_s) if len(group) == 1 else None
    at_once = first.at_once if len(group) == 1 else None
    needs = describe_resources(*(item.resources for item in group))
    return (
        first.label,
        first.calculation,
        sum(item.count for item in group),
        needs,
        walltime,
        _some(where),
        at_once,
        at_most,
    )


def _members(plan: "Plan") -> str:
    part = f" (of {plan.total_members:,} in the whole sweep)" if plan.total_members != plan.members else ""
    lanes = "" if plan.lanes == plan.members else f", {plan.lanes:,} of them different"
    shared = plan.foreseen - plan.distinct
    same = f", {shared:,} of them the same as others" if shared else ""
    members = f"{plan.members:,} member{'' if plan.members == 1 else 's'}"
    foreseen = "1 calculation is" if plan.foreseen == 1 else f"{plan.foreseen:,} calculations are"
    return f"a sweep of {members}{part}{lanes}; {foreseen} foreseen{same}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} … ({len(names)} workers)"


def _schedule(plan: "Plan") -> Iterator[str]:
    bound, typical = plan.bound, plan.typical
    if bound is None:
        yield f"at most {spell_seconds(plan.walltime_bound_s)} if each took all of its walltime, one kind after another"
        return
    yield f"at most {spell_seconds(bound.makespan_s)} if each took all of its walltime"
    shown = typical or bound
    if typical is not None:
        yield f"about {spell_seconds(typical.makespan_s)} if each takes what it takes as a rule"
    if bound.cost is not None:
        cost = bound.cost
        hosts = ", ".join(
            f"{count} {name if name == 'nodes' else f'of pool {name}'}" for name, count in cost.hosts.items()
        )
        yield (
            f"hosts at once: {hosts or 'none'}; at most {cost.node_hours:,.1f} node-hours, "
            f"{cost.gpu_hours:,.1f} GPU-hours, {cost.core_hours:,.0f} core-hours; waiting in the queue is not counted"
        )
    yield ""
    yield f"how full the workers are, from the start to {spell_seconds(shown.makespan_s)}"
    for line in shown.gantt:
        yield f"  {line}"
    yield ""
