"""What a sentence asks for, in the few words that a small model can fill in; and the job that it means."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import Field

from grafico.calculations import Json, Model

__all__ = ["KINDS", "Conversion", "Kind", "Knowing", "Looking", "Molecule", "Sentence", "Wanted", "compose"]

Kind: TypeAlias = Literal["compute", "convert_units", "inspect_run", "ask_knowledge", "unclear"]
KINDS: Mapping[str, str] = {
    "compute": "a new calculation on a molecule",
    "convert_units": "a number in one unit is wanted in another",
    "inspect_run": "how an earlier run stands, what failed, or why",
    "ask_knowledge": "what earlier runs have found, from the knowledge base",
    "unclear": "none of these, or too little is said",
}

Task: TypeAlias = Literal["energy", "optimize", "frequencies", "excited_states", "analysis", "ensemble_spectrum"]


class Sentence(Model):
    """What kind of thing a sentence asks for."""

    kind: Kind = Field(description="; ".join(f"{name}: {words}" for name, words in KINDS.items()))


class Wanted(Model):
    """A calculation as a sentence asks for it. Only what the sentence states; null for the rest."""

    tasks: tuple[Task, ...] = Field(
        max_length=6,
        description="energy: energy at the given geometry; optimize: relax the geometry; frequencies: vibrations and "
        "thermochemistry; excited_states: excited states of one geometry; analysis: charges, dipole, orbitals; "
        "ensemble_spectrum: UV/Vis absorption spectrum averaged over conformers",
    )
    molecule: str = Field(description="name or SMILES of the molecule, exactly as the sentence has it; empty if none")
    charge: int | None = Field(default=None, description="total charge, if stated")
    multiplicity: int | None = Field(default=None, description="2S+1, if stated: 1 singlet, 2 doublet, 3 triplet")
    method: str | None = Field(default=None, description="density functional or HF, if stated")
    basis: str | None = Field(default=None, description="basis set, if stated")
    dispersion: str | None = Field(default=None, description="dispersion correction such as D3BJ or D4, if stated")
    solvent: str | None = Field(default=None, description="solvent, if stated")
    states: int | None = Field(default=None, description="number of excited states, if stated")
    excited_spin: Literal["singlet", "triplet", "both"] | None = Field(
        default=None, description="spin of the excited states, if stated"
    )
    temperature: float | None = Field(default=None, description="temperature in kelvin, if stated")


class Conversion(Model):
    """A conversion of units."""

    value: float = Field(description="the number, as the request has it")
    unit: str = Field(description="its unit, as the request has it")
    to: str = Field(description="the unit wanted")


class Looking(Model):
    """Which run is asked about."""

    run: str = Field(default="last", description="name of the run as the request has it; `last` for the newest")
    about: Literal["status", "failures", "story"] = Field(
        default="status", description="status: how it stands; failures: what failed and why; story: all that happened"
    )


class Knowing(Model):
    """What is asked of the knowledge base."""

    about: Literal["molecules", "calculations", "spectra", "runs"] = Field(description="what is listed")
    molecule: str | None = Field(default=None, description="only this molecule, as the request has it")


class Molecule(Model):
    """Which molecule, resolved."""

    smiles: str | None = None
    name: str | None = None


QC_TASKS = {
    "energy": "single_point",
    "optimize": "optimize",
    "frequencies": "frequencies",
    "excited_states": "tddft",
    "analysis": "analysis",
}
DEFAULT_LEVEL = {"method": "b3lyp", "basis": "def2-svp", "density_fit": True}


def compose(wanted: Wanted, molecule: Molecule, *, cluster: str = "laptop") -> dict[str, Json]:
    """Return the job that a wanted calculation means; what was not said gets the defaults that are shown with it."""
    level: dict[str, Any] = dict(DEFAULT_LEVEL)
    for name in ("method", "basis", "dispersion"):
        if getattr(wanted, name):
            level[name] = getattr(wanted, name)
    if level["method"].lower() in {"hf", "rhf", "uhf"}:
        level["density_fit"] = False
    which: dict[str, Any] = {k: v for k, v in molecule.model_dump().items() if v is not None}
    for name in ("charge", "multiplicity"):
        if getattr(wanted, name) is not None:
            which[name] = getattr(wanted, name)
    ensemble = "ensemble_spectrum" in wanted.tasks
    request = _ensemble(wanted, which, level) if ensemble else _single(wanted, which, level)
    label = "".join(c if c.isalnum() or c in "_.+-" else "-" for c in (molecule.name or "molecule"))[:40]
    return {
        "name": f"{label.strip('-') or 'molecule'}-{'spectrum' if ensemble else wanted.tasks[-1]}",
        "graph": "ensemble-spectrum" if ensemble else "quantum-chemistry",
        "cluster": cluster,
        "input": request,
    }


def _single(wanted: Wanted, molecule: dict[str, Any], level: dict[str, Any]) -> dict[str, Any]:
    tasks = [QC_TASKS[task] for task in wanted.tasks if task in QC_TASKS]
    if wanted.solvent:
        level["solvent"] = {"name": wanted.solvent}
    request: dict[str, Any] = {"molecule": molecule, "tasks": list(dict.fromkeys(tasks)), "level": level}
    if "tddft" in tasks and (excited := _excited(wanted)):
        request["excited_states"] = excited
    if wanted.temperature is not None:
        request["temperature"] = wanted.temperature
    return request


def _excited(wanted: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {} if wanted.states is None else {"roots": wanted.states}
    if wanted.excited_spin in {"triplet", "both"}:
        found |= {"triplets": True, "singlets": wanted.excited_spin == "both"}
    return found


def _ensemble(wanted: Wanted, molecule: dict[str, Any], level: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = {"molecule": molecule, "level": level}
    if wanted.solvent:
        label = "".join(c if c.isalnum() else "-" for c in wanted.solvent)
        request["environments"] = [{"name": label, "solvent": wanted.solvent}]
    if excited := _excited(wanted):
        request["excited_states"] = excited
    if "frequencies" in wanted.tasks:
        request["frequencies"] = True
    if wanted.temperature is not None:
        request["temperature"] = wanted.temperature
    return request
