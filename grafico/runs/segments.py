"""The journal as bytes: how a line is written, how segments follow one another, and what reading tolerates.

A segment ``journal/<epoch>.jsonl`` belongs to one controller. Each line is::

    {"n":<number of the line, from 0>,"crc":"<8 hex digits>","is":<JSON object>}

with the CRC-32 of the object's bytes, seeded with the number. Line 0 is the header ``{"segment": {...}}``: who
writes, which segment it continues, and from which byte. What stands in the earlier segment after that byte was written
by a controller that had been fenced off already: it is ignored and reported. Only the last line may be torn.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

from pydantic import BaseModel

from grafico.calculations import Json
from grafico.errors import JournalDamaged
from grafico.runs.files import disk_errors, read_bytes
from grafico.runs.paths import RunPaths

__all__ = ["LOST", "MEND", "Entry", "JournalRead", "Segment", "Tail", "encode", "frame", "read_journal", "read_segment"]

LINE = re.compile(rb'\{"n":(0|[1-9]\d*),"crc":"([0-9a-f]{8})","is":(\{.*\})\}', re.DOTALL)


class Tail(NamedTuple):
    """Where a journal ends: the epoch and the bytes of its segment that count."""

    epoch: int
    size: int


MEND = (
    "restore the file from a backup; without one, move the folder journal/ aside, make an empty one and resume: "
    "the walk begins anew and reuses all outcomes that were committed; nothing was overwritten"
)
"""What to do about a damaged journal."""

LOST = (
    "restore it from a copy; without one, make an empty folder there and resume: "
    "the walk begins anew and reuses all outcomes that were committed"
)
"""What to do about a journal that is gone."""

SHARED = 24
"""Length up to which texts of the journal are kept once."""


class Entry(NamedTuple):
    """One line of the journal."""

    epoch: int
    number: int
    body: Mapping[str, Json]


@dataclass(frozen=True)
class Segment:
    """The lines of one segment that count, and what stands behind them."""

    epoch: int
    entries: list[Entry]
    size: int
    """Bytes up to the end of the last whole line that counts."""
    torn: int = 0
    """Bytes of a torn last line."""
    ignored: int = 0
    """Whole lines behind the byte from which a later controller continued."""

    @property
    def header(self) -> Mapping[str, Json] | None:
        """What the controller said of itself; ``None`` if it was killed before."""
        return self.entries[0].body["segment"] if self.entries else None


@dataclass(frozen=True)
class JournalRead:
    """The lines that count, over all segments, in order."""

    entries: list[Entry]
    tail: Tail
    segments: list[Segment]
    problems: list[str] = field(default_factory=list)


def plain(value: Any) -> Any:
    """Return what JSON has for a value that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")


encode_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False, default=plain
).encode


def encode(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a line's object.

    Raises
    ------
    TypeError, ValueError
        It holds something that JSON cannot.
    """
    return encode_json(body).encode("utf-8", "surrogatepass")


def frame(number: int, body: bytes) -> bytes:
    """Return a whole line."""
    return b'{"n":%d,"crc":"%08x","is":%b}\n' % (number, zlib.crc32(body, number), body)


def read_segment(paths: RunPaths, epoch: int, *, limit: int | None = None) -> Segment:
    """Read one segment.

    Parameters
    ----------
    paths
        The run.
    epoch
        Which segment.
    limit
        Bytes that count; default all.

    Raises
    ------
    JournalDamaged
        A line that is neither whole nor a torn last one; names file and line.
    """
    path = paths.segment(epoch)
    with disk_errors("the journal cannot be read", path):
        data = read_bytes(path) or b""
    if limit is not None and len(data) < limit:
        raise JournalDamaged(
            f"{path} has {len(data)} bytes, but a later controller continued from byte {limit}: it was cut off",
            hint=MEND,
        )
    counted = data if limit is None else data[:limit]
    entries, size = parse(counted, epoch, path=str(path))
    if limit is not None and size != limit:
        raise damaged(str(path), len(entries) + 1, f"a later controller continued from byte {limit}, inside this line")
    rest = data[size:]
    ignored = 0 if limit is None else rest.count(b"\n")
    torn = len(rest) - (rest.rfind(b"\n") + 1)
    return Segment(epoch, entries, size, torn=torn, ignored=ignored)


def parse(data: bytes, epoch: int, *, first: int = 0, path: str) -> tuple[list[Entry], int]:
    """Read whole lines, of which the first has the number ``first``; return them and how many bytes they take.

    Raises
    ------
    JournalDamaged
        A whole line whose number, checksum or content is wrong.
    """
    entries: list[Entry] = []
    start = 0
    number = first
    while (end := data.find(b"\n", start)) >= 0:
        match = LINE.fullmatch(data, start, end)
        if match is None:
            raise damaged(path, number + 1, "it is no journal line")
        body = match[3]
        if int(match[1]) != number:
            raise damaged(path, number + 1, f"it has the number {int(match[1])}, expected {number}")
        if zlib.crc32(body, number) != int(match[2], 16):
            raise damaged(path, number + 1, "its checksum does not match")
        try:
            content = _DECODER.decode(body.decode(errors="surrogatepass"))
        except ValueError as error:
            raise damaged(path, number + 1, str(error)) from error
        if number == 0 and not header_fits(content, epoch):
            raise damaged(path, 1, f"it is not the header of segment {epoch}")
        entries.append(Entry(epoch, number, content))
        number += 1
        start = end + 1
    return entries, start


def _shared(value: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping that shares its keys and short texts with all others: lines are alike, and there may be many."""
    return {
        intern(name): intern(item) if type(item) is str and (len(item) <= SHARED or name == "key") else item
        for name, item in value.items()
    }


_DECODER = json.JSONDecoder(object_hook=_shared)


def header_fits(content: Mapping[str, Any], epoch: int) -> bool:
    """Whether a first line is this segment's header."""
    header = content.get("segment")
    return isinstance(header, dict) and header.get("epoch") == epoch


def damaged(path: str, line: int, why: str) -> JournalDamaged:
    """Return the error for a damaged line."""
    return JournalDamaged(
        f"{path}, line {line}: {why}",
        hint=MEND,
    )


def read_journal(paths: RunPaths, *, below: int | None = None) -> JournalRead:
    """Read the lines that count.

    Parameters
    ----------
    paths
        The run.
    below
        Only segments with a lower epoch (for the controller that has just created that one).

    Raises
    ------
    JournalDamaged
        A line that is neither whole nor a torn last one.
    """
    epochs = [epoch for epoch in paths.segments() if below is None or epoch < below]
    chain: list[Segment] = []
    problems: list[str] = []
    limit: int | None = None
    wanted: int | None = None
    for epoch in reversed(epochs):
        if wanted is not None and epoch > wanted:
            problems += superseded(paths, epoch, wanted)
            continue
        segment = read_segment(paths, epoch, limit=limit)
        header = segment.header
        if header is None:
            problems.append(f"segment {epoch}: its controller ended before it wrote anything")
            continue
        chain.append(segment)
        problems += trouble(segment, chain[-2].epoch if len(chain) > 1 else None)
        wanted, limit = header["previous"], header["continues"]
    if wanted:
        raise JournalDamaged(
            f"{paths.segment(wanted)} is missing: a later segment continues it",
            hint=MEND,
        )
    chain.reverse()
    problems.reverse()
    entries = [entry for segment in chain for entry in segment.entries]
    tail = Tail(chain[-1].epoch, chain[-1].size) if chain else Tail(0, 0)
    return JournalRead(entries, tail, chain, problems)


def trouble(segment: Segment, later: int | None) -> Iterator[str]:
    """Yield what there is to report of a segment."""
    if segment.ignored:
        lines = "1 line" if segment.ignored == 1 else f"{segment.ignored} lines"
        yield (
            f"segment {segment.epoch}: {lines} that a stale controller wrote after the controller of segment {later} had "
            "taken over: ignored"
        )
    if segment.torn:
        yield f"segment {segment.epoch}: a torn last line of {segment.torn} bytes: ignored"


def superseded(paths: RunPaths, epoch: int, wanted: int) -> list[str]:
    """Report a segment that a later one passed over."""
    path = paths.segment(epoch)
    with disk_errors("the journal cannot be read", path):
        size = path.stat().st_size
    return [f"segment {epoch}: {size} bytes that a later controller passed over, continuing segment {wanted}: ignored"]
