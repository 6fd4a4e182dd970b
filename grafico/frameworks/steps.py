"""What goes into each calculation of the frameworks wing, and what comes out.

Lengths are in Å, energies in eV, areas in m²/g and Å², volumes in cm³/g and Å³.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from grafico.atoms import ConceptualAtoms
from grafico.calculations import Failure, Model
from grafico.frameworks.parts import BuildingBlock, Combination

__all__ = [
    "AnalysisSettings",
    "AnalyzeInput",
    "BuildInput",
    "BuiltFramework",
    "Channels",
    "CutFramework",
    "PoreAnalysis",
    "PoreDiameters",
    "PoreVolume",
    "ProcessCIFInput",
    "RelaxBatch",
    "RelaxBatchInput",
    "RelaxInput",
    "RelaxationSettings",
    "RelaxedFramework",
    "SurfaceArea",
]

NITROGEN = 1.655
"""Probe radius for nitrogen, Å: half of the Lennard-Jones diameter 3.31 Å of the TraPPE model."""


class ProcessCIFInput(Model):
    """A structure as it was found, to be cleaned and taken apart."""

    name: str = Field(min_length=1, description="refcode, or the file's name")
    cif: str = Field(description="the CIF text; an empty one is refused like any other that is at fault")
    remove_guests: bool = Field(
        default=True, description="take out molecules that are bonded to no framework; refuse them otherwise"
    )


class CutFramework(Model):
    """An experimental framework and what it is made of."""

    name: str
    structure: ConceptualAtoms = Field(description="the framework without guests, all atoms of its cell")
    topology: str = Field(description="RCSR symbol of its net, of which there is one")
    net: str = Field(description="digest of the net's canonical form")
    catenation: Literal[1] = Field(default=1, description="interpenetrating nets; more than one is refused")
    metal_node: BuildingBlock = Field(description="the one kind of metal node")
    linker: BuildingBlock = Field(description="the one kind of organic linker")
    nodes: int = Field(ge=1, description="metal nodes in the cell")
    linkers: int = Field(ge=1, description="linkers in the cell")
    guests: Mapping[str, int] = Field(
        default_factory=dict, description="formulas of guests that were taken out, with counts"
    )
    metals: tuple[str, ...] = Field(description="metal elements, sorted")


class BuildInput(Model):
    """A combination to be put together."""

    combination: Combination
    max_rmsd: float = Field(
        default=0.3, gt=0, le=2.0, description="largest RMSD between a block and its place on the net (dimensionless)"
    )
    min_distance: float = Field(
        default=0.6, gt=0, le=1.0, description="shortest distance allowed, as a fraction of the sum of covalent radii"
    )
    max_atoms: int = Field(
        default=10_000, ge=1, description="most atoms in the cell; a framework that would have more is refused"
    )


class BuiltFramework(Model):
    """A framework as it was put together, not relaxed."""

    name: str
    structure: ConceptualAtoms = Field(description="all atoms of its cell")
    bonds: tuple[tuple[int, int, str], ...] = Field(description="bonds, from 0, with PORMAKE's types S, D, T, A")
    rmsd: float = Field(ge=0, description="largest RMSD between a block and its place, before the net was adjusted")
    shortest: float = Field(gt=0, description="shortest distance between atoms over the sum of their covalent radii")
    turned: int = Field(
        default=0, ge=0, description="linkers that were turned about their axis, to keep atoms from clashing"
    )


class RelaxationSettings(Model):
    """How a framework is relaxed."""

    model: str = Field(default="7net-0", min_length=1, description="machine-learned potential, by name")
    optimizer: Literal["fire", "lbfgs"] = Field(default="fire", description="FIRE or L-BFGS")
    cell: bool = Field(default=True, description="relax the cell too")
    fmax: float = Field(default=0.05, ge=1e-4, le=1.0, description="largest force at the end, eV/Å; also of the cell")
    steps: int = Field(
        default=500, ge=1, le=20_000, description="most steps; a framework that needs more is not_converged"
    )


class RelaxInput(Model):
    """A framework to be relaxed."""

    structure: ConceptualAtoms
    settings: RelaxationSettings = Field(default_factory=RelaxationSettings)


class RelaxedFramework(Model):
    """A framework at a minimum of the potential: converged, or it is none."""

    structure: ConceptualAtoms
    energy: float = Field(description="energy of the cell, eV")
    start_energy: float = Field(description="energy of the cell before, eV")
    force: float = Field(ge=0, description="largest force on an atom, eV/Å")
    stress: float | None = Field(
        default=None, ge=0, description="largest component of the stress, eV/Å³; none: cell fixed"
    )
    steps: int = Field(ge=0, description="steps that were taken")
    volume_change: float = Field(description="relative change of the cell's volume")
    model: str = Field(description="potential, with the version of its package and the digest of its weights")
    bonds_made: int = Field(default=0, ge=0, description="bonds that were not there before, of a cell")
    bonds_broken: int = Field(default=0, ge=0, description="bonds that are no longer there, of a cell")


class RelaxBatchInput(Model):
    """Several frameworks to be relaxed at once on one device."""

    structures: Mapping[str, ConceptualAtoms] = Field(min_length=1, description="by the name of their lanes")
    settings: RelaxationSettings = Field(default_factory=RelaxationSettings)


class RelaxBatch(Model):
    """What became of each framework of a batch."""

    relaxed: Mapping[str, RelaxedFramework]
    failed: Mapping[str, Failure] = Field(description="those that did not converge, or could not be computed")


class AnalysisSettings(Model):
    """How pores are measured. All of it is recorded with the result."""

    probe_radius: float = Field(default=NITROGEN, ge=0, le=10, description="radius of the probe, Å; default nitrogen")
    channel_radius: float = Field(default=NITROGEN, ge=0, le=10, description="radius that channels are found with, Å")
    samples: int = Field(default=2000, ge=50, le=1_000_000, description="Monte Carlo samples an atom, for the area")
    volume_samples: int = Field(
        default=50_000, ge=100, le=10_000_000, description="Monte Carlo samples, for the volume"
    )
    high_accuracy: bool = Field(default=True, description="Zeo++'s high accuracy; a retry goes without it")
    timeout_s: float = Field(
        default=120.0, ge=0.1, le=86_400, description="seconds after which one run of Zeo++ is ended"
    )


class AnalyzeInput(Model):
    """A framework whose pores are measured."""

    structure: ConceptualAtoms
    settings: AnalysisSettings = Field(default_factory=AnalysisSettings)


class PoreDiameters(Model):
    """Diameters of spheres, Å (T. F. Willems et al., Microporous Mesoporous Mater. 149 (2012) 134)."""

    lcd: float = Field(ge=0, description="largest cavity diameter: largest included sphere, Å")
    pld: float = Field(ge=0, description="pore-limiting diameter: largest free sphere, Å")
    lfpd: float = Field(ge=0, description="largest sphere along the free path, Å")


class SurfaceArea(Model):
    """Surface that the probe's center reaches, and what it would reach in closed pockets."""

    accessible: float = Field(ge=0, description="Å² a cell")
    non_accessible: float = Field(ge=0, description="Å² a cell")
    accessible_m2_g: float = Field(ge=0, description="m²/g")
    non_accessible_m2_g: float = Field(ge=0, description="m²/g")
    accessible_m2_cm3: float = Field(ge=0, description="m²/cm³")


class PoreVolume(Model):
    """Volume that the probe's center reaches, and what it would reach in closed pockets."""

    accessible: float = Field(ge=0, description="Å³ a cell")
    non_accessible: float = Field(ge=0, description="Å³ a cell")
    accessible_cm3_g: float = Field(ge=0, description="cm³/g")
    non_accessible_cm3_g: float = Field(ge=0, description="cm³/g")
    accessible_fraction: float = Field(ge=0, le=1, description="of the cell's volume")


class Channels(Model):
    """Systems of pores that a probe travels through the crystal, and the framework around them."""

    count: int = Field(ge=0, description="distinct channels in the cell")
    dimensionality: tuple[int, ...] = Field(description="1, 2 or 3 of each channel, largest first")
    pockets: int = Field(ge=0, description="closed voids in the cell")
    framework_dimensionality: int = Field(ge=0, le=3, description="of the bonded network of atoms")


class PoreAnalysis(Model):
    """What Zeo++ finds about the pores of a framework."""

    diameters: PoreDiameters
    area: SurfaceArea
    volume: PoreVolume
    channels: Channels
    density: float = Field(gt=0, description="g/cm³")
    settings: AnalysisSettings = Field(description="as it was run: high_accuracy is false after a retry without it")
    radii: Mapping[str, float] = Field(default_factory=dict, description="radius of each element in Zeo++, Å")
    jitter: float = Field(
        default=0.0, ge=0, description="atoms were moved by up to this along each axis, for the sake of Zeo++, Å"
    )
    retried: str = Field(default="", description="why there was a second try, without high accuracy; empty for none")
