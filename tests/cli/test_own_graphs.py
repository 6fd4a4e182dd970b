"""Graphs of one's own that are broken: which part is at fault, in which line of which file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BROKEN = {
    "syntax": ("def x(:\n", "cannot be imported: SyntaxError: invalid syntax (grafico_own.py, line 1)", 2),
    "no graph": ("x = 1\n", "grafico_own has no graph called GRAPH", 2),
    "no module": ("import nothing_like_this\n", "cannot be imported: ModuleNotFoundError", 2),
    "no name": ("from grafico.errors import Nothing\n", "cannot import name 'Nothing'", 2),
    "raises": ("\nraise RuntimeError('boom')\n", "cannot be imported: RuntimeError: boom (grafico_own.py, line 2)", 2),
    "exits": ("raise SystemExit(7)\n", "cannot be imported: SystemExit: 7", 2),
}
"""Content of the module, what is said, and the exit code."""

FAULTS = {
    "check": ("    if 13 in", "    1 / 0\n    if 13 in", "the check of the graph 'grafico_own:GRAPH' raised ZeroDivisionError"),
    "forecast": ("    example = Sq", "    1 / 0\n    example = Sq", "the forecast of the graph"),
    "beginning": ("begin=lambda request: TinyState(request=request)", "begin=lambda request: 1 / 0", "the beginning of the graph"),
}  # fmt: skip
"""What is replaced in a graph that works, by what, and what is said."""


@pytest.fixture
def own(grafico: Callable[..., Any], bench: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a job whose graph is a module with this text."""
    import sys

    def run(text: str, *options: str) -> Any:
        (bench / "grafico_own.py").write_text(text)
        return grafico("run", "job.yaml", "--quiet", "--set", "graph=grafico_own:GRAPH", *options)

    yield run
    sys.modules.pop("grafico_own", None)


@pytest.mark.parametrize("case", BROKEN)
def test_a_module_that_cannot_be_used_is_bad_input(case: str, own: Any, bench: Path) -> None:
    text, expected, code = BROKEN[case]
    said = own(text)
    assert said.code == code
    assert expected in said.err
    assert "job.yaml, " in said.err
    assert "Traceback" not in said.err
    assert not (bench / "runs").exists()


@pytest.mark.parametrize("part", FAULTS)
def test_a_part_of_a_graph_that_raises_is_named_with_its_line(part: str, own: Any, bench: Path) -> None:
    old, new, expected = FAULTS[part]
    said = own((bench / "grafico_tiny.py").read_text().replace(old, new))
    assert said.code == 4
    assert expected in said.err
    assert "(grafico_own.py, line " in said.err
    assert "this is a fault of that graph" in said.err
    assert "please report" not in said.err


def test_a_result_whose_tables_fail_is_there_all_the_same(own: Any, bench: Path) -> None:
    text = (bench / "grafico_tiny.py").read_text()
    said = own(
        text.replace('        return [{"title"', '        raise ValueError("no table")\n        return [{"title"')
    )
    assert said.code == 0, said.err
    assert "the result cannot show its tables: ValueError: no table (grafico_own.py, line" in said.out
    assert next((bench / "runs").glob("*/results/result.json")).is_file()


NODE_FAULTS = {
    "own line": ('text = ""\n', 'text = ""\n        1 / 0\n', "ZeroDivisionError: division by zero ({file}:{line})"),
    "library": ('text = ""\n', "text = \"\"\n        __import__('json').loads('x')\n", ", called at {file}:{line})"),
    "nan": ("total: int\n", "total: float\n", "engine_error: node Add: result.total is nan"),
}
"""What is replaced in a graph that works, by what, and what is said."""


@pytest.mark.parametrize("part", NODE_FAULTS)
def test_a_bug_in_a_node_fails_the_run_and_is_told_with_file_and_line(
    part: str, own: Any, bench: Path, grafico: Callable[..., Any]
) -> None:
    old, new, expected = NODE_FAULTS[part]
    text = (bench / "grafico_tiny.py").read_text()
    assert old in text
    changed = text.replace(old, new).replace(
        "total=sum(done.values())", 'total=float("nan")' if part == "nan" else "total=0"
    )
    said = own(changed)
    assert said.code == 4, said.err
    number = changed[: changed.index(new)].count("\n") + 2
    expected = expected.format(file=bench / "grafico_own.py", line=number)
    for told in (said.out, grafico("show", "last").out, grafico("explain", "last").out):
        assert expected in told
    assert grafico("show", "last", "--json").json["status"] == "failed"
