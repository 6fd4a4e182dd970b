"""How each field of an entity class is written: read once from its annotation."""

import collections.abc
import enum
import types
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from typing_extensions import TypeAliasType

from grafico.calculations import ArtifactRef
from grafico.errors import KnowledgeError
from grafico.knowledge.arrays import ARRAY_DATATYPE, Array
from grafico.knowledge.entity import Entity, is_open, known_class, lineage
from grafico.knowledge.fields import Property, Unit, _Link
from grafico.knowledge.instead import instead_of, is_json, undefined_in
from grafico.knowledge.vocabulary import GRAFICO, RDF, XSD

__all__ = ["DATATYPES", "FieldPlan", "plan_of"]

Kind = Literal["scalar", "enum", "entity", "iri", "artifact", "array", "json"]
Container = Literal["one", "list", "set"]

DATATYPES: dict[type, str] = {
    str: XSD + "string",
    bool: XSD + "boolean",
    int: XSD + "integer",
    float: XSD + "double",
    datetime: XSD + "dateTime",
    date: XSD + "date",
    Decimal: XSD + "decimal",
    bytes: XSD + "base64Binary",
}
_LISTS = (list, tuple)
_SETS = (set, frozenset, collections.abc.Set)
_MAPPINGS = (dict, collections.abc.Mapping)


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field becomes triples and comes back."""

    name: str
    predicate: str
    kind: Kind
    types: tuple[type, ...]
    """Python types of one value: scalars, the enum, or entity classes."""
    container: Container
    build: Any
    """``list``, ``tuple``, ``set`` or ``frozenset``."""
    optional: bool
    required: bool
    null_default: bool
    """Whether an absent value means None."""
    unit: Unit | None
    description: str
    declared_by: type[Entity]
    limits: tuple[tuple[str, Any], ...] = ()
    """Bounds of a number or of the length of a text: ``("ge", 0)``."""
    choices: tuple[Any, ...] = ()
    """The values that a literal may have, where they are few."""

    @property
    def order(self) -> str:
        """The property that holds the list in order."""
        return self.predicate + ".order"

    @property
    def file(self) -> str:
        """The property that holds arrays which are too large for a literal: files of the run."""
        return self.predicate + ".file"

    @property
    def refers(self) -> bool:
        """Whether values are resources, not literals."""
        return self.kind in ("entity", "iri", "enum", "artifact")

    @property
    def datatype(self) -> str | None:
        """The datatype of a literal, if there is exactly one."""
        if self.kind == "array":
            return ARRAY_DATATYPE
        if self.kind == "json":
            return RDF + "JSON"
        return DATATYPES[self.types[0]] if self.kind == "scalar" and len(self.types) == 1 else None


@dataclass(slots=True)
class _Reading:
    """What has been read from an annotation so far."""

    where: str
    optional: bool = False
    container: Container = "one"
    build: Any = None
    unit: Unit | None = None
    link: bool = False
    predicate: str | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    choices: tuple[Any, ...] = ()


@cache
def plan_of(cls: type[Entity]) -> tuple[FieldPlan, ...]:
    """Return the plans of all fields but ``iri``.

    Raises
    ------
    KnowledgeError
        A field's type has no form in the graph, or two classes use one property differently.
    """
    if cls.model_rebuild(raise_errors=False) is False:
        raise KnowledgeError(
            f"{cls.__qualname__}: an annotation names something that is not defined: {undefined_in(cls)}",
            hint="define or import it (not under TYPE_CHECKING), then call model_rebuild() of the class",
        )
    if is_open(cls):
        raise KnowledgeError(
            f"{cls.__qualname__} is generic, and has no form in the knowledge graph until its types are given",
            hint=f"use {cls.__name__}[...] with types",
        )
    if cls.model_config.get("extra") == "allow":
        raise KnowledgeError(
            f"{cls.__qualname__} allows any field, and what is no field of a class has no property",
            hint="leave extra out of its model_config; a field of type dict[str, Json] holds whatever comes",
        )
    plans = tuple(_plan(cls, name) for name in cls.model_fields if name != "iri")
    _tell_apart(cls, plans)
    for plan in plans:
        _agree(cls, plan)
        _narrow(cls, plan)
        if plan.name in cls.natural_key and (plan.build in (list, set) or plan.kind == "json"):
            raise KnowledgeError(
                f"{cls.__qualname__}.{plan.name} is part of the natural key, and could be changed in place while the IRI "
                "that follows from it could not",
                hint="use a tuple or a frozenset",
            )
    return plans


def _narrow(cls: type[Entity], plan: FieldPlan) -> None:
    """Refuse a field that may be what it may not be in a class above: an entity is one of both."""
    for base in list(lineage(cls))[1:]:
        other = next((other for other in plan_of(base) if other.name == plan.name), plan)
        entities = plan.kind == "entity"
        fits = all(
            kind in other.types or (entities and any(issubclass(kind, above) for above in other.types))
            for kind in plan.types
        )
        absent = plan.optional and other.required and not other.optional
        if (plan.kind, plan.container) != (other.kind, other.container) or not fits or absent:
            raise KnowledgeError(
                f"{cls.__qualname__}.{plan.name} may be what {base.__qualname__}.{plan.name} may not",
                hint=f"give it a type that {base.__qualname__} allows, or another name",
            )


_RESERVED = {RDF + "type", RDF + "first", RDF + "rest", *(GRAFICO + name for name in ("unset", "committedAt"))}
_RESERVED |= {GRAFICO + name for name in ("revision", "pastRevision")}


def _tell_apart(cls: type[Entity], plans: tuple[FieldPlan, ...]) -> None:
    """Refuse fields of one class that would be one in the graph."""
    taken: dict[str, str] = {}
    for plan in plans:
        used = [plan.predicate]
        used += [plan.order] if plan.container == "list" else []
        used += [plan.file] if plan.kind == "array" else []
        for predicate in used:
            if predicate in _RESERVED:
                raise KnowledgeError(
                    f"{cls.__qualname__}.{plan.name}: <{predicate}> says something else in every graph",
                    hint="give the field another Property",
                )
            if predicate in taken:
                raise KnowledgeError(
                    f"{cls.__qualname__}.{taken[predicate]} and {cls.__qualname__}.{plan.name} would be one property "
                    f"<{predicate}>",
                    hint="rename one of the fields, or give it a Property of its own",
                )
            taken[predicate] = plan.name


_PROPERTIES: dict[str, FieldPlan] = {}
_ENUMS: dict[str, type] = {}


def _agree(cls: type[Entity], plan: FieldPlan) -> None:
    if plan.kind == "enum":
        found = plan.types[0]
        other = _ENUMS.setdefault(f"{plan.declared_by.namespace}{found.__name__}", found)
        if (other.__module__, other.__qualname__) != (found.__module__, found.__qualname__):
            raise KnowledgeError(
                f"{plan.declared_by.__qualname__}.{plan.name}: {found.__module__}.{found.__qualname__} and "
                f"{other.__module__}.{other.__qualname__} have one name in {plan.declared_by.namespace}",
                hint="rename one of them, or give the class another namespace",
            )
    known = _PROPERTIES.setdefault(plan.predicate, plan)
    if known.declared_by is not known_class(known.declared_by.class_iri()) and known.declared_by is not Entity:
        known = _PROPERTIES[plan.predicate] = plan  # its class was defined anew, as in a notebook
    if plan.unit != known.unit or plan.refers != known.refers:
        raise KnowledgeError(
            f"{cls.__qualname__}.{plan.name} and {known.declared_by.__qualname__}.{known.name} are one "
            f"property <{plan.predicate}> with different units or kinds",
            hint="rename one of the fields, or give it a Property of its own",
        )


def _plan(cls: type[Entity], name: str) -> FieldPlan:
    info = cls.model_fields[name]
    # A field of a plain model that is mixed in belongs to the first entity class that has it.
    above: list[type[Entity]] = [*lineage(cls), Entity]
    owner = [base for base in above if name in base.model_fields][-1]
    reading = _Reading(where=f"{cls.__qualname__}.{name}")
    for mark in info.metadata:
        _note(reading, mark)
    kind, found = _read(info.annotation, reading)
    # A default that follows from other fields is none that could be known here.
    follows = info.default_factory is not None and info.default_factory_takes_validated_data
    default = info.get_default(call_default_factory=True) if not (info.is_required() or follows) else None
    if reading.optional and reading.container == "set":
        raise KnowledgeError(f"{reading.where}: a set cannot be None as well", hint="an empty set says the same")
    if kind == "enum" and issubclass(found[0], enum.Flag):
        raise KnowledgeError(
            f"{reading.where}: the flags of {found[0].__name__} may be put together, which has no form in the "
            "knowledge graph",
            hint="use a set of members of an Enum",
        )
    return FieldPlan(
        name=name,
        predicate=reading.predicate or _inherited(cls, name) or owner.namespace + _camel(name),
        kind=kind,
        types=found,
        container=reading.container,
        build=reading.build,
        optional=reading.optional,
        required=info.is_required(),
        null_default=reading.optional and default is None and not follows,
        unit=reading.unit,
        description=info.description or "",
        declared_by=owner,
        limits=_limits(reading, kind, found),
        choices=reading.choices,
    )


def _inherited(cls: type[Entity], name: str) -> str | None:
    """Return the property that a class above gives a field which is declared anew."""
    lines: list[type[Entity]] = [*lineage(cls), Entity]
    above = [base for base in lines if base is not cls and name in base.model_fields]
    return next((plan.predicate for plan in plan_of(above[0]) if plan.name == name), None) if above else None


def _limits(reading: _Reading, kind: Kind, found: tuple[type, ...]) -> tuple[tuple[str, Any], ...]:
    if kind != "scalar" or len(found) > 1:
        return ()
    of_length = {"min_length", "max_length"}
    lengths = reading.container == "one" and found[0] is str
    # The length of a list is no property of its items.
    return tuple((name, limit) for name, limit in reading.limits.items() if name not in of_length or lengths)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _note(reading: _Reading, mark: Any) -> None:
    if isinstance(mark, Unit):
        reading.unit = mark
    elif isinstance(mark, Property):
        reading.predicate = mark.iri
    elif isinstance(mark, _Link):
        reading.link = True
    else:
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length"):
            if (limit := getattr(mark, name, None)) is not None:
                reading.limits[name] = limit


def _read(hint: Any, reading: _Reading) -> tuple[Kind, tuple[type, ...]]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for mark in hint.__metadata__:
            _note(reading, mark)
        return _read(arguments[0], reading)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, reading)
    if origin in _LISTS or origin in _SETS or hint in (list, tuple, set, frozenset):
        return _read_container(hint, origin, arguments, reading)
    if origin in _MAPPINGS or hint in _MAPPINGS:
        if not is_json(hint):
            raise KnowledgeError(
                f"{reading.where}: a mapping is kept as JSON, from which {hint!r} would not come back alike",
                hint="use dict[str, ...] of str, bool, int, float, None, and lists and mappings of these; an Entity with "
                "a field for each part keeps other things",
            )
        return "json", (dict,)
    if origin is Literal:
        return _read_literal(arguments, reading)
    if hint is Array:
        return "array", ()
    if isinstance(hint, NewType):
        return _read(hint.__supertype__, reading)
    if isinstance(hint, TypeAliasType):
        return _read(hint.__value__, reading)
    if isinstance(hint, type):
        return _read_class(hint, reading)
    raise KnowledgeError(f"{reading.where}: {hint!r} has no form in the knowledge graph", hint=instead_of(hint))


_NO_NONE = "leave it out; in an Array numpy.nan may stand for it"


def _read_literal(arguments: tuple[Any, ...], reading: _Reading) -> tuple[Kind, tuple[type, ...]]:
    choices = [value for value in arguments if value is not None]
    if len(choices) < len(arguments):
        if reading.container != "one":
            raise KnowledgeError(f"{reading.where}: None cannot be an item of a list or set", hint=_NO_NONE)
        reading.optional = True
    found = tuple(dict.fromkeys(map(type, choices)))
    if not found or any(kind not in DATATYPES for kind in found):
        raise KnowledgeError(
            f"{reading.where}: one of {', '.join(map(repr, arguments))} has no form in the knowledge graph",
            hint="a Literal is of str, int or bool; use an Enum itself for its members",
        )
    reading.choices = (*reading.choices, *choices)
    return "scalar", found


def _read_class(hint: type, reading: _Reading) -> tuple[Kind, tuple[type, ...]]:
    if reading.link and hint is str:
        return "iri", (str,)
    if issubclass(hint, Entity):
        return "entity", (hint,)
    if issubclass(hint, enum.Enum):
        return "enum", (hint,)
    if hint is ArtifactRef:
        return "artifact", (hint,)
    if hint in DATATYPES:
        return "scalar", (hint,)
    raise KnowledgeError(f"{reading.where}: {hint.__name__} has no form in the knowledge graph", hint=instead_of(hint))


def _read_union(arguments: tuple[Any, ...], reading: _Reading) -> tuple[Kind, tuple[type, ...]]:
    members = [argument for argument in arguments if argument is not type(None)]
    if len(members) < len(arguments):
        if reading.container != "one":
            raise KnowledgeError(f"{reading.where}: None cannot be an item of a list or set", hint=_NO_NONE)
        reading.optional = True
    read = [_read(member, reading) for member in members]
    kinds = {kind for kind, _ in read}
    if len(members) > 1 and (
        kinds not in ({"scalar"}, {"entity"}) or (reading.container != "one" and not _flat(members))
    ):
        raise KnowledgeError(
            f"{reading.where}: a union of unlike types has no form in the knowledge graph",
            hint="use a union of scalars, or of entities, or one field for each, of which all but one are None",
        )
    found = tuple(dict.fromkeys(single for _, singles in read for single in singles))
    if len(members) > 1 and any(get_origin(member) is not Literal for member in members):
        reading.choices = ()
    return read[0][0], found


def _flat(members: list[Any]) -> bool:
    return all(isinstance(member, type) for member in members)


def _read_container(
    hint: Any, origin: Any, arguments: tuple[Any, ...], reading: _Reading
) -> tuple[Kind, tuple[type, ...]]:
    if reading.container != "one":
        raise KnowledgeError(
            f"{reading.where}: a list of lists has no form in the knowledge graph",
            hint="use Array, a mapping of JSON values, or an Entity that holds one of the lists",
        )
    items = [argument for argument in arguments if argument is not Ellipsis]
    if not items or any(item != items[0] for item in items):
        raise KnowledgeError(
            f"{reading.where}: a list needs one type of item",
            hint="use list[...] or tuple[..., ...], or a field for each part of a tuple of unlike things",
        )
    base = origin or hint
    if base in _SETS:
        reading.container, reading.build = "set", set if base is set else frozenset
    else:
        reading.container, reading.build = "list", list if base is list else tuple
    kind, found = _read(items[0], reading)
    if reading.container == "set" and kind in ("array", "json"):
        raise KnowledgeError(
            f"{reading.where}: a set of arrays or mappings has no form in the knowledge graph", hint="use a list"
        )
    return kind, found
