"""What Slurm says of the nodes of a job: their names, and how many GPUs each gave to it. Text only."""

import itertools
import re

__all__ = ["expand", "gpus_by_node"]

_WORD = re.compile(r"(?:[^,\[\]]+|\[[^\]]*\])+")
_PART = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_GPUS = re.compile(r"\bgpu(?::[^:,()\s]+)?:(\d+)\(IDX:")


def expand(nodes: str) -> list[str]:
    """Return the names in a list of nodes such as ``gpu[01-03,7],login2``.

    Raises
    ------
    ValueError
        It is no such list.
    """
    found: list[str] = []
    for word in _WORD.findall(nodes.strip()):
        parts = [[m[2]] if m[1] is None else _numbers(m[1]) for m in _PART.finditer(word)]
        found += ["".join(name) for name in itertools.product(*parts)]
    if not found:
        raise ValueError(f"{nodes!r} is no list of nodes, such as n[1-4],m7")
    return found


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} is no range of nodes, such as 01-12")
        first, last = match[1], match[2] or match[1]
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def gpus_by_node(shown: str) -> dict[str, int]:
    """Return how many GPUs a job has on each of its nodes, from what ``scontrol show job --details`` prints."""
    counts: dict[str, int] = {}
    for line in shown.splitlines():
        match = re.match(r"\s*Nodes=(\S+) CPU_IDs=", line)
        if match is not None:
            gpus = sum(map(int, _GPUS.findall(line)))
            counts |= dict.fromkeys(expand(match[1]), gpus)
    return counts
