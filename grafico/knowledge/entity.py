"""An entity: a Pydantic model with an IRI."""

import copy
import enum
import hashlib
import re
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from grafico.calculations import ArtifactRef, canonical_json
from grafico.errors import BadInput, KnowledgeError
from grafico.knowledge.fields import Property
from grafico.knowledge.vocabulary import GRAFICO, ID, RDFS, check_iri, decimal_text, integer_text

__all__ = [
    "Entity",
    "default_of",
    "deferred",
    "entity_classes",
    "is_open",
    "known_class",
    "lineage",
    "local_name",
    "reference",
    "sealed",
]

_REGISTRY: dict[str, type["Entity"]] = {}


class Entity(BaseModel):
    """A thing with an IRI.

    A subclass is an OWL class and its fields are properties. A class may name the fields that identify it as its
    ``natural_key``: its IRI is then derived from them, so whoever finds the same thing names it alike. Otherwise a
    UUID is minted. Two entities are equal if they have the same class and IRI. Entities are not frozen, so that they
    may refer to each other in circles; the IRI and the natural key are.
    """

    model_config = ConfigDict(extra="forbid", revalidate_instances="never")

    namespace: ClassVar[str] = GRAFICO
    """Where the class and the properties it declares live."""
    natural_key: ClassVar[tuple[str, ...]] = ()
    also: ClassVar[tuple[str, ...]] = ()
    """IRIs of classes of other vocabularies that this class is a subclass of."""

    iri: str = Field(default="", description="identifier; derived or minted if not given")
    label: Annotated[str | None, Property(RDFS + "label")] = Field(default=None, description="what people call it")

    _source: Callable[["Entity"], None] | None = PrivateAttr(default=None)
    """Fills in an entity that has only been referred to so far."""
    _deferred: dict[str, Any] | None = PrivateAttr(default=None)
    """Arrays that are in files and have not been read so far, by field."""
    _bases: dict[tuple[str, ...], Any] = PrivateAttr(default_factory=dict)
    """By store and graph, what it said there when it was last read or written."""

    @classmethod
    def class_iri(cls) -> str:
        """Return the IRI of the OWL class."""
        return cls.namespace + local_name(cls.__name__)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if is_open(cls):
            return
        for name in _OF_CLASSES:
            if name in cls.model_fields:
                raise KnowledgeError(
                    f"{cls.__qualname__}: {name!r} cannot be a field, because every entity class has one of its own",
                    hint=f"write {name}: ClassVar[...] = ..." if name in _SETTINGS else "give the field another name",
                )
        for name, attribute in Entity.__private_attributes__.items():
            if cls.__private_attributes__.get(name) is not attribute:
                raise KnowledgeError(
                    f"{cls.__qualname__}: {name!r} cannot be a private attribute, because every entity has one of its own",
                    hint="give the attribute another name",
                )
        if type(cls.natural_key) is not tuple:
            raise KnowledgeError(
                f"{cls.__qualname__}: the natural key {cls.natural_key!r} is no tuple of names of fields",
                hint='write natural_key: ClassVar[tuple[str, ...]] = ("name",), with a comma',
            )
        iri = check_iri(cls.class_iri())
        other = _REGISTRY.get(iri)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise KnowledgeError(
                f"{cls.__module__}.{cls.__qualname__} and {other.__module__}.{other.__qualname__} are both <{iri}>",
                hint="give one of them another name or namespace",
            )
        for name in cls.natural_key:
            if name not in cls.model_fields:
                raise KnowledgeError(f"{cls.__qualname__}: the natural key names {name!r}, which is no field")
        _REGISTRY[iri] = cls

    def model_post_init(self, _context: Any, /) -> None:
        """Derive or mint the IRI."""
        for name in self.natural_key:
            if name in self.__dict__:
                self.__dict__[name] = sealed(self.__dict__[name])
        iri = check_iri(self.iri) if self.iri else derived_iri(self) if self.natural_key else minted_iri(type(self))
        self.__dict__["iri"] = iri

    @model_validator(mode="after")
    def _identified(self) -> Self:
        # A subclass may have a model_post_init of its own that does not call this one.
        if not self.iri:
            Entity.model_post_init(self, None)
        return self

    @property
    def loaded(self) -> bool:
        """Whether the fields are here; False for an entity that has only been referred to."""
        private = self.__pydantic_private__
        return private is None or private["_source"] is None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "iri" or name in self.natural_key:
            raise KnowledgeError(f"{type(self).__name__}.{name} identifies the entity and cannot be changed")
        if name not in type(self).model_fields:
            super().__setattr__(name, value)
            return
        if self.model_config.get("frozen") or type(self).model_fields[name].frozen:
            super().__setattr__(name, value)  # which refuses
        self._look()
        if self.model_config.get("validate_assignment"):
            # Of a copy: Pydantic refuses an entity that refers to itself.
            shadow = copy.copy(self)
            self.__pydantic_validator__.validate_assignment(shadow, name, value)
            self.__dict__.update(shadow.__dict__)
        else:
            self.__dict__[name] = _validator(type(self), name).validate_python(value)
        self.__pydantic_fields_set__.add(name)
        if self._deferred:
            self._deferred.pop(name, None)

    def _look(self) -> None:
        """Load the fields of an entity that has only been referred to."""
        if not self.loaded and self._source is not None:
            self._source(self)

    def model_dump(self, **how: Any) -> dict[str, Any]:
        """Return the fields; of an entity that has only been referred to, and never looked at, the IRI alone."""
        self._look()
        return super().model_dump(**how)

    def model_dump_json(self, **how: Any) -> str:
        """Return the fields as JSON; see :meth:`model_dump`."""
        self._look()
        return super().model_dump_json(**how)

    def model_copy(self, **how: Any) -> Self:
        """Return a copy, under the same IRI unless that is updated."""
        self._look()
        return super().model_copy(**how)

    # The type of what it returns would take the place of the fields in the JSON schema.
    @model_serializer(mode="wrap")
    def _with_arrays(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        private = self.__pydantic_private__
        for name in tuple((private and private["_deferred"]) or ()):
            getattr(self, name)
        return handler(self)

    # Fields of an entity that has only been referred to are absent, so looking one up ends here; so are large arrays.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                if self._source is not None:
                    self._source(self)
                    return getattr(self, name)
                if self._deferred and name in self._deferred:
                    array = self._deferred[name].load()
                    return self.__dict__.setdefault(name, sealed(array) if name in self.natural_key else array)
                # Another thread may have loaded it since it was missed.
                if name in self.__dict__:
                    return self.__dict__[name]
            return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.iri == other.iri if isinstance(other, Entity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.iri)

    def __repr__(self) -> str:
        label = self.__dict__.get("label")
        return f"{type(self).__name__}(<{self.iri}>{f', {label!r}' if label else ''})"

    __str__ = __repr__


@cache
def _validator(cls: type[Entity], name: str) -> TypeAdapter[Any]:
    field = cls.model_fields[name]
    # Without what concerns the model, such as aliases.
    hint: Any = Annotated[field.annotation, Field(discriminator=field.discriminator), *field.metadata]
    return TypeAdapter(hint)


_SETTINGS = ("namespace", "natural_key", "also")
_OF_CLASSES = (*_SETTINGS, "loaded", "class_iri")


def sealed(value: Any) -> Any:
    """Return a value of a natural key as it is kept: one form for what is equal, and none that can be changed."""
    if isinstance(value, datetime):
        return _instant(value)
    if type(value) is float:
        return value + 0.0  # -0.0 is 0.0
    if type(value) in (tuple, frozenset):
        return type(value)(map(sealed, value))
    if not hasattr(value, "setflags") or not value.flags.writeable:
        return value
    value = value.copy()
    value.setflags(write=False)
    return value


_LAST = re.compile(r".*[/#:]")
_SIGNS = re.compile(r"[^\w.~-]")


def local_name(name: str) -> str:
    """Return the name of a class or an enum's member as it stands in an IRI: ``Box[int]`` is ``Box%5Bint%5D``."""
    return _SIGNS.sub(lambda sign: "".join(f"%{byte:02X}" for byte in sign[0].encode()), name)


def is_open(cls: type[BaseModel]) -> bool:
    """Return whether a class is generic and has no types given, so that there can be no entity of it."""
    return bool(cls.__pydantic_generic_metadata__["parameters"])


def default_of(cls: type[Entity], name: str, values: dict[str, Any]) -> Any:
    """Return what a field is where it is not given; ``values`` are those of the fields before it."""
    return cls.model_fields[name].get_default(call_default_factory=True, validated_data=values)


def reference(cls: type[Entity], iri: str, source: Callable[[Entity], None]) -> Entity:
    """Return an entity of which only the IRI is known; ``source`` fills it in. Nothing of its class is called."""
    entity = cls.__new__(cls)
    object.__setattr__(entity, "__dict__", {"iri": iri})
    object.__setattr__(entity, "__pydantic_fields_set__", {"iri"})
    object.__setattr__(entity, "__pydantic_extra__", None)
    Entity.model_post_init(entity, None)
    private = entity.__pydantic_private__
    assert private is not None
    private["_source"] = source
    return entity


def derived_iri(entity: Entity) -> str:
    """Return the IRI that follows from the natural key.

    The name in it is that of the class that declares the key, so that a subclass which inherits the key
    is the same thing.
    """
    cls = type(entity)
    owner = next(base for base in cls.__mro__ if issubclass(base, Entity) and "natural_key" in vars(base))
    key = {name: _key_value(getattr(entity, name)) for name in cls.natural_key}
    kind = owner.class_iri()
    try:
        body = canonical_json({"class": kind, "key": key})
    except BadInput as error:
        raise KnowledgeError(
            f"{cls.__name__}: no IRI follows from {key}: {error}",
            hint="a natural key is made of text that is valid Unicode, finite numbers, and entities",
        ) from error
    return f"{ID}{_LAST.sub('', kind)}/{hashlib.sha256(body).hexdigest()[:32]}"


def minted_iri(cls: type[Entity]) -> str:
    """Return a fresh IRI."""
    return f"{ID}{local_name(cls.__name__)}/{uuid.uuid4().hex}"


def _key_value(value: Any) -> Any:
    if isinstance(value, Entity):
        return {"iri": value.iri}
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"int": integer_text(value)}
    if isinstance(value, datetime):
        return {"time": _instant(value).isoformat()}
    if isinstance(value, date):
        return {"time": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": decimal_text(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, ArtifactRef):
        return {"sha256": value.digest}
    if isinstance(value, list | tuple):
        return [_key_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((_key_value(item) for item in value), key=canonical_json)}
    if isinstance(value, dict):
        return {"map": [[str(name), _key_value(item)] for name, item in sorted(value.items())]}
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        digest = hashlib.sha256(value.tobytes(order="C")).hexdigest()
        return {"dtype": value.dtype.str, "shape": list(value.shape), "sha256": digest}
    raise KnowledgeError(f"a value of type {type(value).__name__} cannot be part of a natural key")


def _instant(value: datetime) -> datetime:
    if value.tzinfo is None:
        return value
    try:
        # Equal times are one key, in whatever zone they are told.
        return value.astimezone(UTC)
    except OverflowError:
        return value


def deferred(entity: Entity, name: str) -> Any:
    """Return what stands for a field whose arrays have not been read, else ``None``."""
    private = entity.__pydantic_private__
    waiting = private["_deferred"] if private else None
    return waiting.get(name) if waiting and name not in entity.__dict__ else None


def known_class(iri: str) -> type[Entity] | None:
    """Return the class of an OWL class's IRI, if a module that is loaded defines it."""
    return _REGISTRY.get(iri)


def entity_classes() -> list[type[Entity]]:
    """Return all entity classes of the modules that are loaded."""
    return sorted(_REGISTRY.values(), key=lambda cls: cls.class_iri())


def lineage(cls: type[Entity]) -> Iterable[type[Entity]]:
    """Yield the class and the entity classes above it, up to but not including :class:`Entity`."""
    return (base for base in cls.__mro__ if issubclass(base, Entity) and base is not Entity and not is_open(base))
