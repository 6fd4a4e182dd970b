"""The result of a frameworks job as tables: for people, as CSV and JSON, and as one row of a sweep."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grafico.calculations import Json, canonical_json
from grafico.frameworks.plotting import Compared, Pores, draw_pores

if TYPE_CHECKING:
    from grafico.frameworks.result import FrameworkResult, FrameworkRow

__all__ = [
    "CSV_COLUMNS",
    "PUBLISHED_PROBE",
    "compared_in",
    "draw_table",
    "pores_in",
    "pores_note",
    "result_csv",
    "result_json",
    "result_row",
    "result_tables",
]

PUBLISHED_PROBE = 1.86
"""Radius of the probe that CoRE MOF's areas were measured with, Å."""
UNKNOWN = "not cut"
"""What stands for topology and linker of a structure that was not taken apart."""

MANY = 60
"""Rows beyond which a table leaves the rest to ``frameworks.csv``."""

CSV_COLUMNS = (
    "rank",
    "name",
    "origin",
    "reference",
    "topology",
    "node",
    "linker",
    "duplicate_of",
    "atoms",
    "rmsd",
    "stage",
    "model",
    "converged",
    "steps",
    "force_ev_per_a",
    "energy_ev",
    "energy_change_ev",
    "volume_change",
    "lcd_a",
    "pld_a",
    "lfpd_a",
    "area_m2_g",
    "non_accessible_area_m2_g",
    "area_m2_cm3",
    "volume_cm3_g",
    "non_accessible_volume_cm3_g",
    "accessible_fraction",
    "channels",
    "channel_dimensionality",
    "pockets",
    "framework_dimensionality",
    "density_g_cm3",
    "high_accuracy",
    "published_lcd_a",
    "published_pld_a",
    "published_area_m2_g",
    "failed_task",
    "failure",
    "message",
    "notes",
)


def result_tables(result: "FrameworkResult") -> tuple[Mapping[str, Json], ...]:
    """Return a table of the frameworks, of what was published about them, of what went wrong, and of notes."""
    found = (_frameworks(result), _published(result), _failures(result), _notes(result))
    return tuple(table for table in found if table is not None)


def result_row(result: "FrameworkResult") -> Mapping[str, Json]:
    """Return the numbers of the framework that is first in rank, or of the only one, as one row of a sweep's table."""
    ranked = result.ranked
    row: dict[str, Json] = {}
    if len(result.rows) != 1:
        row |= {"frameworks": len(result.rows), "failed": sum(bool(item.failures) for item in result.rows)}
    first = ranked[0] if ranked else result.rows[0] if result.rows else None
    if first is None:
        return row | {"note": "; ".join(result.notes)}
    row |= {
        "framework": first.name,
        "net": first.topology,
        "metal node": first.node,
        "organic linker": first.linker,
        "atoms": first.atoms,
        "RMSD": first.rmsd,
        "stage": first.stage,
    }
    if first.converged is not None:
        row |= {"converged": first.converged, "energy change (eV)": first.energy_change}
    pores = first.pores
    if pores is not None:
        row |= {
            "LCD (Å)": pores.diameters.lcd,
            "PLD (Å)": pores.diameters.pld,
            "LFPD (Å)": pores.diameters.lfpd,
            "area (m²/g)": pores.area.accessible_m2_g,
            "closed area (m²/g)": pores.area.non_accessible_m2_g,
            "volume (cm³/g)": pores.volume.accessible_cm3_g,
            "channels": pores.channels.count,
        }
    if said := [*_said(first), *first.notes, *result.notes]:
        row["note"] = "; ".join(said)
    return row


def result_csv(result: "FrameworkResult") -> bytes:
    """Return the table of all frameworks as CSV: UTF-8, numbers in full, first things first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in _by_rank(result):
        cells = _cells(row)
        writer.writerow(["" if cells[name] is None else _text(cells[name]) for name in CSV_COLUMNS])
    return text.getvalue().encode()


def result_json(result: "FrameworkResult") -> bytes:
    """Return the rows with all that is known of them as JSON."""
    return canonical_json(result.model_dump(mode="json", exclude={"files", "persisted"}))


def pores_in(result: "FrameworkResult") -> tuple[Pores, ...]:
    """Return the frameworks whose pores were measured, for the picture."""
    return tuple(
        Pores(
            row.name,
            row.pores.diameters.pld,
            row.pores.diameters.lcd,
            row.pores.area.accessible_m2_g,
            row.topology or UNKNOWN,
            row.linker or UNKNOWN,
            row.stage == "relaxed",
        )
        for row in result.rows
        if row.pores is not None
    )


def compared_in(result: "FrameworkResult") -> tuple[Compared, ...]:
    """Return what was computed where something was published, for the picture."""
    return tuple(Compared(row.name, name, ours, theirs) for row in result.rows for name, ours, theirs, _ in _pairs(row))


def pores_note(result: "FrameworkResult") -> str:
    """Return how pores were measured, in a line."""
    if (settings := result.analysis) is None:
        return ""
    return f"Zeo++; probe {settings.probe_radius:g} Å, {settings.samples} samples an atom"


def draw_table(rows: Sequence[Mapping[str, Json]], title: str) -> Mapping[str, bytes]:
    """Draw the pores of a sweep's members, each of which has made one row of :func:`result_row`."""
    wanted = ("PLD (Å)", "LCD (Å)", "area (m²/g)")
    found = [
        Pores(
            str(row.get("framework") or row.get("member")),
            float(row["PLD (Å)"]),
            float(row["LCD (Å)"]),
            float(row["area (m²/g)"]),
            str(row.get("net") or UNKNOWN),
            str(row.get("organic linker") or UNKNOWN),
            row.get("stage") == "relaxed",
        )
        for row in rows
        if all(isinstance(row.get(name), (int, float)) for name in wanted)
    ]
    if len(found) < 2:
        return {}
    png, svg = draw_pores(found, title=f"{title}: pores of {len(found)} frameworks")
    return {"pores.png": png, "pores.svg": svg}


def _by_rank(result: "FrameworkResult") -> "list[FrameworkRow]":
    return [*result.ranked, *(row for row in result.rows if row.rank is None)]


def _cells(row: "FrameworkRow") -> dict[str, Json]:
    """Return the cells of a row of the CSV file."""
    found: dict[str, Json] = dict.fromkeys(CSV_COLUMNS)
    for name in CSV_COLUMNS:
        if name in type(row).model_fields:
            found[name] = getattr(row, name)
    found |= {"force_ev_per_a": row.force, "energy_ev": row.energy, "energy_change_ev": row.energy_change}
    pores, published = row.pores, row.published
    if pores is not None:
        found |= {
            "lcd_a": pores.diameters.lcd,
            "pld_a": pores.diameters.pld,
            "lfpd_a": pores.diameters.lfpd,
            "area_m2_g": pores.area.accessible_m2_g,
            "non_accessible_area_m2_g": pores.area.non_accessible_m2_g,
            "area_m2_cm3": pores.area.accessible_m2_cm3,
            "volume_cm3_g": pores.volume.accessible_cm3_g,
            "non_accessible_volume_cm3_g": pores.volume.non_accessible_cm3_g,
            "accessible_fraction": pores.volume.accessible_fraction,
            "channels": pores.channels.count,
            "channel_dimensionality": " ".join(map(str, pores.channels.dimensionality)),
            "pockets": pores.channels.pockets,
            "framework_dimensionality": pores.channels.framework_dimensionality,
            "density_g_cm3": pores.density,
            "high_accuracy": pores.settings.high_accuracy,
        }
    if published is not None:
        found |= {
            "published_lcd_a": published.lcd,
            "published_pld_a": published.pld,
            "published_area_m2_g": published.area_m2_g,
        }
    if row.failures:
        found |= {
            "failed_task": " ".join(row.failures),
            "failure": " ".join(str(failure.kind) for failure in row.failures.values()),
            "message": "; ".join(failure.message for failure in row.failures.values()),
        }
    found["notes"] = "; ".join(row.notes)
    return found


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frameworks(result: "FrameworkResult") -> Mapping[str, Json] | None:
    if not result.rows:
        return None
    relaxed = any(row.converged is not None for row in result.rows)
    columns = ["", "framework", "net", "atoms", "RMSD", "stage", "ΔE / eV" if relaxed else "", "LCD / Å", "PLD / Å"]
    columns += ["area / m² g⁻¹", "volume / cm³ g⁻¹", "channels", "failure"]
    rows = []
    for row in _by_rank(result):
        pores = row.pores
        cells: list[Json] = [
            row.rank,
            row.name if row.duplicate_of is None else f"{row.name} (as {row.duplicate_of})",
            row.topology,
            row.atoms,
            _rounded(row.rmsd, 3),
            row.stage,
            _rounded(row.energy_change, 2),
            _rounded(pores.diameters.lcd if pores else None, 2),
            _rounded(pores.diameters.pld if pores else None, 2),
            _rounded(pores.area.accessible_m2_g if pores else None, 0),
            _rounded(pores.volume.accessible_cm3_g if pores else None, 3),
            f"{pores.channels.count}{_dimensions(row)}" if pores else None,
            str(row.failure.kind) if row.failure else None,
        ]
        rows.append(cells)
    kept = [index for index, name in enumerate(columns) if index == 0 or (name and any(cells[index] for cells in rows))]
    title = f"{result.label}: frameworks by {_RANKS[result.rank]}"
    if len(rows) > MANY:
        title = f"{title}: the first {MANY} of {len(rows)}, the others are in frameworks.csv"
    return {
        "title": title,
        "columns": tuple(columns[index] for index in kept),
        "rows": tuple(tuple(cells[index] for index in kept) for cells in rows[:MANY]),
    }


_RANKS = {
    "area": "accessible area",
    "lcd": "largest cavity diameter",
    "pld": "pore-limiting diameter",
    "lfpd": "largest sphere along the free path",
    "volume": "accessible volume",
}


def _dimensions(row: "FrameworkRow") -> str:
    assert row.pores is not None
    found = row.pores.channels.dimensionality
    return f" ({', '.join(f'{number}D' for number in dict.fromkeys(found))})" if found else ""


def _published(result: "FrameworkResult") -> Mapping[str, Json] | None:
    rows = []
    for row in result.rows:
        rows += [
            (row.name, name, _rounded(ours, digits), _rounded(theirs, digits), f"{100 * (ours / theirs - 1):+.1f} %")
            for name, ours, theirs, digits in _pairs(row)
        ]
    if not rows:
        return None
    first = next(row for row in result.rows if row.published and row.pores)
    assert first.pores is not None
    title = f"Beside what CoRE MOF says (probe {PUBLISHED_PROBE:g} Å; here {first.pores.settings.probe_radius:g} Å)"
    return {"title": title, "columns": ("framework", "", "here", "published", "difference"), "rows": tuple(rows[:MANY])}


def _pairs(row: "FrameworkRow") -> list[tuple[str, float, float, int]]:
    """Return quantity, computed and published value, and digits to show."""
    if row.published is None or row.pores is None:
        return []
    pairs = (
        ("LCD / Å", row.pores.diameters.lcd, row.published.lcd, 2),
        ("PLD / Å", row.pores.diameters.pld, row.published.pld, 2),
        ("area / m² g⁻¹", row.pores.area.accessible_m2_g, row.published.area_m2_g, 0),
    )
    return [(name, ours, theirs, digits) for name, ours, theirs, digits in pairs if theirs]


def _failures(result: "FrameworkResult") -> Mapping[str, Json] | None:
    rows = [
        (row.name, task, str(failure.kind), failure.message)
        for row in result.rows
        for task, failure in row.failures.items()
    ]
    if not rows:
        return None
    more = f": the first {MANY} of {len(rows)}" if len(rows) > MANY else ""
    return {"title": f"What went wrong{more}", "columns": ("framework", "task", "failure", "why"), "rows": rows[:MANY]}


def _notes(result: "FrameworkResult") -> Mapping[str, Json] | None:
    rows = [(note,) for note in result.notes]
    rows += [(f"{row.name}: {note}",) for row in result.rows for note in row.notes]
    return {"title": "", "columns": ("to know",), "rows": rows[:MANY]} if rows else None


def _said(row: "FrameworkRow") -> list[str]:
    return [f"{task}: {failure.kind}: {failure.message}" for task, failure in row.failures.items()]


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"
