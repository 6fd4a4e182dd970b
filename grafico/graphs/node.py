"""A node: a frozen model whose fields are the parameters of the route that leads to it."""

import hashlib
import inspect
import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_graph import End

from grafico.calculations import Json
from grafico.graphs.state import GraphState

__all__ = [
    "AnyNode",
    "Node",
    "describe",
    "parameters_of",
    "required_parameters",
    "result_type_of",
    "source_of",
    "state_type_of",
]

LOADED = time.time()
"""When this process loaded its code, in seconds since the epoch."""

StateT = TypeVar("StateT", bound=GraphState)
ResultT = TypeVar("ResultT")

if TYPE_CHECKING:
    from grafico.graphs.context import Context

    DepsT = TypeVar("DepsT")

    class BaseNode(Generic[StateT, DepsT, ResultT]):
        """Hides pydantic-graph's ``run(ctx: GraphRunContext)`` from type checkers: ours is given a Context."""
else:
    from pydantic_graph import BaseNode


class Node(BaseModel, BaseNode[StateT, Any, ResultT], Generic[StateT, ResultT]):
    """One step of a graph: ``class TDDFT(Node[State, Result])``.

    Its fields are parameters that a route may set; a field without default is an open parameter. Its
    docstring's first paragraph is what a router reads about it. Its successors are what ``run``'s return
    annotation resolves to, or ``next_nodes`` where that is declared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: ClassVar[str] = "Node"
    """Stands in journals: declared, or the class's name. Changing it breaks the replay of old runs."""
    next_nodes: ClassVar[Any] = None
    """Successors of a node that asks for output and route at once: a tuple of classes, or an annotation."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Give a class without a declared id its own name."""
        super().__pydantic_init_subclass__(**kwargs)
        if "node_id" not in cls.__dict__ and not cls.__pydantic_generic_metadata__["args"]:
            cls.node_id = cls.__name__

    @classmethod
    def get_node_id(cls) -> str:
        """Return the id under which pydantic-graph knows the node."""
        return cls.node_id

    @abstractmethod
    async def run(self, ctx: "Context[StateT]") -> "Node[StateT, Any] | End[ResultT] | None":
        """Do the step's work and return its successor, or ``End(result)``."""

    def rule(self, state: StateT) -> "Node[StateT, Any] | None":  # noqa: ARG002
        """Return the successor that the job asked for, with its parameters; ``None`` where it says nothing."""
        return None


AnyNode = Node[Any, Any]


def _node_arguments(cls: type[AnyNode]) -> tuple[Any, Any]:
    for base in cls.__mro__:
        metadata = getattr(base, "__pydantic_generic_metadata__", None)
        if metadata and metadata["origin"] is Node:
            state, result = metadata["args"]
            return state, result
    return Any, Any


def state_type_of(cls: type[AnyNode]) -> Any:
    """Return the state type that a node class was declared with."""
    return _node_arguments(cls)[0]


def result_type_of(cls: type[AnyNode]) -> Any:
    """Return the result type that a node class was declared with."""
    return _node_arguments(cls)[1]


def describe(cls: type[AnyNode]) -> str:
    """Return the first paragraph of a node's docstring, on one line."""
    doc = inspect.cleandoc(cls.__doc__ or "") if cls.__doc__ != Node.__doc__ else ""
    return " ".join(doc.split("\n\n", 1)[0].split())


def required_parameters(cls: type[AnyNode]) -> tuple[str, ...]:
    """Return the names of the parameters without a default."""
    return tuple(name for name, field in cls.model_fields.items() if field.is_required())


def parameters_of(node: AnyNode) -> Mapping[str, Json]:
    """Return a node's parameters as JSON."""
    return node.model_dump(mode="json") if type(node).model_fields else {}


@cache
def source_of(cls: type[AnyNode]) -> str:
    """Return a digest of a node's code and of the nodes that it inherits from; empty where it cannot be known.

    Comments and blank lines do not count. A file that was edited since this process started says nothing about the code
    that runs.
    """
    digest = hashlib.sha256()
    for base in cls.__mro__:
        origin = getattr(base, "__pydantic_generic_metadata__", {}).get("origin")
        if Node in (base, origin):
            break
        if origin is not None:
            continue  # a generic base with its arguments: what was written stands further on
        try:
            if Path(inspect.getfile(base)).stat().st_mtime > LOADED:
                return ""
            lines = inspect.getsource(base).splitlines()
        except (OSError, TypeError):
            return ""
        code = (line.rstrip() for line in lines)
        digest.update("\n".join(line for line in code if line and not line.lstrip().startswith("#")).encode())
    return digest.hexdigest()[:16]
