"""What a job file may say, and what is said about one that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grafico.errors import BadInput, JobError, MoleculeError
from grafico.jobs.document import MAX_BYTES, parse_yaml
from grafico.jobs.load import load_job, read_job

Write = Callable[..., Path]
TEXT = st.text(st.characters(max_codepoint=0xD7FF), max_size=20)


def message(path: Path, *overrides: str) -> str:
    with pytest.raises(BadInput) as caught:
        load_job(path, overrides)
    return f"{caught.value.message} | {caught.value.hint}"


def test_a_job_is_read_with_its_request(job: Write) -> None:
    loaded = load_job(job(extra="  sleep_s: 1e-3\n"))
    assert loaded.job.name == "tiny"
    assert loaded.request.numbers == (1, 2, 3)
    assert loaded.request.sleep_s == 1e-3
    assert loaded.graph.id == "tiny"


def test_a_job_without_a_name_is_called_after_its_file(job: Write) -> None:
    path = job("graph: grafico_tiny:GRAPH\ninput: {numbers: [1]}\n", name="my job.yaml")
    assert load_job(path).job.name == "my-job"


def test_scalars_are_yaml_1_2_so_that_no_is_nitric_oxide() -> None:
    value, _ = parse_yaml(
        "{a: NO, b: 1e-7, c: on, d: true, e: ~, f: 010, g: '1', h: 0x10, i: 2026-01-01, j: 1:30}", "x"
    )
    assert value == {"a": "NO", "b": 1e-7, "c": "on", "d": True, "e": None, "f": 10, "g": "1", "h": 16,
                     "i": "2026-01-01", "j": "1:30"}  # fmt: skip


def test_every_problem_is_listed_with_its_line_and_path(job: Write) -> None:
    text = (
        "grap: x\n"
        "graph: grafico_tiny:GRAPH\n"
        "seed: many\n"
        "input: {numbers: [1]}\n"
        "on_version_change: reus\n"
        "knowledge:\n"
        "  persit: true\n"
    )  # fmt: skip
    said = message(job(text))
    assert "4 problems" in said
    assert "line 1, grap: unknown key; did you mean 'graph'?" in said
    assert 'line 3, seed: must be a valid integer, came "many"' in said
    assert "line 5, on_version_change: must be 'reuse' or 'recompute', came \"reus\"; did you mean 'reuse'?" in said
    assert "line 7, knowledge.persit: unknown key; did you mean 'persist'?" in said


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("  number: [1]\n", ["line 7, input.number: unknown key; did you mean 'numbers'?"]),
        ("  sleep_s: fast\n", ['line 7, input.sleep_s: must be a valid number, came "fast"', "seconds that each takes"]),
        ("  sleep_s: -1\n", ["line 7, input.sleep_s: must be greater than or equal to 0, came -1"]),
        ("  fail: [1, x]\n", ['line 7, input.fail[1]: must be a valid integer, came "x"']),
        ("  part: {temperature: 25 °C}\n", ["line 7, input.part.temperature", "temperature, K"]),
        ("  part:\n    methd: cube\n", ["line 8, input.part.methd: unknown key; did you mean 'method'? (known: method"]),
        ("  part: {method: cub}\n", ["must be 'square' or 'cube'", "did you mean 'cube'?"]),
        ("  part: 7\n", ["line 7, input.part: must be keys with values (method, temperature), came 7"]),
        ("  table: [OH-]\n", ["line 7, input.table: must be a valid string", "put it in quotes"]),
        ("  table: there.txt\n", ["line 7, input.table: there is no file", "there.txt"]),
        ("  table: .\n", ["line 7, input.table", "is a directory"]),
    ],
)  # fmt: skip
def test_problems_of_the_input_name_line_path_and_what_is_expected(job: Write, lines: str, expected: list[str]) -> None:
    said = message(job(extra=lines))
    for part in expected:
        assert part in said


def test_a_missing_value_says_what_it_is(job: Write) -> None:
    said = message(job("graph: grafico_tiny:GRAPH\ninput: {sleep_s: 1}\n"))
    assert "input.numbers: missing: what is squared" in said


def test_the_graphs_own_check_is_asked(job: Write) -> None:
    path = job(extra="  part: {method: cube}\n")
    with pytest.raises(MoleculeError, match="13 cannot be squared") as caught:
        load_job(path, ["input.numbers=[13]"])
    assert caught.value.hint == "take 12"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ensemble-spectrom", "did you mean 'ensemble-spectrum'?"),
        ("no_such_module:GRAPH", "there is no module no_such_module"),
        ("grafico_tiny:GRAF", "grafico_tiny has no graph called GRAF"),
        ("grafico_tiny:NOT_A_GRAPH", "has no graph called NOT_A_GRAPH"),
        ("grafico_tiny:LANE", "cannot be a job"),
        ("..:x", "is no name of a module"),
    ],
)
def test_a_graph_that_is_not_there(job: Write, name: str, expected: str) -> None:
    said = message(job(f"graph: '{name}'\ninput: {{numbers: [1]}}\n"))
    assert expected in said
    assert "line 1, graph" in said


def test_a_list_that_is_too_short_because_of_its_items_is_one_problem(job: Write) -> None:
    said = message(job("graph: grafico_tiny:GRAPH\ninput:\n  numbers: [x]\n"))
    assert "problems" not in said
    assert "line 3, input.numbers[0]" in said


def test_files_are_taken_from_beside_the_job(job: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3")
    path = job(extra="  table: numbers.txt\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load_job(path).request.table == str(tmp_path / "numbers.txt")


def test_a_misspelt_file_is_told_its_neighbour(job: Write, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3")
    assert f"did you mean {'numbers.txt'}?" in message(job(extra="  table: nombers.txt\n"))


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("input.numbers=[4, 5]", ("input", "numbers"), [4, 5]),
        ("input.numbers[1]=7", ("input", "numbers"), [1, 7, 3]),
        ("input.numbers.1=7", ("input", "numbers"), [1, 7, 3]),
        ("input.part.method=cube", ("input", "part", "method"), "cube"),
        ("seed=1", ("seed",), 1),
        ("description=a=b", ("description",), "a=b"),
        ("description=", ("description",), None),
    ],
)
def test_overrides_are_yaml_values_at_a_place(job: Write, override: str, place: tuple[str, ...], value: object) -> None:
    from grafico.jobs.document import read_document
    from grafico.jobs.overrides import apply_overrides

    document = apply_overrides(read_document(job())[0], [override])
    found = document.data
    for part in place:
        found = found[part]
    assert found == value


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed", "expected KEY=VALUE"),
        ("=1", "expected KEY=VALUE"),
        ("a b=1", "is no key"),
        ("input.numbers[9]=1", "is a list of 3"),
        ("input.numbers.x=1", "is a list of 3"),
        ("input.numbers[0].x=1", "is 1, not a mapping"),
        ("input.sleep=1", "--set input.sleep=1, input.sleep: unknown key"),
        ("input.sleep_s=[", "not YAML"),
        ("seed=&x 1", "the anchor"),
        ("seed=.inf", "not a number that can be used"),
    ],
)
def test_overrides_are_checked_like_the_rest(job: Write, override: str, expected: str) -> None:
    assert expected in message(job(), override)


def test_a_hundred_megabytes_are_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 1024**2)
    with pytest.raises(JobError, match="larger than 5 MiB"):
        read_job(path)
    assert path.stat().st_size > MAX_BYTES


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.text("{}[]:-&*!|>'\"%@` \n\ta1.", max_size=60).map(str.encode),
    )
)
def test_any_bytes_give_a_job_or_one_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(data)
    try:
        job, _, _ = read_job(path)
        said = job.name
    except JobError as error:
        said = error.message
    assert "any" in said


@settings(max_examples=100, deadline=None)
@given(
    value=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
        max_leaves=12,
    )
)
def test_json_is_yaml(value: object) -> None:
    import json

    text = json.dumps({"top": value}, ensure_ascii=True)
    assert parse_yaml(text, "x")[0] == {"top": value}
