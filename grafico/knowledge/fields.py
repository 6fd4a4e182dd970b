"""What a field of an entity may say about itself beside its type: unit, property, link."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from grafico.knowledge.vocabulary import GRAFICO, UNIT, check_iri

__all__ = ["Iri", "Property", "Unit"]

_UNITS = {
    "eV": UNIT + "EV",
    "hartree": UNIT + "E_h",
    "kcal/mol": UNIT + "KiloCAL-PER-MOL",
    "kJ/mol": UNIT + "KiloJ-PER-MOL",
    "J/(mol K)": UNIT + "J-PER-MOL-K",
    "Å": UNIT + "ANGSTROM",
    "Å³": UNIT + "ANGSTROM3",
    "nm": UNIT + "NanoM",
    "1/cm": UNIT + "PER-CentiM",
    "K": UNIT + "K",
    "Pa": UNIT + "PA",
    "s": UNIT + "SEC",
    "u": UNIT + "U",
    "e": UNIT + "E",
    "MiB": UNIT + "MebiBYTE",
    "B": UNIT + "BYTE",
    "1": UNIT + "UNITLESS",
    "g/cm³": UNIT + "GM-PER-CentiM3",
    "m²/g": UNIT + "M2-PER-GM",
    "cm³/g": UNIT + "CentiM3-PER-GM",
    "eV/Å": UNIT + "EV-PER-ANGSTROM",
    "GPa": UNIT + "GigaPA",
    "°": UNIT + "DEG",
    "D": UNIT + "DEBYE",
    # QUDT 3 has none of these.
    "eV/Å³": GRAFICO + "ElectronVoltPerCubicAngstrom",
    "Å²": GRAFICO + "SquareAngstrom",
    "m²/cm³": GRAFICO + "SquareMeterPerCubicCentimeter",
    "km/mol": GRAFICO + "KilometerPerMole",
    "L/(mol cm)": GRAFICO + "LiterPerMoleCentimeter",
    "e a0": GRAFICO + "AtomicUnitOfElectricDipole",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a quantity: ``Annotated[float, Unit("eV")]``.

    Parameters
    ----------
    symbol
        One of the symbols of :meth:`symbols`, or the IRI of a unit.
    """

    symbol: str

    def __post_init__(self) -> None:
        if self.symbol not in _UNITS:
            check_iri(self.symbol)

    @property
    def iri(self) -> str:
        """The QUDT IRI (or grafico's own, where QUDT has no such unit)."""
        return _UNITS.get(self.symbol, self.symbol)

    @staticmethod
    def symbols() -> dict[str, str]:
        """Return the known symbols and their IRIs."""
        return dict(_UNITS)

    @staticmethod
    def symbol_of(iri: str) -> str:
        """Return the symbol of a unit's IRI, or the last part of the IRI."""
        return next((symbol for symbol, known in _UNITS.items() if known == iri), iri.rsplit("/", 1)[-1])


@dataclass(frozen=True, slots=True)
class Property:
    """The IRI of a field's property, where it is not the class's namespace and the field's name."""

    iri: str

    def __post_init__(self) -> None:
        check_iri(self.iri)


@dataclass(frozen=True, slots=True)
class _Link:
    """Marks a string as an IRI."""


Iri: TypeAlias = Annotated[str, _Link()]
"""A string that is the IRI of something outside the models."""
