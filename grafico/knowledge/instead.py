"""Annotations that have no form in the graph: what to write instead; and which mappings are JSON."""

import collections
import collections.abc
import dataclasses
import datetime
import enum
import types
from fractions import Fraction
from pathlib import PurePath
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, JsonValue, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.networks import AnyUrl
from typing_extensions import TypeAliasType, is_typeddict

__all__ = ["FORMS", "instead_of", "is_json", "undefined_in"]

FORMS = (
    "use str, bool, int, float, Decimal, datetime, date, bytes, an Enum, an Entity, Array, ArtifactRef, a mapping of JSON "
    "values, or a list or set of these"
)
_MAPPINGS = (dict, collections.abc.Mapping)

_INSTEAD: tuple[tuple[tuple[type, ...], str], ...] = (
    ((complex,), "use Array, which keeps complex numbers, or two fields of type float"),
    ((datetime.timedelta,), 'use Annotated[float, Unit("s")]'),
    ((datetime.time,), "use datetime, or str"),
    ((UUID,), "use str, or Iri for urn:uuid:…"),
    ((PurePath,), "use str, or ArtifactRef for a file that the run keeps"),
    ((AnyUrl,), "use Iri"),
    ((Fraction,), "use two fields of type int, or Decimal"),
    ((collections.abc.Mapping, collections.Counter), "use dict[str, ...] of JSON values"),
    ((BaseModel,), "make it an Entity, which has an IRI of its own, or use dict[str, Any] and keep its model_dump()"),
)
_PARTS = "make it an Entity, or use one field for each of its parts"


def instead_of(hint: Any) -> str:
    """Return what to write instead of an annotation that has no form."""
    kind = get_origin(hint) or hint
    if kind is collections.abc.Sequence:
        return "use list[...] or tuple[..., ...]; a Sequence does not say which of them comes back"
    if kind in (collections.abc.Iterable, collections.abc.Collection, collections.deque):
        return "use list[...] or tuple[..., ...]"
    if getattr(kind, "__name__", "") in ("AwareDatetime", "NaiveDatetime", "PastDatetime", "FutureDatetime"):
        return "use datetime, and a validator for what else it is to be"
    if not isinstance(kind, type):
        return FORMS
    for known, told in _INSTEAD:
        if issubclass(kind, known):
            return told
    if dataclasses.is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields"):
        return _PARTS
    return FORMS


def is_json(hint: Any) -> bool:
    """Return whether every value of an annotation comes back alike from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (Any, object, str, int, float, bool, None, type(None), list) or hint is JsonValue or hint in _MAPPINGS:
        return True
    if origin is Annotated:
        return is_json(arguments[0])
    if origin in (Union, types.UnionType, list):
        return all(map(is_json, arguments))
    if origin in _MAPPINGS:
        return _is_name(arguments[0]) and is_json(arguments[1])
    if origin is Literal:
        return all(value is None or type(value) in (str, int, bool) for value in arguments)
    if isinstance(hint, NewType):
        return is_json(hint.__supertype__)
    return isinstance(hint, TypeAliasType) and is_json(hint.__value__)


def _is_name(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return all(isinstance(value, str) and not isinstance(value, enum.Enum) for value in get_args(hint))
    if get_origin(hint) is Annotated:
        return _is_name(get_args(hint)[0])
    return hint in (str, Any) or (isinstance(hint, NewType) and _is_name(hint.__supertype__))


def undefined_in(cls: type[BaseModel]) -> str:
    """Return what the annotations of a class name that is not defined."""
    try:
        cls.model_rebuild(raise_errors=True)
    except PydanticUndefinedAnnotation as error:
        return str(error.name)
    except PydanticUserError as error:
        return error.message
    return "nothing any more"
