"""Values of the knowledge base as tables show them: numbers with their digits, arrays as arrays, lists in their order."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grafico.knowledge import QueryResult, Store, Term

__all__ = ["CELL", "cell", "in_order", "shortened"]

CELL = 70
DIGITS = 10
"""A total energy in hartree to the micro-hartree, and mostly much better."""
FEW = 8
"""Numbers that an array is written out with."""
MAX_ITEMS = 10_000

_ITEMS = """
SELECT DISTINCT ?run ?order ?cell ?value ?next WHERE { GRAPH ?run {
  ?s ?order ?head FILTER(STRENDS(STR(?order), ".order"))
  ?head rdf:rest* ?cell . ?cell rdf:first ?value ; rdf:rest ?next
} }"""


def cell(term: "Term | None", room: int = CELL) -> Any:
    """Return what stands in a table for a term; long text is cut to the room."""
    from grafico.knowledge import shorten
    from grafico.knowledge.vocabulary import GRAFICO

    if term is None:
        return None
    if term.type == "uri":
        return shorten(term.value)
    if term.datatype == f"{GRAFICO}ndarray":
        return _array(term.value)
    value = term.python()
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return shortened(value, room) if isinstance(value, str) else value


def shortened(text: str, room: int) -> str:
    """Return a text that is cut to the room."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def in_order(about: "QueryResult", knowledge: "Store", subject: "Term") -> list[tuple["Term", str, "Term"]]:
    """Return run, property and value of all that is said of a thing, with the items of lists in their order.

    In the graph, a list's items stand under its property in no order, and once each; ``….order`` refers to their list.
    """
    from grafico.knowledge.vocabulary import shorten

    rows = [(run, predicate, value) for run, predicate, value in about.rows if run and predicate and value]
    plain = [(run, shorten(predicate.value), value) for run, predicate, value in rows]
    if about.truncated or not any(predicate.value.endswith(".order") for _, predicate, _ in rows):
        return plain
    items = knowledge.query(_ITEMS, bind={"s": subject}, limit=MAX_ITEMS)
    if items.truncated:
        return plain
    cells = {cell.value: (value, after) for _, _, cell, value, after in items.rows if cell and value and after}
    lists: dict[tuple[str, str], list[Term]] = {}
    for run, predicate, value in rows:
        if predicate.value.endswith(".order"):
            found = lists.setdefault((run.value, predicate.value.removesuffix(".order")), [])
            # A list that bites its tail ends where each of its cells was seen.
            here, left = value.value, len(cells)
            while here in cells and left > 0:
                item, after = cells[here]
                found.append(item)
                here, left = after.value, left - 1
    told: list[tuple[Term, str, Term]] = []
    for run, predicate, value in rows:
        whole = lists.get((run.value, predicate.value))
        if whole:
            told += [(run, shorten(predicate.value), item) for item in whole]
            lists[run.value, predicate.value] = []
        elif whole is None and (run.value, predicate.value.removesuffix(".order")) not in lists:
            told.append((run, shorten(predicate.value), value))
        elif predicate.value.endswith(".order") and value.value.endswith("#nil"):
            told.append((run, shorten(predicate.value.removesuffix(".order")), value))
    return told


def _array(text: str) -> str:
    from grafico.errors import KnowledgeError
    from grafico.knowledge.arrays import decode_array

    try:
        array = decode_array(text)
    except KnowledgeError:
        return shortened(text, CELL)
    if array.ndim == 1 and array.size <= FEW and array.dtype.kind in "biuf":
        return f"[{', '.join(f'{value:.6g}' for value in array.tolist())}]"
    return f"{array.dtype} array, {' × '.join(map(str, array.shape)) or 'one number'}"
