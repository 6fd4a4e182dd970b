"""The entry point of the `grafico` script: it stands guard, because importing the rest takes a moment in which Ctrl-C may come."""

import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from grafico.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("grafico: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
