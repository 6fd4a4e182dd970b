"""What a profile means, without starting any of it: its workers, and the scripts that it would submit."""

from pathlib import Path

from pydantic import Field

from grafico.calculations import Model
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.profile import Profile
from grafico.errors import ProfileError

__all__ = ["Check", "Script", "check_profile"]

EXAMPLE_COMMAND = ("grafico", "run", "job.yaml")


class Script(Model):
    """A script that would be submitted."""

    what: str
    text: str
    refused: str = Field(default="", description="why Slurm here would refuse it; empty if it would not or is not here")


class Check(Model):
    """What a profile means."""

    profile: str
    kind: str
    description: str
    workers: tuple[WorkerSpec, ...] = Field(description="as it lays them out, at its largest")
    scripts: tuple[Script, ...] = ()
    tried: bool = Field(default=False, description="whether Slurm was asked what it thinks of the scripts")
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> str:
        """Why it cannot be had here; empty if nothing speaks against it."""
        return next((f"{script.what}: {script.refused}" for script in self.scripts if script.refused), "")


def check_profile(profile: Profile, folder: Path, *, test: bool = True) -> Check:
    """Return what a profile means here.

    Parameters
    ----------
    profile
        Which.
    folder
        The cluster folder that it would get, for the paths in scripts.
    test
        Ask Slurm (``sbatch --test-only``) what it thinks of the scripts, where there is one.

    Raises
    ------
    ProfileError
        This machine lacks what a local profile asks for, or a profile to connect names no cluster that is up.
    """
    notes: list[str] = []
    if profile.security == "none":
        notes.append("security: none: whoever reaches the scheduler's port can run code as you")
    try:
        workers = lay_out(profile)
    except ProfileError as error:
        if profile.kind != "slurm":
            raise
        workers = ()
        notes.append(error.message)
    scripts, tried = _scripts(profile, folder, test=test, notes=notes) if profile.kind == "slurm" else ((), False)
    return Check(
        profile=profile.name,
        kind=profile.kind,
        description=profile.description,
        workers=workers,
        scripts=scripts,
        tried=tried,
        notes=tuple(notes),
    )


def _scripts(profile: Profile, folder: Path, *, test: bool, notes: list[str]) -> tuple[tuple[Script, ...], bool]:
    import shutil

    from grafico.cluster.slurm.commands import try_script
    from grafico.cluster.slurm.script import allocation_script, check_script, controller_script, host_script

    log = folder / "logs" / "controller.log"
    if profile.elastic:
        texts = {f"a host of pool {pool.name}": host_script(profile, pool.name, folder, "1") for pool in profile.pools}
        texts["a controller (grafico submit)"] = controller_script(profile, EXAMPLE_COMMAND, name="job", log=log)
    else:
        texts = {"a run (grafico submit)": allocation_script(profile, EXAMPLE_COMMAND, name="job", log=log)}
    here = shutil.which("sbatch") is not None
    if not here:
        notes.append("sbatch is not on the PATH here, so nobody was asked whether the scripts are acceptable")
    scripts = []
    for what, text in texts.items():
        check_script(text)
        scripts.append(Script(what=what, text=text, refused=try_script(text) if test and here else ""))
    return tuple(scripts), test and here
