"""What a calculation is given while it runs, beside its input."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from grafico.calculations.outcomes import ArtifactRef, Json
from grafico.errors import GraficoError

__all__ = ["Artifacts", "WorkContext"]


class Artifacts(Protocol):
    """Where the files of a run are kept, by digest."""

    def put(self, data: bytes, media_type: str) -> ArtifactRef:
        """Store ``data``; storing the same bytes again is free."""
        ...

    def path(self, ref: ArtifactRef) -> Path:
        """Return the file's path; the caller must not write to it."""
        ...


@dataclass
class WorkContext:
    """What a calculation is given beside its input.

    Nothing in it may change the meaning of the result: it is not part of the key.
    """

    artifacts: Artifacts
    scratch: Path
    """An empty folder that is removed afterwards."""
    threads: int = 1
    device: str = "cpu"
    """``cpu``, or ``gpu`` when this process was given one."""
    gpu_memory_mib: int = 0
    memory_mib: int = 2048
    settings: Mapping[str, Json] = field(default_factory=dict)
    """What the recovery ladder changed for this attempt."""
    hints: Mapping[str, ArtifactRef] = field(default_factory=dict)
    """Optional aids, such as a wavefunction for an initial guess."""
    versions: dict[str, str] = field(default_factory=dict)
    """Engine and library versions, filled in by :meth:`used`."""
    reused_hints: list[str] = field(default_factory=list)

    def used(self, **versions: str) -> None:
        """Record the versions of the engines and libraries that were used."""
        self.versions.update(versions)

    def save_array(self, array: Any) -> ArtifactRef:
        """Store a NumPy array (``.npy``, no pickles) and return its reference."""
        import io

        import numpy

        buffer = io.BytesIO()
        numpy.save(buffer, numpy.ascontiguousarray(array), allow_pickle=False)
        return self.artifacts.put(buffer.getvalue(), "application/x-npy")

    def load_array(self, ref: ArtifactRef) -> Any:
        """Load an array that :meth:`save_array` stored."""
        import numpy

        return numpy.load(self.artifacts.path(ref), allow_pickle=False)

    def hint_array(self, name: str) -> Any | None:
        """Return the array of a hint and record its use; ``None`` if it is absent or unreadable."""
        ref = self.hints.get(name)
        if ref is None:
            return None
        try:
            array = self.load_array(ref)
        except (OSError, ValueError, EOFError, GraficoError):  # the last one from a run whose artifact is gone
            return None
        self.reused_hints.append(name)
        return array
