"""Whether the engines of a job are there: looked for before anything begins, without importing any of them."""

import shutil
from collections.abc import Iterable, Mapping
from importlib import util
from importlib.metadata import PackageNotFoundError, version

from pydantic import Field

from grafico.calculations import Model
from grafico.cluster import Profile
from grafico.errors import MissingExtra
from grafico.jobs.catalog import extra_for
from grafico.jobs.forecast import Forecast

__all__ = ["Engine", "elsewhere", "engine_notes", "engines_of", "missing_engines"]

PROGRAM = "program:"

_CALLED: Mapping[str, tuple[str, ...]] = {
    "cupy": ("cupy-cuda12x", "cupy-cuda13x"),
    "gpu4pyscf": ("gpu4pyscf-cuda12x", "gpu4pyscf-cuda13x"),
    "torch_sim": ("torch-sim-atomistic",),
}
"""Names under which packages are installed that are imported under another one."""


class Engine(Model):
    """A package or program that calculations use."""

    name: str
    version: str | None = Field(description="of a program, where it is; null if it is not here")
    get: str = Field(default="", description="how to get it, if it is not here")
    used_by: tuple[str, ...] = Field(default=(), description="calculations")
    optional: bool = Field(default=False, description="only GPUs need it; without it, CPUs compute")


def engines_of(forecast: Forecast, profile: Profile) -> tuple[Engine, ...]:
    """Return what the calculations that are foreseen use, as it is found here."""
    needed: dict[str, dict[str, None]] = {}
    on_gpus: dict[str, dict[str, None]] = {}
    has_gpus = any(pool.has_gpus and not pool.simulated for pool in profile.pools)
    for item in forecast:
        calculation = item.calculation
        own = calculation.uses or ((calculation.family,) if extra_for(calculation.family) else ())
        for name in (*own, *item.uses):
            needed.setdefault(name, {})[calculation.name] = None
        for name in calculation.uses_on_gpu if has_gpus and item.resources.gpu != "none" else ():
            on_gpus.setdefault(name, {})[calculation.name] = None
    found = [_engine(name, users) for name, users in sorted(needed.items())]
    return (*found, *(_engine(name, users, optional=True) for name, users in sorted(on_gpus.items())))


def elsewhere(profile: Profile) -> str:
    """Return why calculations may have other engines than those that are here; empty where they have the same."""
    if profile.kind == "connect":
        return "the engines that count are those where the cluster runs, which were not looked for"
    if profile.kind == "slurm" and (
        profile.python or profile.setup or any(p.setup or p.container for p in profile.pools)
    ):
        return "the engines that count are those of the profile's hosts (python, setup, container), not looked for"
    return ""


def missing_engines(engines: Iterable[Engine], profile: Profile) -> MissingExtra | None:
    """Return what a job cannot do without and is not here; None if all is there, or if that cannot be told from here."""
    lacking = [engine for engine in engines if engine.version is None and not engine.optional]
    if not lacking or elsewhere(profile):
        return None
    listed = ", ".join(f"{engine.name} (for {', '.join(engine.used_by)})" for engine in lacking)
    return MissingExtra(f"not installed here, and the job needs it: {listed}", hint=_ways_to(lacking))


def engine_notes(engines: Iterable[Engine], profile: Profile) -> tuple[str, ...]:
    """Return what people should know of engines: that others may count, or that GPUs would not be used."""
    listed = tuple(engines)
    if listed and (reason := elsewhere(profile)):
        return (f"engines are told as they are here; {reason}",)
    lacking = [engine for engine in listed if engine.version is None and engine.optional]
    if not lacking:
        return ()
    users = ", ".join(dict.fromkeys(user for engine in lacking for user in engine.used_by))
    names = " and ".join(engine.name for engine in lacking)
    return (f"without {names}, these compute on CPUs although they take GPUs: {users} ({_ways_to(lacking)})",)


def _engine(name: str, users: Mapping[str, None], *, optional: bool = False) -> Engine:
    plain = name.removeprefix(PROGRAM)
    found = shutil.which(plain) if name.startswith(PROGRAM) else _version(name)
    get = "" if found else _way_to(name)
    return Engine(name=plain, version=found, get=get, used_by=tuple(users), optional=optional)


def _version(module: str) -> str | None:
    """Return the version of a package that can be imported, as far as can be told without doing so."""
    try:
        if util.find_spec(module.partition(".")[0]) is None:  # what is inside would be imported
            return None
    except (ImportError, ValueError):
        return None
    for name in (module, *_CALLED.get(module, ())):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "installed"


def _way_to(name: str) -> str:
    if name.startswith(PROGRAM):
        return "`grafico doctor` says where to get it"
    extra = extra_for(name)
    return f'pip install "grafico[{extra}]"' if extra else f"install the package {name}"


def _ways_to(engines: Iterable[Engine]) -> str:
    """Return how to get all of them, with one command for what extras bring."""
    ways = dict.fromkeys(engine.get for engine in engines)
    extras = sorted({way.partition("[")[2].partition("]")[0] for way in ways if "grafico[" in way})
    command = [f'pip install "grafico[{",".join(extras)}]"'] if extras else []
    return "; ".join([*command, *(way for way in ways if "grafico[" not in way)])
