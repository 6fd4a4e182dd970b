"""How many frameworks are divided into batches: by atoms, those of like size together."""

from collections.abc import Mapping

from grafico.atoms import ConceptualAtoms

__all__ = ["batches"]


def batches(structures: Mapping[str, ConceptualAtoms], atoms_budget: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of each batch's structures.

    Each name is in exactly one batch, and no batch has more atoms than the budget unless it is one structure that has
    more by itself. The division depends on names and sizes alone, not on their order: a resumed run divides as before.

    Parameters
    ----------
    structures
        By name.
    atoms_budget
        Most atoms of a batch.

    Raises
    ------
    ValueError
        The budget is below one.
    """
    if atoms_budget < 1:
        raise ValueError(f"a batch needs room for at least one atom, not {atoms_budget}")
    # Largest first into the first batch with room (first-fit decreasing): at most 11/9 of the fewest possible, and one.
    ordered = sorted(structures, key=lambda name: (-len(structures[name]), name))
    rooms: list[int] = []
    found: list[list[str]] = []
    for name in ordered:
        size = len(structures[name])
        at = next((index for index, room in enumerate(rooms) if size <= room), None)
        if at is None:
            rooms.append(max(0, atoms_budget - size))
            found.append([name])
        else:
            rooms[at] -= size
            found[at].append(name)
    return tuple(tuple(batch) for batch in found)
