"""Sweeps that are odd: names in any script, columns that would meet, files and tables that are none."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafico.errors import BadInput
from grafico.jobs.load import load_job
from grafico.jobs.sweeps import Sweep
from grafico.jobs.sweeps.plot import draw
from grafico.jobs.sweeps.table import LaneEnd, SweepTable

Write = Callable[..., Path]

NAMED = """\
matrix:
  level:
    my own: {input.sleep_s: 1}
    água: {input.sleep_s: 2}
    水: {input.sleep_s: 3}
    '1': {input.sleep_s: 4}
"""


def sweep(path: Path, *overrides: str) -> Sweep:
    found = load_job(path, overrides).sweep
    assert found is not None
    return found


def members(path: Path, *overrides: str) -> dict[str, dict[str, Any]]:
    found = sweep(path, *overrides)
    return {member.key: found.cells(member) for lane in found.lanes for member in lane.members}


def message(path: Path, *overrides: str) -> str:
    with pytest.raises(BadInput) as caught:
        load_job(path, overrides)
    return f"{caught.value.message} | {caught.value.hint}"


def test_names_may_be_of_any_script_and_stand_in_the_table_as_they_are_written(job: Write) -> None:
    found = members(job(extra=NAMED))
    assert list(found) == ["my-own", "agua", "x", "1"]
    assert [row["level"] for row in found.values()] == ["my own", "água", "水", "1"]


@pytest.mark.parametrize(
    ("extra", "left"),
    [
        (NAMED + "exclude: [{level: my own}, {level: água}]\n", ["x", "1"]),
        # A name goes before a value: what is called 1 waits 4 s.
        (NAMED + "exclude: [{level: 1}]\n", ["my-own", "agua", "x"]),
        (NAMED + "exclude: [{input.sleep_s: 1}]\n", ["agua", "x", "1"]),
        # A value goes before what another one's key looks like.
        ("matrix: {input.flag: [C=O, C-O]}\nexclude: [{input.flag: C-O}]\n", ["C-O"]),
        ("matrix: {input.flag: [C=O, C#N]}\nexclude: [{input.flag: C-N}]\n", ["C-O"]),
        # A list may be a value, or several.
        ("matrix: {input.numbers: [[1], [2, 3], [4]]}\nexclude: [{input.numbers: [2, 3]}]\n", ["1", "4"]),
        ("matrix: {input.numbers: [[1], [2, 3], [4]]}\nexclude: [{input.numbers: [[1], [4]]}]\n", ["2-3"]),
    ],
)
def test_what_is_left_out_is_meant_by_name_then_value_then_key(job: Write, extra: str, left: list[str]) -> None:
    path = job(extra=extra)
    found = members(path)
    assert list(found) == left
    if "C-O]" in extra:
        assert found["C-O"]["flag"] == "C=O"


def test_columns_of_the_matrix_never_meet_those_of_the_table(job: Write) -> None:
    path = job(
        extra="matrix:\n  member: {a: {input.sleep_s: 1}, b: {input.sleep_s: 2}}\n  status: {p: {input.flag: x}}\n"
    )
    found = sweep(path)
    assert found.columns == ("matrix.member", "sleep_s", "matrix.status", "flag")
    table = SweepTable(found.columns)
    for lane in found.lanes:
        table.add(lane.key, found.cells(lane.members[0]), LaneEnd("success", {"total": 3}))
    assert len(set(table.columns)) == len(table.columns)
    assert [row["member"] for row in table.rows] == ["a+p", "b+p"]
    assert "two columns of this name, since input.sleep_s varies as well" in message(
        job(extra="matrix: {sleep_s: {a: {input.flag: x}}, input.sleep_s: [1]}\n")
    )
    assert "two columns of this name" in message(
        job(extra="matrix: {sleep_s: {a: {input.flag: x}}}\ninclude: [{input.sleep_s: 1}]\n")
    )


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("matrix: {'input.numbers[7]': [4, 5]}\n", "2 of 2 members cannot run"),
        ("matrix: {'input.numbers[7]': [4, 5]}\n", "line 7: input.numbers is a list of 3"),
        ("matrix: {'input.numbers[0].x': [4]}\n", "input.numbers[0] is 1, not a mapping"),
        ("include: [{'input.numbers[9]': 4, name: far}]\n", "    in far"),
        ("matrix: {input.sleep_s: }\n", "expected a list of values, came nothing (null)"),
        ("include: [{input.sleep_s: 1}]\nexclude: [{input.sleep_s: 1}]\n", "there is no matrix"),
        ("matrix: {input.sleep_s: [1, 2]}\nexclude: [{input.sleep_s: [1, 5]}]\n", "has no value '5' in the matrix"),
        (
            "matrix: {input.part.temperature: ['inf', 300]}\n",
            "input.part.temperature: must be a finite number, came inf",
        ),
        ("matrix: {level: {csv: t.csv, columns: {input.sleep_s: n}, name: 3}}\n", "name must be a column of the table"),
        ("matrix: {input.sleep_s: {csv: pipe.csv, column: n}}\n", "pipe.csv is no regular file"),
        ("matrix: {input.sleep_s: {csv: /dev/zero, column: n}}\n", "/dev/zero is no regular file"),
        ('matrix: {input.sleep_s: {csv: "a\\0b", column: n}}\n', "is no regular file"),
        ("matrix: {input.sleep_s: {csv: '~no-such-user/t.csv', column: n}}\n", "cannot be read: No such file"),
        ("matrix: {input.table: {files: '~no-such-user/*.csv'}}\n", "no file matches '~no-such-user/*.csv'"),
        ("matrix: {input.table: {files: 'odd/*'}}\n", "is not UTF-8 text"),
        (f"matrix: {{input.table: [{'a' * 400}]}}\n", "cannot be read: File name too long"),
        ("matrix: {input.table: ['~no-such-user/t.csv']}\n", "there is no file"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(job: Write, bench: Path, extra: str, expected: str) -> None:
    (bench / "t.csv").write_text("n\n1\n")
    os.mkfifo(bench / "pipe.csv")
    (bench / "odd").mkdir()
    (Path(os.fsdecode(os.fsencode(bench) + b"/odd/\xff.txt"))).write_text("")
    assert expected in message(job(extra=extra))


def test_a_number_that_is_not_finite_is_refused_in_a_plain_job_too(job: Write) -> None:
    assert "line 7, input.part.temperature: must be a finite number" in message(
        job(extra="  part: {temperature: 'inf'}\n")
    )


def test_the_command_line_changes_a_member_that_is_added(job: Write) -> None:
    path = job(extra="include: [{name: slow, input.sleep_s: 1}]\n")
    assert members(path, "include[0].input.sleep_s=7") == {"slow": {"sleep_s": 7}}


def test_folders_below_are_each_looked_into_once_whatever_links_there_are(job: Write, bench: Path) -> None:
    (bench / "deep" / "er").mkdir(parents=True)
    (bench / "elsewhere").mkdir()
    for name in ("deep/a.txt", "deep/er/b.txt", "elsewhere/c.txt", "deep/er/.hidden.txt"):
        (bench / name).write_text("")
    (bench / "deep/one").symlink_to(".")
    (bench / "deep/two").symlink_to("..")
    (bench / "deep/er/three").symlink_to("../../elsewhere")
    (bench / "deep/self.txt").symlink_to("self.txt")
    found = members(job(extra="matrix: {input.table: {files: ['deep/**/*.txt']}}\n"))
    names = [row["table"] for row in found.values()]
    assert names[0] == "deep/a.txt"
    assert sorted(Path(name).name for name in names) == ["a.txt", "b.txt", "c.txt"]
    absolute = members(job(extra=f"matrix: {{input.table: {{files: '{bench}/deep/**'}}}}\n"))
    assert f"{bench}/deep/er/b.txt" in [row["table"] for row in absolute.values()]


def test_a_picture_is_drawn_of_names_that_look_like_formulas() -> None:
    table = SweepTable(("flag", "n"))
    for number, flag in enumerate(("$^$", "_a", "$^$", "_a")):
        table.add(f"m{number}", {"flag": flag, "n": number // 2}, LaneEnd("success", {"$E$": float(number)}))
    for wanted in ("auto", "$E$"):
        assert isinstance(draw(table, wanted, "title"), bytes)


def test_a_parquet_table_takes_numbers_and_texts_of_any_kind() -> None:
    pytest.importorskip("pyarrow")
    import io

    from pyarrow import parquet

    table = SweepTable(("n",))
    for value in (2**70, 1, None, True):
        table.add("m", {"n": value}, LaneEnd("success", {"name": "a\udcff", "mixed": 1 if value else "x", "n2": value}))
    read = parquet.read_table(io.BytesIO(table.as_parquet())).to_pydict()
    assert read["n"] == [str(2**70), "1", None, "True"]
    assert read["name"] == ["a?"] * 4
