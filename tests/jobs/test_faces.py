"""What faces are given: tables of results, counts of lanes, a request's fields."""

from types import SimpleNamespace
from typing import Any

import pytest

from grafico.calculations import Failure, FailureKind
from grafico.cli.progress import clock, line_of
from grafico.graphs import (
    CalculationEnded,
    CalculationStarted,
    LaneEnded,
    LanesOpened,
    LaneStarted,
    NodeEntered,
    Position,
)
from grafico.jobs.outline import input_lines
from grafico.jobs.tables import Table, tables_of
from grafico.jobs.watching import Tally
from grafico.units import spell_seconds

FAILURE = Failure(kind=FailureKind.TIMEOUT, message="too slow")


@pytest.mark.parametrize(
    "tables",
    [
        lambda: [{"title": "t", "columns": ["a", "b"], "rows": [[1, 2.5], [None, "x"]]}],
        [SimpleNamespace(title="t", columns=("a", "b"), rows=((1, 2.5), (None, "x")))],
        [Table(title="t", columns=("a", "b"), rows=((1, 2.5), (None, "x")))],
    ],
)
def test_tables_are_taken_from_a_method_or_an_attribute(tables: Any) -> None:
    assert tables_of(SimpleNamespace(tables=tables)) == [
        Table(title="t", columns=("a", "b"), rows=((1, 2.5), (None, "x")))
    ]


def test_a_result_without_tables_has_none() -> None:
    assert tables_of(3) == []
    assert tables_of(SimpleNamespace(tables=None)) == []


def lane(key: str, parent: str = "") -> Position:
    return Position(f"{parent}/0.0:{key}" if parent else f"0.0:{key}", 0, 0)


def walk(tally: Tally, position: Position, key: str, *, replayed: bool, failure: Failure | None = None) -> bool:
    """Let a lane with one calculation pass; return whether its end was news."""
    tally.take(LaneStarted(position, False, key))
    tally.take(NodeEntered(position, replayed, "Node"))
    if not replayed:
        tally.take(CalculationStarted(position, False, "square", "square", "k", 1))
    tally.take(CalculationEnded(position, replayed, "square", "square", "k", failure, replayed))
    return tally.take(LaneEnded(position, False, key, failure, 1, 2))


def test_lanes_and_calculations_are_counted_by_state() -> None:
    tally = Tally()
    tally.take(NodeEntered(Position("", 0, 0), False, "Spread"))
    tally.take(LanesOpened(Position("", 0, 1), False, "Spread", "lane", "lanes", ("a", "b", "c")))
    assert walk(tally, lane("a"), "a", replayed=False)
    assert walk(tally, lane("b"), "b", replayed=False, failure=FAILURE)
    tally.take(LaneStarted(lane("c"), False, "c"))
    assert tally.node == "Spread"
    assert tally.open_lanes == {"waiting": 0, "running": 1, "done": 1, "failed": 1}
    assert (tally.calculations["done"], tally.calculations["failed"]) == (1, 1)
    assert tally.left_s() is not None


def test_what_the_journal_answers_is_no_news() -> None:
    tally = Tally()
    tally.take(LanesOpened(Position("", 0, 1), True, "Spread", "lane", "lanes", ("a", "b")))
    assert not walk(tally, lane("a"), "a", replayed=True)
    assert walk(tally, lane("b"), "b", replayed=False)
    assert tally.calculations["reused"] == 1
    assert tally.fresh_lanes == 1


def test_a_lane_is_news_when_something_below_it_is() -> None:
    tally = Tally()
    outer = lane("gas")
    tally.take(LaneStarted(outer, False, "gas"))
    tally.take(NodeEntered(outer, True, "Refine"))
    assert walk(tally, lane("c1", outer.lane), "c1", replayed=False)
    assert tally.take(LaneEnded(outer, False, "gas", None, 1, 1))


def test_lines_name_lanes_by_their_members() -> None:
    position = lane("c1", lane("gas").lane)
    assert (
        line_of(LaneEnded(position, False, "c1", FAILURE, 1, 4), Tally())
        == "lane gas/c1 failed: timeout: too slow (1 of 4)"
    )
    assert line_of(NodeEntered(position, False, "TDDFT"), Tally()) is None
    assert line_of(NodeEntered(Position("", 0, 0), False, "Report"), Tally()) == "node Report"


def test_durations() -> None:
    assert [clock(s) for s in (0, 65, 3600)] == ["00:00", "01:05", "1:00:00"]
    assert [spell_seconds(s) for s in (0, 59, 60, 460, 3600, 46_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "7 min 40 s",
        "1 h",
        "12 h 46 min",
    ]


def test_the_fields_of_a_request_are_listed_with_their_models_opened() -> None:
    from pydantic import BaseModel, Field

    class Inner(BaseModel):
        depth: int | None = Field(default=None, description="how deep")

    class Outer(BaseModel):
        inner: Inner = Inner()
        many: tuple[Inner, ...] = ()
        word: str

    rows = {name: (kind, default, about) for name, kind, default, about in input_lines(Outer.model_json_schema())}
    assert rows["inner.depth"] == ("integer", "", "how deep")
    assert rows["many[].depth"] == ("integer", "", "how deep")
    assert rows["word"] == ("string", "required", "")
