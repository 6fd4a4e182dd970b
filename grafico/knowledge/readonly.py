"""The gate of queries: what may be asked of a store, decided by a parser.

A query passes if rdflib's SPARQL grammar reads it as SELECT, ASK, CONSTRUCT or DESCRIBE and its tree holds nothing
that reaches outside the store. The store's own parser might read a text differently, so the bare words are looked at
as well, by the token rules of the SPARQL grammar.
"""

import re
from collections.abc import Iterator
from typing import Any

from grafico.errors import QueryError
from grafico.knowledge.vocabulary import BASE, PREFIXES, XSD

__all__ = ["MAX_QUERY_CHARACTERS", "check_query", "with_values"]

MAX_QUERY_CHARACTERS = 50_000
MAX_NESTING = 60

_FORMS = {"SelectQuery": "select", "AskQuery": "ask", "ConstructQuery": "construct", "DescribeQuery": "describe"}

# Tokens in which a word is no keyword: IRIs, the four kinds of strings, comments, variables, prefixed names.
_TOKEN = re.compile(
    r"""
    (?P<iri><(?:[^<>"{}|^`\\\x00-\x20]|\\[uU][0-9A-Fa-f]+)*>)
  | (?P<string>\"\"\"(?:(?:\"|\"\")?(?:[^"\\]|\\.))*\"\"\"|'''(?:(?:'|'')?(?:[^'\\]|\\.))*'''
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
  | (?P<comment>\#[^\n\r]*)
  | (?P<variable>[?$]\w+)
  | (?P<prefixed>(?:[^\W\d_][\w.-]*)?:(?:[\w.:%-]|\\.)*|_:[\w.-]+)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<other>\s+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CHANGING = frozenset(("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY"))
_PROGRAMS = ("<java:", "<javascript:", "<bif:", "<sql:", "<js:")
_FIRST_WORDS = "SELECT, ASK, CONSTRUCT or DESCRIBE"
_ONLY_READ = "ask with SELECT, ASK, CONSTRUCT or DESCRIBE over what the knowledge base holds"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")


def check_query(text: str) -> str:
    """Return the form of a query that only reads: ``select``, ``ask``, ``construct`` or ``describe``.

    Raises
    ------
    QueryError
        The query is too long, does not parse, changes something, or reaches outside the store.
    """
    if not text.strip():
        raise QueryError("the query is empty", hint="try: SELECT ?m WHERE { ?m a chem:Molecule }")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise QueryError(f"the query has {len(text)} characters; at most {MAX_QUERY_CHARACTERS} are read")
    if "\x00" in text:
        raise QueryError("the query holds a NUL character")
    _refuse_disguises(text)
    _check_words(text)
    tree = _parse(text)
    _check_tree(tree)
    form = _FORMS.get(getattr(tree[1], "name", ""))
    if form is None:
        raise QueryError("only SELECT, ASK, CONSTRUCT and DESCRIBE are answered")
    return form


def with_values(text: str, values: str, *, form: str = "select") -> str:
    """Return a query that passed, with a VALUES clause first in the outermost group of its patterns."""
    groups = _groups(text)
    if form == "construct":
        # The first group is the template; CONSTRUCT WHERE { … } has no other, and no room for VALUES in it.
        groups = groups[1:]
    if not groups:
        if form in ("construct", "describe"):
            return f"{text}\n{values}"
        raise QueryError("the query has no group of patterns that a value could be bound in")
    opening, closing, first = groups[0]
    inside = text[opening:closing]
    # A subquery stands alone in its group.
    body = f" {{ {inside}\n }} " if first == "SELECT" else inside
    return f"{text[:opening]} {values} {body}{text[closing:]}"


def _groups(text: str) -> list[tuple[int, int, str]]:
    """Return where each outermost group of a query begins and ends, and its first word."""
    found: list[tuple[int, int, str]] = []
    opening, parentheses, depth, first = -1, 0, 0, ""
    for match in _TOKEN.finditer(text):
        mark = match[0] if match.lastgroup == "other" else ""
        if mark in ("(", ")"):
            parentheses += 1 if mark == "(" else -1
        elif mark == "{" and (depth or not parentheses):
            opening, first = (match.end(), "") if depth == 0 else (opening, first or mark)
            depth += 1
        elif mark == "}" and depth:
            depth -= 1
            if depth == 0:
                found.append((opening, match.start(), first))
        elif depth and not first and match.lastgroup != "comment" and match[0].strip():
            first = match[0].upper()
    return found


def _refuse_disguises(text: str) -> None:
    # SPARQL lets any character be written as \uXXXX before parsing; parsers differ on it, so ASCII may not hide there.
    for match in _ESCAPE.finditer(text):
        if int(match[1] or match[2], 16) < 0x80:
            raise QueryError(f"the query hides an ASCII character in {match[0]}", hint="write the character itself")


def _check_words(text: str) -> None:
    depth = 0
    for match in _TOKEN.finditer(text):
        # A parser without a scanner may read a keyword that is glued to another word.
        bare = match[0].upper().partition(":")[0] if match.lastgroup in ("word", "prefixed") else ""
        if "SERVICE" in bare:
            raise QueryError("SERVICE is refused: it asks another server", hint=_ONLY_READ)
        if match.lastgroup == "iri" and match[0].lower().startswith(_PROGRAMS):
            raise QueryError(f"{match[0][:60]} is refused: some servers run a program for it", hint=_ONLY_READ)
        if match.lastgroup == "word" and bare in _CHANGING:
            raise QueryError(f"{bare} is refused: it changes the store, and queries only read", hint=_ONLY_READ)
        if match.lastgroup == "other" and match[0] in "({[":
            depth += 1
            if depth > MAX_NESTING:
                raise QueryError(f"the query is nested more than {MAX_NESTING} levels deep")
        elif match.lastgroup == "other" and match[0] in ")}]":
            depth -= 1


def _parse(text: str) -> Any:
    from pyparsing.exceptions import ParseBaseException
    from rdflib.plugins.sparql.parser import parseQuery

    try:
        return parseQuery(text)
    except ParseBaseException as error:
        said = error.msg.replace("{SelectQuery | ConstructQuery | DescribeQuery | AskQuery}", _FIRST_WORDS)
        raise QueryError(
            f"the query does not parse: line {error.lineno}, column {error.column}: {said}",
            hint=_near(text, error.lineno, error.column),
        ) from error
    except RecursionError as error:
        raise QueryError("the query is nested too deeply") from error
    except Exception as error:
        raise QueryError(f"the query does not parse: {error}") from error


def _near(text: str, line: int, column: int) -> str | None:
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return None
    start = max(0, column - 1)
    return f"near: {lines[line - 1][start : start + 60].strip() or 'the end of the query'}"


def _nodes(tree: Any) -> Iterator[Any]:
    from rdflib.plugins.sparql.parserutils import CompValue

    pending, seen = [tree], set()
    while pending:
        node = pending.pop()
        if isinstance(node, str | bytes | int | float) or node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, CompValue):
            yield node
            pending.extend(node.values())
        elif isinstance(node, dict):
            pending.extend(node.values())
        else:
            try:
                pending.extend(node)
            except TypeError:
                continue


def _check_tree(tree: Any) -> None:
    prefixes = _prefixes(tree)
    for node in _nodes(tree):
        if node.name == "pname" and str(node.prefix or "") not in prefixes:
            raise QueryError(
                f"the prefix {node.prefix or ''}: stands for nothing",
                hint=f"declare it, PREFIX {node.prefix or ''}: <…>; these need no declaration: {', '.join(PREFIXES)}",
            )
        if node.name == "Function" and not _iri(node.iri, prefixes).startswith(XSD):
            # Some servers have functions that read files or run programs.
            raise QueryError(
                f"the function {str(_iri(node.iri, prefixes))[:100]} is refused: it is no part of SPARQL",
                hint="use SPARQL's own functions, and casts such as xsd:integer(?x)",
            )
        if node.name == "ServiceGraphPattern":
            raise QueryError("SERVICE is refused: it asks another server", hint=_ONLY_READ)
        if node.name == "DatasetClause":
            # CompValue.get() answers the key itself where it is missing.
            for source in (_iri(value, prefixes) for value in node.values()):
                # A server that looks addresses up resolves dots in them, which lead elsewhere.
                if not source.startswith(BASE) or "/." in source:
                    raise QueryError(
                        f"FROM <{source}> is refused: only graphs of the knowledge base can be read",
                        hint="leave FROM out; all runs are read together, or use GRAPH ?run { … }",
                    )


def _prefixes(tree: Any) -> dict[str, str]:
    found = dict(PREFIXES)
    for node in _nodes(tree[0]):
        if node.name == "PrefixDecl":
            found[str(node.prefix or "")] = str(node.iri)
    return found


def _iri(name: Any, prefixes: dict[str, str]) -> str:
    if getattr(name, "name", "") != "pname":
        return str(name)
    return prefixes.get(str(name.prefix or ""), "unknown:") + str(name.localname or "")
