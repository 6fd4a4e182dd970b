"""`grafico ask` and `grafico mcp`: sentences into jobs, and graphs as tools for agents."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grafico.cli.output import BAD_INPUT, DONE, JsonFlag, RunsFolder, out, print_json, say

if TYPE_CHECKING:
    from grafico.agent.ask import Asked
    from grafico.agent.tool import Desk
    from grafico.control import ModelSettings

__all__ = ["ask", "mcp"]

HOW = (
    "name one: --model FILE.gguf, --model openai/NAME --api-base http://127.0.0.1:8080/v1 for a server of your own, or --model "
    "PROVIDER/NAME with its key in the environment; GRAFICO_MODEL and GRAFICO_MODEL_BASE save typing"
)


def ask(
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What you want; '-' reads standard input.")],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            envvar="GRAFICO_MODEL",
            help="Language model, as litellm names it, or a GGUF file to serve.",
        ),
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option("--api-base", envvar="GRAFICO_MODEL_BASE", help="Address of an OpenAI-compatible server."),
    ] = None,
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", metavar="PROFILE", help="Where the job is to run.")
    ] = "laptop",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run the job without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the job and its plan; run nothing.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Write the job file here, and run nothing.")] = None,
    show_prompt: Annotated[
        bool, typer.Option("--show-prompt", help="Show all that may be sent to the model, and send nothing.")
    ] = False,
    runs_dir: RunsFolder = Path("runs"),
    as_json: JsonFlag = False,
) -> None:
    """Turn a sentence into a job, show it, and run it when you agree; or answer from runs and the knowledge base.

    The model fills in a form of a few words; without one, rules read what they can. Deterministic checks hold it to what the
    sentence says, the job is validated like any other, and nothing runs before you have seen it. Coordinates, files and
    results are never sent to a model.
    """
    import asyncio

    text = sys.stdin.read() if sentence == "-" else sentence
    if show_prompt:
        _show_prompts(text, as_json=as_json)
        return
    from grafico.agent.ask import Reader
    from grafico.agent.tool import Desk
    from grafico.control.local import serving
    from grafico.errors import BadInput

    if not model:
        if api_base:
            raise BadInput("--api-base names a server, and no --model which model of it to ask", hint=HOW)
        asked = asyncio.run(Reader(None).read(text, cluster=cluster))
        asked.notes.insert(0, "no language model (--model): only words that have one meaning to the rules count")
    else:
        with serving(model, api_base) as which:
            asked = asyncio.run(_read(text, _settings(which), cluster))
    if asked.question:
        if as_json:
            print_json({"kind": asked.kind, "question": asked.question, "notes": asked.notes})
        else:
            _notes(asked)
            out().print(asked.question)
        raise typer.Exit(BAD_INPUT)
    desk = Desk(runs=runs_dir)
    if asked.job is None:
        _answer(asked, desk, as_json=as_json)
        return
    _job(asked, desk, yes=yes, dry_run=dry_run, save=save, as_json=as_json)


def mcp(runs_dir: RunsFolder = Path("runs")) -> None:
    """Serve graphs, runs and the knowledge base as tools of the Model Context Protocol, on standard input and output."""
    from grafico.agent.mcp import serve

    serve(runs_dir)


def _settings(which: dict[str, str | None]) -> "ModelSettings":
    from pydantic import ValidationError

    from grafico.control import ModelSettings
    from grafico.errors import BadInput

    try:
        return ModelSettings.model_validate(which)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"--{where.replace('_', '-')}: {first['msg'].removeprefix('Value error, ')}", hint=HOW) from None


async def _read(text: str, settings: "ModelSettings", cluster: str) -> "Asked":
    from grafico.agent.ask import Reader
    from grafico.control import Ledger, ModelClient

    client = ModelClient(settings, Ledger())
    try:
        return await Reader(client).read(text, cluster=cluster)
    finally:
        for note in client.notes:
            say(f"note: {note}")
        await client.close()


def _show_prompts(text: str, *, as_json: bool) -> None:
    from grafico.agent.ask import prompts_for

    prompts = prompts_for(text)
    if as_json:
        print_json(prompts)
        return
    console = out()
    console.print(
        f"At most one form after another is asked for; nothing else leaves this machine. {len(prompts)} prompts:"
    )
    for number, prompt in enumerate(prompts, 1):
        console.print(f"\n--- {number} ---")
        for message in prompt:
            console.print(f"[{message['role']}] {message['content']}")


def _notes(asked: "Asked") -> None:
    for note in asked.notes:
        say(f"note: {note}")


def _answer(asked: "Asked", desk: "Desk", *, as_json: bool) -> None:
    import asyncio

    from grafico.agent.answers import answer

    tool, said = asyncio.run(answer(asked, desk))
    if as_json:
        print_json({"kind": asked.kind, "tool": tool, "answer": said, "notes": asked.notes})
        return
    _notes(asked)
    _print(tool, said)


def _print(tool: str, said: Any) -> None:
    console = out()
    if tool == "convert_units":
        console.print(f"{said['value']:.10g} {said['unit']}")
        return
    from grafico.cli.tables import show_table

    if tool == "query_knowledge":
        names = said["head"]["vars"]
        bindings = said["results"]["bindings"]
        bindings = bindings["first"] if isinstance(bindings, Mapping) else bindings
        show_table(console, "", names, [[(row.get(name) or {}).get("value", "") for name in names] for row in bindings])
    elif tool == "explain_lane":
        for event in said["story"]:
            console.print(f"{event['when']}  {event['what']}")
    else:
        console.print(f"{said['run']}: {said['status']}")
        for lane, failure in (said.get("failed_lanes") or {}).items():
            console.print(f"  failed: {lane}: {failure.get('kind')}: {failure.get('message')}")
        console.print(f"  {said['path']}; `grafico show {said['run']}` shows all of it")


def _job(asked: "Asked", desk: "Desk", *, yes: bool, dry_run: bool, save: Path | None, as_json: bool) -> None:
    from grafico.agent.running import job_text, prepared
    from grafico.cluster.here import check_here
    from grafico.jobs.plan import admit, make_plan

    assert asked.job is not None
    text = job_text(asked.job)
    if save is not None:
        from grafico.errors import BadInput

        with prepared(asked.job, desk):
            pass
        try:
            with save.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise BadInput(f"{save} cannot be written: {error.strerror or error}") from None
    with prepared(asked.job, desk) as ready:
        plan = None if save is not None else make_plan(ready)
        if as_json and (dry_run or save is not None or not yes):
            print_json(
                {
                    "kind": asked.kind, "job": asked.job, "notes": asked.notes, "saved": str(save) if save else None,
                    "plan": plan.model_dump(mode="json") if plan else None,
                }
            )  # fmt: skip
            return
        if not as_json:
            _notes(asked)
            out().print(text.rstrip())
        if save is not None:
            say(f"written to {save}; `grafico run {save}` runs it")
            return
        if dry_run:
            from grafico.cli.plans import print_plan

            assert plan is not None
            print_plan(plan)
            return
        if not yes and not _agreed():
            say("nothing was run")
            raise typer.Exit(DONE)
        check_here(ready.profile)
        admit(ready)
        from grafico.cli.run import carry_out, near
        from grafico.jobs.launch import create_run, start

        made = create_run(ready, desk.runs)
    say(f"run {made.name} in {near(made.paths.root)}")
    carry_out(lambda watcher: start(ready, made, watcher), made.name, requeue=False, quiet=False, as_json=as_json)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        say("this is the job; add --yes to run it, or --save FILE to keep it")
        return False
    return typer.confirm("Run this?", default=False)
