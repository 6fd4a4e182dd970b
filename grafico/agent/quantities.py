"""Numbers with units in a sentence, and the unit into which they are wanted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grafico.agent.wanted import Conversion
from grafico.errors import BadInput
from grafico.gates import Decision, Gate, Ruling
from grafico.units import convert

__all__ = ["VERB", "Quantities", "conversion_gates", "quantities_in", "unit_of"]

_PER_MOLE = r"(?:\s?(?:/|per\s)\s?mole?|[ ·⋅*]?mol\s?(?:\^?[-−]1|⁻¹))?"
ATOMIC = "a.u."
WORDS: tuple[tuple[str, str], ...] = (
    ("kcal/mol", rf"(?:kcal|kilocalories){_PER_MOLE}"),
    ("kJ/mol", rf"(?:kj|kilojoules?){_PER_MOLE}"),
    ("cm-1", r"cm\s?\^?[-−]1|cm⁻¹|1/cm|wave ?numbers?|(?:reciprocal|inverse) centimet(?:er|re)s?"),
    ("meV", r"mev|millielectron[- ]?volts?"),
    ("eV", r"ev|electron[- ]?volts?"),
    ("e*bohr", r"e\s?[*·⋅]?\s?(?:bohr|a_?0)"),
    ("hartree", r"hartrees?"),
    ("nm", r"nm|nanomet(?:er|re)s?|wavelengths?"),
    ("pm", r"picomet(?:er|re)s?"),
    ("angstrom", r"[åÅ]|(?:å|a)ngstr(?:o|ö)ms?"),
    ("bohr", r"bohrs?"),
    ("debye", r"debyes?"),
    ("K", r"kelvins?"),
    (ATOMIC, r"a\.u\.|atomic units?(?: of (?:energy|length))?"),
)
"""Units as people write them, longer ones before those that they begin with."""
LETTERS: tuple[tuple[str, str], ...] = (
    ("hartree", r"Ha|ha|Eh|E_h"),
    ("pm", r"pm"),
    ("angstrom", r"A"),
    ("bohr", r"a_?0"),
    ("debye", r"D"),
    ("K", r"K"),
    (ATOMIC, r"au"),
)
"""What is a unit only beside a number, or where one is asked for: "5 K", "in D"."""
_UNIT_WORDS = "|".join(f"(?P<w{index}>{pattern})" for index, (_, pattern) in enumerate(WORDS))
_UNIT_LETTERS = "|".join(f"(?P<l{index}>{pattern})" for index, (_, pattern) in enumerate(LETTERS))
END = r"(?![\w*^]|/\w|[-−]\w)"
"""Where a unit ends. What goes on is another one, as in kcal/mol/Å, or no unit at all."""
NUMBER = (
    r"(?<![\w.,])(?<![\w.][-−–])(?P<number>[-−+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+))"
    r"(?:\s?[x×*]\s?10\s?\^?\s?(?P<power>[-−+]?\d+)|[eE](?P<e>[-−+]?\d+))?"
)
COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNT = rf"(?<![a-z-])(?P<count>an?|{'|'.join(COUNTS)})"
_GIVEN = re.compile(rf"{NUMBER}\s?-?(?:(?i:{_UNIT_WORDS})|{_UNIT_LETTERS}){END}")
_LISTED = re.compile(r"(?<![\w.,-])(?P<other>\d+(?:\.\d+)?)\s?(?:,|and|or|to|,\s?and|,\s?or)\s$")
"""Another number that has the same unit: "3 and 4 eV"."""
_COUNTED = re.compile(rf"(?i:{COUNT}\s(?:{_UNIT_WORDS})){END}")
_NAMED = re.compile(rf"(?<![\w/.])(?i:{_UNIT_WORDS}){END}")
_ASKED_FOR = re.compile(rf"(?<=\b)(?:in|into|to|as)\s(?:{_UNIT_LETTERS}){END}")
LINKS = frozenset((
    "in", "into", "to", "as", "is", "are", "be", "was", "makes", "make", "equals", "equal", "=", "→", "->", ",",
    "?", "how", "many", "much", "what", "which", "please", "expressed", "converted", "does", "do", "of", "a",
    "an", "the", "there", "correspond", "corresponds", "amount", "for", "with", "at", "energy", "energies",
    "excitation", "photon", "wavelength", "gap", "barrier", "shift", "bond", "length", "distance", "dipole",
    "moment",
))  # fmt: skip
"""Words between a number and the unit it is wanted in. Others mean that the number is about something else."""
BEFORE = re.compile(r"(?i)\b(?:how (?:many|much)|in|into|to|as|what|which)\s*$")
VERB = re.compile(r"(?i)^\W*(?:please\s+)?(?:convert|express|translate)\b")


@dataclass(frozen=True)
class Quantities:
    """What a sentence says of numbers and units.

    Parameters
    ----------
    given
        Numbers with their units.
    targets
        Other units, without a number.
    linked
        Whether the words say that the one is wanted in the other.
    """

    given: tuple[tuple[float, str], ...] = ()
    targets: tuple[str, ...] = ()
    linked: bool = False

    @property
    def converts(self) -> bool:
        """Whether there is something to convert, and something to convert it into."""
        return bool(self.given and self.targets)


def quantities_in(sentence: str) -> Quantities:
    """Return the numbers with units of a sentence, and the units that stand there alone."""
    taken: list[tuple[int, int]] = []
    given = _found(_GIVEN, sentence, taken)
    listed = [
        (float(one["other"]), _unit(match)) for match in given if (one := _LISTED.search(sentence[: match.start()]))
    ]
    if not given and not re.search(r"\d", _NAMED.sub("", sentence)):
        given = _found(_COUNTED, sentence, taken)
    named = [one for pattern in (_NAMED, _ASKED_FOR) for one in _found(pattern, sentence, taken)]
    named.sort(key=lambda match: match.start())
    values = tuple(dict.fromkeys([*listed, *((_value(match), _unit(match)) for match in given)]))
    units = {unit for _, unit in values}
    targets = tuple(dict.fromkeys(unit for match in named if (unit := _unit(match)) not in units))
    return Quantities(values, targets, any(_linked(sentence, a.span(), b.span()) for a in given for b in named))


def _found(pattern: re.Pattern[str], sentence: str, taken: list[tuple[int, int]]) -> list[re.Match[str]]:
    """Return the matches that lie beside those that were found before."""
    found = [
        match
        for match in pattern.finditer(sentence)
        if not any(a < match.end() and match.start() < b for a, b in taken)
    ]
    taken += [match.span() for match in found]
    return found


def _linked(sentence: str, given: tuple[int, int], unit: tuple[int, int]) -> bool:
    """Whether the words say that a number is wanted in a unit."""
    after = unit[0] >= given[1]
    if after and VERB.match(sentence):
        return True
    between = sentence[given[1] : unit[0]] if after else sentence[unit[1] : given[0]]
    words = re.findall(r"[^\s,?()]+|[,?]", between.lower())
    return set(words) <= LINKS and (after or BEFORE.search(sentence[: unit[0]]) is not None)


def _value(match: re.Match[str]) -> float:
    found = match.groupdict()
    if count := found.get("count"):
        word = count.lower()
        return float(COUNTS.index(word) + 1) if word in COUNTS else 1.0
    text = found["number"].replace("−", "-")
    thousands = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", text)
    power = (found["power"] or found["e"] or "0").replace("−", "-")
    return float(f"{text.replace(',', '' if thousands else '.')}e{power}")


def _unit(match: re.Match[str]) -> str:
    for name, text in match.groupdict().items():
        if text is not None and name[0] in "wl" and name[1:].isdigit():
            return (WORDS if name[0] == "w" else LETTERS)[int(name[1:])][0]
    raise AssertionError


def conversion_gates(sentence: str) -> tuple[Gate[Conversion], ...]:
    """Return the gates on a conversion: number and units are those of the sentence."""
    said = quantities_in(sentence)

    def check(value: Conversion) -> Decision[Conversion]:
        name = "conversion"
        if not said.given:
            return Decision(Ruling.REFUSE, value, name, "which number, in which unit, is to be converted?")
        if not said.targets:
            return Decision(Ruling.REFUSE, value, name, f"into which unit? The sentence gives {_told(said.given)}.")
        given = [one for one in said.given if _same(one, (value.value, value.unit))] or said.given
        if len(given) > 1:
            return Decision(Ruling.REFUSE, value, name, f"one number at a time, please: {_told(said.given)}")
        number, unit = given[0]
        fitting = [to for to in said.targets if _spelled(to, unit) is not None]
        if not fitting:
            return Decision(
                Ruling.REFUSE, value, name, f"{_told(given)} cannot be converted into {' or '.join(said.targets)}"
            )
        wanted = [to for to in fitting if unit_of(value.to) == to] or fitting
        if len(wanted) > 1:
            return Decision(Ruling.REFUSE, value, name, f"into which unit: {' or '.join(fitting)}?")
        if {unit, wanted[0]} == {ATOMIC, "nm"}:
            return Decision(Ruling.REFUSE, value, name, "atomic units of length (bohr) or of energy (hartree)?")
        fixed = Conversion(value=number, unit=_spelled(unit, wanted[0]) or unit, to=_spelled(wanted[0], unit) or "")
        if value == fixed:
            return Decision(Ruling.ACCEPT, value, name)
        return Decision(Ruling.CORRECT, fixed, name, f"the sentence says {number:.10g} {unit} in {wanted[0]}")

    return (Gate("conversion", check),)


def _told(given: Sequence[tuple[float, str]]) -> str:
    return " or ".join(f"{number:.10g} {unit}" for number, unit in given)


def _same(said: tuple[float, str], form: tuple[float, str]) -> bool:
    return said[0] == form[0] and unit_of(form[1]) == said[1]


def unit_of(text: str) -> str | None:
    """Return the unit that a text is, as it is called here; ``None`` if it is none."""
    match = _GIVEN.fullmatch(f"1 {text.strip()}")
    return None if match is None else _unit(match)


def _spelled(unit: str, other: str) -> str | None:
    """Return a unit as :func:`grafico.units.convert` knows it, ``None`` if it cannot be converted to or from the other.

    Atomic units are those of energy, length or dipole moment, as the other unit is.
    """
    for name in ("hartree", "bohr", "e*bohr") if unit == ATOMIC else (unit,):
        partners = ("hartree", "bohr", "e*bohr") if other == ATOMIC else (other,)
        for partner in partners:
            if _convertible(name, partner):
                return name
    return None


def _convertible(unit: str, to: str) -> bool:
    try:
        convert(1.0, unit, to)
    except (ValueError, BadInput):
        return False
    return True
