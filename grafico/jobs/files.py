"""The files that a request names: relative to the job file, and copied into the run.

A field of a request model names a file when its type is :class:`pathlib.Path`, or when it is text declared with
``json_schema_extra={"format": "path"}``.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from grafico.errors import JobError
from grafico.jobs.document import Document, Place
from grafico.jobs.problems import dotted, shortened

__all__ = ["check_files", "copy_files", "expanded", "files_of", "freeze_files", "rename_files", "resolve_files"]

RequestT = TypeVar("RequestT", bound=BaseModel)


def files_of(request: BaseModel, place: Place = ()) -> Iterator[tuple[Place, Path]]:
    """Yield the place and path of each file that a request names."""
    for name, field in type(request).model_fields.items():
        value = getattr(request, name)
        if _names_file(field, value):
            yield (*place, name), Path(value)
        else:
            yield from _inside(value, (*place, name))


def _inside(value: object, place: Place) -> Iterator[tuple[Place, Path]]:
    if isinstance(value, BaseModel):
        yield from files_of(value, place)
    elif isinstance(value, Path):
        yield place, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _inside(item, (*place, index))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(item, (*place, key))


def _names_file(field: FieldInfo, value: object) -> bool:
    if isinstance(value, Path):
        return True
    extra = field.json_schema_extra
    return isinstance(value, str) and isinstance(extra, dict) and extra.get("format") == "path"


def resolve_files(request: RequestT, base: Path) -> RequestT:
    """Return the request with relative paths taken from ``base``."""
    return _mapped(request, lambda path: base / expanded(path))


def expanded(path: Path) -> Path:
    """Return a path with ``~`` spelled out; as it is where there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def check_files(request: BaseModel, document: Document, prefix: Place = ("input",)) -> None:
    """Refuse files that are not there, before anything is created.

    Raises
    ------
    JobError
        Names the file, its line in the job file, and the nearest file that is there.
    """
    for place, path in files_of(request, prefix):
        spot = ", ".join(part for part in (document.position(place), dotted(place)) if part)
        try:
            is_folder, is_file = path.is_dir(), path.is_file()
        except OSError as error:  # a name that is too long, or a folder that may not be looked into
            raise JobError(
                f"{document.where}, {spot}: {shortened(str(path), 200)} cannot be read: {error.strerror}"
            ) from None
        if is_folder:
            raise JobError(f"{document.where}, {spot}: {path} is a directory", hint="name a file in it")
        if not is_file:
            near = _nearest(path)
            raise JobError(
                f"{document.where}, {spot}: there is no file {path}",
                hint=f"did you mean {near}?" if near else "paths are relative to the job file",
            )


def _nearest(path: Path) -> str | None:
    try:
        names = [item.name for item in path.parent.iterdir() if item.is_file()]
    except OSError:
        return None
    close = get_close_matches(path.name, names, n=1)
    return close[0] if close else None


def freeze_files(request: RequestT, folder: str) -> tuple[RequestT, dict[str, Path]]:
    """Return the request with its files renamed into a folder of the run, and where each comes from.

    A run then holds all that it was asked, and may be moved.

    Parameters
    ----------
    folder
        Folder of the copies, relative to the run's.

    Returns
    -------
    The request, whose paths are relative to the run's folder, and the original of each of these paths.
    """
    names: dict[Path, str] = {}
    return rename_files(request, folder, names), {name: path for path, name in names.items()}


def rename_files(request: RequestT, folder: str, names: dict[Path, str]) -> RequestT:
    """Return the request with its files renamed into a folder of the run; ``names`` holds each name that was given."""

    def keep(path: Path) -> Path:
        name = names.setdefault(path, f"{folder}/{len(names) + 1}-{path.name}")
        return Path(name)

    return _mapped(request, keep)


def copy_files(originals: Mapping[str, Path], root: Path) -> None:
    """Copy what :func:`freeze_files` named into the run's folder ``root``."""
    for name, path in originals.items():
        target = root / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _mapped(model: RequestT, change: Callable[[Path], Path]) -> RequestT:
    update: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, str) and _names_file(field, value):
            update[name] = str(change(Path(value)))
        else:
            changed = _changed(value, change)
            if changed is not value:
                update[name] = changed
    return model.model_copy(update=update) if update else model


def _changed(value: Any, change: Callable[[Path], Path]) -> Any:
    if isinstance(value, BaseModel):
        return _mapped(value, change)
    if isinstance(value, Path):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [_changed(item, change) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if isinstance(value, Mapping):
        changed = {key: _changed(item, change) for key, item in value.items()}
        return value if all(changed[key] is value[key] for key in value) else changed
    return value
