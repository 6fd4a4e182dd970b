"""A graph in words: its nodes in the order of a walk, where each may lead, and what forbids it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from grafico.calculations import Json

__all__ = ["graph_data", "graph_lines", "input_lines"]


def graph_data(graph: Any) -> dict[str, Json]:
    """Return a graph as JSON: nodes with parameters and successors, guards, and the schema of its request."""
    from grafico.graphs.node import describe

    request: type[BaseModel] | None = graph.request_type
    return {
        "id": graph.id,
        "version": graph.version,
        "description": graph.description,
        "starts": [cls.node_id for cls in graph.starts],
        "nodes": [
            {
                "id": cls.node_id,
                "description": describe(cls),
                "parameters": cls.model_json_schema().get("properties", {}),
                "successors": [successor.node_id for successor in plan.successors],
                "ends": plan.ends,
            }
            for cls, plan in graph.plans.items()
        ],
        "guards": [
            {
                "name": guard.name,
                "at": [cls.node_id for cls in guard.at],
                "removes": [cls.node_id for cls in guard.removes],
                "reason": guard.reason if isinstance(guard.reason, str) else "",
            }
            for guard in graph.guards
        ],
        "input": request.model_json_schema() if request is not None else None,
    }


def graph_lines(graph: Any) -> list[str]:
    """Return a graph for people, one node a line."""
    data = graph_data(graph)
    width = max(len(node["id"]) for node in data["nodes"])
    lines = [f"{graph.id} {graph.version}{f': {graph.description}' if graph.description else ''}"]
    for node in data["nodes"]:
        targets = [*node["successors"], *(["end"] if node["ends"] else [])]
        start = "▶" if node["id"] in data["starts"] else " "
        lines.append(f"  {start} {node['id']:<{width}} → {' | '.join(targets)}")
    for guard in data["guards"]:
        at = f" at {', '.join(guard['at'])}" if guard["at"] else ""
        lines.append(f"    guard '{guard['name']}'{at} forbids {', '.join(guard['removes'])}: {guard['reason']}")
    return lines


def input_lines(schema: Mapping[str, Json]) -> list[tuple[str, str, str, str]]:
    """Return the fields of a request: dotted name, type, default and description; nested models are opened."""
    return list(_fields(schema, schema.get("$defs", {}), ""))


def _fields(schema: Mapping[str, Json], known: Mapping[str, Json], prefix: str) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    required = set(schema.get("required", ()))
    for name, about in schema.get("properties", {}).items():
        kind, inner = _kind(about, known)
        default = "required" if name in required else _default(about.get("default"))
        rows.append((f"{prefix}{name}", kind, default, about.get("description", "")))
        # A model that holds itself ends somewhere.
        if inner is not None and prefix.count(".") < 3:
            rows += _fields(inner, known, f"{prefix}{name}{'[]' if kind.startswith('list') else ''}.")
    return rows


def _kind(about: Mapping[str, Json], known: Mapping[str, Json]) -> tuple[str, Mapping[str, Json] | None]:
    if "$ref" in about:
        inner = known.get(about["$ref"].rpartition("/")[2], {})
        return _kind(inner, known) if inner.get("type") != "object" else ("keys", inner)
    if "enum" in about:
        return " | ".join(str(value) for value in about["enum"]), None
    if "const" in about:
        return str(about["const"]), None
    for union in ("anyOf", "oneOf", "allOf"):
        if union in about:
            found = [_kind(member, known) for member in about[union] if member.get("type") != "null"]
            inner = next((model for _, model in found if model is not None), None)
            return " | ".join(dict.fromkeys(kind for kind, _ in found)), inner
    if about.get("type") == "array":
        kind, inner = _kind(about.get("items", {}), known)
        return f"list of {kind}", inner
    kind = str(about.get("type", "any"))
    return kind, about if "properties" in about else None


def _default(value: Json) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else "{…}" if isinstance(value, dict) and value else str(value)
