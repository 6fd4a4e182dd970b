"""Ten mistakes, each put into what a real run persisted, and each named by the check."""

import shutil

import pytest

import grafico.chemistry.entities  # noqa: F401 - the classes of what the run found
from grafico.knowledge import KnowledgeBase, validate
from grafico.knowledge.vocabulary import XSD

CHEM = "https://w3id.org/grafico/chemistry#"
CORE = "https://w3id.org/grafico/core#"


class Quads:
    """The lines of a run's file, to be spoilt."""

    def __init__(self, text, graph):
        self.lines = text.splitlines()
        self.graph = graph

    def of(self, predicate):
        return next(line for line in self.lines if f"> <{predicate}> " in line and f"<{self.graph}> ." in line)

    def drop(self, predicate):
        self.lines.remove(self.of(predicate))

    def replace(self, predicate, value):
        line = self.of(predicate)
        self.lines[self.lines.index(line)] = self.with_value(line, value)

    def add(self, predicate, value):
        self.lines.append(self.with_value(self.of(predicate), value))

    def with_value(self, line, value):
        subject, predicate = line.split(" ")[:2]
        return f"{subject} {predicate} {value} <{self.graph}> ."

    def value(self, predicate):
        return self.of(predicate).split(" ", 2)[2].rsplit(" ", 2)[0]


MISTAKES = {
    "a required number is missing": (
        lambda q: q.drop(f"{CHEM}energy"),
        f"{CHEM}energy",
        "a value is missing",
    ),
    "two numbers where one belongs": (
        lambda q: q.add(f"{CHEM}energy", f'"-1.5"^^<{XSD}double>'),
        f"{CHEM}energy",
        "more than one value",
    ),
    "a number is text": (
        lambda q: q.replace(f"{CHEM}excitationEnergy", '"seven"'),
        f"{CHEM}excitationEnergy",
        "another datatype",
    ),
    "a number has the wrong kind of number": (
        lambda q: q.replace(f"{CHEM}multiplicity", f'"1.5"^^<{XSD}double>'),
        f"{CHEM}multiplicity",
        "another datatype",
    ),
    "a reference is text": (
        lambda q: q.replace(f"{CHEM}level", '"hf/sto-3g"'),
        f"{CHEM}level",
        "another kind",
    ),
    "a reference leads to a thing of another class": (
        lambda q: q.replace(f"{CHEM}molecule", q.value(f"{CHEM}level")),
        f"{CHEM}molecule",
        "another class",
    ),
    "a reference leads nowhere": (
        lambda q: q.replace(f"{CHEM}conformer", "<https://example.org/nothing>"),
        f"{CHEM}conformer",
        "another class",
    ),
    "an array is no array": (
        lambda q: q.replace(f"{CHEM}positions", '"0 0 0"'),
        f"{CHEM}positions",
        "another datatype",
    ),
    "an array is missing": (
        lambda q: q.drop(f"{CHEM}positions"),
        None,
        "an array is missing",
    ),
    "a list has lost its order": (
        lambda q: q.drop(f"{CHEM}symbols.order"),
        f"{CHEM}symbols.order",
        "a value is missing",
    ),
    "an execution belongs to no run": (
        lambda q: q.drop("http://purl.org/dc/terms/isPartOf"),
        "http://purl.org/dc/terms/isPartOf",
        "a value is missing",
    ),
    "an execution began at no time": (
        lambda q: q.replace("http://www.w3.org/ns/prov#startedAtTime", '"yesterday"'),
        "http://www.w3.org/ns/prov#startedAtTime",
        "another datatype",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_run_is_found_and_named(hydrogen_run, tmp_path, name):
    spoil, predicate, message = MISTAKES[name]
    folder = tmp_path / "run"
    folder.mkdir()
    quads = Quads((hydrogen_run.folder / "knowledge.nq").read_text(), hydrogen_run.iri)
    spoil(quads)
    (folder / "knowledge.nq").write_text("\n".join(quads.lines) + "\n")
    knowledge = KnowledgeBase(tmp_path / "kb")
    knowledge.load_run(folder / "knowledge.nq")
    found = validate(knowledge)
    assert any(message in violation.message and violation.property == predicate for violation in found.violations)
    assert {violation.run for violation in found.violations} == {hydrogen_run.iri}
    shutil.rmtree(folder)


def test_the_run_itself_has_no_mistake(hydrogen_run):
    assert validate(hydrogen_run.knowledge).violations == ()
