"""A function that does nothing, in a module that imports nothing: some peers start a Python for each task."""

__all__ = ["nothing"]


def nothing(number: int) -> int:
    """Return what was given."""
    return number
