"""The same tools for any client of the Model Context Protocol, over standard input and output (official SDK)."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from grafico import __version__
from grafico.agent.looking import looking_tools
from grafico.agent.running import graph_tools, plan_tool
from grafico.agent.tool import Desk, Tool, call, failure_of
from grafico.errors import BadInput, GraficoError, MissingExtra

__all__ = ["all_tools", "make_server", "serve"]

INSTRUCTIONS = """grafico runs computational chemistry as durable typed graphs. Plan a job with plan_job, run a graph with its
run_... tool, look at runs with show_run and explain_lane, ask what earlier runs found with query_knowledge. Results are short;
the whole of them stands in the run's folder."""


def all_tools() -> list[Tool]:
    """Return every tool, those that only look first."""
    return [*looking_tools(), plan_tool(), *graph_tools()]


def make_server(desk: Desk, tools: list[Tool]) -> Any:
    """Return an MCP server.

    Raises
    ------
    MissingExtra
        The SDK is not installed.
    """
    try:
        from mcp import types
        from mcp.server.lowlevel import Server
    except ImportError as error:
        raise MissingExtra(
            f"`grafico mcp` needs the MCP SDK, which is not installed ({error})", hint='pip install "grafico[llm]"'
        ) from None
    known = {tool.name: tool for tool in tools}

    async def list_tools(_: Any, __: Any) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.schema),
                    annotations=types.ToolAnnotations(
                        read_only_hint=tool.reads_only, destructive_hint=False, open_world_hint=False
                    ),
                )
                for tool in tools
            ]
        )

    async def call_tool(context: Any, params: Any) -> Any:
        loop = asyncio.get_running_loop()
        last = 0.0

        def progress(done: float, total: float | None, text: str) -> None:
            # Called from the thread that runs the job; the protocol wants it to grow.
            nonlocal last
            last = max(last + 1e-3, done)
            asyncio.run_coroutine_threadsafe(context.session.report_progress(last, total, text), loop)

        here = Desk(runs=desk.runs, home=desk.home, store=desk.store, progress=progress)
        tool = known.get(params.name)
        try:
            if tool is None:
                raise BadInput(f"there is no tool {params.name!r}", hint=f"known: {', '.join(known)}")
            value = await call(tool, params.arguments or {}, here)
        except GraficoError as error:
            return _result(types, failure_of(error), failed=True)
        return _result(types, value if isinstance(value, dict) else {"value": value}, failed=False)

    return Server(
        "grafico", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _result(types: Any, value: dict[str, Any], *, failed: bool) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value, is_error=failed
    )


def serve(runs: Path, store: str | None = None) -> None:
    """Serve on standard input and output until the client leaves."""
    server = make_server(Desk(runs=runs, store=store), all_tools())
    from mcp.server.stdio import stdio_server

    async def work() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    sys.stderr.write("grafico mcp: serving on standard input and output\n")
    asyncio.run(work())
