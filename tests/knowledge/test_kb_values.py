"""Values as `grafico kb` shows them: what a chemist reads must be what was computed."""

import json

import numpy
import pytest
from knowledge_models import NAMESPACE, Thing
from typer.testing import CliRunner

from grafico.cli.main import app


@pytest.fixture
def kb(knowledge):
    knowledge.persist(
        Thing(
            iri="urn:x:t",
            text="t",
            energy=-113.549193312345,
            numbers=[3.25, -1.5, 20.0, 3.25],
            point=(0.5, -0.25, 0.125),
            spectrum=numpy.array([1.0, -2.5]),
            arrays=[numpy.zeros((3, 4))],
            words=("only",),
        )
    )
    return lambda *arguments: CliRunner().invoke(app, ["kb", *arguments, "--store", str(knowledge.folder)])


def shown(kb, *arguments):
    done = kb(*arguments)
    assert done.exit_code == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name.rpartition("#")[2], []).append(value.strip())
    return found


def test_an_energy_keeps_the_digits_that_matter(kb):
    query = f"SELECT ?e {{ ?x <{NAMESPACE}energy> ?e }}"
    assert "-113.5491933" in kb("query", query).stdout
    assert shown(kb, "show", "urn:x:t")["energy"] == ["-113.5491933"]
    (row,) = json.loads(kb("query", query, "--json").stdout)["results"]["bindings"]
    assert float(row["e"]["value"]) == -113.549193312345


def test_lists_are_shown_in_their_order_with_what_stands_in_them_twice(kb):
    found = shown(kb, "show", "urn:x:t")
    assert found["numbers"] == ["3.25", "-1.5", "20", "3.25"]
    assert found["point"] == ["0.5", "-0.25", "0.125"]
    assert found["words"] == ["only"]
    assert not any(name.endswith(".order") and value != ["rdf:nil"] for name, value in found.items())


def test_arrays_are_shown_as_arrays(kb):
    found = shown(kb, "show", "urn:x:t")
    assert found["spectrum"] == ["[1, -2.5]"]
    assert found["arrays"] == ["float64 array, 3 × 4"]


def test_a_query_in_a_file_may_begin_as_some_editors_begin_files(kb, tmp_path):
    (tmp_path / "q.rq").write_text("ASK { ?s ?p ?o }", encoding="utf-8-sig")
    assert kb("query", "--file", str(tmp_path / "q.rq")).stdout == "yes\n"
