"""Small frameworks for tests: cyanides of zinc and cadmium, two interpenetrating diamond nets in a cube of ten atoms.

Cells: D. J. Williams et al., J. Solid State Chem. 134 (1997) 164: P-43m, a = 5.9002 Å (Zn) and 6.301 Å (Cd). Bonds are
near those of 7net-0's minima, so that relaxing takes few steps: metal to carbon 2.00 and 2.20 Å, carbon to nitrogen 1.175 Å.
"""

import math

from grafico.atoms import ConceptualAtoms

ZINC, CADMIUM = 5.9002, 6.301


def cyanide(metal: str, a: float, *, shift: float = 0.0) -> ConceptualAtoms:
    """Return M(CN)2 in a cubic cell of edge ``a``, one carbon moved by ``shift`` Å."""
    to_carbon = 2.0 if metal == "Zn" else 2.2
    diagonal = math.sqrt(3.0) * a
    places = [(metal, 0.0, 0.0, 0.0), (metal, 0.5, 0.5, 0.5)]
    for symbol, distance in (("C", to_carbon), ("N", to_carbon + 1.175)):
        x = distance / diagonal
        places += [(symbol, x, x, x), (symbol, -x, -x, x), (symbol, -x, x, -x), (symbol, x, -x, -x)]
    positions = [((x % 1) * a, (y % 1) * a, (z % 1) * a) for _, x, y, z in places]
    x, y, z = positions[2]
    positions[2] = (x + shift, y, z)
    return ConceptualAtoms(
        symbols=tuple(place[0] for place in places),
        positions=tuple(positions),
        cell=((a, 0.0, 0.0), (0.0, a, 0.0), (0.0, 0.0, a)),
    )
