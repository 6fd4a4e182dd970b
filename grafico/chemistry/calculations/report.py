"""Plots, tables and structures of an ensemble spectrum."""

import csv
import io
from collections.abc import Mapping
from importlib.metadata import version

from pydantic import Field

from grafico.atoms import write_extxyz
from grafico.atoms.xyz import Value
from grafico.calculations import ArtifactRef, Model, Resources, WorkContext, calculation, canonical_json
from grafico.chemistry.ensemble_result import EnsembleMember, EnsembleResult, EnvironmentResult
from grafico.chemistry.plotting import Array, Curve, Panel, draw_spectra
from grafico.chemistry.spectrum import Broadening, absorptivity, energy_axis, on_wavelength_axis
from grafico.units import EV_NANOMETRE

__all__ = ["REPORT_RESOURCES", "ReportInput", "ReportOutput", "ensemble_report"]

REPORT_RESOURCES = Resources(memory_mib=1024, walltime_s=600.0)


class ReportInput(Model):
    """The result to report on."""

    result: EnsembleResult


class ReportOutput(Model):
    """Files, by the name under which they are published."""

    files: Mapping[str, ArtifactRef] = Field(description="name: artifact")


@calculation(version="1", resources=REPORT_RESOURCES, family="python", uses=("matplotlib",))
def ensemble_report(value: ReportInput, ctx: WorkContext) -> ReportOutput:
    """Draw spectrum.png and spectrum.svg; write spectrum.csv, ensemble.csv, ensemble.json and ensemble.xyz."""
    result = value.result
    ctx.used(matplotlib=version("matplotlib"))
    curves = {environment.environment.name: _Curves(environment) for environment in result.environments}
    png, svg = _figure(result, curves)
    contents = {
        "spectrum.png": (png, "image/png"),
        "spectrum.svg": (svg, "image/svg+xml"),
        "spectrum.csv": (_spectrum_csv(curves).encode(), "text/csv"),
        "ensemble.csv": (_ensemble_csv(result).encode(), "text/csv"),
        "ensemble.json": (canonical_json(_ensemble_json(result)), "application/json"),
        "ensemble.xyz": (_ensemble_xyz(result).encode(), "chemical/x-xyz"),
    }
    return ReportOutput(files={name: ctx.artifacts.put(data, kind) for name, (data, kind) in contents.items()})


class _Curves:
    """The curves of one environment on one energy axis."""

    def __init__(self, result: EnvironmentResult) -> None:
        self.result = result
        self.broadening: Broadening = result.ensemble.broadening
        retained = [member for member in result.members if member.population.retained]
        self.energies = [stick.energy_ev for member in retained for stick in member.sticks]
        self.strengths = [
            member.population.weight * stick.oscillator_strength for member in retained for stick in member.sticks
        ]
        main = result.member(result.main)
        self.axis = energy_axis(self.energies, self.broadening)
        self.ensemble = absorptivity(self.axis, self.energies, self.strengths, self.broadening)
        self.main = absorptivity(
            self.axis,
            [stick.energy_ev for stick in main.sticks],
            [stick.oscillator_strength for stick in main.sticks],
            self.broadening,
        )


def _figure(result: EnsembleResult, curves: Mapping[str, _Curves]) -> tuple[bytes, bytes]:
    panels = [
        Panel(
            name=name,
            detail=curve.result.level_label,
            ensemble=Curve(curve.axis, curve.ensemble),
            main=Curve(curve.axis, curve.main),
            main_label=f"{curve.result.main} alone",
            sticks=[
                (energy, strength)
                for energy, strength in zip(curve.energies, curve.strengths, strict=True)
                if strength > 1e-6
            ],
        )
        for name, curve in curves.items()
    ]
    first = result.environments[0]
    broadening = first.ensemble.broadening
    counted = "with" if result.use_degeneracy else "without"
    weighed = "electronic" if result.energy == "electronic" else "free"
    note = (
        f"{first.level.model_copy(update={'solvent': None}).label}; {broadening.label}; weights from {weighed} energies "
        f"{counted} degeneracies at {result.temperature:g} K; Jacobian dE/dλ {'on' if broadening.jacobian else 'off'}"
    )
    title = f"{result.label} ({result.formula}): absorption of the conformer ensemble"
    return draw_spectra(panels, title=title, note=note, jacobian=broadening.jacobian)


def _spectrum_csv(curves: Mapping[str, _Curves]) -> str:
    """Return one row a point: ε and normalized spectra on both axes, for ensemble and main conformer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "environment",
            "energy_ev",
            "wavelength_nm",
            "epsilon_ensemble_l_mol_cm",
            "epsilon_main_l_mol_cm",
            "normalized_energy_ensemble",
            "normalized_energy_main",
            "normalized_wavelength_ensemble",
            "normalized_wavelength_main",
        ]
    )
    for name, curve in curves.items():
        jacobian = curve.broadening.jacobian
        columns = [curve.ensemble, curve.main]
        columns += [_normalized(values) for values in (curve.ensemble, curve.main)]
        columns += [
            _normalized(on_wavelength_axis(values, curve.axis, jacobian=jacobian))
            for values in (curve.ensemble, curve.main)
        ]
        for index, energy in enumerate(curve.axis):
            numbers = [f"{column[index]:.6g}" for column in columns]
            writer.writerow([name, f"{energy:.6f}", f"{EV_NANOMETRE / energy:.4f}", *numbers])
    return text.getvalue()


def _normalized(values: Array) -> Array:
    top = float(values.max())
    return values / top if top > 0 else values


def _ensemble_csv(result: EnsembleResult) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "environment",
            "conformer",
            "merged",
            "level",
            "energy_hartree",
            "free_energy_hartree",
            "relative_kcal_mol",
            "degeneracy",
            "weight",
            "weight_with_degeneracy",
            "weight_without_degeneracy",
            "retained",
            "lowest_frequency_cm1",
            "lowest_bright_ev",
            "lowest_bright_nm",
            "lowest_bright_f",
        ]
    )
    for environment in result.environments:
        for member in environment.members:
            share, bright = member.population, member.bright
            writer.writerow(
                [
                    environment.environment.name,
                    member.id,
                    " ".join(member.merged),
                    environment.level_label,
                    f"{member.energy:.10f}",
                    "" if member.free_energy is None else f"{member.free_energy:.10f}",
                    f"{share.relative:.4f}",
                    share.degeneracy,
                    f"{share.weight:.6f}",
                    f"{share.weight_with_degeneracy:.6f}",
                    f"{share.weight_without_degeneracy:.6f}",
                    share.retained,
                    "" if member.lowest_frequency is None else f"{member.lowest_frequency:.2f}",
                    f"{bright.energy_ev:.4f}" if bright else "",
                    f"{bright.wavelength_nm:.2f}" if bright else "",
                    f"{bright.oscillator_strength:.6f}" if bright else "",
                ]
            )
    return text.getvalue()


def _ensemble_json(result: EnsembleResult) -> dict[str, object]:
    return result.model_dump(mode="json", exclude={"files", "persisted"})


def _ensemble_xyz(result: EnsembleResult) -> str:
    frames, info = [], []
    for environment in result.environments:
        for member in environment.members:
            frames.append(member.atoms)
            info.append(_frame_info(environment, member))
    return write_extxyz(frames, info)


def _frame_info(environment: EnvironmentResult, member: EnsembleMember) -> dict[str, Value]:
    share = member.population
    values: dict[str, Value] = {
        "environment": environment.environment.name,
        "conformer": member.id,
        "level": environment.level_label,
        "energy_hartree": member.energy,
        "relative_kcal_mol": share.relative,
        "degeneracy": share.degeneracy,
        "weight": share.weight,
    }
    if member.free_energy is not None:
        values["free_energy_hartree"] = member.free_energy
    return values
