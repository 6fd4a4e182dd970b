"""Typed routes: for each successor a model, for each node their discriminated union, and its JSON Schema."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from grafico.calculations import Json, Model
from grafico.graphs.node import AnyNode, describe, required_parameters
from grafico.graphs.protocols import RouteOption

__all__ = [
    "Route",
    "envelope_schema",
    "problems",
    "read_envelope",
    "read_route",
    "route_model",
    "route_option",
    "route_schema",
]


class Route(Model):
    """A validated route; the models that :func:`route_model` makes narrow its first two fields."""

    successor: str
    parameters: Any
    reasoning: str = Field(default="", description="why this successor, in a sentence")
    confidence: float = Field(default=1.0, ge=0.0, le=1.0, description="between 0 and 1")


@cache
def route_model(cls: type[AnyNode]) -> type[Route]:
    """Return the model of a route to ``cls``: its id as a literal, and its parameters (the node itself)."""
    parameters: Any = (cls, ...) if required_parameters(cls) else (cls, Field(default_factory=cls))
    fields: dict[str, Any] = {"successor": (Literal[cls.node_id], ...), "parameters": parameters}
    return create_model(f"RouteTo{cls.__name__}", __base__=Route, __doc__=describe(cls) or None, **fields)


@cache
def _adapter(successors: tuple[type[AnyNode], ...]) -> TypeAdapter[Route]:
    models = [route_model(cls) for cls in successors]
    if len(models) == 1:
        return TypeAdapter(models[0])
    union: Any = Annotated[Union[tuple(models)], Field(discriminator="successor")]  # noqa: UP007
    return TypeAdapter(union)


@cache
def route_schema(successors: tuple[type[AnyNode], ...]) -> Mapping[str, Json]:
    """Return the JSON Schema of a route to one of ``successors``."""
    return _adapter(successors).json_schema()


@cache
def route_option(cls: type[AnyNode]) -> RouteOption:
    """Return a successor as a router sees it."""
    return RouteOption(successor=cls.node_id, description=describe(cls), parameters=cls.model_json_schema())


def read_route(successors: Sequence[type[AnyNode]], answer: Any) -> Route:
    """Validate a router's answer.

    Raises
    ------
    ValidationError
        It names no admissible successor, or its parameters are missing, unknown or out of range.
    """
    return _adapter(tuple(successors)).validate_python(answer)


@cache
def _envelope(output: type[BaseModel], successors: tuple[type[AnyNode], ...]) -> type[Model]:
    models = [route_model(cls) for cls in successors]
    route: Any = models[0]
    if len(models) > 1:
        route = Annotated[Union[tuple(models)], Field(discriminator="successor")]  # noqa: UP007
    made = create_model(f"{output.__name__}AndRoute", __base__=Model, output=(output, ...), route=(route, ...))
    return cast(type[Model], made)


@cache
def envelope_schema(output: type[BaseModel], successors: tuple[type[AnyNode], ...]) -> Mapping[str, Json]:
    """Return the JSON Schema of a task output and a route in one object: ``{"output": …, "route": …}``."""
    return _envelope(output, successors).model_json_schema()


def read_envelope(output: type[BaseModel], successors: Sequence[type[AnyNode]], answer: Any) -> tuple[Any, Route]:
    """Validate an answer that holds a task output and a route.

    Raises
    ------
    ValidationError
        Either part does not satisfy its schema.
    """
    envelope: Any = _envelope(output, tuple(successors)).model_validate(answer)
    return envelope.output, envelope.route


def problems(error: ValidationError) -> tuple[str, ...]:
    """Return what is wrong with an answer, one line each, without echoing the answer at length."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in item["loc"]) or "answer"
        lines.append(f"{place}: {item['msg']} (got {str(item['input'])[:80]})")
    return tuple(lines)
