"""Small NumPy arrays as typed literals, exact to the bit.

The lexical form is ``<dtype> <shape> <base64 of the bytes in C order>``: ``<f8 2,3 AAAA…``; the shape of a scalar is ``-``.
"""

import base64
import binascii
import re
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from grafico.errors import KnowledgeError
from grafico.knowledge.vocabulary import GRAFICO

__all__ = ["ARRAY_DATATYPE", "ARRAY_KINDS", "MAX_INLINE_BYTES", "Array", "decode_array", "encode_array"]

ARRAY_DATATYPE = GRAFICO + "ndarray"
MAX_INLINE_BYTES = 256 * 1024
"""Beyond this an array is kept in a file of the run."""

_FORM = re.compile(r"(\S{2,40}) (-|\d{1,18}(?:,\d{1,18}){0,63}) ([A-Za-z0-9+/]*=*)", re.ASCII)
ARRAY_KINDS = "biufcSUmM"
"""Kinds of dtypes whose items are plain bytes: no Python objects, no records."""

if TYPE_CHECKING:
    import numpy

    Array: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]
else:

    class Array:
        """Annotation of a field that holds a NumPy array."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            """Validate with NumPy; serialize as the literal's lexical form."""
            from pydantic_core import core_schema

            return core_schema.no_info_plain_validator_function(
                _validate,
                serialization=core_schema.plain_serializer_function_ser_schema(encode_array, when_used="json"),
            )

        @classmethod
        def __get_pydantic_json_schema__(cls, schema, handler):
            """Describe the lexical form."""
            return {"type": "string", "description": "dtype, shape and base64 of a NumPy array"}


def _validate(value: Any) -> Any:
    import numpy

    if isinstance(value, str) and _FORM.fullmatch(value):
        return decode_array(value)
    if isinstance(value, numpy.ma.MaskedArray):  # what Pydantic makes of errors is for a ValueError
        raise ValueError(  # noqa: TRY004
            "a masked array would lose its mask: give filled(numpy.nan), or keep the mask in another field"
        )
    array = numpy.asarray(value)
    if array.dtype.kind not in ARRAY_KINDS:
        raise ValueError(
            f"an array of numbers or strings was expected, not of dtype {array.dtype}: "
            + ("give each of its fields a field of the model" if array.dtype.names else "numpy.nan may stand for None")
        )
    return array


def encode_array(array: Any) -> str:
    """Return the lexical form.

    Raises
    ------
    KnowledgeError
        The array is too large for a literal or holds Python objects.
    """
    import numpy

    array = numpy.asarray(array)
    if array.dtype.kind not in ARRAY_KINDS:
        raise KnowledgeError(f"an array of dtype {array.dtype} cannot be kept in the knowledge base")
    if array.nbytes > MAX_INLINE_BYTES:
        raise KnowledgeError(
            f"an array of {array.nbytes} bytes is too large for a literal ({MAX_INLINE_BYTES} bytes)",
            hint="persist it through a run, which keeps it as an artifact",
        )
    shape = ",".join(map(str, array.shape)) or "-"
    return f"{array.dtype.str} {shape} {base64.b64encode(array.tobytes(order='C')).decode()}"


def decode_array(text: str) -> Any:
    """Return the array of a lexical form.

    Raises
    ------
    KnowledgeError
        The text is no such form.
    """
    import numpy

    match = _FORM.fullmatch(text)
    if match is None:
        raise KnowledgeError(f"not an array literal: {text[:60]!r}")
    try:
        dtype = numpy.dtype(match[1])
        shape = () if match[2] == "-" else tuple(map(int, match[2].split(",")))
        data = base64.b64decode(match[3], validate=True)
    except (TypeError, ValueError, OverflowError, SyntaxError, binascii.Error) as error:
        raise KnowledgeError(f"an array literal is damaged ({error}): {text[:60]!r}") from error
    # Items without a size would be given one by NumPy, so their number counts as well.
    least = 0 if dtype.itemsize else prod(shape)
    if dtype.kind not in ARRAY_KINDS or len(data) != prod(shape) * dtype.itemsize or least > MAX_INLINE_BYTES:
        raise KnowledgeError(f"dtype, shape and bytes of an array literal do not agree: {text[:60]!r}")
    # An array of empty strings has items of no size, and any array may have no items: frombuffer refuses both.
    try:
        if not data:
            return numpy.zeros(shape, dtype)
        return numpy.frombuffer(data, dtype=dtype).reshape(shape).copy()
    except (ValueError, OverflowError, MemoryError) as error:
        raise KnowledgeError(f"an array literal has no shape that there can be ({error}): {text[:60]!r}") from error
