"""What every command says, and how: one JSON value, and errors without tracebacks."""

import errno
import inspect
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from grafico.errors import BadInput, GraficoError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "BAD_INPUT",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "SOME_FAILED",
    "Commands",
    "Group",
    "flowing",
    "out",
    "print_json",
]

DONE, BAD_INPUT, SOME_FAILED, FAILED, INTERRUPTED = 0, 2, 3, 4, 130
"""Exit codes."""


def out(*, stderr: bool = False) -> "Console":
    """Return a console; NO_COLOR is respected, and nothing is wrapped when it does not go to a terminal."""
    from rich.console import Console

    class Own(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with a code of its own

    console = Own(stderr=stderr, highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        return console
    # Whole lines, for grep and awk.
    return Own(stderr=stderr, highlight=False, emoji=False, markup=False, width=1000, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=not _holds_any(sys.stdout), default=str, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def forgive(stream: object) -> None:
    """Let what a stream's encoding does not have become a question mark: names, lines of tables, the ångström."""
    if isinstance(stream, TextIOWrapper) and (stream.errors == "strict" or not _holds_any(stream)):
        stream.reconfigure(errors="replace")


def _holds_any(stream: object) -> bool:
    return str(getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


class Group(TyperGroup):
    """Commands whose help fills the terminal, and asks for no value where an option takes none."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.help = flowing(command.help or "")
            _without_values(command, ctx)
        return command

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help."""
        _without_values(self, ctx)
        super().format_help(ctx, formatter)


def _without_values(command: Any, ctx: typer.Context) -> None:
    """Let the help show flags as ``--json``, not as ``--json <bool>``."""
    for option in command.get_params(ctx):
        if getattr(option, "is_flag", False):
            option.metavar = ""


def flowing(text: str) -> str:
    """Return a text with a line for each paragraph: where a line of a docstring ends is nothing to a reader."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class Commands(Group):
    """Commands whose errors become one message and an exit code."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line; what it does not understand is answered like any other bad input."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        forgive(sys.stdout)
        code: Any
        try:
            code = super().main(given, standalone_mode=False, **extra)
        except typer.Abort:
            say("grafico: given up")
            code = INTERRUPTED
        except Exception as error:
            if _is_output(error):
                code = give_up_output(error)
                sys.exit(code)
            if not _is_usage(error):
                raise
            code = _report_usage(error, as_json="--json" in given)
        sys.exit(code if isinstance(code, int) else DONE)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            close_pipe()
            raise typer.Exit(DONE) from None
        except KeyboardInterrupt:
            say("grafico: interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if debugging() or _is_usage(error) or _is_output(error):
                raise
            raise typer.Exit(_exit_code(error, as_json=ctx.find_root().meta.get(_JSON, False))) from None


@contextmanager
def last_words() -> Iterator[None]:
    """Print what a command has done: where nobody can read that, its exit code stays what it is."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        close_pipe()
    except OSError as error:
        if not _is_output(error):
            raise
        give_up_output(error)


def _is_output(error: Exception) -> bool:
    """Whether standard output takes no more: its disk is full, say; errors of files have names."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def give_up_output(error: Exception) -> int:
    """Say that standard output takes no more, and print nothing more there; return the exit code."""
    close_pipe()
    say(f"grafico: the output could not be written: {getattr(error, 'strerror', None) or error}")
    return BAD_INPUT


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


def _exit_code(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, ImportError):
        from grafico.jobs.catalog import missing_extra

        error = missing_extra(error) or error
    if isinstance(error, GraficoError):
        return report(error, as_json=as_json)
    return report_unexpected(error, as_json=as_json)


def _report_usage(error: Any, *, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and not as_json:
        error.show()
        return BAD_INPUT
    command = context.command_path if context is not None else "grafico"
    message = "a command is missing" if not error.format_message() else error.format_message().rstrip(".")
    return report(BadInput(message, hint=f"{command} --help"), as_json=as_json)


def _is_usage(error: Exception) -> bool:
    """Whether it is the command line parser's own error, which it reports itself."""
    return hasattr(error, "format_message") or hasattr(error, "show")


def debugging() -> bool:
    """Whether GRAFICO_DEBUG asks for tracebacks."""
    return os.environ.get("GRAFICO_DEBUG", "") not in {"", "0"}


def remember_json(ctx: typer.Context, value: bool) -> bool:
    """Remember that JSON was asked for, so that an error is JSON as well."""
    if value:
        ctx.find_root().meta[_JSON] = True
    return value


_JSON = "grafico.json"

JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON value.", callback=remember_json)
]
RunsFolder: TypeAlias = Annotated[
    Path, typer.Option("--runs-dir", "--runs", envvar="GRAFICO_RUNS", help="Folder that holds the runs.")
]
RunName: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's path, its name or the start of it, or 'last'.")
]


def report(error: GraficoError, *, as_json: bool = False) -> int:
    """Print an error for people, and as JSON where JSON was asked for; return the exit code."""
    if as_json:
        print_json({"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
    say(f"grafico: {error.message}" + (f"\n  → {error.hint}" if error.hint else ""))
    return error.exit_code


def report_unexpected(error: BaseException, *, as_json: bool = False) -> int:
    """Write the details of an unexpected exception to a file, and say where they are; return the exit code."""
    try:
        path: Path | None = write_details(error)
    except OSError:
        path = None  # no folder for temporary files, or no room in it
    summary = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
    if as_json:
        print_json({"error": summary, "details": str(path) if path else None, "exit_code": FAILED})
    where = f"the details are in {path}; please report it with them" if path else "please report it with its details"
    say(f"grafico: an unexpected error: {summary}\n  → {where} (GRAFICO_DEBUG=1 shows them)")
    return FAILED


def write_details(error: BaseException, folder: Path | None = None) -> Path:
    """Write a traceback to a file of its own."""
    from grafico import __version__

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    handle, name = tempfile.mkstemp(prefix=f"grafico-error-{stamp}-", suffix=".txt", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"grafico {__version__}, Python {sys.version}\n{' '.join(sys.argv)}\n\n")
        file.writelines(traceback.format_exception(error))
    return Path(name)


def say(text: str) -> None:
    """Print a line on standard error, as it is."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass


def close_pipe() -> None:
    """Point standard output at nothing after its reader has gone, so that nothing fails at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(null)
