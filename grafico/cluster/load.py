"""Reading profiles: by name or by path, each mistake answered with what, where and what to do."""

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grafico.calculations import Model
from grafico.cluster.builtin import BUILTIN
from grafico.cluster.pool import Pool
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.settings import TEXTS, ControllerSettings, Scale, SlurmSettings
from grafico.errors import ProfileError

__all__ = ["BUILTIN", "known_profiles", "load_profile"]

FOLDER = Path("cluster")
DEEPEST = 10
EXAMPLE = (
    "a whole profile: `pools: [{name: cpu, cpus: 4, memory_mib: 8000}]`; `grafico doctor` tells what this machine has"
)
FIELDS = f"keys of a profile: {', '.join(Profile.model_fields)}; of each of its pools: {', '.join(Pool.model_fields)}"
SECTIONS: dict[str, type[Model]] = {
    "pools": Pool, "slurm": SlurmSettings, "controller": ControllerSettings, "scale": Scale
}  # fmt: skip
"""Which model a part of a location stands for; Pydantic names `hosts: {min, max}` by its tag."""
MODELS: tuple[type[Model], ...] = (Profile, *SECTIONS.values())
KEYS = frozenset(name for model in MODELS for name in model.model_fields)
LARGEST = 256 * 1024
"""Bytes of the largest profile that is read; a real one has a few hundred."""


def known_profiles() -> list[str]:
    """Return the names that :func:`load_profile` takes here: built-in ones, and files in ``./cluster``."""
    files = {path.stem for path in FOLDER.glob("*.yaml")} if FOLDER.is_dir() else set()
    return sorted(files | set(BUILTIN))


def load_profile(name_or_path: str) -> Profile:
    """Return a profile by name (built in, or ``./cluster/NAME.yaml``) or by the path of a YAML file.

    Raises
    ------
    ProfileError
        There is no such profile, or the file is none; says what was expected, where, and what to do.
    """
    text = str(name_or_path)
    looks_like_path = "/" in text or text.endswith((".yaml", ".yml"))
    if not looks_like_path and "\0" not in text:
        local = FOLDER / f"{text}.yaml"
        if local.is_file():
            return read_profile(local)
        if text in BUILTIN:
            return BUILTIN[text]
    if not looks_like_path or "\0" in text:
        known = known_profiles()
        close = difflib.get_close_matches(text, known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ProfileError(
            f"no cluster profile {text[:100]!r}",
            hint=f"{meant}known here: {', '.join(known)}; or give the path of a YAML file",
        )
    return read_profile(Path(text).expanduser())


def read_profile(path: Path) -> Profile:
    """Read and validate one profile file; its name is the file's unless it says otherwise."""
    data = _parse(path, _read(path))
    if not isinstance(data, dict):
        what = "nothing" if data is None else f"a {type(data).__name__}"
        raise ProfileError(f"{path}: expected a mapping with `pools`, found {what}", hint=EXAMPLE)
    data.setdefault("name", path.stem)
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        raise ProfileError(f"{path}: {_explain(error)}", hint=FIELDS) from None


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise ProfileError(f"{path} is a folder, not a cluster profile", hint="give a YAML file in it")
        if path.stat().st_size > LARGEST:
            raise ProfileError(f"{path} has {path.stat().st_size} bytes: too large for a cluster profile")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ProfileError(
            f"no cluster profile at {path}", hint=f"known here by name: {', '.join(known_profiles())}"
        ) from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8") from None
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror or error}") from None


def _parse(path: Path, text: str) -> Any:
    import yaml

    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ProfileError(f"{path}: line {_line(event)}: nested too deeply for a cluster profile")
            if isinstance(event, yaml.AliasEvent):
                raise ProfileError(f"{path}: line {_line(event)}: aliases (*name) are not allowed here")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _no_duplicates(path, node)
        _as_written(node)
        return None if node is None else yaml.constructor.SafeConstructor().construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ProfileError(
            f"{path}: {where}{error.problem or 'not YAML'}", hint="check indentation and colons"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ProfileError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _no_duplicates(path: Path, node: Any) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ProfileError(f"{path}: line {key.start_mark.line + 1}: {key.value!r} is given twice")
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
            _no_duplicates(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _no_duplicates(path, item)


def _as_written(node: Any) -> None:
    """Have the values of some keys read as text whatever they look like."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value in TEXTS and isinstance(value, yaml.ScalarNode) and not value.tag.endswith(":null"):
                value.tag = "tag:yaml.org,2002:str"
            _as_written(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _as_written(item)


def _explain(error: ValidationError) -> str:
    """Return the first problem in one sentence, and how many more there are."""
    problems = error.errors(include_url=False, include_context=False)
    # An unknown key is the likelier cause of a missing one than the other way round.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    location = first["loc"]
    if first["type"] == "extra_forbidden":
        sections = [SECTIONS[part] for part in location[:-1] if part in SECTIONS]
        model: type[Model] = sections[-1] if sections else Profile
        name = str(location[-1])
        close = difflib.get_close_matches(name, list(model.model_fields), n=1)
        said = f"unknown key {name!r}"
        said += f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(model.model_fields)})"
        location = location[:-1]
    elif first["type"] == "missing":
        said = "is missing"
    else:
        given = repr(first["input"])
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] != "value_error":
            said = f"{said[:1].lower()}{said[1:]}, got {given if len(given) < 60 else given[:57] + '…'}"
    # Pydantic names the branch of a union in the location; people know only keys and positions.
    places = [str(part) for part in location if isinstance(part, int) or part in KEYS]
    where = ".".join(places)
    more = len({problem["loc"][:3] for problem in problems}) - 1
    return f"{where + ': ' if where else ''}{said}{f' (and {more} more)' if more else ''}"
