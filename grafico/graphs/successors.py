"""Successors from types: what the return annotation of a node's ``run`` resolves to."""

import ast
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic_graph import Edge, End

from grafico.errors import GraphDefinitionError
from grafico.graphs.node import AnyNode, Node, result_type_of

__all__ = ["Successors", "successors_of"]


@dataclass(frozen=True)
class Successors:
    """The declared successors of a node class, in the order of the annotation."""

    nodes: tuple[type[AnyNode], ...]
    ends: bool
    """Whether the walk may end here."""
    labels: Mapping[str, str]
    """Edge labels, from ``Annotated[Successor, Edge("label")]``, by node id."""
    annotation: str
    """The annotation as people wrote it, for messages."""


_cache: WeakKeyDictionary[type[AnyNode], dict[tuple[type[AnyNode], ...] | None, Successors]] = WeakKeyDictionary()


def successors_of(cls: type[AnyNode], *, known: tuple[type[AnyNode], ...] = ()) -> Successors:
    """Return the declared successors of a node class; resolved once and cached.

    Parameters
    ----------
    cls
        The node class.
    known
        Nodes of the graph, by whose class names forward references are resolved that the node's module
        does not know (classes defined inside functions).

    Raises
    ------
    GraphDefinitionError
        A missing annotation, a name that means nothing, something that is no node, or a successor twice.
    """
    cached = _cache.setdefault(cls, {})
    for key in (None, known):
        if key in cached:
            return cached[key]
    hint = _declared(cls)
    try:
        found = _resolve(cls, hint, {})
        cached[None] = found
    except NameError:
        names = {node.__name__: node for node in known}
        try:
            found = _resolve(cls, hint, names)
        except NameError as error:
            raise GraphDefinitionError(
                f"{_place(cls, hint)}: {error}; it names no class of the node's module and no node of the graph",
                hint="import the successor there, or add it to the graph's nodes",
            ) from None
        cached[known] = found
    return found


def _declared(cls: type[AnyNode]) -> Any:
    if cls.next_nodes is not None:
        return cls.next_nodes
    annotations = getattr(cls.run, "__annotations__", {})
    if cls.run is Node.run or "return" not in annotations:
        raise GraphDefinitionError(
            f"node {cls.node_id}: run() has no return annotation, so its successors are unknown",
            hint="write `async def run(self, ctx: ...) -> Successor | End[Result]`",
        )
    return annotations["return"]


def _resolve(cls: type[AnyNode], hint: Any, names: Mapping[str, Any]) -> Successors:
    nodes: list[type[AnyNode]] = []
    labels: dict[str, str] = {}
    ends = 0
    for leaf, label in _leaves(cls, hint, names, None, ()):
        if leaf is type(None):
            continue
        origin = get_origin(leaf) or leaf
        if origin is End:
            ends += 1
            _check_result(cls, hint, leaf)
            continue
        if not _is_node(origin):
            raise GraphDefinitionError(
                f"{_place(cls, hint)}: {_show(leaf)} is no node",
                hint="a successor is a concrete subclass of Node, or End[Result]",
            )
        if origin in nodes:
            raise GraphDefinitionError(f"{_place(cls, hint)}: successor {origin.node_id} is declared twice")
        if label:
            labels[origin.node_id] = label
        nodes.append(origin)
    if ends > 1:
        raise GraphDefinitionError(f"{_place(cls, hint)}: End is declared twice")
    if not nodes and not ends:
        raise GraphDefinitionError(f"{_place(cls, hint)}: there is no successor in it and no End")
    return Successors(tuple(nodes), bool(ends), labels, _show(hint))


def _is_node(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, Node) and candidate.run is not Node.run


def _check_result(cls: type[AnyNode], hint: Any, end: Any) -> None:
    declared, (promised,) = result_type_of(cls), get_args(end) or (Any,)
    if not isinstance(declared, type) or not isinstance(promised, type) or issubclass(promised, declared):
        return
    raise GraphDefinitionError(
        f"{_place(cls, hint)}: End[{promised.__name__}] does not match the node's declared result {declared.__name__}"
    )


def _leaves(
    cls: type[AnyNode], hint: Any, names: Mapping[str, Any], label: str | None, inside: tuple[Any, ...]
) -> Iterator[tuple[Any, str | None]]:
    """Yield the members of an annotation, through every union, alias, reference and ``Annotated``."""
    if isinstance(hint, str | typing.ForwardRef):
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        if text in inside:
            raise GraphDefinitionError(f"{_place(cls, text)}: the alias refers to itself")
        for part in _parts(text):
            yield from _leaves(cls, _evaluate(cls, part, names), names, label, (*inside, text))
    elif isinstance(hint, tuple | list):
        for member in hint:
            yield from _leaves(cls, member, names, label, inside)
    elif get_origin(hint) is Annotated:
        member, *extras = get_args(hint)
        for extra in extras:
            if isinstance(extra, Edge):
                label = extra.label
        yield from _leaves(cls, member, names, label, inside)
    elif get_origin(hint) in {typing.Union, types.UnionType}:
        for member in get_args(hint):
            yield from _leaves(cls, member, names, label, inside)
    elif (alias := _alias_value(hint)) is not None:
        if any(hint is seen for seen in inside):
            raise GraphDefinitionError(f"{_place(cls, hint)}: the alias refers to itself")
        yield from _leaves(cls, alias, names, label, (*inside, hint))
    else:
        yield hint, label


def _parts(text: str) -> list[str]:
    """Split ``A | B`` as written, for an alias that is itself a string cannot be an operand of ``|``."""
    try:
        pending: list[ast.expr] = [ast.parse(text.strip(), mode="eval").body]
    except SyntaxError:
        return [text]
    parts: list[str] = []
    while pending:
        part = pending.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
            pending += [part.right, part.left]
        else:
            parts.append(ast.unparse(part))
    return parts


def _alias_value(hint: Any) -> Any:
    """Return what a PEP 695 alias (``type X = …``, or the one of typing_extensions) stands for."""
    origin = get_origin(hint)
    alias = hint if origin is None else origin
    if isinstance(alias, type) or not hasattr(alias, "__value__") or not hasattr(alias, "__type_params__"):
        return None
    value = alias.__value__
    parameters = getattr(value, "__parameters__", ())
    if origin is None or not parameters:
        return value
    arguments = dict(zip(alias.__type_params__, get_args(hint), strict=True))
    return value[tuple(arguments.get(parameter, parameter) for parameter in parameters)]


def _evaluate(cls: type[AnyNode], text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate a forward reference where ``run`` was written, then among ``names``."""
    holder = types.SimpleNamespace(__annotations__={"return": text})
    scope = dict(getattr(cls.run, "__globals__", {}))
    try:
        return typing.get_type_hints(holder, scope, dict(names), include_extras=True)["return"]
    except NameError:
        raise
    except Exception as error:
        raise GraphDefinitionError(f"{_place(cls, text)}: cannot be read: {error}") from error


def _place(cls: type[AnyNode], hint: Any) -> str:
    return f"node {cls.node_id}: successors `{_show(hint)}`"


def _show(hint: Any) -> str:
    if isinstance(hint, str):
        return hint
    if isinstance(hint, typing.ForwardRef):
        return hint.__forward_arg__
    if isinstance(hint, tuple | list):
        return ", ".join(_show(member) for member in hint)
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint)
