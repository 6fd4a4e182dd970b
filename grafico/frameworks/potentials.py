"""Machine-learned potentials by name, where their weights are, and what is missing of them; nothing is ever downloaded.

Light: no engine is imported, so that names are checked when a request is.

A name is one of

- a potential whose weights its package ships: ``7net-0``, ``7net-l3i5``, ``7net-mf-0`` (``7net-mf-0/R2SCAN`` for its
  other functional), ``chgnet``, ``chgnet-r2scan``;
- one whose weights somebody has put into the folder of potentials (``$GRAFICO_POTENTIALS``), under its name and with any
  ending: ``mace-mp``, ``mace-mof``, ``orb-v3``, ``mattersim``;
- a kind and a file: ``mace:/path/to/weights.model``, ``orb:``, ``mattersim:``, ``7net:`` and ``chgnet:`` likewise.

The last two may end in ``#`` and the first digits of the SHA-256 of the weights, which :func:`pin_potential` adds: a name
stands in the key of a calculation, and the content of a file that it points to would not.

Weights are read with ``torch.load``, which can run code: use files from those whom you would trust with a program.

Sources: SevenNet, Y. Park et al., J. Chem. Theory Comput. 20 (2024) 4857; CHGNet, B. Deng et al., Nat. Mach. Intell. 5
(2023) 1031; MACE, I. Batatia et al., arXiv:2401.00096; Orb-v3, B. Rhodes et al., arXiv:2504.06231; MatterSim, H. Yang et
al., arXiv:2405.04967.
"""

import difflib
import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from grafico.errors import BadInput, LevelError, MissingExtra

__all__ = [
    "DEFAULT",
    "NAMES",
    "Kind",
    "Potential",
    "batchable",
    "check_potential",
    "digest_of",
    "find_weights",
    "missing_package",
    "pin_potential",
    "potentials_folder",
]

Kind: TypeAlias = Literal["7net", "chgnet", "mace", "orb", "mattersim"]

DEFAULT = "7net-0"


class Engine(NamedTuple):
    """The package that evaluates potentials of one kind."""

    module: str
    distribution: str
    dtype: str
    """Precision of the forces; single precision where the weights are in single precision."""
    batched: bool
    """Whether torch-sim evaluates many structures at once with it."""


ENGINES: Mapping[Kind, Engine] = {
    "7net": Engine("sevenn", "sevenn", "float32", True),
    "chgnet": Engine("chgnet", "chgnet", "float32", False),
    "mace": Engine("mace", "mace-torch", "float64", True),
    "orb": Engine("orb_models", "orb-models", "float32", False),
    "mattersim": Engine("mattersim", "mattersim", "float32", False),
}

_SHIPPED: Mapping[str, tuple[Kind, str]] = {
    "7net-0": ("7net", "pretrained_potentials/SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth"),
    "7net-l3i5": ("7net", "pretrained_potentials/SevenNet_l3i5/checkpoint_l3i5.pth"),
    "7net-mf-0": ("7net", "pretrained_potentials/SevenNet_MF_0/checkpoint_sevennet_mf_0.pth"),
    "chgnet": ("chgnet", "pretrained/0.3.0/chgnet_0.3.0_e29f68s314m37.pth.tar"),
    "chgnet-r2scan": ("chgnet", "pretrained/r2scan/chgnet_r2scan_transfer_learning_e15f36s161m23.pth.tar"),
}
_ON_DISK: Mapping[str, Kind] = {"mace-mp": "mace", "mace-mof": "mace", "orb-v3": "orb", "mattersim": "mattersim"}
_MODALS: Mapping[str, tuple[str, ...]] = {"7net-mf-0": ("PBE", "R2SCAN")}
"""Functionals of those that were trained on several; the first is the default."""

NAMES: tuple[str, ...] = (*_SHIPPED, *_ON_DISK)
"""All names without a path; the weights of the first five come with their packages."""

_PIN = re.compile(r"^[0-9a-f]{8,64}$")


class Potential(NamedTuple):
    """A potential that exists, as far as its name tells."""

    name: str
    """As it is written in results: lower case but for paths, functionals in capitals."""
    kind: Kind
    shipped: str = ""
    """Weights within the package."""
    path: str = ""
    """Weights that the name itself points to."""
    modal: str | None = None
    pin: str = ""
    """First digits of the digest that the weights must have."""

    @property
    def engine(self) -> Engine:
        """The package that evaluates it."""
        return ENGINES[self.kind]

    @property
    def dtype(self) -> str:
        """``float32`` or ``float64``."""
        return self.engine.dtype

    @property
    def stem(self) -> str:
        """Its name without digest and functional, which is that of its file in the folder of potentials."""
        return self.name.partition("#")[0].partition("/")[0]


def check_potential(name: str) -> Potential:
    """Return what a name means, without looking for packages or weights.

    Raises
    ------
    LevelError
        There is no such potential; with the closest names.
    """
    text, mark, pin = name.strip().partition("#")
    if mark and not _PIN.match(pin):
        raise LevelError(
            f"{name!r}: after # come the first digits of the SHA-256 of the weights (8 to 64, in lower case), not {pin!r}"
        )
    kind, colon, path = text.partition(":")
    if colon:
        return _by_path(name, kind.lower(), path, pin)
    stem, slash, modal = text.partition("/")
    stem = stem.lower()
    if stem in _SHIPPED:
        chosen = _modal(stem, modal if slash else None)
        found, weights = _SHIPPED[stem]
        shown = f"{stem}/{chosen}" if chosen and chosen != _MODALS[stem][0] else stem
        return Potential(f"{shown}#{pin}" if pin else shown, found, shipped=weights, modal=chosen, pin=pin)
    if stem in _ON_DISK and not slash:
        return Potential(f"{stem}#{pin}" if pin else stem, _ON_DISK[stem], pin=pin)
    close = difflib.get_close_matches(stem, NAMES, n=3, cutoff=0.5) or [
        known for known in NAMES if known.startswith(stem[:4])
    ]
    hint = f"perhaps {', '.join(close)}; " if close else ""
    raise LevelError(
        f"there is no machine-learned potential {name!r}",
        hint=f"{hint}there are {', '.join(NAMES)}, or {', '.join(f'{kind}:PATH' for kind in ENGINES)}",
    )


def _by_path(name: str, kind: str, path: str, pin: str) -> Potential:
    if kind not in ENGINES:
        close = difflib.get_close_matches(kind, ENGINES, n=1, cutoff=0.4)
        raise LevelError(
            f"{name!r}: there is no kind of potential {kind!r}",
            hint=f"{f'perhaps {close[0]}:PATH; ' if close else ''}there are {', '.join(f'{k}:PATH' for k in ENGINES)}",
        )
    if not path or not Path(path).expanduser().is_absolute():
        raise LevelError(
            f"{name!r}: the weights are to be given by an absolute path, not {path!r}",
            hint="calculations run in folders of their own, perhaps on other machines",
        )
    shown = f"{kind}:{path}"
    return Potential(f"{shown}#{pin}" if pin else shown, kind, path=path, pin=pin)  # type: ignore[arg-type]


def _modal(stem: str, given: str | None) -> str | None:
    known = _MODALS.get(stem, ())
    if given is None:
        return known[0] if known else None
    for modal in known:
        if modal.lower() == given.lower():
            return modal
    choices = f"write {' or '.join(f'{stem}/{modal}' for modal in known)}" if known else f"write {stem!r} alone"
    raise LevelError(f"{stem} has no functional {given!r}", hint=choices)


def batchable(model: str, optimizer: str = "fire") -> bool:
    """Return whether many structures can be relaxed at once with it: torch-sim knows its kind, and the optimizer."""
    return check_potential(model).engine.batched and optimizer == "fire"


def potentials_folder() -> Path:
    """Return the folder where weights are looked for by name: ``$GRAFICO_POTENTIALS``, else the user's data folder."""
    given = os.environ.get("GRAFICO_POTENTIALS")
    if given:
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path("~/.local/share").expanduser()) / "grafico" / "potentials"


def missing_package(potential: Potential) -> str:
    """Return what to install where its package is not here; empty if it is."""
    engine = potential.engine
    if importlib.util.find_spec(engine.module) is not None:
        return ""
    extra = " (it comes with grafico[mlip])" if potential.shipped else ""
    return f"pip install {engine.distribution}{extra}"


def find_weights(potential: Potential) -> Path:
    """Return the file that holds its weights, here and now.

    Raises
    ------
    MissingExtra
        Its package is not installed, or no weights are in the folder of potentials; says what to put where.
    LevelError
        The path that the name gives is no file, or the file is not the one that was pinned.
    """
    install = missing_package(potential)
    if potential.path:
        found = Path(potential.path).expanduser()
        if not found.is_file():
            raise LevelError(
                f"{potential.name}: there are no weights at {found}", hint="put the file there; nothing is downloaded"
            )
    elif potential.shipped:
        found = _in_package(potential, install)
    else:
        found = _in_folder(potential, install)
    if install:
        raise MissingExtra(f"{potential.name} needs {potential.engine.distribution}, not installed here", hint=install)
    if potential.pin and not digest_of(found).startswith(potential.pin):
        raise LevelError(
            f"{potential.name}: the weights at {found} have the SHA-256 {digest_of(found)}, and not {potential.pin}",
            hint="they are other weights than the ones that were asked for: put those there, or change the name",
        )
    return found


def _in_package(potential: Potential, install: str) -> Path:
    spec = None if install else importlib.util.find_spec(potential.engine.module)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise MissingExtra(f"{potential.name} needs {potential.engine.distribution}, not installed here", hint=install)
    for place in places:
        found = Path(place) / potential.shipped
        if found.is_file():
            return found
    raise MissingExtra(
        f"{potential.engine.distribution} is installed without the weights {potential.shipped}",
        hint="another version of the package may have moved them: pip install 'grafico[mlip]'",
    )


def _in_folder(potential: Potential, install: str) -> Path:
    folder = potentials_folder()
    files = sorted(file for file in folder.glob(f"{potential.stem}.*") if file.is_file()) if folder.is_dir() else []
    files += [folder / potential.stem] if (folder / potential.stem).is_file() else []
    if len(files) == 1:
        return files[0]
    if files:
        raise MissingExtra(
            f"{potential.name}: {folder} has several weights of that name: {', '.join(file.name for file in files)}",
            hint=f"keep one, or write {potential.kind}:PATH",
        )
    also = f" and {install}" if install else ""
    raise MissingExtra(
        f"{potential.name}: its weights come with no package, and are not in {folder}",
        hint=f"put them there as {potential.stem}.model (any ending; $GRAFICO_POTENTIALS names another folder), or write "
        f"{potential.kind}:/path/to/the/file{also}; nothing is downloaded",
    )


def pin_potential(name: str) -> str:
    """Return the name with the digest of its weights, where these come with no package and are on this machine.

    Done when a request is made, a result that was obtained with other weights is never taken for this one's.

    Raises
    ------
    LevelError
        There is no such potential, or no such file.
    """
    potential = check_potential(name)
    if potential.shipped or potential.pin:
        return potential.name
    try:
        weights = find_weights(potential)
    except LevelError:
        raise
    except BadInput:
        return potential.name  # its weights may be where it is run
    return f"{potential.name}#{digest_of(weights)[:16]}"


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits; computed once for a file that stays as it is."""
    about = file.stat()
    return _digest(str(file), about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _digest(path: str, size: int, changed: int) -> str:  # noqa: ARG001 - both tell one content from another
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
