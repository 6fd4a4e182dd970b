"""Reading profiles: by name or by path, each mistake answered with what, where and what to do."""

import difflib
import stat
from collections.abc import Sequence
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
        if text.startswith("connect:"):
            meant = f"`grafico cluster status {text.removeprefix('connect:')[:80]}` shows a cluster that is up; "
        raise ProfileError(
            f"no cluster profile {text[:100]!r}",
            hint=f"{meant}known here: {', '.join(known)}; or give the path of a YAML file",
        )
    return read_profile(Path(text).expanduser())


def read_profile(path: Path) -> Profile:
    """Read and validate one profile file; its name is the file's unless it says otherwise."""
    data = _parse(path, _read(path))
    if not isinstance(data, dict):
        what = "nothing" if data is None else "a list" if isinstance(data, list) else f"only {str(data)[:40]!r}"
        raise ProfileError(f"{path}: expected a mapping with `pools`, found {what}", hint=EXAMPLE)
    data.setdefault("name", path.stem)
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        raise ProfileError(f"{path}: {_explain(error)}", hint=FIELDS) from None


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ProfileError(f"{path} is a folder, not a cluster profile", hint="give a YAML file in it")
        if not stat.S_ISREG(mode):  # a pipe may say nothing, and a device may never end
            raise ProfileError(f"{path} is not a regular file", hint="write the profile into a file")
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ProfileError(f"{path} has more than {LARGEST // 1024} KiB: too large for a cluster profile")
        return text.decode("utf-8")
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
            if (tag := getattr(event, "tag", None)) not in {None, "!"}:
                raise ProfileError(f"{path}: line {_line(event)}: tags ({tag}) are not allowed here")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _plain_keys(path, node)
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


def _plain_keys(path: Path, node: Any) -> None:
    """Refuse keys that are no text, and those that are given twice."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ProfileError(f"{path}: line {_line(key)}: a list or mapping stands for a key; keys are text")
            if key.value in seen:
                raise ProfileError(f"{path}: line {_line(key)}: {key.value!r} is given twice")
            seen.add(key.value)
            _plain_keys(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _plain_keys(path, item)


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
        first, said = _said(first, problems)
        location = first["loc"]
    place = _places(location)
    places = {tuple(_places(problem["loc"])) for problem in problems}
    more = len(places) - sum(list(other) == place[: len(other)] for other in places)
    return f"{'.'.join(place) + ': ' if place else ''}{said}{f' (and {more} more)' if more > 0 else ''}"


def _said(first: Any, problems: Sequence[Any]) -> tuple[Any, str]:
    """Return a problem and what it says, together with what else the value could have been."""
    place = _places(first["loc"])
    # What may be of several forms has a problem with each; of a list, the item that is wrong tells most.
    same = [problem for problem in problems if _places(problem["loc"])[: len(place)] == place]
    first = max(same, key=lambda problem: len(_places(problem["loc"])))
    same = [problem for problem in same if _places(problem["loc"]) == _places(first["loc"])]
    if first["type"] == "value_error":
        return first, str(first["msg"]).removeprefix("Value error, ")
    wanted = [str(problem["msg"]).replace("valid tuple", "list").partition(", unable")[0] for problem in same]
    begin = "Input should be "
    said = " or ".join([wanted[0], *(text.removeprefix(begin) for text in wanted[1:] if text.startswith(begin))])
    given = repr(first["input"])
    return first, f"{said[:1].lower()}{said[1:]}, got {given if len(given) < 60 else given[:57] + '…'}"


def _places(location: Sequence[str | int]) -> list[str]:
    """Return the keys and positions in a location; Pydantic names the branch of a union in it as well."""
    return [str(part) for part in location if isinstance(part, int) or part in KEYS]
