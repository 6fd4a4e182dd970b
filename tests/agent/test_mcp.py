"""Graphs as tools, used by the official SDK's client over standard input and output."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pyscf")

from grafico.agent.answers import answer
from grafico.agent.ask import Asked
from grafico.agent.tool import Desk
from grafico.agent.wanted import Knowing


def with_client(tmp_path: Path, use):
    from mcp import Client, StdioServerParameters

    command = "from grafico.cli.entry import main; main()"
    environment = {**os.environ, "GRAFICO_KB": str(tmp_path / "kb"), "OMP_NUM_THREADS": "1"}
    server = StdioServerParameters(
        command=sys.executable, args=["-P", "-c", command, "mcp", "--runs", str(tmp_path / "runs")],
        env=environment, cwd=str(tmp_path),
    )  # fmt: skip

    async def work():
        async with Client(server, read_timeout_seconds=200) as client:
            return await use(client)

    return asyncio.run(asyncio.wait_for(work(), 280))


def known(desk: Desk, **form) -> list[dict[str, str]]:
    """Return what the knowledge base answers to a form."""
    _, said = asyncio.run(answer(Asked("ask_knowledge", form=Knowing(**form)), desk))
    return [{name: cell["value"] for name, cell in row.items()} for row in said["results"]["bindings"]]


def test_tools_have_schemas_and_say_what_they_do(tmp_path):
    async def use(client):
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in with_client(tmp_path, use)}
    assert {"run_quantum_chemistry", "run_ensemble_spectrum", "plan_job", "show_run", "query_knowledge"} <= set(tools)
    schema = tools["run_quantum_chemistry"].input_schema
    assert schema["properties"]["input"]["$ref"].endswith("QCRequest")
    assert "def2-svp" in str(schema["$defs"]["Level"]["properties"]["basis"])
    assert tools["show_run"].annotations.read_only_hint
    assert not tools["run_quantum_chemistry"].annotations.read_only_hint
    assert all(tool.description for tool in tools.values())
    # None of them takes code.
    assert not {"code", "script", "command"} & {name for t in tools.values() for name in t.input_schema["properties"]}


def test_a_spectrum_is_computed_with_progress_and_comes_back_typed_and_without_coordinates(tmp_path):
    told: list[tuple[float, float | None, str | None]] = []
    request = {
        "molecule": {"smiles": "ON=O"},
        "search": {"engine": "rdkit", "seeds": 10, "batches": 2},
        "level": {"method": "hf", "basis": "sto-3g"},
        "excited_states": {"roots": 3, "tda": True},
    }

    async def use(client):
        async def progress(done, total, message):
            told.append((done, total, message))

        result = await client.call_tool(
            "run_ensemble_spectrum", {"input": request, "name": "hono"}, progress_callback=progress
        )
        run = result.structured_content["run"]
        shown = await client.call_tool("show_run", {"run": run})
        found = await client.call_tool("query_knowledge", {"query": "SELECT ?m { ?m a chem:Molecule }"})
        return result, shown, found

    result, shown, found = with_client(tmp_path, use)
    assert not result.is_error
    said = result.structured_content
    assert said["status"] == "finished"
    assert said["exit_code"] == 0
    assert said["counts"]["lanes_done"] >= 2
    assert (Path(said["path"]) / "results" / "result.json").is_file()
    text = str(said)
    assert "coordinates" in text  # said to be left out
    assert "positions" not in text
    assert told
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    assert shown.structured_content["run"] == said["run"]
    assert len(found.structured_content["results"]["bindings"]) >= 1
    # What `grafico ask` would find afterwards: cis and trans, a spectrum of both and one of the main conformer.
    desk = Desk(store=str(tmp_path / "kb"))
    for about, rows in (
        ("molecules", 1),
        ("calculations", 2),
        ("spectra", 2),
        ("runs", 1),
    ):
        assert len(known(desk, about=about, molecule="ON=O")) == rows, about
        assert known(desk, about=about, molecule="ethanol") == []
    assert known(desk, about="runs") == [{"run": said["run"], "graph": "ensemble-spectrum", "status": "finished"}]


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "message"),
    [
        ("run_quantum_chemistry", {"input": {"molecule": {"smiles": "C1CC"}}}, "MoleculeError", "C1CC"),
        ("run_quantum_chemistry", {"input": {"molecule": {}}}, "BadInput", "exactly one of smiles"),
        ("run_quantum_chemistry", {"input": {"molecule": {"file": "/etc/hostname.xyz"}}}, None, "hostname"),
        ("show_run", {"run": "nothing-like-it"}, "RunNotFound", "nothing-like-it"),
        ("query_knowledge", {"query": "DROP ALL"}, "QueryError", ""),
        ("convert_units", {"value": 1, "unit": "parsec", "to": "eV"}, "BadInput", "parsec"),
        ("plan_job", {"job": {"name": "x", "graph": "os:system", "input": {}}}, "BadInput", "not code beside a job"),
        ("erase_everything", {}, "BadInput", "no tool"),
    ],
)
def test_errors_are_typed_and_say_what_to_do(tmp_path, tool, arguments, kind, message):
    from mcp import Client

    from grafico.agent.mcp import all_tools, make_server

    async def use():
        server = make_server(Desk(runs=tmp_path / "runs", home=tmp_path, store=str(tmp_path / "kb")), all_tools())
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(use())
    assert result.is_error
    said = result.structured_content
    assert kind in {None, said["error"]}
    assert message in said["message"]
    assert "GraficoError" in {said["error"], *said["is_a"]}
    assert "Traceback" not in str(said)
