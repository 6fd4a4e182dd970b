"""YAML that a stranger may have written: small, plain, with the line of every key, and no surprises.

Scalars follow YAML 1.2 (core schema), so that ``name: NO`` is nitric oxide and ``1e-7`` a number. Anchors,
aliases, tags and merge keys are refused: a job file says everything once, and nothing can grow when it is read.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from grafico.calculations import Json
from grafico.errors import JobError

__all__ = ["MAX_BYTES", "Document", "Place", "parse_yaml", "read_document"]

MAX_BYTES = 5 * 1024 * 1024
"""A job file holds at most a few inline structures; more is a mistake."""
MAX_DEPTH = 40
MAX_NODES = 300_000

Place: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the top of a document."""

_INTEGER = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True)
class Document:
    """What a YAML file said, and where."""

    where: str
    """Name of the file, for messages."""
    data: Mapping[str, Json]
    lines: Mapping[Place, int] = field(default_factory=dict)
    """Line, from 1, of each key and list item."""
    overridden: Mapping[Place, str] = field(default_factory=dict)
    """Places that the command line gave, with the option that did."""

    def position(self, place: Place) -> str:
        """Say where a place, or the nearest thing around it, was written; and what was put into it from elsewhere."""
        place = self._as_written(place)
        for end in range(len(place), 0, -1):
            if place[:end] in self.overridden:  # what the file has there, or below, no longer counts
                return self.overridden[place[:end]]
        inside = dict.fromkeys(spot for other, spot in self.overridden.items() if other[: len(place)] == place)
        if inside and not (place in self.lines and self._has_own(place)):
            return " and ".join(list(inside)[:3])
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                return " and ".join([f"line {self.lines[place[:end]]}", *list(inside)[:2]])
        return ""

    def _has_own(self, place: Place) -> bool:
        """Whether anything at or below a place is as the file has it."""
        if place in self.overridden:
            return False
        data: Any = self.data
        for part in place:
            data = data[part]
        inner = list(data) if isinstance(data, Mapping) else range(len(data)) if isinstance(data, list) else ()
        return any(self._has_own((*place, part)) for part in inner) if inner else True

    def _as_written(self, place: Place) -> Place:
        """Return a place without the indices of what stands alone where a list may stand."""
        data: Any = self.data
        written = list[str | int]()
        for part in place:
            if isinstance(part, int) and not isinstance(data, list):
                continue
            written.append(part)
            try:
                data = data[part]
            except (KeyError, IndexError, TypeError):
                data = {}
        return tuple(written)


def read_document(path: Path) -> tuple[Document, bytes]:
    """Read a YAML file whose top is a mapping.

    Returns
    -------
    The document and the bytes it came from.

    Raises
    ------
    JobError
        The file cannot be read, is too large, is not UTF-8 or not plain YAML, or holds no mapping.
    """
    source = _read_bytes(path)
    where = str(path)
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise JobError(
            f"{where}, line {line}: not UTF-8 text (byte {source[error.start]:#04x} at position {error.start})",
            hint="save the file as UTF-8",
        ) from None
    data, lines = parse_yaml(text, where)
    if data is None:
        raise JobError(f"{where}: the file is empty", hint="a job names at least a graph and its input")
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else f"the single value {str(data)[:40]!r}"
        raise JobError(f"{where}: expected keys with values at the top of the file, found {kind}")
    return Document(where=where, data=data, lines=lines), source


def _read_bytes(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise JobError(f"{path}: a directory, where a job file was expected", hint=_jobs_in(path))
        if not stat.S_ISREG(mode):
            raise JobError(f"{path}: not a regular file")
        with path.open("rb") as file:
            source = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise JobError(f"{path}: there is no such file", hint=_jobs_in(path.parent)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JobError(f"{path}: cannot be read: {reason}") from None
    if len(source) > MAX_BYTES:
        raise JobError(
            f"{path}: larger than {MAX_BYTES // 1024**2} MiB, which no job file is",
            hint="refer to structures by file name",
        )
    return source


def _jobs_in(folder: Path) -> str | None:
    try:
        found = sorted(item.name for item in folder.iterdir() if item.suffix in {".yaml", ".yml"})
    except OSError:
        return None
    return f"in {folder} there is {', '.join(found[:8])}{' …' if len(found) > 8 else ''}" if found else None


def parse_yaml(text: str, where: str) -> tuple[Json, dict[Place, int]]:
    """Return the JSON value that YAML text holds, and the line of every key and item.

    Raises
    ------
    JobError
        It is not plain YAML; the message names the line.
    """
    builder = _Builder(where, text)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.YAMLError as error:
        raise _syntax_error(error, where, text) from None
    return builder.result, builder.lines


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


@dataclass
class _Open:
    """A mapping or list that is being read."""

    value: Any
    place: Place
    key: str | None = None


class _Builder:
    """Builds the value from parser events, without recursion."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.text = text
        self.lines: dict[Place, int] = {}
        self.result: Json = None
        self._stack: list[_Open] = []
        self._documents = 0
        self._nodes = 0

    def take(self, event: Any) -> None:
        """Take the next parser event."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._error(event, "a second document begins ('---')", "one file holds one job")
        elif isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"the alias *{event.anchor}", "write the value out; for text, put it in quotes")
        elif isinstance(event, yaml.NodeEvent):
            self._node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()

    def _node(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(event, f"more than {MAX_NODES} values", "refer to structures by file name")
        if event.anchor is not None:
            raise self._error(event, f"the anchor &{event.anchor}", "write values out; for text, put it in quotes")
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"the tag {event.tag}", "tags are not used here; for text, put it in quotes")
        top = self._stack[-1] if self._stack else None
        scalar = isinstance(event, yaml.ScalarEvent)
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if not scalar:
                raise self._error(event, "a list or mapping as a key", "keys are text")
            self._key(top, event)
            return
        value: Json
        if scalar:
            plain = event.style in {None, ""} and event.tag is None
            value = self._scalar(event) if plain else event.value
        else:
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        place = self._put(top, value, event.start_mark.line + 1)
        if not scalar:
            if len(self._stack) >= MAX_DEPTH:
                raise self._error(event, f"nested more than {MAX_DEPTH} deep", "a job file is nearly flat")
            self._stack.append(_Open(value, place))

    def _key(self, top: _Open, event: Any) -> None:
        key = event.value
        line = event.start_mark.line + 1
        if key == "<<":
            raise self._error(event, "the merge key <<", "write the values out")
        if key in top.value:
            first = self.lines[(*top.place, key)]
            raise self._error(event, f"the key '{key}' stands twice (first in line {first})", "remove one of them")
        top.key = key
        self.lines[(*top.place, key)] = line

    def _put(self, top: _Open | None, value: Json, line: int) -> Place:
        if top is None:
            self.result = value
            return ()
        if isinstance(top.value, list):
            place = (*top.place, len(top.value))
            top.value.append(value)
            self.lines[place] = line
            return place
        assert top.key is not None
        place = (*top.place, top.key)
        top.value[top.key] = value
        top.key = None
        return place

    def _scalar(self, event: Any) -> Json:
        text = event.value
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _NOT_FINITE.fullmatch(text):
            raise self._error(event, f"{text} is not a number that can be used", "give a finite number, or quote text")
        try:
            if _INTEGER.fullmatch(text):
                return int(text)
            if _OTHER_BASE.fullmatch(text):
                return int(text, 0)
            number = float(text) if _NUMBER.fullmatch(text) else None
        except ValueError:
            raise self._error(
                event, f"a number of {len(text)} digits", "give a smaller number, or quote text"
            ) from None
        if number is None:
            return text
        if number in {float("inf"), float("-inf")}:
            raise self._error(event, f"{text} is too large a number", "give a finite number, or quote text")
        return number

    def _error(self, event: Any, message: str, hint: str) -> JobError:
        return JobError(f"{self.where}, line {event.start_mark.line + 1}: {message}", hint=hint)


def _syntax_error(error: yaml.YAMLError, where: str, text: str) -> JobError:
    if isinstance(error, yaml.reader.ReaderError):
        # libyaml counts bytes, the Python reader characters.
        character: object = error.character
        code = ord(character) if isinstance(character, str) else int(error.character)
        line = text.count("\n", 0, max(0, text.find(chr(code)))) + 1
        return JobError(
            f"{where}, line {line}: the character {code:#04x} does not belong into text", hint="is this a text file?"
        )
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    context = getattr(error, "context", None)
    line = mark.line + 1 if mark is not None else 1
    source = text.split("\n")[line - 1 : line] or [""]
    indent = source[0][: len(source[0]) - len(source[0].lstrip())]
    if "\t" in indent:
        return JobError(f"{where}, line {line}: a tab in the indentation", hint="indent with spaces")
    if "nesting depth" in problem:
        return JobError(f"{where}, line {line}: nested more than {MAX_DEPTH} deep", hint="a job file is nearly flat")
    detail = f" {context}," if context else ""
    column = f", column {mark.column + 1}" if mark is not None else ""
    return JobError(
        f"{where}, line {line}{column}: not YAML:{detail} {problem}",
        hint="check the indentation, and put text with special characters in quotes",
    )
