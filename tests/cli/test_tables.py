"""Tables and lines on terminals of any width, and where there is none."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from grafico.cli.tables import print_lines, show_table

WORDS = st.lists(st.text("abcdefghij–é名", min_size=1, max_size=12), min_size=1, max_size=8).map(" ".join)
CELLS = st.one_of(WORDS, st.none(), st.integers(-999, 999), st.floats(allow_nan=False, width=16), st.booleans())


def console(width: int | None) -> Console:
    """A terminal of a width, or a file."""
    return Console(
        file=io.StringIO(), width=width or 1000, force_terminal=width is not None, color_system=None, highlight=False
    )


def shown(to: Console) -> list[str]:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue().splitlines()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=6), st.integers(30, 120))
def test_a_table_fits_the_terminal_and_breaks_no_word(rows: list[tuple[Any, ...]], width: int) -> None:
    terminal, file = console(width), console(None)
    show_table(terminal, "", ("one", "two", "three", "four"), rows)
    show_table(file, "", ("one", "two", "three", "four"), rows)
    narrow, whole = shown(terminal), shown(file)
    words = {word for line in whole for word in line.replace("─", " ").split()} - {"–"}
    found = {word for line in narrow for word in line.replace("─", " ").split()}
    told = len(whole) > 2 and not any(line.startswith("─") for line in narrow)  # row by row
    assert words - found <= ({"one", "two", "three", "four"} if told or not rows else set())
    longest = max(map(cell_len, words), default=0)
    assert all(cell_len(line) <= max(width, longest + 16, cell_len(narrow[0])) for line in narrow)


def test_a_table_that_fits_is_a_grid_with_numbers_to_the_right() -> None:
    to = console(80)
    show_table(to, "title", ("name", "E / eV", ""), [("a", "-1.5", "x"), ("long name", "12.25", None)])
    assert shown(to) == [
        "title",
        "name        E / eV",
        "──────────────────────",
        "a             -1.5   x",
        "long name    12.25   –",
        "",
    ]


def test_a_table_whose_words_do_not_fit_is_told_row_by_row() -> None:
    to = console(40)
    name = "excited_states.equilibrium_solvation"
    show_table(to, "", ("key", "type", "default", ""), [(name, "boolean", "false", "let the solvent follow along")])
    assert shown(to) == [name, "    type: boolean · default: false", "    let the solvent follow along", ""]


def test_columns_that_can_be_spared_go_first() -> None:
    to = console(40)
    rows = [("water-20261130-130753-0f6601", "finished", "quantum-chemistry")]
    show_table(to, "", ("run", "status", "graph"), rows, expendable=("graph",))
    assert shown(to)[2] == "water-20261130-130753-0f6601   finished"


@pytest.mark.parametrize("width", [40, None])
def test_control_characters_do_not_reach_the_terminal(width: int | None) -> None:
    to = console(width)
    show_table(to, "a\x1b[2Jb", ("x\x07",), [("\x1b[31mred\r",)])
    print_lines(to, ["  \x1b]0;title\x07 line"])
    assert not set("\x1b\x07\r") & set("".join(shown(to)))


def test_long_lines_go_on_under_their_indentation() -> None:
    to = console(30)
    print_lines(to, ["  guard 'a' forbids B: because the job asks for more"])
    assert shown(to) == ["  guard 'a' forbids B:", "      because the job asks for", "      more"]
