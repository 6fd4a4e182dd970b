"""The content key of a calculation: what makes two of them the same."""

import hashlib

import rfc8785
from pydantic import BaseModel

from grafico.calculations.outcomes import Json
from grafico.errors import BadInput

__all__ = ["canonical_json", "content_key"]


def canonical_json(value: Json) -> bytes:
    """Return RFC 8785 bytes; NaN and infinities are refused.

    Raises
    ------
    BadInput
        The value holds a number or an object that canonical JSON cannot.
    """
    try:
        return bytes(rfc8785.dumps(value))
    except rfc8785.CanonicalizationError as error:
        raise BadInput(f"an input cannot be written as canonical JSON: {error}", hint="use finite numbers") from error


def content_key(name: str, version: str, value: BaseModel) -> str:
    """Return the SHA-256 of name, version and canonical input, as 64 hexadecimal digits."""
    body = {"name": name, "version": version, "input": value.model_dump(mode="json")}
    return hashlib.sha256(canonical_json(body)).hexdigest()
