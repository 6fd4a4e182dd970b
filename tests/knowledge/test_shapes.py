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


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("choice", '"c"', "none of those"),
        ("phase", "<https://example.org/test#Phase.SOLID>", "none of those"),
        ("mixed", '"1.5"^^<http://www.w3.org/2001/XMLSchema#double>', "none of the types"),
        ("words.order", '"a"', "another kind"),
    ],
)
def test_choices_and_unions_are_checked(run, knowledge, field, value, message):
    run.persist_now(everything())
    predicate = f" <{NAMESPACE}{field}> "
    lines = run.path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if predicate in line and f"<{run.graph}>" in line)
    lines[at] = f"{lines[at].split(predicate)[0]}{predicate}{value} <{run.graph}> ."
    run.path.write_text("\n".join(lines) + "\n")
    knowledge.load_run(run.path)
    found = validate(knowledge).violations
    assert any(message in v.message and v.property == f"{NAMESPACE}{field}" for v in found), found


def test_bounds_are_checked(registry, run, knowledge):
    from pydantic import Field

    from grafico.knowledge import Entity

    class Bounded(Entity):
        namespace = "https://example.org/bounded#"
        natural_key = ("name",)
        name: str = Field(min_length=2, max_length=4)
        share: float = Field(ge=0, le=1)
        several: list[float] = Field(default=[], max_length=2)

    run.persist_now([Bounded(name="ok", share=0.0, several=[0.0, 5.0])])
    assert validate(knowledge).violations == ()
    run.persist_now([Bounded.model_construct(iri="urn:b:1", name="much too long", share=1.5, several=[])])
    messages = {v.message for v in validate(knowledge).violations}
    assert any("above its limit (1.5)" in message for message in messages)
    assert any("too long" in message for message in messages)


def test_what_a_run_only_refers_to_may_be_described_by_another(knowledge, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    RunKnowledge(tmp_path / "one", run_id="one", store=knowledge).persist_now([Named(name="part")])
    part = type(knowledge)(knowledge.folder).fetch(Named(name="part").iri)
    refers = Named(name="whole", parts=[part])
    unread = type(knowledge)(knowledge.folder)
    RunKnowledge(tmp_path / "one", run_id="one", store=knowledge).persist_now([refers])
    whole = unread.fetch(refers.iri, 0)
    second = RunKnowledge(tmp_path / "two", run_id="two", store=knowledge)
    second.persist_now([whole])
    assert Named(name="part").iri not in {line.split(" ")[0][1:-1] for line in second.path.read_text().splitlines()}
    assert validate(knowledge).violations == ()
