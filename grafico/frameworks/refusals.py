"""Why a structure is not taken apart: one stable code for each reason, beside the message for people.

A refused structure fails with :class:`~grafico.calculations.CalculationError`, whose ``details["reason"]`` is one of
:data:`REASONS`. ``bad_input`` means that the file is at fault, ``refused`` that the structure is a sound one of which no
single framework of one metal node and one linker can be made.
"""

from typing import NoReturn

from grafico.calculations import CalculationError, FailureKind, Json

__all__ = ["REASONS", "refuse"]

REASONS: dict[str, tuple[FailureKind, str]] = {
    "empty": (FailureKind.BAD_INPUT, "there is no text"),
    "binary": (FailureKind.BAD_INPUT, "the text holds bytes that no CIF has"),
    "too_large": (FailureKind.BAD_INPUT, "more text, or more atoms in the cell, than is read"),
    "unreadable": (FailureKind.BAD_INPUT, "the text breaks the grammar of CIF, as a truncated file does"),
    "no_structure": (FailureKind.BAD_INPUT, "no atoms with coordinates"),
    "several_structures": (FailureKind.BAD_INPUT, "more than one structure"),
    "no_cell": (FailureKind.BAD_INPUT, "no unit cell, or one that is none"),
    "partial_occupancy": (FailureKind.BAD_INPUT, "sites that are occupied in some of the cells only"),
    "disorder": (FailureKind.BAD_INPUT, "alternatives of which only one can be there"),
    "symmetry": (FailureKind.BAD_INPUT, "a space group, and operations that are not those of it"),
    "unusable": (FailureKind.BAD_INPUT, "another fault of an atom: no element, no coordinates"),
    "duplicate_atoms": (FailureKind.BAD_INPUT, "atoms on top of others of the same element: counted twice"),
    "overlap": (FailureKind.BAD_INPUT, "atoms closer than any bond: a wrong cell, or disorder that is not marked"),
    "density": (FailureKind.BAD_INPUT, "a density that no crystal has: a wrong cell, or missing atoms"),
    "no_metal": (FailureKind.REFUSED, "no metal, so no metal-organic framework: a COF, a zeolite, an organic crystal"),
    "no_organic": (FailureKind.REFUSED, "metal, but no carbon: an oxide, a salt, a zeolite"),
    "not_periodic": (FailureKind.REFUSED, "molecules, chains or layers: bonded in fewer than three directions"),
    "guests": (FailureKind.REFUSED, "solvent, ions or other guests in the pores, which were not to be removed"),
    "interpenetrated": (FailureKind.REFUSED, "several frameworks in each other's pores"),
    "several_frameworks": (FailureKind.REFUSED, "several frameworks that differ in composition"),
    "organic_chain": (FailureKind.REFUSED, "an organic part that is endless without the metal"),
    "nothing_to_cut": (FailureKind.REFUSED, "no bond whose cutting parts metal nodes from linkers, as in a ZIF"),
    "rod_node": (FailureKind.REFUSED, "a metal node that is an endless rod or layer"),
    "no_linker": (FailureKind.REFUSED, "metal nodes that are joined to each other without a linker between"),
    "two_metal_nodes": (FailureKind.REFUSED, "more than one kind of metal node"),
    "two_linkers": (FailureKind.REFUSED, "more than one kind of linker, or one in several shapes"),
    "double_links": (FailureKind.REFUSED, "two linkers side by side between the same two nodes"),
    "unknown_net": (FailureKind.REFUSED, "a net that has no symbol in the RCSR, or no canonical form"),
    "topology_disputed": (FailureKind.REFUSED, "two ways to take it apart that give different nets"),
    "net_timeout": (FailureKind.TIMEOUT, "a net whose identification takes too long"),
}  # fmt: skip
"""Each reason with the kind of its failure and what it means."""


def refuse(reason: str, message: str, **details: Json) -> NoReturn:
    """Raise the failure of a reason.

    Raises
    ------
    CalculationError
        Always; ``details`` hold the reason and what was given.
    """
    kind, _ = REASONS[reason]
    raise CalculationError(kind, message, details={"reason": reason, **details})
