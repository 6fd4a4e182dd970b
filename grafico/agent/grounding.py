"""Gates between what a model read out of a sentence and what the sentence says.

Nothing counts that the sentence does not state. Words that the sentence does state, and that have one meaning, count
even where the model passed over them.
"""

import re
from collections.abc import Callable, Iterable

from grafico.agent.wanted import Wanted
from grafico.gates import Decision, Gate, Ruling

__all__ = ["is_smiles", "level_in", "molecule_in", "stands_in", "tasks_in", "wanted_gates"]

THERMOCHEMISTRY = r"zero-?point|free energ|enthalp|entrop|thermochem|gibbs"
TASKS: tuple[tuple[str, str], ...] = (
    ("ensemble_spectrum", r"conformer|boltzmann|ensemble"),
    ("ensemble_spectrum", r"\b(uv|uv[-/ ]?vis|absorption|electronic)\b.{0,20}\bspectr"),
    ("excited_states", r"excited|excitation|td-?dft|\btda\b|singlet states|triplet states|vertical"),
    ("frequencies", r"frequenc|vibration|infrared|\bir\b|" + THERMOCHEMISTRY),
    ("optimize", r"optimi[sz]|relax|minimi[sz]e|equilibrium geometr|minimum"),
    ("analysis", r"charges\b|dipole|orbital|\bhomo\b|\blumo\b|population|bond order"),
    ("energy", r"single[- ]point|\benergy\b|\benergies\b|\bscf\b"),
)
METHODS = (
    "b3lyp", "pbe0", "pbe", "blyp", "bp86", "tpssh", "tpss", "r2scan", "m06-2x", "m06-l", "m06", "cam-b3lyp", "wb97x-d4",
    "wb97x-d3", "wb97x-v", "wb97m-v", "hse06", "revpbe", "bhandhlyp", "lc-wpbe", "hf", "rhf", "hartree-fock", "bhlyp", "rb3lyp",
)  # fmt: skip
BASIS = re.compile(
    r"(?<![a-z0-9+*\-])(?:sto-\dg|[36]-\d{2,3}\+{0,2}g(?:\*{1,2}|\([a-z0-9,]+\))?|(?:ma-)?def2-(?:svp|[tq]zvpp?)d?|"
    r"(?:(?:d-)?aug-)?cc-pw?c?v[dtq56]z|pc(?:seg)?-\d|lanl2dz)(?![a-z0-9*(+])"
)
"""Families of basis sets; what PySCF has of them is checked with the job."""
PREFIX = r"(?:td-?|tda-|ri-|u|ro)?"
"""Words for how a method is used that programs write in front of it; an r is part of a name, as in RPBE."""
PAIR = re.compile(r"(?<![\w/])([a-z][a-z0-9()-]*[a-z0-9)])\s?/\s?(?=[a-z0-9])")
AS_IT_IS = (
    r"as (it|they) (is|are)|as is\b|given geometry|geometry (given|i gave)|single[- ]point|without (optimi|relax)"
)
IONS = (
    (r"\bdication\b", 2),
    (r"\bdianion\b", -2),
    (r"\bcation\b|protonated|radical cation", 1),
    (r"(?<!c)(?<!de)\banion\b|deprotonated", -1),
)
MULTIPLICITIES = (("singlet", 1), ("doublet", 2), ("triplet", 3), ("quartet", 4), ("quintet", 5))
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Check = Callable[[Wanted], Decision[Wanted]]


def wanted_gates(sentence: str, molecules: Iterable[str], solvents: Iterable[str]) -> tuple[Gate[Wanted], ...]:
    """Return the gates on a calculation that was read out of a sentence.

    Parameters
    ----------
    sentence
        What the user wrote.
    molecules, solvents
        Names that grafico knows.
    """
    low = sentence.lower()
    known, liquids = sorted(molecules, key=len, reverse=True), sorted(solvents, key=len, reverse=True)
    return (
        Gate("tasks", lambda value: _check_tasks(value, low)),
        Gate("solvent", lambda value: _check_named(value, "solvent", _solvent_in(low, liquids), low)),
        Gate("molecule", lambda value: _check_molecule(value, sentence, known)),
        Gate("method", lambda value: _check_named(value, "method", _methods(low), low)),
        Gate("basis", lambda value: _check_named(value, "basis", _bases(low), low)),
        Gate("dispersion", lambda value: _check_named(value, "dispersion", _dispersion(low), low)),
        Gate("charge", lambda value: _check_number(value, "charge", _charge(low))),
        Gate("multiplicity", lambda value: _check_number(value, "multiplicity", _multiplicity(low))),
        Gate("states", lambda value: _check_number(value, "states", _states(low))),
        Gate("excited_spin", lambda value: _check_spin(value, low)),
        Gate("temperature", lambda value: _check_number(value, "temperature", _temperature(low))),
    )


def tasks_in(low: str) -> list[str]:
    """Return the tasks that the words of a text mean."""
    found = [task for task, pattern in TASKS if re.search(pattern, low)]
    if "ensemble_spectrum" in found:
        found = [task for task in found if task in {"ensemble_spectrum", "frequencies"}]
    # "free energy" and "excitation energy" are no energies by themselves.
    if "energy" in found and len(found) > 1 and not re.search(r"single[- ]point", low):
        found.remove("energy")
    # Thermochemistry is that of a minimum; a structure that was built from a formula is none.
    if "frequencies" in found and re.search(THERMOCHEMISTRY, low) and not re.search(AS_IT_IS, low):
        found.append("optimize")
    return list(dict.fromkeys(found))


ORDER = ("energy", "optimize", "frequencies", "excited_states", "analysis", "ensemble_spectrum")


def _check_tasks(value: Wanted, low: str) -> Decision[Wanted]:
    told = sorted(tasks_in(low), key=ORDER.index)
    if not told:
        if not value.tasks:
            return Decision(Ruling.REFUSE, value, "tasks", "what should be computed?")
        return Decision(
            Ruling.FLAG, value, "tasks", f"the sentence does not say {', '.join(value.tasks)} in so many words"
        )
    if set(told) != set(value.tasks):
        return _corrected(value, "tasks", {"tasks": tuple(told)}, f"the sentence's words mean {', '.join(told)}")
    return Decision(Ruling.ACCEPT, value, "tasks")


def molecule_in(sentence: str, known: Iterable[str]) -> list[str]:
    """Return the known names in a sentence, longer ones first; a name within another one does not count."""
    low = sentence.lower()
    taken: list[tuple[int, int]] = []
    found = []
    for name in known:
        for match in re.finditer(rf"(?<![a-z0-9]){re.escape(name.lower())}(?![a-z0-9])", low):
            span = match.span()
            # "in water" names a solvent.
            before = low[: span[0]].rstrip()
            if re.search(r"\b(in|solvent|solvated (in|by))( (liquid|bulk|implicit))?$", before):
                continue
            if not any(a < span[1] and span[0] < b for a, b in taken):
                taken.append(span)
                found.append(name)
    return list(dict.fromkeys(found))


def _check_molecule(value: Wanted, sentence: str, known: list[str]) -> Decision[Wanted]:
    given = value.molecule.strip()
    there = given and stands_in(given, sentence) and not _level_or_task(given.lower())
    names = molecule_in(sentence, known)
    smiles = [word for word in (w.strip(".,;:?!\"'`") for w in sentence.split()) if is_smiles(word)]
    if len(smiles) == 1 and given != smiles[0]:
        return _corrected(value, "molecule", {"molecule": smiles[0]}, f"{smiles[0]} is a SMILES in the sentence")
    other = not smiles and len(names) == 1 and given.lower() != names[0].lower()
    # A longer phrase may hold the name: "protonated pyridine" does, "methyl acetate" is another molecule.
    if other and (not there or _more_than(given, names[0])):
        return _corrected(value, "molecule", {"molecule": names[0]}, f"{names[0]!r} is the name in the sentence")
    if not there:
        return Decision(Ruling.REFUSE, value, "molecule", "which molecule? give a name or a SMILES")
    return Decision(Ruling.ACCEPT, value, "molecule")


def stands_in(given: str, sentence: str) -> bool:
    """Whether a phrase stands in a sentence as words of its own; the C of methane is a letter of many others."""
    return re.search(rf"(?<![a-z0-9]){re.escape(given.lower())}(?![a-z0-9])", sentence.lower()) is not None


def _says(given: str, low: str) -> bool:
    """Whether a name stands in a text, however it is hyphenated; the letters of HF are in "with frequencies" as well."""
    letters = r"[^a-z0-9*+]?".join(re.escape(c) for c in _bare(given))
    return bool(letters) and re.search(rf"(?<![a-z0-9]){letters}(?![a-z0-9*+])", low.replace("ω", "w")) is not None


def _level_or_task(low: str) -> bool:
    """Whether a phrase that should be a molecule is a level of theory or a task."""
    return level_in(low) or bool(tasks_in(low))


def level_in(low: str) -> bool:
    """Return whether a text names a method or a basis set."""
    return bool(_methods(low) or _bases(low))


def _more_than(given: str, name: str) -> bool:
    rest = given.lower().replace(name.lower(), "").split()
    plain = {
        "the",
        "a",
        "an",
        "molecule",
        "of",
        "neutral",
        "gas-phase",
        "gas",
        "phase",
        "radical",
        "cation",
        "anion",
        "triplet",
        "singlet",
        "doublet",
        "protonated",
        "deprotonated",
        "ground",
        "state",
    }
    return all(word in plain for word in rest)


def is_smiles(word: str) -> bool:
    """Return whether a word looks like a SMILES and like no other word."""
    if len(word) < 2 or not re.fullmatch(r"[A-Za-z0-9@+\-\[\]()=#$/\\.%*]+", word):
        return False
    if re.search(r"[=#\[\]]|\(.*\)|[cnos]\d", word) and re.search(r"[CNOSPFcnos]", word):
        return not re.search(r"\d-\d+g|g\(|\bd3\(", word.lower())
    return bool(re.fullmatch(r"(?:C|N|O|S|P|F|Cl|Br|I){3,}", word))


def _check_named(value: Wanted, field: str, told: list[str], low: str) -> Decision[Wanted]:
    given = getattr(value, field)
    if len(told) == 1:
        if given is None or _bare(given) != _bare(told[0]):
            return _corrected(value, field, {field: told[0]}, f"the sentence says {told[0]}")
        return Decision(Ruling.ACCEPT, value, field)
    if given is not None and (field == "solvent" or not _says(given, low)):
        return _corrected(value, field, {field: None}, f"the sentence does not say {given!r}")
    return Decision(Ruling.ACCEPT, value, field)


def _methods(low: str) -> list[str]:
    """Return the methods in a text: known ones, the longest where they overlap, else what stands before ``/BASIS``."""
    low = low.replace("ω", "w")
    found: list[tuple[int, int, str]] = []
    for name in sorted(METHODS, key=len, reverse=True):
        for match in re.finditer(rf"(?<![a-z0-9+*\-]){PREFIX}{re.escape(name)}(?![a-z0-9*(+])", low):
            if not any(a < match.end() and match.start() < b for a, b, _ in found):
                found.append((*match.span(), name))
    names = dict.fromkeys(name for *_, name in found)
    if not names:
        names = dict.fromkeys(match[1] for match in PAIR.finditer(low) if BASIS.match(low, match.end()))
    return [{"hartree-fock": "hf", "rhf": "hf", "rb3lyp": "b3lyp"}.get(name, name) for name in names]


def _bases(low: str) -> list[str]:
    return list(dict.fromkeys(match.group() for match in BASIS.finditer(low)))


def _dispersion(low: str) -> list[str]:
    if re.search(r"wb97x-d[34]|ωb97x-d[34]", low):
        return []
    match = re.search(r"\bd3\(?-?bj\)?|\bd3zero\b|\bd3\b|\bd4\b", low)
    return [] if match is None else ["d4" if match.group() == "d4" else "d3zero" if "zero" in match.group() else "d3bj"]


def _solvent_in(low: str, liquids: list[str]) -> list[str]:
    found: list[str] = []
    for name in liquids:
        if re.search(
            rf"\b(in|solvent:?|solvated (in|by)|aqueous)\b[^.;]{{0,25}}(?<![a-z0-9-]){re.escape(name)}(?![a-z0-9])", low
        ) and not any(name in other for other in found):
            found.append(name)
    if not found and re.search(r"\baqueous\b|in water\b", low):
        found = ["water"]
    return found


def _check_number(value: Wanted, field: str, told: float | None) -> Decision[Wanted]:
    given = getattr(value, field)
    if given == told:
        return Decision(Ruling.ACCEPT, value, field)
    said = f"the sentence says {told:g}" if told is not None else f"the sentence does not say {given}"
    return _corrected(value, field, {field: told}, said)


def _charge(low: str) -> int | None:
    match = re.search(r"charge (?:of |is |= ?)?([+-]?\d+)|([+-]\d+) charge", low)
    if match:
        return int(match.group(1) or match.group(2))
    return next((charge for pattern, charge in IONS if re.search(pattern, low)), None)


def _multiplicity(low: str) -> int | None:
    match = re.search(r"multiplicity (?:of |is |= ?)?(\d+)", low)
    if match:
        return int(match.group(1))
    # "the lowest triplet states" are excited ones.
    return next((n for word, n in MULTIPLICITIES if re.search(rf"\b{word}\b(?!.{{0,12}}(states|excit))", low)), None)


def _states(low: str) -> int | None:
    words = "|".join(WORDS)
    kinds = "lowest|first|low-lying|vertical|excited|electronic|optical|valence|singlet|triplet|bright|dark"
    match = re.search(
        rf"\b(\d+|{words})\b(?: (?:{kinds}|of the|and))* "
        r"(?:states?|roots?|excitations?|transitions?|excitation energ(?:y|ies))\b",
        low,
    )
    if not match:
        return None
    text = match.group(1)
    return int(text) if text.isdigit() else WORDS.index(text) + 1


def _check_spin(value: Wanted, low: str) -> Decision[Wanted]:
    told = {
        spin for spin in ("singlet", "triplet") if re.search(rf"\b{spin}\b.{{0,24}}(states|excit|transitions)", low)
    }
    spin = "both" if len(told) == 2 else next(iter(told), None)
    if spin == value.excited_spin:
        return Decision(Ruling.ACCEPT, value, "excited_spin")
    said = f"the sentence says {spin}" if spin else f"the sentence does not say {value.excited_spin}"
    return _corrected(value, "excited_spin", {"excited_spin": spin}, said)


def _temperature(low: str) -> float | None:
    match = re.search(r"(\d+(?:\.\d+)?)\s*k(?:elvin)?\b", low)
    if match:
        return float(match.group(1))
    celsius = re.search(r"(-?\d+(?:\.\d+)?)\s*°\s*c\b", low)
    return round(float(celsius.group(1)) + 273.15, 2) if celsius else None


def _corrected(value: Wanted, gate: str, changes: dict[str, object], reason: str) -> Decision[Wanted]:
    return Decision(Ruling.CORRECT, value.model_copy(update=changes), gate, reason)


def _bare(text: str) -> str:
    return "".join(c for c in text.lower().replace("ω", "w") if c.isalnum() or c in "*+")
