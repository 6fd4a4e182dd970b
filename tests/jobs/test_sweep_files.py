"""What a job file may say of a sweep, which members it comes to, and what is said of one that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grafico.errors import BadInput, MissingExtra
from grafico.jobs.load import load_job
from grafico.jobs.sweeps import Shard, Sweep

Write = Callable[..., Path]


def sweep(path: Path, *overrides: str, shard: Shard | None = None) -> Sweep:
    found = load_job(path, overrides, shard=shard).sweep
    assert found is not None
    return found


def keys(path: Path, *overrides: str, shard: Shard | None = None) -> list[str]:
    return [member.key for lane in sweep(path, *overrides, shard=shard).lanes for member in lane.members]


def message(path: Path, *overrides: str, shard: Shard | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        load_job(path, overrides, shard=shard)
    return f"{caught.value.message} | {caught.value.hint}"


def cells(found: Sweep) -> list[dict]:
    return [found.cells(member) for lane in found.lanes for member in lane.members]


def test_a_matrix_makes_a_member_of_each_combination_named_by_its_values(job: Write) -> None:
    path = job(extra="matrix:\n  input.numbers: [[1], [2, 3]]\n  input.part.method: [square, cube]\n")
    found = sweep(path)
    assert keys(path) == ["1+square", "1+cube", "2-3+square", "2-3+cube"]
    assert found.columns == ("numbers", "part.method")
    assert cells(found)[3] == {"numbers": "2-3", "part.method": "cube"}
    request = found.request(found.lanes[3])
    assert request.numbers == (2, 3)
    assert request.part.method == "cube"


def test_values_may_have_names_and_vary_together(job: Write) -> None:
    text = (
        "matrix:\n"
        "  input.numbers: {few: [1], many: [1, 2, 3]}\n"
        "  setting:\n"
        "    quick: {input.sleep_s: 0, input.part.method: square}\n"
        "    slow: {input.sleep_s: 5, input.part.method: cube}\n"
    )
    found = sweep(job(extra=text))
    assert [lane.key for lane in found.lanes] == ["few+quick", "few+slow", "many+quick", "many+slow"]
    assert cells(found)[1] == {"numbers": "few", "setting": "slow", "sleep_s": 5, "part.method": "cube"}
    listed = text.replace("    quick: ", "    - ").replace("    slow: ", "    - ")
    assert keys(job(extra=listed))[:2] == ["few+0-square", "few+5-cube"]


def test_values_come_from_files_and_tables(job: Write, bench: Path) -> None:
    (bench / "tables").mkdir()
    for name in ("b.txt", "a.txt"):
        (bench / "tables" / name).write_text(name)
    found = sweep(job(extra='matrix:\n  input.table: {files: "tables/*.txt"}\n'))
    assert [lane.key for lane in found.lanes] == ["a", "b"]
    assert [request.table for _, request in found.requests()] == [str(bench / "tables" / n) for n in ("a.txt", "b.txt")]
    (bench / "cases.csv").write_text('name,seconds,how\n"one, two",1.5,cube\nthree,,\n\nfour,2,square\n')
    columns = "{csv: cases.csv, name: name, columns: {input.sleep_s: seconds, input.part.method: how}}"
    found = sweep(job(extra=f"matrix:\n  case: {columns}\n"))
    assert [lane.key for lane in found.lanes] == ["one-two", "three", "four"]
    assert [(r.sleep_s, r.part.method) for _, r in found.requests()] == [
        (1.5, "cube"),
        (0.0, "square"),
        (2.0, "square"),
    ]
    assert cells(found)[0] == {"case": "one, two", "sleep_s": 1.5, "part.method": "cube"}
    assert keys(job(extra="matrix:\n  input.sleep_s: {csv: cases.csv, column: seconds}\n")) == ["1.5", "null", "2"]


def test_members_are_left_out_and_added(job: Write) -> None:
    text = (
        "matrix:\n  input.numbers: {a: [1], b: [2]}\n  input.sleep_s: [0, 1, 2]\n"
        "exclude:\n  - {input.numbers: b, input.sleep_s: [1, 2]}\n"
        "include:\n  - {name: extra, input.part.method: cube}\n  - {input.sleep_s: 1}\n"
    )
    path = job(extra=text)
    assert keys(path) == ["a+0", "a+1", "a+2", "b+0", "extra", "1"]
    # What an added member does not vary is what the job says.
    assert cells(sweep(path))[4] == {"numbers": None, "sleep_s": None, "part.method": "cube"}
    assert "exclude[0]: the matrix has no 'input.sleep'; did you mean" in message(path, "exclude=[{input.sleep: 1}]")
    assert "--set exclude=[{input.sleep_s: 7}], exclude[0]: input.sleep_s has no value '7'" in message(
        path, "exclude=[{input.sleep_s: 7}]"
    )
    twice = "exclude=[{input.sleep_s: 1, input.numbers: a}, {input.sleep_s: [1]}]"
    assert keys(path, twice) == ["a+0", "a+2", "b+0", "b+2", "extra", "1"]
    assert "no member is left" in message(path, "include=[]", "exclude=[{input.sleep_s: [0, 1, 2]}]")


def test_members_that_ask_for_the_same_share_a_lane(job: Write) -> None:
    found = sweep(
        job(extra="matrix:\n  input.sleep_s: [1, 1.0, 2]\n  input.part: {p: {method: cube}, q: {method: cube}}\n")
    )
    assert [[member.key for member in lane.members] for lane in found.lanes] == [
        ["1+p", "1+q", "1.0+p", "1.0+q"],
        ["2+p", "2+q"],
    ]
    assert found.count == 6


def test_equal_names_are_numbered_and_long_ones_cut(job: Write) -> None:
    path = job(extra=f"matrix:\n  input.flag: ['a/b', 'a b', 'a-b', '{'x' * 300}', '{'x' * 299}y']\n")
    found = keys(path)
    assert found[:3] == ["a-b", "a-b-2", "a-b-3"]
    assert len(set(found)) == 5
    assert max(map(len, found)) <= 110


def test_negative_numbers_keep_their_sign_in_names(job: Write) -> None:
    path = job(extra="matrix:\n  input.numbers: [[-1], [0], [1], [-1, 1]]\n  input.flag: [-0.5x, 0.5x]\n")
    assert keys(path)[::2] == ["minus1+0.5x", "0+0.5x", "1+0.5x", "minus1-1+0.5x"]
    path = job(extra="matrix:\n  input.part.temperature: [1, 2.5]\ninclude: [{input.numbers: [-2]}]\n")
    assert keys(path) == ["1", "2.5", "minus2"]


def test_the_command_line_changes_matrix_and_input(job: Write) -> None:
    path = job(extra="matrix:\n  input.sleep_s: [1, 2]\n")
    assert keys(path, "matrix.input.sleep_s=[3]") == ["3"]
    assert [r.part.method for _, r in sweep(path, "input.part.method=cube").requests()] == ["cube", "cube"]
    said = message(path, "input.sleep_s=4")
    assert "--set input.sleep_s=4: the matrix varies input.sleep_s" in said
    assert "--set 'matrix.input.sleep_s=[…]'" in said


def test_every_bad_member_is_named_with_place_and_reason(job: Write) -> None:
    text = "matrix:\n  input.numbers: {lucky: [1], unlucky: [1, 13]}\n  input.part.method:\n    - square\n    - cub\n"
    said = message(job(extra=text))
    assert "3 of 4 members cannot run; nothing was started" in said
    assert "line 11, input.part.method: must be 'square' or 'cube', came \"cub\"; did you mean 'cube'?" in said
    assert "    in lucky+cub, unlucky+cub" in said
    assert "13 cannot be squared, it brings bad luck (take 12)\n    in unlucky+square" in said


def test_members_of_a_table_are_named_with_its_rows_and_equal_problems_told_once(job: Write, bench: Path) -> None:
    table = '\ufeffid,how,seconds\r\n"a, ß",cub,1\r\n\r\nb,square,x\r\n"c\nd",cub,\r\ne,cube,2\r\n'
    (bench / "cases.csv").write_bytes(table.encode())
    columns = "{csv: cases.csv, name: id, columns: {input.part.method: how, input.sleep_s: seconds}}"
    said = message(job(extra=f"matrix:\n  case: {columns}\n"))
    assert "3 of 4 members cannot run" in said
    # The problem is told with the line of the matrix, and each member with its row, of several lines the first.
    assert "line 8, input.part.method: must be 'square' or 'cube'" in said
    assert "\n    in a (cases.csv, line 2), c-d (cases.csv, line 5)\n" in said
    assert 'line 8, input.sleep_s: must be a valid number, came "x"' in said
    assert "\n    in b (cases.csv, line 4)" in said


def test_what_is_told_to_be_wrong_is_where_the_value_stands(job: Write) -> None:
    # Of what the file and the matrix give together, both; of what only the matrix gives, its line.
    both = job(extra="  part: {method: cube}\nmatrix:\n  input.part.temperature: [1]\n  input.part.methd: [2]\n")
    assert "line 10, input.part.methd: unknown key" in message(both)
    beside = message(job(extra="matrix:\n  input.pat.method: [cube]\n"))
    assert "line 8, input.pat: unknown key; did you mean 'part'?" in beside
    given = message(job(), "input.pat.method=cube")
    assert "--set input.pat.method=cube, input.pat: unknown key" in given


@pytest.mark.parametrize(
    ("table", "expected", "hint"),
    [
        ("a;b\n1;2\n", "t.csv has no column 'a'", "separate the columns with commas"),
        ('a,b\n1,2\n"3,4\n5,6\n', "t.csv, lines 3 to 4: 1 cell, and the header has 2", "never closed?"),
        ('a,b\n"1\n2",3\n4\n', "t.csv, line 4: 1 cell, and the header has 2", "in double quotes"),
        ("", "t.csv has no column 'a'", "it has no columns"),
    ],
)
def test_a_table_that_is_at_fault_is_told_with_what_to_do(
    job: Write, bench: Path, table: str, expected: str, hint: str
) -> None:
    (bench / "t.csv").write_text(table)
    said = message(job(extra="matrix:\n  input.sleep_s: {csv: t.csv, column: a}\n"))
    assert expected in said
    assert hint in said


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("matrix:\n  part.method: [cube]\n", "write input.part.method"),
        ("matrix:\n  cluster.name: [a]\n", "only the input varies"),
        ("matrix:\n  input.sleep_s: 3\n", "matrix.input.sleep_s: expected a list of values, came the single value '3'"),
        ("matrix:\n  input.sleep_s: []\n", "came an empty list"),
        ("matrix:\n  both: [1, 2]\n", "expected a mapping of places of the input to values, came '1'"),
        ("matrix:\n  both: [{sleep_s: 1}]\n", "'sleep_s' is no place of the input"),
        ('matrix:\n  input.table: {files: "*.xyz"}\n', "no file matches '*.xyz'"),
        ("matrix:\n  input.table: {files: 3}\n", "files must be a pattern"),
        ("matrix:\n  input.table: {csv: none.csv, column: a}\n", "none.csv cannot be read: No such file"),
        ("matrix:\n  input.sleep_s: {csv: t.csv, column: secnds}\n", "no column 'secnds'; did you mean 'seconds'?"),
        ("matrix:\n  input.sleep_s: {csv: t.csv}\n", "which column?"),
        ("matrix:\n  input.sleep_s: {csv: bad.csv, column: a}\n", "bad.csv, line 2: 3 cells, and the header has 2"),
        ("matrix:\n  input.sleep_s: {csv: t.csv, colum: a}\n", "unknown key 'colum'; did you mean 'column'"),
        (
            "matrix:\n  input.sleep_s: [1]\n  x: [{input.sleep_s: 2}]\n",
            "input.sleep_s is varied by 'input.sleep_s' as well",
        ),
        ("matrix: {input.sleep_s: [1, 2]}\ninclude: [{name: [1], input.sleep_s: 2}]\n", "name must be text"),
        ("exclude: [{input.sleep_s: 2}]\n", "exclude: only for a sweep"),
        ("table: {plot: total}\n", "table: only for a sweep"),
        ("matrix: {input.a: [1], input.b.c: [2]}\n", "input.b: unknown key"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused_in_words(job: Write, bench: Path, extra: str, expected: str) -> None:
    (bench / "t.csv").write_text("seconds\n1\n")
    (bench / "bad.csv").write_text("a,b\n1,2,3\n")
    assert expected in message(job(extra=extra))


def test_too_many_members_are_refused_before_they_are_made(job: Write) -> None:
    many = ", ".join(map(str, range(200)))
    path = job(extra=f"matrix:\n  input.sleep_s: [{many}]\n  input.flag: [{many}]\n")
    said = message(path)
    assert "40,000 members (200 × 200); one run has at most 10,000" in said
    assert "--shard 1/N" in said
    assert "3 shards 30,000" in message(path, shard=Shard(1, 3))


def test_shards_part_the_members_among_them(job: Write) -> None:
    path = job(extra="matrix:\n  input.sleep_s: [0, 1, 2, 3, 4, 5, 6]\n")
    parts = [keys(path, shard=Shard(index, 3)) for index in (1, 2, 3)]
    assert parts == [["0", "3", "6"], ["1", "4"], ["2", "5"]]
    assert sweep(path, shard=Shard(2, 3)).total == 7
    assert "shard 8/9 is empty, the sweep has 7 members" in message(path, shard=Shard(8, 9))
    assert "the job is no sweep" in message(job(), shard=Shard(1, 2))
    for text in ("0/3", "4/3", "1", "a/b", "1/0"):
        with pytest.raises(BadInput, match="expected I/N"):
            Shard.parse(text)


def test_a_parquet_table_is_refused_at_once_where_it_cannot_be_written(
    job: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyarrow" else real(name, *rest)
    )
    with pytest.raises(MissingExtra, match="pyarrow is not installed"):
        load_job(job(extra="matrix: {input.sleep_s: [1]}\ntable: {parquet: true}\n"))


VALUES = st.lists(
    st.one_of(
        st.text(
            st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="'\\"), min_size=1, max_size=12
        ),
        st.integers(-5, 5),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flags=VALUES, seconds=st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_keys_are_plain_different_and_the_same_each_time(job: Write, flags: list, seconds: list[int]) -> None:
    import json
    import re

    texts = json.dumps([str(flag) for flag in flags])
    path = job(extra=f"matrix:\n  input.flag: {texts}\n  input.sleep_s: {json.dumps(seconds)}\n")
    found = keys(path)
    assert len(found) == len(set(found)) == len(flags) * len(seconds)
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]+", key) for key in found)
    assert sorted(found) == sorted(keys(path))
