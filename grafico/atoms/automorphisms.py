"""Which atoms of a molecule may be exchanged without changing its bonds."""

from collections.abc import Iterator, Sequence

from grafico.atoms.conceptual import ConceptualAtoms
from grafico.atoms.connectivity import Bond, bonds

__all__ = ["heavy_automorphisms", "heavy_indices", "permutations_of_graph"]


def heavy_indices(atoms: ConceptualAtoms) -> tuple[int, ...]:
    """Return the atoms that are no hydrogen (indices from 0); all atoms where there are only hydrogens."""
    heavy = tuple(index for index, symbol in enumerate(atoms.symbols) if symbol != "H")
    return heavy or tuple(range(len(atoms)))


def heavy_automorphisms(atoms: ConceptualAtoms, *, limit: int = 2000) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of the heavy atoms that keep elements, attached hydrogens and bonds.

    Each is a tuple ``p`` over :func:`heavy_indices`: atom ``i`` may take the place of atom ``p[i]`` (positions in that
    list, not atom numbers). The identity comes first. At most ``limit`` are returned, so that many equal molecules,
    whose exchanges grow with a factorial, cost no more; beyond it some equal structures are told apart.
    """
    heavy = heavy_indices(atoms)
    place = {atom: position for position, atom in enumerate(heavy)}
    hydrogens = [0] * len(heavy)
    edges: list[Bond] = []
    for i, j in bonds(atoms):
        if i in place and j in place:
            edges.append((place[i], place[j]))
        elif i in place:
            hydrogens[place[i]] += 1
        elif j in place:
            hydrogens[place[j]] += 1
    labels = [f"{atoms.symbols[atom]}{hydrogens[place[atom]]}" for atom in heavy]
    return permutations_of_graph(labels, edges, limit=limit)


def permutations_of_graph(
    labels: Sequence[str], edges: Sequence[Bond], *, limit: int = 2000
) -> tuple[tuple[int, ...], ...]:
    """Return the automorphisms of a labelled graph, the identity first, at most ``limit`` of them.

    Color refinement narrows the candidates; a depth-first search assigns neighbors together.
    """
    size = len(labels)
    neighbors: list[set[int]] = [set() for _ in range(size)]
    for i, j in edges:
        neighbors[i].add(j)
        neighbors[j].add(i)
    colors = _refine(labels, neighbors)
    order = _connected_order(neighbors)
    found: list[tuple[int, ...]] = []
    for permutation in _search(order, neighbors, colors):
        found.append(permutation)
        if len(found) >= limit:
            break
    identity = tuple(range(size))
    return (identity, *(permutation for permutation in found if permutation != identity))[:limit]


def _refine(labels: Sequence[str], neighbors: Sequence[set[int]]) -> list[int]:
    names = sorted(set(labels))
    colors = [names.index(label) for label in labels]
    while True:
        signatures = [(colors[i], tuple(sorted(colors[j] for j in neighbors[i]))) for i in range(len(labels))]
        ranks = {signature: rank for rank, signature in enumerate(sorted(set(signatures)))}
        refined = [ranks[signature] for signature in signatures]
        if len(set(refined)) == len(set(colors)):
            return refined
        colors = refined


def _connected_order(neighbors: Sequence[set[int]]) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(neighbors)):
        queue = [start]
        while queue:
            index = queue.pop(0)
            if index in seen:
                continue
            seen.add(index)
            order.append(index)
            queue.extend(sorted(neighbors[index] - seen))
    return order


def _search(order: Sequence[int], neighbors: Sequence[set[int]], colors: Sequence[int]) -> Iterator[tuple[int, ...]]:
    size = len(order)
    image: list[int] = [-1] * size
    used = [False] * size
    candidates = [[j for j in range(size) if colors[j] == colors[i]] for i in range(size)]
    earlier = {
        index: [other for other in order[:position] if other in neighbors[index]]
        for position, index in enumerate(order)
    }
    # An explicit stack: a chain of a thousand atoms would meet Python's recursion limit.
    stack: list[Iterator[int]] = []

    def fitting(depth: int) -> Iterator[int]:
        index = order[depth]
        for target in candidates[index]:
            if used[target]:
                continue
            if all(image[other] in neighbors[target] for other in earlier[index]):
                yield target

    stack.append(fitting(0))
    while stack:
        depth = len(stack) - 1
        index = order[depth]
        if image[index] >= 0:
            used[image[index]] = False
            image[index] = -1
        target = next(stack[-1], None)
        if target is None:
            stack.pop()
            continue
        image[index] = target
        used[target] = True
        if depth + 1 == size:
            yield tuple(image)
        else:
            stack.append(fitting(depth + 1))
