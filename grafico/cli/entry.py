"""The entry point of the `grafico` script: it stands guard, because importing the rest takes a moment in which Ctrl-C may come."""

import os
import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    open_closed_streams()
    try:
        from grafico.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("grafico: interrupted\n")
        sys.exit(INTERRUPTED)


def open_closed_streams() -> None:
    """Put the null device where a standard stream is closed, as ``>&-`` does.

    Else the next file that is opened, the journal perhaps, would get its number, and whatever prints would write into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()
