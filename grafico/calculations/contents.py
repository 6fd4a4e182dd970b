"""What an input or output is made of: digests of the structures and files in it.

A calculation that was given a structure, to the bit, that another one returned has the same digest on both sides. That
is how the origin of a result is told without knowing what the graph did between.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from grafico.calculations.outcomes import ArtifactRef

__all__ = ["contents_of"]


def contents_of(value: Any) -> tuple[str, ...]:
    """Return the digests of what an input or output holds, each once, in order of appearance.

    A file is an :class:`ArtifactRef`; a structure is any model with a property ``content_digest``, whose parts are not
    looked at. Each digest says what it is of: ``file:ab…``, ``structure:cd…``.
    """
    found: dict[str, None] = {}
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, ArtifactRef):
            found[f"file:{part.digest}"] = None
        elif isinstance(part, BaseModel):
            if isinstance(getattr(type(part), "content_digest", None), property):
                found[part.content_digest] = None  # type: ignore[attr-defined]
            else:
                pending.extend(reversed([getattr(part, name) for name in type(part).model_fields]))
        elif isinstance(part, Mapping):
            pending.extend(reversed(list(part.values())))
        elif isinstance(part, list | tuple | set | frozenset):
            pending.extend(item for item in reversed(list(part)) if not isinstance(item, str | int | float))
    return tuple(found)
