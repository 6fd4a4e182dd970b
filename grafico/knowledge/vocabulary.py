"""Namespaces, identifiers and the N-Triples form of terms."""

import re
from decimal import Context, Decimal
from functools import lru_cache

from grafico.errors import KnowledgeError, QueryError

__all__ = [
    "DCTERMS",
    "GRAFICO",
    "ID",
    "OWL",
    "PREFIXES",
    "PROV",
    "QUDT",
    "RDF",
    "RDFS",
    "RUN",
    "SCHEMA",
    "SH",
    "UNIT",
    "XSD",
    "check_iri",
    "decimal_text",
    "expand",
    "integer_text",
    "iri_term",
    "literal_term",
    "shorten",
]

BASE = "https://w3id.org/grafico/"
GRAFICO = BASE + "core#"
ID = BASE + "id/"
"""Entities whose IRI is derived or minted."""
RUN = BASE + "run/"
"""Runs; also the names of their graphs."""
SCHEMA = BASE + "schema/"
"""Graphs that hold the classes and properties of a version of the models, named by digest."""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
SH = "http://www.w3.org/ns/shacl#"
DCTERMS = "http://purl.org/dc/terms/"
QUDT = "http://qudt.org/schema/qudt/"
UNIT = "http://qudt.org/vocab/unit/"

PREFIXES = {
    "grafico": GRAFICO,
    "chem": BASE + "chemistry#",
    "mof": BASE + "frameworks#",
    "run": RUN,
    "id": ID,
    "rdf": RDF,
    "rdfs": RDFS,
    "owl": OWL,
    "xsd": XSD,
    "prov": PROV,
    "dcterms": DCTERMS,
    "qudt": QUDT,
    "unit": UNIT,
}
"""Prefixes that a query may use without declaring them."""

# IRIREF of the N-Triples grammar, made absolute, and with whole percent escapes only.
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[^\x00-\x20<>\"{}|^`\\%\ud800-\udfff]|%[0-9A-Fa-f]{2})+")
# Plain ones, of which no parser could think otherwise.
_SURE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?=[/?#]|\Z)|(?!//))"
    r"[^#\[\]\x7f-\U0010ffff]*(?:#[^#\[\]\x7f-\U0010ffff]*)?"
)
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)}
_ESCAPES.update(
    {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x08: "\\b", 0x0C: "\\f"}
)


def check_iri(text: str) -> str:
    """Return ``text`` if it is an absolute IRI.

    Raises
    ------
    QueryError
        It is none: a relative one, or one with spaces, quotes, braces or angle brackets.
    """
    if (
        not isinstance(text, str)
        or len(text) > 2000
        or not _IRI.fullmatch(text)
        or not (_SURE.fullmatch(text) or _is_read_back(text))
    ):
        raise QueryError(
            f"not an absolute IRI: {str(text)[:200]!r}",
            hint="an IRI reads like https://example.org/thing, without spaces, quotes, braces or angle brackets",
        )
    return text


@lru_cache(4096)
def _is_read_back(iri: str) -> bool:
    # Hosts, ports, brackets and rare signs have rules of their own; what the store could not read must not be written.
    import pyoxigraph

    text = f"<{iri}> <{iri}> <{iri}> ."
    try:
        return bool(list(pyoxigraph.parse(input=text.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)))
    except (SyntaxError, ValueError):
        return False


def iri_term(iri: str) -> str:
    """Return the N-Triples form of a checked IRI."""
    return f"<{iri}>"


def literal_term(text: str, datatype: str | None = None) -> str:
    """Return the N-Triples form of a literal; ``None`` means a plain string."""
    escaped = text.translate(_ESCAPES)
    return f'"{escaped}"^^<{datatype}>' if datatype else f'"{escaped}"'


def decimal_text(value: Decimal) -> str:
    """Return the one text of a decimal number's value, whatever zeros it was written with."""
    if not value:
        return "0"
    # Exact: the usual context would round to 28 digits.
    return f"{value.normalize(Context(prec=max(1, len(value.as_tuple().digits)))):f}"


def integer_text(value: int) -> str:
    """Return the digits of a whole number.

    Raises
    ------
    KnowledgeError
        It has more of them than Python reads or writes.
    """
    try:
        return str(int(value))
    except ValueError as error:
        raise KnowledgeError(
            f"a whole number of {value.bit_length()} bits has too many digits",
            hint="keep it as bytes, or as text in hexadecimal digits",
        ) from error


def expand(text: str) -> str:
    """Return the IRI of ``prefix:name``, or ``text`` itself where no known prefix is named."""
    prefix, colon, name = text.strip().removeprefix("<").removesuffix(">").partition(":")
    return PREFIXES[prefix] + name if colon and prefix in PREFIXES else prefix + colon + name


def shorten(iri: str) -> str:
    """Return ``prefix:name`` where one of the known prefixes fits, else the IRI."""
    best = max(((p, n) for p, n in PREFIXES.items() if iri.startswith(n)), key=lambda pair: len(pair[1]), default=None)
    return f"{best[0]}:{iri[len(best[1]) :]}" if best else iri
