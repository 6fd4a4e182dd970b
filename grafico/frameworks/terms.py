"""Names that people give, as terms of SPARQL: checked and escaped, so that none can become part of a query."""

from collections.abc import Iterable, Sequence

from grafico.atoms.elements import SYMBOLS
from grafico.errors import BadInput
from grafico.knowledge.mapper import scalar_term

__all__ = ["check_elements", "named_block", "values_clause"]


def values_clause(variable: str, texts: Iterable[str]) -> str:
    """Return a VALUES clause that lets a variable be one of some texts; nothing if there are none.

    Raises
    ------
    BadInput
        One of them can be no name.
    """
    terms = [scalar_term(_checked(text)) for text in dict.fromkeys(texts)]
    return f"VALUES ?{variable} {{ {' '.join(terms)} }}" if terms else ""


def named_block(variable: str, names: Sequence[str]) -> str:
    """Return a group that lets a variable be a building block with one of some names or identifiers; nothing if none.

    Raises
    ------
    BadInput
        One of them can be no name.
    """
    if not names:
        return ""
    name = f"{variable}Called"
    alike = f"{{ ?{variable} mof:identifier ?{name} }} UNION {{ [] mof:block ?{variable} ; mof:name ?{name} }}"
    return f"{{ SELECT DISTINCT ?{variable} {{ {values_clause(name, names)} {alike} }} }}"


def check_elements(symbols: Sequence[str]) -> Sequence[str]:
    """Return symbols of elements.

    Raises
    ------
    BadInput
        One of them is none.
    """
    wrong = [symbol for symbol in symbols if symbol not in SYMBOLS]
    if wrong:
        raise BadInput(f"no element: {', '.join(map(repr, wrong[:5]))}", hint="give symbols, such as Zr")
    return symbols


def _checked(text: str) -> str:
    if not (isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable() and "\\" not in text):
        raise BadInput(
            f"not a name: {str(text)[:80]!r}", hint="a name has 1 to 200 signs that can be printed, and no backslash"
        )
    return text
