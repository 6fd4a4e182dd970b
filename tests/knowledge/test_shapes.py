import numpy
import pytest
from knowledge_models import NAMESPACE, Named, Phase, SpecialThing, Thing

from grafico.calculations import ArtifactRef
from grafico.knowledge import Execution, Run, RunKnowledge, grafico_agent, validate


def everything():
    thing = SpecialThing(
        text="x",
        maybe=1.0,
        phase=Phase.GAS,
        numbers=[1.0, 1.0],
        words=("a",),
        spectrum=numpy.zeros(3),
        file=ArtifactRef(digest="0" * 64, size=1),
        settings={"a": [1]},
        link="urn:x:y",
        tags=frozenset({"t"}),
        others=[Thing(text="y")],
    )
    run = Run(name="first", agents=frozenset({grafico_agent()}))
    return [thing, run, Execution(run=run, key="k"), Named(name="n", parts=[Named(name="m")])]


def test_what_the_mapper_writes_satisfies_the_shapes(run, knowledge):
    run.persist_now(everything())
    found = validate(knowledge)
    assert found.violations == ()
    assert (found.runs, found.unknown) == (1, ())
    assert found.entities == 7


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f'<{NAMESPACE}text> "y"', f'<{NAMESPACE}other2> "y"', "text: a value is missing"),
        (
            f'<{NAMESPACE}count> "0"^^<http://www.w3.org/2001/XMLSchema#integer>',
            f'<{NAMESPACE}count> "many"',
            "datatype",
        ),
        (f'<{NAMESPACE}name> "m"', f"<{NAMESPACE}name> <urn:x>", "datatype"),
        (
            f" <{NAMESPACE}phase> <",
            f' <{NAMESPACE}phase> "gas" <https://w3id.org/grafico/run/first> .\n<urn:a:b> <urn:c:d> <',
            "another kind",
        ),
    ],
)
def test_what_is_not_as_its_class_says_is_reported(run, knowledge, old, new, message):
    run.persist_now(everything())
    text = run.path.read_text()
    assert old in text
    run.path.write_text(text.replace(old, new))
    knowledge.rebuild()
    assert any(message in violation.message for violation in validate(knowledge).violations)


def test_two_values_where_one_belongs_are_reported(run, knowledge):
    run.persist_now([Named(name="n")])
    iri = Named(name="n").iri
    extra = f'<{iri}> <{NAMESPACE}name> "another" <{run.graph}> .\n'
    run.path.write_text(run.path.read_text() + extra)
    knowledge.load_run(run.path)
    (violation,) = validate(knowledge).violations
    assert violation.entity == iri
    assert "more than one value" in violation.message


def test_runs_are_checked_one_by_one(knowledge, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        RunKnowledge(tmp_path / name, run_id=name, store=knowledge).persist_now([Named(name="x", remark=name)])
    found = validate(knowledge)
    assert (found.runs, found.violations) == (2, ())
