"""`grafico table`: the results of sweeps as one table."""

from pathlib import Path
from typing import Annotated

import typer

from grafico.cli.output import JsonFlag, RunsFolder, out, print_json, say
from grafico.cli.tables import print_tables

__all__ = ["table"]


def table(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Sweeps: path, name or start of one; all shards of one, say.")
    ],
    *,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write it as CSV.")] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write it as Parquet (needs pyarrow).")
    ] = None,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Show the table of a sweep, while it goes or after; of several, such as shards, as one."""
    from grafico.jobs.find import find
    from grafico.jobs.sweeps.standing import standing_table
    from grafico.jobs.sweeps.table import merged, odd_shards, write_csv, write_parquet

    paths = list(dict.fromkeys(find(run, runs_dir) for run in runs))
    names = [path.name for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    tables = {label: standing_table(path) for label, path in zip(labels, paths, strict=True)}
    whole = merged(tables)
    for note in odd_shards(tables.values()):
        say(f"note: {note}")
    if csv is not None:
        write_csv(whole, csv)
    if parquet is not None:
        write_parquet(whole, parquet)
    if as_json:
        print_json({"columns": list(whole.columns), "rows": [list(cells) for cells in whole.cells()]})
        return
    for path in (csv, parquet):
        if path is not None:
            say(f"{len(whole.rows)} rows in {path}")
    if csv is None and parquet is None:
        print_tables([whole.shown(", ".join(labels))], out())
