"""Classes that are made at run time, for tests of what could be lost without a word."""

from typing import ClassVar

from pydantic import create_model

from grafico.knowledge import Entity, KnowledgeBase

SPACE = "https://example.org/silence#"


class Quiet(Entity):
    """Base of the classes here."""

    namespace: ClassVar[str] = SPACE


def another(knowledge):
    return KnowledgeBase(knowledge.folder)


def made_of(hint, value, **more):
    return create_model("Made", __base__=Quiet, x=(hint, ...), **more)(x=value)
