"""What a site wants to see in a Slurm job: the part of a profile that becomes `#SBATCH` lines."""

import re
import shlex
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from grafico.calculations import Model

__all__ = [
    "OPTIONS",
    "TEXTS",
    "ControllerSettings",
    "GpuStyle",
    "Scale",
    "ShellLines",
    "SlurmSettings",
    "walltime_seconds",
]

WALLTIME = re.compile(r"(?:(\d{1,3})-([01]?\d|2[0-3])|(\d{1,4})):([0-5]\d):([0-5]\d)")

OPTIONS = (
    "--job-name",
    "--output",
    "--open-mode",
    "--partition",
    "--account",
    "--qos",
    "--reservation",
    "--constraint",
    "--time",
    "--nodes",
    "--ntasks",
    "--ntasks-per-node",
    "--cpus-per-task",
    "--mem",
    "--gres",
    "--gpus",
    "--gpus-per-node",
    "--gpus-per-task",
    "--exclusive",
    "--no-kill",
    "--requeue",
    "--no-requeue",
    "--signal",
)
"""Options that grafico writes, and that `omit` can leave out."""

KEPT = {
    "--array": "grafico submits each job by itself",
    "--clusters": "grafico looks for its jobs where it submits them; SLURM_CLUSTERS names another cluster for all of it",
    "--error": "both streams go to one log, which grafico reads",
    "--job-name": "grafico names its jobs",
    "--no-requeue": "a host never is requeued, and `controller: {requeue: false}` is for a controller",
    "--nodes": "a job of a pool is one host; the nodes of an allocation are `hosts`",
    "--ntasks": "a host runs one launcher",
    "--ntasks-per-node": "a host runs one launcher",
    "--output": "grafico reads the log that it asks for",
    "--parsable": "grafico gives it",
    "--requeue": "a lost host is replaced by a new job, a controller requeues itself",
    "--signal": "a controller is warned by it; controller.warn_s says how long before its end",
    "--test-only": "then nothing would ever run",
    "--wait": "then sbatch would not return",
    "--wrap": "the script is grafico's",
}
"""Options that `directives` cannot set, and why."""

SHORT = {"-a": "--array", "-e": "--error", "-J": "--job-name", "-M": "--clusters", "-N": "--nodes", "-n": "--ntasks",
         "-o": "--output", "-W": "--wait"}  # fmt: skip


def _word(value: str) -> str:
    """Refuse what would end an option, or begin another one."""
    if not value.isprintable() or any(c.isspace() or c in "\"'\\#`" for c in value) or value.startswith("-"):
        raise ValueError("expected one word without spaces, quotes, backslashes or #, that does not begin with a dash")
    return value


def _walltime(value: str) -> str:
    if not WALLTIME.fullmatch(value) or walltime_seconds(value) == 0:
        raise ValueError("expected hours, minutes and seconds as HH:MM:SS, or with days as D-HH:MM:SS")
    return value


def _shell(lines: tuple[str, ...]) -> tuple[str, ...]:
    for line in lines:
        # Tabs are the one control character that a line of shell may need.
        if any(not c.isprintable() and c != "\t" for c in line):
            raise ValueError(f"each entry is one line of shell without control characters, got {line[:60]!r}")
        if line.lstrip().startswith("#SBATCH"):
            raise ValueError(f"{line.strip()[:60]!r} is no shell line; #SBATCH lines go under slurm.directives")
    return lines


Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_word)]
Walltime: TypeAlias = Annotated[str, AfterValidator(_walltime)]
ShellLines: TypeAlias = Annotated[tuple[Annotated[str, Field(max_length=2000)], ...], AfterValidator(_shell)]
GpuStyle: TypeAlias = Literal["gres", "gpus", "gpus-per-node", "gpus-per-task", "none"]

TEXTS = frozenset({"account", "constraint", "gpu_type", "partition", "qos", "reservation", "walltime"})
"""Keys whose value is read as it is written: YAML would take 4:00:00 for the number 14400, and a qos `on` for true."""


def walltime_seconds(walltime: str) -> int:
    """Return the seconds of `HH:MM:SS` or `D-HH:MM:SS`."""
    match = WALLTIME.fullmatch(walltime)
    if match is None:
        raise ValueError(f"{walltime!r} is neither HH:MM:SS nor D-HH:MM:SS")
    days, hours_of_day, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours_of_day + hours) * 60 + minutes) * 60 + seconds


class Scale(Model):
    """How many hosts a pool may have; between the two, what waits decides."""

    min: int = Field(default=0, ge=0, le=1024, description="hosts that are kept even when idle")
    max: int = Field(ge=1, le=1024, description="hosts at most")

    @model_validator(mode="after")
    def _ordered(self) -> "Scale":
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is above max ({self.max})")
        return self


class SlurmSettings(Model):
    """What a site wants in a job; whatever is left out is left to the site's defaults."""

    partition: Word | None = Field(default=None, description="partition, or several with commas")
    account: Word | None = Field(default=None, description="who pays")
    qos: Word | None = Field(default=None, description="quality of service")
    reservation: Word | None = None
    constraint: Word | None = Field(default=None, description="node features, as in h100&ib")
    walltime: Walltime | None = Field(default=None, description="time limit of a job: HH:MM:SS or D-HH:MM:SS")
    gpu_style: GpuStyle | None = Field(
        default=None, description="how this site is asked for GPUs; default: gres; `none`: by directives only"
    )
    gpu_type: Word | None = Field(default=None, description="type of the GPUs, as in gpu:h100:4")
    memory: bool | None = Field(default=None, description="whether to ask for memory; some sites refuse --mem")
    directives: tuple[str, ...] = Field(default=(), max_length=64, description="more sbatch options, one each")
    omit: tuple[str, ...] = Field(default=(), max_length=64, description="options to leave out, by their beginning")

    @field_validator("directives")
    @classmethod
    def _directives(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_directive(text) for text in value)

    @field_validator("omit")
    @classmethod
    def _omit(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        cleaned = tuple(text.removeprefix("#SBATCH").strip() for text in value)
        for text in cleaned:
            if len(text) < 3 or not any(option.startswith(text.partition("=")[0]) for option in OPTIONS):
                raise ValueError(f"{text!r} is no option that grafico writes; it writes {', '.join(OPTIONS)}")
        return cleaned

    @property
    def walltime_s(self) -> int | None:
        """The time limit in seconds, ``None`` where the site's default holds."""
        return None if self.walltime is None else walltime_seconds(self.walltime)

    def under(self, own: "SlurmSettings") -> "SlurmSettings":
        """Return these settings with another's laid over them; directives and omissions add up."""
        given = {name: value for name in SlurmSettings.model_fields if (value := getattr(own, name)) is not None}
        given["directives"] = (*self.directives, *own.directives)
        given["omit"] = (*self.omit, *own.omit)
        return SlurmSettings.model_construct(**{**{n: getattr(self, n) for n in SlurmSettings.model_fields}, **given})


class ControllerSettings(SlurmSettings):
    """The small job in which `grafico submit` runs a controller."""

    cpus: int = Field(default=1, ge=1, le=4096, description="CPUs of the job")
    memory_mib: int = Field(default=2048, ge=256, description="memory of the job, MiB")
    setup: ShellLines = Field(default=(), max_length=64, description="shell lines before it starts, as in module load")
    requeue: bool = Field(default=True, description="queue itself again before its time is over, and resume the run")
    warn_s: int = Field(
        default=120, ge=10, le=3600, description="seconds before the end of its time at which it begins to stop"
    )


def _directive(text: str) -> str:
    text = text.strip().removeprefix("#SBATCH").strip()
    if not text.isprintable() or len(text) > 1000:
        raise ValueError("each directive is one line of printable text")
    try:
        words: Sequence[str] = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text[:60]!r}: {error}") from None
    if not words or not re.match(r"--?[A-Za-z]", words[0]) or "#" in text or "\\" in text or "`" in text:
        raise ValueError(f"{text[:60]!r} is no sbatch option, such as --exclude=node7")
    for word in words:
        option = word.partition("=")[0]
        option = SHORT.get(option[:2], option) if option[:2] in SHORT else option
        # sbatch takes an option by its beginning, too.
        meant = next((kept for kept in KEPT if kept == option or (len(option) > 3 and kept.startswith(option))), None)
        if meant is not None:
            raise ValueError(f"{meant} is set by grafico ({KEPT[meant]}); leave it out")
    return text
