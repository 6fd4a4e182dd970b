"""What a server of one's own tells of how it holds a model: precision, context window, share on the GPU.

A model that is only partly on the GPU was the main cause of collapsed answers in "A 4B open-weights local model for
agentic DFT workflows" (Table 4), so that is said.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grafico.calculations import Json
from grafico.control.settings import ModelSettings

__all__ = ["Facts", "facts_of"]

WAIT_S = 2.0
LARGEST = 1_000_000


@dataclass(slots=True)
class Facts:
    """What was told."""

    told: dict[str, Json] = field(default_factory=dict)
    context: int | None = None
    warnings: list[str] = field(default_factory=list)


async def facts_of(settings: ModelSettings) -> Facts:
    """Ask a server; one that does not answer such questions has told nothing."""
    import asyncio

    if settings.api_base is None and not settings.ollama:
        return Facts()
    return await asyncio.to_thread(_ask, settings)


def _ask(settings: ModelSettings) -> Facts:
    root = (settings.api_base or "http://127.0.0.1:11434").removesuffix("/v1")
    facts = Facts()
    name = settings.model.partition("/")[2] or settings.model
    running = _get(f"{root}/api/ps")
    for model in running.get("models", []) if isinstance(running.get("models"), list) else []:
        if isinstance(model, Mapping) and name in {
            model.get("name"),
            str(model.get("name", "")).removesuffix(":latest"),
        }:
            _ollama(model, name, facts)
            return facts
    _llama_cpp(_get(f"{root}/props"), facts)
    return facts


def _ollama(model: Mapping[str, Any], name: str, facts: Facts) -> None:
    size, there = model.get("size"), model.get("size_vram")
    details = model.get("details")
    if isinstance(details, Mapping) and details.get("quantization_level"):
        facts.told["weights"] = str(details["quantization_level"])
    if isinstance(model.get("context_length"), int):
        facts.context = int(model["context_length"])
    if isinstance(size, int) and isinstance(there, int) and size > 0:
        share = min(1.0, there / size)
        facts.told["gpu_share"] = round(share, 3)
        if 0 < share < 1:
            facts.warnings.append(
                f"{name} is only partly on the GPU ({share:.0%}): answers may collapse; take a smaller or more quantized one"
            )


def _llama_cpp(props: Mapping[str, Any], facts: Facts) -> None:
    settings = props.get("default_generation_settings")
    if isinstance(settings, Mapping) and isinstance(settings.get("n_ctx"), int):
        facts.context = int(settings["n_ctx"])
    for ours, theirs in (("gpu_layers", "n_gpu_layers"), ("cache_k", "cache_type_k"), ("cache_v", "cache_type_v")):
        if isinstance(props.get(theirs), (int, str)):
            facts.told[ours] = props[theirs]
    path = props.get("model_path")
    if isinstance(path, str):
        facts.told["weights"] = path.replace("\\", "/").rpartition("/")[2]


def _get(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:  # noqa: S310 - http or https, as validated
            found = json.loads(answer.read(LARGEST))
    except (OSError, ValueError, urllib.error.URLError):
        return {}
    return found if isinstance(found, dict) else {}
