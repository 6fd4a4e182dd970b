"""The result of the quantum chemistry graph as tables for people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from grafico.calculations import Json

if TYPE_CHECKING:
    from grafico.chemistry.quantum_chemistry.request import QCResult

__all__ = ["result_row", "result_tables"]

MANY = 60
"""Rows beyond which a table leaves the rest to ``result.json``."""


def result_tables(result: "QCResult") -> tuple[Mapping[str, Json], ...]:
    """Return one table of the molecule's numbers, and where they were asked for, of modes, excitations and charges."""
    found = (_numbers(result), _vibrations(result), _excitations(result), _charges(result), _notes(result))
    return tuple(table for table in found if table is not None)


def result_row(result: "QCResult") -> Mapping[str, Json]:
    """Return the molecule's numbers as one row of a sweep's table; only those that the job asked for."""
    row: dict[str, Json] = {"molecule": result.label}
    if result.energy is not None:
        row["energy (hartree)"] = result.energy
    if result.electronic is not None:
        x, y, z = result.electronic.dipole
        row |= {"gap (eV)": result.electronic.gap_ev, "dipole (debye)": (x * x + y * y + z * z) ** 0.5}
    if result.vibrations is not None:
        row["imaginary modes"] = result.vibrations.imaginary
    thermo = result.thermochemistry
    if thermo is not None:
        row |= {
            "zero-point energy (hartree)": thermo.zero_point_energy,
            "enthalpy (hartree)": thermo.enthalpy,
            "free energy (hartree)": thermo.gibbs_quasi_rrho,
        }
    if result.excitations:
        first = min(result.excitations, key=lambda item: item.energy_ev)
        bright = max(result.excitations, key=lambda item: item.oscillator_strength)
        row |= {
            "lowest excitation (eV)": first.energy_ev,
            "brightest excitation (eV)": bright.energy_ev,
            "oscillator strength": bright.oscillator_strength,
        }
    if result.notes:
        row["note"] = "; ".join(result.notes)
    return row


def _numbers(result: "QCResult") -> Mapping[str, Json] | None:
    rows: list[tuple[str, Json, str]] = []
    if result.energy is not None:
        rows.append(("energy", f"{result.energy:.8f}", "hartree"))
    if result.optimized:
        rows.append(("optimization", result.steps, "steps"))
    if result.removals:
        rows.append(("displaced along imaginary modes", result.removals, "times"))
    if result.vibrations is not None:
        rows.append(("imaginary modes", result.vibrations.imaginary, ""))
    thermo = result.thermochemistry
    if thermo is not None:
        rows += [
            ("zero-point energy", f"{thermo.zero_point_energy:.6f}", "hartree"),
            ("enthalpy", f"{thermo.enthalpy:.6f}", "hartree"),
            ("free energy", f"{thermo.gibbs:.6f}", "hartree"),
            ("free energy, quasi-RRHO", f"{thermo.gibbs_quasi_rrho:.6f}", "hartree"),
            ("entropy", f"{thermo.entropy:.2f}", "J/(mol K)"),
            ("temperature", f"{thermo.temperature:.2f}", "K"),
            ("point group", thermo.point_group, ""),
        ]
    if result.electronic is not None:
        x, y, z = result.electronic.dipole
        rows.append(("dipole moment", f"{(x * x + y * y + z * z) ** 0.5:.4f}", "debye"))
        if result.electronic.gap_ev is not None:
            rows.append(("HOMO–LUMO gap", f"{result.electronic.gap_ev:.4f}", "eV"))
    if not rows:
        return None
    return {"title": f"{result.label}, {result.level.label}", "columns": ("", "value", "unit"), "rows": rows}


def _vibrations(result: "QCResult") -> Mapping[str, Json] | None:
    found = result.vibrations
    if found is None or not found.wavenumbers:
        return None
    intensities = found.intensities or (None,) * len(found.wavenumbers)
    rows = [
        (number, f"{wavenumber:.1f}", None if intensity is None else f"{intensity:.2f}")
        for number, (wavenumber, intensity) in enumerate(zip(found.wavenumbers, intensities, strict=True), 1)
    ]
    return _table("harmonic frequencies", ("mode", "ν / cm⁻¹", "IR / km/mol"), rows)


def _excitations(result: "QCResult") -> Mapping[str, Json] | None:
    if not result.excitations:
        return None
    rows = [
        (number, item.kind, f"{item.energy_ev:.4f}", f"{item.wavelength_nm:.1f}", f"{item.oscillator_strength:.4f}")
        for number, item in enumerate(result.excitations, 1)
    ]
    level = f", {result.excited_level.label}" if result.excited_level is not None else ""
    return _table(f"vertical excitations{level}", ("state", "kind", "E / eV", "λ / nm", "f"), rows)


def _charges(result: "QCResult") -> Mapping[str, Json] | None:
    found = result.analysis
    if found is None:
        return None
    kinds = {
        "Mulliken": found.electronic.mulliken,
        "Löwdin": found.lowdin,
        "IAO": found.iao,
        "spin": found.mulliken_spin,
    }
    given = {name: values for name, values in kinds.items() if values is not None}
    rows: list[tuple[Json, ...]] = [
        (number, symbol, *(f"{values[number - 1]:.4f}" for values in given.values()))
        for number, symbol in enumerate(result.atoms.symbols, 1)
    ]
    return _table("charges / e", ("atom", "element", *given), rows)


def _notes(result: "QCResult") -> Mapping[str, Json] | None:
    if not result.notes:
        return None
    return {"title": "", "columns": ("to know",), "rows": [(note,) for note in result.notes]}


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[Json, ...]]) -> Mapping[str, Json]:
    if len(rows) > MANY:
        title = f"{title}: the first {MANY} of {len(rows)}, the others are in result.json"
    return {"title": title, "columns": columns, "rows": rows[:MANY]}
