"""JSON Schemas as servers can use them: for a grammar without what grammars cannot hold, and in words for the prompt."""

from collections.abc import Iterator, Mapping
from typing import Any

from grafico.calculations import Json

__all__ = ["describe_schema", "for_decoding"]

DROPPED = frozenset(
    {
        # Checked after decoding: grammars with bounded repetition explode, and providers refuse some of these.
        "default", "discriminator", "examples", "exclusiveMaximum", "exclusiveMinimum", "format",
        "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
        "pattern", "title", "uniqueItems",
    }
)  # fmt: skip
DECIDING = frozenset({"successor", "route", "output", "reasoning"})
"""What is required of an answer although it has a default. Requiring all fields would force null objects."""

FEW = 16
"""Items that a grammar can count; a small model that may add to a list for ever does."""
DEEPEST = 12


def for_decoding(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema for constrained decoding.

    References are resolved, ``oneOf`` with a discriminator becomes ``anyOf``, bounds and patterns go (they are checked
    when the answer is validated), objects are closed, and the fields that decide are required.
    """
    made = _strict(schema, schema.get("$defs", {}), 0)
    assert isinstance(made, dict)
    return made


def _strict(part: Any, known: Mapping[str, Json], depth: int) -> Any:
    if depth > DEEPEST:
        return {}
    if isinstance(part, list):
        return [_strict(item, known, depth) for item in part]
    if not isinstance(part, Mapping):
        return part
    if "$ref" in part:
        target = known.get(str(part["$ref"]).rpartition("/")[2], {})
        return _strict({**target, **{k: v for k, v in part.items() if k != "$ref"}}, known, depth + 1)
    made: dict[str, Any] = {}
    for name, value in part.items():
        if name in DROPPED or name == "$defs" or (name == "maxItems" and value > FEW):
            continue
        if name == "properties":
            made[name] = {key: _strict(inner, known, depth + 1) for key, inner in value.items()}
        elif name in {"oneOf", "anyOf"}:
            made["anyOf"] = [_strict(inner, known, depth + 1) for inner in value]
        elif name in {"items", "prefixItems", "additionalProperties", "allOf"}:
            made[name] = _strict(value, known, depth + 1)
        else:
            made[name] = value
    if "properties" in made:
        wanted = [n for n in made["properties"] if n in set(part.get("required", ())) | DECIDING]
        made["required"] = wanted
        made.setdefault("additionalProperties", False)
    return made


def describe_schema(schema: Mapping[str, Json]) -> list[str]:
    """Return the fields of an object schema in words, one line each: name, type, range, default, description."""
    return list(_fields(schema, schema.get("$defs", {}), "", 0))


def _fields(schema: Mapping[str, Json], known: Mapping[str, Json], prefix: str, depth: int) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, about in schema.get("properties", {}).items():
        inner = _resolved(about, known)
        facts = [_type(about, known)]
        facts += [f"{word} {inner[key]}" for key, word in RANGES.items() if key in inner]
        if "pattern" in inner:
            facts.append(f"matching {inner['pattern']}")
        facts.append(
            "required" if name in required else f"default {about['default']!r}" if "default" in about else "optional"
        )
        description = about.get("description") or inner.get("description") or ""
        yield f"{prefix}{name} ({', '.join(facts)}){': ' + description if description else ''}"
        if "properties" in inner and depth < 3:
            yield from _fields(inner, known, f"{prefix}{name}.", depth + 1)


RANGES = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "minLength": "length at least",
    "maxLength": "length at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


def _resolved(about: Mapping[str, Json], known: Mapping[str, Json]) -> Mapping[str, Json]:
    for _ in range(DEEPEST):
        if "$ref" not in about:
            break
        about = known.get(str(about["$ref"]).rpartition("/")[2], {})
    return about


def _type(about: Mapping[str, Json], known: Mapping[str, Json]) -> str:
    about = _resolved(about, known)
    if "enum" in about:
        return "one of " + ", ".join(repr(value) for value in about["enum"])
    if "const" in about:
        return repr(about["const"])
    for union in ("anyOf", "oneOf"):
        if union in about:
            return " or ".join(dict.fromkeys(_type(member, known) for member in about[union]))
    if about.get("type") == "array":
        return f"list of {_type(about.get('items', {}), known)}"
    return str(about.get("type", "any"))
