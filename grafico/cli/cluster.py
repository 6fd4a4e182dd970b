"""`grafico cluster check|up|status|down`: clusters that several runs share."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.output import BAD_INPUT, Group, JsonFlag, out, print_json, say
from grafico.cli.tables import print_lines, show_table

if TYPE_CHECKING:
    from grafico.cluster.connection import ClusterFolder, Connection

__all__ = ["app"]

app = typer.Typer(cls=Group, no_args_is_help=True)

ProfileName = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name, or the path of its YAML file.")]
ClusterName = Annotated[str, typer.Argument(metavar="NAME", help="A cluster's name, or the path of its folder.")]


@app.command()
def check(profile: ProfileName, *, as_json: JsonFlag = False) -> None:
    """Validate a profile; show what it means and the scripts that it would submit. Starts and submits nothing.

    Where there is a Slurm, it is asked whether it would take the scripts (sbatch --test-only).
    """
    from grafico.cluster import load_profile
    from grafico.cluster.checking import check_profile
    from grafico.cluster.connection import clusters_folder
    from grafico.errors import ProfileError

    found = load_profile(profile)
    checked = check_profile(found, clusters_folder() / found.name)
    if as_json:
        print_json({**checked.model_dump(mode="json"), "ok": not checked.refused})
    else:
        console = out()
        console.print(f"profile {checked.profile}: {checked.description or checked.kind}")
        rows = [
            (w.name, w.pool, "GPU" if w.is_gpu else "CPUs", w.places, w.memory_mib, w.vram_mib or None)
            for w in checked.workers
        ]
        if rows:
            columns = ("worker", "pool", "kind", "slots or CPUs", "memory, MiB", "GPU memory, MiB")
            show_table(console, "workers", columns, rows)
        for script in checked.scripts:
            console.print(f"\nscript of {script.what}:\n")
            print_lines(console, [f"    {line}" for line in script.text.splitlines()])
        print_lines(console, [f"note: {note}" for note in checked.notes])
    if checked.refused:
        refusal = f"Slurm would not take the profile {checked.profile!r}: {checked.refused}"
        if as_json:  # one JSON value is on standard output already
            say(f"grafico: {refusal}")
            raise typer.Exit(BAD_INPUT)
        raise ProfileError(refusal)
    if not as_json:
        out().print("Slurm would take it" if checked.tried else "valid")


@app.command()
def up(
    profile: ProfileName,
    *,
    name: Annotated[str | None, typer.Option("--name", help="Name of the cluster, instead of the profile's.")] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay here until it ends: Ctrl-C or SIGTERM takes it down.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start a cluster that stays up, for several runs: `grafico run JOB --cluster connect:NAME`."""
    from grafico.cluster import load_profile
    from grafico.cluster.connection import named_folder
    from grafico.cluster.lifecycle import start_server
    from grafico.errors import BadInput

    found = load_profile(profile)
    folder = named_folder(name or found.name)
    if foreground:
        if as_json:
            raise BadInput("--foreground excludes --json", hint="leave one of them out")
        raise typer.Exit(_serve_here(found, folder))
    connection = start_server(found, folder.root, name=folder.root.name)
    if as_json:
        print_json(_described(connection))
    else:
        print_lines(out(), _up_lines(connection))


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name or folder; default: all.")] = None,
    *,
    as_json: JsonFlag = False,
) -> None:
    """Show which clusters are up, or how one of them stands: workers, pools, and who is on it."""
    from grafico.cluster.connection import known_clusters

    if name is None:
        found = [_state(folder, ask_it=False) for folder in known_clusters()]
        if as_json:
            print_json(found)
        elif not found:
            out().print("no cluster is up, and none was: `grafico cluster up PROFILE` starts one")
        else:
            rows = [(each["name"], each["state"], each["profile"], each["scheduler"]) for each in found]
            show_table(out(), "clusters", ("name", "state", "profile", "scheduler"), rows)
        return
    state = _state(_folder(name), ask_it=True)
    if as_json:
        print_json(state)
    else:
        _print_state(state)


@app.command()
def down(
    name: ClusterName,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also if runs are on it; they can be resumed.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Take a cluster down: its hosts, workers and calculations end, and nothing is left in a queue."""
    from grafico.cluster.connection import is_starting, read_connection
    from grafico.cluster.lifecycle import stop_server
    from grafico.cluster.slurm.records import cancel_left
    from grafico.errors import ProfileError

    folder = _folder(name)
    connection, queued = read_connection(folder), ""
    if connection is None and is_starting(folder):
        raise ProfileError(
            f"the cluster {folder.root.name!r} is only starting",
            hint="wait until `grafico cluster up` has returned, or interrupt that with Ctrl-C",
        )
    if connection is None:
        queued = cancel_left(folder.root)
        message = f"the cluster {folder.root.name!r} is not up"
    else:
        answer = stop_server(connection, force=force, reason="`grafico cluster down`")
        if not answer["stopping"]:
            raise ProfileError(
                f"the cluster {connection.name!r} is in use: {_users(answer)}",
                hint="wait, or cancel these runs, or `--force`: then they stop, and can be resumed",
            )
        queued = str(answer["in_queue"])
        had = "its server had ended before; cleared away" if "before" in str(answer["stopping"]) else "is down"
        message = (
            f"the cluster {connection.name!r}: {had}" if "ended" in had else f"the cluster {connection.name!r} {had}"
        )
    if as_json:
        print_json({"name": folder.root.name, "down": True, "message": message, "in_queue": queued})
    else:
        out().print(message)
        if queued:
            say(f"note: Slurm may still have jobs of it: {queued}\n  → `grafico cluster down` again, or scancel, later")


def _serve_here(profile: Any, folder: "ClusterFolder") -> int:
    import asyncio
    import os

    from grafico.cluster.lifecycle import prepare_folder
    from grafico.cluster.server import serve

    lock = prepare_folder(profile, folder.root, name=folder.root.name)
    try:
        return asyncio.run(serve(folder.root, lambda connection: print_lines(out(), _up_lines(connection))))
    finally:
        os.close(lock)


def _folder(name: str) -> "ClusterFolder":
    """Return the folder of a cluster by name or path.

    Raises
    ------
    ProfileError
        There is none.
    """
    from grafico.cluster.connection import ClusterFolder, known_clusters, named_folder
    from grafico.errors import ProfileError

    folder = ClusterFolder(name) if "/" in name or name in {".", ".."} else named_folder(name)
    if not folder.profile.is_file():
        names = ", ".join(known.root.name for known in known_clusters()) or "none"
        raise ProfileError(f"there is no cluster {name!r} ({folder.root})", hint=f"known here: {names}")
    return folder


def _described(connection: "Connection") -> dict[str, Any]:
    return {
        "name": connection.name,
        "state": "up",
        "profile": connection.profile.name,
        "folder": connection.folder,
        "scheduler": connection.scheduler,
        "security": "tls" if connection.tls else "none",
        "dashboard": connection.dashboard or None,
        "server": {"host": connection.server.host, "pid": connection.server.pid},
        "since": connection.started,
    }


def _state(folder: "ClusterFolder", *, ask_it: bool) -> dict[str, Any]:
    """Return how a cluster stands, as far as can be told."""
    from grafico.cluster.connection import is_starting, read_connection
    from grafico.cluster.lifecycle import ask, is_up
    from grafico.errors import GraficoError, ProfileError

    nothing = {"name": folder.root.name, "folder": str(folder.root), "scheduler": None, "profile": None}
    try:
        connection = read_connection(folder)
        if connection is None:
            how = "starting" if is_starting(folder) else "down"
            return {**nothing, "state": how, "profile": folder.read_profile().name}
    except ProfileError as error:
        return {**nothing, "state": f"unknown: {error.message}"}
    state = _described(connection)
    alive = is_up(connection)
    if alive is False:
        return {**state, "state": f"down: its server ({connection.server}) was killed or crashed"}
    if not connection.ready:
        state["state"] = "starting"
    if alive is None and not ask_it:
        state["state"] = f"up, says {connection.server.host}"
    if ask_it:
        try:
            return {**state, **ask(connection, "status"), "name": connection.name}
        except GraficoError as error:
            return {**state, "state": f"does not answer: {error.message}"}
    return state


def _up_lines(connection: "Connection") -> list[str]:
    from grafico.cluster.dashboard import moved

    lines = [
        f"the cluster {connection.name!r} is up: {connection.scheduler}, {connection.server}",
        f"  folder     {connection.folder}",
        f"  workers    {len(connection.expected)} at its largest; `grafico cluster status {connection.name}` shows them",
        f"  run on it  grafico run JOB --cluster connect:{connection.name}",
    ]
    if connection.dashboard:
        link = connection.dashboard
        if not sys.stdout.isatty():  # a file, of a batch job say, that others may read
            link = (
                f"{link.partition('?')[0]} (`grafico cluster status {connection.name}` prints the link that opens it)"
            )
        lines.insert(2, f"  dashboard  {link}")
    if news := moved(connection.profile.dashboard, connection.dashboard):
        lines.append(f"  note: {news}")
    if not connection.tls:
        lines.append("  note: security: none: whoever reaches its port can run code as you")
    return lines


def _print_state(state: dict[str, Any]) -> None:
    console = out()
    lines = [f"cluster {state['name']}: {state['state']}"]
    lines += [
        f"  {key:<10} {state[key]}"
        for key in ("profile", "folder", "scheduler", "dashboard", "since")
        if state.get(key)
    ]
    print_lines(console, lines)
    workers = [
        (
            w["name"],
            w["host"] or None,
            w["slurm_job"] or None,
            sum(1 for _ in w["tasks"]),
            w["spec"]["slots"] or w["spec"]["cpus"],
        )
        for w in state.get("workers", ())
    ]
    if workers:
        columns = ("worker", "host", "Slurm job", "calculations", "slots or CPUs")
        show_table(console, "workers", columns, sorted(workers))
    pools = [(p["pool"], p["up"], p["queued"], p["wanted"], p["problem"] or None) for p in state.get("pools", ())]
    if pools:
        show_table(console, "pools, hosts", ("pool", "up", "asked for", "wanted", "problem"), pools)
    users = _users(state) if "controllers" in state else ""
    if users:
        print_lines(console, [f"on it: {users}"])
    elif "controllers" in state:
        say("nobody is on it")


def _users(answer: dict[str, Any]) -> str:
    """Return in words who is on a cluster."""
    said = [
        f"run {who['run']} (process {who['pid']} on {who['host']}, {who['held']} running, {who['waiting']} waiting)"
        for who in answer["controllers"]
    ]
    said += [f"{count} calculations of a run without a controller" for count in answer["left"].values()]
    return "; ".join(said)
