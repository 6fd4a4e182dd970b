"""How a dry run is shown."""

from typing import TYPE_CHECKING

from grafico.cli.output import out
from grafico.cli.tables import print_lines, show_table

if TYPE_CHECKING:
    from grafico.jobs.plan import Plan

__all__ = ["print_plan"]


def print_plan(plan: "Plan") -> None:
    """Print what a job would do."""
    from grafico.cli.progress import spell
    from grafico.jobs.plan import describe_resources

    console = out()
    console.print(f"{plan.name}: dry run of {plan.job}; nothing is created or submitted")
    console.print("")
    print_lines(console, plan.outline)
    console.print("")
    workers = [
        (worker.name, worker.kind, worker.places, worker.memory_mib, worker.gpu_memory_mib or None)
        for worker in plan.workers
    ]
    show_table(
        console,
        f"profile {plan.profile}",
        ("worker", "kind", "slots or CPUs", "memory, MiB", "GPU memory, MiB"),
        workers,
    )
    if plan.calculations:
        rows = [
            (item.label, item.calculation, item.count, describe_resources(item.resources),
             spell(item.resources.walltime_s), ", ".join(item.where), item.at_once, spell(item.bound_s))
            for item in plan.calculations
        ]  # fmt: skip
        columns = ("foreseen", "calculation", "count", "each needs", "walltime", "on", "at once", "at most")
        show_table(console, "calculations, if nothing fails", columns, rows)
        console.print(
            f"at most {spell(plan.walltime_bound_s)} if each took all of its walltime, one kind after another"
        )
    lines = [f"engine {item.name}: {item.version or f'not installed; {item.get}'}" for item in plan.engines]
    lines += [f"file {path}: found" for path in plan.files]
    lines.append(f"knowledge base: the result {'is' if plan.persists else 'is not'} persisted")
    lines += [f"note: {note}" for note in plan.notes]
    print_lines(console, lines)
